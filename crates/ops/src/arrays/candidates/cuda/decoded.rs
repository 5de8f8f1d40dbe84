//! Decoders of outputs in memory of any owner: candidates in the total order, as arrays. Each
//! has the memory that its steps need, on one stream.

use super::super::kernels::{MotionArgs, Motions};
use super::{Columns, SurvivorColumns, Workspace, grid};
use crate::decode::anchor::AnchorOutputs;
use crate::decode::anchor::cuda::Workspace as DecodeAnchor;
use crate::decode::center::CenterTask;
use crate::decode::center::cuda::Workspace as DecodeCenter;
use crate::decode::select::{Limits, SelectCounts};
use crate::decode::streampetr::StreamPetrOutputs;
use crate::decode::streampetr::cuda::Workspace as DecodeStreamPetr;
use crate::decode::yolo::cuda::{Decoded, Selection, Workspace as DecodeYolo};
use crate::device::cuda::{DeviceBuffer, DeviceTensor, Kernel, Out, Plain, Stream};
use crate::nms::cuda::{Capacity, Suppressible, Suppression};
use crate::shared::Motion;
use crate::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{
    AnchorDecode, Box3d, Candidate, CenterDecode, Count, Kept, Nms2d, Nms3d, Result, Size,
    StreamPetrDecode, YoloLayout,
};

/// The candidates of a decoder in the total order.
pub struct Ranked<B: Suppressible> {
    candidates: DeviceCandidates<B>,
    counters: DeviceCounters,
    /// Suppresses nothing: sorts.
    order: Suppression<B>,
    arrays: Workspace<B>,
    kept: Vec<Kept>,
}

impl<B> Ranked<B>
where
    B: Columns + std::marker::Copy + Suppressible,
    Candidate<B>: Plain,
{
    /// `none` is the suppression of nothing.
    fn new(stream: &Stream, none: &B::Nms, capacity: usize) -> Result<Self> {
        let room = Capacity { candidates: capacity, classes: 1 };
        Ok(Self {
            candidates: DeviceCandidates::with_capacity(stream, capacity)?,
            counters: DeviceCounters::new(stream)?,
            order: Suppression::new(stream, none, room)?,
            arrays: Workspace::new(stream)?,
            kept: Vec::new(),
        })
    }

    /// The lists of a decoder. Clears the counters, to which a failed call may have added.
    fn lists(&mut self) -> Result<(&mut DeviceCandidates<B>, &mut DeviceCounters)> {
        self.counters.enqueue_clear()?;
        Ok((&mut self.candidates, &mut self.counters))
    }

    /// Sorts what was decoded and waits.
    fn sort(&mut self) -> Result<usize> {
        self.order.enqueue(&self.candidates)?;
        self.order.read_kept(&mut self.kept)?;
        Ok(self.kept.len())
    }

    /// The number of candidates.
    pub fn num(&self) -> usize {
        self.kept.len()
    }

    /// Waits, and returns what the last call dropped.
    ///
    /// # Errors
    /// `Device` when a copy fails.
    pub fn take_counts(&mut self) -> Result<SelectCounts> {
        let report = self.counters.take()?;
        let count = |count| report.count(count) as usize;
        Ok(SelectCounts {
            num_over_capacity: count(Count::CandidatesOverCapacity),
            num_over_top_k: count(Count::CandidatesOverTopK),
            num_nan_scores: count(Count::ScoresNan),
            num_invalid_boxes: count(Count::BoxesInvalid),
            num_unknown_classes: count(Count::ClassesUnknown),
        })
    }

    /// Queues the writing of the first candidates, best first, as many as `columns` has scores.
    ///
    /// # Errors
    /// As [`Workspace::enqueue_columns`].
    pub fn enqueue_columns(&self, columns: SurvivorColumns<'_>) -> Result<()> {
        self.arrays.enqueue_columns(&self.candidates, self.order.kept().0, columns)
    }
}

/// Outputs of a YOLO-family network to boxes `B`.
pub struct DecodedYolo<B: Suppressible> {
    decode: DecodeYolo<B>,
    /// The boxes of the last call.
    pub ranked: Ranked<B>,
}

impl<B> DecodedYolo<B>
where
    B: Columns + std::marker::Copy + Decoded + Suppressible<Nms = Nms2d>,
    Candidate<B>: Plain,
{
    /// Loads the kernels and allocates memory for outputs of `shapes` and the best `capacity`
    /// boxes, at least one, with a score of at least `score_threshold`.
    ///
    /// # Errors
    /// Returns the errors of [`decode_yolo::cuda::Workspace::new`](DecodeYolo::new); `Device` when
    /// there is not enough memory.
    pub fn new(
        stream: &Stream,
        (layout, network, num_classes): (&YoloLayout, Size, usize),
        shapes: &[&[usize]],
        score_threshold: f32,
        capacity: usize,
    ) -> Result<Self> {
        let capacity = capacity.max(1);
        let mut decode = DecodeYolo::new(stream, layout, network, num_classes, shapes)?;
        decode.set(&Selection {
            score_threshold,
            class_filter: &[],
            candidate_capacity: capacity,
            pre_nms_top_k: capacity,
        })?;
        Ok(Self { decode, ranked: Ranked::new(stream, &Nms2d::None, capacity)? })
    }

    /// Decodes, sorts and waits. Returns the number of boxes.
    ///
    /// # Errors
    /// `Argument` when the tensors are not those of the shapes; `Device` when one belongs to
    /// another stream, or a launch or earlier work fails.
    pub fn run(&mut self, outputs: &[&DeviceTensor]) -> Result<usize> {
        let (candidates, counters) = self.ranked.lists()?;
        self.decode.enqueue(outputs, candidates, counters)?;
        self.ranked.sort()
    }
}

/// The maps of a CenterPoint head to boxes in space.
pub struct DecodedCenter {
    decode: DecodeCenter,
    motions: Kernel<Motions>,
    has_points: DeviceBuffer<u32>,
    /// The boxes of the last call.
    pub ranked: Ranked<Box3d>,
}

impl DecodedCenter {
    /// Loads the kernels and allocates memory for maps of `num_cells` cells in all tasks and the
    /// best `capacity` boxes, at least one.
    ///
    /// # Errors
    /// Returns the errors of [`decode_center::cuda::Workspace`](DecodeCenter); `Device` when there
    /// is not enough memory.
    pub fn new(
        stream: &Stream,
        params: &CenterDecode,
        num_cells: usize,
        capacity: usize,
    ) -> Result<Self> {
        let capacity = capacity.max(1);
        let mut decode = DecodeCenter::new(stream, params, num_cells, capacity)?;
        decode.set(params, limits(capacity))?;
        Ok(Self {
            decode,
            motions: stream.device().kernel()?,
            has_points: one(stream)?,
            ranked: Ranked::new(stream, &Nms3d::None, capacity)?,
        })
    }

    /// Decodes, sorts and waits. Returns the number of boxes.
    ///
    /// # Errors
    /// As [`decode_center::cuda::Workspace::enqueue`](DecodeCenter::enqueue).
    pub fn run(&mut self, tasks: &[CenterTask<&DeviceTensor>]) -> Result<usize> {
        let (candidates, counters) = self.ranked.lists()?;
        self.decode.enqueue(tasks, &self.has_points, candidates, counters)?;
        self.ranked.sort()
    }

    /// Queues the writing of the velocities of the first boxes, two numbers each, and, unless
    /// `variances` is empty, of [`NUM_VARIANCES`](super::NUM_VARIANCES) each: of the centre,
    /// the sizes, the yaw and the velocity. What the head does not have is 0.
    ///
    /// # Errors
    /// `Argument` when the arrays are of other lengths or more boxes; `Device` when the launch
    /// fails.
    pub fn enqueue_motions(&self, velocities: Out<'_, f32>, variances: Out<'_, f32>) -> Result<()> {
        enqueue_motions(&self.motions, &self.ranked, self.decode.motions(), velocities, variances)
    }
}

/// The outputs of a StreamPETR head to boxes in space.
pub struct DecodedStreamPetr {
    decode: DecodeStreamPetr,
    motions: Kernel<Motions>,
    /// The boxes of the last call.
    pub ranked: Ranked<Box3d>,
}

impl DecodedStreamPetr {
    /// Loads the kernels and allocates memory for `num_queries` queries and the best `capacity`
    /// boxes, at least one.
    ///
    /// # Errors
    /// Returns the errors of [`decode_streampetr::cuda::Workspace`](DecodeStreamPetr); `Device`
    /// when there is not enough memory.
    pub fn new(
        stream: &Stream,
        params: &StreamPetrDecode,
        num_queries: usize,
        capacity: usize,
    ) -> Result<Self> {
        let capacity = capacity.max(1);
        Ok(Self {
            decode: DecodeStreamPetr::new(stream, params, num_queries, capacity, limits(capacity))?,
            motions: stream.device().kernel()?,
            ranked: Ranked::new(stream, &Nms3d::None, capacity)?,
        })
    }

    /// Decodes, sorts and waits. Returns the number of boxes.
    ///
    /// # Errors
    /// As [`decode_streampetr::cuda::Workspace::enqueue`](DecodeStreamPetr::enqueue).
    pub fn run(&mut self, outputs: &StreamPetrOutputs<&DeviceTensor>) -> Result<usize> {
        let (candidates, counters) = self.ranked.lists()?;
        self.decode.enqueue(outputs, candidates, counters)?;
        self.ranked.sort()
    }

    /// Queues the writing of the velocities of the first boxes, two numbers each.
    ///
    /// # Errors
    /// As [`DecodedCenter::enqueue_motions`].
    pub fn enqueue_velocities(&self, velocities: Out<'_, f32>) -> Result<()> {
        let motions = self.decode.motions();
        enqueue_motions(&self.motions, &self.ranked, motions, velocities, Out::empty())
    }
}

fn enqueue_motions(
    kernel: &Kernel<Motions>,
    ranked: &Ranked<Box3d>,
    (motions, places): (&DeviceBuffer<Motion>, &DeviceBuffer<u32>),
    velocities: Out<'_, f32>,
    variances: Out<'_, f32>,
) -> Result<()> {
    let stream = &ranked.arrays.stream;
    let num = velocities.len() / 2;
    let args = MotionArgs {
        kept: ranked.order.kept().0.input(stream)?,
        places: places.input(stream)?,
        motions: motions.input(stream)?,
        velocities,
        variances,
    };
    kernel.enqueue(stream, grid(num), args)
}

/// The maps of an anchor head to boxes in space.
pub struct DecodedAnchor {
    decode: DecodeAnchor,
    has_points: DeviceBuffer<u32>,
    /// The boxes of the last call.
    pub ranked: Ranked<Box3d>,
}

impl DecodedAnchor {
    /// Loads the kernels and allocates memory for maps of `num_cells` cells and the best
    /// `capacity` boxes, at least one.
    ///
    /// # Errors
    /// Returns the errors of [`decode_anchor::cuda::Workspace`](DecodeAnchor); `Device` when there
    /// is not enough memory.
    pub fn new(
        stream: &Stream,
        params: &AnchorDecode,
        num_cells: usize,
        capacity: usize,
    ) -> Result<Self> {
        let capacity = capacity.max(1);
        let mut decode = DecodeAnchor::new(stream, params, num_cells)?;
        decode.set(params, limits(capacity))?;
        let ranked = Ranked::new(stream, &Nms3d::None, capacity)?;
        Ok(Self { decode, has_points: one(stream)?, ranked })
    }

    /// Decodes, sorts and waits. Returns the number of boxes.
    ///
    /// # Errors
    /// As [`decode_anchor::cuda::Workspace::enqueue`](DecodeAnchor::enqueue).
    pub fn run(&mut self, outputs: &AnchorOutputs<&DeviceTensor>) -> Result<usize> {
        let (candidates, counters) = self.ranked.lists()?;
        self.decode.enqueue(outputs, &self.has_points, candidates, counters)?;
        self.ranked.sort()
    }
}

fn limits(capacity: usize) -> Limits {
    Limits { candidate_capacity: capacity, pre_nms_top_k: capacity }
}

/// The number of voxels of a frame with points: its maps mean something.
fn one(stream: &Stream) -> Result<DeviceBuffer<u32>> {
    let mut one = DeviceBuffer::zeros(stream, 1)?;
    one.write(&[1])?;
    Ok(one)
}
