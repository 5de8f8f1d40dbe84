//! One file of a recording in any format.

use std::io::Read;
use std::path::Path;

use super::damage::damaged;
#[cfg(feature = "db3")]
use super::db3::Db3File;
use super::mapped::Mapped;
use super::mcap::McapFile;
use super::metadata::io_error;
use super::options::ReadOptions;
use super::record;
use super::span::LogSpan;
use super::time::Head;
use super::topic::{ROS_1_ADVICE, TopicInfo};
use super::zstd_files::{compressed_file, packing};
use det_post_types::{Error, ErrorKind, Result, Stamp, input_file};

/// One readable file of the recording.
pub(super) struct Source {
    name: String,
    storage: Storage,
    /// The index in the recording of each topic of the file.
    pub(super) topic_of: Vec<usize>,
    pub(super) num_delivered: u64,
}

enum Storage {
    Mcap(McapFile),
    #[cfg(feature = "db3")]
    Db3(Db3File),
}

/// The sixteen bytes at the start of a sqlite3 database.
const SQLITE_MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Evaluates one expression for the file of either storage.
macro_rules! with_file {
    ($storage:expr, $file:ident => $value:expr) => {
        match $storage {
            Storage::Mcap($file) => $value,
            #[cfg(feature = "db3")]
            Storage::Db3($file) => $value,
        }
    };
}

impl Source {
    /// Opens a file in the format of its first bytes.
    pub(super) fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        let mut start = Vec::new();
        match input_file::open(path) {
            Ok(file) => file
                .take(SQLITE_MAGIC.len() as u64)
                .read_to_end(&mut start)
                .map_err(|error| io_error("read", path, error))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(damaged(format!("{} is missing", path.display())));
            }
            Err(error) => return Err(io_error("open", path, error)),
        };
        let storage = if start.starts_with(record::MAGIC) {
            Storage::Mcap(McapFile::open(Mapped::open(path)?, options))
        } else if start.starts_with(SQLITE_MAGIC) {
            open_db3(path, options)?
        } else if let Some(packing) = packing(&start) {
            return Err(compressed_file(path, packing));
        } else if start.starts_with(b"version https://") {
            let message =
                format!("{} is a pointer of Git LFS; `git lfs pull` gets the file", path.display());
            return Err(Error::new(ErrorKind::Encoding, "bag", message));
        } else if start.starts_with(b"#ROSBAG V") {
            let message = format!("{} is a recording of ROS 1; {ROS_1_ADVICE}", path.display());
            return Err(Error::new(ErrorKind::Encoding, "bag", message));
        } else if start.is_empty() {
            return Err(damaged(format!("{} is empty (0 bytes)", path.display())));
        } else {
            let message = format!(
                "{} is not a recording: it starts with '{}', which is neither MCAP nor sqlite3",
                path.display(),
                start.escape_ascii()
            );
            // A file with the name of one may have lost its first bytes.
            let is_named_so = path.extension().is_some_and(|end| end == "mcap" || end == "db3");
            let kind = if is_named_so { ErrorKind::DamagedBag } else { ErrorKind::Usage };
            return Err(Error::new(kind, "bag", message));
        };
        if options.is_stopped() {
            let message = format!("stopped while opening {}", path.display());
            return Err(Error::new(ErrorKind::Interrupted, "bag", message));
        }
        Ok(Self {
            name: path.display().to_string(),
            storage,
            topic_of: Vec::new(),
            num_delivered: 0,
        })
    }

    /// Another reader of the mapped file, from the start; see [`McapFile::again`].
    pub(super) fn reopen(&self) -> Option<Self> {
        let storage = match &self.storage {
            Storage::Mcap(file) => Storage::Mcap(file.reopen()?),
            #[cfg(feature = "db3")]
            Storage::Db3(_) => return None,
        };
        let (name, topic_of) = (self.name.clone(), self.topic_of.clone());
        Some(Self { name, storage, topic_of, num_delivered: 0 })
    }

    /// The mapped file, of which payloads of uncompressed messages are slices.
    pub(super) fn mapped(&self) -> Option<&Mapped> {
        match &self.storage {
            Storage::Mcap(file) => Some(&file.map),
            #[cfg(feature = "db3")]
            Storage::Db3(_) => None,
        }
    }

    pub(super) fn topics(&self) -> &[TopicInfo] {
        with_file!(&self.storage, file => &file.topics)
    }

    pub(super) fn span(&self) -> Option<(Stamp, Stamp)> {
        with_file!(&self.storage, file => file.span)
    }

    pub(super) fn select(&mut self, wanted: Vec<bool>) {
        with_file!(&mut self.storage, file => file.select(wanted))
    }

    pub(super) fn limit(&mut self, limits: LogSpan) {
        with_file!(&mut self.storage, file => file.limit(limits))
    }

    pub(super) fn head(&self) -> Head {
        with_file!(&self.storage, file => file.head())
    }

    /// A lower bound of the time of the next message. Files that have ended are
    /// first.
    pub(super) fn not_before(&self) -> Stamp {
        match self.head() {
            Head::Ready(time) | Head::NotBefore(time) | Head::Blocked(time) => time,
            Head::End => Stamp::from_nanos(i64::MIN),
        }
    }

    /// Releases spare memory.
    pub(super) fn release_spare(&mut self) {
        with_file!(&mut self.storage, file => file.release_spare())
    }

    /// Ends a blocked file whose memory exceeds the budget.
    pub(super) fn refuse_blocked(&mut self) {
        with_file!(&mut self.storage, file => file.refuse_blocked())
    }

    /// Whether the message at a ready head can be read. If its file was shortened, the file
    /// ends with that damage.
    pub(super) fn is_whole(&mut self) -> bool {
        match &mut self.storage {
            Storage::Mcap(file) => file.is_whole(),
            #[cfg(feature = "db3")]
            Storage::Db3(_) => true,
        }
    }

    pub(super) fn load(&mut self) {
        with_file!(&mut self.storage, file => file.load())
    }

    pub(super) fn advance(&mut self) {
        with_file!(&mut self.storage, file => file.advance())
    }

    /// The message at a ready head: its topic in the recording, its payload.
    pub(super) fn message(&self) -> Option<(usize, &[u8])> {
        let (topic, data) = with_file!(&self.storage, file => file.message()?);
        Some((*self.topic_of.get(topic)?, data))
    }

    /// The error to report after all readable messages.
    pub(super) fn into_damage(self) -> Option<Error> {
        let damage = with_file!(self.storage, file => file.damage)?;
        Some(damage.into_error(&self.name, self.num_delivered))
    }
}

#[cfg(feature = "db3")]
fn open_db3(path: &Path, options: &ReadOptions) -> Result<Storage> {
    Ok(Storage::Db3(Db3File::open(path, options)?))
}

#[cfg(not(feature = "db3"))]
fn open_db3(path: &Path, _: &ReadOptions) -> Result<Storage> {
    let message = format!(
        "{} is a sqlite3 recording; this build reads only MCAP (it lacks the feature db3)",
        path.display()
    );
    Err(Error::new(ErrorKind::Encoding, "bag", message))
}
