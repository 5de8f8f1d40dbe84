//! `$(var X)`, `$(env X)` and `$(find-pkg-share P)` in values of parameter files, which
//! ROS 2 launch replaces where a file is given with `allow_substs`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// The values of launch arguments, by name.
pub(super) type Arguments = BTreeMap<String, String>;

/// What stands before a substitution.
const START: &str = "$(";

/// The most levels of substitutions in substitutions.
const MAX_LEVELS: usize = 16;

/// The longest value with its substitutions replaced, in bytes.
const MAX_BYTES: usize = 1 << 14;

/// Whether a text holds a substitution.
pub(super) fn is_in(text: &str) -> bool {
    text.contains(START)
}

/// The text with all substitutions replaced, the inner ones first. What is put in is not
/// searched again.
///
/// # Errors
/// A message that names the substitution, and what it lacks; also when the result is longer
/// than [`MAX_BYTES`].
pub(super) fn substitute(text: &str, arguments: &Arguments) -> Result<String, String> {
    let (replaced, rest) = replace(text, arguments, 0)?;
    debug_assert!(rest.is_empty());
    Ok(replaced)
}

/// Replaces up to the end, or, within `level` substitutions, up to the `)` that ends the
/// innermost. Returns the rest behind it.
fn replace<'t>(
    mut text: &'t str,
    arguments: &Arguments,
    level: usize,
) -> Result<(String, &'t str), String> {
    if level > MAX_LEVELS {
        return Err(format!("{level} levels of `$(`; allowed: up to {MAX_LEVELS}"));
    }
    let is_inner = level > 0;
    let mut replaced = String::new();
    loop {
        let start = text.find(START);
        let end = text.find(')').filter(|&end| is_inner && start.is_none_or(|start| end < start));
        if let Some(end) = end {
            replaced += &text[..end];
            return Ok((replaced, &text[end + 1..]));
        }
        let Some(start) = start else {
            if is_inner {
                return Err(format!("`$({text}` has no `)`"));
            }
            return Ok((replaced + text, ""));
        };
        replaced += &text[..start];
        let (inner, rest) = replace(&text[start + START.len()..], arguments, level + 1)?;
        replaced += &value_of(&inner, arguments)?;
        if replaced.len() > MAX_BYTES {
            let message = "a value is longer with its substitutions replaced";
            return Err(format!("{message}; allowed: up to {MAX_BYTES} bytes"));
        }
        text = rest;
    }
}

/// The value of `var X` and its like.
fn value_of<'a>(inner: &str, arguments: &'a Arguments) -> Result<Cow<'a, str>, String> {
    let mut words = inner.split_whitespace();
    let (command, name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let rest = words.collect::<Vec<_>>().join(" ");
    match (command, name) {
        (_, "") => Err(format!("`$({inner})` names nothing")),
        ("var", name) => match arguments.get(name) {
            Some(value) => Ok(Cow::Borrowed(value)),
            None => Err(format!("`$({inner})` has no value; give it by --arg {name}:=VALUE")),
        },
        ("env" | "optenv", name) => match std::env::var(name) {
            Ok(value) => Ok(Cow::Owned(value)),
            Err(_) if command == "optenv" || !rest.is_empty() => Ok(Cow::Owned(rest)),
            Err(_) => {
                Err(format!("`$({inner})` has no value; set the environment variable {name}"))
            }
        },
        ("find-pkg-share", package) => share_of(package).map(Cow::Owned).ok_or_else(|| {
            format!("`$({inner})`: the package is not in a folder of AMENT_PREFIX_PATH")
        }),
        _ => Err(format!("`$({inner})`: allowed: var, env, optenv, find-pkg-share")),
    }
}

/// The folder `share/PACKAGE` of the first prefix that has the package.
pub(super) fn share_of(package: &str) -> Option<String> {
    let is_name = package.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    let prefixes = std::env::var_os("AMENT_PREFIX_PATH").filter(|_| is_name)?;
    let share = |prefix: &Path| prefix.join("share").join(package);
    let found =
        std::env::split_paths(&prefixes).map(|prefix| share(&prefix)).find(|p| p.is_dir())?;
    Some(found.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Result<String, String> {
        let arguments = [("model_path", "/data/m"), ("name", "tiny"), ("env_name", "HOME")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        substitute(text, &arguments.into())
    }

    #[test]
    fn substitutions_are_replaced() {
        let home = std::env::var("HOME").unwrap_or_default();
        for (text, expected) in [
            ("plain (text)", "plain (text)".to_owned()),
            ("$(var model_path)/x_$(var name).onnx", "/data/m/x_tiny.onnx".to_owned()),
            ("$(var  model_path )", "/data/m".to_owned()),
            ("$(env HOME)/a", format!("{home}/a")),
            ("$(env $(var env_name))/a", format!("{home}/a")),
            ("$(env DET_POST_NOT_SET /opt/a b)", "/opt/a b".to_owned()),
            ("$(optenv DET_POST_NOT_SET)", String::new()),
        ] {
            assert_eq!(run(text).as_deref(), Ok(&*expected), "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        for (text, named) in [
            ("$(var data_path)/x", "--arg data_path:=VALUE"),
            ("$(env DET_POST_NOT_SET)", "environment variable DET_POST_NOT_SET"),
            ("$(find-pkg-share no_such_package)", "AMENT_PREFIX_PATH"),
            ("$(find-pkg-share ../x)", "AMENT_PREFIX_PATH"),
            ("$(eval 1 + 1)", "allowed: var"),
            ("$(var", "no `)`"),
            ("$(var )", "names nothing"),
            ("$()", "names nothing"),
            (&*format!("{}x{}", "$(var ".repeat(17), ")".repeat(17)), "17 levels"),
            (&*"$(".repeat(1 << 17), "17 levels"),
            (&*"$(var model_path)".repeat(1 << 12), "allowed: up to 16384 bytes"),
        ] {
            let message = run(text).unwrap_err();
            assert!(message.contains(named), "{text}: {message}");
        }
    }
}
