//! What processed frames had of each of several inputs.

use serde::Serialize;

use super::spread::{Spread, SpreadSummary};
use det_post_types::{Stamp, UnpackCounts};

/// The stamps of the messages of an input, the frames without one, and the points of its clouds.
#[derive(Clone, Debug, Default)]
pub(super) struct InputTimes {
    skew: Spread,
    age: Spread,
    num_missing: u64,
    points: PointTotals,
}

/// The points of the clouds of one of several inputs, over all processed frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PointTotals {
    /// Points that were used.
    pub used: u64,
    /// Points with a value that is NaN or infinite.
    pub not_finite: u64,
    /// Points inside its crop box.
    pub cropped: u64,
    /// Points outside the range.
    pub out_of_range: u64,
    /// Points beyond `point_capacity`.
    pub over_capacity: u64,
    /// Points without a usable time.
    pub without_time: u64,
}

/// When the messages of one of several inputs were acquired, over all processed frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct InputTimesSummary {
    /// From the stamp of the frame to the stamp of the message: negative if it was acquired before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skew_ms: Option<SpreadSummary>,
    /// From the stamp of the message to the processing of its frame: the time on the clock of
    /// the node, or of the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<SpreadSummary>,
    /// Processed frames without a message of it.
    #[serde(rename = "missing")]
    pub num_missing: u64,
    /// The points of its clouds, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<PointTotals>,
}

impl InputTimes {
    /// Adds a message that was acquired then, `None` for a frame without one.
    pub(super) fn add(&mut self, frame: Stamp, acquired: Option<Stamp>, now: Option<Stamp>) {
        let Some(acquired) = acquired else {
            self.num_missing += 1;
            return;
        };
        self.skew.add(acquired.nanos().saturating_sub(frame.nanos()));
        if let Some(now) = now {
            self.age.add(now.nanos().saturating_sub(acquired.nanos()));
        }
    }

    pub(super) fn add_cloud(&mut self, cloud: &UnpackCounts) {
        self.points.add(&PointTotals::of(cloud));
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.skew.merge(&other.skew);
        self.age.merge(&other.age);
        self.num_missing += other.num_missing;
        self.points.add(&other.points);
    }

    /// Clears it; keeps the memory.
    pub(super) fn reset(&mut self) {
        self.skew.reset();
        self.age.reset();
        (self.num_missing, self.points) = (0, PointTotals::default());
    }

    pub(super) fn summary(&self) -> InputTimesSummary {
        InputTimesSummary {
            skew_ms: self.skew.summary(),
            age_ms: self.age.summary(),
            num_missing: self.num_missing,
            points: Some(self.points).filter(|points| *points != PointTotals::default()),
        }
    }
}

impl PointTotals {
    fn of(cloud: &UnpackCounts) -> Self {
        Self {
            used: cloud.num_points as u64,
            not_finite: cloud.num_not_finite as u64,
            cropped: cloud.num_cropped as u64,
            out_of_range: cloud.num_out_of_range as u64,
            over_capacity: cloud.num_over_capacity as u64,
            without_time: cloud.num_without_time as u64,
        }
    }

    fn add(&mut self, other: &Self) {
        self.used += other.used;
        self.not_finite += other.not_finite;
        self.cropped += other.cropped;
        self.out_of_range += other.out_of_range;
        self.over_capacity += other.over_capacity;
        self.without_time += other.without_time;
    }

    /// Each total with its name in reports.
    pub fn named(&self) -> [(&'static str, u64); 6] {
        [
            ("used", self.used),
            ("not_finite", self.not_finite),
            ("cropped", self.cropped),
            ("out_of_range", self.out_of_range),
            ("over_capacity", self.over_capacity),
            ("without_time", self.without_time),
        ]
    }
}
