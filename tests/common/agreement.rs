//! Whether two replays detect the same: frame by frame as many detections of the same classes, whose
//! numbers are within the bounds of docs/numerics.md.
#![allow(dead_code, reason = "each suite uses its part")]

use std::fmt::{Display, Formatter};

use serde_json::Value;

use super::bounds::bound;

/// How far two replays are apart.
#[derive(Default)]
pub struct Agreement {
    pub num_frames: usize,
    pub num_detections: usize,
    /// Largest difference of two scores.
    pub score: f64,
    /// Largest difference of two corners.
    pub pixels: f64,
    /// Largest difference of two centres, sizes, yaws or velocities.
    pub metres: f64,
}

impl Display for Agreement {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} frames, {} detections agree; scores within {:.2e}, boxes within {:.2e} px, {:.2e} m",
            self.num_frames, self.num_detections, self.score, self.pixels, self.metres
        )
    }
}

/// Compares the lines of `detections.jsonl` of two replays of one recording within the bounds of
/// `network`, `part`.
///
/// # Panics
///
/// Unless all detections agree, and there are some.
#[track_caller]
pub fn agreement(expected: &[Value], found: &[Value], part: &str) -> Agreement {
    assert_eq!(expected.len(), found.len());
    let mut agreement = Agreement { num_frames: expected.len(), ..Agreement::default() };
    for (line, other) in expected.iter().zip(found) {
        assert_eq!((&line["channel"], &line["stamp_ns"]), (&other["channel"], &other["stamp_ns"]));
        let is_2d = line["detections_2d"].is_array();
        let detections = if is_2d { "detections_2d" } else { "detections_3d" };
        let [a, b] = [line, other].map(|line| line[detections].as_array().unwrap());
        let problem = agreement.add(a, b, is_2d, part);
        assert!(problem.is_empty(), "{} at {}: {problem}", line["channel"], line["stamp_ns"]);
    }
    assert_ne!(agreement.num_detections, 0);
    agreement
}

impl Agreement {
    /// Adds a frame. Returns what is wrong with its detections, nothing when they agree one to one.
    fn add(&mut self, expected: &[Value], found: &[Value], is_2d: bool, part: &str) -> String {
        if expected.len() != found.len() {
            return format!("{} detections against {}", expected.len(), found.len());
        }
        let most = |number: &str| bound("network", part, number).in_unit();
        let fields: &[&str] = if is_2d { &["box"] } else { &["center", "size", "yaw", "velocity"] };
        let mut left: Vec<_> = found.iter().collect();
        for one in expected {
            let numbers_of_one = numbers(one, fields);
            let distance =
                |other: &Value| largest_difference(&numbers_of_one, &numbers(other, fields));
            let same_class = |(_, other): &(usize, &&Value)| other["class_id"] == one["class_id"];
            let nearest = left
                .iter()
                .enumerate()
                .filter(same_class)
                .map(|(place, other)| (place, distance(other)))
                .min_by(|a, b| a.1.total_cmp(&b.1));
            let Some((place, distance)) = nearest else { return format!("missed {one}") };
            let other = left.swap_remove(place);
            let score = largest_difference(&numbers(one, &["score"]), &numbers(other, &["score"]));
            let (of_box, most_of_box) = if is_2d {
                (&mut self.pixels, most("corner"))
            } else {
                (&mut self.metres, most("centre, size, yaw, velocity"))
            };
            *of_box = of_box.max(distance);
            self.score = self.score.max(score);
            if distance > most_of_box || score > most("score") {
                return format!("{one} against {other}");
            }
        }
        self.num_detections += expected.len();
        String::new()
    }
}

/// All numbers of some fields of a detection in a row.
fn numbers(detection: &Value, fields: &[&str]) -> Vec<f64> {
    let values = fields.iter().flat_map(|field| match &detection[field] {
        Value::Array(values) => values.clone(),
        value => vec![value.clone()],
    });
    values.filter_map(|value| value.as_f64()).collect()
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}
