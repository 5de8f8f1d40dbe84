//! Recordings: reading rosbag2 bags and writing them.
//!
//! [`BagReader`] opens a rosbag2 directory (`metadata.yaml` and any number of
//! files), a single MCAP file (chunks uncompressed, lz4 or zstd; with and
//! without index) or a single sqlite3 file (`.db3`). The first bytes of a file
//! determine its format, not its name.
//!
//! **Order.** Messages of all files are merged by log time; equal times are in the
//! order of the files and then of the positions (row identifiers in sqlite3). A
//! file without a readable index (truncated, or written without chunks) is read in
//! the order of positions, messages within a chunk in that of log times; the merge
//! takes its messages in that order. The sequence of a bag is reproducible.
//!
//! **Payloads** are borrowed until the next call. Those of uncompressed MCAP are
//! slices of the mapped file, without a copy; those of compressed chunks and
//! sqlite3 rows are in reused buffers.
//!
//! **Checksums** of compressed chunks are checked if they are recorded. Those of
//! uncompressed chunks are not: computing them takes longer than copying the
//! recording, which is the limit for reading. A flipped bit in such a payload is
//! delivered. The records around the payloads are always checked for their
//! lengths, channels and positions.
//!
//! **Damage.** Everything readable before the damage of a file is delivered. Then
//! [`BagReader::next_message`] returns one error of kind
//! [`ErrorKind::DamagedBag`] that names the file, the position, what was found and
//! the number of messages of the file before it; reading continues with the other
//! files. Files that are missing or entirely unreadable are reported last. A
//! missing or damaged index by itself is not damage. No memory is allocated for an
//! unchecked length. Of a truncated file only whole messages are delivered: of
//! MCAP those whose record is complete, of sqlite3 those before the first row with
//! a missing page. An MCAP file that is truncated while it is read ends there, with its
//! damage; the message that is being read at that moment may contain zeros.
//!
//! **Trust.** Recordings are not trusted. Only regular files inside the
//! directory are opened, each once; the messages and topics of sqlite3 files must
//! be in plain tables. The memory of readers is bounded by a [`MemoryBudget`] that
//! all readers of the process share. A chunk or payload that exceeds it waits while
//! other messages are delivered, which may then precede earlier ones; when nothing
//! else is left, it is damage.
//!
//! **Not read:** recordings compressed by file or by message (`ros2 bag
//! record --compression-mode`), which are refused by name, unless `zstd -d` has
//! left the unpacked files beside those that are compressed; and the checksum
//! over the whole data section of an MCAP file.
//!
//! [`BagWriter`] writes a rosbag2 directory with one MCAP file.

mod budget;
mod chunk;
mod damage;
#[cfg(feature = "db3")]
mod db3;
mod files;
mod mapped;
mod mcap;
mod message;
mod metadata;
mod options;
mod part;
mod record;
mod source;
mod span;
mod summary;
mod time;
mod topic;
mod topics;
mod truncation;
mod walk;
mod write;
mod zstd_files;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::time::Duration;

pub use self::budget::MemoryBudget;
pub use self::damage::is_same_damage;
use self::damage::{damaged, full_message};
use self::files::Files;
pub use self::mapped::Mapped;
pub use self::message::BagMessage;
use self::metadata::Metadata;
pub use self::options::ReadOptions;
use self::source::Source;
pub use self::span::LogSpan;
use self::time::Head;
pub use self::topic::TopicInfo;
use self::topics::{declare, merge_topics};
pub use self::write::{
    BagCompression, BagWriter, Durability, OfferedQos, Reliability, check_log_time,
};
use det_post_types::{Error, ErrorKind, Result, Stamp};

/// A reader of one recording. See the module for order, damage and trust.
pub struct BagReader {
    topics: Vec<TopicInfo>,
    wanted: Vec<bool>,
    /// First and last log time as declared.
    span: Option<(Stamp, Stamp)>,
    /// The log times that are delivered.
    limits: LogSpan,
    /// The files in order; `None` for those that have ended.
    sources: Vec<Option<Source>>,
    /// The sources in the order of their next messages: a lower bound of the time of
    /// the next message, and the index. The borrowed source is not included.
    heads: BinaryHeap<Reverse<(Stamp, usize)>>,
    /// Sources set aside because the budget has no memory for them now.
    blocked: Vec<usize>,
    /// The source whose message is borrowed.
    borrowed: Option<usize>,
    /// Errors of files that are entirely lost, reported last, from the end on.
    lost: Vec<Error>,
    damage: Option<Error>,
}

impl BagReader {
    /// Opens the recording at `path`: a directory or a single file. Of a
    /// directory without `metadata.yaml` all `.mcap` and `.db3` files are read in
    /// the order of their names.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] when `path` cannot be read, [`ErrorKind::Encoding`]
    /// when the recording is compressed by file or by message,
    /// [`ErrorKind::Usage`] when it is no recording by name and contents,
    /// [`ErrorKind::DamagedBag`] when nothing of it is readable (empty, its
    /// first bytes lost, all files missing). Other damage is reported by
    /// [`Self::next_message`] after the readable messages.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, &ReadOptions::default())
    }

    /// As [`Self::open`], with options.
    ///
    /// # Errors
    ///
    /// As [`Self::open`], and [`ErrorKind::Interrupted`] when
    /// [`ReadOptions::stop`] ended it.
    pub fn open_with(path: &Path, options: &ReadOptions) -> Result<Self> {
        let Files { metadata, paths, mut lost } = Files::of(path)?;
        let mut sources = Vec::new();
        for file in &paths {
            match Source::open(file, options) {
                Ok(source) => sources.push(source),
                Err(error)
                    if matches!(error.kind(), ErrorKind::Encoding | ErrorKind::Interrupted) =>
                {
                    return Err(error);
                }
                Err(error) => lost.push(error),
            }
        }
        lost.reverse();
        if sources.is_empty() {
            return Err(lost.pop().unwrap_or_else(|| match metadata {
                Some(_) => damaged(format!("{} names no file of a recording", path.display())),
                None => {
                    let message = format!(
                        "{} is not a recording: it has no metadata.yaml, .mcap or .db3 file{}",
                        path.display(),
                        files::recordings_below(path)
                    );
                    Error::new(ErrorKind::Usage, "bag", message)
                }
            }));
        }
        let mut topics = merge_topics(&mut sources, metadata.as_ref());
        if let Some(metadata) = &metadata {
            declare(&mut topics, metadata);
        }
        let wanted = vec![true; topics.len()];
        let span = metadata.as_ref().and_then(declared_span).or_else(|| span_of(&sources));
        let heads = sources.iter().enumerate();
        let heads = heads.map(|(at, source)| Reverse((source.not_before(), at))).collect();
        Ok(Self {
            topics,
            wanted,
            span,
            limits: LogSpan::default(),
            sources: sources.into_iter().map(Some).collect(),
            heads,
            blocked: Vec::new(),
            borrowed: None,
            lost,
            damage: None,
        })
    }

    /// Another reader of the recording, from the start, with the same selection and limits: it
    /// delivers the same messages, of the same mapped files. `None` where one of these is no
    /// MCAP file, has no index, has compressed chunks or has ended. Files that are entirely lost
    /// are reported only by this reader.
    pub fn reopen(&self) -> Option<Self> {
        let of = |source: &Option<Source>| source.as_ref()?.reopen().map(Some);
        let mut reopened = Self {
            topics: self.topics.clone(),
            wanted: self.wanted.clone(),
            span: self.span,
            limits: self.limits,
            sources: self.sources.iter().map(of).collect::<Option<_>>()?,
            heads: BinaryHeap::new(),
            blocked: Vec::new(),
            borrowed: None,
            lost: Vec::new(),
            damage: None,
        };
        reopened.queue_all();
        Some(reopened)
    }

    /// The topics, sorted by name, then by type, then by serialization. Names without a leading
    /// slash have one here.
    pub fn topics(&self) -> &[TopicInfo] {
        &self.topics
    }

    /// Delivers only the topics with these names; names that the recording
    /// does not have are ignored. After the first message it takes effect with the
    /// next chunk. Chunks without a selected topic are skipped if they are indexed,
    /// so damage in them is not detected.
    pub fn select(&mut self, wanted: &[&str]) {
        self.end_loan();
        for (is_wanted, topic) in self.wanted.iter_mut().zip(&self.topics) {
            *is_wanted = wanted.contains(&topic.name.as_str());
        }
        for source in self.sources.iter_mut().flatten() {
            let is_wanted = |topic: &usize| self.wanted.get(*topic) == Some(&true);
            source.select(source.topic_of.iter().map(is_wanted).collect());
        }
        self.queue_all();
    }

    /// Delivers only messages with these log times, with the effect on a reader in use as of
    /// [`Self::select`]. Chunks of other times are skipped if they are indexed, so damage in
    /// them is not detected.
    pub fn limit(&mut self, limits: LogSpan) {
        self.end_loan();
        self.limits = limits;
        self.sources.iter_mut().flatten().for_each(|source| source.limit(limits));
        self.queue_all();
    }

    /// The mapped files, in the order of the recording: payloads of uncompressed MCAP are
    /// slices of them. Those of sqlite3 are not mapped.
    pub fn mapped_files(&self) -> Vec<Mapped> {
        self.sources.iter().flatten().filter_map(Source::mapped).cloned().collect()
    }

    /// Number of messages of the selected topics by [`TopicInfo::num_messages`];
    /// `None` when one is unknown, or when the log times are limited.
    pub fn num_messages(&self) -> Option<u64> {
        if !self.limits.is_unbounded() {
            return None;
        }
        let selected = self.topics.iter().zip(&self.wanted).filter(|(_, wanted)| **wanted);
        selected
            .map(|(topic, _)| topic.num_messages)
            .try_fold(0u64, |sum, num| Some(sum.saturating_add(num?)))
    }

    /// Declared log time of the first message, if there is one.
    pub fn start_time(&self) -> Option<Stamp> {
        self.span.map(|(first, _)| first)
    }

    /// Declared time from the first message to the last.
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
    /// [`ErrorKind::Io`] for a file that the system refuses). The next call
    /// continues with the remaining messages.
    pub fn next_message(&mut self) -> Result<Option<BagMessage<'_>>> {
        self.end_loan();
        let found = self.find_next();
        for at in std::mem::take(&mut self.blocked) {
            self.queue(at);
        }
        let (at, log_time) = match found {
            Ok(Some(found)) => found,
            Ok(None) => match self.lost.pop() {
                Some(error) => return Err(self.report(error)),
                None => return Ok(None),
            },
            Err(error) => return Err(self.report(error)),
        };
        self.borrowed = Some(at);
        let Some(source) = self.source(at) else { return Ok(None) };
        source.num_delivered += 1;
        let message = source.message();
        let file = source.mapped();
        Ok(message.map(|(topic, data)| BagMessage { topic, log_time, data, file }))
    }

    /// Removes the source of the earliest message from the queue; `None` when all
    /// have ended.
    fn find_next(&mut self) -> Result<Option<(usize, Stamp)>> {
        loop {
            let Some(Reverse((_, at))) = self.heads.pop() else {
                // No message is left whose delivery would release memory.
                if self.blocked.is_empty() {
                    return Ok(None);
                }
                let at = self.blocked.remove(0);
                self.sources.iter_mut().flatten().for_each(Source::release_spare);
                if let Some(source) = self.source(at)
                    && matches!(source.head(), Head::Blocked(_))
                {
                    source.refuse_blocked();
                }
                self.queue(at);
                continue;
            };
            let Some(source) = self.source(at) else { continue };
            match source.head() {
                Head::Ready(log_time) if source.is_whole() => return Ok(Some((at, log_time))),
                // It has ended there.
                Head::Ready(_) => self.queue(at),
                Head::NotBefore(_) => {
                    source.load();
                    self.queue(at);
                }
                Head::Blocked(_) => self.blocked.push(at),
                Head::End => {
                    let ended = self.sources.get_mut(at).and_then(Option::take);
                    if let Some(error) = ended.and_then(Source::into_damage) {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn source(&mut self, at: usize) -> Option<&mut Source> {
        self.sources.get_mut(at)?.as_mut()
    }

    /// Drops the borrowed message, and queues its source at its next one. Comes before whatever
    /// moves a source to another message, which would be dropped in its place.
    fn end_loan(&mut self) {
        if let Some(at) = self.borrowed.take()
            && let Some(source) = self.source(at)
        {
            source.advance();
            self.queue(at);
        }
    }

    /// Queues all sources again, none of which is borrowed.
    fn queue_all(&mut self) {
        self.heads.clear();
        (0..self.sources.len()).for_each(|at| self.queue(at));
    }

    /// Inserts a source into the queue at its position.
    fn queue(&mut self, at: usize) {
        if let Some(source) = self.source(at) {
            let head = (source.not_before(), at);
            self.heads.push(Reverse(head));
        }
    }

    /// The first error that [`Self::next_message`] returned.
    pub fn damage(&self) -> Option<&Error> {
        self.damage.as_ref()
    }

    /// Keeps a copy of the first error and returns the error.
    fn report(&mut self, error: Error) -> Error {
        if self.damage.is_none() {
            self.damage = Some(Error::new(error.kind(), error.stage(), full_message(&error)));
        }
        error
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
