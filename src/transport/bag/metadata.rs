//! `metadata.yaml`, the contents page of a rosbag2 directory.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_yaml::Value;

use crate::error::{Error, ErrorKind, Result};

/// Name of the file in its directory.
pub(super) const FILE_NAME: &str = "metadata.yaml";

/// Longest contents page that is read.
const MAX_BYTES: u64 = 64 << 20;

/// The document: one key, one value.
#[derive(Serialize, Deserialize)]
struct Document {
    rosbag2_bagfile_information: Metadata,
}

/// The contents page, with the keys of version 5. Keys of other versions are
/// ignored, those that older versions lack have defaults.
#[derive(Serialize, Deserialize)]
pub(super) struct Metadata {
    pub(super) version: u32,
    #[serde(default)]
    pub(super) storage_identifier: String,
    #[serde(default)]
    pub(super) duration: Option<Nanoseconds>,
    #[serde(default)]
    pub(super) starting_time: Option<SinceEpoch>,
    #[serde(default)]
    pub(super) message_count: u64,
    #[serde(default)]
    pub(super) topics_with_message_count: Vec<TopicCount>,
    #[serde(default)]
    pub(super) compression_format: String,
    #[serde(default)]
    pub(super) compression_mode: String,
    #[serde(default)]
    pub(super) relative_file_paths: Vec<String>,
    #[serde(default)]
    pub(super) files: Vec<FileSpan>,
}

/// A length of time.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Nanoseconds {
    pub(super) nanoseconds: i64,
}

/// A point in time.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct SinceEpoch {
    pub(super) nanoseconds_since_epoch: i64,
}

/// How many messages a topic has.
#[derive(Serialize, Deserialize)]
pub(super) struct TopicCount {
    pub(super) topic_metadata: TopicMetadata,
    #[serde(default)]
    pub(super) message_count: u64,
}

/// A topic as the recorder saw it.
#[derive(Serialize, Deserialize)]
pub(super) struct TopicMetadata {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) type_name: String,
    #[serde(default)]
    pub(super) serialization_format: String,
    /// Text up to version 8, a sequence from version 9 on.
    #[serde(default)]
    pub(super) offered_qos_profiles: Value,
}

/// What one file of the recording covers.
#[derive(Serialize, Deserialize)]
pub(super) struct FileSpan {
    pub(super) path: String,
    pub(super) starting_time: SinceEpoch,
    pub(super) duration: Nanoseconds,
    pub(super) message_count: u64,
}

impl TopicMetadata {
    /// The offered profiles as YAML text.
    pub(super) fn offered_qos(&self) -> String {
        match &self.offered_qos_profiles {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => serde_yaml::to_string(other).unwrap_or_default(),
        }
    }
}

impl Metadata {
    /// Reads the contents page of `directory`; `None` when it has none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] when the file cannot be read,
    /// [`ErrorKind::DamagedBag`] when it does not parse.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(FILE_NAME);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("open", &path, error)),
        };
        let mut text = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut text).map_err(|e| io_error("read", &path, e))?;
        let document: Document = serde_yaml::from_slice(&text).map_err(|error| {
            let message = format!("{} is no contents page of a recording", path.display());
            Error::new(ErrorKind::DamagedBag, "bag", format!("{message}: {error}"))
        })?;
        Ok(Some(document.rosbag2_bagfile_information))
    }

    /// The files in their order. Before version 4 their names start with that
    /// of the directory.
    pub(super) fn files(&self, directory: &Path) -> Vec<PathBuf> {
        let base = match directory.parent() {
            Some(parent) if self.version < 4 => parent,
            _ => directory,
        };
        self.relative_file_paths.iter().map(|file| base.join(file)).collect()
    }

    /// The whole document as text.
    pub(super) fn document(self) -> Result<(String, Self)> {
        let document = Document { rosbag2_bagfile_information: self };
        let text = to_yaml(&document)?;
        Ok((text, document.rosbag2_bagfile_information))
    }

    /// The value alone, as the MCAP file itself carries it.
    pub(super) fn value(&self) -> Result<String> {
        to_yaml(self)
    }
}

fn to_yaml(value: &impl Serialize) -> Result<String> {
    serde_yaml::to_string(value).map_err(|error| {
        Error::new(ErrorKind::Io, "bag", "the contents page cannot be written").with_source(error)
    })
}

pub(super) fn io_error(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "bag", format!("cannot {what} {}", path.display())).with_source(error)
}
