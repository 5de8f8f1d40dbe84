//! Names and labels of the classes of YOLOX: `label.txt`, `roi_label_remap.csv`.

use std::collections::BTreeMap;
use std::path::Path;

use super::{keys, path};
use crate::config::files::read_file;
use crate::config::like::translation::{Given, Translation, text_of};
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
    let mut names: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut name = line.to_owned();
        let mut number = 2;
        while names.contains(&name) {
            name = format!("{line}_{number}");
            number += 1;
        }
        names.push(name);
    }
    match names.is_empty() {
        true => Err(format!("{path} has no names of classes")),
        false => Ok(names),
    }
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
