//! Declared parameters and their values.

use indexmap::IndexMap;

use super::files::{Entries, Entry};
use super::paths::{Folders, PathUse, missing};
use super::problems::Origin;
use det_post_ros::yaml::Node;
use det_post_ros::{ParameterRange, ParameterType};

/// Whether a parameter may change while the node runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Fixed when the node starts.
    Fixed,
    /// May change while the node runs.
    Live,
}

/// A declared parameter and its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declaration {
    /// Dotted name, with the channel's.
    pub(super) name: String,
    pub(super) parameter_type: ParameterType,
    pub(super) range: Option<ParameterRange>,
    pub(super) allowed: String,
    pub(super) default: DefaultValue,
    pub(super) unit: &'static str,
    pub(super) is_live: bool,
    pub(super) help: &'static str,
    /// The value in its plain form; `None` when it is unset or refused.
    pub(super) value: Option<Node>,
    /// What the value is to the file system.
    pub(super) path_use: PathUse,
    /// Where a relative path was looked for, before the folders of every value.
    pub(super) folders: Folders,
    /// Where the value comes from.
    pub(super) users_key: UsersKey,
}

/// The key of another node that a value comes from. It is no part of the value: all are equal.
#[derive(Clone, Debug, Default)]
pub(super) struct UsersKey(pub(super) Option<String>);

impl PartialEq for UsersKey {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Declaration {
    /// The key as the user has written it: of another node, with ours behind it, or ours.
    pub(super) fn as_given(&self) -> String {
        match &self.users_key.0 {
            Some(key) => format!("{key}: as {}", self.name),
            None => self.name.clone(),
        }
    }

    /// The paths of the value that lead nowhere, as sentences.
    pub(super) fn missing_files(&self) -> Vec<String> {
        self.value.iter().flat_map(|node| missing(node, &self.folders.0)).collect()
    }
}

/// The default of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DefaultValue {
    /// It must be given.
    Required,
    /// This value.
    Value(Node),
    /// Unset, or derived from other parameters, as the text states.
    Unset(&'static str),
}

/// A value as a file has it: text without quotes.
pub(super) fn plain(node: &Node) -> String {
    match node {
        Node::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Every value as if it had been given.
pub(super) fn entries<'d>(
    declared: impl IntoIterator<Item = &'d Declaration>,
    origin: &Origin,
) -> Entries {
    let entry = |d: &Declaration| {
        let origin = Origin { folders: d.folders.0.clone().into(), ..origin.clone() };
        Some((d.name.clone(), Entry { node: d.value.clone()?, origin }))
    };
    declared.into_iter().filter_map(entry).collect()
}

/// Every value by its name.
pub(super) fn values<'d>(
    declared: impl IntoIterator<Item = &'d Declaration>,
) -> impl Iterator<Item = (String, &'d Node)> {
    declared.into_iter().filter_map(|d| Some((d.name.clone(), d.value.as_ref()?)))
}

/// Values of parameters as a parameter file.
pub(super) fn parameter_file<'d>(values: impl IntoIterator<Item = (String, &'d Node)>) -> String {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut root = Node::Map(IndexMap::new());
    for (key, value) in values {
        insert(&mut root, &key, value.clone());
    }
    let section = Node::Map(IndexMap::from([("ros__parameters".to_owned(), root)]));
    let file = Node::Map(IndexMap::from([("/**".to_owned(), section)]));
    serde_yaml::to_string(&file).unwrap_or_default()
}

/// Puts a value under a dotted key into nested mappings.
fn insert(node: &mut Node, key: &str, value: Node) {
    let Node::Map(map) = node else { return };
    match key.split_once('.') {
        None => {
            map.insert(key.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = map.entry(first.to_owned()).or_insert_with(|| Node::Map(IndexMap::new()));
            insert(inner, rest, value);
        }
    }
}
