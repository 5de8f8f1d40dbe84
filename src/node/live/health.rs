//! Diagnostics of the live node.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::Shared;
use crate::node::channel_state::lock;
use crate::node::live_channel::LiveChannel;
use crate::node::logs::Logs;
use crate::node::status::StatusBuilder;
use crate::runtime::metrics::to_prometheus;
use det_post_ros::LifecycleState;
use det_post_ros::messages::{DiagnosticArray, DiagnosticLevel, DiagnosticStatus};
use det_post_ros::middleware::Publisher;
use det_post_types::Header;

impl Shared {
    /// Publishes diagnostics until the node ends: all statuses once in `period`, and those of
    /// the time per frame, where they are configured, at their own interval. Metrics are passed
    /// on with all statuses.
    pub(super) fn publish_diagnostics(&self, mut publisher: Box<dyn Publisher>, period: Duration) {
        let mut bytes = Vec::new();
        let mut publish = |status: &[DiagnosticStatus]| {
            let header = Header { stamp: self.clock.now().unwrap_or_default(), frame_id: "" };
            let published = DiagnosticArray { header, status }
                .encode(&mut bytes)
                .and_then(|()| publisher.publish(&bytes));
            if let Err(error) = published {
                tracing::warn!("diagnostics: {error}");
            }
        };
        let interval = self.processing_time_interval();
        let start = Instant::now();
        let (mut due, mut times_due) = (start + period, interval.map(|interval| start + interval));
        loop {
            let next = times_due.map_or(due, |times_due| times_due.min(due));
            let timeout = next.saturating_duration_since(Instant::now());
            let ends = lock(&self.ends);
            let (ends, _) = self
                .ended
                .wait_timeout_while(ends, timeout, |ends| !*ends)
                .unwrap_or_else(PoisonError::into_inner);
            if *ends {
                return;
            }
            drop(ends);
            let now = Instant::now();
            if let (Some(at), Some(interval)) = (&mut times_due, interval)
                && now >= *at
            {
                // Intervals that passed unused are not made up for.
                *at = (*at + interval).max(now);
                let statuses = self.processing_time_statuses();
                if !statuses.is_empty() {
                    publish(&statuses);
                }
            }
            if now >= due {
                due = (due + period).max(now);
                publish(&self.statuses());
                if let Ok(channels) = self.channels.try_lock() {
                    self.pass_metrics(&channels);
                }
            }
        }
    }

    /// Passes the metrics of channels on, if there are channels and a receiver.
    pub(super) fn pass_metrics(&self, channels: &[LiveChannel]) {
        if channels.is_empty() {
            return;
        }
        if let Some(on_metrics) = &mut *lock(&self.on_metrics) {
            let channels: Vec<_> = channels.iter().map(LiveChannel::metrics).collect();
            on_metrics(&to_prometheus(&channels));
        }
    }

    /// Unloads all channels, whose last metrics are passed on.
    pub(super) fn unload(&self) {
        let mut channels = lock(&self.channels);
        let now = Instant::now();
        for channel in channels.iter_mut() {
            channel.sum_up(now);
        }
        self.pass_metrics(&channels);
        channels.clear();
    }

    /// The shortest interval of the statuses of the time per frame.
    fn processing_time_interval(&self) -> Option<Duration> {
        let config = self.parameters.config();
        let limits = config.channels.iter().filter_map(|channel| channel.live.processing_time);
        limits.map(|limits| limits.interval).min()
    }

    fn processing_time_statuses(&self) -> Vec<DiagnosticStatus> {
        let Ok(channels) = self.channels.try_lock() else { return Vec::new() };
        let node = self.node.name();
        channels.iter().filter_map(|channel| channel.processing_time_status(node)).collect()
    }

    fn statuses(&self) -> Vec<DiagnosticStatus> {
        let node = self.name.trim_start_matches('/');
        let mut statuses = vec![self.node_status(node)];
        let mut silent = Vec::new();
        // Locked while channels start or stop, which the status of the node shows.
        if let Ok(mut channels) = self.channels.try_lock() {
            let graph = lock(&self.graph).summary();
            let now = Instant::now();
            for channel in channels.iter_mut() {
                let topics = channel.take_without_publisher(now).into_iter();
                // A peer that does not fit is in the log already.
                let topics = topics.filter(|(topic, _)| !graph.events.contains_key(topic));
                silent.extend(topics.map(|of| (channel.name().to_owned(), of)));
                statuses.extend(
                    channel.statuses(node, |topic| graph.topic_status(topic, self.counts_losses)),
                );
            }
        }
        self.warn_of_silent(&silent);
        statuses
    }

    /// Names topics that nothing publishes, each with its channel and type.
    fn warn_of_silent(&self, silent: &[(String, (String, &'static str))]) {
        for (channel, (topic, type_name)) in silent {
            // It is locked while the node changes its state.
            let middleware = self.middleware.try_lock();
            let others = middleware.ok().and_then(|of| of.published_topics(type_name));
            tracing::warn!("channel {channel}: {}", silence(topic, type_name, others.as_deref()));
        }
    }

    fn node_status(&self, node: &str) -> DiagnosticStatus {
        let config = self.parameters.config();
        let mut status = StatusBuilder::new(format!("{node}: node"), self.middleware_name);
        let state = self.lifecycle.state();
        let graph = lock(&self.graph);
        for part in &graph.lost_parts {
            status
                .note(DiagnosticLevel::Error, &format!("a part of the middleware is lost: {part}"));
        }
        if let Some(failure) = &graph.failure {
            status.note(DiagnosticLevel::Error, failure);
        }
        for (topic, event) in &graph.events {
            status.note(DiagnosticLevel::Warn, &format!("{topic}: {event}"));
        }
        if state != LifecycleState::Active {
            status.note(DiagnosticLevel::Warn, &format!("the node is {}", state.label()));
        }
        if self.clock.is_simulated() && self.clock.now().is_none() {
            status
                .note(DiagnosticLevel::Warn, "use_sim_time is set, and no /clock has arrived yet");
        }
        let num_jumps = self.clock.num_new_jumps();
        if num_jumps > 0 {
            status.note(DiagnosticLevel::Warn, &format!("/clock went back, {num_jumps} times"));
        }
        let transforms = self.transforms.account();
        if let Some(refused) = &transforms.refused {
            let message = format!("{} transforms refused: {}", refused.count, refused.first);
            status.note(DiagnosticLevel::Warn, &message);
        }
        status.otherwise(state.label().into());
        status.value("state", state.label());
        status.value("middleware", self.middleware_name);
        status.value("device", config.device.to_string());
        status.value("channels", config.channels.len().to_string());
        status.value("refused_requests", graph.num_refused_requests.to_string());
        status.value("transforms", transforms.num_inserted.to_string());
        let lost = transforms.losses;
        status.value("transform_samples_dropped", lost.num_samples_dropped.to_string());
        status.value("transform_frames_dropped", lost.num_frames_dropped.to_string());
        status.value("transforms_refused_for_room", lost.num_transforms_refused.to_string());
        status.value("log_entries_lost", Logs::process().num_lost().to_string());
        status.value("clock_jumps", self.clock.num_jumps().to_string());
        status.into_inner()
    }
}

/// What is known of a topic that nothing publishes; `others` are the topics of its type.
fn silence(topic: &str, type_name: &str, others: Option<&[String]>) -> String {
    let others = match others {
        None => String::new(),
        Some([]) => "; no topic of this type is published".to_owned(),
        Some([only]) => format!("; did you mean {only}, the only topic of this type?"),
        Some(others) => format!("; topics of this type: {}", others.join(" ")),
    };
    format!("nothing publishes {topic} ({type_name}) yet{others}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_names_the_topics_of_the_type() {
        let others = ["/a", "/b"].map(str::to_owned);
        let text = |others: Option<&[String]>| silence("/x", "p/msg/T", others);
        assert_eq!(text(None), "nothing publishes /x (p/msg/T) yet");
        assert!(text(Some(&[])).ends_with("; no topic of this type is published"));
        assert!(
            text(Some(&others[..1])).ends_with("; did you mean /a, the only topic of this type?")
        );
        assert!(text(Some(&others)).ends_with("; topics of this type: /a /b"));
    }
}
