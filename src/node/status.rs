//! Construction of a diagnostic status, and the status of a topic in the graph.

use std::collections::BTreeMap;

use crate::runtime::account::Reason;
use crate::runtime::input::InputSummary;
use det_post_ros::messages::{DiagnosticLevel, DiagnosticStatus};
use det_post_types::text::{LineBreaks, shown};

/// The status of a topic, as the middleware reports it.
#[derive(Clone, Copy, Debug, Default)]
pub struct TopicStatus<'a> {
    /// The reason why its messages cannot arrive.
    pub event: Option<&'a str>,
    /// Total of messages that were lost before they reached the node; `None` when
    /// the middleware does not count them.
    pub num_lost: Option<u64>,
    /// Total of messages that are missing by the stamps of the others.
    pub num_missing: u64,
    /// The part of it since the last summary.
    pub num_missing_now: u64,
}

impl TopicStatus<'_> {
    /// Adds the values about lost messages.
    pub(super) fn add_losses(&self, status: &mut StatusBuilder) {
        let num_lost = self.num_lost.map_or("unknown".into(), |num| num.to_string());
        status.value("lost_in_middleware", num_lost);
        status.value("missing_by_stamps", self.num_missing.to_string());
    }
}

/// The reason why no messages arrive. A message that does not arrive whole leaves
/// no trace, so publishers that seem silent may not be.
pub(super) fn cause_of_silence(num_publishers: usize, topic: &TopicStatus<'_>) -> String {
    let cause = match (num_publishers, topic) {
        (_, TopicStatus { event: Some(event), .. }) => return (*event).to_owned(),
        (0, _) => "no publisher is matched".into(),
        (n, TopicStatus { num_lost: Some(lost @ 1..), .. }) => {
            format!("{n} matched publishers; {lost} messages were lost on the way so far")
        }
        (n, _) => {
            format!("{n} matched publishers are silent, or their messages are lost on the way")
        }
    };
    let missing = match topic.num_missing {
        0 if num_publishers == 0 || topic.num_lost.is_some() => return cause,
        0 => String::new(),
        n => format!("{n} messages are missing by their stamps so far: "),
    };
    format!("{cause}; {missing}{BUFFERS}")
}

/// What to read about messages that are lost on the way.
pub(super) const BUFFERS: &str = "see Socket buffers in docs/ros2.md";

/// A status under construction: the worst level and its messages.
pub struct StatusBuilder(DiagnosticStatus);

impl StatusBuilder {
    /// A status without a problem.
    pub fn new(name: String, hardware_id: &str) -> Self {
        let hardware_id = hardware_id.to_owned();
        Self(DiagnosticStatus { name, hardware_id, ..DiagnosticStatus::default() })
    }

    /// Adds a problem.
    pub fn note(&mut self, level: DiagnosticLevel, message: &str) {
        if level > self.0.level {
            self.0.message.clear();
        }
        if level >= self.0.level {
            if !self.0.message.is_empty() {
                self.0.message.push_str("; ");
            }
            self.0.message.push_str(message);
        }
        self.0.level = self.0.level.max(level);
    }

    /// Sets the message for the case without a problem.
    pub fn otherwise(&mut self, message: String) {
        if self.0.message.is_empty() {
            self.0.message = message;
        }
    }

    /// Adds a value.
    pub fn value(&mut self, key: &str, value: impl Into<String>) {
        self.0.values.push((key.to_owned(), value.into()));
    }

    /// Adds the messages that were refused since the last summary.
    pub(super) fn note_refused(&mut self, input: &InputSummary) {
        if input.num_refused_now > 0 {
            let reasons: Vec<&str> = input.totals.refused.keys().copied().collect();
            let reasons = reasons.join(", ");
            let message = format!("{} messages refused: {reasons}", input.num_refused_now);
            self.note(DiagnosticLevel::Warn, &message);
        }
    }

    /// Adds the count of each reason.
    pub(super) fn reasons(&mut self, key: &str, reasons: &BTreeMap<&'static str, Reason>) {
        for (name, reason) in reasons {
            self.value(&format!("{key}.{name}"), reason.count.to_string());
        }
    }

    /// The status, with unsafe characters of quoted texts escaped.
    pub fn into_inner(self) -> DiagnosticStatus {
        let DiagnosticStatus { level, name, message, hardware_id, values } = self.0;
        let line = |text| shown(text, LineBreaks::Escaped);
        let values = values.into_iter().map(|(key, value)| (key, line(value))).collect();
        DiagnosticStatus { level, name, message: line(message), hardware_id, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_repeats_what_is_missing_by_stamps_and_where_to_read_about_it() {
        let topic =
            |num_lost, num_missing| TopicStatus { num_lost, num_missing, ..TopicStatus::default() };
        let missing = "; 7 messages are missing by their stamps so far: see Socket buffers";
        for (num_publishers, topic, expected) in [
            (0, topic(None, 0), None),
            (0, topic(None, 7), Some(missing)),
            (1, topic(None, 7), Some(missing)),
            // A middleware that counts no losses.
            (1, topic(None, 0), Some("lost on the way; see Socket buffers in docs/ros2.md")),
            (1, topic(Some(0), 0), None),
            (1, topic(Some(3), 7), Some(missing)),
            (1, TopicStatus { event: Some("another type"), ..topic(None, 7) }, None),
        ] {
            let cause = cause_of_silence(num_publishers, &topic);
            match expected {
                Some(expected) => assert!(cause.contains(expected), "{cause}"),
                None => assert!(!cause.contains("Socket buffers"), "{cause}"),
            }
        }
    }
}
