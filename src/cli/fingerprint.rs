//! `det_post check --json`: the effective configuration with the hashes of its files, and a key
//! that changes when either does.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::config::Config;
use crate::replay;
use det_post_types::{Error, ErrorKind, Result, input_file};

/// The largest file whose bytes are hashed: longer ones are no network that is loaded.
const MAX_HASHED_BYTES: u64 = 16 << 30;

/// The effective configuration; its JSON is the output of `check --json`.
#[derive(Serialize)]
pub(super) struct Fingerprint {
    /// Version of the program.
    version: &'static str,
    /// SHA-256 of the parameters, with the contents of files in place of their paths: equal on
    /// every machine. `None` when a file cannot be read.
    key: Option<String>,
    /// The warm-up of a slice, in seconds; `None`: all the time before it.
    warm_up_s: Option<f64>,
    parameters: Map<String, Value>,
    /// The files that parameters name.
    files: Vec<NamedFile>,
}

/// A file that a parameter names.
#[derive(Serialize)]
struct NamedFile {
    parameter: String,
    path: PathBuf,
    bytes: Option<u64>,
    sha256: Option<String>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Fingerprint {
    /// Reads and hashes the files of a configuration.
    ///
    /// # Errors
    /// `Config` when the parameters have no form in JSON.
    pub(super) fn of(config: &Config) -> Result<Self> {
        let parameters = parameters(config)?;
        let mut hashed = parameters.clone();
        let mut files = Vec::new();
        for (name, value) in &mut hashed {
            if names_files(name) {
                replace_paths(name, value, &mut files);
            }
        }
        let text = Value::from(hashed).to_string();
        let is_complete = files.iter().all(|file| file.sha256.is_some());
        let key = is_complete.then(|| hex(&Sha256::digest(text)));
        let warm_up_s = replay::warm_up(&config.channels).map(|warm_up| warm_up.as_secs_f64());
        Ok(Self { version: env!("CARGO_PKG_VERSION"), key, warm_up_s, parameters, files })
    }

    /// As indented JSON.
    ///
    /// # Errors
    /// `Config` when a value has no form in JSON.
    pub(super) fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n").map_err(no_json)
    }
}

/// The parameters that name files, each with one of its files.
///
/// # Errors
/// `Config` when the parameters have no form in JSON.
pub(super) fn named_files(config: &Config) -> Result<Vec<(String, PathBuf)>> {
    let mut named = Vec::new();
    for (name, value) in parameters(config)?.iter().filter(|(name, _)| names_files(name)) {
        let paths = match value {
            Value::Array(paths) => &paths[..],
            path => std::slice::from_ref(path),
        };
        let paths = paths.iter().filter_map(Value::as_str).filter(|path| !path.is_empty());
        named.extend(paths.map(|path| (name.clone(), PathBuf::from(path))));
    }
    Ok(named)
}

/// The effective parameters by their full names.
fn parameters(config: &Config) -> Result<Map<String, Value>> {
    let tree: Value = serde_yaml::from_str(&config.to_yaml()).map_err(|e| {
        Error::new(ErrorKind::Config, "check", "the parameters have no form in JSON").with_source(e)
    })?;
    let mut flat = Map::new();
    for (_, node) in tree.as_object().into_iter().flatten() {
        flatten("", node.get("ros__parameters").unwrap_or(&Value::Null), &mut flat);
    }
    Ok(flat)
}

fn flatten(name: &str, value: &Value, flat: &mut Map<String, Value>) {
    match value {
        Value::Object(inner) => inner.iter().for_each(|(key, value)| {
            let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            flatten(&name, value, flat);
        }),
        Value::Null => {}
        value => {
            flat.insert(name.to_owned(), value.clone());
        }
    }
}

/// Whether a parameter is a path or a list of paths.
fn names_files(name: &str) -> bool {
    name.ends_with("_path") || name.ends_with("_paths") || name.ends_with("engine.library")
}

/// Puts hashes in place of the paths of a parameter.
fn replace_paths(name: &str, value: &mut Value, files: &mut Vec<NamedFile>) {
    match value {
        Value::String(path) if !path.is_empty() => {
            let file = NamedFile::read(name, Path::new(path));
            *path = file.sha256.clone().unwrap_or_default();
            files.push(file);
        }
        Value::Array(paths) => {
            paths.iter_mut().for_each(|path| replace_paths(name, path, files));
        }
        _ => {}
    }
}

impl NamedFile {
    fn read(parameter: &str, path: &Path) -> Self {
        let (found, error) = match hash(path) {
            Ok(found) => (Some(found), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let (bytes, sha256) = found.unzip();
        Self { parameter: parameter.to_owned(), path: path.to_owned(), bytes, sha256, error }
    }
}

/// Length and SHA-256 of a file.
fn hash(path: &Path) -> std::io::Result<(u64, String)> {
    let mut file = input_file::open(path)?;
    let size = file.metadata()?.len();
    if size > MAX_HASHED_BYTES {
        let message = format!("{size} bytes; allowed: up to {MAX_HASHED_BYTES}");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, message));
    }
    let (mut hash, mut len, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((len, hex(&hash.finalize()))),
            num => {
                hash.update(&buffer[..num]);
                len += num as u64;
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn no_json(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Config, "check", "the parameters have no form in JSON").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_file_of_any_size_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(2 << 40).unwrap();
        let error = hash(file.path()).unwrap_err().to_string();
        assert!(error.contains("2199023255552 bytes; allowed"), "{error}");
        file.as_file().set_len(0).unwrap();
        assert_eq!(hash(file.path()).unwrap().0, 0);
    }
}
