//! Kernels that read images as they are received: one for each group of layouts, and for each
//! type of the output.

use std::marker::PhantomData;

use super::wire_layout::{LayoutGroup, WireLayout};
use crate::device::cuda::{CudaDevice, Grid, Kernel, KernelSpec, Stream, check_len, refused};
use det_post_types::Result;

/// The kernel `OP_packed3_T`: [`WireLayout::Packed3`].
pub struct Packed3<Op, T>(PhantomData<(Op, T)>);
/// The kernel `OP_plain_T`: the other layouts with all colours in each pixel.
pub struct Plain<Op, T>(PhantomData<(Op, T)>);
/// The kernel `OP_yuv_T`: layouts with separate luma and chroma.
pub struct Yuv<Op, T>(PhantomData<(Op, T)>);
/// The kernel `OP_bayer_T`: layouts with one colour per pixel.
pub struct Bayer<Op, T>(PhantomData<(Op, T)>);

/// The loaded kernels of an op with outputs of `T`.
pub struct ImageKernels<Op, T> {
    packed3: Kernel<Packed3<Op, T>>,
    plain: Kernel<Plain<Op, T>>,
    yuv: Kernel<Yuv<Op, T>>,
    bayer: Kernel<Bayer<Op, T>>,
}

impl<Op, T> ImageKernels<Op, T>
where
    Packed3<Op, T>: KernelSpec,
    Plain<Op, T>: KernelSpec,
    Yuv<Op, T>: KernelSpec,
    Bayer<Op, T>: KernelSpec,
{
    /// Loads the kernels of a device.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self {
            packed3: device.kernel()?,
            plain: device.kernel()?,
            yuv: device.kernel()?,
            bayer: device.kernel()?,
        })
    }

    /// Queues the kernel for images of a layout.
    ///
    /// # Errors
    /// As [`Kernel::enqueue`].
    pub fn enqueue<'a, Args>(
        &self,
        stream: &Stream,
        grid: Grid,
        layout: WireLayout,
        args: Args,
    ) -> Result<()>
    where
        Packed3<Op, T>: KernelSpec<Args<'a> = Args>,
        Plain<Op, T>: KernelSpec<Args<'a> = Args>,
        Yuv<Op, T>: KernelSpec<Args<'a> = Args>,
        Bayer<Op, T>: KernelSpec<Args<'a> = Args>,
    {
        match layout.group() {
            LayoutGroup::Packed3 => self.packed3.enqueue(stream, grid, args),
            LayoutGroup::Plain => self.plain.enqueue(stream, grid, args),
            LayoutGroup::Yuv => self.yuv.enqueue(stream, grid, args),
            LayoutGroup::Bayer => self.bayer.enqueue(stream, grid, args),
        }
    }
}

/// Checks that a kernel is that of the group of the layout, and that the `len` bytes of an
/// image have its pixels and `tail` more.
///
/// # Errors
/// `Argument` naming what is wrong.
pub fn check_image(
    kernel: &str,
    layout: WireLayout,
    [width, height]: [u32; 2],
    step: u64,
    (len, tail): (usize, usize),
) -> Result<()> {
    if kernel.split('_').nth(1) != Some(layout.group().name()) {
        return Err(refused(kernel, &format!("{layout:?} belongs to another kernel")));
    }
    let needed =
        layout.num_bytes(width as usize, height as usize, step as usize).ok_or_else(|| {
            refused(kernel, &format!("{width}x{height} of {layout:?} is not possible"))
        })?;
    check_len(kernel, "image", len, needed.saturating_add(tail))
}
