//! One channel of a replay: messages of its input in, detections out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::outputs::{OutputChannel, Outputs};
use super::report::Report;
use super::transforms::TransformFeed;
use crate::config::ChannelConfig;
use crate::detectors::{FrameInput, FrameSet};
use crate::device::PayloadMemory;
use crate::error::{Error, Result};
use crate::node::pictures;
use crate::runtime::account::Account;
use crate::runtime::channel::{Channel, frame_input};
use crate::transport::bag::{BagMessage, check_log_time};
use crate::transport::door::{InputKind, deliver};
use crate::types::Stamp;

/// What the channels of a replay share. At full speed nobody else holds its
/// locks; at a pace they are held to look up and to write, never to work.
pub(super) struct Around {
    pub(super) outputs: Mutex<Outputs>,
    pub(super) transforms: Option<Mutex<TransformFeed>>,
}

impl Around {
    /// Takes in the transforms up to `log_time`.
    pub(super) fn advance_to(&self, log_time: Stamp) {
        if let Some(feed) = &self.transforms {
            lock(feed).advance_to(log_time);
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A channel and where its messages come from and go to.
pub(super) struct ReplayChannel {
    channel: Channel,
    kind: InputKind,
    topic: usize,
    output: usize,
    account: Account,
}

impl ReplayChannel {
    /// Loads the networks of a channel whose input is topic number `topic` of
    /// the recording, of type `type_name`.
    ///
    /// # Errors
    /// `Config` when the channel cannot take that type, `Model` when a network
    /// cannot be loaded or does not fit.
    pub(super) fn open(config: &ChannelConfig, topic: usize, type_name: &str) -> Result<Self> {
        let channel = Channel::open(config)?;
        let kind = channel.input_kind(0, type_name)?;
        Ok(Self { channel, kind, topic, output: 0, account: Account::new() })
    }

    /// Announces the channel's outputs.
    ///
    /// # Errors
    /// `Io` when they cannot be written.
    pub(super) fn announce(&mut self, outputs: &mut Outputs) -> Result<()> {
        let config = self.channel.config();
        self.output = outputs.add_channel(OutputChannel {
            name: config.name.clone(),
            topic: config.output.clone(),
            output_type: self.channel.output_type(),
            class_names: config.kind.class_names().to_vec(),
            score_threshold: config.kind.lowest_score_threshold(),
        })?;
        Ok(())
    }

    /// Topic of the messages it takes.
    pub(super) fn input(&self) -> &str {
        &self.channel.config().inputs[0].topic
    }

    /// Number of the topic whose messages it takes.
    pub(super) fn topic(&self) -> usize {
        self.topic
    }

    /// Runs the networks once, so that the first frame finds them warm.
    ///
    /// # Errors
    /// Those of the pipeline.
    pub(super) fn warm_up(&mut self) -> Result<()> {
        self.channel.warm_up()
    }

    /// Whether its frames want to know where the sensor stood.
    pub(super) fn wants_transforms(&self) -> bool {
        self.channel.wants_transforms()
    }

    /// Detects objects in a message and writes them. A message that cannot be
    /// served is dropped, counted and named in the log.
    ///
    /// # Errors
    /// `Io` when an output cannot be written; nothing else ends the replay.
    pub(super) fn process(&mut self, message: &BagMessage<'_>, around: &Around) -> Result<()> {
        if let Err(error) = check_log_time(message.log_time) {
            self.drop_frame(&error);
            return Ok(());
        }
        let mut written = Ok(());
        deliver(self.kind, message.data, &mut |received| match received {
            Ok(received) => {
                let inputs = [frame_input(&received)];
                written = self.serve(inputs, &|| message.log_time, around);
            }
            Err(error) => self.drop_frame(&error),
        });
        written
    }

    /// Detects objects in a message that was decoded; `log_time` says, once
    /// they are found, at what time they are recorded.
    ///
    /// # Errors
    /// As [`Self::process`].
    pub(super) fn serve(
        &mut self,
        mut inputs: [Option<FrameInput<'_>>; 1],
        log_time: &dyn Fn() -> Stamp,
        around: &Around,
    ) -> Result<()> {
        let feed = around.transforms.as_ref();
        let lookup = feed.map(|feed| |to: &str, from: &str, at| lock(feed).lookup(to, from, at));
        let lookup = lookup.as_ref().map(|lookup| lookup as _);
        let served = match self.channel.process(&mut inputs, lookup) {
            Ok(served) => served,
            Err(error) => {
                self.drop_frame(&error);
                return Ok(());
            }
        };
        let frame = self.account.frames_in();
        self.account.add_served(served.report, served.detections.len());
        self.account.add_stamp(served.order);
        let alone = served.degraded.as_ref();
        let is_first_alone = alone.is_some_and(|error| self.account.add_degraded(error) == 1);
        if let Some(error) = alone.filter(|_| is_first_alone) {
            tracing::warn!("channel {}: sweep served alone: {error}", served.config.name);
        }
        let mut outputs = lock(&around.outputs);
        outputs.write(self.output, &served.header, log_time(), served.detections)?;
        if outputs.wants_picture(frame) {
            let drawn = FrameSet { stamp: served.header.stamp, inputs: &inputs };
            let reference = served.config.sync.reference;
            let canvas = pictures::draw(&drawn, reference, served.detections, served.config)?;
            outputs.save_picture(&served.config.name, frame, served.header.stamp, &canvas)?;
        }
        Ok(())
    }

    /// Memory for messages to be served from.
    pub(super) fn payload_memory(&self) -> PayloadMemory {
        self.channel.payload_memory()
    }

    /// What the messages of its input are.
    pub(super) fn kind(&self) -> InputKind {
        self.kind
    }

    /// The account of its frames.
    pub(super) fn account_mut(&mut self) -> &mut Account {
        &mut self.account
    }

    /// Counts a frame that is not served; the first of a reason is a warning.
    pub(super) fn drop_frame(&mut self, error: &Error) {
        let name = &self.channel.config().name;
        match self.account.add_dropped(error) {
            1 => tracing::warn!("channel {name}: frame dropped: {error}"),
            count => tracing::debug!("channel {name}: frame dropped ({count}): {error}"),
        }
    }

    /// Adds the channel's account to the report of the replay.
    pub(super) fn add_to(&self, report: &mut Report) {
        let ChannelConfig { name, inputs, output, .. } = self.channel.config();
        let info = self.channel.detector_info();
        let device = info.map_or("none", |info| &info.device_name);
        let engine = info.map_or("none", |info| &info.engine_name);
        report.add_channel(name, [&inputs[0].topic, output, device, engine], &self.account);
    }
}
