//! Opening the files that the program reads.
//!
//! Recordings, parameter files, networks and result files are regular files
//! (or symbolic links to regular files). Anything else is refused before it is
//! opened: a named pipe without a writer blocks `open` for ever, a device may
//! have no end, and opening one can have side effects.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
/// As [`check`], and when the system refuses.
pub fn open(path: &Path) -> Result<File> {
    check(path)?;
    // The path can name another file by now, hence the second check; without
    // O_NONBLOCK, opening a named pipe would block.
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    check_type(file.metadata()?.file_type())?;
    Ok(file)
}

/// Checks that `path` names a regular file and returns its metadata.
///
/// # Errors
/// [`ErrorKind::NotFound`] when it names nothing, [`ErrorKind::IsADirectory`]
/// or [`ErrorKind::InvalidInput`] when it names something else.
pub fn check(path: &Path) -> Result<Metadata> {
    let metadata = std::fs::metadata(path)?;
    check_type(metadata.file_type())?;
    Ok(metadata)
}

/// Reads a text file of at most `max_bytes`.
///
/// # Errors
/// As [`open`], and [`ErrorKind::InvalidData`] when the file is larger or is
/// not UTF-8.
pub fn read_text(path: &Path, max_bytes: usize) -> Result<String> {
    let mut text = String::new();
    open(path)?.take(max_bytes as u64 + 1).read_to_string(&mut text)?;
    if text.len() > max_bytes {
        let message = format!("the file has more than {max_bytes} bytes");
        return Err(Error::new(ErrorKind::InvalidData, message));
    }
    Ok(text)
}

fn check_type(file: FileType) -> Result<()> {
    let (kind, found) = match file {
        _ if file.is_file() => return Ok(()),
        _ if file.is_dir() => (ErrorKind::IsADirectory, "a directory"),
        _ if file.is_fifo() => (ErrorKind::InvalidInput, "a named pipe"),
        _ if file.is_socket() => (ErrorKind::InvalidInput, "a socket"),
        _ => (ErrorKind::InvalidInput, "a device"),
    };
    Err(Error::new(kind, format!("it is {found}; only regular files are read")))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("link_to_device")).unwrap();
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read_text(&at(name), 4).unwrap(), "text");
        }
        assert_eq!(read_text(&at("file"), 3).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(open(&at("absent")).unwrap_err().kind(), ErrorKind::NotFound);
        for (path, found) in [
            (at("pipe"), "a named pipe"),
            (at("socket"), "a socket"),
            (at("link_to_device"), "a device"),
            ("/dev/null".into(), "a device"),
            (folder.path().into(), "a directory"),
        ] {
            let error = open(&path).unwrap_err();
            assert!(error.to_string().contains(found), "{}: {error}", path.display());
        }
    }
}
