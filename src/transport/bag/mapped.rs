//! A file mapped into memory: the one place of this room with `unsafe`.

use std::fs::File;
use std::ops::Deref;
use std::path::Path;

use memmap2::Mmap;

use crate::error::{Error, ErrorKind, Result};

/// The bytes of a file, mapped read-only for as long as the value lives.
///
/// An empty file maps to an empty slice.
pub(super) struct Mapped(Option<Mmap>);

impl Mapped {
    /// Maps the whole of `path`.
    #[expect(unsafe_code, reason = "mapping is the only way to lend payloads without a copy")]
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |what: &str, error| {
            let message = format!("cannot {what} {}", path.display());
            Error::new(ErrorKind::Io, "bag", message).with_source(error)
        };
        let file = File::open(path).map_err(|error| failed("open", error))?;
        let metadata = file.metadata().map_err(|error| failed("open", error))?;
        if metadata.len() == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the mapping is private and read-only, so nothing in this
        // process writes through it, and it outlives every slice because
        // `Deref` ties them to `self`. What remains is that another process
        // shortens or rewrites a recording while it is being read. That is
        // outside the contract of this room, as it is for every reader that
        // maps: a shortened file ends the process with SIGBUS, and a rewritten
        // one may change text that a decoder has checked. A recording is not
        // written while it is replayed (docs/limits.md).
        let map = unsafe { Mmap::map(&file) }.map_err(|error| failed("map", error))?;
        Ok(Self(Some(map)))
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}
