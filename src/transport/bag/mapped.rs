//! Files mapped into memory: the only `unsafe` code of this module.

use std::ops::{Deref, Range};
use std::path::Path;

use memmap2::{Mmap, UncheckedAdvice};

use crate::error::{Error, ErrorKind, Result};
use crate::input_file;

/// The bytes of a file, mapped read-only for the lifetime of the value.
///
/// An empty file maps to an empty slice.
pub(super) struct Mapped(Option<Mmap>);

impl Mapped {
    /// Maps the whole of `path`.
    #[expect(unsafe_code, reason = "mapping is the only way to borrow payloads without a copy")]
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |what: &str, error| {
            let message = format!("cannot {what} {}", path.display());
            Error::new(ErrorKind::Io, "bag", message).with_source(error)
        };
        let file = input_file::open(path).map_err(|error| failed("open", error))?;
        let metadata = file.metadata().map_err(|error| failed("open", error))?;
        if metadata.len() == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the mapping is private and read-only, so nothing in this
        // process writes through it, and it outlives every slice because
        // `Deref` ties them to `self`. What remains is that another process
        // shortens or rewrites a recording while it is being read. That is
        // outside the contract of this module, as it is for every reader that
        // maps: a shortened file ends the process with SIGBUS, and a rewritten
        // one may change text that a decoder has checked. A recording is not
        // written while it is replayed (docs/limits.md).
        let map = unsafe { Mmap::map(&file) }.map_err(|error| failed("map", error))?;
        Ok(Self(Some(map)))
    }

    /// Releases the memory of bytes that have been read, so that a long recording
    /// does not fill it. They can be read again.
    #[expect(unsafe_code, reason = "the advice is only safe for mappings as this one")]
    pub(super) fn release(&self, bytes: Range<usize>) {
        let Some(map) = &self.0 else { return };
        let advice = UncheckedAdvice::DontNeed;
        // SAFETY: nothing writes through the mapping, so a released page is read from
        // the file again with the same bytes.
        let taken = unsafe { map.unchecked_advise_range(advice, bytes.start, bytes.len()) };
        // Without effect the memory is only held longer.
        drop(taken);
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident memory of the mapping, from /proc/self/smaps.
    fn resident_kib(map: &Mapped) -> u64 {
        let at = map.as_ptr() as u64;
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let holds = |line: &str| {
            let bounds = line.split(' ').next()?.split_once('-')?;
            let [from, to] = [bounds.0, bounds.1].map(|hex| u64::from_str_radix(hex, 16));
            Some((from.ok()?..to.ok()?).contains(&at))
        };
        let mut lines = smaps.lines().skip_while(|line| holds(line) != Some(true));
        let resident = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
        resident.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn released_bytes_take_no_memory_and_read_the_same() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..8 << 20).map(|i| (i % 251) as u8).collect();
        std::fs::write(file.path(), &bytes).unwrap();
        let map = Mapped::open(file.path()).unwrap();
        assert!(*map == bytes);
        assert_eq!(resident_kib(&map), 8 << 10);
        // From the middle of a page to the middle of another.
        map.release(5000..(6 << 20) + 100);
        assert!(resident_kib(&map) <= (2 << 10) + 4, "{}", resident_kib(&map));
        assert!(*map == bytes);
        map.release(0..bytes.len());
        assert_eq!(resident_kib(&map), 0);
    }
}
