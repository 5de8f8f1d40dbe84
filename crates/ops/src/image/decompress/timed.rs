//! The bytes of a file, readable until a deadline.

use std::io::{self, BufRead, Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::time::Instant;

/// Bytes that can be read until a deadline; after it, reading fails with
/// [`ErrorKind::TimedOut`]. A decoder that reads them exceeds the deadline by at most
/// the time that it takes for `interval` bytes.
#[derive(Debug)]
pub(super) struct TimedBytes<'a> {
    file: &'a [u8],
    /// The bytes that are read before the clock is queried again.
    chunk: &'a [u8],
    /// The bytes after `chunk`.
    rest: &'a [u8],
    deadline: Instant,
    /// Bytes per query of the clock.
    interval: usize,
}

impl<'a> TimedBytes<'a> {
    pub(super) fn new(file: &'a [u8], deadline: Instant, interval: usize) -> Self {
        Self { file, chunk: &[], rest: file, deadline, interval }
    }

    #[cold]
    fn next_chunk(&mut self) -> io::Result<()> {
        if Instant::now() >= self.deadline {
            return Err(ErrorKind::TimedOut.into());
        }
        (self.chunk, self.rest) = self.rest.split_at(self.interval.min(self.rest.len()));
        Ok(())
    }
}

impl BufRead for TimedBytes<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.chunk.is_empty() {
            self.next_chunk()?;
        }
        Ok(self.chunk)
    }

    fn consume(&mut self, num_bytes: usize) {
        self.chunk = self.chunk.get(num_bytes..).unwrap_or_default();
    }
}

impl Read for TimedBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fill_buf()?;
        self.chunk.read(buffer)
    }
}

impl Seek for TimedBytes<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let mut cursor = Cursor::new(self.file);
        cursor.set_position((self.file.len() - self.chunk.len() - self.rest.len()) as u64);
        let position = cursor.seek(to)?;
        self.rest =
            usize::try_from(position).ok().and_then(|at| self.file.get(at..)).unwrap_or(&[]);
        self.chunk = &[];
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_bytes_come_in_time_and_none_after_it() {
        let data: Vec<u8> = (0..100).collect();
        let later = Instant::now() + Duration::from_secs(3600);
        for interval in [1, 7, 100, usize::MAX] {
            let mut bytes = TimedBytes::new(&data, later, interval);
            let (mut first, mut rest) = ([0; 33], Vec::new());
            bytes.read_exact(&mut first).unwrap();
            bytes.read_to_end(&mut rest).unwrap();
            assert_eq!([&first[..], &rest].concat(), data, "interval {interval}");
            assert_eq!(bytes.read_exact(&mut [0]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
            assert_eq!(bytes.seek(SeekFrom::End(-40)).unwrap(), 60);
            bytes.read_exact(&mut first[..2]).unwrap();
            assert_eq!((first[..2].to_vec(), bytes.stream_position().unwrap()), (vec![60, 61], 62));
        }
        let mut late = TimedBytes::new(&data, Instant::now(), 7);
        assert_eq!(late.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(late.read_exact(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(late.fill_buf().unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
