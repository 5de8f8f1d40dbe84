//! The figures of a pair of topics, by class and by range or height.

use std::collections::BTreeMap;

use serde::Serialize;

use super::filters::Filters;
use super::pair::Paired;
use super::part_figures::PartFigures;
use crate::box_overlap::{MIN_NUM_TRUTH, Overlaps, View};
use crate::calibration::{Calibration, calibration};
use crate::center_distance::{Errors, Matching, REFERENCE, THRESHOLDS_M};
use crate::image::Measure;
use crate::parts::Parts;
use crate::{
    Filter2d, Filter3d, Frame3d, GroundTruth2d, GroundTruth3d, Scored, image, mean,
    num_unusable_2d, num_unusable_3d,
};
use det_post_types::{Detection2d, Detection3d, Evidence, ImageBox};

/// Width of a bin of ranges.
const RANGE_BIN_M: f64 = 10.0;

/// Borders between bins of heights, beyond the lowest that counts.
const HEIGHT_BORDERS: [f64; 3] = [25.0, 50.0, 100.0];

/// The figures of one pair of topics.
#[derive(Serialize)]
pub struct SensorFigures {
    /// The channel, or the topic of the detections.
    pub(super) name: String,
    pub(super) detections: String,
    pub(super) truth: String,
    pub(super) frame_id: String,
    pub(super) num_frames: usize,
    pub(super) num_truth_frames_without_detections: usize,
    pub(super) num_detection_frames_without_truth: usize,
    pub(super) num_unusable_detections: usize,
    pub(super) calibration: CalibrationFigures,
    #[serde(flatten)]
    pub(super) of: Figures,
}

/// By sensor.
#[derive(Serialize)]
#[serde(tag = "sensor", rename_all = "snake_case")]
pub(super) enum Figures {
    Lidar(LidarFigures),
    Camera(CameraFigures),
}

/// The evidence by which objects count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CountedBy {
    /// Points of a cloud.
    Points,
    /// Pixels and visibility in images.
    Pixels,
}

impl CountedBy {
    fn of(frames: &[Frame3d]) -> Self {
        match frames.iter().flat_map(|frame| &frame.truth).next().map(|truth| truth.evidence) {
            Some(Evidence::Pixels(_)) => Self::Pixels,
            Some(Evidence::Points(_)) | None => Self::Points,
        }
    }
}

#[derive(Serialize)]
pub(super) struct LidarFigures {
    pub(super) counted_by: CountedBy,
    /// Mean AP over distances and classes.
    pub(super) map: Option<f64>,
    /// Means over classes.
    pub(super) mean: LidarRow,
    pub(super) classes: BTreeMap<String, LidarClass>,
}

#[derive(Serialize)]
pub(super) struct LidarClass {
    #[serde(flatten)]
    pub(super) all: LidarRow,
    /// Overlap above which a box is right by BEV and 3D AP.
    pub(super) min_overlap: f64,
    pub(super) by_range_m: Vec<(Bin, LidarRow)>,
    /// Precision at 2 m over 101 recall points.
    pub(super) precision: Vec<f64>,
}

/// One line of figures.
#[derive(Clone, Serialize)]
pub(super) struct LidarRow {
    pub(super) num_truth: usize,
    /// Mean over the distances.
    pub(super) ap: Option<f64>,
    /// At 0.5, 1, 2, 4 m.
    pub(super) ap_by_distance: Option<[f64; THRESHOLDS_M.len()]>,
    pub(super) errors: ErrorFigures,
    pub(super) ap_bev: Option<f64>,
    pub(super) ap_3d: Option<f64>,
}

/// Errors at 2 m.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct ErrorFigures {
    pub(super) translation_m: Option<f64>,
    pub(super) scale: Option<f64>,
    pub(super) heading_rad: Option<f64>,
    pub(super) velocity_mps: Option<f64>,
}

/// From, and up to without.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Bin {
    pub(super) from: f64,
    /// `None` where it has no end.
    pub(super) to: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct CameraFigures {
    /// Mean AP (0.50 to 0.95) over classes.
    pub(super) map: Option<f64>,
    /// Means over classes.
    pub(super) mean: CameraRow,
    pub(super) classes: BTreeMap<String, CameraClass>,
}

#[derive(Serialize)]
pub(super) struct CameraClass {
    #[serde(flatten)]
    pub(super) all: CameraRow,
    pub(super) by_height: Vec<(Bin, CameraRow)>,
    /// Precision at an overlap of 0.5 over 101 recall points.
    pub(super) precision: Vec<f64>,
}

#[derive(Clone, Serialize)]
pub(super) struct CameraRow {
    pub(super) num_truth: usize,
    pub(super) ap: Option<f64>,
    pub(super) ap50: Option<f64>,
    pub(super) ap75: Option<f64>,
    /// Of masks, where truth and detections have some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) masks: Option<PartFigures>,
    /// Of keypoints, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) keypoints: Option<PartFigures>,
}

/// A reliability diagram over all classes.
#[derive(Serialize)]
pub(super) struct CalibrationFigures {
    pub(super) expected_error: Option<f64>,
    pub(super) bins: Vec<CalibrationBin>,
}

#[derive(Serialize)]
pub(super) struct CalibrationBin {
    pub(super) num_detections: usize,
    pub(super) mean_score: Option<f64>,
    pub(super) precision: Option<f64>,
}

impl CalibrationFigures {
    fn new(scored: &[Scored]) -> Self {
        let Calibration { bins, expected_error } = calibration(scored);
        let bins = bins.map(|bin| CalibrationBin {
            num_detections: bin.num_detections,
            mean_score: bin.mean_score,
            precision: bin.precision,
        });
        Self { expected_error, bins: bins.into() }
    }
}

impl SensorFigures {
    /// The figures of a lidar.
    pub(super) fn of_lidar(
        paired: &Paired<GroundTruth3d, Detection3d>,
        classes: &[(&str, u32)],
        filters: &Filters,
    ) -> Self {
        let mut scored = Vec::new();
        let mut rows = BTreeMap::new();
        for (name, class) in classes {
            if let Some(row) = lidar_class(paired, name, *class, filters, &mut scored) {
                rows.insert((*name).to_owned(), row);
            }
        }
        let all: Vec<&LidarRow> = rows.values().map(|class| &class.all).collect();
        let mean = LidarRow::mean_of(&all);
        let num_unusable = num_unusable_3d(&paired.frames);
        let counted_by = CountedBy::of(&paired.frames);
        let figures = LidarFigures { counted_by, map: mean.ap, mean, classes: rows };
        Self::new(paired, num_unusable, &scored, Figures::Lidar(figures))
    }

    /// The figures of a camera.
    pub(super) fn of_camera(
        paired: &Paired<GroundTruth2d, Detection2d<ImageBox>>,
        classes: &[(&str, u32)],
        filters: &Filters,
    ) -> Self {
        let mut scored = Vec::new();
        let mut rows = BTreeMap::new();
        for (name, class) in classes {
            if let Some(row) = camera_class(paired, *class, filters, &mut scored) {
                rows.insert((*name).to_owned(), row);
            }
        }
        let all: Vec<&CameraRow> = rows.values().map(|class| &class.all).collect();
        let mean = CameraRow::mean_of(&all);
        let num_unusable = num_unusable_2d(&paired.frames);
        let figures = CameraFigures { map: mean.ap, mean, classes: rows };
        Self::new(paired, num_unusable, &scored, Figures::Camera(figures))
    }

    fn new<T, D>(
        paired: &Paired<T, D>,
        num_unusable: usize,
        scored: &[Scored],
        of: Figures,
    ) -> Self {
        Self {
            name: paired.name.clone(),
            detections: paired.detections.clone(),
            truth: paired.truth.clone(),
            frame_id: paired.frame_id.clone(),
            num_frames: paired.frames.len(),
            num_truth_frames_without_detections: paired.num_truth_without_detections,
            num_detection_frames_without_truth: paired.num_detections_without_truth,
            num_unusable_detections: num_unusable,
            calibration: CalibrationFigures::new(scored),
            of,
        }
    }
}

/// The overlap that KITTI asks of a class, whose name heads write in either case.
fn min_overlap(class_name: &str) -> f64 {
    match class_name.to_ascii_lowercase().as_str() {
        "car" | "van" | "truck" | "bus" => 0.7,
        _ => 0.5,
    }
}

/// The figures of a class; `None` when it is neither there nor found.
fn lidar_class(
    paired: &Paired<GroundTruth3d, Detection3d>,
    name: &str,
    class: u32,
    filters: &Filters,
    scored: &mut Vec<Scored>,
) -> Option<LidarClass> {
    let frames = &paired.frames;
    let is_there = frames.iter().flat_map(|frame| &frame.truth).any(|t| t.class == class);
    let is_found = frames.iter().flat_map(|frame| &frame.detections).any(|d| d.class == class);
    if !is_there && !is_found {
        return None;
    }
    let (matching, overlaps) = (Matching::new(frames, class), Overlaps::new(frames, class));
    let min_overlap = min_overlap(name);
    let figures = |bin: Bin| {
        let filter = Filter3d {
            min_range_m: bin.from,
            max_range_m: bin.to.unwrap_or(f64::INFINITY),
            ..filters.in_space()
        };
        let accuracy = matching.accuracy(&filter);
        let ap_by_overlap = |view| overlaps.average_precision(view, min_overlap, &filter);
        let row = LidarRow {
            num_truth: accuracy.num_truth,
            ap: accuracy.ap.map(|ap| ap.iter().sum::<f64>() / ap.len() as f64),
            ap_by_distance: accuracy.ap,
            errors: accuracy.errors.map(ErrorFigures::from).unwrap_or_default(),
            ap_bev: ap_by_overlap(View::Bev),
            ap_3d: ap_by_overlap(View::Space),
        };
        (row, accuracy)
    };
    let (all, accuracy) = figures(Bin { from: 0.0, to: Some(filters.max_range_m) });
    scored.extend(accuracy.scored);
    let by_range_m = range_bins(filters.max_range_m).map(|bin| (bin, figures(bin).0)).collect();
    Some(LidarClass { all, min_overlap, by_range_m, precision: accuracy.precision.to_vec() })
}

fn range_bins(max_range_m: f64) -> impl Iterator<Item = Bin> {
    let num_bins = (max_range_m / RANGE_BIN_M).ceil() as usize;
    (0..num_bins).map(move |bin| Bin {
        from: bin as f64 * RANGE_BIN_M,
        to: Some(((bin + 1) as f64 * RANGE_BIN_M).min(max_range_m)),
    })
}

fn camera_class(
    paired: &Paired<GroundTruth2d, Detection2d<ImageBox>>,
    class: u32,
    filters: &Filters,
    scored: &mut Vec<Scored>,
) -> Option<CameraClass> {
    let frames = &paired.frames;
    let is_there = frames.iter().flat_map(|frame| &frame.truth).any(|t| t.class == class);
    let is_found = frames.iter().flat_map(|frame| &frame.detections).any(|d| d.class == class);
    if !is_there && !is_found {
        return None;
    }
    let on_both_sides = |has: fn(&Parts) -> bool| {
        paired.parts.iter().any(|parts| has(&parts.truth))
            && paired.parts.iter().any(|parts| has(&parts.detections))
    };
    let has_masks = on_both_sides(|parts| !parts.masks.is_empty());
    let has_keypoints = on_both_sides(|parts| !parts.keypoints.is_empty());
    let figures = |bin: Bin| {
        let filter = Filter2d {
            min_height: bin.from,
            max_height: bin.to.unwrap_or(f64::INFINITY),
            ..filters.in_images()
        };
        let accuracy = image::accuracy(frames, class, &filter);
        let by = |measure: &Measure<'_>| {
            PartFigures::of(&image::accuracy_by(measure, frames, class, &filter))
        };
        let row = CameraRow {
            num_truth: accuracy.num_truth,
            ap: accuracy.mean_ap(),
            ap50: accuracy.ap50(),
            ap75: accuracy.ap75(),
            masks: has_masks.then(|| by(&Measure::Masks(&paired.parts))),
            keypoints: has_keypoints.then(|| by(&Measure::Keypoints(&paired.parts))),
        };
        (row, accuracy)
    };
    let (all, accuracy) = figures(Bin { from: filters.min_height, to: None });
    scored.extend(accuracy.scored);
    let by_height = height_bins(filters.min_height).map(|bin| (bin, figures(bin).0)).collect();
    Some(CameraClass { all, by_height, precision: accuracy.precision.to_vec() })
}

fn height_bins(min_height: f64) -> impl Iterator<Item = Bin> {
    let higher = HEIGHT_BORDERS.into_iter().filter(move |&border| border > min_height);
    let borders: Vec<f64> = [min_height].into_iter().chain(higher).collect();
    (0..borders.len()).map(move |at| Bin { from: borders[at], to: borders.get(at + 1).copied() })
}

impl From<Errors> for ErrorFigures {
    fn from(errors: Errors) -> Self {
        Self {
            translation_m: Some(errors.translation_m),
            scale: Some(errors.scale),
            heading_rad: Some(errors.heading_rad),
            velocity_mps: errors.velocity_mps,
        }
    }
}

impl LidarRow {
    /// Whether AP by overlap cannot reach one, for want of objects.
    pub(super) fn has_few_objects(&self) -> bool {
        (1..MIN_NUM_TRUTH).contains(&self.num_truth)
    }

    /// Means of the figures there are, truth counted together.
    pub(super) fn mean_of(rows: &[&Self]) -> Self {
        let of = |figure: &dyn Fn(&Self) -> Option<f64>| mean(rows.iter().map(|row| figure(row)));
        let at = |at: usize| of(&|row| row.ap_by_distance.map(|ap| ap[at]));
        Self {
            num_truth: rows.iter().map(|row| row.num_truth).sum(),
            ap: of(&|row| row.ap),
            ap_by_distance: at(REFERENCE)
                .map(|_| std::array::from_fn(|distance| at(distance).unwrap_or(0.0))),
            errors: ErrorFigures {
                translation_m: of(&|row| row.errors.translation_m),
                scale: of(&|row| row.errors.scale),
                heading_rad: of(&|row| row.errors.heading_rad),
                velocity_mps: of(&|row| row.errors.velocity_mps),
            },
            ap_bev: of(&|row| row.ap_bev),
            ap_3d: of(&|row| row.ap_3d),
        }
    }
}

impl CameraRow {
    /// Means of the figures there are, truth counted together.
    pub(super) fn mean_of(rows: &[&Self]) -> Self {
        let of = |figure: &dyn Fn(&Self) -> Option<f64>| mean(rows.iter().map(|row| figure(row)));
        Self {
            num_truth: rows.iter().map(|row| row.num_truth).sum(),
            ap: of(&|row| row.ap),
            ap50: of(&|row| row.ap50),
            ap75: of(&|row| row.ap75),
            masks: PartFigures::mean_of(rows.iter().map(|row| row.masks)),
            keypoints: PartFigures::mean_of(rows.iter().map(|row| row.keypoints)),
        }
    }
}
