use std::fmt::Write;
use std::path::Path;

use super::table::{NEWEST_SET, OPERATORS};

/// Names below what they share: types of inputs, or a rule.
type Groups<'a> = Vec<(&'a str, Vec<String>)>;

fn add<'a>(groups: &mut Groups<'a>, shared: &'a str, name: String) {
    match groups.iter_mut().find(|(other, _)| *other == shared) {
        Some((_, names)) => names.push(name),
        None => groups.push((shared, vec![name])),
    }
}

/// The list and the table of docs/numerics.md.
fn listed() -> String {
    let types: Vec<_> = OPERATORS.iter().map(|operator| operator.takes.join(" ")).collect();
    let (mut plain, mut ruled) = (Groups::new(), Groups::new());
    for (operator, types) in OPERATORS.iter().zip(&types) {
        let name = format!("{}-{}", operator.name, operator.since);
        match &operator.rule {
            Some(rule) => {
                add(&mut ruled, rule.text, format!("{name} {types}").trim_end().to_owned())
            }
            None => add(&mut plain, types, name),
        }
    }
    let mut text = String::from("As ONNX defines them, by the types of their inputs:\n\n");
    for (types, names) in plain {
        let types = if types.is_empty() { "any" } else { types };
        writeln!(text, "- {types}: {}", names.join(", ")).unwrap();
    }
    text.push_str("\n| operators | rule |\n|---|---|\n");
    for (rule, operators) in ruled {
        writeln!(text, "| {} | {rule} |", operators.join("; ")).unwrap();
    }
    text
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
