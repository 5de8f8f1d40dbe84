//! `metadata.yaml` of a rosbag2 directory.

use std::path::Path;

use serde::Serialize;

use crate::yaml::Node;
use det_post_types::{Error, ErrorKind, Result};

/// A part of the metadata, or the reason why it is invalid.
type Parsed<T> = std::result::Result<T, String>;

/// Name of the file in its directory.
pub(super) const FILE_NAME: &str = "metadata.yaml";

/// The most bytes that are read. Recordings of a thousand topics with the QoS
/// of every publisher have about 1 MiB.
const MAX_BYTES: usize = 4 << 20;

/// The document: one key, one value.
#[derive(Serialize)]
struct Document {
    rosbag2_bagfile_information: Metadata,
}

/// The contents of `metadata.yaml`, with the keys of version 5. Keys of other versions are
/// ignored, those that older versions lack have defaults.
#[derive(Serialize)]
pub(super) struct Metadata {
    pub(super) version: u32,
    pub(super) storage_identifier: String,
    pub(super) duration: Option<Nanoseconds>,
    pub(super) starting_time: Option<SinceEpoch>,
    pub(super) message_count: u64,
    pub(super) topics_with_message_count: Vec<TopicCount>,
    pub(super) compression_format: String,
    pub(super) compression_mode: String,
    pub(super) relative_file_paths: Vec<String>,
    /// Written for rosbag2, not read.
    pub(super) files: Vec<FileSpan>,
}

/// A length of time.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Nanoseconds {
    pub(super) nanoseconds: i64,
}

/// A point in time.
#[derive(Clone, Copy, Serialize)]
pub(super) struct SinceEpoch {
    pub(super) nanoseconds_since_epoch: i64,
}

/// How many messages a topic has.
#[derive(Serialize)]
pub(super) struct TopicCount {
    pub(super) topic_metadata: TopicMetadata,
    pub(super) message_count: u64,
}

/// A topic as the recorder saw it.
#[derive(Serialize)]
pub(super) struct TopicMetadata {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) type_name: String,
    pub(super) serialization_format: String,
    /// YAML text. From version 9 on the document holds a sequence instead.
    pub(super) offered_qos_profiles: String,
}

/// What one file of the recording covers.
#[derive(Serialize)]
pub(super) struct FileSpan {
    pub(super) path: String,
    pub(super) starting_time: SinceEpoch,
    pub(super) duration: Nanoseconds,
    pub(super) message_count: u64,
}

impl Metadata {
    /// Reads the metadata of `directory`; `None` when it has none.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] when the file cannot be read,
    /// [`ErrorKind::DamagedBag`] when its text is not metadata.
    pub(super) fn read(directory: &Path) -> Result<Option<Self>> {
        let path = directory.join(FILE_NAME);
        let parsed = match Node::read(&path, MAX_BYTES) {
            Ok(parsed) => parsed,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &path, error)),
        };
        let metadata = parsed.and_then(|document| Self::of_document(&document));
        metadata.map(Some).map_err(|problem| {
            let message = format!("{} is not the metadata of a recording", path.display());
            Error::new(ErrorKind::DamagedBag, "bag", format!("{message}: {problem}"))
        })
    }

    fn of_document(document: &Node) -> Parsed<Self> {
        let document = Field { key: String::new(), value: document };
        let root = document.required("rosbag2_bagfile_information")?;
        let duration = root.entry("duration")?.map(|field| {
            let nanoseconds = field.required("nanoseconds")?.integer()?;
            Ok::<_, String>(Nanoseconds { nanoseconds })
        });
        let starting_time = root.entry("starting_time")?.map(|field| {
            let nanoseconds_since_epoch = field.required("nanoseconds_since_epoch")?.integer()?;
            Ok::<_, String>(SinceEpoch { nanoseconds_since_epoch })
        });
        let topics = root.items("topics_with_message_count")?;
        let files = root.items("relative_file_paths")?;
        Ok(Self {
            version: root.required("version")?.integer()?,
            storage_identifier: root.text_of("storage_identifier")?,
            duration: duration.transpose()?,
            starting_time: starting_time.transpose()?,
            message_count: root.count_of("message_count")?,
            topics_with_message_count: topics.iter().map(topic).collect::<Parsed<_>>()?,
            compression_format: root.text_of("compression_format")?,
            compression_mode: root.text_of("compression_mode")?,
            relative_file_paths: files.iter().map(Field::text).collect::<Parsed<_>>()?,
            files: Vec::new(),
        })
    }

    /// The whole document as text.
    pub(super) fn document(self) -> Result<(String, Self)> {
        let document = Document { rosbag2_bagfile_information: self };
        let text = to_yaml(&document)?;
        Ok((text, document.rosbag2_bagfile_information))
    }

    /// Only the value, as the MCAP file itself carries it.
    pub(super) fn value(&self) -> Result<String> {
        to_yaml(self)
    }
}

fn topic(field: &Field<'_>) -> Parsed<TopicCount> {
    let topic = field.required("topic_metadata")?;
    let profiles = topic.entry("offered_qos_profiles")?.map(|profiles| match profiles.value {
        Node::Text(text) => text.clone(),
        value => serde_yaml::to_string(value).unwrap_or_default(),
    });
    let topic_metadata = TopicMetadata {
        name: topic.required("name")?.text()?,
        type_name: topic.required("type")?.text()?,
        serialization_format: topic.text_of("serialization_format")?,
        offered_qos_profiles: profiles.unwrap_or_default(),
    };
    Ok(TopicCount { topic_metadata, message_count: field.count_of("message_count")? })
}

/// A value of the document and its position. Messages name the key and the
/// kind of the value and never quote the value: the text can be of any file.
struct Field<'a> {
    key: String,
    value: &'a Node,
}

impl<'a> Field<'a> {
    fn expected(&self, what: &str) -> String {
        let place = if self.key.is_empty() { "the document" } else { &self.key };
        format!("{place} is {}, expected {what}", self.value.kind())
    }

    /// The value at `name` of a mapping; `None` when it is absent or null.
    fn entry(&self, name: &str) -> Parsed<Option<Self>> {
        let Node::Map(map) = self.value else { return Err(self.expected("a mapping")) };
        let value = map.get(name).filter(|value| **value != Node::Null);
        let separator = if self.key.is_empty() { "" } else { "." };
        Ok(value.map(|value| Self { key: format!("{}{separator}{name}", self.key), value }))
    }

    fn required(&self, name: &str) -> Parsed<Self> {
        self.entry(name)?.ok_or_else(|| match self.key.as_str() {
            "" => format!("it has no {name}"),
            key => format!("{key} has no {name}"),
        })
    }

    /// The items of the list at `name`, none when it is absent.
    fn items(&self, name: &str) -> Parsed<Vec<Self>> {
        let Some(field) = self.entry(name)? else { return Ok(Vec::new()) };
        let Node::List(items) = field.value else { return Err(field.expected("a list")) };
        let key = |index| format!("{}[{index}]", field.key);
        Ok(items.iter().enumerate().map(|(index, value)| Self { key: key(index), value }).collect())
    }

    fn text(&self) -> Parsed<String> {
        let Node::Text(text) = self.value else { return Err(self.expected("text")) };
        Ok(text.clone())
    }

    /// The text at `name`, empty when it is absent.
    fn text_of(&self, name: &str) -> Parsed<String> {
        self.entry(name)?.map_or(Ok(String::new()), |field| field.text())
    }

    fn integer<T: TryFrom<i64>>(&self) -> Parsed<T> {
        let Node::Integer(integer) = *self.value else { return Err(self.expected("an integer")) };
        T::try_from(integer).map_err(|_| format!("{} is {integer}, out of range", self.key))
    }

    /// The count at `name`, 0 when it is absent.
    fn count_of(&self, name: &str) -> Parsed<u64> {
        self.entry(name)?.map_or(Ok(0), |field| field.integer())
    }
}

fn to_yaml(value: &impl Serialize) -> Result<String> {
    serde_yaml::to_string(value).map_err(|error| {
        Error::new(ErrorKind::Io, "bag", "metadata.yaml cannot be written").with_source(error)
    })
}

pub(super) fn io_error(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "bag", format!("cannot {what} {}", path.display())).with_source(error)
}
