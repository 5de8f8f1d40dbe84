//! What serves the frames of a channel, as the rest of the node sees it.

use super::channel::Channel;
use super::supervisor::Health;

/// What serves the frames of a channel, and how it is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// How it is doing.
    pub health: Health,
    /// Failures of the device so far.
    pub num_failures: u64,
    /// The last of them, in words.
    pub last_failure: Option<String>,
    /// Where the frames run; `none` while nothing serves them.
    pub device: String,
    /// What runs the networks; `none` while nothing does.
    pub engine: String,
    /// The process that serves the frames, where it is not the node's.
    pub process_id: Option<u32>,
}

impl Serving {
    /// What serves the frames of a channel now.
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

    /// Takes over what has changed. Called after every frame: what serves them
    /// changes only with a failure or with the end of one.
    pub fn refresh(&mut self, channel: &Channel) {
        if (self.health, self.num_failures) != channel.health() {
            *self = Self::of(channel);
        }
    }
}
