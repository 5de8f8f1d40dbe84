//! Channels, and the live node around them.
//!
//! A [`channel`] takes messages of a sensor and gives detections; replay and
//! the live node run the same. Around it, live:
//!
//! | file | what it holds |
//! |---|---|
//! | [`slot`], [`input`] | the newest message of an input, and what became of the others |
//! | [`worker`], [`outputs`], [`markers`] | the thread of a channel, and its topics |
//! | [`serving`] | what serves a channel's frames, as the rest sees it |
//! | [`live`] | the node: services, life cycle, start and end |
//! | [`parameters`], [`lifecycle`] | what its services answer |
//! | [`stamps`], [`clock`], [`transforms`] | time |
//! | [`calibration`], [`diagnostics`] | what is said of its health |

pub mod calibration;
pub mod clock;
pub mod diagnostics;
pub mod lifecycle;
pub mod live;
mod live_channel;
mod manual;
pub mod markers;
pub mod outputs;
pub mod parameters;
pub mod pictures;
pub mod transforms;
pub mod worker;

pub use manual::manual;
