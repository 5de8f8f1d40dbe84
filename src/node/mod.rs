//! The live node around channels.
//!
//! | file | what it holds |
//! |---|---|
//! | `worker`, `outputs`, `publisher`, `markers`, `debug_image`, `debug_times` | the thread of a channel, and its topics |
//! | `live` | the node: services (a parameter that is set reaches the channels there), life cycle, start and end |
//! | `live_channel`, `channel_state` | a channel from outside its thread: what changes and what it reports |
//! | `live_input` | its subscriptions |
//! | `parameters`, `lifecycle` | what its services answer |
//! | `bond` | the bond with a lifecycle manager of Nav2 |
//! | `endpoints` | its topics and their quality of service |
//! | `logs` | its log on `/rosout` |
//! | `clock`, `transforms` | time |
//! | `calibration`, `diagnostics`, `frame_window`, `autoware_status`, `status` | its health, as diagnostic statuses |

mod autoware_status;
mod bond;
mod calibration;
mod channel_state;
mod clock;
mod debug_image;
mod debug_times;
mod diagnostics;
mod endpoints;
mod frame_window;
mod lifecycle;
mod live;
mod live_channel;
mod live_input;
mod logs;
mod manual;
mod outputs;
mod parameters;
mod publisher;
mod status;
mod transforms;
mod worker;

pub use endpoints::DIAGNOSTICS_TOPIC;
pub use lifecycle::Change;
pub use live::{LiveNode, LiveOptions, OnMetrics};
#[cfg(feature = "cli")]
pub(crate) use logs::write_field;
pub use logs::{LogRecord, Logs, ROSOUT_TOPIC, Rosout};
pub use manual::manual_tables;
