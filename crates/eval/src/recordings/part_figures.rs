//! The figures of masks and keypoints, beside the figures of boxes.

use serde::Serialize;

use crate::{image, mean};

/// AP by the overlap of masks or the similarity of keypoints.
#[derive(Clone, Copy, Serialize)]
pub(super) struct PartFigures {
    pub(super) ap: Option<f64>,
    pub(super) ap50: Option<f64>,
    pub(super) ap75: Option<f64>,
}

impl PartFigures {
    /// The figures of a class.
    pub(super) fn of(accuracy: &image::Accuracy) -> Self {
        Self { ap: accuracy.mean_ap(), ap50: accuracy.ap50(), ap75: accuracy.ap75() }
    }

    /// Means of the figures there are; `None` where no class has any.
    pub(super) fn mean_of(rows: impl Iterator<Item = Option<Self>>) -> Option<Self> {
        let rows: Vec<Option<Self>> = rows.collect();
        rows.iter().any(Option::is_some).then(|| {
            let of = |figure: fn(&Self) -> Option<f64>| {
                mean(rows.iter().map(|row| row.as_ref().and_then(figure)))
            };
            Self { ap: of(|row| row.ap), ap50: of(|row| row.ap50), ap75: of(|row| row.ap75) }
        })
    }
}
