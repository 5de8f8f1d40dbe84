//! Layers of the file by name, and which of them keep 32-bit floats.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::onnx;
use det_post_types::text::edit_distance;
use det_post_types::{Error, Result};

/// The most names that an error suggests.
const MAX_SUGGESTED: usize = 3;

/// The layers of the file that a node computes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct Layer {
    /// Operator and name of the first, and the number of others, for errors and tables.
    pub(in super::super) shown: Arc<str>,
    /// The names by which a list of layers knows them.
    pub(in super::super) names: Arc<[Arc<str>]>,
    /// The numbers of the entries of the list that name them, or what they took over.
    kept_by: BTreeSet<usize>,
}

impl Layer {
    /// A copy that no layer of the file asks for.
    pub(in super::super) fn of_copy(shown: String) -> Self {
        Self { shown: shown.into(), ..Self::default() }
    }

    /// Several as one.
    pub(in super::super) fn joined(layers: &[&Self]) -> Self {
        let shown: Arc<str> = match layers {
            [] => "".into(),
            [one] => one.shown.clone(),
            [first, others @ ..] => format!("{} and {} more", first.shown, others.len()).into(),
        };
        let names = layers.iter().flat_map(|layer| layer.names.iter().cloned()).collect();
        let kept_by = layers.iter().flat_map(|layer| layer.kept_by.iter().copied()).collect();
        Self { shown, names, kept_by }
    }

    /// Takes over what a layer that vanishes computed.
    pub(in super::super) fn absorb(&mut self, other: &Self) {
        self.kept_by.extend(&other.kept_by);
    }

    /// Whether it keeps 32-bit floats.
    pub(in super::super) fn is_kept(&self) -> bool {
        !self.kept_by.is_empty()
    }

    /// The entries of the list that name it.
    pub(in super::super) fn kept_by(&self) -> impl Iterator<Item = usize> {
        self.kept_by.iter().copied()
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The list of layers that keep 32-bit floats: names, or prefixes that end where a word does.
pub(super) struct Kept<'k> {
    entries: &'k [String],
}

impl<'k> Kept<'k> {
    /// A list for the nodes of a file.
    ///
    /// # Errors
    /// `Model` for an entry that names no node, with the names next to it.
    pub(super) fn new(entries: &'k [String], nodes: &[onnx::Node<'_>]) -> Result<Self> {
        match entries.iter().find(|entry| !is_in(entry, nodes)) {
            None => Ok(Self { entries }),
            Some(entry) => Err(unknown(entry, nodes.iter().map(onnx::Node::name).collect())),
        }
    }

    /// The layer of a node.
    pub(super) fn layer(&self, node: &onnx::Node<'_>) -> Layer {
        let kept_by =
            (0..self.entries.len()).filter(|&at| names(&self.entries[at], node)).collect();
        Layer { shown: node.to_string().into(), names: [node.name().into()].into(), kept_by }
    }
}

/// The entries of a list for each of the networks of a channel: those that name a layer of it.
///
/// # Errors
/// `Model` for a network that is not of the format, and for an entry that names no layer of any, with the nearest.
pub(in super::super) fn divided(
    entries: &[String],
    networks: &[Vec<u8>],
) -> Result<Vec<Vec<String>>> {
    let models: Vec<onnx::Model<'_>> =
        networks.iter().map(|bytes| onnx::Model::parse(bytes)).collect::<Result<_>>()?;
    let of = |model: &onnx::Model<'_>| -> Vec<String> {
        entries.iter().filter(|entry| is_in(entry, &model.graph.nodes)).cloned().collect()
    };
    let lists: Vec<Vec<String>> = models.iter().map(of).collect();
    match entries.iter().find(|entry| !lists.iter().any(|list| list.contains(entry))) {
        None => Ok(lists),
        Some(entry) => {
            let nodes = models.iter().flat_map(|model| &model.graph.nodes);
            Err(unknown(entry, nodes.map(onnx::Node::name).collect()))
        }
    }
}

fn is_in(entry: &str, nodes: &[onnx::Node<'_>]) -> bool {
    nodes.iter().any(|node| names(entry, node))
}

/// The error of an entry that names none of some layers.
fn unknown(entry: &str, mut layers: Vec<&str>) -> Error {
    let num = layers.len();
    layers.sort_by_cached_key(|name| (distance(entry, name), *name));
    layers.dedup();
    layers.truncate(MAX_SUGGESTED);
    crate::dense::error(format!(
        "engine.keep_f32: no layer is called {entry:?}, or begins so; the nearest of {num}: {layers:?}"
    ))
}

/// Whether an entry is the name of a node, also behind its operator as tables show it, or a prefix.
fn names(entry: &str, node: &onnx::Node<'_>) -> bool {
    let is_word = |c: char| c.is_alphanumeric();
    let begins = |name: &str| match name.strip_prefix(entry) {
        Some(rest) => {
            !entry.is_empty() && (!entry.ends_with(is_word) || !rest.starts_with(is_word))
        }
        None => false,
    };
    begins(node.name())
        || entry.strip_prefix(node.operator).and_then(|rest| rest.strip_prefix(' '))
            == Some(node.name())
}

/// How far an entry is from a name, or from as much of its begin as is as long.
fn distance(entry: &str, name: &str) -> usize {
    const MAX_WORD: usize = 200;
    if entry.len().max(name.len()) > MAX_WORD {
        return usize::MAX;
    }
    let begin =
        name.char_indices().nth(entry.chars().count()).map_or(name, |(end, _)| &name[..end]);
    edit_distance(entry, name).min(edit_distance(entry, begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node<'a>(operator: &'a str, name: &'a str) -> onnx::Node<'a> {
        onnx::Node { operator, outputs: vec![name], ..onnx::Node::default() }
    }

    #[test]
    fn names_and_prefixes_end_where_words_do() {
        let conv = node("Conv", "/model.1/conv/Conv");
        for (entry, expected) in [
            ("/model.1/conv/Conv", true),
            ("Conv /model.1/conv/Conv", true),
            ("/model.1", true),
            ("/model.1/", true),
            ("/model.", true),
            ("/", true),
            ("", false),
            ("/model", true),
            ("/mod", false),
            ("/model.1/conv/Con", false),
            ("/model.1/conv/Conv_1", false),
            ("Gemm /model.1/conv/Conv", false),
            ("conv", false),
        ] {
            assert_eq!(names(entry, &conv), expected, "{entry}");
        }
        assert!(!names("/model.1", &node("Conv", "/model.10/Conv")));
        assert!(!names("Conv_1", &node("Conv", "Conv_12")));
    }

    #[test]
    fn the_names_next_to_an_unknown_one_are_suggested() {
        let nodes = [node("Conv", "/a/conv1"), node("Conv", "/a/conv2"), node("Relu", "/b/relu")];
        let error = Kept::new(&["/a/cnv2".into()], &nodes).err().unwrap();
        assert_eq!(
            error.message(),
            "engine.keep_f32: no layer is called \"/a/cnv2\", or begins so; the nearest of 3: [\"/a/conv2\", \
             \"/a/conv1\", \"/b/relu\"]"
        );
        assert!(Kept::new(&["/a".into(), "Relu /b/relu".into()], &nodes).is_ok());
        assert!(Kept::new(&["/b".into(), String::new()], &nodes).is_err());
    }
}
