//! What was given and what became of it, for parameters that depend on others.

use super::Reader;
use crate::config::declaration::Declaration;

impl Reader<'_> {
    /// Whether anything is given below a key, or the parameters are described for any head.
    pub(in crate::config) fn is_given_below(&self, key: &str) -> bool {
        let is_below =
            |name: &String| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        self.is_manual || self.given.keys().chain(self.suggested.keys()).any(is_below)
    }

    /// Whether a key is given, or the parameters are described for any head.
    pub(in crate::config) fn is_given(&self, key: &str) -> bool {
        self.is_manual || self.given.contains_key(key) || self.suggested.contains_key(key)
    }

    /// Whether a declared parameter has no value.
    pub(in crate::config) fn is_unset(&self, key: &str) -> bool {
        let name = self.name(key);
        self.declared.iter().any(|declared| declared.name == name && declared.value.is_none())
    }

    /// Whether the parameters are only described, for any head.
    pub(in crate::config) fn is_manual(&self) -> bool {
        self.is_manual
    }

    /// The paths of a declared value that lead nowhere, as sentences.
    pub(in crate::config) fn missing_files(&self, key: &str) -> Vec<String> {
        let name = self.name(key);
        let declared = self.declared.iter().find(|declared| declared.name == name);
        declared.map(Declaration::missing_files).unwrap_or_default()
    }

    /// Whether a declared key is missing or its value was refused, so that it has a placeholder.
    pub(in crate::config) fn is_unread(&self, key: &str) -> bool {
        self.unread.contains(key)
    }
}
