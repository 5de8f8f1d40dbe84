//! The CUDA implementation of [`overlaps`](super::overlaps()) and of points in boxes: equal to the
//! CPU.

use super::kernels::{
    Aligned, InSpace, OverlapArgs, PointArgs, Points, Rotated, THREADS_PER_BLOCK,
};
use super::{BoxKind, Measure, Pairing, argument, check_first, check_points, num_overlaps};
use crate::device::cuda::{Grid, In, Kernel, Out, Stream, blocks};
use det_post_types::Result;

/// The kernels of the op on one stream.
pub struct Workspace {
    stream: Stream,
    aligned: Kernel<Aligned>,
    rotated: Kernel<Rotated>,
    in_space: Kernel<InSpace>,
    points: Kernel<Points>,
}

impl Workspace {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        Ok(Self {
            stream: stream.clone(),
            aligned: device.kernel()?,
            rotated: device.kernel()?,
            in_space: device.kernel()?,
            points: device.kernel()?,
        })
    }

    /// The stream of all work.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Queues the writing of all of `out`, as [`overlaps`](super::overlaps()).
    ///
    /// # Errors
    /// As [`overlaps`](super::overlaps()); `Argument` for 2^32 second boxes or more; `Device` when
    /// the launch fails.
    pub fn enqueue(
        &self,
        [first, second]: [In<'_, f32>; 2],
        kind: BoxKind,
        measure: Measure,
        pairing: Pairing,
        overlaps: Out<'_, f32>,
    ) -> Result<()> {
        let num = num_overlaps(kind, pairing, [first.len(), second.len()])?;
        if overlaps.len() != num {
            return argument(format!(
                "the result has {} values for {num} overlaps",
                overlaps.len()
            ));
        }
        if num == 0 {
            return Ok(());
        }
        let num_second = match pairing {
            Pairing::Rows => 0,
            Pairing::All => second.len() / kind.num_columns(),
        };
        let Ok(num_second) = u32::try_from(num_second) else {
            return argument(format!("{num_second} boxes, fewer than 2^32 are required"));
        };
        let offset = match kind {
            BoxKind::Aligned { offset } => offset,
            BoxKind::Rotated | BoxKind::InSpace => 0.0,
        };
        let measure = measure.number();
        let args =
            OverlapArgs { first, second, overlaps, num_second, measure, offset, reserved: 0 };
        match kind {
            BoxKind::Aligned { .. } => self.aligned.enqueue(&self.stream, threads(num), args),
            BoxKind::Rotated => self.rotated.enqueue(&self.stream, threads(num), args),
            BoxKind::InSpace => self.in_space.enqueue(&self.stream, threads(num), args),
        }
    }

    /// Queues the writing of all of `in_boxes`, as [`points_in_boxes`](super::points_in_boxes()).
    ///
    /// # Errors
    /// As there; `Device` when the launch fails.
    pub fn enqueue_points(
        &self,
        [points, boxes]: [In<'_, f32>; 2],
        in_boxes: Out<'_, i32>,
    ) -> Result<()> {
        check_points([points.len(), boxes.len()], in_boxes.len())?;
        if in_boxes.is_empty() {
            return Ok(());
        }
        let args = PointArgs { points, boxes, in_boxes, first_box: Out::empty() };
        self.points.enqueue(&self.stream, threads(points.len() / 3), args)
    }

    /// Queues the writing of all of `first_box`, as
    /// [`first_boxes_of_points`](super::first_boxes_of_points()).
    ///
    /// # Errors
    /// As there; `Device` when the launch fails.
    pub fn enqueue_first(
        &self,
        [points, boxes]: [In<'_, f32>; 2],
        first_box: Out<'_, i32>,
    ) -> Result<()> {
        check_first([points.len(), boxes.len()], first_box.len())?;
        if first_box.is_empty() {
            return Ok(());
        }
        let args = PointArgs { points, boxes, in_boxes: Out::empty(), first_box };
        self.points.enqueue(&self.stream, threads(points.len() / 3), args)
    }
}

/// A thread per item.
fn threads(num: usize) -> Grid {
    Grid { num_blocks: [blocks(num, THREADS_PER_BLOCK), 1], threads_per_block: THREADS_PER_BLOCK }
}
