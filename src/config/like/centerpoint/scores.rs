//! Score and yaw-norm thresholds of CenterPoint.

use super::{ML_PACKAGE, NODE_FILE, keys, list_of};
use crate::config::like::translation::{Given, Translation};
use crate::config::like::values::{number_of, numbers_of};
use det_post_ros::yaml::Node;

const LIMITS: &str = "distance_upper_limits_m";
const BY_DISTANCE: &str = "score_thresholds_by_distance";
/// The threshold of the launch file of old versions.
const DEFAULT: f64 = 0.35;
/// The farthest limit of a bin that we take.
const FARTHEST_M: f64 = 1e6;

/// The score thresholds: of the keys that are given the newest holds. Returns whether there
/// is one for all classes.
pub(super) fn translate(t: &mut Translation<'_>, class_names: &[String], is_nested: bool) -> bool {
    let limits = t.take(&keys::BIN_LIMITS);
    let per_class = t.take(&keys::SCORE_THRESHOLDS);
    let single = t.take(&keys::SCORE_THRESHOLD);
    let is_single = limits.is_none() && per_class.is_none();
    t.set("score_kept_when", if is_single { "above" } else { "at_least" });
    match (limits, per_class, single) {
        (Some(limits), per_class, single) => {
            bins(t, &limits, class_names);
            per_class.iter().chain(&single).for_each(|older| t.replaced(older));
        }
        (None, Some(given), single) => {
            single.iter().for_each(|older| t.replaced(older));
            match list_of(&given.node, class_names.len()) {
                Some(scores) => emit(t, &given, "score_thresholds", &scores),
                None => t.refuse(&given, &one_per_class(class_names)),
            }
        }
        (None, None, Some(given)) => match number_of(&given.node) {
            Some(score) => {
                let [score] = unit_interval(&[score])[..] else { return true };
                t.convert(&given, &[("score_thresholds", score.into())], "");
                warn_outside(t, &given, &[number_of(&given.node).unwrap_or_default()]);
            }
            None => t.refuse(&given, "a number"),
        },
        (None, None, None) if is_nested => {
            let place = format!("{ML_PACKAGE} (2026-02 and later), before in {NODE_FILE}");
            t.missing("model_params.detection_score_thresholds", &place);
        }
        (None, None, None) => t.set("score_thresholds", DEFAULT),
    }
    is_single
}

fn one_per_class(class_names: &[String]) -> String {
    format!("a list of {} numbers, one per class", class_names.len())
}

/// Thresholds by distance and class.
fn bins(t: &mut Translation<'_>, given: &Given, class_names: &[String]) {
    let Some(limits) = numbers_of(&given.node).filter(|limits| !limits.is_empty()) else {
        return t.refuse(given, "a list of numbers, one per bin");
    };
    let farthest: Vec<f64> = limits.iter().map(|limit| limit.min(FARTHEST_M)).collect();
    match farthest == limits {
        true => t.rename(given, LIMITS),
        false => t.convert(given, &[(LIMITS, farthest.into())], "at most 1000 km"),
    }
    if let Some(matrix) = t.take(&keys::BIN_MATRIX) {
        return matrix_of(t, &matrix, limits.len(), class_names);
    }
    for class in class_names {
        let ours = format!("{BY_DISTANCE}.{class}");
        let mut of_class = None;
        for name in keys::BIN_SCORES.names {
            let name = name.replace("<CLASS>", class);
            let Some(found) = t.take_name(&name) else { continue };
            match &of_class {
                None => of_class = Some(found),
                Some(_) => t.replaced(&found),
            }
        }
        match of_class {
            None => {
                let name = keys::BIN_SCORES.names[0].replace("<CLASS>", class);
                t.missing(&name, ML_PACKAGE);
            }
            Some(found) => match list_of(&found.node, limits.len()) {
                Some(scores) => emit(t, &found, &ours, &scores),
                None => {
                    t.refuse(&found, &format!("a list of {} numbers, one per bin", limits.len()));
                }
            },
        }
    }
}

/// Thresholds as a matrix, a row per bin and a column per class.
fn matrix_of(t: &mut Translation<'_>, given: &Given, num_bins: usize, class_names: &[String]) {
    let num_classes = class_names.len();
    let Some(scores) = list_of(&given.node, num_bins * num_classes) else {
        let allowed = format!("a list of {num_bins} rows of {num_classes} numbers, row by row");
        return t.refuse(given, &allowed);
    };
    let inside = unit_interval(&scores);
    let of_class =
        |class: usize| inside[class..].iter().step_by(num_classes).copied().collect::<Vec<f64>>();
    let ours: Vec<(String, Node)> = class_names
        .iter()
        .enumerate()
        .map(|(class, name)| (format!("{BY_DISTANCE}.{name}"), of_class(class).into()))
        .collect();
    let ours: Vec<(&str, Node)> = ours.iter().map(|(key, node)| (&**key, node.clone())).collect();
    t.convert(given, &ours, "a row per bin");
    warn_outside(t, given, &scores);
}

/// Least norms of sine and cosine.
pub(super) fn yaw_norms(t: &mut Translation<'_>, num_classes: usize, is_nested: bool) {
    const OURS: &str = "yaw_norm_thresholds";
    let given = match is_nested {
        true => t.take_required(&keys::YAW_NORM_THRESHOLDS, NODE_FILE),
        false => t.take(&keys::YAW_NORM_THRESHOLDS),
    };
    let Some(given) = given else { return };
    let norms = match (number_of(&given.node), given.key.as_str()) {
        (Some(norm), "yaw_norm_threshold") => Some(vec![norm]),
        _ => list_of(&given.node, num_classes),
    };
    match norms {
        Some(norms) => emit(t, &given, OURS, &norms),
        None => t.refuse(&given, &format!("a list of {num_classes} numbers, one per class")),
    }
}

/// Sets a list of numbers, those outside [0, 1) to 0 as in their node.
pub(in crate::config::like) fn emit(
    t: &mut Translation<'_>,
    given: &Given,
    ours: &str,
    numbers: &[f64],
) {
    let inside = unit_interval(numbers);
    // Further numbers, which have no effect, are left out.
    let is_all = numbers_of(&given.node).is_none_or(|all| all.len() == numbers.len());
    match is_all && inside == numbers {
        true => t.rename(given, ours),
        false => t.convert(given, &[(ours, inside.into())], ""),
    }
    warn_outside(t, given, numbers);
}

fn unit_interval(numbers: &[f64]) -> Vec<f64> {
    numbers.iter().map(|&n| if (0.0..1.0).contains(&n) { n } else { 0.0 }).collect()
}

fn warn_outside(t: &mut Translation<'_>, given: &Given, numbers: &[f64]) {
    if numbers.iter().any(|number| !(0.0..1.0).contains(number)) {
        t.warn(&given.key, "outside [0, 1): 0, as in their node");
    }
}
