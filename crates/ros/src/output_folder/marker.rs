//! The marker of an output folder: the list of the files that det_post wrote there, and the
//! lock that one process at a time holds.
//!
//! `.det_post.jsonl` holds one JSON object a line: first a head that names the
//! program, then one line for each file. A line that does not parse (a write
//! that a power failure cut) lists nothing, so its file is never touched.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use det_post_types::{Error, ErrorKind, Result, input_file};

/// Name of the marker in its folder.
pub(super) const FILE_NAME: &str = ".det_post.jsonl";
/// First line of every marker.
const HEAD: &str =
    r#"{"det_post":1,"note":"det_post replaces the files of this list and no others"}"#;
/// Interval at which a lock is tried again.
const POLL: Duration = Duration::from_millis(50);
/// The longest list that is read.
const MAX_BYTES: u64 = 64 << 20;

/// The files that a marker lists, by their paths below the folder.
#[derive(Default)]
pub(super) struct Listed(BTreeMap<String, Vec<Option<FileState>>>);

/// Identifies the state of a file: a file that was edited or replaced since it was listed
/// differs in size or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileState {
    bytes: u64,
    /// Seconds and nanoseconds of the last modification.
    modified: [i64; 2],
}

impl FileState {
    fn of(about: &Metadata) -> Self {
        Self { bytes: about.len(), modified: [about.mtime(), about.mtime_nsec()] }
    }
}

/// A line of the list.
#[derive(Serialize, Deserialize)]
struct Entry {
    file: String,
    /// `None` while the file is being written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<FileState>,
}

impl Listed {
    /// Whether no file is listed.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a file of this path was ever listed.
    pub(super) fn names(&self, file: &str) -> bool {
        self.0.contains_key(file)
    }

    /// Whether the file is listed in this state: its size and time are those of one of its
    /// entries, or its only entry was never completed.
    pub(super) fn holds(&self, file: &str, about: &Metadata) -> bool {
        let Some(states) = self.0.get(file) else { return false };
        let mut complete = states.iter().flatten().peekable();
        complete.peek().is_none() || complete.any(|state| *state == FileState::of(about))
    }

    /// What the marker of a folder lists; nothing where there is none that can be read.
    pub(super) fn of_folder(folder: &Path) -> Self {
        let path = folder.join(FILE_NAME);
        // A link is refused when the marker is opened.
        let is_file = fs::symlink_metadata(&path).is_ok_and(|about| about.is_file());
        let text = is_file.then(|| input_file::read_text(&path, MAX_BYTES as usize).ok()).flatten();
        Self::parse(&text.unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut listed = Self::default();
        let entries = text.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok());
        entries.for_each(|entry| listed.add(entry));
        listed
    }

    fn add(&mut self, entry: Entry) {
        self.0.entry(entry.file).or_default().push(entry.state);
    }

    fn text(&self) -> Result<String> {
        let mut text = format!("{HEAD}\n");
        for (file, states) in &self.0 {
            for &state in states {
                text += &line(&Entry { file: file.clone(), state })?;
            }
        }
        Ok(text)
    }
}

/// The marker of a folder, open and locked until it is dropped or the process ends.
pub(super) struct Marker {
    path: PathBuf,
    file: File,
    listed: Listed,
}

impl Marker {
    /// Opens and locks the marker of a folder; creates an empty one where there is none.
    ///
    /// # Errors
    /// `Io` when another process holds the lock or the system refuses, `Usage`
    /// when another file has the marker's name.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        Self::open_within(folder, Duration::ZERO)
    }

    /// As [`Self::open`], once another process that holds the lock has released it, for which
    /// this waits up to `patience`.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub(super) fn open_within(folder: &Path, patience: Duration) -> Result<Self> {
        let end = Instant::now() + patience;
        loop {
            match Self::try_open(folder)? {
                Some(marker) => return Ok(marker),
                None if Instant::now() < end => std::thread::sleep(POLL),
                None => {
                    let message = format!("another det_post is writing to {}", folder.display());
                    return Err(Error::new(ErrorKind::Io, "outputs", message));
                }
            }
        }
    }

    /// The marker, or `None` while another process holds the lock.
    fn try_open(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE_NAME);
        let open = |e: std::io::Error| cannot("open", &path).with_source(e);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            // Follows no link and does not wait for the other end of a pipe.
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path)
            .map_err(open)?;
        if !file.metadata().map_err(open)?.is_file() {
            return Err(foreign(&path));
        }
        if !lock(&file, &path)? {
            return Ok(None);
        }
        // The process that held the lock may have removed the marker meanwhile.
        let ino = file.metadata().map_err(open)?.ino();
        if !fs::symlink_metadata(&path).is_ok_and(|named| named.ino() == ino) {
            return Ok(None);
        }
        let mut text = String::new();
        (&mut file).take(MAX_BYTES).read_to_string(&mut text).map_err(open)?;
        if !text.is_empty() && text.lines().next() != Some(HEAD) {
            return Err(foreign(&path));
        }
        let listed = Listed::parse(&text);
        Ok(Some(Self { path, file, listed }))
    }

    /// The files that the marker lists.
    pub(super) fn listed(&self) -> &Listed {
        &self.listed
    }

    /// Lists a file that is about to be written, or, given its metadata, in its present state.
    ///
    /// # Errors
    /// `Io` when the marker cannot be written.
    pub(super) fn list(&mut self, file: &str, about: Option<&Metadata>) -> Result<()> {
        let entry = Entry { file: file.to_owned(), state: about.map(FileState::of) };
        let text = line(&entry)?;
        self.file
            .seek(SeekFrom::End(0))
            .and_then(|_| self.file.write_all(text.as_bytes()))
            .map_err(|e| cannot("write", &self.path).with_source(e))?;
        self.listed.add(entry);
        Ok(())
    }

    /// Rewrites the list: removes files that no longer exist, and the other entries of files
    /// that are in a listed state.
    ///
    /// # Errors
    /// `Io` when the marker cannot be written.
    pub(super) fn compact(&mut self) -> Result<()> {
        let folder = self.path.with_file_name("");
        self.listed.0.retain(|file, states| {
            let Ok(about) = fs::symlink_metadata(folder.join(file)) else { return false };
            let state = Some(FileState::of(&about));
            if states.contains(&state) {
                *states = vec![state];
            }
            true
        });
        let text = self.listed.text()?;
        self.file
            .rewind()
            .and_then(|()| self.file.write_all(text.as_bytes()))
            .and_then(|()| self.file.set_len(text.len() as u64))
            .map_err(|e| cannot("write", &self.path).with_source(e))?;
        self.sync()
    }

    /// Synchronizes the list to the disk.
    ///
    /// # Errors
    /// `Io` when the system refuses.
    pub(super) fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|e| cannot("write", &self.path).with_source(e))
    }
}

fn line(entry: &Entry) -> Result<String> {
    serde_json::to_string(entry).map(|text| text + "\n").map_err(|e| {
        Error::new(ErrorKind::Io, "outputs", format!("cannot list {}", entry.file)).with_source(e)
    })
}

/// Locks the marker; whether no other process holds the lock.
fn lock(file: &File, path: &Path) -> Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        // Some network file systems have no locks.
        Err(TryLockError::Error(error)) if error.kind() == std::io::ErrorKind::Unsupported => {
            tracing::warn!("{} cannot be locked: {error}", path.display());
            Ok(true)
        }
        Err(TryLockError::Error(error)) => Err(cannot("lock", path).with_source(error)),
    }
}

fn foreign(path: &Path) -> Error {
    let message = format!(
        "{} is not a marker of det_post, although it has its name: move it away or choose \
         another folder",
        path.display()
    );
    Error::new(ErrorKind::Usage, "outputs", message)
}

/// An error of the system for a path.
pub(super) fn cannot(verb: &str, path: &Path) -> Error {
    Error::new(ErrorKind::Io, "outputs", format!("cannot {verb} {}", path.display()))
}
