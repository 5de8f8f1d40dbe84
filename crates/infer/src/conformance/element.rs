//! Element types of tensors: their numbers in ONNX and their letters in the table.

/// The letter of a type in the table.
pub(super) fn letter(number: i64) -> char {
    match number {
        1 | 10 | 11 => 'f',
        6 | 7 => 'i',
        9 => 'b',
        2 | 3 => 'u',
        _ => '-',
    }
}

pub(super) fn shown_letter(letter: char) -> &'static str {
    match letter {
        'f' => "float16, float, double",
        'i' => "int32, int64",
        'b' => "bool",
        _ => "int8, uint8",
    }
}

/// The name of a type in the schema.
pub(super) fn shown(number: i64) -> String {
    const NAMES: [&str; 17] = [
        "float",
        "uint8",
        "int8",
        "uint16",
        "int16",
        "int32",
        "int64",
        "string",
        "bool",
        "float16",
        "double",
        "uint32",
        "uint64",
        "complex64",
        "complex128",
        "bfloat16",
        "float8",
    ];
    let name = usize::try_from(number - 1).ok().and_then(|at| NAMES.get(at));
    name.map_or_else(|| format!("type {number}"), |name| (*name).to_owned())
}
