//! Tables in device memory.

use super::OnStream;
use crate::device::cuda::{DeviceBuffer, In, Stream};
use crate::sparse::rulebook::{Geometry, Mode, Table};
use det_post_types::{Error, ErrorKind, Result};

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
        let words = DeviceBuffer::zeros(stream, Self::num_words_for(geometry, mode, capacity))?;
        Self::in_memory(words, geometry, mode, [input_capacity, capacity])
    }

    /// A table in memory of any owner, of [`Self::num_words_for`]: no pairs.
    ///
    /// # Errors
    /// `Argument` when the geometry is wrong or there is less memory; `Device` when it cannot be
    /// cleared.
    pub fn in_memory(
        mut words: DeviceBuffer<u32>,
        geometry: &Geometry,
        mode: Mode,
        [input_capacity, capacity]: [usize; 2],
    ) -> Result<Self> {
        geometry.check(mode)?;
        let num_words = Self::num_words_for(geometry, mode, capacity);
        if words.len() < num_words {
            let message = format!("{} words, a table of {num_words} is required", words.len());
            return Err(Error::new(ErrorKind::Argument, "rulebook", message));
        }
        let taps_per_word = Table::taps_per_word_of(geometry, mode);
        let (stride, geometry) = (stride_of(capacity), *geometry);
        words.enqueue_clear()?;
        Ok(Self { mode, geometry, taps_per_word, input_capacity, capacity, stride, words })
    }

    /// Words of [`Self::in_memory`].
    pub fn num_words_for(geometry: &Geometry, mode: Mode, capacity: usize) -> usize {
        let num_groups = geometry.num_taps() / Table::taps_per_word_of(geometry, mode);
        num_groups.saturating_mul(stride_of(capacity))
    }

    /// The same table for the work of another stream of the same GPU, which the caller orders
    /// with that of this one.
    ///
    /// # Errors
    /// `Device` when the stream is of another GPU.
    pub fn on(&self, stream: &Stream) -> Result<OnStream<'_, Self>> {
        Ok(OnStream::new(Self { words: self.words.on(stream)?, ..*self }))
    }

    /// Makes it a table between levels of other capacities, without pairs. Returns whether there
    /// is memory for it; if not, it stays as it is.
    ///
    /// # Errors
    /// `Device` when the memory cannot be cleared.
    pub fn resize(&mut self, [input_capacity, capacity]: [usize; 2]) -> Result<bool> {
        if self.words.len() < Self::num_words_for(&self.geometry, self.mode, capacity) {
            return Ok(false);
        }
        (self.input_capacity, self.capacity) = (input_capacity, capacity);
        self.stride = stride_of(capacity);
        self.words.enqueue_clear()?;
        Ok(true)
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
        // The memory may serve a larger table.
        let num_groups = self.num_taps() / self.taps_per_word;
        let groups = words.chunks(self.stride.max(1)).take(num_groups);
        Ok(groups.flat_map(|group| &group[..len]).copied().collect())
    }

    pub(crate) fn words(&self, stream: &Stream) -> Result<In<'_, u32>> {
        self.words.input(stream)
    }

    /// Taps per word, groups of words per row, and words from one group to the next.
    pub(crate) fn layout(&self) -> [u32; 3] {
        let num_groups = self.num_taps() / self.taps_per_word;
        [self.taps_per_word as u32, num_groups as u32, self.stride as u32]
    }
}

/// Words from one group to the next.
fn stride_of(capacity: usize) -> usize {
    capacity.next_multiple_of(32)
}
