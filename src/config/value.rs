//! Kinds of parameter values: what is allowed, how a value is read, and how it
//! is described in messages, in the manual and to ROS.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::paths::PathUse;
use super::scalar::flag_of;
use det_post_ros::yaml::Node;
use det_post_ros::{ParameterRange, ParameterType, is_topic};
use det_post_types::{DeviceChoice, Usage};

/// A kind of value that is read as a `T`.
pub(super) struct Kind<T> {
    /// The type of the parameter in ROS.
    pub(super) parameter_type: ParameterType,
    /// The range of a single number.
    pub(super) range: Option<ParameterRange>,
    pub(super) unit: &'static str,
    /// What a value is to the file system.
    pub(super) path_use: PathUse,
    /// Replaces a value that is missing or refused, so that reading continues and
    /// finds all problems. A configuration with problems is never used.
    pub(super) placeholder: T,
    /// The allowed values in a list of this kind.
    plural: String,
    allowed: Allowed,
    read: Read<T>,
}

/// The allowed values, in words; they may depend on the number of classes.
type Allowed = Box<dyn Fn(Option<usize>) -> String>;

/// Reads a value and its plain form, for a number of classes where that is known.
type Read<T> = Box<dyn Fn(&Node, Option<usize>) -> Option<(T, Node)>>;

impl<T> Kind<T> {
    fn new(
        parameter_type: ParameterType,
        allowed: impl Into<String>,
        placeholder: T,
        read: impl Fn(&Node) -> Option<(T, Node)> + 'static,
    ) -> Self {
        let allowed = allowed.into();
        Self {
            parameter_type,
            range: None,
            unit: "",
            path_use: PathUse::None,
            placeholder,
            plural: allowed.clone(),
            allowed: Box::new(move |_| allowed.clone()),
            read: Box::new(move |node, _| read(node)),
        }
    }

    pub(super) fn in_unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Reads a value and its plain form (numbers as numbers, lists as lists);
    /// `None` when it is not allowed. Without a number of classes lists per class may have any
    /// length.
    pub(super) fn read(&self, node: &Node, num_classes: Option<usize>) -> Option<(T, Node)> {
        (self.read)(node, num_classes)
    }

    /// The allowed values; without a number of classes, for any head.
    pub(super) fn allowed(&self, num_classes: Option<usize>) -> String {
        (self.allowed)(num_classes)
    }
}

/// `true` or `false`, and the words of YAML 1.1 that rcl reads as booleans.
pub(super) fn flag() -> Kind<bool> {
    Kind::new(ParameterType::Flag, "true or false", false, |node| {
        let flag = match node {
            Node::Flag(flag) => *flag,
            Node::Text(word) => flag_of(word)?,
            _ => return None,
        };
        Some((flag, Node::Flag(flag)))
    })
}

/// A kind whose values are read from text that is not empty.
fn from_text<T>(
    allowed: impl Into<String>,
    placeholder: T,
    read: impl Fn(&str) -> Option<T> + 'static,
) -> Kind<T> {
    Kind::new(ParameterType::Text, allowed, placeholder, move |node| match node {
        Node::Text(text) if !text.is_empty() => Some((read(text)?, node.clone())),
        _ => None,
    })
}

/// Any text that is not empty.
pub(super) fn text() -> Kind<String> {
    Kind { plural: "texts".into(), ..from_text("text", String::new(), |t| Some(t.to_owned())) }
}

/// The path of a file or a library, or a name where one is allowed.
pub(super) fn path(path_use: PathUse) -> Kind<String> {
    Kind { path_use, ..text() }
}

/// Name of a topic of ROS.
pub(super) fn topic() -> Kind<String> {
    let topic = from_text("a topic name", String::new(), move |text| {
        is_topic(text).then(|| text.to_owned())
    });
    Kind { plural: "topic names".into(), ..topic }
}

/// Name of a topic of the input: that of ROS, or any that a recording has which another tool wrote.
/// A live node refuses those.
pub(super) fn recorded_topic() -> Kind<String> {
    const MAX_LEN: usize = 256;
    let topic = from_text("a topic name", String::new(), move |text| {
        let is_line = text.len() <= MAX_LEN && !text.contains(char::is_control);
        (is_line && !matches!(text, "/" | "~" | "~/")).then(|| text.to_owned())
    });
    Kind { plural: "topic names".into(), ..topic }
}

/// The device of frames.
pub(super) fn device() -> Kind<DeviceChoice> {
    from_text("auto, cpu, cuda:N", DeviceChoice::Auto, |text| text.parse().ok())
}

/// One of several names; there is at least one.
pub(super) fn one_of<T: Copy>(choices: &'static [(&'static str, T)]) -> Kind<T> {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    from_text(names.join(", "), choices[0].1, |text| {
        choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value)
    })
}

/// Whether a technique is used.
pub(super) fn usage() -> Kind<Usage> {
    one_of(&[("auto", Usage::Auto), ("always", Usage::Always), ("never", Usage::Never)])
}

/// An integer of a range.
pub(super) fn integer(range: RangeInclusive<usize>) -> Kind<usize> {
    let (min, max) = range.into_inner();
    let [from, to] = [min, max].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    let allowed = format!("an integer from {min} to {max}");
    let integer = Kind::new(ParameterType::Integer, allowed, min, move |node| match node {
        Node::Integer(n) if (from..=to).contains(n) => Some((*n as usize, node.clone())),
        _ => None,
    });
    let plural = format!("integers from {min} to {max}");
    Kind { range: Some(ParameterRange::Integer { from, to }), plural, ..integer }
}

/// An integer of a range that may be below 0.
pub(super) fn signed(range: RangeInclusive<i64>) -> Kind<i64> {
    let (from, to) = range.into_inner();
    let allowed = format!("an integer from {from} to {to}");
    let integer = Kind::new(ParameterType::Integer, allowed, from, move |node| match node {
        Node::Integer(n) if (from..=to).contains(n) => Some((*n, node.clone())),
        _ => None,
    });
    let plural = format!("integers from {from} to {to}");
    Kind { range: Some(ParameterRange::Integer { from, to }), plural, ..integer }
}

/// A number from the first to the second, both included.
pub(super) fn number(range: RangeInclusive<f64>) -> Kind<f32> {
    let (min, max) = range.into_inner();
    bounded(&format!("from {min} to {max}"), (min, max), move |number| number >= min)
}

/// A number above `min`, up to and including `max`.
pub(super) fn above(min: f64, max: f64) -> Kind<f32> {
    bounded(&format!("above {min} to {max}"), (min, max), move |number| number > min)
}

/// A number up to a maximum. Integers are accepted, too; NaN is not, nor what
/// only single precision rounds to 0.
fn bounded(
    range: &str,
    (min, max): (f64, f64),
    reaches_min: impl Fn(f64) -> bool + 'static,
) -> Kind<f32> {
    let allowed = format!("a number {range}");
    let number = Kind::new(ParameterType::Number, allowed, min as f32, move |node| {
        let number = match node {
            Node::Integer(integer) => *integer as f64,
            Node::Number(number) => *number,
            _ => return None,
        };
        let is_allowed = reaches_min(number) && number <= max && !underflows(number);
        is_allowed.then_some((number as f32, Node::Number(number)))
    });
    Kind {
        plural: format!("numbers {range}"),
        range: Some(ParameterRange::Number { from: min, to: max }),
        ..number
    }
}

/// A number of seconds as a duration.
pub(super) fn seconds(seconds: f32) -> Duration {
    Duration::from_secs_f32(seconds.max(0.0))
}

/// Whether a number that is not 0 is 0 in single precision.
fn underflows(number: f64) -> bool {
    number != 0.0 && (number as f32).abs() < f32::from_bits(1)
}

/// A whole number of a range, for lists; written as a float or an integer.
pub(super) fn whole(range: RangeInclusive<u32>) -> Kind<u32> {
    let (min, max) = range.into_inner();
    let number = number(f64::from(min)..=f64::from(max));
    let allowed = format!("a whole number from {min} to {max}");
    let whole = Kind::new(ParameterType::Number, allowed, min, move |node| {
        let (number, node) = number.read(node, None)?;
        (number.fract() == 0.0).then_some((number as u32, node))
    });
    Kind { plural: format!("whole numbers from {min} to {max}"), ..whole }
}

/// Allowed lengths of a list.
#[derive(Clone, Copy)]
pub(super) enum Length {
    OneOrMore,
    Exactly(usize),
    OneOr(usize),
    OneOrPerClass,
}

impl Length {
    fn contains(self, len: usize, num_classes: Option<usize>) -> bool {
        match self {
            Self::OneOrMore => len > 0,
            Self::Exactly(n) => len == n,
            Self::OneOr(n) => len == 1 || len == n,
            Self::OneOrPerClass => len == 1 || (len > 0 && num_classes.is_none_or(|n| len == n)),
        }
    }

    fn describe(self, num_classes: Option<usize>) -> String {
        match (self, num_classes) {
            (Self::OneOrMore, _) => "one or more".into(),
            (Self::Exactly(n), _) => format!("exactly {n}"),
            (Self::OneOr(n), _) => format!("1 or {n}"),
            (Self::OneOrPerClass, Some(n)) => format!("1, or {n} (one per class)"),
            (Self::OneOrPerClass, None) => "1, or one per class".into(),
        }
    }
}

/// A list. One value is accepted as a list of one.
pub(super) fn list<T: 'static>(item: Kind<T>, length: Length) -> Kind<Vec<T>> {
    let items = item.plural.clone();
    Kind {
        parameter_type: match item.parameter_type {
            ParameterType::Text | ParameterType::Texts => ParameterType::Texts,
            _ => ParameterType::Numbers,
        },
        range: None,
        unit: item.unit,
        path_use: item.path_use,
        placeholder: Vec::new(),
        plural: format!("lists of {items}"),
        allowed: Box::new(move |n| format!("a list of {items}, {}", length.describe(n))),
        read: Box::new(move |node, num_classes| {
            let nodes = match node {
                Node::List(nodes) => nodes,
                one => std::slice::from_ref(one),
            };
            let read = || nodes.iter().map(|node| item.read(node, num_classes));
            let has_length = length.contains(nodes.len(), num_classes);
            let (values, nodes): (Vec<T>, Vec<Node>) =
                has_length.then(read)?.collect::<Option<_>>()?;
            Some((values, Node::List(nodes)))
        }),
    }
}

/// A value that was refused, for messages.
pub(super) fn found(node: &Node) -> String {
    fn has_underflow(node: &Node) -> bool {
        match node {
            Node::Number(number) => underflows(*number),
            Node::List(items) => items.iter().any(has_underflow),
            _ => false,
        }
    }
    let note = if has_underflow(node) { " (0 in single precision)" } else { "" };
    format!("{node}{note}")
}

#[cfg(test)]
mod tests {
    use super::Length::{Exactly, OneOr, OneOrMore, OneOrPerClass};
    use super::*;

    fn is_taken<T>(kind: &Kind<T>, text: &str) -> bool {
        kind.read(&Node::parse(text).unwrap(), Some(3)).is_some()
    }

    fn check<T>(kind: &Kind<T>, taken: &[&str], refused: &[&str]) {
        for text in taken {
            assert!(is_taken(kind, text), "{}: {text}", kind.allowed(Some(3)));
        }
        for text in refused {
            assert!(!is_taken(kind, text), "{}: {text}", kind.allowed(Some(3)));
        }
    }

    #[test]
    fn kinds_accept_what_they_allow() {
        check(&flag(), &["true", "True", "yes", "ON", "n"], &["1", "''", "nope", "yess"]);
        check(&text(), &["a", "'1'"], &["''", "1", "[a]"]);
        check(&topic(), &["/a/b_1", "~/a", "a"], &["a//b", "/1a", "a b", "/", "''", "~", "a/"]);
        let foreign = ["/a/b_1", "image", "/front-left/image.raw", "camera image", "//a/", "/ü"];
        check(&recorded_topic(), &foreign, &["/", "''", "~", "~/", "\"a\\nb\""]);
        check(&device(), &["auto", "cpu", "cuda:12"], &["gpu", "cuda", "0", "cuda:-1"]);
        check(&one_of(&[("a", 1), ("b", 2)]), &["a", "b"], &["c", "A", "''", "1"]);
        check(&integer(0..=9), &["0", "9", "0x9"], &["-1", "10", "1.0", "'1'", ".inf"]);
        check(&number(0.0..=1.0), &["0", "0.5", "1", "1e-44"], &["1.01", ".nan", ".inf", "'0.5'"]);
        check(&above(0.0, 1.0), &["1e-44", "1"], &["0", "1e-50", "-1e-50", "1.1"]);
        check(&list(text(), OneOrMore), &["a", "[a, b]"], &["[]", "[a, 1]", "{a: b}"]);
        check(&list(whole(1..=9), OneOrMore), &["8", "[8.0, 1]"], &["[8.5]", "[0]", "[]"]);
        check(&list(number(0.0..=9.0), Exactly(2)), &["[1, 2]"], &["1", "[1, 2, 3]", "[1, x]"]);
        check(&list(number(0.0..=9.0), OneOr(2)), &["1", "[1, 2]"], &["[1, 2, 3]"]);
        let per_class = list(above(0.0, 1.0), OneOrPerClass);
        check(&per_class, &["0.5", "[1, 0.1, 0.2]"], &["[1, 0.1]", "[1, 0, 0.2]", "[]"]);
        check(
            &list(list(text(), OneOrMore), OneOrMore),
            &["[[a, b], c]", "a"],
            &["[[]]", "[[a], [1]]"],
        );
    }

    #[test]
    fn a_value_has_a_plain_form() {
        let plain =
            |kind: &Kind<Vec<f32>>, text| kind.read(&Node::parse(text).unwrap(), Some(3)).unwrap();
        assert_eq!(plain(&list(number(0.0..=9.0), OneOrMore), "1"), (vec![1.0], Node::from([1.0])));
        assert_eq!(flag().read(&"off".into(), None), Some((false, Node::Flag(false))));
        assert_eq!(found(&[1.0, 1e-50].into()), "[1.0, 1e-50] (0 in single precision)");
    }
}
