//! The times of a frame, published for debugging as Autoware's nodes do.

use std::time::{Duration, Instant};

use super::endpoints::{DEBUG_TIMES_QOS, OutputTopics};
use super::publisher::GatedPublisher;
use det_post_ros::messages::{Float64Stamped, PublishedTime};
use det_post_ros::middleware::Qos;
use det_post_types::{Header, Result, Stamp};

/// The publishers of times; each publishes while it has a subscriber.
pub struct DebugTimes {
    /// Cyclic time, processing time, latency.
    durations: Option<[GatedPublisher; 3]>,
    published: Option<GatedPublisher>,
    /// When the previous frame was published.
    previous: Option<Instant>,
}

impl DebugTimes {
    /// Announces the topics that are configured through `advertise`, which takes topic, type
    /// and quality of service. Times that cannot be announced, such as of messages that the
    /// middleware does not know, are left out with a warning: detections do not depend on them.
    pub fn open(
        topics: &OutputTopics,
        mut advertise: impl FnMut(&str, &'static str, Qos) -> Result<GatedPublisher>,
    ) -> Self {
        let mut number =
            |topic: &String| advertise(topic, topics.debug_times_type.type_name(), DEBUG_TIMES_QOS);
        let durations = topics.debug_times.as_ref().map(|[cyclic, processing, latency]| {
            Ok([number(cyclic)?, number(processing)?, number(latency)?])
        });
        let published = topics.published_time.as_ref();
        let published =
            published.map(|topic| advertise(topic, PublishedTime::TYPE, DEBUG_TIMES_QOS));
        Self {
            durations: durations.and_then(or_left_out),
            published: published.and_then(or_left_out),
            previous: None,
        }
    }

    /// Publishes the times of a frame that was published at `now`: nothing when the time is
    /// unknown. `message` is scratch memory.
    ///
    /// # Errors
    /// `Middleware` when a time could not be handed over.
    pub fn publish(
        &mut self,
        header: &Header<'_>,
        processing: Duration,
        now: Option<Stamp>,
        message: &mut Vec<u8>,
    ) -> Result<()> {
        let instant = Instant::now();
        let cycle = self.previous.replace(instant).map(|previous| instant - previous);
        let Some(now) = now else { return Ok(()) };
        let milliseconds = [
            cycle.unwrap_or_default().as_secs_f64() * 1e3,
            processing.as_secs_f64() * 1e3,
            now.seconds_since(header.stamp) * 1e3,
        ];
        for (publisher, data) in self.durations.iter_mut().flatten().zip(milliseconds) {
            if publisher.num_subscribers() > 0 {
                Float64Stamped { stamp: now, data }.encode(message)?;
                publisher.publish(message)?;
            }
        }
        if let Some(publisher) = self.published.as_mut().filter(|of| of.num_subscribers() > 0) {
            PublishedTime { header: *header, published: now }.encode(message)?;
            publisher.publish(message)?;
        }
        Ok(())
    }
}

/// What was advertised; otherwise `None` and a warning.
fn or_left_out<T>(advertised: Result<T>) -> Option<T> {
    advertised
        .inspect_err(|error| tracing::warn!("times for debugging are not published: {error}"))
        .ok()
}
