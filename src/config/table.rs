//! How a table of parameters is read: types, ranges, lengths, defaults and
//! the messages when something does not fit.

use std::collections::BTreeMap;
use std::fmt;

use super::problems::{Problems, nearest, shorten};
use super::source::Entries;
use crate::yaml::Node;

/// One row of a table: all there is to know of a parameter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameter {
    /// Dotted key below its channel or file. A last part of `<CLASS>` stands
    /// for the name of any class of the head.
    pub(super) key: &'static str,
    pub(super) kind: Kind,
    pub(super) default: Default,
    pub(super) unit: &'static str,
    /// Whether it may change while the node runs.
    pub(super) live: bool,
    pub(super) help: &'static str,
}

/// What a value may be. Integers are taken where numbers are meant, one value
/// where a list is meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Flag,
    Text,
    Topic,
    Choice(&'static [&'static str]),
    Integer { min: i64, max: i64 },
    Number(Range),
    Texts(Length),
    Numbers(Range, Length),
    TextLists,
    NumberLists(Range),
}

/// Allowed numbers, both ends included unless `above` leaves the lower out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) above: bool,
}

impl Range {
    pub(super) const fn new(min: f64, max: f64) -> Self {
        Self { min, max, above: false }
    }

    pub(super) const fn above(min: f64, max: f64) -> Self {
        Self { min, max, above: true }
    }

    /// Written so that NaN fails.
    fn contains(self, number: f64) -> bool {
        number >= self.min && number <= self.max && !(self.above && number <= self.min)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = if self.above { "above" } else { "from" };
        write!(f, "{from} {} to {}", self.min, self.max)
    }
}

/// Allowed lengths of a list.
#[derive(Clone, Copy, Debug)]
pub(super) enum Length {
    /// One or more.
    Any,
    Exactly(usize),
    OneOr(usize),
    OneOrPerClass,
}

impl Length {
    fn contains(self, len: usize, num_classes: usize) -> bool {
        match self {
            Self::Any => len > 0,
            Self::Exactly(n) => len == n,
            Self::OneOr(n) => len == 1 || len == n,
            Self::OneOrPerClass => len == 1 || len == num_classes,
        }
    }

    fn describe(self, num_classes: Option<usize>) -> String {
        match (self, num_classes) {
            (Self::Any, _) => "one or more".into(),
            (Self::Exactly(n), _) => format!("exactly {n}"),
            (Self::OneOr(n), _) => format!("1 or {n}"),
            (Self::OneOrPerClass, Some(n)) => format!("1, or {n} (one per class)"),
            (Self::OneOrPerClass, None) => "1, or one per class".into(),
        }
    }
}

/// What holds when a parameter is not given.
#[derive(Clone, Copy, Debug)]
pub(super) enum Default {
    /// It must be given.
    Required,
    /// This YAML text.
    Yaml(&'static str),
    /// Nothing, which means what is said here.
    Unset(&'static str),
}

impl Kind {
    /// What is allowed, for messages and for the manual.
    pub(super) fn describe(self, num_classes: Option<usize>) -> String {
        match self {
            Self::Flag => "true or false".into(),
            Self::Text => "text".into(),
            Self::Topic => "a topic name".into(),
            Self::Choice(names) => names.join(", "),
            Self::Integer { min, max } => format!("an integer from {min} to {max}"),
            Self::Number(range) => format!("a number {range}"),
            Self::Texts(length) => format!("a list of texts, {}", length.describe(num_classes)),
            Self::Numbers(range, length) => {
                format!("a list of numbers {range}, {}", length.describe(num_classes))
            }
            Self::TextLists => "a list of lists of texts".into(),
            Self::NumberLists(range) => format!("a list of lists of numbers {range}"),
        }
    }

    /// The value in its plain form (numbers as numbers, lists as lists), or
    /// `None` when it is not allowed.
    fn check(self, node: &Node, num_classes: usize) -> Option<Node> {
        let integer_range = |min, max| move |i: &i64| (min..=max).contains(i);
        Some(match (self, node) {
            (Self::Flag, Node::Flag(_)) => node.clone(),
            (Self::Flag, Node::Text(word)) => Node::Flag(flag_of_word(word)?),
            (Self::Text, Node::Text(text)) if !text.is_empty() => node.clone(),
            (Self::Topic, Node::Text(text)) if is_topic(text) => node.clone(),
            (Self::Choice(names), Node::Text(text)) if names.contains(&&**text) => node.clone(),
            (Self::Integer { min, max }, Node::Integer(i)) if integer_range(min, max)(i) => {
                node.clone()
            }
            (Self::Number(range), Node::Integer(i)) => {
                return Self::Number(range).check(&Node::Number(*i as f64), num_classes);
            }
            (Self::Number(range), Node::Number(number)) if range.contains(*number) => node.clone(),
            (Self::Texts(length), node) => {
                Node::List(check_all(Self::Text, node, length, num_classes)?)
            }
            (Self::Numbers(range, length), node) => {
                Node::List(check_all(Self::Number(range), node, length, num_classes)?)
            }
            (Self::TextLists, Node::List(lists)) => Node::List(
                lists
                    .iter()
                    .map(|list| Self::Texts(Length::Any).check(list, num_classes))
                    .collect::<Option<_>>()?,
            ),
            (Self::NumberLists(range), Node::List(lists)) => Node::List(
                lists
                    .iter()
                    .map(|list| Self::Numbers(range, Length::Any).check(list, num_classes))
                    .collect::<Option<_>>()?,
            ),
            _ => return None,
        })
    }
}

/// The words of YAML 1.1 that rcl reads as booleans beside `true` and `false`.
fn flag_of_word(word: &str) -> Option<bool> {
    match word {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

fn check_all(kind: Kind, node: &Node, length: Length, num_classes: usize) -> Option<Vec<Node>> {
    let items = match node {
        Node::List(items) => items,
        one => std::slice::from_ref(one),
    };
    if !length.contains(items.len(), num_classes) {
        return None;
    }
    items.iter().map(|item| kind.check(item, num_classes)).collect()
}

/// Whether a text names a topic: parts of letters, digits and underscores that
/// do not start with a digit, behind `/`, `~/` or nothing.
fn is_topic(text: &str) -> bool {
    let parts = text.strip_prefix("~/").or_else(|| text.strip_prefix('/')).unwrap_or(text);
    parts.split('/').all(|part| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Where a table is read from.
pub(super) struct Given<'a> {
    /// Stands before every key in messages: the channel or the file, with its
    /// separator.
    pub(super) prefix: &'a str,
    /// What the user gave.
    pub(super) entries: &'a Entries,
    /// What holds for keys not given, before the defaults of the table.
    pub(super) suggested: &'a Entries,
    /// Classes of the head.
    pub(super) class_names: &'a [String],
}

/// The checked values of a table by key.
///
/// A getter gives a type's own default (zero, empty) where there is no value:
/// for parameters that may be unset, and where a problem was noted.
#[derive(Clone, Debug, std::default::Default)]
pub(super) struct Values(BTreeMap<String, Node>);

impl Values {
    /// Checks everything given against a table and fills in the defaults.
    pub(super) fn read(table: &[Parameter], given: &Given<'_>, problems: &mut Problems) -> Self {
        let mut values = Self::default();
        let suggested = given.suggested.iter().filter(|(key, _)| !given.entries.contains_key(*key));
        for (key, entry) in given.entries.iter().chain(suggested) {
            let full_key = format!("{}{key}", given.prefix);
            let Some(parameter) = table.iter().find(|p| p.matches(key, given.class_names)) else {
                let names_class =
                    |p: &Parameter| p.class_prefix().is_some_and(|p| key.starts_with(p));
                let hint = match table.iter().any(names_class) {
                    true => Some(format!("classes: {}", shorten(&given.class_names.join(", ")))),
                    false => meant(given.prefix, key, table),
                };
                problems.unknown_key(&full_key, &entry.origin, hint);
                continue;
            };
            if entry.node.is_empty() && matches!(parameter.default, Default::Unset(_)) {
                continue;
            }
            match parameter.kind.check(&entry.node, given.class_names.len()) {
                Some(node) => {
                    values.0.insert(key.clone(), node);
                }
                None => problems.refuse(
                    &full_key,
                    &entry.node,
                    &parameter.kind.describe(Some(given.class_names.len())),
                ),
            }
        }
        for parameter in table {
            match parameter.default {
                Default::Required if !given.entries.contains_key(parameter.key) => {
                    problems.push(
                        &format!("{}{}", given.prefix, parameter.key),
                        &format!(
                            "is missing; allowed: {}",
                            parameter.kind.describe(Some(given.class_names.len()))
                        ),
                    );
                }
                Default::Yaml(_) if !values.0.contains_key(parameter.key) => {
                    if let Some(node) = parameter.default_node() {
                        values.0.insert(parameter.key.to_owned(), node);
                    }
                }
                _ => {}
            }
        }
        values
    }

    /// Every value in order of keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Node)> {
        self.0.iter()
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn text(&self, key: &str) -> &str {
        match self.0.get(key) {
            Some(Node::Text(text)) => text,
            _ => "",
        }
    }

    pub(super) fn optional_text(&self, key: &str) -> Option<String> {
        Some(self.text(key)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        self.0.get(key) == Some(&Node::Flag(true))
    }

    pub(super) fn count(&self, key: &str) -> usize {
        match self.0.get(key) {
            Some(Node::Integer(integer)) => usize::try_from(*integer).unwrap_or_default(),
            _ => 0,
        }
    }

    pub(super) fn number(&self, key: &str) -> f32 {
        self.0.get(key).map_or(0.0, number)
    }

    pub(super) fn numbers(&self, key: &str) -> Vec<f32> {
        list(self.0.get(key)).iter().map(number).collect()
    }

    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        texts(self.0.get(key))
    }

    pub(super) fn text_lists(&self, key: &str) -> Vec<Vec<String>> {
        list(self.0.get(key)).iter().map(|inner| texts(Some(inner))).collect()
    }

    pub(super) fn number_lists(&self, key: &str) -> Vec<Vec<f32>> {
        let numbers = |inner| list(Some(inner)).iter().map(number).collect();
        list(self.0.get(key)).iter().map(numbers).collect()
    }
}

fn list(node: Option<&Node>) -> &[Node] {
    match node {
        Some(Node::List(items)) => items,
        _ => &[],
    }
}

fn texts(node: Option<&Node>) -> Vec<String> {
    let text = |item: &Node| match item {
        Node::Text(text) => text.clone(),
        _ => String::new(),
    };
    list(node).iter().map(text).collect()
}

fn number(node: &Node) -> f32 {
    match node {
        Node::Number(number) => *number as f32,
        _ => 0.0,
    }
}

impl Parameter {
    /// The key without its `<CLASS>`, when it has one.
    pub(super) fn class_prefix(&self) -> Option<&'static str> {
        self.key.strip_suffix("<CLASS>")
    }

    pub(super) fn matches(&self, key: &str, class_names: &[String]) -> bool {
        match self.class_prefix().map(|prefix| key.strip_prefix(prefix)) {
            Some(Some(class)) => class_names.iter().any(|name| name == class),
            Some(None) => false,
            None => key == self.key,
        }
    }

    /// The default of the table in its plain form.
    pub(super) fn default_node(&self) -> Option<Node> {
        match self.default {
            Default::Yaml(text) => self.kind.check(&Node::parse(text).ok()?, 1),
            Default::Required | Default::Unset(_) => None,
        }
    }
}

/// The row that an unknown key is nearest to.
pub(super) fn meant<'a>(
    prefix: &str,
    key: &str,
    table: impl IntoIterator<Item = &'a Parameter>,
) -> Option<String> {
    nearest(key, table.into_iter().map(|parameter| parameter.key))
        .map(|nearest| format!("did you mean `{prefix}{nearest}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_take_what_they_say() {
        let unit = Kind::Number(Range::new(0.0, 1.0));
        let list = Kind::Numbers(Range::above(0.0, 1.0), Length::OneOrPerClass);
        for (kind, text, taken) in [
            (unit, "1", true),
            (unit, "0.5", true),
            (unit, "1.01", false),
            (unit, ".nan", false),
            (unit, ".inf", false),
            (unit, "'0.5'", false),
            (list, "0.5", true),
            (list, "[1, 0.1, 0.2]", true),
            (list, "[1, 0.1]", false),
            (list, "[1, 0, 0.2]", false),
            (list, "[]", false),
            (Kind::Integer { min: 0, max: 9 }, "9", true),
            (Kind::Integer { min: 0, max: 9 }, "10", false),
            (Kind::Integer { min: 0, max: 9 }, "1.0", false),
            (Kind::Text, "''", false),
            (Kind::Topic, "/a/b_1", true),
            (Kind::Topic, "~/a", true),
            (Kind::Topic, "a//b", false),
            (Kind::Topic, "/1a", false),
            (Kind::Topic, "a b", false),
            (Kind::Topic, "/", false),
            (Kind::TextLists, "[[a, b], c]", true),
            (Kind::NumberLists(Range::new(0.0, 9.0)), "[[1, 2], [x]]", false),
        ] {
            let node = Node::parse(text).unwrap();
            assert_eq!(kind.check(&node, 3).is_some(), taken, "{kind:?} {text}");
        }
    }
}
