//! The files of a recording, in order.
//!
//! A directory holds its files: the paths in its metadata are relative and stay
//! inside it, symbolic links included, and each file is read once.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::damage::damaged;
use super::metadata::{Metadata, io_error};
use super::zstd_files::{readable, unpacked};
use det_post_types::{Error, ErrorKind, Result};

/// The most files of a recording that are read: a week in parts of a minute.
const MAX_FILES: usize = 10_080;
/// The most characters of a path of the metadata in a message.
const MAX_QUOTED: usize = 200;

/// What a recording consists of.
#[derive(Default)]
pub(super) struct Files {
    pub(super) metadata: Option<Metadata>,
    pub(super) paths: Vec<PathBuf>,
    /// What cannot be read, in the order in which to report it.
    pub(super) lost: Vec<Error>,
}

/// Device and inode.
type FileId = (u64, u64);

/// The folders of recordings in a folder, in words: the first ones.
pub(super) fn recordings_below(path: &Path) -> String {
    const MAX_SHOWN: usize = 5;
    let is_recording = |folder: &PathBuf| {
        folder.is_dir() && names_in(folder).is_ok_and(|names| !names.is_empty())
            || folder.join("metadata.yaml").is_file()
    };
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten().take(MAX_FILES);
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_recording).collect();
    found.sort();
    let shown = found.iter().take(MAX_SHOWN).map(|folder| format!(" {}", folder.display()));
    match found.len() {
        0 => String::new(),
        num if num > MAX_SHOWN => format!("; recordings in it:{} …", shown.collect::<String>()),
        _ => format!("; recordings in it:{}", shown.collect::<String>()),
    }
}

impl Files {
    /// The files of the recording at `path`: those that `metadata.yaml` of the
    /// directory lists, else all its `.mcap` and `.db3` files in the order of
    /// their names; or the file at `path` itself.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`] when `path` cannot be read, [`ErrorKind::Encoding`]
    /// when the recording is compressed by file or by message.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let open_error = |error| io_error("open", path, error);
        if !std::fs::metadata(path).map_err(open_error)?.is_dir() {
            return Ok(Self { paths: vec![path.to_owned()], ..Self::default() });
        }
        let mut files = Self::default();
        let names = match Metadata::read(path) {
            Ok(Some(metadata)) => {
                let listed = files.listed(path, &metadata);
                let names: Vec<_> = listed.iter().map(|name| readable(path, name)).collect();
                // What is read in place of a listed file tells by itself how it is compressed.
                if names == listed {
                    check_compression(path, &metadata)?;
                }
                files.metadata = Some(metadata);
                names
            }
            Ok(None) => names_in(path)?,
            Err(error) => {
                files.lost.push(error);
                names_in(path)?
            }
        };
        if names.len() > MAX_FILES {
            let (directory, num) = (path.display(), names.len());
            files.lost.push(damaged(format!(
                "{directory} has {num} files, the first {MAX_FILES} are read"
            )));
        }
        let root = path.canonicalize().map_err(open_error)?;
        let mut known = BTreeSet::new();
        for name in names.into_iter().take(MAX_FILES) {
            let file = path.join(name);
            match check_place(&root, &file, &mut known) {
                Ok(()) => files.paths.push(file),
                Err(problem) => {
                    files.lost.push(damaged(format!("{} {problem}", file.display())));
                }
            }
        }
        Ok(files)
    }

    /// The paths that the metadata lists, relative to the directory.
    fn listed(&mut self, directory: &Path, metadata: &Metadata) -> Vec<PathBuf> {
        let mut names = Vec::new();
        for listed in &metadata.relative_file_paths {
            match path_inside(listed, metadata.version) {
                Some(name) => names.push(name),
                None if self.lost.len() < MAX_FILES => {
                    let (directory, start) =
                        (directory.display(), listed.chars().take(MAX_QUOTED).collect::<String>());
                    self.lost.push(damaged(format!(
                        "the metadata of {directory} lists '{}', which is not a path inside it",
                        start.escape_debug()
                    )));
                }
                None => {}
            }
        }
        names
    }
}

/// The path inside the directory that an entry of the metadata names; `None`
/// when it is absolute, has `..` or is empty.
fn path_inside(listed: &str, version: u32) -> Option<PathBuf> {
    let mut names = Vec::new();
    for component in Path::new(listed).components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::ParentDir => return None,
        }
    }
    // Before version 4, paths start with the name of the directory.
    if version < 4 && names.len() > 1 {
        names.remove(0);
    }
    (!names.is_empty()).then(|| names.into_iter().collect())
}

/// Checks that `file` is inside `root` and new to `known`. A file that is
/// missing passes: opening it reports that.
fn check_place(
    root: &Path,
    file: &Path,
    known: &mut BTreeSet<FileId>,
) -> std::result::Result<(), &'static str> {
    let (Ok(place), Ok(about)) = (file.canonicalize(), file.metadata()) else { return Ok(()) };
    if !place.starts_with(root) {
        return Err("is a link to a place outside the recording and is not read");
    }
    if !known.insert((about.dev(), about.ino())) {
        return Err("is listed more than once, it is read once");
    }
    Ok(())
}

fn check_compression(directory: &Path, metadata: &Metadata) -> Result<()> {
    let Metadata { compression_mode: mode, compression_format: format, .. } = metadata;
    // Opening the files tells which are compressed as a whole.
    if ["", "none", "file"].iter().any(|plain| mode.eq_ignore_ascii_case(plain)) {
        return Ok(());
    }
    let excerpt = |text: &str| text.chars().take(MAX_QUOTED).flat_map(char::escape_debug).collect();
    let (mode, format): (String, String) = (excerpt(&mode.to_ascii_lowercase()), excerpt(format));
    let message = format!(
        "{} is compressed by {mode} ({format}); compressed chunks of MCAP are read: convert it with \
         `ros2 bag convert -i {} -o out.yaml` (docs/troubleshooting.md has an out.yaml)",
        directory.display(),
        directory.display()
    );
    Err(Error::new(ErrorKind::Encoding, "bag", message))
}

/// The names of all `.mcap` and `.db3` files of a directory, also of compressed ones that are not
/// unpacked: opening these is an error. Shorter names first, so that part 10 follows part 9.
fn names_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let listing =
        std::fs::read_dir(directory).map_err(|error| io_error("list", directory, error))?;
    let is_bag = |name: &Path| {
        name.extension().is_some_and(|extension| extension == "mcap" || extension == "db3")
    };
    let is_packed_bag = |name: &Path| {
        unpacked(name).is_some_and(|file| is_bag(&file) && !directory.join(file).is_file())
    };
    let names = listing.flatten().map(|entry| PathBuf::from(entry.file_name()));
    let mut names: Vec<_> = names.filter(|name| is_bag(name) || is_packed_bag(name)).collect();
    names.sort_by(|a, b| (a.as_os_str().len(), a).cmp(&(b.as_os_str().len(), b)));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_paths_stay_inside() {
        let inside = |listed, version| path_inside(listed, version);
        assert_eq!(inside("drive_0.mcap", 5), Some("drive_0.mcap".into()));
        assert_eq!(inside("./parts/drive_0.mcap", 5), Some("parts/drive_0.mcap".into()));
        assert_eq!(inside("drive/drive_0.db3", 3), Some("drive_0.db3".into()));
        assert_eq!(inside("drive_0.db3", 3), Some("drive_0.db3".into()));
        for listed in ["", ".", "/etc/passwd", "../x.mcap", "a/../../x.mcap", "a/.."] {
            assert_eq!(inside(listed, 5), None, "{listed}");
        }
    }
}
