//! Memory that a channel and its process share: payloads lie there.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Mmap, MmapMut};

use crate::error::{Error, ErrorKind, Result};

/// The writing side. Its file goes with it.
#[derive(Debug)]
pub(super) struct Written {
    path: PathBuf,
    map: MmapMut,
}

impl Written {
    /// Memory of at least `len` bytes, all zero, that no other user may read.
    #[expect(unsafe_code, reason = "mapping is the only way to share a payload in one copy")]
    pub(super) fn new(len: usize) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let shared = Path::new("/dev/shm");
        let folder = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("det_post-{}-{number}", std::process::id()));
        let failed = |error: std::io::Error| failed(&path, error);
        // A file of that name can only be left from a process that has ended.
        let _ = std::fs::remove_file(&path);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(failed)?;
        file.set_len(len.max(1) as u64).map_err(failed)?;
        // SAFETY: the file is new, ours alone, and of that length. The one other
        // process that opens it maps it to read, and does so only between a
        // request and its answer, while this side, which waits for the answer,
        // does not write.
        let map = unsafe { MmapMut::map_mut(&file) }.map_err(failed)?;
        Ok(Self { path, map })
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes, to be written between an answer and the next request.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // Nothing is lost but a name when this fails.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The reading side.
#[derive(Debug)]
pub(super) struct Read {
    map: Mmap,
}

impl Read {
    /// Maps the whole of what the writing side has made.
    #[expect(unsafe_code, reason = "mapping is the only way to share a payload in one copy")]
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |error| failed(path, error);
        let file = File::open(path).map_err(failed)?;
        // SAFETY: the writing side never shortens the file, and writes only
        // while this side, which waits for its request, does not read.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Ok(Self { map })
    }

    /// The first `len` bytes, valid until the answer is sent.
    pub(super) fn bytes(&self, len: usize) -> Result<&[u8]> {
        self.map.get(..len).ok_or_else(super::message::malformed)
    }
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    let message = format!("cannot share {}", path.display());
    Error::new(ErrorKind::Io, "isolated", message).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_file_goes() {
        let mut written = Written::new(8).unwrap();
        let read = Read::open(written.path()).unwrap();
        written.bytes()[..3].copy_from_slice(b"abc");
        assert_eq!(read.bytes(3).unwrap(), b"abc");
        assert_eq!(read.bytes(8).unwrap().len(), 8);
        assert!(read.bytes(9).is_err());
        let path = written.path().to_owned();
        drop(written);
        assert!(!path.exists());
        assert_eq!(read.bytes(3).unwrap(), b"abc");
    }
}
