//! A table from the cells of a frame to the indices of their voxels.

/// An open-addressing table from cells to numbers that is cleared in constant time.
///
/// Cells are numbered from 0 in the order of insertion. The table stores the number
/// plus a base that is larger than all values of earlier frames: an entry below the base
/// is empty.
///
/// If the table has an entry for every cell of the grid, the cell is the index of its
/// entry, which keeps neighbouring points in neighbouring memory. Larger grids are
/// hashed, by runs of cells for the same reason; the table is then at most half full.
#[derive(Clone, Debug)]
pub(super) struct CellTable {
    entries: Vec<Entry>,
    /// The stored value of number 0 in this frame.
    base: u32,
    /// Cells inserted in this frame.
    num_cells: u32,
    /// The shift from a hash to a slot; `None` if the cell is the slot.
    hash_shift: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    cell: u32,
    number: u32,
}

/// Bits of the cells in a run, which share a cache line of the table.
const RUN_BITS: u32 = 3;

impl CellTable {
    /// A table for `num_cells` cells, of which a frame inserts at most `max_touched`.
    pub(super) fn new(num_cells: u64, max_touched: usize) -> Self {
        let num_cells = usize::try_from(num_cells).unwrap_or(usize::MAX);
        let needed = max_touched.max(1 << RUN_BITS).saturating_mul(2);
        let (len, hashed) = if num_cells <= needed.next_power_of_two() {
            (num_cells, false)
        } else {
            (needed.next_power_of_two(), true)
        };
        let hash_shift = hashed.then(|| u32::BITS - (len.trailing_zeros() - RUN_BITS));
        Self { entries: vec![Entry::default(); len], base: 1, num_cells: 0, hash_shift }
    }

    /// Removes all cells.
    pub(super) fn clear(&mut self) {
        self.base += self.num_cells;
        self.num_cells = 0;
        // A frame inserts at most as many numbers as there are entries.
        if u32::MAX - self.base <= self.entries.len() as u32 {
            self.entries.fill(Entry::default());
            self.base = 1;
        }
    }

    /// The number of a cell, and whether the cell was inserted by this call.
    #[inline]
    pub(super) fn number_of(&mut self, cell: u32) -> (u32, bool) {
        let mut slot = self.first_slot(cell);
        loop {
            let entry = &mut self.entries[slot];
            if entry.number < self.base {
                let number = self.num_cells;
                *entry = Entry { cell, number: self.base + number };
                self.num_cells += 1;
                return (number, true);
            }
            if entry.cell == cell {
                return (entry.number - self.base, false);
            }
            slot += 1;
            if slot == self.entries.len() {
                slot = 0;
            }
        }
    }

    #[inline]
    fn first_slot(&self, cell: u32) -> usize {
        match self.hash_shift {
            None => cell as usize,
            Some(shift) => {
                // Fibonacci hashing of the run: 2^32 over the golden ratio.
                let run = (cell >> RUN_BITS).wrapping_mul(0x9E37_79B9) >> shift;
                (run << RUN_BITS | cell & ((1 << RUN_BITS) - 1)) as usize
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_numbered_as_they_come() {
        for num_cells in [100, 1 << 31] {
            let mut table = CellTable::new(num_cells, 8);
            for _ in 0..3 {
                table.clear();
                let numbers = [7, 99, 7, 0, 99].map(|cell| table.number_of(cell));
                assert_eq!(numbers, [(0, true), (1, true), (0, false), (2, true), (1, false)]);
            }
        }
    }

    #[test]
    fn a_full_hashed_table_wraps_around() {
        // Cells whose runs collide: the hash sees only the run.
        let mut table = CellTable::new(1 << 31, 8);
        assert_eq!(table.entries.len(), 16);
        for cell in 0..16 {
            assert_eq!(table.number_of(cell * 16 + 15), (cell, true));
        }
        for cell in 0..16 {
            assert_eq!(table.number_of(cell * 16 + 15), (cell, false));
        }
    }

    #[test]
    fn running_out_of_numbers_starts_over() {
        let mut table = CellTable::new(10, 8);
        table.number_of(3);
        table.base = u32::MAX - 12;
        table.number_of(4);
        table.clear();
        assert_eq!(table.base, 1);
        assert_eq!(table.number_of(4), (0, true));
    }
}
