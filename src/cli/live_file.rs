//! A file that a command writes while it runs.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind as IoErrorKind, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use det_post_types::{Error, ErrorKind, Result, input_file};

/// A file of one kind, known by how it begins: written beside its name, as `.NAME.partial`, then
/// moved to it. A file that begins otherwise is not replaced, nor is a link, under either name. The
/// partial file is locked, so that one command writes it at a time; it is removed with the value.
pub(super) struct LiveFile {
    path: PathBuf,
    partial: PathBuf,
    mark: &'static str,
    /// The partial file, locked.
    file: File,
}

impl LiveFile {
    /// A file whose contents begin with `mark`.
    ///
    /// # Errors
    /// `Usage` when another file has this name or that of its partial file, a link has, another command writes it, or
    /// it names none; `Io` when it cannot be read or written.
    pub(super) fn open(path: &Path, mark: &'static str) -> Result<Self> {
        let Some(name) = path.file_name() else {
            let message = format!("'{}' does not name a file", path.display());
            return Err(Error::new(ErrorKind::Usage, "outputs", message));
        };
        check(path, mark)?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".partial");
        let partial = path.with_file_name(hidden);
        if check(&partial, mark)? {
            remove_left_over(&partial, path)?;
        }
        let file = begin(&partial, mark)?;
        Ok(Self { path: path.to_owned(), partial, mark, file })
    }

    /// A writer of the contents, which begin with the mark; they are at their name after
    /// [`Self::publish`].
    ///
    /// # Errors
    /// `Io` when the system refuses.
    pub(super) fn writer(&self) -> Result<File> {
        let writer = || -> std::io::Result<File> {
            let mut file = self.file.try_clone()?;
            file.seek(SeekFrom::Start(0))?;
            Ok(file)
        };
        writer().map_err(|e| cannot("write", &self.partial).with_source(e))
    }

    /// Moves the contents to their name.
    ///
    /// # Errors
    /// `Usage` when another file has the name by now, `Io` when the system refuses.
    pub(super) fn publish(&self) -> Result<()> {
        check(&self.path, self.mark)?;
        fs::rename(&self.partial, &self.path)
            .map_err(|e| cannot("write", &self.path).with_source(e))
    }

    /// Replaces the contents in one step: a reader sees the old ones or the new ones.
    ///
    /// # Errors
    /// As of [`Self::publish`].
    pub(super) fn replace(&mut self, contents: &str) -> Result<()> {
        if !check(&self.partial, self.mark)? {
            // Removed while the command runs.
            self.file = begin(&self.partial, self.mark)?;
        }
        let Self { partial, file, .. } = self;
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(contents.as_bytes()))
            .and_then(|()| file.set_len(contents.len() as u64))
            .map_err(|e| cannot("write", partial).with_source(e))?;
        self.publish()?;
        self.file = begin(&self.partial, self.mark)?;
        Ok(())
    }
}

impl Drop for LiveFile {
    /// Removes the partial file, unless it was moved or is another one by now.
    fn drop(&mut self) {
        if check(&self.partial, self.mark).is_ok_and(|is_there| is_there) {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Whether there is a file of the kind.
///
/// # Errors
/// `Usage` when the name is a link's or another file's, `Io` when it cannot be read.
fn check(path: &Path, mark: &str) -> Result<bool> {
    let refused = |what: &str| {
        let message = format!(
            "{} {what}: move or remove it, or choose another name for the output",
            path.display()
        );
        Err(Error::new(ErrorKind::Usage, "outputs", message))
    };
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_symlink() => {
            return refused("is a symbolic link, and det_post writes none");
        }
        Ok(_) => {}
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(cannot("read", path).with_source(error)),
    }
    let mut begin = Vec::new();
    let file = input_file::open(path).map_err(|e| cannot("replace", path).with_source(e))?;
    file.take(mark.len() as u64)
        .read_to_end(&mut begin)
        .map_err(|e| cannot("read", path).with_source(e))?;
    match begin == mark.as_bytes() {
        true => Ok(true),
        false => refused("was not written by det_post"),
    }
}

/// Removes the partial file of a command that ended without.
///
/// # Errors
/// `Usage` when another command writes it.
fn remove_left_over(partial: &Path, path: &Path) -> Result<()> {
    let failed = |e| cannot("replace", partial).with_source(e);
    let file = input_file::open(partial).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => fs::remove_file(partial).map_err(failed),
        Err(TryLockError::WouldBlock) => {
            let message = format!(
                "another command of det_post writes {}: choose another name",
                path.display()
            );
            Err(Error::new(ErrorKind::Usage, "outputs", message))
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Makes a file that begins with the mark, and locks it.
fn begin(partial: &Path, mark: &str) -> Result<File> {
    let make = || {
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(partial)?;
        file.lock()?;
        file.write_all(mark.as_bytes())?;
        Ok(file)
    };
    make().map_err(|e: std::io::Error| cannot("make", partial).with_source(e))
}

/// An error of the system for a path.
fn cannot(verb: &str, path: &Path) -> Error {
    Error::new(ErrorKind::Io, "outputs", format!("cannot {verb} {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_kind_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.prom");
        LiveFile::open(&path, "# mark").unwrap().replace("# mark 1\n").unwrap();
        LiveFile::open(&path, "# mark").unwrap().replace("# mark 2\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "# mark 2\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else stays");
        fs::write(&path, "of another program").unwrap();
        for refused in [path.as_path(), folder.path(), Path::new("/"), Path::new("/dev/null")] {
            assert!(LiveFile::open(refused, "# mark").is_err(), "{}", refused.display());
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "of another program");
    }

    #[test]
    fn files_and_links_of_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let refused = |part: &str| {
            let message = LiveFile::open(&at("a"), "# mark").err().unwrap().to_string();
            assert!(message.contains(part), "{message}");
        };
        // The partial file.
        fs::write(at(".a.partial"), "mine").unwrap();
        refused(".a.partial was not written by det_post");
        fs::write(at(".a.partial"), "").unwrap();
        refused(".a.partial was not written by det_post");
        fs::remove_file(at(".a.partial")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at(".a.partial")).unwrap();
        refused("symbolic link");
        assert!(!at("elsewhere").exists());
        fs::remove_file(at(".a.partial")).unwrap();
        // The file.
        fs::write(at("other"), "# mark of another").unwrap();
        std::os::unix::fs::symlink(at("other"), at("a")).unwrap();
        refused("symbolic link");
        fs::remove_file(at("a")).unwrap();
        // One that a command left when it was ended.
        fs::write(at(".a.partial"), "# mark, and more").unwrap();
        let mut first = LiveFile::open(&at("a"), "# mark").unwrap();
        refused("another command of det_post writes");
        first.replace("# mark, 1").unwrap();
        refused("another command of det_post writes");
        // A partial file that is removed meanwhile.
        fs::remove_file(at(".a.partial")).unwrap();
        first.replace("# mark, 1").unwrap();
        // A file that appears meanwhile.
        fs::write(at("a"), "mine").unwrap();
        assert!(first.replace("# mark, 2").is_err());
        drop(first);
        assert_eq!(fs::read_to_string(at("a")).unwrap(), "mine");
        assert_eq!(fs::read_to_string(at("other")).unwrap(), "# mark of another");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_writer_begins_at_the_mark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let file = LiveFile::open(&path, "# mark").unwrap();
        file.writer().unwrap().write_all(b"# mark, all").unwrap();
        file.publish().unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "# mark, all");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
