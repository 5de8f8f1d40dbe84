//! The transform of an edge: static, or samples over time.

use std::collections::VecDeque;
use std::time::Duration;

use nalgebra::{Isometry3, UnitQuaternion};

use det_post_types::Stamp;

#[derive(Clone, Debug)]
pub(super) enum Motion {
    Static(Isometry3<f64>),
    /// In ascending order of distinct stamps, never empty.
    Stamped(VecDeque<Sample>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub stamp: Stamp,
    pub parent_from_child: Isometry3<f64>,
    /// The stamp of the sample after it, where that was forgotten.
    pub forgotten: Option<Stamp>,
}

impl Motion {
    /// `parent_from_child` at `stamp`; `None` outside the known interval.
    pub fn at(&self, stamp: Stamp) -> Option<Isometry3<f64>> {
        let samples = match self {
            Self::Static(parent_from_child) => return Some(*parent_from_child),
            Self::Stamped(samples) => samples,
        };
        let after = match samples.binary_search_by_key(&stamp, |sample| sample.stamp) {
            Ok(exact) => return Some(samples[exact].parent_from_child),
            Err(after) => after,
        };
        let (before, after) = (samples.get(after.checked_sub(1)?)?, samples.get(after)?);
        // Samples at larger distances than before leave a hole.
        let is_hole = before.forgotten.is_some_and(|forgotten| after.stamp > forgotten);
        (!is_hole).then(|| interpolate(before, after, stamp))
    }

    pub fn interval(&self) -> String {
        match self {
            Self::Stamped(samples) => match (samples.front(), samples.back()) {
                (Some(oldest), Some(newest)) if oldest.stamp < newest.stamp => {
                    format!("from {} to {}", oldest.stamp, newest.stamp)
                }
                (Some(only), _) => format!("at {} only", only.stamp),
                _ => "never".into(),
            },
            Self::Static(_) => "always".into(),
        }
    }
}

fn interpolate(before: &Sample, after: &Sample, stamp: Stamp) -> Isometry3<f64> {
    let nanos_since = |stamp: Stamp, earlier: Stamp| {
        (i128::from(stamp.nanos()) - i128::from(earlier.nanos())) as f64
    };
    let fraction = nanos_since(stamp, before.stamp) / nanos_since(after.stamp, before.stamp);
    let (before, after) = (&before.parent_from_child, &after.parent_from_child);
    let translation = before.translation.vector.lerp(&after.translation.vector, fraction);
    // When the rotations nearly coincide, rounding scales both weights of the slerp
    // by a common factor; normalising removes it. Only for equal rotations there is
    // no slerp.
    let rotation = before
        .rotation
        .try_slerp(&after.rotation, fraction, 0.0)
        .map_or(before.rotation, |rotation| UnitQuaternion::new_normalize(rotation.into_inner()));
    Isometry3::from_parts(translation.into(), rotation)
}

/// Removes the samples later than `stamp`. There is no pose between the last one that stays and later ones, unless they
/// are as close as those that were removed.
pub(super) fn forget_after(samples: &mut VecDeque<Sample>, stamp: Stamp) {
    let num_kept = samples.partition_point(|sample| sample.stamp <= stamp);
    let forgotten = samples.get(num_kept).map(|sample| sample.stamp);
    samples.truncate(num_kept);
    if let Some((last, forgotten)) = samples.back_mut().zip(forgotten) {
        last.forgotten = Some(forgotten);
    }
}

/// Inserts a sample and drops those outside `window`. Returns the number of others
/// that were dropped because of `max_samples`.
pub(super) fn insert_sample(
    samples: &mut VecDeque<Sample>,
    sample: Sample,
    window: Duration,
    max_samples: usize,
) -> u64 {
    let window = i64::try_from(window.as_nanos()).unwrap_or(i64::MAX);
    let start_of_window = |samples: &VecDeque<Sample>| {
        samples.back().map(|newest| newest.stamp.nanos().saturating_sub(window))
    };
    if start_of_window(samples).is_some_and(|start| sample.stamp.nanos() < start) {
        samples.clear();
    }
    match samples.binary_search_by_key(&sample.stamp, |sample| sample.stamp) {
        Ok(same) => samples[same] = sample,
        Err(position) => samples.insert(position, sample),
    }
    if let Some(start) = start_of_window(samples) {
        let num_old = samples.partition_point(|sample| sample.stamp.nanos() < start);
        samples.drain(..num_old);
    }
    let num_over = samples.len().saturating_sub(max_samples.max(1));
    samples.drain(..num_over);
    num_over as u64
}
