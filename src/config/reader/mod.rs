//! Declares the parameters of a channel, a head or the node, and reads them.
//!
//! As in ROS, one call declares a parameter and gives its value: key, type,
//! range, unit, default, whether it may change while the node runs, and its
//! description are in one place. The messages about wrong values, the manual,
//! the effective configuration and the parameters of the ROS node are made from
//! the declarations.

mod queries;

use std::collections::BTreeSet;

use super::declaration::{Change, Declaration, DefaultValue, UsersKey, plain};
use super::files::{Entries, Entry};
use super::paths::{Folders, PathUse, located};
use super::problems::{Problems, is_misspelling, nearest, shorten};
use super::value::{Kind, found};
use det_post_ros::yaml::Node;

/// The maximum number of unknown keys for which a correction is searched.
const MAX_HINTS: usize = 100;

/// Stands for the name of a class in a described key.
const ANY_CLASS: &str = "<CLASS>";

/// Reads one group of parameters.
pub(super) struct Reader<'a> {
    /// Prefix of every key: the channel or the file, with its separator.
    prefix: String,
    /// The given values that are not read yet.
    given: Entries,
    /// The defaults of the head that are not read yet.
    suggested: Entries,
    /// The classes of the head; `None` while they are not known, when lists of values per class
    /// may have any length.
    class_names: Option<Vec<String>>,
    /// Whether it only describes the parameters, for any head.
    is_manual: bool,
    declared: Vec<Declaration>,
    /// Keys that have one parameter per class below them.
    per_class: Vec<&'static str>,
    /// Keys whose value is missing or was refused.
    unread: BTreeSet<String>,
    conflicts: Vec<Conflict>,
    problems: &'a mut Problems,
}

/// Values that do not fit each other.
struct Conflict {
    /// The key that is refused, then the keys that its value has to fit.
    keys: Vec<String>,
    found: String,
    allowed: String,
}

impl<'a> Reader<'a> {
    /// A reader of what is given. `prefix` precedes every key in messages
    /// and names.
    pub(super) fn new(prefix: &str, given: Entries, problems: &'a mut Problems) -> Self {
        Self {
            prefix: prefix.to_owned(),
            given,
            suggested: Entries::new(),
            class_names: None,
            is_manual: false,
            declared: Vec::new(),
            per_class: Vec::new(),
            unread: BTreeSet::new(),
            conflicts: Vec::new(),
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
        self.class_names = Some(class_names.to_vec());
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

    /// Declares a parameter with a default value, on which it depends what the others are: `None`
    /// when it is refused, or not given beside a key that seems to be a misspelling of it.
    pub(super) fn choice<T>(
        &mut self,
        key: &str,
        kind: Kind<T>,
        default: &'static str,
        help: &'static str,
    ) -> Option<T> {
        let entries = || [&self.given, &self.suggested].into_iter();
        let is_misspelled = !entries().any(|entries| entries.contains_key(key))
            && entries()
                .flatten()
                .any(|(given, entry)| !entry.origin.is_shared && is_misspelling(given, key));
        let default = DefaultValue::Value(default.into());
        let value = self.declare(key, Change::Fixed, kind, default, None, help).ok();
        if is_misspelled {
            self.unread.insert(key.to_owned());
            return None;
        }
        value
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
            true => vec![ANY_CLASS.to_owned()],
            false => self.class_names.clone().unwrap_or_default(),
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

    /// Adds the problem that the value of a key is not allowed, unless it was refused before.
    pub(super) fn refuse(&mut self, key: &str, found: impl std::fmt::Display, allowed: &str) {
        self.conflict(&[key], found, allowed);
    }

    /// Adds the problem that the value of the first key does not fit those of the others. It is
    /// left out where one of them was refused or is misspelled, which is reported and may be the
    /// cause.
    pub(super) fn conflict(&mut self, keys: &[&str], found: impl std::fmt::Display, allowed: &str) {
        debug_assert!(self.declared.iter().any(|d| d.name == self.name(keys[0])), "{keys:?}");
        let keys = keys.iter().map(|&key| key.to_owned()).collect();
        let (found, allowed) = (found.to_string(), allowed.to_owned());
        self.conflicts.push(Conflict { keys, found, allowed });
    }

    /// Adds any other problem of a key, unless its value was refused before.
    pub(super) fn problem(&mut self, key: &str, message: &str) {
        if !self.is_unread(key) {
            let name = self.name(key);
            debug_assert!(self.declared.iter().any(|declared| declared.name == name), "{name}");
            self.problems.push(&name, message);
        }
    }

    /// Accepts the keys of other kinds without a look at their values, where it is not known
    /// which kind is meant.
    pub(super) fn accept_keys_of(&mut self, others: impl FnOnce() -> Vec<Declaration>) {
        if self.is_manual {
            return;
        }
        for mut declared in others() {
            for entries in [&mut self.given, &mut self.suggested] {
                match declared.name.strip_suffix(ANY_CLASS) {
                    Some(parent) => entries.retain(|key, _| !key.starts_with(parent)),
                    None => drop(entries.remove(&declared.name)),
                }
            }
            declared.name = format!("{}{}", self.prefix, declared.name);
            self.declared.push(declared);
        }
    }

    /// The key as messages have it.
    fn name(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Adds every given key that is not declared, and the conflicts.
    pub(super) fn finish(mut self) -> Vec<Declaration> {
        let mut unknown = std::mem::take(&mut self.suggested);
        unknown.append(&mut self.given);
        for (index, (key, entry)) in unknown.into_iter().enumerate() {
            let meant = if index < MAX_HINTS { self.meant(&key) } else { None };
            let hint = self.hint(&key, meant.as_deref());
            let name = self.name(&key);
            self.problems.unknown_key(&name, &entry.origin, hint);
            // Ignored keys of sections for many nodes are no reason for silence.
            if !entry.origin.is_shared {
                self.unread.extend(meant);
            }
        }
        for Conflict { keys, found, allowed } in std::mem::take(&mut self.conflicts) {
            if !keys.iter().any(|key| self.unread.contains(key)) {
                let name = self.name(&keys[0]);
                self.problems.refuse(&name, found, &allowed);
            }
        }
        self.declared
    }

    /// The declared key that an unknown one is nearest to.
    fn meant(&self, key: &str) -> Option<String> {
        let keys = self.declared.iter().map(|declared| &declared.name[self.prefix.len()..]);
        nearest(key, keys).map(str::to_owned)
    }

    fn hint(&self, key: &str, meant: Option<&str>) -> Option<String> {
        let parent = key.rsplit_once('.').map(|(parent, _)| parent);
        if self.per_class.iter().any(|per_class| Some(*per_class) == parent) {
            let class_names = self.class_names.as_deref().unwrap_or_default();
            return Some(format!("classes: {}", shorten(&class_names.join(", "))));
        }
        meant.map(|meant| format!("did you mean `{}`?", self.name(meant)))
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
        let num_classes = self.class_names.as_ref().map(Vec::len);
        let allowed = kind.allowed(num_classes);
        let suggested = self.suggested.remove(key);
        let given = self.given.remove(key).or(suggested);
        // An empty value leaves a parameter unset whose default is unset.
        let is_unset =
            |entry: &Entry| entry.node.is_empty() && matches!(default, DefaultValue::Unset(_));
        let given = given.filter(|entry| !is_unset(entry));
        let of_path = given.as_ref().filter(|_| kind.path_use != PathUse::None);
        let folders = of_path.map(|entry| entry.origin.folders.to_vec()).unwrap_or_default();
        let node = match (given, &default) {
            (Some(entry), _) => Some(located(entry.node, kind.path_use, &folders)),
            (None, DefaultValue::Value(node)) => Some(node.clone()),
            (None, DefaultValue::Unset(_)) => derived,
            (None, DefaultValue::Required) => {
                self.problems.push(&name, &format!("is missing; allowed: {allowed}"));
                None
            }
        };
        let is_given = node.is_some();
        let read = node.and_then(|node| {
            let read = kind.read(&node, num_classes);
            if read.is_none() {
                self.problems.refuse(&name, found(&node), &allowed);
            }
            read
        });
        let (value, node) = read.unzip();
        if node.is_none() && (is_given || default == DefaultValue::Required) {
            self.unread.insert(key.to_owned());
        }
        self.declared.push(Declaration {
            users_key: UsersKey(self.problems.origin_of(&name).map(str::to_owned)),
            name,
            parameter_type: kind.parameter_type,
            range: kind.range,
            allowed,
            default,
            unit: kind.unit,
            is_live: change == Change::Live,
            help,
            value: node,
            path_use: kind.path_use,
            folders: Folders(folders),
        });
        value.ok_or(kind.placeholder)
    }
}

/// The parameters that `read` declares, described for any head.
pub(super) fn described(read: impl FnOnce(&mut Reader<'_>)) -> Vec<Declaration> {
    let mut problems = Problems::default();
    let mut p = Reader::manual(&mut problems);
    read(&mut p);
    p.finish()
}

fn or_placeholder<T>(value: Result<T, T>) -> T {
    value.unwrap_or_else(|placeholder| placeholder)
}
