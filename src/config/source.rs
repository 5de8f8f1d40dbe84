//! Parameter files and overrides to one flat map of dotted keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::problems::Problems;
use crate::error::{Error, ErrorKind, Result};
use crate::input_file;
use crate::types::NodeName;
use crate::yaml::{MAX_BYTES, Node};

/// A value and where it was given.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) node: Node,
    pub(super) origin: Rc<str>,
}

/// Values by dotted key.
pub(super) type Entries = BTreeMap<String, Entry>;

/// Sections that hold for a node, the more specific ones later.
fn sections(node: &NodeName) -> [String; 4] {
    ["/**".into(), "**".into(), node.name().into(), node.full()]
}

/// Reads what files, then overrides hold for `node`; the later wins.
pub(super) fn read(
    node: &NodeName,
    files: &[PathBuf],
    overrides: &[String],
    problems: &mut Problems,
) -> Result<Entries> {
    let mut entries = Entries::new();
    for path in files {
        let origin = path.display().to_string();
        add_file(node, &read_file(path)?, &origin, &mut entries, problems);
    }
    let origin: Rc<str> = "-p".into();
    for assignment in overrides {
        match assignment_of(node, assignment) {
            Ok((key, node)) => {
                let mut of_override = Entries::new();
                flatten(&key, node, &origin, &mut of_override, problems);
                entries.extend(of_override);
            }
            Err(message) => problems.push(&format!("-p {assignment}"), &message),
        }
    }
    Ok(entries)
}

/// Adds what the text of a parameter file holds for `node`.
pub(super) fn add_file(
    node: &NodeName,
    text: &str,
    origin: &str,
    entries: &mut Entries,
    problems: &mut Problems,
) {
    let origin: Rc<str> = origin.into();
    match parameters_of(node, text) {
        Ok(sections) => {
            for section in sections {
                let mut of_section = Entries::new();
                flatten("", section, &origin, &mut of_section, problems);
                entries.extend(of_section);
            }
        }
        Err(message) => problems.push(&origin, &message),
    }
}

/// The text of a file of at most [`MAX_BYTES`].
pub(super) fn read_file(path: &Path) -> Result<String> {
    input_file::read_text(path, MAX_BYTES).map_err(|error| {
        Error::new(ErrorKind::Config, "config", format!("cannot read {}", path.display()))
            .with_source(error)
    })
}

/// The parameters of every section of a file that holds for this node.
fn parameters_of(node: &NodeName, text: &str) -> std::result::Result<Vec<Node>, String> {
    let allowed = format!("allowed: `/**:` or `{}:`, then `ros__parameters:`", node.full());
    let Node::Map(mut file) = Node::parse(text)? else {
        return Err(format!("is not a parameter file; {allowed}"));
    };
    let names = file.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let mut found = Vec::new();
    for name in sections(node) {
        match file.remove(&name) {
            None => {}
            Some(Node::Map(mut section)) if section.len() == 1 => {
                match section.remove("ros__parameters") {
                    Some(parameters @ (Node::Map(_) | Node::Null)) => found.push(parameters),
                    _ => return Err(format!("`{name}` holds no `ros__parameters:` mapping")),
                }
            }
            Some(_) => return Err(format!("`{name}` must hold `ros__parameters:` and no more")),
        }
    }
    if found.is_empty() {
        return Err(format!("no section holds for {}: found {names}; {allowed}", node.full()));
    }
    Ok(found)
}

/// Splits `key:=value` or `node:key:=value`.
pub(super) fn assignment_of(
    node: &NodeName,
    assignment: &str,
) -> std::result::Result<(String, Node), String> {
    let allowed = "allowed: `key:=value`";
    let (key, value) =
        assignment.split_once(":=").ok_or_else(|| format!("has no `:=`; {allowed}"))?;
    let key = match key.split_once(':') {
        None => key,
        Some((name, key)) if sections(node).iter().any(|section| section == name) => key,
        Some((name, _)) => return Err(format!("is for node `{name}`, not {}", node.full())),
    };
    if key.is_empty() || key.split('.').any(str::is_empty) {
        return Err(format!("has an empty part in its key; {allowed}"));
    }
    Ok((key.to_owned(), Node::parse(value)?))
}

/// Turns nested mappings into dotted keys below `prefix`. An empty mapping, or
/// one left out after its colon at the top, holds nothing.
pub(super) fn flatten(
    prefix: &str,
    node: Node,
    origin: &Rc<str>,
    entries: &mut Entries,
    problems: &mut Problems,
) {
    match node {
        Node::Map(map) => {
            for (name, node) in map {
                let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
                flatten(&key, node, origin, entries, problems);
            }
        }
        Node::Null if prefix.is_empty() => {}
        node => {
            let entry = Entry { node, origin: Rc::clone(origin) };
            if entries.insert(prefix.to_owned(), entry).is_some() {
                problems.push(prefix, &format!("is given twice in {origin}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn det_post() -> NodeName {
        NodeName::new("", "det_post").unwrap()
    }

    #[test]
    fn overrides_split_as_ros_has_them() {
        for (assignment, key, node) in [
            ("camera.head:=yolox", "camera.head", Node::Text("yolox".into())),
            ("device:=cuda:1", "device", Node::Text("cuda:1".into())),
            ("/det_post:a.b:=[1, 2]", "a.b", Node::List(vec![Node::Integer(1), Node::Integer(2)])),
            ("a:=", "a", Node::Null),
            ("a:=x:=y", "a", Node::Text("x:=y".into())),
        ] {
            assert_eq!(
                assignment_of(&det_post(), assignment),
                Ok((key.to_owned(), node)),
                "{assignment}"
            );
        }
        for assignment in ["", "a", "a=1", ":=1", "a..b:=1", "other:a:=1", "a:=[1"] {
            assert!(assignment_of(&det_post(), assignment).is_err(), "{assignment}");
        }
    }

    #[test]
    fn the_more_specific_section_wins() {
        let file =
            "/det_post: {ros__parameters: {a: 2}}\n/**: {ros__parameters: {a: 1, b: {c: 3}}}";
        let mut problems = Problems::default();
        let mut entries = Entries::new();
        for section in parameters_of(&det_post(), file).unwrap() {
            let mut of_section = Entries::new();
            flatten("", section, &"f".into(), &mut of_section, &mut problems);
            entries.extend(of_section);
        }
        assert_eq!(entries["a"].node, Node::Integer(2));
        assert_eq!(entries["b.c"].node, Node::Integer(3));
    }
}
