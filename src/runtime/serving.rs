//! The health, device and engine of a channel, for diagnostics.

use super::channel::Channel;
use super::supervisor::Health;

/// The health, device and engine of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// The state of the channel.
    pub health: Health,
    /// The number of failures of the device.
    pub num_failures: u64,
    /// The message of the last failure.
    pub last_failure: Option<String>,
    /// The device; `none` after a failure.
    pub device: String,
    /// The engine; `none` after a failure of the device.
    pub engine: String,
    /// The process of the detector, if it is not the node's.
    pub process_id: Option<u32>,
}

impl Serving {
    /// The current state of a channel.
    pub fn of(channel: &Channel) -> Self {
        let (health, num_failures) = channel.health();
        let info = channel.detector_info();
        Self {
            health,
            num_failures,
            last_failure: channel.last_failure().map(str::to_owned),
            device: info.map_or("none", |info| &info.device_name).to_owned(),
            engine: info.map_or("none", |info| &info.engine_name).to_owned(),
            process_id: info.and_then(|info| info.process_id),
        }
    }

    /// Updates the state. Called after every frame, which costs a comparison unless the
    /// health has changed.
    pub fn refresh(&mut self, channel: &Channel) {
        if (self.health, self.num_failures) != channel.health() {
            *self = Self::of(channel);
        }
    }
}
