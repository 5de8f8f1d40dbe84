//! Files mapped into memory.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;

use memmap2::{Mmap, UncheckedAdvice};

use super::truncation::TruncationGuard;
use det_post_types::{Error, ErrorKind, Result, input_file};

/// The bytes of a file, mapped read-only for the lifetime of the value.
///
/// An empty file maps to an empty slice.
///
/// Clones share the mapping.
#[derive(Clone)]
pub struct Mapped(Option<Arc<MappedFile>>);

struct MappedFile {
    /// Dropped before the mapping.
    guard: TruncationGuard,
    map: Mmap,
    file: File,
}

impl Mapped {
    /// Maps the whole of `path`.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file cannot be opened or mapped.
    #[expect(unsafe_code, reason = "mapping is the only way to borrow payloads without a copy")]
    pub fn open(path: &Path) -> Result<Self> {
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
        // `Deref` ties them to `self`. Another process may shorten the file:
        // `guard` turns what is behind its end into zeros. What remains is that
        // it rewrites the file, which may change text that a decoder has checked;
        // that is outside the contract of this module, as it is for every reader
        // that maps. A recording is not written while it is replayed
        // (docs/limits.md).
        let map = unsafe { Mmap::map(&file) }.map_err(|error| failed("map", error))?;
        let addresses = map.as_ptr_range();
        let guard = TruncationGuard::new(addresses.start as usize..addresses.end as usize);
        Ok(Self(Some(Arc::new(MappedFile { guard, map, file }))))
    }

    /// Whether bytes behind the end of a shortened file were read, as zeros.
    pub(super) fn is_hit(&self) -> bool {
        self.0.as_ref().is_some_and(|file| file.guard.is_hit())
    }

    /// The length to which the file was shortened since it was mapped, if it was.
    pub(super) fn shortened_to(&self) -> Option<u64> {
        let MappedFile { guard, map, file } = &**self.0.as_ref()?;
        let len = file.metadata().map_or(map.len() as u64, |metadata| metadata.len());
        (guard.is_hit() || len < map.len() as u64).then_some(len)
    }

    /// Releases the memory of bytes that have been read, so that a long recording
    /// does not fill it. They can be read again.
    #[expect(unsafe_code, reason = "the advice is only safe for mappings as this one")]
    pub(super) fn release(&self, bytes: Range<usize>) {
        let Some(MappedFile { map, .. }) = self.0.as_deref() else { return };
        let advice = UncheckedAdvice::DontNeed;
        // SAFETY: nothing writes through the mapping, so a released page is read from
        // the file again with the same bytes.
        let taken = unsafe { map.unchecked_advise_range(advice, bytes.start, bytes.len()) };
        // Without effect the memory is only held longer.
        drop(taken);
    }
}

impl std::fmt::Debug for Mapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mapped").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |file| &file.map)
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self
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
    fn a_file_that_is_shortened_reads_as_zeros_and_says_so() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![7; 1 << 20]).unwrap();
        let (map, other) = (Mapped::open(file.path()).unwrap(), Mapped::open(file.path()).unwrap());
        assert!(map.shortened_to().is_none() && map.iter().all(|byte| *byte == 7));
        file.as_file().set_len(300_000).unwrap();
        assert_eq!(map.shortened_to(), Some(300_000));
        let end = 300_000_usize.next_multiple_of(64 << 10);
        assert!(map[..300_000].iter().all(|byte| *byte == 7));
        assert!(map[end..].iter().all(|byte| *byte == 0));
        drop(map);
        // Another mapping is guarded by itself; the zeros stay when the file grows again.
        assert_eq!(other[end], 0);
        file.as_file().set_len(1 << 20).unwrap();
        assert_eq!(other.shortened_to(), Some(1 << 20));
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
