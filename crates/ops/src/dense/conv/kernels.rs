//! The kernels of `kernels/dense/conv.cu`.

use super::args::ConvArgs;
use super::exact;
use super::tiling::{TILINGS, is_equal};
use crate::device::cuda::{CudaDevice, DependentKernel, Grid, Kernel, KernelSpec, Stream};
use det_post_types::Result;

/// Which check a kernel has.
#[derive(Clone, Copy)]
enum Kind {
    F16(usize),
    Exact(usize),
    Depthwise,
}

impl Kind {
    fn check(self, kernel: &str, args: &ConvArgs<'_>, grid: &Grid) -> Result<()> {
        match self {
            Self::F16(index) => args.check_f16(kernel, grid, &TILINGS[index]),
            Self::Exact(index) => args.check_exact(kernel, grid, &exact::TILINGS[index]),
            Self::Depthwise => args.check_depthwise(kernel, grid),
        }
    }

    fn shared_bytes(self, args: &ConvArgs<'_>) -> u32 {
        match self {
            Self::F16(index) => args.shared_bytes(&TILINGS[index]),
            Self::Exact(_) | Self::Depthwise => 0,
        }
    }
}

macro_rules! kernels {
    ($($spec:ident: $kind:expr, $name:literal;)+) => {
        $(
            #[doc = concat!("`", $name, "`.")]
            pub(super) struct $spec;

            // SAFETY: `ConvArgs` mirrors the struct of the kernels. Inputs are only of pixels within the
            // input (in f16 the sources of the others are -1; the others test each tap) and
            // of channels below the group's; outputs and residuals are of pixels below the
            // output's size and of channels below the group's. The slices have these (checked), 16
            // bytes at once where the strides are multiples of that (checked). The weights have
            // all steps or products of all columns, the tables in shared memory all steps and
            // pixels (`shared_bytes`). The patch offsets in `steps` are those of `pack`, which
            // only `Launch` uploads, for the patch in the arguments. No block waits for another; the
            // threads of a warpgroup kernel wait for copies that its first thread has queued.
            unsafe impl KernelSpec for $spec {
                const NAME: &'static str = $name;
                type Args<'a> = ConvArgs<'a>;
                fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                    $kind.check(Self::NAME, args, grid)
                }
                fn shared_bytes(args: &Self::Args<'_>) -> u32 {
                    $kind.shared_bytes(args)
                }
            }

            // SAFETY: before they wait, the kernels read weights and the table of steps, which no
            // launch writes, and write their shared memory.
            unsafe impl DependentKernel for $spec {}
        )+

        /// A kernel.
        pub(super) enum ConvKernel {
            $(#[doc = concat!("`", $name, "`.")] $spec(Kernel<$spec>),)+
        }

        impl ConvKernel {
            /// Loads a kernel by its name and allows so many bytes of shared memory.
            ///
            /// # Errors
            /// `Device` when this build has no such kernel or a block does not fit the GPU.
            pub(super) fn load(
                device: &CudaDevice,
                name: &str,
                shared_bytes: u32,
                threads: u32,
            ) -> Result<Self> {
                match name {
                    $($name => {
                        let kernel: Kernel<$spec> = device.kernel()?;
                        kernel.reserve_shared(shared_bytes, threads)?;
                        Ok(Self::$spec(kernel))
                    })+
                    _ => super::argument(format!("there is no kernel {name}")),
                }
            }

            /// Queues it behind the launches before.
            ///
            /// # Errors
            /// As [`Kernel::enqueue`].
            pub(super) fn enqueue(&self, stream: &Stream, grid: Grid, args: ConvArgs<'_>) -> Result<()> {
                match self {
                    $(Self::$spec(kernel) => kernel.enqueue_dependent(stream, grid, args),)+
                }
            }
        }

        /// Each tiling is of the kernel of its name.
        const _: () = {
            $(assert!($kind.is_of($name));)+
        };
    };
}

/// Whether the GPU, and this build for it, have the kernels of warpgroups.
///
/// # Errors
/// As [`CudaDevice::kernel_if_present`].
pub(super) fn has_warpgroups(device: &CudaDevice) -> Result<bool> {
    let kernel: Option<Kernel<Warpgroup128x64>> = device.kernel_if_present()?;
    Ok(kernel.is_some())
}

impl Kind {
    const fn is_of(self, name: &str) -> bool {
        match self {
            Self::F16(index) => is_equal(TILINGS[index].name, name),
            Self::Exact(index) => is_equal(exact::TILINGS[index].name, name),
            Self::Depthwise => true,
        }
    }
}

kernels! {
    Tile128x128: Kind::F16(0), "dense_conv_128x128x2_f16";
    Tile128x64: Kind::F16(1), "dense_conv_128x64x2_f16";
    Tile128x32: Kind::F16(2), "dense_conv_128x32x2_f16";
    Tile128x16: Kind::F16(3), "dense_conv_128x16x2_f16";
    Tile64x64: Kind::F16(4), "dense_conv_64x64x2_f16";
    Tile64x32: Kind::F16(5), "dense_conv_64x32x2_f16";
    Deep64x64: Kind::F16(6), "dense_conv_64x64x4_f16";
    Deep64x32: Kind::F16(7), "dense_conv_64x32x4_f16";
    Deep32x64: Kind::F16(8), "dense_conv_32x64x4_f16";
    Deep32x32: Kind::F16(9), "dense_conv_32x32x4_f16";
    Deep32x16: Kind::F16(10), "dense_conv_32x16x4_f16";
    Whole64x64: Kind::F16(11), "dense_conv_whole_64x64x4_f16";
    Whole64x32: Kind::F16(12), "dense_conv_whole_64x32x4_f16";
    Whole32x64: Kind::F16(13), "dense_conv_whole_32x64x4_f16";
    Whole32x32: Kind::F16(14), "dense_conv_whole_32x32x4_f16";
    Whole32x16: Kind::F16(15), "dense_conv_whole_32x16x4_f16";
    Gather128x32: Kind::F16(16), "dense_conv_gather_128x32x2_f16";
    Gather128x16: Kind::F16(17), "dense_conv_gather_128x16x2_f16";
    GatherDeep32x32: Kind::F16(18), "dense_conv_gather_32x32x4_f16";
    Window64x64: Kind::F16(19), "dense_conv_window_64x64x2_f16";
    WindowDeep32x32: Kind::F16(20), "dense_conv_window_32x32x4_f16";
    Warpgroup128x32: Kind::F16(21), "dense_conv_warpgroup_128x32_f16";
    Warpgroup128x64: Kind::F16(22), "dense_conv_warpgroup_128x64_f16";
    Warpgroup128x96: Kind::F16(23), "dense_conv_warpgroup_128x96_f16";
    Warpgroup128x128: Kind::F16(24), "dense_conv_warpgroup_128x128_f16";
    Planes128x32: Kind::F16(25), "dense_conv_gather_128x32x1_f16";
    Planes128x16: Kind::F16(26), "dense_conv_gather_128x16x1_f16";
    Exact64x64: Kind::Exact(0), "dense_conv_exact_64x64";
    Exact32x32: Kind::Exact(1), "dense_conv_exact_32x32";
    Exact64x16: Kind::Exact(2), "dense_conv_exact_64x16";
    Depthwise: Kind::Depthwise, "dense_conv_depthwise";
}
