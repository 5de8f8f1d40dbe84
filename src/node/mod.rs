//! The live node around channels.
//!
//! | file | what it holds |
//! |---|---|
//! | `worker`, `outputs`, `markers`, `debug_image` | the thread of a channel, and its topics |
//! | `live` | the node: services, life cycle, start and end |
//! | `parameters`, `lifecycle` | what its services answer |
//! | `clock`, `transforms` | time |
//! | `calibration`, `diagnostics`, `status` | its health, as diagnostic statuses |

mod calibration;
mod clock;
mod debug_image;
mod diagnostics;
mod lifecycle;
mod live;
mod live_channel;
mod live_input;
mod manual;
mod markers;
mod outputs;
mod parameters;
mod status;
mod transforms;
mod worker;

pub use lifecycle::Change;
pub use live::{DIAGNOSTICS_TOPIC, LiveNode};
pub use manual::manual;
