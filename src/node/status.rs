//! A diagnostic status under construction, and what the middleware reports of a
//! topic.

use std::collections::BTreeMap;

use crate::runtime::account::Reason;
use crate::runtime::input::InputSummary;
use crate::text::{LineBreaks, shown};
use crate::transport::messages::{DiagnosticLevel, DiagnosticStatus};

/// What the middleware reports of a topic.
#[derive(Clone, Copy, Debug, Default)]
pub struct TopicStatus<'a> {
    /// What stands in the way of its messages.
    pub event: Option<&'a str>,
    /// Messages of it that were lost before the node had them, in all; `None`
    /// when the middleware cannot count them.
    pub num_lost: Option<u64>,
    /// Messages of it that are missing by the stamps of the others, in all.
    pub num_missing: u64,
    /// Those of them since the last look.
    pub num_missing_now: u64,
}

impl TopicStatus<'_> {
    /// Adds what is known of lost messages.
    pub(super) fn add_losses(&self, status: &mut StatusBuilder) {
        let num_lost = self.num_lost.map_or("unknown".into(), |num| num.to_string());
        status.value("lost_by_door", num_lost);
        status.value("missing_by_stamps", self.num_missing.to_string());
    }
}

/// Why no messages come. A message that never arrives whole leaves no trace, so
/// publishers that seem silent may not be.
pub(super) fn cause_of_silence(num_publishers: usize, told: &TopicStatus<'_>) -> String {
    match (num_publishers, told) {
        (_, TopicStatus { event: Some(event), .. }) => (*event).to_owned(),
        (0, _) => "no publisher is matched".into(),
        (n, TopicStatus { num_lost: Some(lost @ 1..), .. }) => {
            format!("{n} matched publishers; {lost} messages were lost on the way so far")
        }
        (n, _) => {
            format!("{n} matched publishers are silent, or their messages are lost on the way")
        }
    }
}

/// A status as it comes to be: the worst level, and what was found at it.
pub struct StatusBuilder(DiagnosticStatus);

impl StatusBuilder {
    /// Nothing is wrong yet.
    pub fn new(name: String, hardware_id: &str) -> Self {
        let hardware_id = hardware_id.to_owned();
        Self(DiagnosticStatus { name, hardware_id, ..DiagnosticStatus::default() })
    }

    /// Notes something that is wrong.
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

    /// What is said when nothing is wrong.
    pub fn otherwise(&mut self, message: String) {
        if self.0.message.is_empty() {
            self.0.message = message;
        }
    }

    /// Adds a number.
    pub fn value(&mut self, key: &str, value: impl Into<String>) {
        self.0.values.push((key.to_owned(), value.into()));
    }

    /// Notes messages that were refused since the last look.
    pub(super) fn note_refused(&mut self, input: &InputSummary) {
        if input.num_refused_now > 0 {
            let reasons: Vec<&str> = input.totals.refused.keys().copied().collect();
            let reasons = reasons.join(", ");
            let message = format!("{} messages refused: {reasons}", input.num_refused_now);
            self.note(DiagnosticLevel::Warn, &message);
        }
    }

    /// Adds a number for each reason.
    pub(super) fn reasons(&mut self, key: &str, reasons: &BTreeMap<&'static str, Reason>) {
        for (name, reason) in reasons {
            self.value(&format!("{key}.{name}"), reason.count.to_string());
        }
    }

    /// The status. What its texts quote of messages is safe to show.
    pub fn into_inner(self) -> DiagnosticStatus {
        let DiagnosticStatus { level, name, message, hardware_id, values } = self.0;
        let line = |text| shown(text, LineBreaks::Escaped);
        let values = values.into_iter().map(|(key, value)| (key, line(value))).collect();
        DiagnosticStatus { level, name, message: line(message), hardware_id, values }
    }
}
