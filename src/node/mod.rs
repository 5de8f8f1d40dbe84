//! The live node around channels.
//!
//! | file | what it holds |
//! |---|---|
//! | [`worker`], [`outputs`], [`markers`] | the thread of a channel, and its topics |
//! | [`live`] | the node: services, life cycle, start and end |
//! | [`parameters`], [`lifecycle`] | what its services answer |
//! | `bond` | the bond with a lifecycle manager of Nav2 |
//! | `endpoints` | the quality of service of its topics |
//! | [`logs`] | its log on `/rosout` |
//! | [`clock`], [`transforms`] | time |
//! | [`calibration`], [`diagnostics`], [`status`] | its health, as diagnostic statuses |

mod bond;
pub mod calibration;
pub mod clock;
pub mod diagnostics;
mod endpoints;
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
