//! The worst frames: their images and numbers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use super::backgrounds::{self, Background, Wanted};
use super::{labels, plural, text};
use crate::recordings::Evaluation;
use crate::recordings::worst::{Fate, Outline, Plane, WorstFrame, WorstFrames};
use det_post_types::{Result, Stamp};

/// The frames of a sensor that are shown at once; the others are folded.
const NUM_SHOWN: usize = 4;

const KEY: &str = "<p class=key><span class=truth>object</span><span class=missed>missed \
                   object</span><span class=right>correct detection</span><span class=false>false \
                   detection</span><span class=ignored>not counted</span></p>\n";

/// A section per sensor, where the evaluation keeps its worst frames.
///
/// # Errors
/// Returns the errors of opening a recording, and of encoding an image.
pub(super) fn sections(evaluation: &Evaluation, stop: &AtomicBool) -> Result<Vec<String>> {
    let sensors = || evaluation.worst.iter().zip(&evaluation.sensors);
    let max_range_m = evaluation.filters.max_range_m;
    // By drive, sensor and place in it.
    let mut found = BTreeMap::new();
    for (drive, bag) in evaluation.recordings.iter().enumerate() {
        let (mut places, mut wanted) = (Vec::new(), Vec::new());
        for (index, (worst, sensor)) in sensors().enumerate() {
            let of_drive = |(_, frame): &(usize, &WorstFrame)| frame.drive == drive;
            for (place, frame) in worst.frames.iter().enumerate().filter(of_drive) {
                places.push((index, place));
                let (plane, frame_id) = (worst.plane, sensor.frame_id.as_str());
                wanted.push(Wanted { plane, frame_id, stamp: frame.stamp, background: None });
            }
        }
        backgrounds::find(bag, &mut wanted, max_range_m, stop)?;
        found.extend(places.into_iter().zip(wanted.into_iter().map(|frame| frame.background)));
    }
    let mut sections = Vec::new();
    for (index, (worst, _)) in sensors().enumerate() {
        let background = |place| found.remove(&(index, place)).flatten();
        sections.push(section(evaluation, worst, background)?);
    }
    Ok(sections)
}

fn section(
    evaluation: &Evaluation,
    worst: &WorstFrames,
    mut background: impl FnMut(usize) -> Option<Background>,
) -> Result<String> {
    if worst.frames.is_empty() {
        return Ok("<p>No frame has an error.</p>\n".to_owned());
    }
    let figures: Vec<String> = worst
        .frames
        .iter()
        .enumerate()
        .map(|(place, frame)| figure(evaluation, worst.plane, frame, background(place)))
        .collect::<Result<_>>()?;
    let (shown, folded) = figures.split_at(figures.len().min(NUM_SHOWN));
    let mut section = format!(
        "<h3>The worst frames</h3>\n<p>Ranked by the number of missed objects plus the scores \
         of false detections.</p>\n{KEY}<div class=row>{}</div>\n",
        shown.concat()
    );
    if !folded.is_empty() {
        let _ = writeln!(
            section,
            "<details><summary>{}</summary><div class=row>{}</div></details>",
            plural(folded.len(), "more frame"),
            folded.concat()
        );
    }
    Ok(section)
}

fn figure(
    evaluation: &Evaluation,
    plane: Plane,
    frame: &WorstFrame,
    background: Option<Background>,
) -> Result<String> {
    let background = match (background, plane) {
        (None, Plane::Above) => Some(backgrounds::above(None, evaluation.filters.max_range_m)?),
        (background, _) => background,
    };
    let names = &evaluation.class_names;
    let start = evaluation.starts.get(frame.drive).copied().flatten();
    Ok(format!(
        "<figure>{}<figcaption>{}</figcaption></figure>\n",
        drawing(frame, background.as_ref(), names),
        caption(frame, start, names)
    ))
}

/// The boxes over the image.
fn drawing(frame: &WorstFrame, background: Option<&Background>, class_names: &[String]) -> String {
    let [x, y, width, height] = background.map_or_else(|| bounds(&frame.outlines), |of| of.view);
    let mut svg = format!("<svg viewBox=\"{x} {y} {width} {height}\">\n");
    if let Some(Background { url, .. }) = background {
        let _ = writeln!(
            svg,
            "<image x={x} y={y} width={width} height={height} preserveAspectRatio=none \
             href=\"{url}\"/>"
        );
    }
    let is_finite = |outline: &&Outline| outline.corners.iter().flatten().all(|at| at.is_finite());
    let mut outlines: Vec<&Outline> = frame.outlines.iter().filter(is_finite).collect();
    // Errors are on top.
    outlines.sort_by_key(|outline| match (outline.fate, outline.score) {
        (Fate::Ignored, _) => 0,
        (Fate::Matched, _) => 1,
        (Fate::Unmatched, Some(_)) => 2,
        (Fate::Unmatched, None) => 3,
    });
    for outline in &outlines {
        let class = style(outline);
        let points = outline.corners.map(|[x, y]| format!("{x:.2},{y:.2}")).join(" ");
        let label = text(&label(outline, class_names));
        let _ = write!(
            svg,
            "<polygon class=\"box {class}\" points=\"{points}\"><title>{label}</title></polygon>"
        );
        if let Some([[x, y], [front_x, front_y]]) = outline.heading {
            let _ = write!(
                svg,
                "<path class=\"box {class}\" d=\"M{x:.2} {y:.2}L{front_x:.2} {front_y:.2}\"/>"
            );
        }
    }
    let wrong = outlines.iter().rev().filter(|outline| outline.fate == Fate::Unmatched);
    let wrong =
        wrong.map(|outline| (&outline.corners, label(outline, class_names), style(outline)));
    svg + &labels::labels([x, y, width, height], wrong) + "</svg>"
}

/// What a frame without an image shows.
fn bounds(outlines: &[Outline]) -> [f64; 4] {
    let corners = || outlines.iter().flat_map(|outline| outline.corners);
    let corners = || corners().filter(|corner| corner.iter().all(|at| at.is_finite()));
    let least = |axis: usize| corners().map(|at| at[axis]).fold(f64::INFINITY, f64::min);
    let most = |axis: usize| corners().map(|at| at[axis]).fold(f64::NEG_INFINITY, f64::max);
    let [x, y] = [least(0), least(1)];
    let [width, height] = [most(0) - x, most(1) - y];
    if !(width > 0.0 && height > 0.0) {
        return [0.0, 0.0, 1.0, 1.0];
    }
    [x - 0.05 * width, y - 0.05 * height, 1.1 * width, 1.1 * height]
}

/// The numbers of a frame, when it was, and its errors by name.
fn caption(frame: &WorstFrame, start: Option<Stamp>, class_names: &[String]) -> String {
    let of = |is_detection: bool, fate: Fate| {
        let outlines = frame.outlines.iter();
        outlines.filter(move |o| o.score.is_some() == is_detection && o.fate == fate)
    };
    let [matched, missed] = [Fate::Matched, Fate::Unmatched].map(|fate| of(false, fate).count());
    let wrong = of(true, Fate::Unmatched).count();
    let since = start.map_or_else(String::new, |start| {
        format!("{:.2} s after the start, ", frame.stamp.seconds_since(start))
    });
    let mut caption = format!(
        "<b>{:.2}</b>: {}, {matched} found, {missed} missed; {}. Drive {}, {since}stamp {}",
        frame.error,
        plural(matched + missed, "object"),
        plural(wrong, "false detection"),
        frame.drive + 1,
        frame.stamp
    );
    let names = |outlines: &mut dyn Iterator<Item = &Outline>| {
        let each: Vec<String> = outlines.map(|outline| label(outline, class_names)).collect();
        text(&each.join(", "))
    };
    if missed > 0 {
        let _ = write!(caption, "<br>missed: {}", names(&mut of(false, Fate::Unmatched)));
    }
    if wrong > 0 {
        let _ = write!(caption, "<br>false: {}", names(&mut of(true, Fate::Unmatched)));
    }
    caption
}

fn label(outline: &Outline, class_names: &[String]) -> String {
    let name = class_names.get(outline.class as usize).map_or("?", String::as_str);
    outline.score.map_or_else(|| name.to_owned(), |score| format!("{name} {score:.2}"))
}

fn style(outline: &Outline) -> &'static str {
    match (outline.fate, outline.score) {
        (Fate::Ignored, _) => "ignored",
        (Fate::Matched, None) => "truth",
        (Fate::Unmatched, None) => "missed",
        (Fate::Matched, Some(_)) => "right",
        (Fate::Unmatched, Some(_)) => "false",
    }
}
