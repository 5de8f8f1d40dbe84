//! From the parameters of their node to ours, with what became of each.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use super::key::{Effect, Key};
use crate::config::declaration::plain;
use crate::config::files::{Entries, Entry};
use crate::config::problems::{Origin, Problems, nearest};
use crate::config::substitution::Arguments;
use crate::config::value::found;
use det_post_ros::yaml::Node;

/// How a parameter of another package is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TranslationOutcome {
    /// A parameter of ours has the same name and value.
    Same,
    /// A parameter of ours has the value.
    Renamed,
    /// Parameters of ours follow from the value.
    Converted,
    /// It is of TensorRT, and has an effect with `engine.provider: tensorrt` at most.
    Engine,
    /// It has no effect here.
    NoEffect,
    /// Their node does not have it either.
    Unknown,
    /// A newer parameter holds in its place.
    Replaced,
}

impl TranslationOutcome {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Renamed => "renamed",
            Self::Converted => "converted",
            Self::Engine => "engine",
            Self::NoEffect => "no effect",
            Self::Unknown => "unknown",
            Self::Replaced => "replaced",
        }
    }
}

/// A parameter of another package, and what follows from it.
#[derive(Clone, Debug, PartialEq)]
pub struct TranslatedParameter {
    /// Its name.
    pub key: String,
    /// Its value, as a file has it.
    pub value: String,
    /// The parameters of ours that follow, as `key: value`.
    pub became: Vec<String>,
    /// How it is translated.
    pub state: TranslationOutcome,
    /// A remark, or nothing.
    pub note: String,
    /// Whether the remark is a warning.
    pub is_warning: bool,
}

/// A parameter that is given.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) key: String,
    pub(super) node: Node,
    /// Where its relative paths begin.
    folders: Rc<[PathBuf]>,
}

/// A translation in progress.
pub(super) struct Translation<'a> {
    /// Name of the channel.
    channel: &'static str,
    pub(super) arguments: &'a Arguments,
    /// What is given, less what is taken.
    given: Entries,
    ours: Entries,
    /// Keys of ours that follow from theirs.
    derived: BTreeSet<String>,
    parameters: Vec<TranslatedParameter>,
    problems: &'a mut Problems,
}

impl<'a> Translation<'a> {
    pub(super) fn new(
        channel: &'static str,
        given: Entries,
        arguments: &'a Arguments,
        problems: &'a mut Problems,
    ) -> Self {
        let (ours, derived, parameters) = (Entries::new(), BTreeSet::new(), Vec::new());
        Self { channel, arguments, given, ours, derived, parameters, problems }
    }

    /// Adds what another file gives.
    pub(super) fn give(&mut self, entries: Entries) {
        self.given.extend(entries);
    }

    /// Adds what another file gives, where it is not given.
    pub(super) fn give_defaults(&mut self, entries: Entries) {
        for (key, entry) in entries {
            self.given.entry(key).or_insert(entry);
        }
    }

    /// Adds the problems of another file.
    pub(super) fn append_problems(&mut self, problems: Problems) {
        self.problems.append(problems);
    }

    /// The value of a name, which remains.
    pub(super) fn peek(&self, name: &str) -> Option<&Node> {
        self.given.get(name).map(|entry| &entry.node)
    }

    /// Whether a name is given and not taken.
    pub(super) fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// Whether any name is given below a prefix, and not taken.
    pub(super) fn has_below(&self, prefix: &str) -> bool {
        self.given.range(prefix.to_owned()..).next().is_some_and(|(key, _)| key.starts_with(prefix))
    }

    /// Whether a parameter is given under any of its names, and not taken.
    pub(super) fn has_key(&self, key: &Key) -> bool {
        key.names.iter().any(|name| self.has(name))
    }

    /// Takes the value of a name.
    pub(super) fn take_name(&mut self, name: &str) -> Option<Given> {
        let Entry { node, origin } = self.given.remove(name)?;
        Some(Given { key: name.to_owned(), node, folders: origin.folders })
    }

    /// Takes a parameter: the value of the newest of its names that is given. Those of the
    /// others are replaced.
    pub(super) fn take(&mut self, key: &Key) -> Option<Given> {
        let mut taken = None;
        for name in key.names {
            let Some(given) = self.take_name(name) else { continue };
            match &taken {
                None => taken = Some(given),
                Some(_) => self.replaced(&given),
            }
        }
        taken
    }

    /// As [`Self::take`], refusing when it is not given; `place` is where it usually stands.
    pub(super) fn take_required(&mut self, key: &Key, place: &str) -> Option<Given> {
        let taken = self.take(key);
        if taken.is_none() {
            self.missing(key.names[0], place);
        }
        taken
    }

    /// Notes every parameter below a prefix as one without effect.
    pub(super) fn ignore_below(&mut self, prefix: &str, note: &str) {
        let below = self.given.range(prefix.to_owned()..).map(|(key, _)| key);
        let below: Vec<String> = below.take_while(|key| key.starts_with(prefix)).cloned().collect();
        for key in below {
            if let Some(given) = self.take_name(&key) {
                self.ignore(&given, TranslationOutcome::NoEffect, note);
            }
        }
    }

    /// The names of parameters that are not taken yet.
    pub(super) fn left(&self) -> Vec<String> {
        self.given.keys().cloned().collect()
    }

    /// Notes the parameters of a table with a prefix that are left, which have no effect.
    pub(super) fn ignore_table(&mut self, prefix: &str, keys: &[&Key]) {
        for key in keys.iter().filter(|key| !prefix.is_empty() && key.effect != Effect::Used) {
            for name in key.names {
                let Some(given) = self.take_name(&format!("{prefix}{name}")) else { continue };
                let state = match key.effect {
                    Effect::Engine => TranslationOutcome::Engine,
                    _ => TranslationOutcome::NoEffect,
                };
                self.ignore(&given, state, key.note);
            }
        }
    }

    /// Whether a parameter of ours is set.
    pub(super) fn is_set(&self, ours: &str) -> bool {
        self.value_of(ours).is_some()
    }

    /// The value of a parameter of ours that is set.
    pub(super) fn value_of(&self, ours: &str) -> Option<&Node> {
        self.ours.get(&format!("{}.{ours}", self.channel)).map(|entry| &entry.node)
    }

    /// Refuses because a parameter is not given.
    pub(super) fn missing(&mut self, name: &str, place: &str) {
        self.problems.push(name, &format!("is missing; it usually stands in {place}"));
    }

    /// Refuses a value.
    pub(super) fn refuse(&mut self, given: &Given, allowed: &str) {
        self.problems.refuse(&given.key, found(&given.node), allowed);
    }

    /// Refuses for another reason.
    pub(super) fn problem(&mut self, key: &str, message: &str) {
        self.problems.push(key, message);
    }

    /// Sets a parameter of ours that follows from theirs, or from the package.
    pub(super) fn set(&mut self, key: &str, node: impl Into<Node>) {
        self.default(key, node);
        self.derived.insert(format!("{}.{key}", self.channel));
    }

    /// Sets a parameter of ours to the value of one of theirs; refuses null, which rcl takes for no value
    /// and ours for the default.
    pub(super) fn rename(&mut self, given: &Given, ours: &str) {
        if given.node == Node::Null {
            return self.refuse(given, "a value");
        }
        let state =
            if given.key == ours { TranslationOutcome::Same } else { TranslationOutcome::Renamed };
        self.become_with(given, &[(ours, given.node.clone())], state, "");
    }

    /// Sets parameters of ours that follow from the value of one of theirs.
    pub(super) fn convert(&mut self, given: &Given, ours: &[(&str, Node)], note: &str) {
        self.become_with(given, ours, TranslationOutcome::Converted, note);
    }

    fn become_with(
        &mut self,
        given: &Given,
        ours: &[(&str, Node)],
        state: TranslationOutcome,
        note: &str,
    ) {
        let channel = self.channel;
        for (key, node) in ours {
            self.set(key, node.clone());
            if let Some(entry) = self.ours.get_mut(&format!("{channel}.{key}")) {
                entry.origin.folders = Rc::clone(&given.folders);
            }
            self.problems.name_origin(&format!("{channel}.{key}"), &given.key);
        }
        let became =
            ours.iter().map(|(key, node)| format!("{channel}.{key}: {}", plain(node))).collect();
        self.record(given, became, state, note);
    }

    /// Sets a parameter of ours that may be given under its own name.
    pub(super) fn default(&mut self, ours: &str, node: impl Into<Node>) {
        let key = format!("{}.{ours}", self.channel);
        self.ours.insert(key, Entry { node: node.into(), origin: Origin::own("--like") });
    }

    /// The topics, unless they are given.
    pub(super) fn topics(&mut self, input: &str, output: &str) {
        self.default("input", input);
        self.default("output", output);
    }

    /// Notes a parameter of TensorRT, and what it sets where TensorRT runs the network.
    pub(super) fn engine(&mut self, given: &Given, ours: Option<(&str, Node)>) {
        match ours {
            Some(ours) => self.become_with(given, &[ours], TranslationOutcome::Converted, ""),
            None => self.ignore(given, TranslationOutcome::Engine, "only TensorRT uses it"),
        }
    }

    /// Notes a parameter that their node does not have beside the others.
    pub(super) fn unknown_here(&mut self, given: &Given) {
        self.ignore(given, TranslationOutcome::Unknown, "");
        self.warn(&given.key, "unknown beside the other keys, no effect");
    }

    /// Notes that a parameter does nothing.
    pub(super) fn ignore(&mut self, given: &Given, state: TranslationOutcome, note: &str) {
        self.record(given, Vec::new(), state, note);
    }

    /// Notes that a newer parameter holds.
    pub(super) fn replaced(&mut self, given: &Given) {
        self.record(given, Vec::new(), TranslationOutcome::Replaced, "");
        self.warn(&given.key, "no effect: a newer key holds");
    }

    /// Adds a warning to what became of a parameter.
    pub(super) fn warn(&mut self, key: &str, note: &str) {
        self.problems.warn(format!("{key}: {note}"));
        if let Some(parameter) =
            self.parameters.iter_mut().rev().find(|parameter| parameter.key == key)
        {
            (parameter.note, parameter.is_warning) = (note.to_owned(), true);
        }
    }

    /// Warns about something that is not given.
    pub(super) fn warn_of_absence(&mut self, message: &str) {
        self.problems.warn(message.to_owned());
    }

    fn record(
        &mut self,
        given: &Given,
        became: Vec<String>,
        state: TranslationOutcome,
        note: &str,
    ) {
        let (key, value) = (given.key.clone(), plain(&given.node));
        let note = note.to_owned();
        self.parameters.push(TranslatedParameter {
            key,
            value,
            became,
            state,
            note,
            is_warning: false,
        });
    }

    /// Ends the translation. What is left is ours if `owner` says so, without effect if
    /// a table has it, or unknown.
    pub(super) fn finish(
        mut self,
        keys: &[&Key],
        owner: impl Fn(&str) -> Option<String>,
    ) -> (Entries, Vec<TranslatedParameter>, BTreeSet<String>) {
        for (key, entry) in std::mem::take(&mut self.given) {
            let folders = Rc::clone(&entry.origin.folders);
            let given = Given { key, node: entry.node.clone(), folders };
            if let Some(full) = owner(&given.key) {
                let became = vec![format!("{full}: {}", plain(&entry.node))];
                self.record(&given, became, TranslationOutcome::Same, "");
                self.derived.remove(&full);
                self.ours.insert(full, entry);
                continue;
            }
            let known = keys.iter().find(|known| known.has_name(&given.key));
            match known.map(|known| (known.effect, known.note)) {
                Some((Effect::Engine, note)) => {
                    self.ignore(&given, TranslationOutcome::Engine, note)
                }
                Some((Effect::Used | Effect::Nothing, note)) => {
                    self.ignore(&given, TranslationOutcome::NoEffect, note);
                }
                None => self.unknown(&given, keys),
            }
        }
        let is_without = |parameter: &&TranslatedParameter| {
            matches!(parameter.state, TranslationOutcome::Engine | TranslationOutcome::NoEffect)
        };
        let without_effect: Vec<&str> =
            self.parameters.iter().filter(is_without).map(|parameter| &*parameter.key).collect();
        if !without_effect.is_empty() {
            self.problems.note(format!("no effect here: {}", without_effect.join(", ")));
        }
        (self.ours, self.parameters, self.derived)
    }

    fn unknown(&mut self, given: &Given, keys: &[&Key]) {
        // Another topic would be read or written, in silence.
        if given.key.rsplit(['.', '_']).next() == Some("topic") {
            let message = "unknown key that names a topic, of another version perhaps: the topics would be others; allowed: \
                           none; set `input` or `output` (`-p input:=TOPIC`), or rename the topic (`-r`)";
            self.problems.push(&given.key, message);
        }
        self.ignore(given, TranslationOutcome::Unknown, "");
        let names = keys.iter().flat_map(|key| key.names).copied();
        let hint = nearest(&given.key, names).map(|name| format!("; did you mean `{name}`?"));
        self.warn(&given.key, &format!("unknown key, no effect{}", hint.unwrap_or_default()));
    }
}
