//! The folder to which a command writes its results.
//!
//! **Replacement.** Only files that det_post wrote in the folder and that no other program
//! has changed since are replaced: a marker lists them with size and time of modification.
//! Any other file of the same name is an error that names it, and stays. Symbolic links below
//! the folder are refused, never followed.
//!
//! **Completeness.** Files are written below `det_post.partial/`. When the command is done,
//! they are synchronized to the disk and moved to their names in the order in which they were
//! begun, after those of the previous run are removed. So the file that was begun last
//! (`report.json`, or `metadata.yaml` of a recording) exists only when all do. A run that is
//! interrupted or fails leaves its files in `det_post.partial/` and does not touch the results
//! of the previous run.
//!
//! **Exclusion.** The marker is locked while the folder is open; the lock ends with the process.

mod file;
mod marker;
pub mod owned;

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::bag::{BagCompression, BagWriter};
use det_post_types::{Error, ErrorKind, Result};
pub use file::{check_file, write_file};
use marker::{Listed, Marker, cannot};

/// Folder of the files that are not complete.
const PARTIAL: &str = "det_post.partial";

/// Held while results move to their names: an exit in between would leave some behind.
static MOVING: Mutex<()> = Mutex::new(());

/// Holds off the moves of results in this process; `None` while one is under way.
pub fn hold_off_moves() -> Option<std::sync::MutexGuard<'static, ()>> {
    use std::sync::TryLockError;

    match MOVING.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Which results of earlier runs a run removes.
#[derive(Clone, Copy)]
pub enum Replaces {
    /// All files of the folder, which may contain nothing but results.
    Everything,
    /// These files and, with a slash at the end, folders; the folder may contain others.
    These(&'static [&'static str]),
}

/// An output folder, locked; see the module documentation.
pub struct OutputFolder {
    folder: PathBuf,
    replaces: Replaces,
    marker: Marker,
    /// The files that were begun, in order, by their paths below the folder.
    files: Vec<String>,
}

impl OutputFolder {
    /// Creates and locks the folder, and removes the partial files of an earlier run. Complete
    /// results of earlier runs stay until [`Self::finish`].
    ///
    /// # Errors
    /// `Usage` naming a file that has the name of a result and was not written by det_post,
    /// `Io` naming the path when the system refuses or another process writes there.
    pub fn open(folder: &Path, replaces: Replaces) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|e| cannot("make", folder).with_source(e))?;
        if fs::symlink_metadata(folder.join(marker::FILE_NAME)).is_err() {
            // A folder that is refused gets no marker either.
            Contents { folder, listed: &Listed::default() }.replaced(replaces)?;
        }
        let marker = Marker::open(folder)?;
        let mut open = Self { folder: folder.to_owned(), replaces, marker, files: Vec::new() };
        open.contents().replaced(replaces)?;
        open.remove_partial()?;
        open.marker.compact()?;
        let partial = folder.join(PARTIAL);
        fs::create_dir(&partial).map_err(|e| cannot("make", &partial).with_source(e))?;
        Ok(open)
    }

    /// The last part of the folder's path, links resolved.
    ///
    /// # Errors
    /// `Usage` for a folder without a name in UTF-8, such as `/`.
    pub fn name(&self) -> Result<String> {
        let path = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        let name = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        name.ok_or_else(|| {
            let message = format!("'{}' does not name a folder in UTF-8", path.display());
            Error::new(ErrorKind::Usage, "outputs", message)
        })
    }

    /// Begins a file; `name` is its path below the folder. Returns the path to write to.
    ///
    /// # Errors
    /// `Usage` as of [`Self::open`], `Argument` for a path that leaves the folder or was begun
    /// before, `Io` when the system refuses.
    pub fn file(&mut self, name: &str) -> Result<PathBuf> {
        check_name(&self.folder, name)?;
        if self.files.iter().any(|begun| begun == name) {
            let message = format!("{name} is begun twice in {}", self.folder.display());
            return Err(Error::new(ErrorKind::Argument, "outputs", message));
        }
        self.contents().add_file(name, &mut BTreeSet::new())?;
        let path = self.path_of(name);
        make_parent(&path)?;
        self.marker.list(&format!("{PARTIAL}/{name}"), None)?;
        self.files.push(name.to_owned());
        Ok(path)
    }

    /// The path to which a file that was begun is written.
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.folder.join(PARTIAL).join(name)
    }

    /// Begins a file with all its contents.
    ///
    /// # Errors
    /// As of [`Self::file`].
    pub fn write(&mut self, name: &str, contents: &str) -> Result<()> {
        let path = self.file(name)?;
        fs::write(&path, contents).map_err(|e| cannot("write", &path).with_source(e))
    }

    /// Begins a recording: in a folder of that name below this one, or, without
    /// a name, as this folder.
    ///
    /// # Errors
    /// As of [`Self::file`].
    pub fn recording(&mut self, below: Option<&str>) -> Result<BagWriter> {
        let (name, prefix) = match below {
            Some(below) => (below.to_owned(), format!("{below}/")),
            None => (self.name()?, String::new()),
        };
        let data = self.file(&format!("{prefix}{name}_0.mcap"))?;
        self.file(&format!("{prefix}metadata.yaml"))?;
        BagWriter::create_named(data.parent().unwrap_or(&self.folder), &name, BagCompression::None)
    }

    /// Moves every file to its name, in place of those of earlier runs.
    ///
    /// # Errors
    /// `Usage` when a file that det_post did not write has appeared under one of the names,
    /// `Io` naming the path when the system refuses. Files that are not moved stay in
    /// `det_post.partial/`.
    pub fn finish(mut self) -> Result<()> {
        let partial = self.folder.join(PARTIAL);
        for name in &self.files {
            let path = partial.join(name);
            let about = synchronized(&path).map_err(|e| cannot("write", &path).with_source(e))?;
            self.marker.list(name, Some(&about))?;
        }
        self.marker.sync()?;

        let _whole = MOVING.lock().unwrap_or_else(PoisonError::into_inner);
        let mut replaced = self.contents().replaced(self.replaces)?;
        for name in &self.files {
            self.contents().add_file(name, &mut replaced)?;
        }
        for name in &replaced {
            remove(&self.folder.join(name))?;
        }
        let mut parents = BTreeSet::from([self.folder.clone()]);
        for name in &self.files {
            let path = self.folder.join(name);
            make_parent(&path)?;
            fs::rename(partial.join(name), &path)
                .map_err(|e| cannot("write", &path).with_source(e))?;
            parents.extend(path.parent().map(Path::to_owned));
        }
        for parent in parents {
            synchronize_folder(&parent)?;
        }
        if let Replaces::These(names) = self.replaces {
            let folders = names.iter().filter_map(|name| name.strip_suffix('/'));
            folders.for_each(|name| remove_empty(&self.folder.join(name)));
        }
        self.marker.compact()
    }

    /// Leaves the files in `det_post.partial/` and logs that the run was interrupted.
    ///
    /// # Errors
    /// `Io` when the marker cannot be written.
    pub fn keep_partial(mut self) -> Result<()> {
        let partial = self.folder.join(PARTIAL);
        for name in &self.files {
            if let Ok(about) = fs::symlink_metadata(partial.join(name)) {
                self.marker.list(&format!("{PARTIAL}/{name}"), Some(&about))?;
            }
        }
        tracing::warn!("interrupted: {} holds what was done", partial.display());
        self.marker.sync()
    }

    fn contents(&self) -> Contents<'_> {
        Contents { folder: &self.folder, listed: self.marker.listed() }
    }

    fn remove_partial(&self) -> Result<()> {
        let mut left = BTreeSet::new();
        self.contents().add_folder(PARTIAL, &mut left)?;
        for name in left {
            remove(&self.folder.join(name))?;
        }
        remove_empty(&self.folder.join(PARTIAL));
        Ok(())
    }
}

impl Drop for OutputFolder {
    /// Removes the folder of partial files where it is empty, as after a run that was refused.
    fn drop(&mut self) {
        remove_empty(&self.folder.join(PARTIAL));
    }
}

/// Refuses a name that is not below the folder.
fn check_name(folder: &Path, name: &str) -> Result<()> {
    let mut parts = Path::new(name).components();
    if name.is_empty() || !parts.all(|part| matches!(part, Component::Normal(_))) {
        let message = format!("{name:?} is no name of a file below {}", folder.display());
        return Err(Error::new(ErrorKind::Argument, "outputs", message));
    }
    Ok(())
}

/// The contents of a folder, classified by its marker.
struct Contents<'a> {
    folder: &'a Path,
    listed: &'a Listed,
}

impl Contents<'_> {
    /// The files that a run removes, by their paths below the folder.
    ///
    /// # Errors
    /// `Usage` naming the first that det_post did not write.
    fn replaced(&self, replaces: Replaces) -> Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        match replaces {
            Replaces::Everything => self.add_folder("", &mut found)?,
            Replaces::These(names) => self.add_named(names.iter().copied(), &mut found)?,
        }
        Ok(found)
    }

    /// Adds the files of these names and, with a slash at the end, folders.
    fn add_named<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
        found: &mut BTreeSet<String>,
    ) -> Result<()> {
        for name in names {
            match name.strip_suffix('/') {
                Some(name) => self.add_folder(name, found)?,
                None => self.add_file(name, found)?,
            }
        }
        Ok(())
    }

    /// Adds every file below a folder; the whole output folder is `""`.
    fn add_folder(&self, name: &str, found: &mut BTreeSet<String>) -> Result<()> {
        let Some(about) = self.about(name)? else { return Ok(()) };
        if !about.is_dir() {
            return Err(self.refused(name, &about));
        }
        let path = self.folder.join(name);
        if !name.is_empty() && fs::symlink_metadata(path.join(marker::FILE_NAME)).is_ok() {
            let message = format!(
                "{} is itself an output folder: move or remove it, or choose another folder",
                path.display()
            );
            return Err(Error::new(ErrorKind::Usage, "outputs", message));
        }
        let cannot_list = |e| cannot("list", &path).with_source(e);
        for entry in fs::read_dir(&path).map_err(cannot_list)? {
            let entry = entry.map_err(cannot_list)?;
            let kind = entry.file_type().map_err(cannot_list)?;
            let file_name = entry.file_name();
            let inner = match name {
                "" if file_name == marker::FILE_NAME || file_name == PARTIAL => continue,
                "" => file_name.to_string_lossy().into_owned(),
                _ => format!("{name}/{}", file_name.to_string_lossy()),
            };
            match file_name.to_str() {
                None => return Err(self.refused(&inner, &entry.metadata().map_err(cannot_list)?)),
                Some(_) if kind.is_dir() => self.add_folder(&inner, found)?,
                Some(_) => self.add_file(&inner, found)?,
            }
        }
        Ok(())
    }

    /// Adds a file where there is one.
    fn add_file(&self, name: &str, found: &mut BTreeSet<String>) -> Result<()> {
        for (at, _) in name.match_indices('/') {
            match self.about(&name[..at])? {
                Some(about) if !about.is_dir() => return Err(self.refused(&name[..at], &about)),
                _ => {}
            }
        }
        let Some(about) = self.about(name)? else { return Ok(()) };
        if !about.is_file() || !self.listed.holds(name, &about) {
            return Err(self.refused(name, &about));
        }
        found.insert(name.to_owned());
        Ok(())
    }

    /// Metadata of the entry of this name, if there is one; links are not followed.
    fn about(&self, name: &str) -> Result<Option<Metadata>> {
        let path = self.folder.join(name);
        // The folder itself may be named by a link.
        let about = if name.is_empty() { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        match about {
            Ok(about) => Ok(Some(about)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot("read", &path).with_source(error)),
        }
    }

    fn refused(&self, name: &str, about: &Metadata) -> Error {
        let what = if about.is_symlink() {
            "is a symbolic link, and det_post writes none"
        } else if !about.is_file() {
            "is not a file that det_post wrote"
        } else if self.listed.names(name) {
            "was changed after det_post wrote it"
        } else {
            "was not written by det_post"
        };
        let message = format!(
            "{} {what} ({} lists what may be replaced): move or remove it, or choose another \
             folder",
            self.folder.join(name).display(),
            marker::FILE_NAME
        );
        Error::new(ErrorKind::Usage, "outputs", message)
    }
}

/// Synchronizes the entries of a folder to the disk, where the file system supports it.
fn synchronize_folder(path: &Path) -> Result<()> {
    match synchronized(path) {
        Err(error) if !is_unsupported(&error) => Err(cannot("write", path).with_source(error)),
        _ => Ok(()),
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

/// Synchronizes a file to the disk.
fn synchronized(path: &Path) -> io::Result<Metadata> {
    let file = File::open(path)?;
    file.sync_all()?;
    file.metadata()
}

fn make_parent(path: &Path) -> Result<()> {
    let Some(parent) = path.parent() else { return Ok(()) };
    fs::create_dir_all(parent).map_err(|e| cannot("make", parent).with_source(e))
}

fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|e| cannot("replace", path).with_source(e))
}

/// Removes a folder and its subfolders as far as they are empty.
fn remove_empty(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.flatten().filter(is_folder).for_each(|entry| remove_empty(&entry.path()));
    // A folder that is not empty stays.
    let _ = fs::remove_dir(folder);
}

#[cfg(test)]
mod tests;
