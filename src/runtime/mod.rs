//! Running a channel: inputs → frames → a supervised detector → detections, with counters
//! of all messages and frames.
//!
//! | module | content |
//! |---|---|
//! | [`channel`] | from frames to detections, in a replay and in the live node |
//! | [`message_buffer`], [`synchronizer`], `frame_builder` | from messages to frames |
//! | [`arrivals`], [`slot`], `input` | messages of a middleware in memory of the slot, the newest frame of live inputs, and the counters of their messages |
//! | [`video_decoder`] | video of an input, on the CPU or on the engines of a GPU |
//! | `unpacking` | clouds that are no `PointCloud2` on the wire, unpacked ahead of the slot |
//! | [`supervisor`] | the detector, which is built again after a failure of its device |
//! | [`isolated`] | a detector in a separate process |
//! | `metrics` | counters for Prometheus |
//! | [`placement`] | channels of device `auto` on several GPUs |
//! | `in_flight`, `frame_messages` | frames between submission and collection, and their messages |
//! | `frame_inputs` | kinds and corrections of the inputs of a frame |
//! | `account`, `input_times`, `spread`, `stamps`, `serving` | counters, times, order of stamps, health |
//! | `poses` | poses and motions of the sensors of a frame |

pub(crate) mod account;
pub mod arrivals;
pub mod channel;
mod decoding;
pub(crate) mod frame_builder;
pub(crate) mod frame_inputs;
pub(crate) mod frame_messages;
pub(crate) mod in_flight;
pub(crate) mod input;
pub(crate) mod input_times;
pub mod isolated;
pub mod message_buffer;
pub(crate) mod metrics;
pub mod placement;
pub(crate) mod poses;
pub(crate) mod serving;
pub mod slot;
pub(crate) mod spread;
pub(crate) mod stamps;
pub mod supervisor;
pub mod synchronizer;
pub(crate) mod unpacking;
pub mod video_decoder;

pub use frame_builder::Sequence;
pub use stamps::StampOrder;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::ChannelConfig;
use crate::detectors::{self, Detector};
use det_post_types::{DeviceChoice, Result};

/// Locks a mutex whose value a panic leaves whole.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds the detector of a channel on a device.
pub type Factory =
    Arc<dyn Fn(&ChannelConfig, DeviceChoice) -> Result<Box<dyn Detector>> + Send + Sync>;

/// Builds the detector of a configuration, in a separate process if the channel is
/// isolated, else in this one.
///
/// That process is the program of this one, started again with the argument `isolated`. A
/// program other than `det_post` gives a [`Factory`] that calls [`isolated::Proxy::start`] with
/// the path of `det_post`.
///
/// # Errors
/// Returns the errors of [`detectors::open`] and [`isolated::Proxy::start`].
pub fn open_detector(config: &ChannelConfig, device: DeviceChoice) -> Result<Box<dyn Detector>> {
    if config.is_isolated {
        let proxy = isolated::Proxy::start(&isolated::this_program(), config, device)?;
        return Ok(Box::new(proxy));
    }
    detectors::open(config, device)
}
