//! The CUDA implementation of [`letterbox`](super::letterbox): one kernel that reads
//! the bytes of the message, by the filter. Equal to the CPU, bit for bit.

use half::f16;

use super::kernels::{
    ANTIALIAS_BLOCK, AntialiasArgs, AntialiasOp, Axis, COLUMNS_PER_BLOCK, LetterboxArgs,
    LetterboxOp, ROWS_PER_BLOCK, Side, THREADS_PER_BLOCK,
};
use super::{LetterboxParams, network_size, place};
use crate::device::cuda::{
    CudaDevice, DeviceBuffer, DeviceTensor, DeviceValues, Grid, In, Out, Stream, not_floats,
};
use crate::image::kernels::ImageKernels;
use crate::image::wire_layout::WireLayout;
use crate::image::{DeviceImage, ImageLayout};
use det_post_types::{Letterbox, Resize, Result};

/// The kernels of the op on one GPU, by the type of the output.
pub struct Kernels {
    f32: Filters<f32>,
    f16: Filters<f16>,
}

/// Kernels by filter.
struct Filters<T> {
    bilinear: ImageKernels<LetterboxOp, T>,
    antialias: ImageKernels<AntialiasOp, T>,
}

impl Kernels {
    /// Loads the kernels of a device.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self {
            f32: Filters {
                bilinear: ImageKernels::load(device)?,
                antialias: ImageKernels::load(device)?,
            },
            f16: Filters {
                bilinear: ImageKernels::load(device)?,
                antialias: ImageKernels::load(device)?,
            },
        })
    }
}

/// The launch shape.
fn grid<T>(args: &LetterboxArgs<'_, T>) -> Grid {
    Grid {
        num_blocks: [
            args.x.network.div_ceil(COLUMNS_PER_BLOCK),
            args.y.network.div_ceil(ROWS_PER_BLOCK),
        ],
        threads_per_block: THREADS_PER_BLOCK,
    }
}

/// Queues the letterbox of the uploaded `image` into `out`, a tensor
/// `[1, 3, height, width]`, and returns its placement.
///
/// # Errors
/// `Argument` when `out` has another shape, a side of the whole content exceeds
/// [`ImageView::MAX_SIDE`](det_post_types::ImageView::MAX_SIDE) or no image was uploaded; `Device`
/// when a buffer belongs to another stream or the launch fails.
pub fn enqueue_letterbox(
    stream: &Stream,
    kernels: &Kernels,
    image: &DeviceImage,
    params: &LetterboxParams,
    out: &mut DeviceTensor,
) -> Result<Letterbox> {
    enqueue(stream, kernels, (image.layout()?, image.input(stream)?), params, out)
}

/// As [`enqueue_letterbox`], of an image of a layout in any buffer: its bytes, and
/// [`TAIL_BYTES`](crate::device::cuda::TAIL_BYTES) more that may be read.
///
/// # Errors
/// Returns the errors of [`enqueue_letterbox`]; `Argument` when the buffer is shorter.
pub fn enqueue_letterbox_of(
    stream: &Stream,
    kernels: &Kernels,
    (layout, bytes): (ImageLayout, &DeviceBuffer<u8>),
    params: &LetterboxParams,
    out: &mut DeviceTensor,
) -> Result<Letterbox> {
    enqueue(stream, kernels, (layout, bytes.input(stream)?), params, out)
}

fn enqueue(
    stream: &Stream,
    kernels: &Kernels,
    (layout, bytes): (ImageLayout, In<'_, u8>),
    params: &LetterboxParams,
    out: &mut DeviceTensor,
) -> Result<Letterbox> {
    let network = network_size(out.shape())?;
    let placed = place(layout.size, network, params.placement)?;
    match out.values_mut() {
        DeviceValues::F32(out) => {
            let Filters { bilinear, antialias } = &kernels.f32;
            let out = out.output(stream)?;
            if params.resize == Resize::Bilinear {
                let args = args(&layout, params, &placed, bytes, out);
                bilinear.enqueue(stream, grid(&args), args.layout, args)?;
            } else {
                let args = antialias_args(&layout, params, &placed, bytes, out);
                antialias.enqueue(stream, antialias_grid(&args), args.layout, args)?;
            }
        }
        DeviceValues::F16(out) => {
            let Filters { bilinear, antialias } = &kernels.f16;
            let out = out.output(stream)?;
            if params.resize == Resize::Bilinear {
                let args = args(&layout, params, &placed, bytes, out);
                bilinear.enqueue(stream, grid(&args), args.layout, args)?;
            } else {
                let args = antialias_args(&layout, params, &placed, bytes, out);
                antialias.enqueue(stream, antialias_grid(&args), args.layout, args)?;
            }
        }
        DeviceValues::I8(_) => return Err(not_floats()),
    }
    Ok(placed)
}

fn args<'a, T>(
    layout: &ImageLayout,
    params: &LetterboxParams,
    placed: &Letterbox,
    image: In<'a, u8>,
    out: Out<'a, T>,
) -> LetterboxArgs<'a, T> {
    let Letterbox { source, network, content_origin: [left, top], content } = *placed;
    let mapping = params.mapping(layout.encoding);
    LetterboxArgs {
        image,
        out,
        step: layout.step as u64,
        x: Axis::new(source.width, content.width, left, network.width),
        y: Axis::new(source.height, content.height, top, network.height),
        layout: WireLayout::of(layout.encoding, layout.big_endian),
        swapped: u32::from(mapping.swapped),
        alpha: mapping.normalization.alpha,
        beta: mapping.normalization.beta,
        pad: mapping.pad,
        reserved: 0,
    }
}

/// The launch shape with antialiasing.
fn antialias_grid<T>(args: &AntialiasArgs<'_, T>) -> Grid {
    let [threads_per_block, columns, rows] = ANTIALIAS_BLOCK;
    let num_blocks = [args.x.network.div_ceil(columns), args.y.network.div_ceil(rows)];
    Grid { num_blocks, threads_per_block }
}

fn antialias_args<'a, T>(
    layout: &ImageLayout,
    params: &LetterboxParams,
    placed: &Letterbox,
    image: In<'a, u8>,
    out: Out<'a, T>,
) -> AntialiasArgs<'a, T> {
    let Letterbox { source, network, content_origin: [left, top], content } = *placed;
    let mapping = params.mapping(layout.encoding);
    let side = |source, content, origin: i32, network| Side {
        source,
        content,
        origin: origin.cast_unsigned(),
        network,
    };
    AntialiasArgs {
        image,
        out,
        step: layout.step as u64,
        x: side(source.width, content.width, left, network.width),
        y: side(source.height, content.height, top, network.height),
        layout: WireLayout::of(layout.encoding, layout.big_endian),
        swapped: u32::from(mapping.swapped),
        alpha: mapping.normalization.alpha,
        beta: mapping.normalization.beta,
        pad: mapping.pad,
        rounded: u32::from(params.resize == Resize::Antialias8Bit),
    }
}
