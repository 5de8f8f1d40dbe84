//! The live node around channels.
//!
//! | file | what it holds |
//! |---|---|
//! | [`worker`], [`outputs`], [`markers`] | the thread of a channel, and its topics |
//! | [`live`] | the node: services, life cycle, start and end |
//! | [`parameters`], [`lifecycle`] | what its services answer |
//! | [`logs`] | its log on `/rosout` |
//! | [`clock`], [`transforms`] | time |
//! | [`calibration`], [`diagnostics`], [`status`] | its health, as diagnostic statuses |

pub mod calibration;
pub mod clock;
pub mod diagnostics;
pub mod lifecycle;
pub mod live;
mod live_channel;
mod live_input;
pub mod logs;
mod manual;
pub mod markers;
pub mod outputs;
pub mod parameters;
pub mod status;
pub mod transforms;
pub mod worker;

pub use manual::manual;
