//! YAML text to a tree of bounded size: the one place that reads YAML.
//!
//! Parameter files, heads and the metadata of recordings can come from anywhere.
//! Size, nesting and number of values are checked before the text is parsed;
//! then the tree is built while a budget of bytes and values lasts, so that aliases cannot
//! multiply it. Tags and duplicate keys are refused. Error messages quote no
//! value of the text.

mod structure;

use std::cell::Cell;
use std::fmt;
use std::path::Path;

use indexmap::IndexMap;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use det_post_types::input_file;
use structure::{MAX_DEPTH, MAX_SEPARATORS, check_structure, explained, too_deep};

/// The most bytes of a parameter file or a head.
pub const MAX_BYTES: usize = 256 << 10;
/// The most characters of a key or a text in a message.
const MAX_QUOTED: usize = 100;
/// The most items of a list in a message.
const MAX_QUOTED_ITEMS: usize = 16;

/// One value of a YAML document.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// No value.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// A number without a point.
    Integer(i64),
    /// A number with a point or an exponent.
    Number(f64),
    /// A string.
    Text(String),
    /// A sequence, in order.
    List(Vec<Node>),
    /// In the order of the document.
    Map(IndexMap<String, Node>),
}

impl Node {
    /// Reads one document of at most [`MAX_BYTES`]. Errors are plain text: the
    /// caller knows the file.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_within(text, MAX_BYTES, None)
    }

    /// As [`Node::parse`]; `read_text` reads the scalars that YAML takes as text, given
    /// whether they stand without quotes.
    pub fn parse_with(text: &str, read_text: &ReadText<'_>) -> Result<Self, String> {
        Self::parse_within(text, MAX_BYTES, Some(read_text))
    }

    /// Reads one document of at most `max_bytes`.
    fn parse_within(
        text: &str,
        max_bytes: usize,
        read_text: Option<&ReadText<'_>>,
    ) -> Result<Self, String> {
        if text.len() > max_bytes {
            return Err(format!("{} bytes; at most {max_bytes} are read", text.len()));
        }
        // The parser takes a byte order mark for a document of its own.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        check_structure(text)?;
        let budget = Budget { bytes: Cell::new(max_bytes), values: Cell::new(3 * MAX_SEPARATORS) };
        let document = Document { text, budget, read_text };
        Bounded { document: &document, depth: 0 }
            .deserialize(serde_yaml::Deserializer::from_str(text))
            .map_err(|error| explained(text, &error))
    }

    /// Reads the document in the regular file at `path`, of at most
    /// `max_bytes`.
    ///
    /// # Errors
    /// The outer error is of the file, the inner one of its text.
    pub fn read(path: &Path, max_bytes: usize) -> std::io::Result<Result<Self, String>> {
        let text = input_file::read_text(path, max_bytes)?;
        Ok(Self::parse_within(&text, max_bytes, None))
    }

    /// Whether it is null or an empty text or list, which stand for nothing.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Text(text) => text.is_empty(),
            Self::List(list) => list.is_empty(),
            _ => false,
        }
    }

    /// What kind of value it is, for messages that must not quote it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Flag(_) => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// The start of a text, escaped.
fn excerpt(text: &str) -> String {
    let more = if text.chars().nth(MAX_QUOTED).is_some() { "…" } else { "" };
    let start: String = text.chars().take(MAX_QUOTED).collect();
    format!("{}{more}", start.escape_debug())
}

/// Reads a scalar that YAML takes as text, given whether it stands without quotes.
pub type ReadText<'a> = dyn Fn(&str, bool) -> Node + 'a;

/// A text that is read.
struct Document<'a> {
    text: &'a str,
    budget: Budget,
    read_text: Option<&'a ReadText<'a>>,
}

impl Document<'_> {
    fn scalar(&self, scalar: &str, is_plain: bool) -> Node {
        match self.read_text {
            Some(read_text) => read_text(scalar, is_plain),
            None => Node::Text(scalar.to_owned()),
        }
    }

    /// Whether a part of the text, which the parser lends where a scalar stands as it is,
    /// follows no quote.
    fn is_plain(&self, part: &str) -> bool {
        let start = (part.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize);
        let before = start.and_then(|start| self.text.get(..start));
        before.is_some_and(|before| !before.ends_with(['"', '\'']))
    }
}

/// What a tree may cost: no more than a text without aliases spells out.
struct Budget {
    bytes: Cell<usize>,
    values: Cell<usize>,
}

/// Builds a [`Node`] while a budget lasts.
struct Bounded<'a> {
    document: &'a Document<'a>,
    depth: usize,
}

impl Bounded<'_> {
    fn spend<E: serde::de::Error>(&self, num_bytes: usize) -> Result<(), E> {
        let budget = &self.document.budget;
        for (left, num) in [(&budget.bytes, num_bytes), (&budget.values, 1)] {
            let rest = left.get().checked_sub(num);
            left.set(rest.ok_or_else(|| E::custom("aliases make it too large"))?);
        }
        Ok(())
    }

    fn inner<E: serde::de::Error>(&self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(too_deep()));
        }
        Ok(Self { document: self.document, depth: self.depth + 1 })
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
        self.spend(1 + text.len())?;
        Ok(self.document.scalar(text, false))
    }

    fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<Node, E> {
        self.spend(1 + text.len())?;
        Ok(self.document.scalar(text, self.document.is_plain(text)))
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
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("`{}` is given twice", excerpt(&key))));
            }
            let value = entries.next_value_seed(self.inner()?)?;
            map.insert(key, value);
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
            Self::Text(text) => write!(f, "\"{}\"", excerpt(text)),
            Self::Map(map) => write!(f, "a mapping of {} keys", map.len()),
            Self::List(list) => {
                f.write_str("[")?;
                for (index, item) in list.iter().take(MAX_QUOTED_ITEMS).enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                match list.len().checked_sub(MAX_QUOTED_ITEMS) {
                    None | Some(0) => f.write_str("]"),
                    Some(num_more) => write!(f, ", … {num_more} more]"),
                }
            }
        }
    }
}

impl From<bool> for Node {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<i64> for Node {
    fn from(integer: i64) -> Self {
        Self::Integer(integer)
    }
}

impl From<f64> for Node {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Node {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Node>> From<Vec<T>> for Node {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Node>, const N: usize> From<[T; N]> for Node {
    fn from(items: [T; N]) -> Self {
        Self::List(items.map(Into::into).into())
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
    fn quotes_are_seen() {
        let text =
            "a: yes\nb: 'yes'\nc: \"yes\"\nd: [yes, 'yes',yes]\ne: |\n  yes\n'f': {\"g\":yes}\n";
        let read = |text: &str, is_plain: bool| match is_plain {
            true => Node::Flag(text == "yes"),
            false => Node::Text(text.to_owned()),
        };
        let Ok(Node::Map(map)) = Node::parse_with(text, &read) else { panic!() };
        let plain = Node::Flag(true);
        let quoted = Node::Text("yes".into());
        assert_eq!(map["a"], plain);
        assert_eq!((&map["b"], &map["c"]), (&quoted, &quoted));
        assert_eq!(map["d"], Node::List(vec![plain.clone(), quoted, plain.clone()]));
        assert_eq!(map["e"], Node::Text("yes\n".into()));
        assert_eq!(map["f"], Node::Map(IndexMap::from([("g".to_owned(), plain)])));
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

    #[test]
    fn brackets_of_comments_do_not_nest() {
        let comments = "# range [0, 1)\n  # {\n".repeat(100);
        for text in [
            format!("{comments}a: 1"),
            format!("a:\n{comments}  1"),
            format!("a: [\n{comments}  1]"),
            format!("# it's [counted)\n{comments}a: 1"),
            (0..100).map(|n| format!("a{n}: [1, 2] # range [0, 1)\n")).collect(),
        ] {
            let parsed = Node::parse(&text);
            assert!(parsed.is_ok(), "{parsed:?}: {text}");
        }
        let nested = "[".repeat(MAX_DEPTH);
        let closed = "]".repeat(MAX_DEPTH);
        for (name, text) in [
            ("behind a quoted scalar", format!("[\"\n#\", {nested}")),
            ("behind a longer one", format!("['\n # {nested}', {nested}")),
            ("behind a quoted #", format!("['a #', {nested}")),
            ("closed in a comment", format!("{nested}\n# {closed}\n[")),
            ("closed behind a quote in a comment", format!("{nested} # ' {closed}\n[")),
            ("behind another line break", format!("#\u{2028}{nested}[")),
            ("behind no blank", format!("a#{nested}[")),
        ] {
            assert_eq!(check_structure(&text), Err(too_deep()), "{name}");
        }
    }

    #[test]
    fn large_hostile_documents_are_refused_quickly() {
        const MAX: usize = 4 << 20;
        let indented = |num: usize| (0..num).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        let empty = format!("a: &a [{}'']\nb: [{}*a]", "'',".repeat(9000), "*a,".repeat(9000));
        for (name, text) in [
            ("brackets", "[".repeat(MAX)),
            ("dashes", "- ".repeat(MAX / 2)),
            ("dashes with tabs", "-\t".repeat(MAX / 2)),
            ("question marks", "? ".repeat(MAX / 2)),
            ("both", "- ? ".repeat(MAX / 4)),
            ("indentation", indented(2880)),
            ("aliases of empty text", empty),
            ("items", "a,".repeat(MAX / 2)),
            ("lines", "-\n".repeat(MAX / 2)),
            ("other line breaks", "-\u{85}".repeat(MAX / 3)),
            ("tags", format!("[{}]", "!!!a ".repeat(MAX / 6))),
            ("anchors", "&a ".repeat(MAX / 3)),
            ("open quote", format!("\"{}", "\\n".repeat(MAX / 2 - 1))),
            ("colons", "a: ".repeat(MAX / 3)),
            ("one key", format!("{}: ", "a".repeat(MAX - 10))),
        ] {
            assert!(text.len() <= MAX, "{name}");
            let start = std::time::Instant::now();
            let parsed = Node::parse_within(&text, MAX, None);
            assert!(parsed.is_err() || name == "one key", "{name}");
            assert!(start.elapsed().as_secs() < 2, "{name} took {:?}", start.elapsed());
        }
    }

    #[test]
    fn messages_are_short_and_escaped() {
        let key = "k\\e".repeat(300);
        let twice = Node::parse(&format!("{{\"{key}\": 1, \"{key}\": 2}}")).unwrap_err();
        assert!(twice.contains("is given twice"), "{twice}");
        let list = Node::List(vec![Node::Text("\u{1b}[2J".repeat(500)); 500]).to_string();
        assert!(list.ends_with("… 484 more]"), "{list}");
        for message in [twice, list] {
            assert!(message.len() < 12_000 && !message.contains('\u{1b}'), "{message}");
        }
    }
}
