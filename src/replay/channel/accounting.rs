//! What is counted of a channel: messages and frames that are refused, and its summary.

use super::ReplayChannel;
use crate::config::{ChannelConfig, InputConfig};
use crate::replay::context::ReplayContext;
use crate::replay::frame::ReplayFrame;
use crate::replay::input::ReplayInput;
use crate::replay::report::{ChannelSummary, InputReport, Report};
use det_post_types::{Error, FRAME_SPANS, Result, Stamp};

impl ReplayChannel {
    /// Counts a message of several inputs that cannot be decoded.
    pub(super) fn refuse(
        &mut self,
        input: usize,
        error: &Error,
        log_time: Stamp,
        context: &ReplayContext<'_>,
    ) {
        if !context.owns(log_time) {
            return;
        }
        let ChannelConfig { name, inputs, .. } = self.channel.config();
        let topic = &inputs[input].topic;
        match self.inputs[input].totals.add_refused(error) {
            1 => tracing::warn!("channel {name}: message of {topic} refused: {error}"),
            count => {
                tracing::debug!("channel {name}: message of {topic} refused ({count}): {error}")
            }
        }
    }

    /// Counts a frame that is dropped and passes its error on; the first of a reason is a
    /// warning.
    ///
    /// # Errors
    /// As [`Self::end`].
    pub(in crate::replay) fn drop_frame(
        &mut self,
        error: &Error,
        log_time: Stamp,
        context: &ReplayContext<'_>,
    ) -> Result<()> {
        if !context.owns(log_time) {
            return Ok(());
        }
        let config = self.channel.config();
        let number = self.account.frames_in();
        let name = &config.name;
        tracing::trace!(target: FRAME_SPANS, channel = name, dropped = error.kind().reason());
        match self.account.add_dropped(error, 1) {
            1 => tracing::warn!("channel {name}: frame dropped: {error}"),
            count => tracing::debug!("channel {name}: frame dropped ({count}): {error}"),
        }
        context.call(self.index, || ReplayFrame {
            channel: self.index,
            config,
            number,
            num_messages_read: context.num_messages_read(),
            result: Err(error),
        })
    }

    /// Adds the channel's account to the report of the replay.
    pub(in crate::replay) fn add_to(&self, report: &mut Report) {
        let ChannelConfig { name, inputs, output, .. } = self.channel.config();
        let info = self.channel.detector_info();
        let of_input = |(index, (input, config)): (usize, (&ReplayInput, &InputConfig))| {
            let (topic, totals) = (config.topic.clone(), input.totals.clone());
            InputReport { topic, totals, times: self.account.times_of(index) }
        };
        let several = self.inputs.iter().zip(inputs).enumerate();
        let several = several.filter(|_| self.inputs.len() > 1);
        let summary = ChannelSummary {
            input: inputs.iter().map(|input| input.topic.as_str()).collect::<Vec<_>>().join(", "),
            output: output.clone(),
            device: info.map_or("none", |info| &info.device_name).to_owned(),
            engine: info.map_or("none", |info| &info.engine_name).to_owned(),
            inputs: several.map(of_input).collect(),
            ..ChannelSummary::new(&self.account)
        };
        report.channels.insert(name.clone(), summary);
    }
}
