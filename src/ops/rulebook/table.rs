//! Which input row each tap of each output row reads.

use super::{Geometry, Mode};

/// How the rows of a table are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TableLayout {
    /// One word for the three taps along the last axis. Sites in ascending
    /// order put neighbours along that axis in consecutive rows, so that the
    /// word `first << 3 | present` tells all three: bit `k2` of `present` is
    /// set where that tap has a site, and `first` is the row of the first of
    /// them. 0 where there is none.
    RowTriples,
    /// One word a tap: the row, or [`Table::NO_ROW`].
    Taps,
}

impl TableLayout {
    /// The layout of a geometry: triples where the taps along the last axis are
    /// three neighbours in ascending order.
    pub fn of(geometry: &Geometry, mode: Mode) -> Self {
        let ascending = matches!(mode, Mode::Submanifold | Mode::Strided);
        if ascending && geometry.kernel[2] == 3 && geometry.dilation[2] == 1 {
            Self::RowTriples
        } else {
            Self::Taps
        }
    }

    /// Words of one output row.
    pub fn words_per_row(self, geometry: &Geometry) -> usize {
        match self {
            Self::RowTriples => geometry.num_taps() / 3,
            Self::Taps => geometry.num_taps(),
        }
    }
}

/// The rulebook of a convolution: per output row and tap the input row.
///
/// Words are stored by output row: word `group` of row `m` is
/// `words[m * words_per_row + group]`, where a group is a tap or a triple of
/// consecutive taps.
#[derive(Clone, Debug)]
pub struct Table {
    mode: Mode,
    geometry: Geometry,
    layout: TableLayout,
    words_per_row: usize,
    capacity: usize,
    num_input_rows: usize,
    words: Vec<u32>,
}

impl Table {
    /// A tap without a site, in [`TableLayout::Taps`].
    pub const NO_ROW: u32 = u32::MAX;

    /// A table of no rows, with memory for `capacity` output rows.
    pub fn new(geometry: &Geometry, mode: Mode, capacity: usize) -> Self {
        let layout = TableLayout::of(geometry, mode);
        let words_per_row = layout.words_per_row(geometry);
        Self {
            mode,
            geometry: *geometry,
            layout,
            words_per_row,
            capacity,
            num_input_rows: 0,
            words: Vec::with_capacity(capacity * words_per_row),
        }
    }

    /// The mode that it was made for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The geometry that it was made for.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// How rows are stored.
    pub fn layout(&self) -> TableLayout {
        self.layout
    }

    /// Number of taps.
    pub fn num_taps(&self) -> usize {
        self.geometry.num_taps()
    }

    /// Number of output rows.
    pub fn len(&self) -> usize {
        self.words.len() / self.words_per_row
    }

    /// Whether there are no output rows.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The most output rows that can be held.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of input rows; every row of the table is below it.
    pub fn num_input_rows(&self) -> usize {
        self.num_input_rows
    }

    /// The stored words.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Words of one output row.
    pub fn words_per_row(&self) -> usize {
        self.words_per_row
    }

    /// The input row that a tap of an output row reads.
    ///
    /// # Panics
    /// When there is no such row or tap.
    #[inline]
    pub fn input_row(&self, row: usize, tap: usize) -> Option<u32> {
        let words = &self.words[row * self.words_per_row..][..self.words_per_row];
        match self.layout {
            TableLayout::RowTriples => {
                let (word, bit) = (words[tap / 3], 1_u32 << (tap % 3));
                let before = (word & (bit - 1)).count_ones();
                (word & bit != 0).then_some((word >> 3) + before)
            }
            TableLayout::Taps => Some(words[tap]).filter(|&row| row != Self::NO_ROW),
        }
    }

    /// Number of pairs of each tap.
    pub fn pairs_per_tap(&self) -> Vec<usize> {
        let pairs_of =
            |tap| (0..self.len()).filter(|&row| self.input_row(row, tap).is_some()).count();
        (0..self.num_taps()).map(pairs_of).collect()
    }

    /// Removes all rows; the words of the next ones are to be appended.
    pub(super) fn start(&mut self, num_input_rows: usize) -> &mut Vec<u32> {
        self.num_input_rows = num_input_rows;
        self.words.clear();
        &mut self.words
    }
}
