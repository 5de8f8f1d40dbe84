//! The CUDA implementation of [`resample`](super::resample): one kernel that reads the bytes
//! of the message. Equal to the CPU, bit for bit.

use half::f16;

use super::kernels::{
    Bayer, COLUMNS_PER_BLOCK, Packed3, Plain, ROWS_PER_BLOCK, ResampleArgs, THREADS_PER_BLOCK, Yuv,
};
use super::map::{Positions, SampleMap};
use super::{ResampleParams, check_source, picture_range};
use crate::device::cuda::{
    CudaDevice, DeviceBuffer, DeviceImage, DeviceTensor, DeviceValues, Grid, ImageLayout, In,
    Kernel, KernelSpec, Out, Stream,
};
use crate::error::Result;
use crate::ops::wire_layout::{LayoutGroup, WireLayout};
use crate::types::Size;

/// The kernels of the op on one GPU.
pub struct Kernels {
    f32: ByLayout<Packed3<f32>, Plain<f32>, Yuv<f32>, Bayer<f32>>,
    f16: ByLayout<Packed3<f16>, Plain<f16>, Yuv<f16>, Bayer<f16>>,
}

impl Kernels {
    /// Loads the kernels of a device.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { f32: ByLayout::load(device)?, f16: ByLayout::load(device)? })
    }
}

struct ByLayout<P, O, Y, B> {
    packed3: Kernel<P>,
    plain: Kernel<O>,
    yuv: Kernel<Y>,
    bayer: Kernel<B>,
}

impl<P, O, Y, B, T> ByLayout<P, O, Y, B>
where
    T: 'static,
    P: for<'a> KernelSpec<Args<'a> = ResampleArgs<'a, T>>,
    O: for<'a> KernelSpec<Args<'a> = ResampleArgs<'a, T>>,
    Y: for<'a> KernelSpec<Args<'a> = ResampleArgs<'a, T>>,
    B: for<'a> KernelSpec<Args<'a> = ResampleArgs<'a, T>>,
{
    fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self {
            packed3: device.kernel()?,
            plain: device.kernel()?,
            yuv: device.kernel()?,
            bayer: device.kernel()?,
        })
    }

    fn enqueue(&self, stream: &Stream, args: ResampleArgs<'_, T>) -> Result<()> {
        let [columns, rows] = args.network;
        let grid = Grid {
            num_blocks: [columns.div_ceil(COLUMNS_PER_BLOCK), rows.div_ceil(ROWS_PER_BLOCK)],
            threads_per_block: THREADS_PER_BLOCK,
        };
        match args.layout.group() {
            LayoutGroup::Packed3 => self.packed3.enqueue(stream, grid, args),
            LayoutGroup::Plain => self.plain.enqueue(stream, grid, args),
            LayoutGroup::Yuv => self.yuv.enqueue(stream, grid, args),
            LayoutGroup::Bayer => self.bayer.enqueue(stream, grid, args),
        }
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
        let words: Vec<u32> = match map.positions() {
            Positions::Separable { columns, rows } => {
                columns.iter().chain(rows).map(|position| position.cast_unsigned()).collect()
            }
            Positions::PerPixel(positions) => {
                positions.as_flattened().iter().map(|position| position.cast_unsigned()).collect()
            }
        };
        let mut positions = DeviceBuffer::zeros(stream, words.len())?;
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

/// Queues the resampling of the uploaded `image` into picture number `picture` of `out`, a
/// tensor `[N, 3, height, width]` of the map's size. The other pictures are left as they are.
///
/// # Errors
/// `Argument` when the image does not have the size that the map was made for, `out` does not
/// have the picture, or no image was uploaded; `Device` when a buffer belongs to another
/// stream or the launch fails.
pub fn enqueue_resample(
    stream: &Stream,
    kernels: &Kernels,
    image: &DeviceImage,
    map: &DeviceMap,
    params: &ResampleParams,
    picture: usize,
    out: &mut DeviceTensor,
) -> Result<()> {
    let layout = image.layout()?;
    check_source(layout.size, map.source)?;
    let start = picture_range(out.shape(), map.network, picture)?.start as u64;
    let bytes = image.bytes().input(stream)?;
    let positions = map.positions.input(stream)?;
    let launch = Launch { layout: &layout, map, params, start, bytes, positions };
    match out.values_mut() {
        DeviceValues::F32(out) => kernels.f32.enqueue(stream, launch.args(out.output(stream)?)),
        DeviceValues::F16(out) => kernels.f16.enqueue(stream, launch.args(out.output(stream)?)),
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
        let sides = |size: Size| [size.width, size.height];
        ResampleArgs {
            image: self.bytes,
            positions: self.positions,
            out,
            step: layout.step as u64,
            picture: self.start,
            source: sides(map.source),
            network: sides(map.network),
            reach: map.reach,
            per_pixel: u32::from(map.is_per_pixel),
            layout: WireLayout::of(layout.encoding, layout.big_endian),
            swapped: u32::from(mapping.swapped),
            alpha: mapping.normalization.alpha,
            beta: mapping.normalization.beta,
            pad: mapping.pad,
        }
    }
}
