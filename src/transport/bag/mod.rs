//! Recordings: reading rosbag2 bags and writing them.
//!
//! [`BagReader`] opens a rosbag2 directory (`metadata.yaml` and any number of
//! files), a single MCAP file (chunks uncompressed, lz4 or zstd; with and
//! without index) or a single sqlite3 file (`.db3`). What a file is, its
//! first bytes tell, not its name.
//!
//! **Order.** Messages of all files come merged by log time; equal times by
//! the order of the files and then by position (the row identifier in
//! sqlite3). A file without a readable index (truncated, or written without
//! chunks) is read by position, messages within a chunk by log time; its next
//! message then takes part in the merge as it stands. The same bag gives the
//! same sequence every time.
//!
//! **Payloads** are lent until the next call. Those of uncompressed MCAP are
//! slices of the mapped file, untouched by this code; compressed chunks and
//! sqlite3 rows stand in buffers that are used again.
//!
//! **Checksums** of compressed chunks are checked where they are recorded.
//! Those of uncompressed chunks are not: reading every payload for its
//! checksum takes longer than copying the recording once, and reading here is
//! to cost at most that. A bit that flipped in such a payload is delivered as
//! it stands in the file. The records around the payloads are always checked
//! for their lengths, channels and places.
//!
//! **Damage.** Everything readable before the damage of a file is delivered,
//! then [`BagReader::next_message`] returns one error of kind
//! [`ErrorKind::DamagedBag`] that names file, place, what was found and how
//! many messages of the file came before; reading goes on with the other
//! files. Files that are missing or unreadable as a whole are reported after
//! everything else. A missing or damaged index alone is no damage. No length
//! is believed: nothing is allocated for a claim, and a chunk may hold at
//! most 1 GiB. Of a file that was cut only whole messages come: those of MCAP
//! whose record is whole, those of sqlite3 whose pages are all there, up to
//! the first row that lacks one.
//!
//! **Not read:** recordings compressed by file or by message (`ros2 bag
//! record --compression-mode`), which are refused by name, and the checksum
//! over the whole data section of an MCAP file.
//!
//! [`BagWriter`] writes a rosbag2 directory with one MCAP file.

mod chunk;
mod cut;
mod db3;
mod files;
mod mapped;
mod mcap;
mod metadata;
mod part;
mod record;
mod source;
mod summary;
mod walk;
mod write;

use std::path::Path;
use std::time::Duration;

use self::files::Files;
use self::metadata::Metadata;
use self::source::{Head, Source};
pub use self::write::{BagCompression, BagWriter, Durability, OfferedQos, Reliability};
use crate::error::{Error, ErrorKind, Result};
use crate::types::Stamp;

/// A topic of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// Full name, `/sensing/camera/image_raw`.
    pub name: String,
    /// Type of its messages, `sensor_msgs/msg/Image`.
    pub type_name: String,
    /// How they are serialized, `cdr`.
    pub serialization: String,
    /// How many there are: as `metadata.yaml` declares, else as the files
    /// declare or as counted in files without index. A damaged recording can
    /// deliver fewer.
    pub num_messages: Option<u64>,
    /// The QoS profiles of its publishers as YAML text, empty when not
    /// recorded.
    pub offered_qos: String,
}

/// One message, lent by the reader until its next call.
#[derive(Clone, Copy, Debug)]
pub struct BagMessage<'a> {
    /// Index into [`BagReader::topics`].
    pub topic: usize,
    /// When the recorder received the message.
    pub log_time: Stamp,
    /// The serialized message with its encapsulation header.
    pub data: &'a [u8],
}

/// A reader of one recording; the module head states what it promises.
pub struct BagReader {
    topics: Vec<TopicInfo>,
    wanted: Vec<bool>,
    /// First and last log time as declared.
    span: Option<(Stamp, Stamp)>,
    sources: Vec<Source>,
    /// The source whose message is lent out.
    lent: Option<usize>,
    /// Files that are lost as a whole, to be reported last; the next at the
    /// end.
    lost: Vec<Error>,
    damage: Option<Error>,
}

impl BagReader {
    /// Opens the recording at `path`: a directory or a single file. A
    /// directory without `metadata.yaml` is read as all its `.mcap` and
    /// `.db3` files in the order of their names.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] when `path` cannot be read, [`ErrorKind::Encoding`]
    /// when the recording is compressed by file or by message,
    /// [`ErrorKind::DamagedBag`] when nothing of it is readable (empty,
    /// no recording, all files missing). Anything less is delivered first
    /// and reported by [`Self::next_message`].
    pub fn open(path: &Path) -> Result<Self> {
        let Files { metadata, paths, mut lost } = Files::of(path)?;
        let mut sources = Vec::new();
        for file in &paths {
            match Source::open(file) {
                Ok(source) => sources.push(source),
                Err(error) if error.kind() == ErrorKind::Encoding => return Err(error),
                Err(error) => lost.push(error),
            }
        }
        lost.reverse();
        if sources.is_empty() {
            return Err(lost.pop().unwrap_or_else(|| {
                damaged(format!("{} names no file of a recording", path.display()))
            }));
        }
        let mut topics = merge_topics(&mut sources, metadata.as_ref());
        if let Some(metadata) = &metadata {
            declare(&mut topics, metadata);
        }
        let wanted = vec![true; topics.len()];
        let span = metadata.as_ref().and_then(declared_span).or_else(|| span_of(&sources));
        Ok(Self { topics, wanted, span, sources, lent: None, lost, damage: None })
    }

    /// The topics, sorted by name and then by type.
    pub fn topics(&self) -> &[TopicInfo] {
        &self.topics
    }

    /// Delivers only the topics with these names; names that the recording
    /// does not have are ignored. Call it before the first message is taken:
    /// later it takes hold from the next chunk on. Chunks without a selected
    /// topic are not opened where the index tells, so damage in them goes
    /// unseen.
    pub fn select(&mut self, wanted: &[&str]) {
        for (is_wanted, topic) in self.wanted.iter_mut().zip(&self.topics) {
            *is_wanted = wanted.contains(&topic.name.as_str());
        }
        for source in &mut self.sources {
            let is_wanted = |topic: &usize| self.wanted.get(*topic) == Some(&true);
            source.select(source.topic_of.iter().map(is_wanted).collect());
        }
    }

    /// How many messages the selected topics have, as
    /// [`TopicInfo::num_messages`] counts them; `None` when one is unknown.
    pub fn num_messages(&self) -> Option<u64> {
        let selected = self.topics.iter().zip(&self.wanted).filter(|(_, wanted)| **wanted);
        selected
            .map(|(topic, _)| topic.num_messages)
            .try_fold(0u64, |sum, num| Some(sum.saturating_add(num?)))
    }

    /// Log time of the first message as declared; `None` when there is none.
    pub fn start_time(&self) -> Option<Stamp> {
        self.span.map(|(first, _)| first)
    }

    /// Time from the first message to the last as declared.
    pub fn duration(&self) -> Option<Duration> {
        let (first, last) = self.span?;
        let nanos = last.nanos().checked_sub(first.nanos())?;
        u64::try_from(nanos).ok().map(Duration::from_nanos)
    }

    /// The next message, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Each damage once, with the kind [`ErrorKind::DamagedBag`] (or
    /// [`ErrorKind::Io`] for a file that the system refuses); calling again
    /// goes on with what is left.
    pub fn next_message(&mut self) -> Result<Option<BagMessage<'_>>> {
        if let Some(source) = self.lent.take().and_then(|at| self.sources.get_mut(at)) {
            source.advance();
        }
        let (at, log_time) = loop {
            if let Some(ended) = self.sources.iter().position(Source::is_at_end) {
                if let Some(error) = self.sources.remove(ended).into_damage() {
                    return Err(self.report(error));
                }
                continue;
            }
            let heads = self.sources.iter_mut().enumerate();
            match heads.min_by_key(|(at, source)| (source.not_before(), *at)) {
                None => match self.lost.pop() {
                    Some(error) => return Err(self.report(error)),
                    None => return Ok(None),
                },
                Some((at, source)) => match source.head() {
                    Head::Ready(log_time) => break (at, log_time),
                    Head::NotBefore(_) | Head::End => source.load(),
                },
            }
        };
        self.lent = Some(at);
        let Some(source) = self.sources.get_mut(at) else { return Ok(None) };
        source.num_delivered += 1;
        Ok(source.message().map(|(topic, data)| BagMessage { topic, log_time, data }))
    }

    /// The first error that [`Self::next_message`] returned.
    pub fn damage(&self) -> Option<&Error> {
        self.damage.as_ref()
    }

    /// Keeps a copy of the first error and hands the error on.
    fn report(&mut self, error: Error) -> Error {
        if self.damage.is_none() {
            self.damage = Some(Error::new(error.kind(), error.stage(), full_message(&error)));
        }
        error
    }
}

fn damaged(message: String) -> Error {
    Error::new(ErrorKind::DamagedBag, "bag", message)
}

/// Message and cause as one text.
fn full_message(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{}: {source}", error.message()),
        None => error.message().to_owned(),
    }
}

/// All topics of the files and of the contents page, with the counts of the
/// files; fills in where each file has them.
fn merge_topics(sources: &mut [Source], metadata: Option<&Metadata>) -> Vec<TopicInfo> {
    let declared = metadata.map(|metadata| metadata.topics_with_message_count.as_slice());
    let declared = declared.unwrap_or_default().iter().map(|topic| TopicInfo {
        name: topic.topic_metadata.name.clone(),
        type_name: topic.topic_metadata.type_name.clone(),
        serialization: topic.topic_metadata.serialization_format.clone(),
        num_messages: Some(0),
        offered_qos: topic.topic_metadata.offered_qos_profiles.clone(),
    });
    let found = sources.iter().flat_map(|source| source.topics().iter().cloned());
    let mut topics: Vec<TopicInfo> = Vec::new();
    let mut all: Vec<TopicInfo> = found.chain(declared).collect();
    // Stable, so that of equal topics the first file speaks first.
    all.sort_by(|a, b| key(a).cmp(&key(b)));
    for topic in all {
        match topics.last_mut() {
            Some(last) if key(last) == key(&topic) => {
                let sum = last.num_messages.zip(topic.num_messages);
                last.num_messages = sum.map(|(a, b)| a.saturating_add(b));
                if last.offered_qos.is_empty() {
                    last.offered_qos = topic.offered_qos;
                }
            }
            _ => topics.push(topic),
        }
    }
    for source in sources {
        let index =
            |topic: &TopicInfo| topics.binary_search_by(|other| key(other).cmp(&key(topic)));
        source.topic_of =
            source.topics().iter().map(|topic| index(topic).unwrap_or(usize::MAX)).collect();
    }
    topics
}

fn key(topic: &TopicInfo) -> (&str, &str) {
    (&topic.name, &topic.type_name)
}

/// Takes the counts of the contents page.
fn declare(topics: &mut [TopicInfo], metadata: &Metadata) {
    for declared in &metadata.topics_with_message_count {
        let wanted =
            (declared.topic_metadata.name.as_str(), declared.topic_metadata.type_name.as_str());
        if let Ok(at) = topics.binary_search_by(|topic| key(topic).cmp(&wanted))
            && let Some(topic) = topics.get_mut(at)
        {
            topic.num_messages = Some(declared.message_count);
        }
    }
}

fn declared_span(metadata: &Metadata) -> Option<(Stamp, Stamp)> {
    let first = metadata.starting_time?.nanoseconds_since_epoch;
    let last = first.checked_add(metadata.duration?.nanoseconds)?;
    (metadata.message_count > 0).then(|| (Stamp::from_nanos(first), Stamp::from_nanos(last)))
}

fn span_of(sources: &[Source]) -> Option<(Stamp, Stamp)> {
    let spans = || sources.iter().filter_map(Source::span);
    spans().map(|(first, _)| first).min().zip(spans().map(|(_, last)| last).max())
}
