//! What runs a channel: the slot its messages wait in, what serves them, and
//! the account of what became of them.

pub mod account;
pub mod channel;
pub mod input;
pub mod isolated;
mod server;
pub mod serving;
pub mod slot;
pub mod stamps;
mod supervisor;

pub use server::{CameraServer, LidarServer, Opened};
pub use supervisor::{Health, Supervisor};
