//! Which rows of a cut sqlite3 file are whole.
//!
//! sqlite3 takes bytes behind the end of a file for zeros, so a payload would
//! end in zeros that were never recorded, and a page cut inside would hold
//! rows that never were. A row counts as whole here when every page it
//! touches is in the file to its last byte: the page of its cell and the
//! pages its payload overflows to.
//!
//! The layout is that of <https://www.sqlite.org/fileformat2.html>, sections
//! 1.3 and 1.6; page numbers start at 1.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::mapped::Mapped;

const INTERIOR_TABLE: u8 = 0x05;
const LEAF_TABLE: u8 = 0x0d;

/// A database that is shorter than its header states.
pub(super) struct CutFile {
    map: Mapped,
    page_len: usize,
    /// Usable bytes of a page, without the reserved ones at its end.
    usable_len: usize,
    /// Length of the file by its header.
    pub(super) claimed_len: u64,
    /// Ends the count of rows once set.
    stop: Arc<AtomicBool>,
}

impl CutFile {
    /// `None` when the file has the length of its header.
    pub(super) fn detect(map: Mapped, stop: &Arc<AtomicBool>) -> Option<Self> {
        let page_len = match be_u16(&map, 16)? {
            1 => 65536,
            len => usize::from(len),
        };
        // sqlite3 opens no file with less than 480 usable bytes per page.
        let usable_len = page_len.checked_sub(usize::from(*map.get(20)?))?;
        let claimed_len = u64::from(be_u32(&map, 28)?) * page_len as u64;
        (usable_len >= 480 && claimed_len > map.len() as u64).then_some(Self {
            map,
            page_len,
            usable_len,
            claimed_len,
            stop: Arc::clone(stop),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// How many rows of the table with this root page are whole, from its
    /// start up to the first that is not. Reads the file through.
    pub(super) fn num_whole_rows(&self, root: u32) -> u64 {
        let mut num_rows = 0;
        // A sound file has each page in one place, so that a walk over more
        // pages than there are has a cycle.
        let mut budget = self.map.len() / self.page_len;
        let mut pending = vec![root];
        while let Some(number) = pending.pop()
            && !self.stop.load(Ordering::Relaxed)
        {
            if self.visit(number, &mut pending, &mut budget, &mut num_rows).is_none() {
                break;
            }
        }
        num_rows
    }

    /// Counts the rows of a leaf, or puts the children of an interior page on
    /// `pending`, the first one last. `None` at the first row or page that is
    /// not whole.
    fn visit(
        &self,
        number: u32,
        pending: &mut Vec<u32>,
        budget: &mut usize,
        num_rows: &mut u64,
    ) -> Option<()> {
        let page = self.page(number, budget)?;
        let kind = *page.first()?;
        let num_cells = usize::from(be_u16(page, 3)?);
        match kind {
            INTERIOR_TABLE => {
                pending.push(be_u32(page, 8)?);
                for index in (0..num_cells).rev() {
                    let cell = usize::from(be_u16(page, 12 + 2 * index)?);
                    pending.push(be_u32(page, cell)?);
                }
                Some(())
            }
            LEAF_TABLE => {
                for index in 0..num_cells {
                    let cell = usize::from(be_u16(page, 8 + 2 * index)?);
                    self.follow_row(page.get(cell..)?, budget)?;
                    *num_rows += 1;
                }
                Some(())
            }
            _ => None,
        }
    }

    /// Follows one row from its cell to its last page; `None` when it is not
    /// whole.
    fn follow_row(&self, cell: &[u8], budget: &mut usize) -> Option<()> {
        let (record_len, len_len) = varint(cell)?;
        let (_id, id_len) = varint(cell.get(len_len..)?)?;
        let start = len_len + id_len;
        let record_len = usize::try_from(record_len).ok().filter(|len| *len <= self.map.len())?;
        let max_local = self.usable_len - 35;
        if record_len <= max_local {
            return cell.get(start..start + record_len).map(|_| ());
        }
        let on_overflow = self.usable_len - 4;
        let min_local = (self.usable_len - 12) * 32 / 255 - 23;
        let fitted = min_local + (record_len - min_local) % on_overflow;
        let local = if fitted <= max_local { fitted } else { min_local };
        let mut next = be_u32(cell, start + local)?;
        for _ in 0..(record_len - local).div_ceil(on_overflow) {
            next = be_u32(self.page(next, budget)?, 0)?;
        }
        Some(())
    }

    /// The usable bytes of a page that is whole.
    fn page(&self, number: u32, budget: &mut usize) -> Option<&[u8]> {
        *budget = budget.checked_sub(1)?;
        let start = usize::try_from(number).ok()?.checked_sub(1)?.checked_mul(self.page_len)?;
        self.map.get(start..)?.get(..self.page_len)?.get(..self.usable_len)
    }
}

fn be_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

fn be_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

/// A variable-length integer and how many bytes it takes, one to nine.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(8) {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    bytes.get(8).map(|byte| (value << 8 | u64::from(*byte), 9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_up_to_nine_bytes() {
        assert_eq!(varint(&[0x7f]), Some((127, 1)));
        assert_eq!(varint(&[0x81, 0x00, 0xff]), Some((128, 2)));
        assert_eq!(varint(&[0xff; 9]), Some((u64::MAX, 9)));
        assert_eq!(varint(&[0x80; 8]), None);
        assert_eq!(varint(&[]), None);
    }
}
