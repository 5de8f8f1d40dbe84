//! The CUDA implementation of [`letterbox`](super::letterbox): one kernel that reads
//! the bytes of the message. Equal to the CPU, bit for bit.

use half::f16;

use super::kernels::{
    Axis, Bayer, COLUMNS_PER_BLOCK, LetterboxArgs, Packed3, Plain, ROWS_PER_BLOCK,
    THREADS_PER_BLOCK, Yuv,
};
use super::{LetterboxParams, network_size, place};
use crate::device::cuda::{
    CudaDevice, DeviceImage, DeviceTensor, DeviceValues, Grid, ImageLayout, In, Kernel, KernelSpec,
    Out, Stream,
};
use crate::error::Result;
use crate::ops::wire_layout::{LayoutGroup, WireLayout};
use crate::types::Letterbox;

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
    P: for<'a> KernelSpec<Args<'a> = LetterboxArgs<'a, T>>,
    O: for<'a> KernelSpec<Args<'a> = LetterboxArgs<'a, T>>,
    Y: for<'a> KernelSpec<Args<'a> = LetterboxArgs<'a, T>>,
    B: for<'a> KernelSpec<Args<'a> = LetterboxArgs<'a, T>>,
{
    fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self {
            packed3: device.kernel()?,
            plain: device.kernel()?,
            yuv: device.kernel()?,
            bayer: device.kernel()?,
        })
    }

    fn enqueue(&self, stream: &Stream, args: LetterboxArgs<'_, T>) -> Result<()> {
        let grid = Grid {
            num_blocks: [
                args.x.network.div_ceil(COLUMNS_PER_BLOCK),
                args.y.network.div_ceil(ROWS_PER_BLOCK),
            ],
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

/// Queues the letterbox of the uploaded `image` into `out`, a tensor
/// `[1, 3, height, width]`, and returns its placement.
///
/// # Errors
/// `Argument` when `out` has another shape, a side of the whole content exceeds
/// [`ImageView::MAX_SIDE`](crate::types::ImageView::MAX_SIDE) or no image was uploaded; `Device` when a
/// buffer belongs to another stream or the launch fails.
pub fn enqueue_letterbox(
    stream: &Stream,
    kernels: &Kernels,
    image: &DeviceImage,
    params: &LetterboxParams,
    out: &mut DeviceTensor,
) -> Result<Letterbox> {
    let network = network_size(out.shape())?;
    let layout = image.layout()?;
    let placed = place(layout.size, network, params.placement)?;
    let bytes = image.bytes().input(stream)?;
    match out.values_mut() {
        DeviceValues::F32(out) => {
            let out = out.output(stream)?;
            kernels.f32.enqueue(stream, args(&layout, params, &placed, bytes, out))?;
        }
        DeviceValues::F16(out) => {
            let out = out.output(stream)?;
            kernels.f16.enqueue(stream, args(&layout, params, &placed, bytes, out))?;
        }
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
