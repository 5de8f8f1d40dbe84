//! The CUDA implementation of [`resample`](super::resample): one kernel that reads the bytes
//! of the message. Equal to the CPU, bit for bit.

use half::f16;

use super::kernels::{
    COLUMNS_PER_BLOCK, ROWS_PER_BLOCK, ResampleArgs, ResampleOp, THREADS_PER_BLOCK,
};
use super::map::{Positions, SampleMap};
use super::{ResampleParams, check_source, image_range};
use crate::device::cuda::{
    CudaDevice, DeviceBuffer, DeviceTensor, DeviceValues, Grid, In, Out, Stream, not_floats,
};
use crate::image::kernels::ImageKernels;
use crate::image::wire_layout::WireLayout;
use crate::image::{DeviceImage, ImageLayout};
use det_post_types::{Result, Size};

/// The kernels of the op on one GPU.
pub struct Kernels {
    f32: ImageKernels<ResampleOp, f32>,
    f16: ImageKernels<ResampleOp, f16>,
}

impl Kernels {
    /// Loads the kernels of a device.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { f32: ImageKernels::load(device)?, f16: ImageKernels::load(device)? })
    }
}

/// The launch shape.
fn grid<T>(args: &ResampleArgs<'_, T>) -> Grid {
    Grid {
        num_blocks: [
            args.network_width.div_ceil(COLUMNS_PER_BLOCK),
            args.network_height.div_ceil(ROWS_PER_BLOCK),
        ],
        threads_per_block: THREADS_PER_BLOCK,
    }
}

/// A [`SampleMap`] in device memory.
#[derive(Debug)]
pub struct DeviceMap {
    source: Size,
    network: Size,
    reach: [u32; 2],
    is_per_pixel: bool,
    positions: DeviceBuffer<u32>,
}

impl DeviceMap {
    /// Copies a map to a device and waits: when the calibration of a camera changes, not for
    /// frames.
    ///
    /// # Errors
    /// `Device` when there is not enough memory or the copy fails.
    pub fn new(stream: &Stream, map: &SampleMap) -> Result<Self> {
        Self::replacing(None, stream, map)
    }

    /// As [`DeviceMap::new`], in the memory of a map of the same stream if that is large enough:
    /// memory of a stream is freed with the stream.
    ///
    /// # Errors
    /// As [`DeviceMap::new`].
    pub fn replacing(old: Option<Self>, stream: &Stream, map: &SampleMap) -> Result<Self> {
        let words: Vec<u32> = match map.positions() {
            Positions::Separable { columns, rows } => {
                columns.iter().chain(rows).map(|position| position.cast_unsigned()).collect()
            }
            Positions::PerPixel(positions) => {
                positions.as_flattened().iter().map(|position| position.cast_unsigned()).collect()
            }
        };
        let mut positions = match old {
            Some(old) if old.positions.len() >= words.len() => old.positions,
            _ => DeviceBuffer::zeros(stream, words.len())?,
        };
        positions.write(&words)?;
        Ok(Self {
            source: map.source(),
            network: map.network(),
            reach: map.reach(),
            is_per_pixel: matches!(map.positions(), Positions::PerPixel(_)),
            positions,
        })
    }

    /// Size of the images that are read.
    pub fn source(&self) -> Size {
        self.source
    }
}

/// Queues the resampling of the uploaded `image` into image number `index` of `out`, a
/// tensor `[N, 3, height, width]` of the map's size. The other images are left as they are.
///
/// # Errors
/// `Argument` when the image does not have the size that the map was made for, `out` does not
/// have image `index`, or no image was uploaded; `Device` when a buffer belongs to another
/// stream or the launch fails.
pub fn enqueue_resample(
    stream: &Stream,
    kernels: &Kernels,
    image: &DeviceImage,
    map: &DeviceMap,
    params: &ResampleParams,
    index: usize,
    out: &mut DeviceTensor,
) -> Result<()> {
    let image = (image.layout()?, image.input(stream)?);
    enqueue(stream, kernels, image, map, params, index, out)
}

/// As [`enqueue_resample`], of an image of a layout in any buffer: its bytes, and
/// [`TAIL_BYTES`](crate::device::cuda::TAIL_BYTES) more that may be read.
///
/// # Errors
/// Returns the errors of [`enqueue_resample`]; `Argument` when the buffer is shorter.
pub fn enqueue_resample_of(
    stream: &Stream,
    kernels: &Kernels,
    (layout, bytes): (ImageLayout, &DeviceBuffer<u8>),
    map: &DeviceMap,
    params: &ResampleParams,
    index: usize,
    out: &mut DeviceTensor,
) -> Result<()> {
    enqueue(stream, kernels, (layout, bytes.input(stream)?), map, params, index, out)
}

fn enqueue(
    stream: &Stream,
    kernels: &Kernels,
    (layout, bytes): (ImageLayout, In<'_, u8>),
    map: &DeviceMap,
    params: &ResampleParams,
    index: usize,
    out: &mut DeviceTensor,
) -> Result<()> {
    check_source(layout.size, map.source)?;
    let start = image_range(out.shape(), map.network, index)?.start as u64;
    let positions = map.positions.input(stream)?;
    let launch = Launch { layout: &layout, map, params, start, bytes, positions };
    match out.values_mut() {
        DeviceValues::F32(out) => {
            let args = launch.args(out.output(stream)?);
            kernels.f32.enqueue(stream, grid(&args), args.layout, args)
        }
        DeviceValues::F16(out) => {
            let args = launch.args(out.output(stream)?);
            kernels.f16.enqueue(stream, grid(&args), args.layout, args)
        }
        DeviceValues::I8(_) => Err(not_floats()),
    }
}

/// What a launch is made of, apart from the output.
struct Launch<'a> {
    layout: &'a ImageLayout,
    map: &'a DeviceMap,
    params: &'a ResampleParams,
    start: u64,
    bytes: In<'a, u8>,
    positions: In<'a, u32>,
}

impl<'a> Launch<'a> {
    fn args<T>(&self, out: Out<'a, T>) -> ResampleArgs<'a, T> {
        let Self { layout, map, .. } = self;
        let mapping = self.params.mapping(layout.encoding);
        let [reach_x, reach_y] = map.reach;
        ResampleArgs {
            image: self.bytes,
            positions: self.positions,
            out,
            step: layout.step as u64,
            first: self.start,
            width: map.source.width,
            height: map.source.height,
            network_width: map.network.width,
            network_height: map.network.height,
            reach_x,
            reach_y,
            per_pixel: u32::from(map.is_per_pixel),
            layout: WireLayout::of(layout.encoding, layout.big_endian),
            swapped: u32::from(mapping.swapped),
            alpha: mapping.normalization.alpha,
            beta: mapping.normalization.beta,
            pad: mapping.pad,
        }
    }
}
