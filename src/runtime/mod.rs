//! What runs a channel: inputs → frames → a supervised detector → detections,
//! and the account of what became of them.
//!
//! | file | what it holds |
//! |---|---|
//! | [`channel`] | a channel: frames in, detections out; replay and the live node run the same |
//! | [`message_buffer`], [`synchronizer`], `assembler` | messages to frames |
//! | [`slot`], `input` | the newest frame of live inputs, and what became of their messages |
//! | [`supervisor`] | the detector, made again when its device fails |
//! | [`isolated`] | a detector in a process of its own |
//! | `account`, `stamps`, `serving` | counters, time, health |

pub(crate) mod account;
pub(crate) mod assembler;
pub mod channel;
pub(crate) mod input;
pub mod isolated;
pub mod message_buffer;
pub(crate) mod serving;
pub mod slot;
pub(crate) mod stamps;
pub mod supervisor;
pub mod synchronizer;

use std::sync::Arc;

use crate::config::ChannelConfig;
use crate::detectors::{self, Detector};
use crate::error::Result;
use crate::types::DeviceChoice;

/// Makes the detector of a channel on a device.
pub type Factory =
    Arc<dyn Fn(&ChannelConfig, DeviceChoice) -> Result<Box<dyn Detector>> + Send + Sync>;

/// Makes the detector that a channel is configured for: in a process of its own
/// where the configuration says so, else in this one.
///
/// # Errors
/// Those of [`detectors::open`] and [`isolated::Proxy::start`].
pub fn open_detector(config: &ChannelConfig, device: DeviceChoice) -> Result<Box<dyn Detector>> {
    if config.is_isolated {
        let proxy = isolated::Proxy::start(&isolated::this_program(), config, device)?;
        return Ok(Box::new(proxy));
    }
    detectors::open(config, device)
}
