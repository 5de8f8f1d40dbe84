//! The counters of a frame in device memory.

use crate::device::cuda::{DeviceBuffer, MappedBuffer, Out, Stream, kernel_constant};
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

/// The positions that `kernels/shared/counters.cuh` names.
const _: () = {
    let positions = [
        (Count::PointsNotFinite, kernel_constant!("shared/counters.cuh", "kPointsNotFinite")),
        (Count::PointsOutOfRange, kernel_constant!("shared/counters.cuh", "kPointsOutOfRange")),
        (Count::PointsOverCapacity, kernel_constant!("shared/counters.cuh", "kPointsOverCapacity")),
        (Count::SweepsDropped, kernel_constant!("shared/counters.cuh", "kSweepsDropped")),
        (Count::PointsOverVoxel, kernel_constant!("shared/counters.cuh", "kPointsOverVoxel")),
        (
            Count::PointsOverVoxelCapacity,
            kernel_constant!("shared/counters.cuh", "kPointsOverVoxelCapacity"),
        ),
        (Count::VoxelsOverCapacity, kernel_constant!("shared/counters.cuh", "kVoxelsOverCapacity")),
        (Count::SitesOverCapacity, kernel_constant!("shared/counters.cuh", "kSitesOverCapacity")),
        (Count::SitesWithoutOutput, kernel_constant!("shared/counters.cuh", "kSitesWithoutOutput")),
        (
            Count::CandidatesOverCapacity,
            kernel_constant!("shared/counters.cuh", "kCandidatesOverCapacity"),
        ),
        (Count::CandidatesOverTopK, kernel_constant!("shared/counters.cuh", "kCandidatesOverTopK")),
        (
            Count::DetectionsOverLimit,
            kernel_constant!("shared/counters.cuh", "kDetectionsOverLimit"),
        ),
        (Count::ScoresOutOfRange, kernel_constant!("shared/counters.cuh", "kScoresOutOfRange")),
        (Count::ScoresNan, kernel_constant!("shared/counters.cuh", "kScoresNan")),
        (Count::BoxesInvalid, kernel_constant!("shared/counters.cuh", "kBoxesInvalid")),
        (Count::ClassesUnknown, kernel_constant!("shared/counters.cuh", "kClassesUnknown")),
        (Count::MemoryCleared, kernel_constant!("shared/counters.cuh", "kMemoryCleared")),
        (Count::RowStepsCorrected, kernel_constant!("shared/counters.cuh", "kRowStepsCorrected")),
        (Count::ImagesMislabelled, kernel_constant!("shared/counters.cuh", "kImagesMislabelled")),
    ];
    assert!(positions.len() == Count::ALL.len(), "kernels/shared/counters.cuh names all counters");
    assert!(Count::ALL.len() == kernel_constant!("shared/counters.cuh", "kNumCounters") as usize);
    let mut i = 0;
    while i < positions.len() {
        assert!(positions[i].0 as u32 == positions[i].1, "a counter has another position");
        i += 1;
    }
};
