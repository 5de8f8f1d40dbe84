//! Scalars of parameter files as ROS reads them (`rcl_yaml_param_parser`).

use det_post_ros::yaml::Node;

/// A scalar without quotes: a boolean by the words of YAML 1.1, an integer as C's
/// `strtoll` with base 0 has it (`0x10`, `010` is 8), a number as `strtod` has it (`inf`,
/// `nan`), or text.
pub(super) fn scalar(text: &str) -> Node {
    if let Some(flag) = flag_of(text) {
        return Node::Flag(flag);
    }
    if let Some(integer) = integer_of(text) {
        return Node::Integer(integer);
    }
    // YAML's own spellings: `.inf`, `-.inf`, `.nan`.
    let unsigned = text.trim_start_matches(['+', '-']);
    let is_special = matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN");
    let number = if is_special { text.replacen('.', "", 1) } else { text.to_owned() };
    number.parse().map_or_else(|_| Node::Text(text.to_owned()), Node::Number)
}

/// The words that ROS reads as booleans.
pub(super) fn flag_of(word: &str) -> Option<bool> {
    match word {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Some(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Some(false)
        }
        _ => None,
    }
}

fn integer_of(text: &str) -> Option<i64> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (digits, radix) = match digits.strip_prefix(['0']) {
        Some(rest) if rest.starts_with(['x', 'X']) => (&rest[1..], 16),
        Some(rest) if !rest.is_empty() => (rest, 8),
        _ => (digits, 10),
    };
    // `from_str_radix` would take a second sign.
    let is_digit = digits.starts_with(|c: char| c.is_ascii_alphanumeric());
    is_digit.then(|| i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_read_as_ros_reads_them() {
        let text = |text: &str| Node::Text(text.into());
        for (given, expected) in [
            ("yes", Node::Flag(true)),
            ("Off", Node::Flag(false)),
            ("yEs", text("yEs")),
            ("0x10", Node::Integer(16)),
            ("-0X1f", Node::Integer(-31)),
            ("010", Node::Integer(8)),
            ("-010", Node::Integer(-8)),
            ("+7", Node::Integer(7)),
            ("0", Node::Integer(0)),
            ("08", Node::Number(8.0)),
            ("--5", text("--5")),
            ("0x", text("0x")),
            ("0o17", text("0o17")),
            ("9223372036854775808", Node::Number(9_223_372_036_854_775_808.0)),
            ("inf", Node::Number(f64::INFINITY)),
            ("-Infinity", Node::Number(f64::NEG_INFINITY)),
            ("-.INF", Node::Number(f64::NEG_INFINITY)),
            (".5", Node::Number(0.5)),
            ("1e-3", Node::Number(1e-3)),
            ("1.", Node::Number(1.0)),
            ("", text("")),
            ("a b", text("a b")),
            ("cuda:0", text("cuda:0")),
        ] {
            assert_eq!(scalar(given), expected, "{given}");
        }
        for given in ["nan", ".NaN"] {
            assert!(matches!(scalar(given), Node::Number(number) if number.is_nan()), "{given}");
        }
    }
}
