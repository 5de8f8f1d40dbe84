//! Parameter files and overrides to one flat map of dotted keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use indexmap::{IndexMap, IndexSet};

use super::paths;
use super::problems::{Origin, Problems, shorten};
use super::scalar::scalar;
use super::substitution::{self, Arguments, substitute};
use det_post_ros::yaml::{MAX_BYTES, Node};
use det_post_ros::{NodeName, split_node};
use det_post_types::{Error, ErrorKind, Result, input_file};

/// The key above the parameters of a node.
const PARAMETERS: &str = "ros__parameters";

/// The section for every node.
const EVERY_NODE: &str = "/**";

/// A value and its origin.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) node: Node,
    pub(super) origin: Origin,
}

/// Values by dotted key.
pub(super) type Entries = BTreeMap<String, Entry>;

/// The values of parameter files for a node.
pub(super) struct Sections<'a> {
    node: &'a NodeName,
    arguments: &'a Arguments,
    /// Whether a file without sections holds values for every node.
    takes_plain: bool,
    /// The sections that apply to the node, by name, in the order in which the names
    /// first appear. rcl applies them in this order; values of a later file for a name
    /// that was seen before are at the position of its first appearance.
    applying: IndexMap<String, Entries>,
    /// Names of sections of other nodes.
    others: IndexSet<String>,
    /// Keys whose values are not read: substitutions in them need no value.
    is_unread: fn(&str) -> bool,
    /// Whether sections of other nodes only are a problem, not a warning.
    needs_section: bool,
}

impl<'a> Sections<'a> {
    pub(super) fn new(node: &'a NodeName, arguments: &'a Arguments, takes_plain: bool) -> Self {
        let (applying, others) = (IndexMap::new(), IndexSet::new());
        let (is_unread, needs_section): (fn(&str) -> bool, _) = (|_| false, false);
        Self { node, arguments, takes_plain, applying, others, is_unread, needs_section }
    }

    /// Takes substitutions without a value in keys that are not read.
    pub(super) fn with_unread(self, is_unread: fn(&str) -> bool) -> Self {
        Self { is_unread, ..self }
    }

    /// Refuses sections of other nodes only.
    pub(super) fn with_needed(self, needs_section: bool) -> Self {
        Self { needs_section, ..self }
    }

    /// Adds the sections of a file's text. An empty file has none.
    pub(super) fn add_file(&mut self, text: &str, origin: &Origin, problems: &mut Problems) {
        let read_text = |text: &str, is_plain| self.read_text(text, is_plain);
        let added = Node::parse_with(text, &read_text).and_then(|file| match file {
            Node::Null => Ok(()),
            Node::Map(_) if self.takes_plain && !has_section(&file) => {
                self.add_section(EVERY_NODE, file, origin, problems);
                Ok(())
            }
            Node::Map(_) => self.add_sections("", file, origin, problems),
            _ => Err("is not a parameter file; allowed: a mapping of node names".into()),
        });
        if let Err(message) = added {
            problems.push(&origin.name, &message);
        }
    }

    /// A scalar with its substitutions replaced; without quotes it is then read as ROS reads
    /// it. One that cannot be replaced remains, and is refused if its section applies.
    fn read_text(&self, text: &str, is_plain: bool) -> Node {
        let replaced = match substitution::is_in(text) {
            true => substitute(text, self.arguments).unwrap_or_else(|_| text.to_owned()),
            false => text.to_owned(),
        };
        if is_plain { scalar(&replaced) } else { Node::Text(replaced) }
    }

    /// Follows node names, nested or joined by `/`, down to `ros__parameters:`.
    fn add_sections(
        &mut self,
        name: &str,
        node: Node,
        origin: &Origin,
        problems: &mut Problems,
    ) -> std::result::Result<(), String> {
        let Node::Map(map) = node else {
            let allowed = format!("allowed: `{}:` or `/**:`, then", self.node.full());
            return Err(format!("`{name}` holds {node}; {allowed} `ros__parameters:`"));
        };
        for (key, node) in map {
            if key != PARAMETERS {
                let separator = if name.is_empty() || name.ends_with('/') { "" } else { "/" };
                self.add_sections(&format!("{name}{separator}{key}"), node, origin, problems)?;
            } else if name.is_empty() {
                return Err(format!("`{PARAMETERS}:` stands below no node name"));
            } else if matches!(node, Node::Map(_) | Node::Null) {
                self.add_section(name, node, origin, problems);
            } else {
                return Err(format!("`{name}` holds no `{PARAMETERS}:` mapping"));
            }
        }
        Ok(())
    }

    fn add_section(&mut self, name: &str, node: Node, origin: &Origin, problems: &mut Problems) {
        if !applies(name, self.node) {
            self.others.insert(name.to_owned());
            return;
        }
        let origin = Origin { is_shared: name.ends_with('*'), ..origin.clone() };
        let mut entries = Entries::new();
        flatten("", node, &origin, &mut entries, problems);
        for (key, entry) in entries.iter().filter(|(key, _)| !(self.is_unread)(key)) {
            self.check_replaced(key, &entry.node, &origin, problems);
        }
        self.applying.entry(name.to_owned()).or_default().extend(entries);
    }

    /// Adds an assignment of `--ros-args`, `-p [NODE:]KEY:=VALUE`, as rcl does: to the section of the
    /// node that it names, else of every node.
    fn add_assignment(&mut self, assignment: &str, problems: &mut Problems) {
        let (name, unnamed) = split_node(assignment);
        let name = name.unwrap_or(EVERY_NODE);
        if !applies(name, self.node) {
            return;
        }
        match assignment_of(self.node, unnamed) {
            Ok((key, node)) => {
                let mut entries = Entries::new();
                flatten(&key, node, &Origin::own("-p"), &mut entries, problems);
                self.applying.entry(name.to_owned()).or_default().extend(entries);
            }
            Err(message) => problems.push(&format!("-p {assignment}"), &message),
        }
    }

    /// Refuses a substitution that was not replaced.
    fn check_replaced(&self, key: &str, node: &Node, origin: &Origin, problems: &mut Problems) {
        match node {
            Node::Text(text) if substitution::is_in(text) => {
                if let Err(message) = substitute(text, self.arguments) {
                    problems.push(&format!("{}: {key}", origin.name), &message);
                }
            }
            Node::List(items) => {
                items.iter().for_each(|item| self.check_replaced(key, item, origin, problems));
            }
            _ => {}
        }
    }

    /// The effective values: the later section takes precedence.
    pub(super) fn into_entries(self, problems: &mut Problems) -> Entries {
        if self.applying.is_empty() && !self.others.is_empty() {
            let found: Vec<_> = self.others.iter().map(|name| format!("`{name}`")).collect();
            let found = shorten(&found.join(", "));
            let names = self.others.iter().filter(|name| !name.contains('*'));
            let first = names.map(|name| name.trim_matches('/')).find(|name| !name.is_empty());
            let named = first.map_or("__ns:=NAMESPACE -r __node:=NAME".to_owned(), |name| {
                let (namespace, node) = name.rsplit_once('/').unwrap_or(("", name));
                format!("__ns:=/{namespace} -r __node:={node}")
            });
            let message = format!(
                "no section applies to {}: found {found}; `--ros-args -r {named}` names the node",
                self.node.full()
            );
            match self.needs_section {
                true => problems.push("FILES", &message),
                false => problems.warn(message),
            }
        }
        self.applying.into_values().flatten().collect()
    }
}

/// Whether a file has a section.
fn has_section(node: &Node) -> bool {
    match node {
        Node::Map(map) => map.iter().any(|(key, node)| key == PARAMETERS || has_section(node)),
        _ => false,
    }
}

/// Whether the name of a section matches a node, as in rclcpp: `*` for any
/// one part of a name, `**` for any number of parts, also none.
fn applies(section: &str, node: &NodeName) -> bool {
    let node = node.full();
    let parts: Vec<&str> = name_parts(&node).collect();
    // reached[n]: the parts of the section so far match the first n parts of the
    // node's name.
    let mut reached = vec![false; parts.len() + 1];
    reached[0] = true;
    for pattern in name_parts(section) {
        let mut next = vec![false; reached.len()];
        for start in (0..reached.len()).filter(|&start| reached[start]) {
            match pattern {
                "**" => next[start..].fill(true),
                _ if start == parts.len() => {}
                _ => next[start + 1] |= pattern == "*" || pattern == parts[start],
            }
        }
        reached = next;
    }
    reached[parts.len()]
}

fn name_parts(name: &str) -> impl Iterator<Item = &str> {
    name.split('/').filter(|part| !part.is_empty())
}

/// Parameters of `--ros-args`. As in rcl, an assignment is a section of a file, `/**` or the node that
/// it names, so that order and names of sections decide which of two values holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RosSource {
    /// `--params-file PATH`.
    File(PathBuf),
    /// `-p [NODE:]KEY:=VALUE`.
    Assignment(String),
}

/// Reads what files, `--ros-args`, then overrides hold for the node of `sections`; the later wins.
pub(super) fn read(
    mut sections: Sections<'_>,
    files: &[PathBuf],
    ros: &[RosSource],
    overrides: &[String],
    problems: &mut Problems,
) -> Result<Entries> {
    let node = sections.node;
    for path in files {
        sections.add_file(&read_file(path)?, &origin_of(path), problems);
    }
    for given in ros {
        match given {
            RosSource::File(path) => {
                sections.add_file(&read_file(path)?, &origin_of(path), problems);
            }
            RosSource::Assignment(assignment) => sections.add_assignment(assignment, problems),
        }
    }
    let mut entries = sections.into_entries(problems);
    let origin = Origin::own("-p");
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

/// The origin of the values of a file.
pub(super) fn origin_of(path: &Path) -> Origin {
    let note = match paths::is_copy(path) {
        true => " (written by launch: the parameters of its node, or a copy of a file)",
        false => "",
    };
    let name = format!("{}{note}", path.display());
    Origin { folders: paths::folder_of(path), ..Origin::own(&name) }
}

/// The text of a file of at most [`MAX_BYTES`].
pub(super) fn read_file(path: &Path) -> Result<String> {
    input_file::read_text(path, MAX_BYTES).map_err(|error| {
        let message =
            format!("cannot read {} as a parameter file{}", path.display(), what_is(path));
        Error::new(ErrorKind::Config, "config", message).with_source(error)
    })
}

/// What a file is by its name, where it is none of parameters.
fn what_is(path: &Path) -> &'static str {
    match path.extension().and_then(|end| end.to_str()) {
        Some("onnx") => ": a network goes behind --model, or into `NAME.model_path`",
        Some("mcap" | "db3") => ": a recording goes to `det_post inspect` or `det_post replay`",
        Some("safetensors") => ": weights go into `NAME.weights_path`",
        _ if path.join("metadata.yaml").is_file() => {
            ": a recording goes to `det_post inspect` or `det_post replay`"
        }
        _ => "",
    }
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
        Some((name, key)) if applies(name, node) => key,
        Some((name, _)) => return Err(format!("is for node `{name}`, not {}", node.full())),
    };
    if key.is_empty() || key.split('.').any(str::is_empty) {
        return Err(format!("has an empty part in its key; {allowed}"));
    }
    let read_text = |text: &str, is_plain| match is_plain {
        true => scalar(text),
        false => Node::Text(text.to_owned()),
    };
    Ok((key.to_owned(), Node::parse_with(value, &read_text)?))
}

/// Turns nested mappings into dotted keys below `prefix`. An empty mapping, or a
/// top-level key without a value, has no values.
pub(super) fn flatten(
    prefix: &str,
    node: Node,
    origin: &Origin,
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
            let entry = Entry { node, origin: origin.clone() };
            if entries.insert(prefix.to_owned(), entry).is_some() {
                problems.push(prefix, &format!("is given twice in {}", origin.name));
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

    /// The values of rcl's `rcl_parse_arguments` and rclcpp's `parameter_map_from`.
    #[test]
    fn assignments_and_files_hold_in_the_order_of_rcl() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            RosSource::File(path)
        };
        let every = file("every.yaml", "/**:\n  ros__parameters:\n    a: 1\n");
        let own = file("own.yaml", "/det_post:\n  ros__parameters:\n    a: 2\n");
        let both = "/**:\n  ros__parameters:\n    b: 0\n/det_post:\n  ros__parameters:\n    a: 3\n";
        let both = file("both.yaml", both);
        let set = |text: &str| RosSource::Assignment(text.to_owned());
        for (ros, expected) in [
            (vec![every.clone(), set("a:=9")], 9),
            // The file comes later, into the section of the assignment.
            (vec![set("a:=9"), every.clone()], 1),
            (vec![set("a:=9"), own.clone()], 2),
            (vec![own.clone(), set("a:=9")], 9),
            // The assignment is at the place of `/**`, ahead of the node's section.
            (vec![both.clone(), set("a:=9")], 3),
            (vec![both.clone(), set("det_post:a:=9")], 9),
            (vec![set("det_post:a:=9"), set("a:=8")], 8),
            (vec![set("a:=8"), set("det_post:a:=9"), set("a:=7")], 9),
            (vec![every.clone(), set("other:a:=9")], 1),
            (vec![every, own, set("a:=9")], 2),
        ] {
            let (node, arguments) = (det_post(), Arguments::default());
            let mut problems = Problems::default();
            let sections = Sections::new(&node, &arguments, false);
            let found = read(sections, &[], &ros, &[], &mut problems).unwrap();
            assert_eq!(found["a"].node, Node::Integer(expected), "{ros:?}");
            let overrides = ["a:=5".to_owned()];
            let sections = Sections::new(&node, &arguments, false);
            let found = read(sections, &[], &ros, &overrides, &mut problems).unwrap();
            assert_eq!(found["a"].node, Node::Integer(5), "{ros:?}");
            assert!(problems.is_empty());
        }
    }

    #[test]
    fn sections_apply_as_rclcpp_reads_their_names() {
        let front = NodeName::new("/car/front", "det_post").unwrap();
        for (section, of_root, of_front) in [
            ("/**", true, true),
            ("**", true, true),
            ("/*", true, false),
            ("det_post", true, false),
            ("/det_post", true, false),
            ("/*/det_post", false, false),
            ("/*/*/det_post", false, true),
            ("/**/det_post", true, true),
            ("/**/front/**", false, true),
            ("/car/front/*", false, true),
            ("/car/front/det_post", false, true),
            ("car/front/det_post", false, true),
            ("/car/*", false, false),
            ("/car/**", false, true),
            ("/det_*", false, false),
            ("/other", false, false),
            ("/det_post/front", false, false),
        ] {
            assert_eq!(applies(section, &det_post()), of_root, "{section}");
            assert_eq!(applies(section, &front), of_front, "{section}");
        }
        let hostile = "/**".repeat(80_000) + "/x";
        assert!(!applies(&hostile, &front));
    }
}
