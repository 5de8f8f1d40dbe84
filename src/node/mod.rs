//! Channels, and the live node around them.

pub mod account;
pub mod channel;
pub mod lifecycle;
pub mod pictures;
pub mod slot;
pub mod stamps;
