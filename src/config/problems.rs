//! What is wrong with a configuration, and what was probably meant.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};

/// All that is wrong with a configuration.
#[derive(Debug, std::default::Default)]
pub(super) struct Problems(Vec<String>);

impl Problems {
    /// Notes what is wrong with a key.
    pub(super) fn push(&mut self, key: &str, message: &str) {
        self.0.push(format!("{}: {message}", shorten(key)));
    }

    /// Notes a value that is not allowed.
    pub(super) fn refuse(&mut self, key: &str, found: impl fmt::Display, allowed: &str) {
        self.push(key, &format!("found {}; allowed: {allowed}", shorten(&found.to_string())));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// An error that prints all of them, one a line.
    pub(super) fn into_result(self) -> Result<()> {
        let message = match &self.0[..] {
            [] => return Ok(()),
            [one] => one.clone(),
            all => format!("{} problems\n  {}", all.len(), all.join("\n  ")),
        };
        Err(Error::new(ErrorKind::Config, "config", message))
    }
}

/// At most 80 characters of a text.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The name that takes the fewest edits, if no more than half of it changes.
pub(super) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, name) = names
        .into_iter()
        .map(|name| (edit_distance(word, name), name))
        .min_by_key(|pair| pair.0)?;
    (2 * distance <= name.len()).then_some(name)
}

/// Levenshtein distance in bytes.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, byte_a) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, byte_b) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(byte_a != byte_b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
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
