//! The CUDA implementation of [`keypoints`](super::keypoints): one kernel behind the gathering of the
//! boxes, which writes to mapped host memory. Equal to the CPU, bit for bit.

use half::f16;

use super::kernels::{KeypointArgs, KeypointSettings, Keypoints, THREADS_PER_BLOCK};
use super::{KeypointMapping, num_rows, settle};
use crate::device::cuda::{
    DeviceBuffer, DeviceFloat, DeviceTensor, Grid, Kernel, MappedBuffer, Stream, blocks,
};
use det_post_types::{ElementType, Keypoint, KeypointRows, Result};

/// Kernels and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    f32: Kernel<Keypoints<f32>>,
    f16: Kernel<Keypoints<f16>>,
    memory: Memory,
    max_detections: usize,
}

struct Memory {
    rows: KeypointRows,
    settings: DeviceBuffer<KeypointSettings>,
    keypoints: MappedBuffer<Keypoint>,
}

impl Memory {
    fn args<'a, T: DeviceFloat>(
        &'a mut self,
        stream: &Stream,
        output: &'a DeviceTensor,
        (sources, num): (&'a DeviceBuffer<u32>, &'a DeviceBuffer<u32>),
    ) -> Result<KeypointArgs<'a, T>> {
        Ok(KeypointArgs {
            output: output.input(stream)?,
            sources: sources.input(stream)?,
            num: num.input(stream)?,
            settings: self.settings.input(stream)?,
            keypoints: self.keypoints.output(stream)?,
            num_rows: num_rows(output.shape(), &self.rows)? as u32,
            num_columns: self.rows.num_columns() as u32,
            first: self.rows.first as u32,
            num_keypoints: self.rows.num_keypoints as u32,
            num_values: self.rows.num_values as u32,
            is_planes: u32::from(self.rows.is_planes),
        })
    }
}

impl Workspace {
    /// Loads the kernels and allocates memory for the keypoints of `max_detections` detections.
    /// They are all (0, 0) before [`Workspace::set`].
    ///
    /// # Errors
    /// `Device` when this build has no such kernels or there is not enough memory.
    pub fn new(stream: &Stream, rows: &KeypointRows, max_detections: usize) -> Result<Self> {
        let num = max_detections.saturating_mul(rows.num_keypoints);
        let memory = Memory {
            rows: *rows,
            settings: DeviceBuffer::zeros(stream, 1)?,
            keypoints: MappedBuffer::zeros(stream, num)?,
        };
        let device = stream.device();
        let (f32, f16) = (device.kernel()?, device.kernel()?);
        Ok(Self { stream: stream.clone(), f32, f16, memory, max_detections })
    }

    /// Writes the transform to source pixels to the device and waits: required when the size of
    /// the image changes. Recorded graphs use the values last set.
    ///
    /// # Errors
    /// `Device` when the copy fails.
    pub fn set(&mut self, mapping: &KeypointMapping) -> Result<()> {
        self.memory.settings.write(&[KeypointSettings {
            scale: mapping.source_from_network.scale,
            offset: mapping.source_from_network.offset,
            size: [mapping.source.width as f32, mapping.source.height as f32],
        }])
    }

    /// Queues the keypoints of the first `num` rows `sources` of `output`, both in device memory.
    ///
    /// # Errors
    /// `Argument` when the output is not of the shape of the rows, or there are more places of
    /// sources than detections; `Device` when a buffer belongs to another stream or the launch
    /// fails.
    pub fn enqueue(
        &mut self,
        output: &DeviceTensor,
        rows: (&DeviceBuffer<u32>, &DeviceBuffer<u32>),
    ) -> Result<()> {
        let Self { stream, f32, f16, memory, max_detections } = self;
        let num_threads = max_detections.saturating_mul(memory.rows.num_keypoints);
        let grid = Grid {
            num_blocks: [blocks(num_threads, THREADS_PER_BLOCK).max(1), 1],
            threads_per_block: THREADS_PER_BLOCK,
        };
        match output.element() {
            ElementType::F16 => f16.enqueue(stream, grid, memory.args(stream, output, rows)?),
            _ => f32.enqueue(stream, grid, memory.args(stream, output, rows)?),
        }
    }

    /// Replaces the contents of `out` by the keypoints of the first `num_detections` detections,
    /// after the caller has waited for the queued frame. Nothing is allocated if `out` has the
    /// capacity. Returns of how many a number is not finite.
    pub fn read_complete(&self, num_detections: usize, out: &mut Vec<Keypoint>) -> usize {
        out.clear();
        let num = num_detections.min(self.max_detections) * self.memory.rows.num_keypoints;
        self.memory.keypoints.copy_to(num, out);
        settle(out)
    }
}
