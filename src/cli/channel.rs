//! One channel of a replay: messages of its input in, detections out.

use super::outputs::{OutputChannel, Outputs};
use super::report::Report;
use super::transforms::TransformFeed;
use crate::config::ChannelConfig;
use crate::error::{Error, Result};
use crate::node::account::Account;
use crate::node::channel::Channel;
use crate::transport::bag::BagMessage;
use crate::transport::door::{InputKind, Received, deliver};

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
        let kind = Channel::input_kind(config, type_name)?;
        let channel = Channel::open(config)?;
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
            type_name: self.channel.output_type(),
            class_names: config.kind.class_names().to_vec(),
            score_threshold: config.kind.lowest_score_threshold(),
        })?;
        Ok(())
    }

    /// Topic of the messages it takes.
    pub(super) fn input(&self) -> &str {
        &self.channel.config().input
    }

    /// Whether it takes the messages of topic number `topic`.
    pub(super) fn takes(&self, topic: usize) -> bool {
        self.topic == topic
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
    pub(super) fn process(
        &mut self,
        message: &BagMessage<'_>,
        transforms: Option<&TransformFeed>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let mut written = Ok(());
        deliver(self.kind, message.data, &mut |received| match received {
            Ok(received) => written = self.serve(&received, message, transforms, outputs),
            Err(error) => self.drop_frame(&error),
        });
        written
    }

    fn serve(
        &mut self,
        received: &Received<'_>,
        message: &BagMessage<'_>,
        transforms: Option<&TransformFeed>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let lookup = transforms.map(|feed| |to: &str, from: &str, at| feed.lookup(to, from, at));
        let lookup = lookup.as_ref().map(|lookup| lookup as _);
        let served = match self.channel.process(received, lookup) {
            Ok(served) => served,
            Err(error) => {
                self.drop_frame(&error);
                return Ok(());
            }
        };
        let frame = self.account.frames_in();
        self.account.add_served(served.report, served.detections.len());
        self.account.add_stamp(served.order);
        let alone = served.alone.as_ref();
        let is_first_alone = alone.is_some_and(|error| self.account.add_degraded(error) == 1);
        if let Some(error) = alone.filter(|_| is_first_alone) {
            tracing::warn!("channel {}: sweep served alone: {error}", served.config.name);
        }
        outputs.write(self.output, &served.header, message.log_time, served.detections)?;
        if let Some(pictures) = outputs.pictures(frame) {
            let canvas = served.draw(received)?;
            pictures.save(&served.config.name, frame, served.header.stamp, &canvas)?;
        }
        Ok(())
    }

    /// Counts a frame that is not served; the first of a reason is a warning.
    fn drop_frame(&mut self, error: &Error) {
        let name = &self.channel.config().name;
        match self.account.add_dropped(error) {
            1 => tracing::warn!("channel {name}: frame dropped: {error}"),
            count => tracing::debug!("channel {name}: frame dropped ({count}): {error}"),
        }
    }

    /// Adds the channel's account to the report of the replay.
    pub(super) fn add_to(&self, report: &mut Report) {
        let ChannelConfig { name, input, output, .. } = self.channel.config();
        let (device, engine) = (self.channel.device_name(), self.channel.engine_name());
        report.add_channel(name, [input, output, device, engine], &self.account);
    }
}
