//! Frames of a channel that overlap: several are in flight.

use super::ReplayChannel;
use crate::detectors::FrameSet;
use crate::replay::context::{ReplayContext, lock};
use crate::replay::input::{ReplayInput, frame_input};
use det_post_ros::bag::{BagMessage, check_log_time};
use det_post_ros::middleware::deliver;
use det_post_types::{Result, Stamp};

impl ReplayChannel {
    /// Whether frames begin by [`Self::begin`] and end by [`Self::end`].
    pub(in crate::replay) fn overlaps(&mut self, wanted: usize) -> bool {
        self.is_batched() || self.max_in_flight(wanted) > 1
    }

    /// The most frames in flight of the wanted number.
    pub(in crate::replay) fn max_in_flight(&mut self, wanted: usize) -> usize {
        let is_single = self.is_batched() || self.frames.is_some();
        if is_single { 1 } else { self.channel.allow_in_flight(wanted).min(wanted) }
    }

    /// Whether its frames begin with those of other channels, one of each.
    pub(in crate::replay) fn is_batched(&self) -> bool {
        self.channel.detector_info().is_some_and(|info| info.is_batched)
    }

    /// The number of frames that have begun and not ended.
    pub(in crate::replay) fn num_in_flight(&self) -> usize {
        self.channel.num_in_flight()
    }

    /// Begins the frame of a message; returns false for a message of another topic.
    ///
    /// # Errors
    /// The reason why the frame is dropped; it is not counted yet.
    pub(in crate::replay) fn begin(
        &mut self,
        message: &BagMessage<'_>,
        context: &ReplayContext<'_>,
    ) -> Result<bool> {
        let [ReplayInput { topic, .. }] = &self.inputs[..] else { return Ok(false) };
        if !self.is_frame(message) {
            return Ok(false);
        }
        check_log_time(message.log_time)?;
        topic.check_type(message)?;
        let mut begun = Ok(());
        deliver(topic.kind, message.data, &mut |received| {
            begun = received.and_then(|received| {
                let feed = context.transforms.as_ref();
                let lookup =
                    feed.map(|feed| |to: &str, from: &str, at| lock(feed).lookup(to, from, at));
                let lookup = lookup.as_ref().map(|lookup| lookup as _);
                self.channel.submit(&mut [frame_input(&received)], lookup)
            });
        });
        self.forget_poses(context);
        begun.map(|()| true)
    }

    /// Queues the work of the frame that began last, where it waits for those of other channels.
    pub(in crate::replay) fn flush(&mut self) {
        self.channel.flush();
    }

    /// Ends the earliest frame that has begun, and passes it on.
    ///
    /// # Errors
    /// As [`Self::process`].
    pub(in crate::replay) fn end(
        &mut self,
        log_time: Stamp,
        context: &ReplayContext<'_>,
    ) -> Result<()> {
        let served = match self.channel.collect() {
            Some(Ok(served)) => served,
            Some(Err(error)) => return self.drop_frame(&error, log_time, context),
            None => return Ok(()),
        };
        if !context.owns(log_time) {
            return Ok(());
        }
        let inputs = FrameSet { stamp: served.header.stamp, inputs: &[], target_pose: None };
        context.pass_on((self.index, &mut self.account), &served, inputs, &|| log_time)
    }
}
