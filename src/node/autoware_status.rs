//! Diagnostic statuses as the nodes of Autoware publish them, by their names and keys.

use std::time::{Duration, Instant};

use super::publisher::GatedPublisher;
use super::status::StatusBuilder;
use crate::config::ProcessingTimeLimits;
use det_post_ros::messages::{DiagnosticArray, DiagnosticLevel, DiagnosticStatus};
use det_post_types::{Count, FrameReport, Header, Result};

/// The time per frame of a channel, for `processing_time_status`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessingTimes {
    newest: Option<Duration>,
    /// When frames began to take too long.
    late_since: Option<Instant>,
}

impl ProcessingTimes {
    /// Records the time of a frame that ended `now`.
    pub fn note(&mut self, time: Duration, limits: Option<ProcessingTimeLimits>, now: Instant) {
        self.newest = Some(time);
        let is_late = limits.is_some_and(|limits| time > limits.max);
        self.late_since = is_late.then(|| self.late_since.unwrap_or(now));
    }

    /// The status of `node`.
    pub fn status(
        &self,
        node: &str,
        limits: ProcessingTimeLimits,
        now: Instant,
    ) -> DiagnosticStatus {
        let mut status = StatusBuilder::new(format!("{node}: processing_time_status"), node);
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        let Some(newest) = self.newest else {
            status.otherwise("no frame yet".into());
            return status.into_inner();
        };
        let late_for =
            self.late_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        if self.late_since.is_some() {
            let (took, limit) = (milliseconds(newest), milliseconds(limits.max));
            let message = format!("a frame took {took:.1} ms, {limit:.1} ms is the limit");
            status.note(DiagnosticLevel::Warn, &message);
        }
        let is_late_for_long = late_for > limits.max_delay;
        if is_late_for_long {
            let message = format!("frames take too long since {:.1} s", late_for.as_secs_f64());
            status.note(DiagnosticLevel::Error, &message);
        }
        status.otherwise("OK".into());
        let in_range = truth(self.late_since.is_none());
        status.value("is_processing_time_ms_in_expected_range", in_range);
        status.value("processing_time_ms", format!("{:.6}", milliseconds(newest)));
        status.value("is_consecutive_processing_delay_in_range", truth(!is_late_for_long));
        status.value("consecutive_processing_delay_ms", format!("{:.6}", milliseconds(late_for)));
        status.into_inner()
    }
}

/// Publishes, for every frame, whether its voxels fit.
pub struct VoxelStatus {
    pub(super) publisher: GatedPublisher,
    /// The name of the node.
    pub(super) node: String,
    /// The name of the status after that of the node.
    pub(super) name: String,
}

impl VoxelStatus {
    /// Publishes the status of a frame with its stamp. `message` is scratch memory.
    ///
    /// # Errors
    /// `Middleware` when it could not be handed over.
    pub fn publish(
        &mut self,
        header: &Header<'_>,
        report: &FrameReport,
        message: &mut Vec<u8>,
    ) -> Result<()> {
        let Self { publisher, node, name } = self;
        let num_over = report.count(Count::VoxelsOverCapacity);
        let mut status = StatusBuilder::new(format!("{node}: {name}"), node);
        if num_over > 0 {
            let text = format!("{num_over} pillars over the capacity are not used");
            status.note(DiagnosticLevel::Warn, &text);
        }
        status.otherwise("OK".into());
        status.value("is_num_pillars_within_range", truth(num_over == 0));
        let header = Header { stamp: header.stamp, frame_id: "" };
        DiagnosticArray { header, status: &[status.into_inner()] }.encode(message)?;
        publisher.publish(message)
    }
}

/// A truth value as `diagnostic_updater` writes it.
fn truth(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_frames_warn_and_after_a_while_are_an_error() {
        let ms = Duration::from_millis;
        let limits = ProcessingTimeLimits { max: ms(200), max_delay: ms(1000), interval: ms(100) };
        let start = Instant::now();
        let mut times = ProcessingTimes::default();
        let at = |times: &ProcessingTimes, after| {
            let status = times.status("lidar", limits, start + ms(after));
            assert_eq!(
                (status.name.as_str(), status.hardware_id.as_str()),
                ("lidar: processing_time_status", "lidar")
            );
            let values: Vec<String> = status.values.into_iter().map(|(_, value)| value).collect();
            (status.level, values.join(" "))
        };
        use DiagnosticLevel::{Error, Ok, Warn};
        assert_eq!(at(&times, 0), (Ok, String::new()));
        let mut note = |took, after| {
            times.note(ms(took), Some(limits), start + ms(after));
            times
        };
        // (time of the frame, its end, time of the status, level, values)
        for (took, end, after, level, values) in [
            (200, 10, 20, Ok, "True 200.000000 True 0.000000"),
            (201, 30, 40, Warn, "False 201.000000 True 10.000000"),
            (300, 500, 1030, Warn, "False 300.000000 True 1000.000000"),
            (300, 500, 1031, Error, "False 300.000000 False 1001.000000"),
            (5, 1100, 1200, Ok, "True 5.000000 True 0.000000"),
        ] {
            let times = note(took, end);
            assert_eq!(at(&times, after), (level, values.to_owned()), "{took} {end} {after}");
        }
    }
}
