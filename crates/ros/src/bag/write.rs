//! Writing a rosbag2 directory: one MCAP file and its `metadata.yaml`.
//!
//! The same calls give the same bytes on every machine: no clock is read, no
//! version is recorded, and compression runs on the calling thread.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use ::mcap::records::{MessageHeader, Metadata as MetadataRecord};
use ::mcap::{Compression, McapError, WriteOptions, Writer};

use super::metadata::{
    self, FileSpan, Metadata, Nanoseconds, SinceEpoch, TopicCount, TopicMetadata, io_error,
};
use det_post_types::{Error, ErrorKind, Result, Stamp};

/// Size at which a chunk is closed.
const CHUNK_BYTES: u64 = 4 << 20;
/// The level zstd calls its default.
const ZSTD_LEVEL: u32 = 3;

/// How the chunks of a written recording are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BagCompression {
    /// As they are: readers can lend payloads without a copy.
    #[default]
    None,
    /// By zstd.
    Zstd,
}

/// Whether a publisher repeats lost samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliability {
    /// Samples are repeated until they arrive.
    Reliable,
    /// Samples may be lost.
    BestEffort,
}

/// Whether a publisher keeps samples for late joiners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The last samples are kept, as for `/tf_static`.
    TransientLocal,
    /// Nothing is kept.
    Volatile,
}

/// The QoS that `ros2 bag play` offers for a topic; the history is always the
/// last `depth` samples, everything else the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedQos {
    /// How many samples are kept.
    pub depth: u32,
    /// Whether lost samples are repeated.
    pub reliability: Reliability,
    /// Whether samples are kept for late joiners.
    pub durability: Durability,
}

impl Default for OfferedQos {
    /// Reliable, volatile, the last ten.
    fn default() -> Self {
        Self { depth: 10, reliability: Reliability::Reliable, durability: Durability::Volatile }
    }
}

impl OfferedQos {
    /// The profile as rosbag2 spells it before version 9 of the contents
    /// page: the integers of `rmw`, unlimited times as the largest duration.
    fn to_yaml(self) -> String {
        let reliability = match self.reliability {
            Reliability::Reliable => 1,
            Reliability::BestEffort => 2,
        };
        let durability = match self.durability {
            Durability::TransientLocal => 1,
            Durability::Volatile => 2,
        };
        let unlimited = "\n    sec: 9223372036\n    nsec: 854775807";
        format!(
            "- history: 1\n  depth: {}\n  reliability: {reliability}\n  durability: {durability}\n  \
             deadline:{unlimited}\n  lifespan:{unlimited}\n  liveliness: 1\n  \
             liveliness_lease_duration:{unlimited}\n  avoid_ros_namespace_conventions: false",
            self.depth
        )
    }
}

/// A writer of one recording. Without [`Self::finish`] the directory has no
/// `metadata.yaml`.
pub struct BagWriter {
    directory: PathBuf,
    file_name: String,
    writer: Writer<BufWriter<File>>,
    topics: Vec<Topic>,
    /// Earliest and latest log time.
    span: Option<(i64, i64)>,
}

struct Topic {
    channel: u16,
    num_messages: u64,
    metadata: TopicMetadata,
}

impl BagWriter {
    /// Creates the directory `dir` (its parents too) and in it
    /// `<name of dir>_0.mcap`. A recording of the same name in it is replaced.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Argument`] when `dir` has no name (`/`, `..`),
    /// [`ErrorKind::Io`] when the system refuses.
    pub fn create(dir: &Path, compression: BagCompression) -> Result<Self> {
        let name = dir.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
            let message = format!("'{}' does not name a directory in UTF-8", dir.display());
            Error::new(ErrorKind::Argument, "bag", message)
        })?;
        Self::create_named(dir, name, compression)
    }

    /// As [`Self::create`], for a recording called `name` in a directory of
    /// another name: its data file is `<name>_0.mcap`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] when the system refuses.
    pub fn create_named(dir: &Path, name: &str, compression: BagCompression) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(|error| io_error("create", dir, error))?;
        let page = dir.join(metadata::FILE_NAME);
        match std::fs::remove_file(&page) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io_error("replace", &page, error));
            }
            _ => {}
        }
        let file_name = format!("{name}_0.mcap");
        let path = dir.join(&file_name);
        let file = File::create(&path).map_err(|error| io_error("create", &path, error))?;
        let compression = match compression {
            BagCompression::None => None,
            BagCompression::Zstd => Some(Compression::Zstd),
        };
        let writer = WriteOptions::new()
            .profile("ros2")
            .library("det_post")
            .compression(compression)
            .compression_level(ZSTD_LEVEL)
            .compression_threads(0)
            .chunk_size(Some(CHUNK_BYTES))
            .create(BufWriter::new(file))
            .map_err(|error| write_error(&path, error))?;
        let directory = dir.to_owned();
        Ok(Self { directory, file_name, writer, topics: Vec::new(), span: None })
    }

    /// Declares a topic of CDR messages and gives its index for
    /// [`Self::write`]. `definition_text` is the message definition with all
    /// that it contains, in the concatenated form of `ros2msg` schemas.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Argument`] when the topic is declared already,
    /// [`ErrorKind::Io`] when the system refuses.
    pub fn add_topic(
        &mut self,
        name: &str,
        type_name: &str,
        definition_text: &str,
        qos: OfferedQos,
    ) -> Result<usize> {
        if self.topics.iter().any(|topic| topic.metadata.name == name) {
            let message = format!("topic {name} is declared twice");
            return Err(Error::new(ErrorKind::Argument, "bag", message));
        }
        let qos = qos.to_yaml();
        let options = BTreeMap::from([("offered_qos_profiles".to_owned(), qos.clone())]);
        let channel = self
            .writer
            .add_schema(type_name, "ros2msg", definition_text.as_bytes())
            .and_then(|schema| self.writer.add_channel(schema, name, "cdr", &options))
            .map_err(|error| write_error(&self.path(), error))?;
        let metadata = TopicMetadata {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            serialization_format: "cdr".to_owned(),
            offered_qos_profiles: qos,
        };
        self.topics.push(Topic { channel, num_messages: 0, metadata });
        Ok(self.topics.len() - 1)
    }

    /// Appends one serialized message with its encapsulation header. Log
    /// times need not rise, readers sort by them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Argument`] for an index that [`Self::add_topic`] did not
    /// give, [`ErrorKind::Time`] as of [`check_log_time`], [`ErrorKind::Io`]
    /// when the system refuses.
    pub fn write(&mut self, topic: usize, log_time: Stamp, data: &[u8]) -> Result<()> {
        let time = check_log_time(log_time)?;
        let nanos = log_time.nanos();
        let num_topics = self.topics.len();
        let Some(topic) = self.topics.get_mut(topic) else {
            let message = format!("topic {topic} is not one of the {num_topics} declared");
            return Err(Error::new(ErrorKind::Argument, "bag", message));
        };
        let header = MessageHeader {
            channel_id: topic.channel,
            sequence: topic.num_messages as u32,
            log_time: time,
            publish_time: time,
        };
        topic.num_messages += 1;
        let (first, last) = self.span.unwrap_or((nanos, nanos));
        self.span = Some((first.min(nanos), last.max(nanos)));
        self.writer
            .write_to_known_channel(&header, data)
            .map_err(|error| write_error(&self.path(), error))
    }

    /// Closes the file and writes `metadata.yaml`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] when the system refuses.
    pub fn finish(mut self) -> Result<()> {
        let path = self.path();
        let (document, metadata) = self.contents_page().document()?;
        let record = MetadataRecord {
            name: "rosbag2".to_owned(),
            metadata: BTreeMap::from([("serialized_metadata".to_owned(), metadata.value()?)]),
        };
        self.writer
            .write_metadata(&record)
            .and_then(|()| self.writer.finish())
            .map_err(|error| write_error(&path, error))?;
        // Dropping a buffer would hide that the disk is full.
        self.writer
            .into_inner()
            .into_inner()
            .map_err(|error| io_error("write", &path, error.into_error()))?;
        let page = self.directory.join(metadata::FILE_NAME);
        std::fs::write(&page, document).map_err(|error| io_error("write", &page, error))
    }

    fn path(&self) -> PathBuf {
        self.directory.join(&self.file_name)
    }

    fn contents_page(&mut self) -> Metadata {
        let message_count = self.topics.iter().map(|topic| topic.num_messages).sum();
        let (first, last) = self.span.unwrap_or_default();
        let starting_time = SinceEpoch { nanoseconds_since_epoch: first };
        let duration = Nanoseconds { nanoseconds: last - first };
        let count = |topic: Topic| TopicCount {
            topic_metadata: topic.metadata,
            message_count: topic.num_messages,
        };
        Metadata {
            version: 5,
            storage_identifier: "mcap".to_owned(),
            duration: Some(duration),
            starting_time: Some(starting_time),
            message_count,
            topics_with_message_count: self.topics.drain(..).map(count).collect(),
            compression_format: String::new(),
            compression_mode: String::new(),
            relative_file_paths: vec![self.file_name.clone()],
            files: vec![FileSpan {
                path: self.file_name.clone(),
                starting_time,
                duration,
                message_count,
            }],
        }
    }
}

/// A log time as MCAP stores it, nanoseconds since 1970 without a sign.
///
/// # Errors
///
/// [`ErrorKind::Time`] for a time before 1970, which readers of SQLite
/// recordings can meet and no MCAP file can hold.
pub fn check_log_time(log_time: Stamp) -> Result<u64> {
    u64::try_from(log_time.nanos()).map_err(|_| {
        let message = format!("log time {log_time} s is before 1970");
        Error::new(ErrorKind::Time, "bag", message)
    })
}

fn write_error(path: &Path, error: McapError) -> Error {
    match error {
        // `McapError` does not show the system's reason.
        McapError::Io(reason) => io_error("write", path, reason),
        other => {
            let message = format!("cannot write {}", path.display());
            Error::new(ErrorKind::Io, "bag", message).with_source(other)
        }
    }
}
