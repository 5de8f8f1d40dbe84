//! Doors: recordings today; messages on the wire and transforms.

pub mod bag;
pub mod cdr;
pub mod messages;
pub mod tf;
