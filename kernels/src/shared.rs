//! Numbers in the text of a kernel, read while Rust is compiled.

/// The number behind `definition`, which begins exactly one line of a kernel's
/// text, indented or not, after `constexpr uint32_t` or not.
///
/// # Panics
/// When no line or more than one begins so, or no decimal number that fits a
/// `u32` and ends with `;`, `,` or `)` follows: while compiling, an error.
#[expect(clippy::panic, reason = "it is called while compiling")]
pub const fn constant(text: &str, definition: &str) -> u32 {
    let (text, definition) = (text.as_bytes(), definition.as_bytes());
    let mut found = None;
    let mut at = 0;
    while at < text.len() {
        let start = skip(text, skip_spaces(text, at), b"constexpr uint32_t ");
        let end = skip(text, start, definition);
        if end != start {
            assert!(found.is_none(), "the kernel's file has two such definitions");
            found = Some(decimal(text, end));
        }
        at = next_line(text, at);
    }
    match found {
        Some(number) => number,
        None => panic!("the kernel's file has no such definition"),
    }
}

/// The number of the enumerator `kPointsOverVoxel`, on a line by itself, by its name
/// `points_over_voxel`; `None` if there is no such line.
///
/// # Panics
/// When no decimal number that fits a `u32` and ends with `,` follows: while compiling, an error.
pub const fn enumerator(text: &str, name: &str) -> Option<u32> {
    let (text, mut at) = (text.as_bytes(), 0);
    while at < text.len() {
        let start = skip_spaces(text, at);
        let end = skip_enumerator(text, start, name.as_bytes());
        if end != start {
            return Some(decimal(text, end));
        }
        at = next_line(text, at);
    }
    None
}

/// The number of lines that begin with an enumerator.
pub const fn num_enumerators(text: &str) -> usize {
    let (text, mut at, mut num) = (text.as_bytes(), 0, 0);
    while at < text.len() {
        let start = skip_spaces(text, at);
        if start > at && start < text.len() && text[start] == b'k' {
            num += 1;
        }
        at = next_line(text, at);
    }
    num
}

/// The position after `kName = `; `at` if it is not there.
const fn skip_enumerator(text: &[u8], at: usize, name: &[u8]) -> usize {
    let mut end = skip(text, at, b"k");
    let (mut i, mut is_first) = (0, true);
    while i < name.len() {
        if name[i] == b'_' {
            is_first = true;
        } else {
            let letter = if is_first { name[i].to_ascii_uppercase() } else { name[i] };
            if end == at || end >= text.len() || text[end] != letter {
                return at;
            }
            (end, is_first) = (end + 1, false);
        }
        i += 1;
    }
    let number = skip(text, end, b" = ");
    if number == end { at } else { number }
}

const fn next_line(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && text[at] != b'\n' {
        at += 1;
    }
    at + 1
}

const fn skip_spaces(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && text[at] == b' ' {
        at += 1;
    }
    at
}

/// The position after `word`; `at` if it is not there.
const fn skip(text: &[u8], at: usize, word: &[u8]) -> usize {
    let mut i = 0;
    while i < word.len() {
        if at + i >= text.len() || text[at + i] != word[i] {
            return at;
        }
        i += 1;
    }
    at + i
}

const fn decimal(text: &[u8], mut at: usize) -> u32 {
    let first = at;
    let mut number = 0_u32;
    while at < text.len() && text[at].is_ascii_digit() {
        // An overflow does not compile.
        number = number * 10 + (text[at] - b'0') as u32;
        at += 1;
    }
    assert!(
        at > first && at < text.len() && matches!(text[at], b';' | b',' | b')'),
        "the definition in the kernel's file is no decimal literal"
    );
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
// kThreads = 1; in a comment is no definition.
constexpr uint32_t kThreads = 512;
constexpr uint32_t kThreadsOfRow = 32;  // a longer name
enum Layout : uint32_t {
    kPacked = 0,
    kPlanar = 7,
};
constexpr uint32_t kRows = kThreads / kThreadsOfRow;
constexpr uint32_t kMask = 0xff;
constexpr uint32_t kTwice = 1;
constexpr uint32_t kTwice = 1;
static_assert(sizeof(Constants) == 2816);
";

    #[test]
    fn the_number_is_that_of_the_text() {
        let cases = [
            ("kThreads = ", 512),
            ("kThreadsOfRow = ", 32),
            ("kPacked = ", 0),
            ("kPlanar = ", 7),
            ("static_assert(sizeof(Constants) == ", 2816),
        ];
        for (definition, number) in cases {
            assert_eq!(constant(TEXT, definition), number, "{definition}");
        }
        // What changes in the kernel's text changes in Rust.
        assert_eq!(constant(&TEXT.replace("= 512;", "= 256;"), "kThreads = "), 256);
    }

    #[test]
    fn enumerators_are_found_by_their_names() {
        for (name, number) in [("packed", Some(0)), ("planar", Some(7)), ("plan", None)] {
            assert_eq!(enumerator(TEXT, name), number, "{name}");
        }
        assert_eq!(enumerator("  kPointsOverVoxel = 4,", "points_over_voxel"), Some(4));
        assert_eq!(enumerator("  kPointsOverVoxel = 4,", "points_over"), None);
        assert_eq!(num_enumerators(TEXT), 2);
    }

    #[test]
    fn what_is_no_single_decimal_definition_is_refused() {
        for definition in ["kNone = ", "Threads = ", "kRows = ", "kMask = ", "kTwice = "] {
            let refused = std::panic::catch_unwind(|| constant(TEXT, definition));
            assert!(refused.is_err(), "{definition}");
        }
    }
}
