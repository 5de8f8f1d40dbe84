//! The CUDA implementation of [`candidate_arrays`](super::candidate_arrays()), and survivors as
//! arrays: equal to the CPU, bit for bit.

mod decoded;

pub use self::decoded::{DecodedAnchor, DecodedCenter, DecodedStreamPetr, DecodedYolo, Ranked};
use super::kernels::{
    ArrayArgs, ColumnArgs, Copy, SurvivorArgs, Survivors, THREADS_PER_BLOCK, WriteColumns,
};
pub use super::kernels::{Columns, NUM_VARIANCES};
use super::{POSSIBLE_CLASSES, argument, lengths};
use crate::device::cuda::{
    DeviceBuffer, Grid, In, Kernel, MappedBuffer, Out, Plain, Stream, blocks,
};
use crate::shared::DeviceCandidates;
use det_post_types::{Candidate, Kept, Result};

/// Arrays of candidates in device memory.
#[derive(Clone, Copy, Debug)]
pub struct DeviceArrays<'a> {
    /// Boxes, row by row.
    pub boxes: In<'a, f32>,
    /// Numbers of a row.
    pub num_columns: usize,
    /// One per box.
    pub scores: In<'a, f32>,
    /// One per box, or none.
    pub classes: DeviceClasses<'a>,
}

/// The classes of [`DeviceArrays`]: the bits of signed integers.
#[derive(Clone, Copy, Debug)]
pub enum DeviceClasses<'a> {
    /// All are of class 0.
    None,
    /// 32-bit integers.
    I32(In<'a, u32>),
    /// 64-bit integers.
    I64(In<'a, u64>),
}

/// Arrays of survivors in device memory, of one length.
#[derive(Clone, Copy, Debug)]
pub struct SurvivorColumns<'a> {
    /// Boxes, row by row.
    pub boxes: Out<'a, f32>,
    /// Scores as decoded.
    pub scores: Out<'a, f32>,
    /// Classes, and positions in the network's output.
    pub ids: SurvivorIds<'a>,
}

/// Classes and positions of [`SurvivorColumns`].
#[derive(Clone, Copy, Debug)]
pub enum SurvivorIds<'a> {
    /// Unsigned integers of 32 bits.
    U32 {
        /// Classes.
        classes: Out<'a, u32>,
        /// Positions.
        sources: Out<'a, u32>,
    },
    /// The bits of signed integers of 64 bits.
    I64 {
        /// Classes.
        classes: Out<'a, u64>,
        /// Positions.
        sources: Out<'a, u64>,
    },
}

/// Kernels of the op on one stream, for boxes `B`.
pub struct Workspace<B> {
    stream: Stream,
    copy: Kernel<Copy<B>>,
    columns: Kernel<WriteColumns<B>>,
    survivors: Kernel<Survivors>,
    /// The number of the last call with a class out of range.
    refused: MappedBuffer<u32>,
    call: u32,
}

impl<B: Columns + Clone + std::marker::Copy> Workspace<B>
where
    Candidate<B>: Plain,
{
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels or there is not enough memory.
    pub fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        Ok(Self {
            stream: stream.clone(),
            copy: device.kernel()?,
            columns: device.kernel()?,
            survivors: device.kernel()?,
            refused: MappedBuffer::zeros(stream, 1)?,
            call: 0,
        })
    }

    /// Queues the copying of arrays into `out`. [`Workspace::check_classes`] tells whether all
    /// classes were in range.
    ///
    /// # Errors
    /// `Argument` when there are not as many boxes, scores and classes, or more than the
    /// capacity of `out`; `Device` when a buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        arrays: &DeviceArrays<'_>,
        out: &mut DeviceCandidates<B>,
    ) -> Result<()> {
        let DeviceArrays { boxes, num_columns, scores, classes } = *arrays;
        let (classes32, classes64) = match classes {
            DeviceClasses::None => (In::empty(), In::empty()),
            DeviceClasses::I32(classes) => (classes, In::empty()),
            DeviceClasses::I64(classes) => (In::empty(), classes),
        };
        let num = scores.len();
        let num_classes = match classes {
            DeviceClasses::None => num,
            _ => classes32.len() + classes64.len(),
        };
        if num_columns == 0 || boxes.len() != num.saturating_mul(num_columns) || num_classes != num
        {
            return lengths(boxes.len() / num_columns.max(1), num, num_classes);
        }
        if num > out.capacity() {
            return argument(format!("{num} boxes; at most {} fit", out.capacity()));
        }
        self.call = self.call.wrapping_add(1).max(1);
        let stream = &self.stream;
        let args = ArrayArgs {
            boxes,
            scores,
            classes32,
            classes64,
            candidates: out.items.output(stream)?,
            num: out.num.output(stream)?,
            refused: self.refused.output(stream)?,
            num_columns: u32::try_from(num_columns).unwrap_or(u32::MAX),
            call: self.call,
        };
        self.copy.enqueue(stream, grid(num), args)
    }

    /// Whether all classes of the last call were in range; the caller has waited for the
    /// stream.
    ///
    /// # Errors
    /// `Argument` when one was not.
    pub fn check_classes(&self) -> Result<()> {
        if self.refused.get(0) == Some(self.call) {
            return argument(format!("a class is out of range; {POSSIBLE_CLASSES}"));
        }
        Ok(())
    }

    /// Queues the copying of the first survivors into `indices`, as many as it has values, and of
    /// their scores into `scores`, as many as it has.
    ///
    /// # Errors
    /// `Argument` when there is no memory of so many survivors; `Device` when a buffer belongs to
    /// another stream or the launch fails.
    pub fn enqueue_survivors(
        &mut self,
        kept: &DeviceBuffer<Kept>,
        indices: Out<'_, u64>,
        scores: Out<'_, f32>,
    ) -> Result<()> {
        let num = indices.len();
        let args = SurvivorArgs { kept: kept.input(&self.stream)?, indices, scores };
        self.survivors.enqueue(&self.stream, grid(num), args)
    }

    /// Queues the copying of the first survivors among `candidates` into `columns`, as many as
    /// it has scores.
    ///
    /// # Errors
    /// `Argument` when the columns are not of one length or there is no memory of so many
    /// survivors; `Device` when a buffer belongs to another stream or the launch fails.
    pub fn enqueue_columns(
        &self,
        candidates: &DeviceCandidates<B>,
        kept: &DeviceBuffer<Kept>,
        columns: SurvivorColumns<'_>,
    ) -> Result<()> {
        let SurvivorColumns { boxes, scores, ids } = columns;
        let num = scores.len();
        let (short, long) = match ids {
            SurvivorIds::U32 { classes, sources } => {
                ([classes, sources], [Out::empty(), Out::empty()])
            }
            SurvivorIds::I64 { classes, sources } => {
                ([Out::empty(), Out::empty()], [classes, sources])
            }
        };
        // The kernel leaves out arrays that are empty.
        let lens = match ids {
            SurvivorIds::U32 { .. } => short.map(|ids| ids.len()),
            SurvivorIds::I64 { .. } => long.map(|ids| ids.len()),
        };
        if lens != [num; 2] {
            return lengths(num, num, lens[0].min(lens[1]));
        }
        let args = ColumnArgs {
            candidates: candidates.items.input(&self.stream)?,
            kept: kept.input(&self.stream)?,
            boxes,
            scores,
            classes64: long[0],
            sources64: long[1],
            classes32: short[0],
            sources32: short[1],
        };
        self.columns.enqueue(&self.stream, grid(scores.len()), args)
    }
}

fn grid(num: usize) -> Grid {
    Grid {
        num_blocks: [blocks(num, THREADS_PER_BLOCK).max(1), 1],
        threads_per_block: THREADS_PER_BLOCK,
    }
}
