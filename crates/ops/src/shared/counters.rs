//! The counters of a frame in device memory.

use crate::device::cuda::{DeviceBuffer, MappedBuffer, Out, Stream, kernel_constant};
use det_post_kernels::{enumerator, num_enumerators};
use det_post_types::{Count, FrameReport, Result};

/// What a frame drops on the device: a `u32` for each [`Count`], at its position
/// in [`Count::ALL`].
///
/// The kernels of an op add to the entries of what they drop. The last kernel of the
/// frame copies all entries, without knowing their meaning, to memory that the host
/// reads, and clears them: they need no launch, no copy and no wait of their own. After
/// a frame that ended before its last kernel they are cleared by
/// [`DeviceCounters::enqueue_clear`]. Entries that only the host counts stay 0.
///
/// Frames in flight share the entries, since their work is in the order of the stream, and
/// publish to separate memory ([`DeviceCounters::select`]).
#[derive(Debug)]
pub struct DeviceCounters {
    entries: DeviceBuffer<u32>,
    /// Of each frame that may be in flight.
    published: Vec<MappedBuffer<u32>>,
    selected: usize,
    stream: Stream,
}

/// The slices that the last kernel of a frame works on, of the same length.
#[derive(Clone, Copy, Debug)]
pub struct PublishedCounters<'a> {
    /// The entries, read and cleared.
    pub entries: Out<'a, u32>,
    /// Their copies, in memory that the host reads.
    pub published: Out<'a, u32>,
}

impl DeviceCounters {
    /// Counters that are all 0.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn new(stream: &Stream) -> Result<Self> {
        Ok(Self {
            entries: DeviceBuffer::zeros(stream, Count::ALL.len())?,
            published: vec![MappedBuffer::zeros(stream, Count::ALL.len())?],
            selected: 0,
            stream: stream.clone(),
        })
    }

    /// Selects the frame whose last kernel publishes and whose counters are read from now on: 0,
    /// and others once memory for them is there, which is allocated here.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn select(&mut self, frame: usize) -> Result<()> {
        while self.published.len() <= frame {
            self.published.push(MappedBuffer::zeros(&self.stream, Count::ALL.len())?);
        }
        self.selected = frame;
        Ok(())
    }

    /// The entries that a kernel on `stream` adds to.
    ///
    /// # Errors
    /// `Device` when the counters belong to another stream.
    pub fn output(&mut self, stream: &Stream) -> Result<Out<'_, u32>> {
        self.entries.output(stream)
    }

    /// What the last kernel of a frame, on `stream`, copies and clears.
    ///
    /// # Errors
    /// `Device` when the counters belong to another stream.
    pub fn publish(&mut self, stream: &Stream) -> Result<PublishedCounters<'_>> {
        let Self { entries, published, selected, .. } = self;
        Ok(PublishedCounters {
            entries: entries.output(stream)?,
            published: published[*selected].output(stream)?,
        })
    }

    /// Adds what the last kernel published to a report; the caller has waited for
    /// the stream.
    pub fn add_to(&self, report: &mut FrameReport) {
        for (index, &count) in Count::ALL.iter().enumerate() {
            let published = &self.published[self.selected];
            report.add_count(count, published.get(index).unwrap_or(0) as usize);
        }
    }

    /// Bytes that the last kernel writes to the host.
    pub fn num_bytes(&self) -> usize {
        size_of::<u32>() * self.entries.len()
    }

    /// Queues the clearing of all entries, after a frame that ended before its last
    /// kernel.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub fn enqueue_clear(&mut self) -> Result<()> {
        self.entries.enqueue_clear()
    }

    /// Waits, reads the entries and clears them: for tests of single ops, not for frames.
    ///
    /// # Errors
    /// `Device` when earlier work or a copy fails.
    pub fn take(&mut self) -> Result<FrameReport> {
        let mut report = FrameReport::new();
        for (&count, num) in Count::ALL.iter().zip(self.entries.read()?) {
            report.add_count(count, num as usize);
        }
        self.entries.enqueue_clear()?;
        Ok(report)
    }
}

/// `kernels/shared/counters.cuh` names the counters that kernels add to, at their positions.
const _: () = {
    let text = det_post_kernels::source("shared/counters.cuh");
    let (mut i, mut num_named) = (0, 0);
    while i < Count::ALL.len() {
        if let Some(position) = enumerator(text, Count::ALL[i].name()) {
            assert!(position as usize == i, "a counter has another position");
            num_named += 1;
        }
        i += 1;
    }
    assert!(
        num_named == num_enumerators(text),
        "kernels/shared/counters.cuh names another counter"
    );
    assert!(Count::ALL.len() <= kernel_constant!("shared/counters.cuh", "kMaxCounters") as usize);
};
