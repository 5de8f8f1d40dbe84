//! Names and labels of the classes of YOLOX: `label.txt`, `roi_label_remap.csv`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use super::{keys, path};
use crate::config::files::read_file;
use crate::config::like::translation::{Given, Translation};
use crate::config::like::values::text_of;
use det_post_ros::yaml::Node;

/// Sets the names of the classes, and their labels where a csv gives them.
pub(super) fn translate(t: &mut Translation<'_>, folder: Option<&Path>) {
    let mut names = Vec::new();
    let pattern =
        path(t, &keys::LABEL_PATH, folder, "label.txt", |t, given, path| match read_names(path) {
            Ok(found) => {
                t.convert(given, &[("head.class_names", found.clone().into())], "");
                names = found;
            }
            Err(message) => t.problem(&given.key, &message),
        });
    if let Some(path) = pattern {
        match read_names(&path) {
            Ok(found) => {
                t.set("head.class_names", found.clone());
                names = found;
            }
            Err(message) => t.problem(keys::LABEL_PATH.names[0], &message),
        }
    }
    let remap = t.take(&keys::ROI_REMAP_PATH);
    match remap {
        Some(given) if text_of(&given.node) == Some("") => {
            t.convert(&given, &[], "labels follow from the names of the classes");
        }
        Some(given) => remap_labels(t, &given, folder, &names),
        None => {}
    }
}

/// The lines of a file. A name that repeats gets a number, as ours are unique.
fn read_names(path: &str) -> Result<Vec<String>, String> {
    let text = read_file(Path::new(path)).map_err(|error| error.to_string())?;
    let names = unique(text.lines().map(str::trim).filter(|line| !line.is_empty()));
    match names.is_empty() {
        true => Err(format!("{path} has no names of classes")),
        false => Ok(names),
    }
}

/// Names with a number behind those that were there before. Each name is counted on from its last
/// number, so that many equal ones take no longer than others.
fn unique<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut next: HashMap<&str, usize> = HashMap::new();
    let mut names = Vec::new();
    for line in lines {
        let mut name = line.to_owned();
        let number = next.entry(line).or_insert(2);
        while !taken.insert(name.clone()) {
            name = format!("{line}_{number}");
            *number += 1;
        }
        names.push(name);
    }
    names
}

/// Labels by the names of a csv.
fn remap_labels(t: &mut Translation<'_>, given: &Given, folder: Option<&Path>, names: &[String]) {
    let Some(path) = text_of(&given.node) else { return t.refuse(given, "a path") };
    let path = folder.map_or_else(|| path.into(), |folder| folder.join(path));
    let labels = read_file(&path)
        .map_err(|error| error.to_string())
        .and_then(|text| labels_of(&text, names).map_err(|e| format!("{}: {e}", path.display())));
    match labels {
        Ok(labels) => {
            let keys: Vec<String> = names.iter().map(|name| format!("labels.{name}")).collect();
            let ours: Vec<(&str, Node)> =
                keys.iter().zip(labels).map(|(key, label)| (&**key, label.into())).collect();
            t.convert(given, &ours, "");
        }
        Err(message) => t.problem(&given.key, &message),
    }
}

/// The label of each class: lines `NAME, NUMBER` behind a header, `#` begins a comment.
fn labels_of(text: &str, names: &[String]) -> Result<Vec<i64>, String> {
    let mut labels: BTreeMap<&str, i64> = BTreeMap::new();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
    for line in lines.filter(|line| !line.is_empty()).skip(1) {
        let (name, label) = line.split_once(',').ok_or_else(|| format!("`{line}` has no comma"))?;
        let label = label.trim().parse::<i64>().ok().filter(|label| (-1..=255).contains(label));
        let label = label.ok_or_else(|| format!("`{line}` has no label from -1 to 255"))?;
        labels.insert(name.trim(), label);
    }
    names
        .iter()
        .map(|name| {
            labels.get(&**name).copied().ok_or_else(|| format!("the class {name} is not listed"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_get_numbers_in_linear_time() {
        let names = unique(["a", "b", "a", "a_2", "a", "b"].into_iter());
        assert_eq!(names, ["a", "b", "a_2", "a_2_2", "a_3", "b_2"]);
        let names = unique(std::iter::repeat_n("x", 100_000));
        assert_eq!(names[99_999], "x_100000");
    }

    #[test]
    fn labels_are_read_by_name() {
        let names = ["CAR", "CAT"].map(str::to_owned);
        let text = "from, to # header\n# a comment\n\n  CAT , -1 # dropped\nCAR, 1\nBUS,3\n";
        assert_eq!(labels_of(text, &names), Ok(vec![1, -1]));
        for (text, named) in [
            ("from, to\nCAR, 1\n", "the class CAT"),
            ("from, to\nCAR 1\n", "no comma"),
            ("from, to\nCAR, x\n", "no label"),
            ("from, to\nCAR, 256\n", "no label"),
        ] {
            let message = labels_of(text, &names).unwrap_err();
            assert!(message.contains(named), "{message}");
        }
    }
}
