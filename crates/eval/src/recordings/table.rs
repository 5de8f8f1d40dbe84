//! The tables on the terminal.

use std::fmt::Write as _;

use super::Evaluation;
use super::figures::{
    Bin, CameraFigures, CameraRow, CountedBy, Figures, LidarFigures, LidarRow, SensorFigures,
};
use super::filters::Filters;
use super::part_figures::PartFigures;
use crate::box_overlap::MIN_NUM_TRUTH;
use det_post_types::text::{LineBreaks, shown};

impl Evaluation {
    /// Every sensor's tables, and what was left out.
    pub fn to_table(&self) -> String {
        let mut table = String::new();
        for sensor in &self.sensors {
            head(&mut table, sensor);
            match &sensor.of {
                Figures::Lidar(figures) => lidar(&mut table, figures, &self.filters),
                Figures::Camera(figures) => camera(&mut table, figures, &self.filters),
            }
            if let Some(error) = sensor.calibration.expected_error {
                line(&mut table, format!("  expected calibration error {error:.3}"));
            }
            table.push('\n');
        }
        for damage in &self.damage {
            line(&mut table, format!("recording damaged: {damage}"));
        }
        for (num, what) in [
            (self.num_repeated_frames, "frames left out: their stamp came before on their topic"),
            (self.num_incomplete_frames, "frames of truth left out: array or attributes missing"),
        ] {
            if num > 0 {
                line(&mut table, format!("{num} {what}"));
            }
        }
        table
    }
}

fn line(table: &mut String, text: impl AsRef<str>) {
    // Classes are named by recordings.
    let text = shown(text.as_ref().trim_end().to_owned(), LineBreaks::Escaped);
    table.push_str(&text);
    table.push('\n');
}

fn head(table: &mut String, sensor: &SensorFigures) {
    let SensorFigures { name, detections, truth, num_frames, .. } = sensor;
    line(table, format!("{name}  {detections} against {truth}, {num_frames} frames"));
    for (num, what) in [
        (sensor.num_truth_frames_alone, "frames of truth without detections"),
        (sensor.num_detection_frames_alone, "frames of detections without truth, left out"),
        (sensor.num_unusable_detections, "detections left out: score or box not finite"),
    ] {
        if num > 0 {
            line(table, format!("  {num} {what}"));
        }
    }
}

/// What an asterisk means.
pub(super) fn few_objects() -> String {
    format!("* fewer than {MIN_NUM_TRUTH} objects: AP by overlap cannot reach one")
}

/// A figure of up to three places, or a dash.
fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.3}"))
}

fn lidar(table: &mut String, figures: &LidarFigures, filters: &Filters) {
    let Filters { max_range_m, min_points, min_pixels, min_visibility, .. } = filters;
    let least = match figures.counted_by {
        CountedBy::Points => format!("{min_points} points or more"),
        CountedBy::Pixels => {
            format!("{min_pixels} pixels and visibility {min_visibility} or more")
        }
    };
    line(
        table,
        format!(
            "  objects of {least} within {max_range_m} m; \
             mAP {}, AP by distance of centres, errors at 2 m",
            figure(figures.map)
        ),
    );
    let mut row = format!("  {:<12}{:>7}", "", "objects");
    for column in
        ["AP", "0.5m", "1m", "2m", "4m", "transl", "scale", "heading", "veloc", "BEV", "3D"]
    {
        let _ = write!(row, "{column:>8}");
    }
    line(table, row);
    let classes = figures.classes.iter().map(|(name, class)| (name.as_str(), &class.all));
    let mut has_few = false;
    for (name, row) in classes.chain([("mean", &figures.mean)]) {
        let is_few = name != "mean" && row.has_few_objects();
        has_few |= is_few;
        line(table, lidar_row(name, row, is_few));
    }
    if has_few {
        line(table, format!("  {}", few_objects()));
    }
    let by_range: Vec<_> = figures
        .classes
        .iter()
        .map(|(name, class)| {
            let cells = class.by_range_m.iter().map(|(bin, row)| Cell {
                bin: *bin,
                num_truth: row.num_truth,
                value: row.ap,
            });
            (name.as_str(), cells.collect())
        })
        .collect();
    bins(table, "AP by range in m (objects)", &by_range);
}

fn lidar_row(name: &str, row: &LidarRow, is_few: bool) -> String {
    let mut text = format!("  {name:<12}{:>7}", row.num_truth);
    let by_distance = row.ap_by_distance.map_or([None; 4], |ap| ap.map(Some));
    let errors = row.errors;
    let mut cells = vec![row.ap];
    cells.extend(by_distance);
    cells.extend([errors.translation_m, errors.scale, errors.heading_rad, errors.velocity_mps]);
    for cell in cells {
        let _ = write!(text, "{:>8}", figure(cell));
    }
    for cell in [row.ap_bev, row.ap_3d] {
        let star = if is_few { "*" } else { "" };
        let _ = write!(text, "{:>8}", figure(cell) + star);
    }
    text
}

fn camera(table: &mut String, figures: &CameraFigures, filters: &Filters) {
    let Filters { min_height, min_visibility, .. } = filters;
    let seen = min_visibility * 100.0;
    line(
        table,
        format!(
            "  objects {min_height} px high or higher, {seen:.0}% seen or more; \
             AP50 {}, AP of overlaps 0.50 to 0.95",
            figure(figures.mean.ap50)
        ),
    );
    let mean = &figures.mean;
    let of_parts = [("mask AP", mean.masks), ("keypoint AP", mean.keypoints)].map(|(name, of)| {
        of.map_or(String::new(), |_| format!("{name:>13}{:>8}{:>8}", "AP50", "AP75"))
    });
    let heads =
        format!("{:>7}{:>8}{:>8}{:>8}{}", "objects", "AP", "AP50", "AP75", of_parts.concat());
    line(table, format!("  {:<12}{heads}", ""));
    let classes = figures.classes.iter().map(|(name, class)| (name.as_str(), &class.all));
    for (name, row) in classes.chain([("mean", &figures.mean)]) {
        let CameraRow { num_truth, ap, ap50, ap75, masks, keypoints } = row;
        let cells = [ap, ap50, ap75].map(|cell| format!("{:>8}", figure(*cell)));
        let of_parts = [masks, keypoints].map(|of| {
            of.map_or(String::new(), |PartFigures { ap, ap50, ap75 }| {
                let [ap, ap50, ap75] = [ap, ap50, ap75].map(figure);
                format!("{ap:>13}{ap50:>8}{ap75:>8}")
            })
        });
        line(table, format!("  {name:<12}{num_truth:>7}{}{}", cells.concat(), of_parts.concat()));
    }
    let by_height: Vec<_> = figures
        .classes
        .iter()
        .map(|(name, class)| {
            let cells = class.by_height.iter().map(|(bin, row)| Cell {
                bin: *bin,
                num_truth: row.num_truth,
                value: row.ap50,
            });
            (name.as_str(), cells.collect())
        })
        .collect();
    bins(table, "AP50 by height in pixels (objects)", &by_height);
}

/// One figure in one bin.
struct Cell {
    bin: Bin,
    num_truth: usize,
    value: Option<f64>,
}

/// A table of one figure over bins, a row for each class.
fn bins(table: &mut String, title: &str, rows: &[(&str, Vec<Cell>)]) {
    let Some((_, first)) = rows.first() else { return };
    line(table, format!("  {title}"));
    let mut row = format!("  {:<12}", "");
    for Cell { bin, .. } in first {
        let to = bin.to.map_or_else(String::new, |to| to.to_string());
        let _ = write!(row, "{:>16}", format!("{}-{to}", bin.from));
    }
    line(table, row);
    for (name, cells) in rows {
        let mut row = format!("  {name:<12}");
        for Cell { num_truth, value, .. } in cells {
            let _ = write!(row, "{:>16}", format!("{} ({num_truth})", figure(*value)));
        }
        line(table, row);
    }
}
