//! Damage of a recording: what is lost of a file, where and why.

use det_post_types::{Error, ErrorKind};

/// Where and why a file stops being readable.
#[derive(Debug)]
pub(super) struct Damage {
    pub(super) position: Option<usize>,
    pub(super) what: String,
}

impl Damage {
    pub(super) fn at(position: usize, what: impl Into<String>) -> Self {
        Self { position: Some(position), what: what.into() }
    }

    #[cfg(feature = "db3")]
    pub(super) fn somewhere(what: String) -> Self {
        Self { position: None, what }
    }

    /// The error of the file `name`, of which `num_delivered` messages were readable.
    pub(super) fn into_error(self, name: &str, num_delivered: u64) -> Error {
        let place = self.position.map_or(String::new(), |at| format!("{AT}{at}"));
        damaged(format!("{name}{place}: {}; {num_delivered}{DELIVERED}", self.what))
    }
}

/// What stands before the position in an error of a damaged file.
const AT: &str = " at byte ";
/// What stands behind the number of messages in an error of a damaged file.
const DELIVERED: &str = " messages of it were delivered before";

/// Whether the errors of two readers of a recording are of the same damage. Readers that select
/// other topics deliver other numbers of messages before it and need other amounts of memory
/// for it; the file and the position are the same.
pub fn is_same_damage(a: &Error, b: &Error) -> bool {
    place(a.message()) == place(b.message())
}

/// The file and the position in an error; without a position, all but the number of messages.
fn place(message: &str) -> &str {
    if let Some((name, rest)) = message.split_once(AT) {
        let num_digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        return &message[..name.len() + AT.len() + num_digits];
    }
    match message.strip_suffix(DELIVERED) {
        Some(rest) => rest.trim_end_matches(|c: char| c.is_ascii_digit()),
        None => message,
    }
}

/// The error of a recording that is not readable as a whole.
pub(super) fn damaged(message: String) -> Error {
    Error::new(ErrorKind::DamagedBag, "bag", message)
}

/// Message and cause as one text.
pub(super) fn full_message(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{}: {source}", error.message()),
        None => error.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_known_by_its_place() {
        let at = |position, what: &str, num| Damage::at(position, what).into_error("a.mcap", num);
        let somewhere =
            |what: &str, num| Damage { position: None, what: what.into() }.into_error("a.db3", num);
        for (same, a, b) in [
            (true, at(70, "needs 9 bytes", 3), at(70, "needs 8 bytes", 12)),
            (false, at(70, "wrong checksum", 3), at(7, "wrong checksum", 3)),
            (true, somewhere("row 4 is cut", 3), somewhere("row 4 is cut", 12)),
            (false, somewhere("row 4 is cut", 3), somewhere("row 5 is cut", 3)),
            (false, at(70, "wrong checksum", 3), somewhere("wrong checksum", 3)),
            (true, damaged("a.mcap is missing".into()), damaged("a.mcap is missing".into())),
            (false, damaged("a;b is missing".into()), damaged("a;c is missing".into())),
        ] {
            assert_eq!(is_same_damage(&a, &b), same, "{a} | {b}");
        }
    }
}
