//! YAML text to a tree of bounded size.
//!
//! Parameter files come from anywhere. A tree is never larger than
//! [`MAX_BYTES`] of text could spell out: aliases that would multiply it,
//! nesting deeper than [`MAX_DEPTH`], tags and duplicate keys are refused.

use std::cell::Cell;
use std::fmt;

use indexmap::IndexMap;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// The most bytes a file may have, and the most a tree may cost.
pub(crate) const MAX_BYTES: usize = 256 << 10;
/// The deepest nesting.
pub(crate) const MAX_DEPTH: usize = 16;

/// One value of a YAML document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Null,
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    /// In the order of the document.
    Map(IndexMap<String, Node>),
}

impl Node {
    /// Reads one document. Errors are plain text: the caller knows the file.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("{} bytes; at most {MAX_BYTES} are read", text.len()));
        }
        // The parser takes a byte order mark for a document of its own.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        check_nesting(text)?;
        let budget = Cell::new(MAX_BYTES);
        Bounded { budget: &budget, depth: 0 }
            .deserialize(serde_yaml::Deserializer::from_str(text))
            .map_err(|error| error.to_string())
    }

    /// Whether it is null or an empty text or list, which stand for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Text(text) => text.is_empty(),
            Self::List(list) => list.is_empty(),
            _ => false,
        }
    }
}

/// Refuses brackets nested deeper than the tree may be, before the parser,
/// whose time grows with the square of the depth, sees them. Brackets in
/// quoted text and comments count too; no parameter needs that many.
fn check_nesting(text: &str) -> Result<(), String> {
    let mut depth = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
    }
    Ok(())
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

/// Builds a [`Node`] while a budget of bytes lasts.
struct Bounded<'a> {
    budget: &'a Cell<usize>,
    depth: usize,
}

impl Bounded<'_> {
    fn spend<E: serde::de::Error>(&self, num_bytes: usize) -> Result<(), E> {
        let left = self.budget.get().checked_sub(num_bytes);
        self.budget.set(left.ok_or_else(|| E::custom("aliases make it too large"))?);
        Ok(())
    }

    fn inner<E: serde::de::Error>(&self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(too_deep()));
        }
        Ok(Self { budget: self.budget, depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Node;

    fn deserialize<D: serde::Deserializer<'de>>(self, source: D) -> Result<Node, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain YAML value without tags")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Node, E> {
        self.spend(1)?;
        Ok(Node::Null)
    }

    /// What an empty document is to the parser.
    fn visit_none<E: serde::de::Error>(self) -> Result<Node, E> {
        self.visit_unit()
    }

    fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<Node, E> {
        self.spend(1)?;
        Ok(Node::Flag(flag))
    }

    fn visit_i64<E: serde::de::Error>(self, integer: i64) -> Result<Node, E> {
        self.spend(1)?;
        Ok(Node::Integer(integer))
    }

    fn visit_u64<E: serde::de::Error>(self, integer: u64) -> Result<Node, E> {
        self.spend(1)?;
        Ok(i64::try_from(integer).map_or(Node::Number(integer as f64), Node::Integer))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Node, E> {
        self.spend(1)?;
        Ok(Node::Number(number))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Node, E> {
        self.spend(text.len())?;
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        self.spend(1)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.inner()?)? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        self.spend(1)?;
        let mut map = IndexMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.spend(key.len())?;
            let value = entries.next_value_seed(self.inner()?)?;
            if map.insert(key.clone(), value).is_some() {
                return Err(A::Error::custom(format!("`{key}` is given twice")));
            }
        }
        Ok(Node::Map(map))
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Integer(integer) => serializer.serialize_i64(*integer),
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(list) => list.serialize(serializer),
            Self::Map(map) => serializer.collect_map(map),
        }
    }
}

impl fmt::Display for Node {
    /// On one line, for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("nothing"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Integer(integer) => write!(f, "{integer}"),
            Self::Number(number) => write!(f, "{number:?}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Map(map) => write!(f, "a mapping of {} keys", map.len()),
            Self::List(list) => {
                f.write_str("[")?;
                for (index, item) in list.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_keep_their_type() {
        for (text, node) in [
            ("1", Node::Integer(1)),
            ("1.0", Node::Number(1.0)),
            ("1e-3", Node::Number(1e-3)),
            (".inf", Node::Number(f64::INFINITY)),
            ("true", Node::Flag(true)),
            ("'1'", Node::Text("1".into())),
            ("~/x", Node::Text("~/x".into())),
            ("", Node::Null),
            ("18446744073709551615", Node::Number(18_446_744_073_709_551_615.0)),
            ("[a, 2]", Node::List(vec![Node::Text("a".into()), Node::Integer(2)])),
        ] {
            assert_eq!(Node::parse(text), Ok(node), "{text}");
        }
    }

    #[test]
    fn hostile_documents_are_refused_quickly() {
        let wide_alias = format!("a: &a [{}]\nb: [{}]", "1,".repeat(20_000), "*a,".repeat(20_000));
        let mut laughs = "a0: &a0 [x, x]\n".to_owned();
        for level in 1..60 {
            laughs += &format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1);
        }
        for (name, text) in [
            ("brackets", "[".repeat(200_000)),
            ("braces", "{a: ".repeat(50_000)),
            ("dashes", "- ".repeat(50_000)),
            ("question marks", "? ".repeat(50_000)),
            ("indentation", (0..400).map(|n| format!("{}a:\n", " ".repeat(n))).collect()),
            ("wide alias", wide_alias),
            ("billion laughs", laughs),
            ("tag", "a: !x 1".into()),
            ("too large", " ".repeat(MAX_BYTES + 1)),
            ("duplicate", "a: 1\na: 2".into()),
            ("two documents", "a: 1\n---\na: 2".into()),
        ] {
            let start = std::time::Instant::now();
            assert!(Node::parse(&text).is_err(), "{name}");
            assert!(start.elapsed().as_secs() < 5, "{name} took {:?}", start.elapsed());
        }
    }
}
