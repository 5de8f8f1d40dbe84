//! Declares the parameters of a channel, a head or the node, and reads them.
//!
//! As in ROS, one call declares a parameter and gives its value: key, type,
//! range, unit, default, whether it may change while the node runs, and its
//! description are in one place. The messages about wrong values, the manual,
//! the effective configuration and the parameters of the ROS node are made from
//! the declarations.

use super::declaration::{Change, Declaration, DefaultValue, plain};
use super::files::{Entries, Entry};
use super::problems::{Problems, nearest, shorten};
use super::value::{Kind, found};
use det_post_ros::yaml::Node;

/// The maximum number of unknown keys for which a correction is searched.
const MAX_HINTS: usize = 100;

/// Reads one group of parameters.
pub(super) struct Reader<'a> {
    /// Prefix of every key in messages and names: the channel or the file, with its
    /// separator.
    prefix: String,
    /// The given values that are not read yet.
    given: Entries,
    /// The defaults of the head that are not read yet.
    suggested: Entries,
    class_names: Vec<String>,
    /// Whether it only describes the parameters, for any head.
    is_manual: bool,
    declared: Vec<Declaration>,
    /// Keys that have one parameter per class below them.
    per_class: Vec<&'static str>,
    problems: &'a mut Problems,
}

impl<'a> Reader<'a> {
    /// A reader of what is given. `prefix` precedes every key in messages
    /// and names.
    pub(super) fn new(prefix: &str, given: Entries, problems: &'a mut Problems) -> Self {
        Self {
            prefix: prefix.to_owned(),
            given,
            suggested: Entries::new(),
            class_names: Vec::new(),
            is_manual: false,
            declared: Vec::new(),
            per_class: Vec::new(),
            problems,
        }
    }

    /// A reader that describes the parameters. Its values are defaults and
    /// placeholders.
    pub(super) fn manual(problems: &'a mut Problems) -> Self {
        Self { is_manual: true, ..Self::new("", Entries::new(), problems) }
    }

    /// Sets the classes of the head.
    pub(super) fn set_class_names(&mut self, class_names: &[String]) {
        self.class_names = class_names.to_vec();
    }

    /// Sets defaults that suit the network. They take precedence over the declared
    /// defaults; given values take precedence over them.
    pub(super) fn suggest(&mut self, suggested: Entries) {
        self.suggested = suggested;
    }

    /// Declares a parameter with a default value.
    pub(super) fn value<T>(
        &mut self,
        key: &str,
        change: Change,
        kind: Kind<T>,
        default: impl Into<Node>,
        help: &'static str,
    ) -> T {
        let default = DefaultValue::Value(default.into());
        or_placeholder(self.declare(key, change, kind, default, None, help))
    }

    /// Declares a parameter that must be given.
    pub(super) fn required<T>(&mut self, key: &str, kind: Kind<T>, help: &'static str) -> T {
        or_placeholder(self.declare(key, Change::Fixed, kind, DefaultValue::Required, None, help))
    }

    /// As [`Self::required`]; `None` when it is missing or refused.
    pub(super) fn required_or_none<T>(
        &mut self,
        key: &str,
        kind: Kind<T>,
        help: &'static str,
    ) -> Option<T> {
        self.declare(key, Change::Fixed, kind, DefaultValue::Required, None, help).ok()
    }

    /// Declares a parameter that may be unset, which has the meaning stated.
    pub(super) fn optional<T>(
        &mut self,
        key: &str,
        change: Change,
        kind: Kind<T>,
        unset: &'static str,
        help: &'static str,
    ) -> Option<T> {
        self.declare(key, change, kind, DefaultValue::Unset(unset), None, help).ok()
    }

    /// Declares a parameter whose default follows from other parameters:
    /// `default` is the rule in words, and what follows here.
    pub(super) fn derived<T>(
        &mut self,
        key: &str,
        change: Change,
        kind: Kind<T>,
        default: (&'static str, impl Into<Node>),
        help: &'static str,
    ) -> T {
        let (rule, derived) = default;
        or_placeholder(self.declare(
            key,
            change,
            kind,
            DefaultValue::Unset(rule),
            Some(derived.into()),
            help,
        ))
    }

    /// Declares a parameter for every class, named `KEY.CLASS`, each of which
    /// may be unset.
    pub(super) fn per_class<T>(
        &mut self,
        key: &'static str,
        change: Change,
        kind: impl Fn() -> Kind<T>,
        unset: &'static str,
        help: &'static str,
    ) -> Vec<Option<T>> {
        self.per_class.push(key);
        let names = match self.is_manual {
            true => vec!["<CLASS>".to_owned()],
            false => self.class_names.clone(),
        };
        let unset = || DefaultValue::Unset(unset);
        names
            .iter()
            .map(|class| {
                let key = format!("{key}.{class}");
                self.declare(&key, change, kind(), unset(), None, help).ok()
            })
            .collect()
    }

    /// Whether anything is given below a key, or the parameters are described for any head.
    pub(super) fn is_given_below(&self, key: &str) -> bool {
        let is_below =
            |name: &String| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        self.is_manual || self.given.keys().chain(self.suggested.keys()).any(is_below)
    }

    /// Accepts the former key of a parameter, with a warning that names the
    /// present one. `convert` translates a value; `allowed` are its values.
    pub(super) fn renamed(
        &mut self,
        former: &str,
        key: &str,
        allowed: &str,
        convert: impl Fn(&Node) -> Option<Node>,
    ) {
        for entries in [&mut self.given, &mut self.suggested] {
            let Some(Entry { node, origin }) = entries.remove(former) else { continue };
            let name = format!("{}{former}", self.prefix);
            match convert(&node) {
                Some(node) => {
                    let message = format!("{name} is deprecated: use {}{key}: ", self.prefix);
                    self.problems.warn(format!("{message}{}", plain(&node)));
                    entries.entry(key.to_owned()).or_insert(Entry { node, origin });
                }
                None => self.problems.refuse(&name, found(&node), allowed),
            }
        }
    }

    /// The problems found so far.
    pub(super) fn problems(&mut self) -> &mut Problems {
        self.problems
    }

    /// Adds the problem that the value of a key does not fit the others.
    pub(super) fn refuse(&mut self, key: &str, found: impl std::fmt::Display, allowed: &str) {
        let name = self.declared_name(key);
        self.problems.refuse(&name, found, allowed);
    }

    /// Adds any other problem of a key.
    pub(super) fn problem(&mut self, key: &str, message: &str) {
        let name = self.declared_name(key);
        self.problems.push(&name, message);
    }

    fn declared_name(&self, key: &str) -> String {
        let name = format!("{}{key}", self.prefix);
        debug_assert!(self.declared.iter().any(|declared| declared.name == name), "{name}");
        name
    }

    /// Adds every given key that is not declared.
    pub(super) fn finish(mut self) -> Vec<Declaration> {
        let mut unknown = std::mem::take(&mut self.suggested);
        unknown.append(&mut self.given);
        for (index, (key, entry)) in unknown.into_iter().enumerate() {
            let hint = if index < MAX_HINTS { self.hint(&key) } else { None };
            self.problems.unknown_key(&format!("{}{key}", self.prefix), &entry.origin, hint);
        }
        self.declared
    }

    /// Adds every given key that no head declares.
    pub(super) fn finish_without_head(self, known: &[Declaration]) {
        for (index, (key, entry)) in self.given.iter().enumerate() {
            let is_known = |name: &str| match name.strip_suffix("<CLASS>") {
                Some(parent) => key.starts_with(parent),
                None => key == name,
            };
            if !known.iter().any(|known| is_known(&known.name)) {
                let keys = || known.iter().map(|known| &*known.name);
                let hint = (index < MAX_HINTS).then(|| meant(&self.prefix, key, keys())).flatten();
                self.problems.unknown_key(&format!("{}{key}", self.prefix), &entry.origin, hint);
            }
        }
    }

    fn hint(&self, key: &str) -> Option<String> {
        let parent = key.rsplit_once('.').map(|(parent, _)| parent);
        if self.per_class.iter().any(|per_class| Some(*per_class) == parent) {
            return Some(format!("classes: {}", shorten(&self.class_names.join(", "))));
        }
        let keys = self.declared.iter().map(|declared| &declared.name[self.prefix.len()..]);
        meant(&self.prefix, key, keys)
    }

    /// The value; the placeholder when it is unset, missing or refused.
    fn declare<T>(
        &mut self,
        key: &str,
        change: Change,
        kind: Kind<T>,
        default: DefaultValue,
        derived: Option<Node>,
        help: &'static str,
    ) -> Result<T, T> {
        let name = format!("{}{key}", self.prefix);
        let allowed = kind.allowed((!self.is_manual).then_some(self.class_names.len()));
        let suggested = self.suggested.remove(key);
        let given = self.given.remove(key).or(suggested);
        // An empty value leaves a parameter unset whose default is unset.
        let is_unset =
            |entry: &Entry| entry.node.is_empty() && matches!(default, DefaultValue::Unset(_));
        let node = match (given.filter(|entry| !is_unset(entry)), &default) {
            (Some(entry), _) => Some(entry.node),
            (None, DefaultValue::Value(node)) => Some(node.clone()),
            (None, DefaultValue::Unset(_)) => derived,
            (None, DefaultValue::Required) => {
                self.problems.push(&name, &format!("is missing; allowed: {allowed}"));
                None
            }
        };
        let read = node.and_then(|node| {
            let read = kind.read(&node, self.class_names.len().max(1));
            if read.is_none() {
                self.problems.refuse(&name, found(&node), &allowed);
            }
            read
        });
        let (value, node) = read.unzip();
        self.declared.push(Declaration {
            name,
            parameter_type: kind.parameter_type,
            range: kind.range,
            allowed,
            default,
            unit: kind.unit,
            is_live: change == Change::Live,
            help,
            value: node,
        });
        value.ok_or(kind.placeholder)
    }
}

fn or_placeholder<T>(value: Result<T, T>) -> T {
    value.unwrap_or_else(|placeholder| placeholder)
}

/// The key that an unknown one is nearest to.
fn meant<'k>(prefix: &str, key: &str, keys: impl IntoIterator<Item = &'k str>) -> Option<String> {
    nearest(key, keys).map(|nearest| format!("did you mean `{prefix}{nearest}`?"))
}
