//! The problems of a configuration, with suggestions.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

use indexmap::IndexMap;

use det_post_types::text::edit_distance;
use det_post_types::{Error, ErrorKind, Result};

/// Maximum number of ignored keys that the warning of a file names.
const MAX_NAMED: usize = 20;
/// Maximum number of lines of an error.
const MAX_LINES: usize = 200;
/// Maximum length of a word with a suggestion.
const MAX_WORD: usize = 80;

/// The origin of a value.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// The file, or the option of the command line.
    pub(super) name: Rc<str>,
    /// Whether it is a section for several nodes (`/**:`, `/front/*:`), which may
    /// contain keys of other nodes.
    pub(super) is_shared: bool,
    /// Where its relative paths begin, before the folders of every value.
    pub(super) folders: Rc<[PathBuf]>,
}

impl Origin {
    /// An origin for this node only.
    pub(super) fn own(name: &str) -> Self {
        Self { name: name.into(), is_shared: false, folders: Rc::default() }
    }
}

/// The problems of a configuration, and its ignored keys.
#[derive(Debug, Default)]
pub(super) struct Problems {
    problems: Vec<String>,
    warnings: Vec<String>,
    notes: Vec<String>,
    /// By key of ours: the key of another node that its value comes from.
    origins: BTreeMap<String, String>,
    /// By file: keys of sections for many nodes that this node does not have.
    ignored: IndexMap<Rc<str>, Vec<String>>,
}

impl Problems {
    /// Adds a problem of a key.
    pub(super) fn push(&mut self, key: &str, message: &str) {
        let from = self.origin_of(key).map_or(String::new(), |from| format!("{from}: as "));
        self.problems.push(format!("{from}{}: {message}", shorten(key)));
    }

    /// Adds a value that is not allowed.
    pub(super) fn refuse(&mut self, key: &str, found: impl fmt::Display, allowed: &str) {
        self.push(key, &format!("found {}; allowed: {allowed}", shorten(&found.to_string())));
    }

    /// Adds a warning about a value that is accepted.
    pub(super) fn warn(&mut self, message: String) {
        self.warnings.push(message);
    }

    /// Adds a key that this node does not have: a problem, or an ignored key if it
    /// may belong to another node. `hint` is a suggestion.
    pub(super) fn unknown_key(&mut self, key: &str, origin: &Origin, hint: Option<String>) {
        if !origin.is_shared {
            let hint = hint.map_or(String::new(), |hint| format!("; {hint}"));
            return self.push(key, &format!("unknown key in {}{hint}", origin.name));
        }
        let keys = self.ignored.entry(Rc::clone(&origin.name)).or_default();
        let key = shorten(key);
        match hint {
            // Ahead of the others: more likely a mistake.
            Some(hint) => keys.insert(0, format!("`{key}` ({hint})")),
            None => keys.push(format!("`{key}`")),
        }
    }

    /// Adds a remark that is logged where all is well.
    pub(super) fn note(&mut self, message: String) {
        self.notes.push(message);
    }

    /// Names the key of another node that the value of a key of ours comes from.
    pub(super) fn name_origin(&mut self, key: &str, from: &str) {
        self.origins.insert(key.to_owned(), from.to_owned());
    }

    /// The key of another node that the value of a key of ours comes from.
    pub(super) fn origin_of(&self, key: &str) -> Option<&str> {
        self.origins.get(key).map(String::as_str)
    }

    /// No problems yet, for a part of the same configuration.
    pub(super) fn of_part(&self) -> Self {
        Self { origins: self.origins.clone(), ..Self::default() }
    }

    /// Drops the warnings and remarks so far, which were logged before.
    pub(super) fn forget_warnings(&mut self) {
        self.warnings.clear();
        self.notes.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.problems.len()
    }

    pub(super) fn append(&mut self, mut others: Self) {
        self.problems.append(&mut others.problems);
        self.warnings.append(&mut others.warnings);
        self.notes.append(&mut others.notes);
        for (file, mut keys) in others.ignored {
            self.ignored.entry(file).or_default().append(&mut keys);
        }
    }

    /// Logs the warnings; with a problem, [`Self::into_error`].
    pub(super) fn into_result(mut self) -> Result<()> {
        for (file, keys) in &self.ignored {
            let named = keys.len().min(MAX_NAMED);
            let more = match keys.len() - named {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            let named = keys[..named].join(", ");
            let unknown = "unknown keys in sections for many nodes are ignored";
            self.warnings.push(format!("{file}: {unknown}: {named}{more}"));
        }
        if self.problems.is_empty() {
            self.warnings.iter().for_each(|warning| tracing::warn!("config: {warning}"));
            self.notes.iter().for_each(|note| tracing::info!("config: {note}"));
            return Ok(());
        }
        Err(self.into_error())
    }

    /// An error that prints all problems and warnings, one a line.
    pub(super) fn into_error(self) -> Error {
        let count = self.problems.len();
        let mut lines = [self.problems, self.warnings].concat();
        if lines.len() > MAX_LINES {
            lines.truncate(MAX_LINES);
            lines.push("…".to_owned());
        }
        let message = match &lines[..] {
            [one] => one.clone(),
            _ if count == 1 => lines.join("\n  "),
            _ => format!("{count} problems\n  {}", lines.join("\n  ")),
        };
        Error::new(ErrorKind::Config, "config", message)
    }
}

/// At most 80 characters of a text.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The name with the smallest edit distance, if at most half of it changes.
pub(super) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_WORD {
        return None;
    }
    let (distance, name) = names
        .into_iter()
        .map(|name| (edit_distance(word, name), name))
        .min_by_key(|pair| pair.0)?;
    (2 * distance <= name.len()).then_some(name)
}

/// Whether a word differs from a name in one or two letters.
pub(super) fn is_misspelling(word: &str, name: &str) -> bool {
    word.len().abs_diff(name.len()) <= 2 && (1..=2).contains(&edit_distance(word, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_named() {
        let keys = ["nms.kind", "nms.iou_threshold", "score_threshold"];
        assert_eq!(nearest("nms.iou_treshold", keys), Some("nms.iou_threshold"));
        assert_eq!(nearest("scorethreshold", keys), Some("score_threshold"));
        assert_eq!(nearest("zzzzzzzzzzzzzz", keys), None);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
