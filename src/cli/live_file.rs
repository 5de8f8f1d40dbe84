//! A file that a command writes while it runs.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use det_post_types::{Error, ErrorKind, Result, input_file};

/// A file of one kind, known by how it begins: written beside its name, then moved to it. A file
/// that begins otherwise is not replaced.
pub(super) struct LiveFile {
    path: PathBuf,
    partial: PathBuf,
}

impl LiveFile {
    /// A file whose contents begin with `mark`.
    ///
    /// # Errors
    /// `Usage` when another file has this name, or it names none; `Io` when it cannot be read.
    pub(super) fn open(path: &Path, mark: &str) -> Result<Self> {
        let Some(name) = path.file_name() else {
            let message = format!("'{}' does not name a file", path.display());
            return Err(Error::new(ErrorKind::Usage, "outputs", message));
        };
        let mut begin = Vec::new();
        match input_file::open(path) {
            Ok(file) => {
                file.take(mark.len() as u64)
                    .read_to_end(&mut begin)
                    .map_err(|e| cannot("read", path).with_source(e))?;
                if begin != mark.as_bytes() {
                    let message = format!(
                        "{} was not written by det_post: move or remove it, or choose another name",
                        path.display()
                    );
                    return Err(Error::new(ErrorKind::Usage, "outputs", message));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot("replace", path).with_source(error)),
        }
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".partial");
        Ok(Self { path: path.to_owned(), partial: path.with_file_name(hidden) })
    }

    /// Begins the contents anew; they are at their name after [`Self::publish`].
    ///
    /// # Errors
    /// `Io` when the system refuses.
    pub(super) fn create(&self) -> Result<File> {
        File::create(&self.partial).map_err(|e| cannot("make", &self.partial).with_source(e))
    }

    /// Moves the contents to their name.
    ///
    /// # Errors
    /// `Io` when the system refuses.
    pub(super) fn publish(&self) -> Result<()> {
        fs::rename(&self.partial, &self.path)
            .map_err(|e| cannot("write", &self.path).with_source(e))
    }

    /// Replaces the contents in one step: a reader sees the old ones or the new ones.
    ///
    /// # Errors
    /// `Io` when the system refuses.
    pub(super) fn replace(&self, contents: &str) -> Result<()> {
        fs::write(&self.partial, contents)
            .map_err(|e| cannot("write", &self.partial).with_source(e))?;
        self.publish()
    }
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
}
