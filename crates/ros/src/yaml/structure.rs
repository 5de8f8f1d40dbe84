//! What a text is before the parser reads it, and what a line does wrong that the parser refuses.

use std::ops::Range;

/// The deepest nesting.
pub(super) const MAX_DEPTH: usize = 16;
/// The most line breaks, commas and opening brackets. Each separates at most
/// three values, and the parser holds about 100 bytes for each value.
pub(super) const MAX_SEPARATORS: usize = 128 << 10;

/// The message of the parser, after what a line does wrong where that is seen.
pub(super) fn explained(text: &str, error: &serde_yaml::Error) -> String {
    let message = error.to_string();
    let number = error.location().map_or(0, |location| location.line());
    let Some(line) = number.checked_sub(1).and_then(|index| text.lines().nth(index)) else {
        return message;
    };
    let indent = &line[..line.len() - line.trim_start().len()];
    if indent.contains('\t') {
        return format!("line {number} is indented with a tab; allowed: spaces");
    }
    let is_key = line
        .trim_start()
        .split_once(':')
        .is_some_and(|(_, value)| value.is_empty() || value.starts_with(' '));
    if is_key && message.contains("did not find expected key") {
        return format!(
            "line {number} is indented by {} spaces, unlike the keys before it; allowed: one column for all keys of a \
             mapping ({message})",
            indent.len()
        );
    }
    message
}

/// Checks nesting and number of values before the text reaches the parser,
/// whose time grows with the square of the depth and whose memory grows with
/// the number of values. Punctuation in quoted text counts too; no file needs
/// that much.
pub(super) fn check_structure(text: &str) -> Result<(), String> {
    let (mut depth, mut num_separators) = (0_usize, 0_usize);
    for line in text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
        num_separators += 1;
        let comment = comment_of(line);
        // What is behind a comment is part of it or of a scalar, or follows a scalar.
        for (part, closes) in [(&line[..comment.start], true), (&line[comment.end..], false)] {
            for byte in part.bytes() {
                match byte {
                    b'[' | b'{' => (depth, num_separators) = (depth + 1, num_separators + 1),
                    b']' | b'}' if closes => depth = depth.saturating_sub(1),
                    b',' => num_separators += 1,
                    _ => {}
                }
                if depth > MAX_DEPTH {
                    return Err(too_deep());
                }
            }
        }
        // Of `- - - a` or `? ? a`, each indicator nests.
        let words = line.split_ascii_whitespace();
        if words.take_while(|word| matches!(*word, "-" | "?")).nth(MAX_DEPTH).is_some() {
            return Err(too_deep());
        }
        if num_separators > MAX_SEPARATORS {
            return Err(format!("lines and items exceed the limit of {MAX_SEPARATORS}"));
        }
    }
    Ok(())
}

/// The bytes of a line that are certainly no structure because of a `#` at its start or behind a
/// blank: up to the first quote, they are a comment or inside a scalar that an earlier line began.
/// A quote may end that scalar, with structure behind it; a `#` behind a quote may be text.
fn comment_of(line: &str) -> Range<usize> {
    let mut signs = line.match_indices('#').map(|(at, _)| at);
    let is_start = |at: &usize| *at == 0 || line[..*at].ends_with([' ', '\t']);
    let none = line.len()..line.len();
    let Some(start) = signs.find(is_start) else { return none };
    let quote = line.find(['"', '\'']).unwrap_or(line.len());
    if start < quote { start..quote } else { none }
}

pub(super) fn too_deep() -> String {
    format!("nesting exceeds the limit of {MAX_DEPTH} levels")
}
