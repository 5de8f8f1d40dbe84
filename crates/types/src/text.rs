//! Text from messages and files, made safe to show.
//!
//! Names of topics, fields, frames, types and encodings are chosen by the sender
//! and may contain control characters, terminal escapes, line breaks or megabytes.
//! All text of errors ([`crate::Error`]), logs and diagnostics passes through this
//! module.

use std::fmt::{self, Write};

/// The maximum size of a shown text in bytes, including the note about omitted
/// bytes. More than the longest path.
pub const MAX_SHOWN_BYTES: usize = 6 << 10;

/// Size of the note about omitted bytes.
const NOTE_BYTES: usize = 48;

/// The representation of a line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineBreaks {
    /// `\n`: the text is one line.
    Escaped,
    /// The line break itself, in lists of our own.
    Kept,
    /// A line that begins with a mark, so that it cannot pass for a line of
    /// another origin.
    Marked,
}

impl LineBreaks {
    fn replacement(self) -> &'static str {
        match self {
            Self::Escaped => "\\n",
            Self::Kept => "\n",
            Self::Marked => "\n    | ",
        }
    }
}

/// Writes text to another writer with control characters and characters that
/// reorder text escaped as in Rust, truncated to [`MAX_SHOWN_BYTES`].
pub struct Shown<'w> {
    to: &'w mut dyn Write,
    line_breaks: LineBreaks,
    num_shown: usize,
    num_left_out: usize,
}

impl<'w> Shown<'w> {
    /// A writer of one text to `to`.
    pub fn new(to: &'w mut dyn Write, line_breaks: LineBreaks) -> Self {
        Self { to, line_breaks, num_shown: 0, num_left_out: 0 }
    }

    /// Ends the text with a note about omitted bytes.
    ///
    /// # Errors
    /// Returns the errors of the writer beneath.
    pub fn finish(self) -> fmt::Result {
        match self.num_left_out {
            0 => Ok(()),
            num => write!(self.to, "... ({num} more bytes)"),
        }
    }
}

impl Write for Shown<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (at, char) in text.char_indices() {
            if self.num_left_out > 0 || self.num_shown >= MAX_SHOWN_BYTES - NOTE_BYTES {
                self.num_left_out += text.len() - at;
                break;
            }
            match char {
                '\n' => {
                    let replacement = self.line_breaks.replacement();
                    self.to.write_str(replacement)?;
                    self.num_shown += replacement.len();
                }
                char if is_plain(char) => {
                    self.to.write_char(char)?;
                    self.num_shown += char.len_utf8();
                }
                char => {
                    write!(self.to, "{}", char.escape_default())?;
                    self.num_shown += char.escape_default().len();
                }
            }
        }
        Ok(())
    }
}

/// Levenshtein distance in bytes.
pub fn edit_distance(a: &str, b: &str) -> usize {
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

/// The text as it is shown: unchanged and without a copy if it is safe.
pub fn shown(text: String, line_breaks: LineBreaks) -> String {
    let is_kept = |char| char == '\n' && line_breaks == LineBreaks::Kept;
    if text.len() <= MAX_SHOWN_BYTES && text.chars().all(|char| is_plain(char) || is_kept(char)) {
        return text;
    }
    let mut shown = String::new();
    let mut writer = Shown::new(&mut shown, line_breaks);
    // A `String` takes everything.
    let _ = writer.write_str(&text).and_then(|()| writer.finish());
    shown
}

/// Whether a character is shown unchanged.
fn is_plain(char: char) -> bool {
    // Marks, embeddings, overrides and isolates of direction; separators of
    // lines and paragraphs.
    let reorders = matches!(char,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !(char.is_control() || reorders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_plain_text_comes_through() {
        // (text, on one line, on marked lines)
        let cases = [
            ("", "", ""),
            (
                "/camera/front: 96 rows, naïve 点云",
                "/camera/front: 96 rows, naïve 点云",
                "/camera/front: 96 rows, naïve 点云",
            ),
            ("a\nb", "a\\nb", "a\n    | b"),
            ("a\r\tb\0", "a\\r\\tb\\u{0}", "a\\r\\tb\\u{0}"),
            ("\u{1b}[2J\u{9b}31m", "\\u{1b}[2J\\u{9b}31m", "\\u{1b}[2J\\u{9b}31m"),
            ("\u{202e}gpj.exe\u{2028}", "\\u{202e}gpj.exe\\u{2028}", "\\u{202e}gpj.exe\\u{2028}"),
        ];
        for (text, line, lines) in cases {
            assert_eq!(shown(text.to_owned(), LineBreaks::Escaped), line, "{text:?}");
            assert_eq!(shown(text.to_owned(), LineBreaks::Marked), lines, "{text:?}");
        }
        assert_eq!(shown("a\nb\r".to_owned(), LineBreaks::Kept), "a\nb\\r");
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        for (text, num) in [("x", 14_000_000), ("点", 100_000), ("\u{1b}", 50_000)] {
            let long = text.repeat(num);
            let cut = shown(long.clone(), LineBreaks::Escaped);
            assert!(cut.len() <= MAX_SHOWN_BYTES, "{} bytes", cut.len());
            let (_, note) = cut.rsplit_once("... (").unwrap();
            let num_left_out: usize = note.strip_suffix(" more bytes)").unwrap().parse().unwrap();
            assert!(num_left_out < long.len() && num_left_out > long.len() - MAX_SHOWN_BYTES);
            // What passes twice is cut once.
            assert_eq!(shown(cut.clone(), LineBreaks::Escaped), cut);
        }
        let fits = "x".repeat(MAX_SHOWN_BYTES);
        assert_eq!(shown(fits.clone(), LineBreaks::Escaped), fits);
    }
}
