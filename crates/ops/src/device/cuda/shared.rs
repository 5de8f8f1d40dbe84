//! Constants and struct sizes that Rust and the kernels share.
//!
//! The text in `kernels/` is the one place that holds their values; Rust reads
//! them out of that text while it is compiled:
//!
//! | in `kernels/unpack.cu` | in Rust |
//! |---|---|
//! | `constexpr uint32_t kThreads = 512;` | `kernel_constant!("unpack.cu", "kThreads")`, a `u32` |
//! | `kPacked3 = 0,` in an enumeration | the same |
//! | `static_assert(sizeof(Args) == 352);` | `assert_mirrors!(UnpackArgs<'_>, "unpack.cu", "Args")` |
//!
//! A shared definition is on a line of its own, with a decimal literal:
//! what is computed from shared constants is computed on both sides. A name
//! that the file does not define, or defines twice, does not compile. A struct
//! whose size differs between the two languages fails the build as well: nvcc
//! refuses the `static_assert` when the C++ side changes, rustc refuses
//! `assert_mirrors!` when the number or the Rust side does. The latter needs no
//! nvcc. That a kernel takes the struct that its [`KernelSpec`](super::KernelSpec)
//! declares is checked when the kernel is loaded.

/// The value of a constant or an enumerator that a file in `kernels/` defines:
/// `kernel_constant!("unpack.cu", "kThreads")`.
macro_rules! kernel_constant {
    ($file:literal, $name:literal) => {
        const {
            let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $file));
            $crate::device::cuda::shared::number_after(text, concat!($name, " = "))
        }
    };
}

/// The size of a struct that a file in `kernels/` asserts, in bytes.
macro_rules! kernel_struct_size {
    ($file:literal, $name:literal) => {
        const {
            let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/", $file));
            let assertion = concat!("static_assert(sizeof(", $name, ") == ");
            $crate::device::cuda::shared::number_after(text, assertion) as usize
        }
    };
}

/// Compiles only if a type is as large as the struct that it mirrors:
/// `assert_mirrors!(UnpackArgs<'_>, "unpack.cu", "Args")`. The types and the order
/// of the fields are for the author to compare.
macro_rules! assert_mirrors {
    ($mirror:ty, $file:literal, $name:literal) => {
        const _: () = assert!(
            size_of::<$mirror>() == $crate::device::cuda::kernel_struct_size!($file, $name),
            concat!(stringify!($mirror), " is not as large as ", $name, " in kernels/", $file)
        );
    };
}

pub(crate) use {assert_mirrors, kernel_constant, kernel_struct_size};

/// The number behind `definition`, which begins exactly one line of a kernel's
/// text, indented or not, after `constexpr uint32_t` or not.
///
/// # Panics
/// When no line or more than one begins so, or no decimal number that fits a
/// `u32` and ends with `;`, `,` or `)` follows: while compiling, an error.
#[expect(clippy::panic, reason = "it is called while compiling")]
pub(crate) const fn number_after(text: &str, definition: &str) -> u32 {
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
        while at < text.len() && text[at] != b'\n' {
            at += 1;
        }
        at += 1;
    }
    match found {
        Some(number) => number,
        None => panic!("the kernel's file has no such definition"),
    }
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
static_assert(sizeof(Args) == 336);
    static_assert(sizeof(Args<float>) == 88, \"as in Rust\");
";

    #[test]
    fn the_number_is_that_of_the_text() {
        let cases = [
            ("kThreads = ", 512),
            ("kThreadsOfRow = ", 32),
            ("kPacked = ", 0),
            ("kPlanar = ", 7),
            ("static_assert(sizeof(Args) == ", 336),
            ("static_assert(sizeof(Args<float>) == ", 88),
        ];
        for (definition, number) in cases {
            assert_eq!(number_after(TEXT, definition), number, "{definition}");
        }
        // What changes in the kernel's text changes in Rust.
        assert_eq!(number_after(&TEXT.replace("= 512;", "= 256;"), "kThreads = "), 256);
    }

    #[test]
    fn what_is_no_single_decimal_definition_is_refused() {
        for definition in ["kNone = ", "Threads = ", "kRows = ", "kMask = ", "kTwice = "] {
            let refused = std::panic::catch_unwind(|| number_after(TEXT, definition));
            assert!(refused.is_err(), "{definition}");
        }
    }
}
