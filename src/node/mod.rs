//! Channels, and the live node around them.

pub mod account;
pub mod channel;
pub mod pictures;
pub mod stamps;
