//! Labels by the area of a box: `detection_class_remapper.param.yaml`.

use std::path::Path;

use super::{in_folder, keys};
use crate::config::files::{Sections, origin_of, read_file};
use crate::config::like::translation::{Given, Translation};
use crate::config::like::values::{numbers_of, text_of};
use crate::config::problems::Problems;
use det_post_ros::NodeName;

/// Autoware's labels, by number.
const LABELS: [&str; 8] =
    ["UNKNOWN", "CAR", "TRUCK", "BUS", "TRAILER", "MOTORBIKE", "BICYCLE", "PEDESTRIAN"];
const OURS: &str = "remap_by_area";

/// Sets `remap_by_area` from the matrices, from the file that has them, or, in the oldest
/// files, from `rename_car_to_truck_and_bus`.
pub(in crate::config::like) fn translate(
    t: &mut Translation<'_>,
    node: &NodeName,
    folder: Option<&Path>,
    has_suppression: bool,
) {
    let rename = t.take(&keys::RENAME);
    let has_matrices = t.has_key(&keys::ALLOW_REMAPPING);
    if let Some(given) = t.take(&keys::REMAPPER_PATH) {
        read(t, node, &given, folder, has_matrices);
    }
    let matrices =
        [&keys::ALLOW_REMAPPING, &keys::MIN_AREA, &keys::MAX_AREA].map(|key| t.take(key));
    match (matrices, rename) {
        ([Some(allow), Some(min), Some(max)], rename) => {
            from_matrices(t, &allow, &min, &max);
            rename.iter().for_each(|given| t.unknown_here(given));
        }
        ([None, None, None], Some(given)) if !has_suppression => by_size(t, &given),
        ([None, None, None], rename) => {
            rename.iter().for_each(|given| t.unknown_here(given));
            if has_suppression {
                t.warn_of_absence(
                    "allow_remapping_by_area_matrix is not given (detection_class_remapper.param.yaml): labels do \
                     not depend on the area of a box",
                );
            }
        }
        ([allow, min, max], _) => {
            let given = [allow, min, max].into_iter().flatten().next();
            if let Some(given) = given {
                t.refuse(&given, "all three matrices, or none");
            }
        }
    }
}

/// Adds the matrices of the file that a parameter names.
fn read(
    t: &mut Translation<'_>,
    node: &NodeName,
    given: &Given,
    folder: Option<&Path>,
    has_matrices: bool,
) {
    let Some(path) = text_of(&given.node).map(|path| in_folder(folder, path)) else {
        return t.refuse(given, "text");
    };
    if has_matrices {
        return t.convert(given, &[], "not read: the matrices are given");
    }
    let text = match read_file(Path::new(&path)) {
        Ok(text) => text,
        Err(error) => {
            t.convert(given, &[], "");
            return t.warn(&given.key, &format!("{error}: labels do not depend on the area"));
        }
    };
    let mut problems = Problems::default();
    let mut sections = Sections::new(node, t.arguments, false);
    sections.add_file(&text, &origin_of(Path::new(&path)), &mut problems);
    let entries = sections.into_entries(&mut problems);
    t.append_problems(problems);
    t.convert(given, &[], &format!("{path} is read"));
    t.give(entries);
}

/// Row by row, a row per label: from, to, least and most area.
fn from_matrices(t: &mut Translation<'_>, allow: &Given, min: &Given, max: &Given) {
    let numbers = [allow, min, max].map(|given| numbers_of(&given.node));
    let [Some(allowed), Some(least), Some(most)] = &numbers else {
        let each = [allow, min, max].into_iter().zip(&numbers);
        let others = each.filter_map(|(given, numbers)| numbers.is_none().then_some(given));
        return others.for_each(|given| t.refuse(given, "a list of numbers"));
    };
    let num_labels = allowed.len().isqrt();
    if num_labels * num_labels != allowed.len()
        || least.len() != allowed.len()
        || most.len() != allowed.len()
    {
        let found = format!("{}, {} and {} values", allowed.len(), least.len(), most.len());
        let message = format!("found matrices of {found}; allowed: three square ones of one size");
        return t.problem(&allow.key, &message);
    }
    let label = |number: usize| match LABELS.get(number) {
        Some(name) => (*name).to_owned(),
        None => number.to_string(),
    };
    let rules: Vec<String> = (0..allowed.len())
        .filter(|&cell| allowed[cell] != 0.0)
        .map(|cell| {
            let (from, to) = (cell / num_labels, cell % num_labels);
            let most = if most[cell].is_finite() { most[cell] } else { f64::INFINITY };
            format!("{} {} {:?} {most:?}", label(from), label(to), least[cell])
        })
        .collect();
    t.convert(allow, &[(OURS, rules.into())], "");
    [min, max].into_iter().for_each(|given| t.convert(given, &[], "in `remap_by_area`"));
}

/// `rename_car_to_truck_and_bus`: cars above 12.1 m² are trucks, above 19.75 m² buses.
fn by_size(t: &mut Translation<'_>, given: &Given) {
    let (truck, bus) = (12.1_f32, 19.75_f32);
    let rules = vec![
        format!("CAR TRUCK {:?} {bus:?}", truck.next_up()),
        format!("CAR BUS {:?} inf", bus.next_up()),
    ];
    match crate::config::value::flag().read(&given.node, None) {
        Some((true, _)) => t.convert(given, &[(OURS, rules.into())], ""),
        Some((false, _)) => t.convert(given, &[], ""),
        None => t.refuse(given, "true or false"),
    }
}
