//! The tables on the terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Evaluation;
use super::figures::{
    Bin, CameraFigures, CameraRow, CountedBy, Figures, LidarFigures, LidarRow, SensorFigures,
};
use super::filters::Filters;
use super::part_figures::PartFigures;
use super::streams::OutsideScores;
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
        for text in self.left_out() {
            line(&mut table, text);
        }
        table
    }
}

/// A number and its noun, whose first word takes the plural.
pub(super) fn plural(num: usize, noun: &str) -> String {
    let (noun, rest) = match noun.split_once(" of ") {
        Some((noun, rest)) => (noun, format!(" of {rest}")),
        None => (noun, String::new()),
    };
    format!("{num} {noun}{}{rest}", if num == 1 { "" } else { "s" })
}

/// What was counted, for the counts that are not zero.
fn counted<const N: usize>(counts: [(usize, &str, &str); N]) -> impl Iterator<Item = String> {
    let counts = counts.into_iter().filter(|&(num, ..)| num > 0);
    counts.map(|(num, noun, rest)| plural(num, noun) + rest)
}

impl Evaluation {
    /// The frames and scores that were left out, in words.
    pub(super) fn left_out(&self) -> impl Iterator<Item = String> {
        let scores = self.scores_outside.iter().map(OutsideScores::describe);
        let frames = counted([
            (self.num_repeated_frames, "frame", " left out: a stamp is repeated on a topic"),
            (
                self.num_incomplete_frames,
                "frame of truth",
                " left out: array or attributes missing",
            ),
        ]);
        frames.chain(scores).chain(self.names_by_case())
    }

    /// Class names that differ only in case, in words: a detection of one is none of the other.
    fn names_by_case(&self) -> Vec<String> {
        let mut first = BTreeMap::new();
        let others = self.class_names.iter().filter_map(|name| {
            let known = *first.entry(name.to_lowercase()).or_insert(name);
            (known != name).then(|| {
                format!("classes {known:?} and {name:?} differ in case: they are compared as two")
            })
        });
        others.collect()
    }
}

impl SensorFigures {
    /// What has no counterpart, and what cannot be measured, in words.
    pub(super) fn left_out(&self) -> impl Iterator<Item = String> {
        counted([
            (self.num_truth_frames_without_detections, "frame of truth", " without detections"),
            (
                self.num_detection_frames_without_truth,
                "frame of detections",
                " without truth, left out",
            ),
            (
                self.num_unusable_detections,
                "detection",
                " left out: score or box not finite, or box reversed",
            ),
        ])
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
    let frames = plural(*num_frames, "frame");
    line(table, format!("{name}  {detections} against {truth}, {frames}"));
    for text in sensor.left_out() {
        line(table, format!("  {text}"));
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
        CountedBy::Points => format!("{min_points} points"),
        CountedBy::Pixels => format!("{min_pixels} px, {:.0}% seen", min_visibility * 100.0),
    };
    line(
        table,
        format!(
            "  mAP {}, AP by distance of centres; objects from {least}, within {max_range_m} m",
            figure(figures.map)
        ),
    );
    line(table, heads(&["AP", "0.5m", "1m", "2m", "4m", "BEV", "3D"]));
    let classes = figures.classes.iter().map(|(name, class)| (name.as_str(), &class.all));
    let rows: Vec<_> = classes.chain([("mean", &figures.mean)]).collect();
    let mut has_few = false;
    for (name, row) in &rows {
        let is_few = *name != "mean" && row.has_few_objects();
        has_few |= is_few;
        line(table, accuracy(name, row, is_few));
    }
    if has_few {
        line(table, format!("  {}", few_objects()));
    }
    line(table, "  errors at 2 m: translation in m, scale, heading in rad, velocity in m/s");
    line(table, heads(&["transl", "scale", "heading", "veloc"]));
    rows.iter().for_each(|(name, row)| line(table, errors(name, row)));
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

/// The heads of columns; tables have up to 80 characters.
fn heads(columns: &[&str]) -> String {
    let columns = columns.iter().map(|column| format!("{column:>8}"));
    format!("  {:<12}{:>7}{}", "", "objects", columns.collect::<String>())
}

fn accuracy(name: &str, row: &LidarRow, is_few: bool) -> String {
    let by_distance = row.ap_by_distance.map_or([None; 4], |ap| ap.map(Some));
    let by_distance = [row.ap].into_iter().chain(by_distance).map(figure);
    let star = if is_few { "*" } else { "" };
    let by_overlap = [row.ap_bev, row.ap_3d].map(|cell| figure(cell) + star);
    let cells = by_distance.chain(by_overlap).map(|cell| format!("{cell:>8}"));
    format!("  {name:<12}{:>7}{}", row.num_truth, cells.collect::<String>())
}

fn errors(name: &str, row: &LidarRow) -> String {
    let of = row.errors;
    let cells = [of.translation_m, of.scale, of.heading_rad, of.velocity_mps];
    let cells = cells.map(|cell| format!("{:>8}", figure(cell))).concat();
    format!("  {name:<12}{:>7}{cells}", row.num_truth)
}

fn camera(table: &mut String, figures: &CameraFigures, filters: &Filters) {
    let Filters { min_height, min_visibility, .. } = filters;
    let seen = min_visibility * 100.0;
    line(
        table,
        format!(
            "  AP50 {}, AP of overlaps 0.50 to 0.95; objects from {min_height} px high, {seen:.0}% seen",
            figure(figures.mean.ap50)
        ),
    );
    let mean = &figures.mean;
    let of_parts = [("mask AP", mean.masks), ("keypoint AP", mean.keypoints)].map(|(name, of)| {
        of.map_or(String::new(), |_| format!("{name:>13}{:>8}{:>8}", "AP50", "AP75"))
    });
    line(table, heads(&["AP", "AP50", "AP75"]) + &of_parts.concat());
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
        let _ = write!(row, "{:>13}", format!("{}-{to}", bin.from));
    }
    line(table, row);
    for (name, cells) in rows {
        let mut row = format!("  {name:<12}");
        for Cell { num_truth, value, .. } in cells {
            let _ = write!(row, "{:>13}", format!("{} ({num_truth})", figure(*value)));
        }
        line(table, row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_plural() {
        assert_eq!(plural(1, "false detection"), "1 false detection");
        assert_eq!(plural(0, "object"), "0 objects");
        assert_eq!(plural(2, "frame of truth"), "2 frames of truth");
        let counts = [(1, "frame", " left out"), (0, "object", ""), (3, "frame of x", "")];
        assert_eq!(counted(counts).collect::<Vec<_>>(), ["1 frame left out", "3 frames of x"]);
    }
}
