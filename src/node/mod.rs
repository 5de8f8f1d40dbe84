//! Channels, and the live node around them.

pub mod account;
pub mod channel;
pub mod clock;
pub mod diagnostics;
pub mod input;
pub mod lifecycle;
pub mod live;
mod live_channel;
pub mod markers;
pub mod outputs;
pub mod parameters;
pub mod pictures;
pub mod slot;
pub mod stamps;
pub mod transforms;
pub mod worker;
