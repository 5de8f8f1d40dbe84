//! Which input row each tap of each output row reads.

use super::{Geometry, Mode};

/// The rulebook of a convolution: per output row and tap the input row.
///
/// A word joins one output row to a *group* of taps: the three along the last
/// axis where they are neighbours in ascending order, else a single one
/// ([`Table::taps_per_word`]). Sites in ascending order put neighbours along the
/// last axis in consecutive rows, so that a word tells all three:
///
/// | bits | content |
/// |---|---|
/// | 0, 1, 2 | whether the first, second, third tap of the group has a site |
/// | 3..=31 | the input row of the first tap that has one |
///
/// A word is 0 where none has. Words are stored group by group: the word of
/// `row` and `group` is `words[group * len + row]`.
#[derive(Clone, Debug)]
pub struct Table {
    mode: Mode,
    geometry: Geometry,
    taps_per_word: usize,
    capacity: usize,
    len: usize,
    num_input_rows: usize,
    words: Vec<u32>,
}

impl Table {
    /// Number of bits below the row, which tell which taps have a site.
    pub const PRESENT_BITS: u32 = 3;

    /// A table of no rows, with memory for `capacity` output rows.
    pub fn new(geometry: &Geometry, mode: Mode, capacity: usize) -> Self {
        let taps_per_word = Self::taps_per_word_of(geometry, mode);
        let num_groups = geometry.num_taps() / taps_per_word;
        Self {
            mode,
            geometry: *geometry,
            taps_per_word,
            capacity,
            len: 0,
            num_input_rows: 0,
            words: Vec::with_capacity(capacity * num_groups),
        }
    }

    /// Taps of a group: 3 where the kernel has three taps along the last axis,
    /// not dilated, and inputs ascend with taps; else 1.
    pub fn taps_per_word_of(geometry: &Geometry, mode: Mode) -> usize {
        let ascending = matches!(mode, Mode::Submanifold | Mode::Strided);
        if ascending && geometry.kernel[2] == 3 && geometry.dilation[2] == 1 { 3 } else { 1 }
    }

    /// The mode that it was made for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The geometry that it was made for.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Number of taps.
    pub fn num_taps(&self) -> usize {
        self.geometry.num_taps()
    }

    /// Taps of a group, 1 or 3; tap `t` is in group `t / taps_per_word`.
    pub fn taps_per_word(&self) -> usize {
        self.taps_per_word
    }

    /// Number of output rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no output rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most output rows that can be held.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of input rows; every row of the table is below it.
    pub fn num_input_rows(&self) -> usize {
        self.num_input_rows
    }

    /// The words, group by group.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The input row that a tap of an output row reads.
    ///
    /// # Panics
    /// When there is no such row or tap.
    #[inline]
    pub fn input_row(&self, row: usize, tap: usize) -> Option<u32> {
        let (group, place) = (tap / self.taps_per_word, tap % self.taps_per_word);
        let word = self.words[group * self.len..][..self.len][row];
        let bit = 1_u32 << place;
        let num_before = (word & (bit - 1)).count_ones();
        (word & bit != 0).then(|| (word >> Self::PRESENT_BITS) + num_before)
    }

    /// Number of pairs of each tap.
    pub fn pairs_per_tap(&self) -> Vec<usize> {
        let pairs_of =
            |tap| (0..self.len()).filter(|&row| self.input_row(row, tap).is_some()).count();
        (0..self.num_taps()).map(pairs_of).collect()
    }

    /// Makes it a table of `len` rows. Returns its words, to be written, all of
    /// them.
    pub(super) fn start(&mut self, num_input_rows: usize, len: usize) -> &mut [u32] {
        self.num_input_rows = num_input_rows;
        self.len = len;
        self.words.resize(len * (self.geometry.num_taps() / self.taps_per_word), 0);
        &mut self.words
    }
}
