use std::fmt::Write;
use std::path::Path;

use super::table::{NEWEST_SET, OPERATORS};

/// The list and the table of docs/numerics.md.
fn listed() -> String {
    let mut plain = Vec::new();
    let mut ruled: Vec<(&str, Vec<String>)> = Vec::new();
    for operator in OPERATORS {
        let rule = operator.rule.as_ref().map_or("", |rule| rule.text);
        let (name, since, takes) = (operator.name, operator.since, operator.takes.join(" "));
        let text = format!("{name} {since} {takes}").trim_end().to_owned();
        if rule.is_empty() {
            plain.push(text);
        } else if let Some((_, operators)) = ruled.iter_mut().find(|(other, _)| *other == rule) {
            operators.push(text);
        } else {
            ruled.push((rule, vec![text]));
        }
    }
    let mut table = String::from("| operators | rule |\n|---|---|\n");
    for (rule, operators) in ruled {
        writeln!(table, "| {} | {rule} |", operators.join("; ")).unwrap();
    }
    format!("As ONNX defines them: {}.\n\n{table}", plain.join("; "))
}

#[test]
fn operators_are_sorted_and_documented() {
    let names = OPERATORS.iter().map(|operator| operator.name.to_lowercase());
    assert!(names.is_sorted());
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/numerics.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (begin, end) = ("<!-- operators of rten -->\n\n", "\n<!-- end -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let (found, after) = rest.split_once(end).unwrap();
    if std::env::var_os("DET_POST_RECORD").is_some_and(|value| value == "1") {
        std::fs::write(&page, [before, begin, &listed(), end, after].concat()).unwrap();
        return;
    }
    assert!(found == listed(), "DET_POST_RECORD=1 writes the table of docs/numerics.md");
    assert!(text.contains(&format!("operator set {NEWEST_SET}")));
}

#[test]
fn the_networks_of_the_demo_stay_as_they_are() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
    let mut num = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".onnx") || name.ends_with(".scn.onnx") {
            continue;
        }
        let checked = super::check(&std::fs::read(&path).unwrap()).unwrap();
        assert!(checked.changed.is_none() && !checked.depends_on_values, "{name}");
        num += 1;
    }
    assert!(num > 0);
}
