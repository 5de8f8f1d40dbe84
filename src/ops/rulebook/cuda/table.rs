//! Tables in device memory.

use crate::device::cuda::{DeviceBuffer, In, Stream};
use crate::error::Result;
use crate::ops::rulebook::{Geometry, Mode, Table};

/// The rulebook of a convolution in device memory: a [`Table`] with room for the
/// capacity of the output's level between its groups of words.
#[derive(Debug)]
pub struct DeviceTable {
    pub(super) mode: Mode,
    pub(super) geometry: Geometry,
    pub(super) taps_per_word: usize,
    pub(super) input_capacity: usize,
    pub(super) capacity: usize,
    pub(super) stride: usize,
    pub(super) words: DeviceBuffer<u32>,
}

impl DeviceTable {
    /// A table between levels of these capacities.
    ///
    /// # Errors
    /// `Argument` when the geometry is wrong; `Device` when there is not enough memory.
    pub fn new(
        stream: &Stream,
        geometry: &Geometry,
        mode: Mode,
        [input_capacity, capacity]: [usize; 2],
    ) -> Result<Self> {
        geometry.check(mode)?;
        let taps_per_word = Table::new(geometry, mode, 0).taps_per_word();
        let stride = capacity.next_multiple_of(32);
        let num_groups = geometry.num_taps() / taps_per_word;
        let words = DeviceBuffer::zeros(stream, num_groups.saturating_mul(stride))?;
        let geometry = *geometry;
        Ok(Self { mode, geometry, taps_per_word, input_capacity, capacity, stride, words })
    }

    /// Number of taps.
    pub fn num_taps(&self) -> usize {
        self.geometry.num_taps()
    }

    /// The most input rows; every row of the table is below it.
    pub fn input_capacity(&self) -> usize {
        self.input_capacity
    }

    /// The most output rows.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of device memory.
    pub fn num_bytes(&self) -> usize {
        size_of::<u32>() * self.words.len()
    }

    /// Waits, then copies the words of the first `len` rows to the host, as
    /// [`Table::words`] has them: for tests.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn read(&self, len: usize) -> Result<Vec<u32>> {
        let words = self.words.read()?;
        Ok(words.chunks(self.stride.max(1)).flat_map(|group| &group[..len]).copied().collect())
    }

    pub(in crate::ops) fn words(&self, stream: &Stream) -> Result<In<'_, u32>> {
        self.words.input(stream)
    }

    /// Taps per word, groups of words per row, and words from one group to the next.
    pub(in crate::ops) fn layout(&self) -> [u32; 3] {
        let num_groups = self.num_taps() / self.taps_per_word;
        [self.taps_per_word as u32, num_groups as u32, self.stride as u32]
    }
}
