//! Kernels that are no op: what a launch costs, for the benchmarks
//! (`kernels/empty.cu`), and a fault on purpose, to show that a channel survives
//! it (`kernels/fault.cu`).

use super::{CudaDevice, Grid, KernelSpec, Out};
use crate::error::Result;

/// The mirror of `EmptyArgs`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EmptyArgs<'a> {
    /// Not touched.
    pub nothing: Out<'a, u32>,
}

/// `empty`.
pub struct Empty;

// SAFETY: the kernel touches nothing and ends; its parameter is one slice.
unsafe impl KernelSpec for Empty {
    const NAME: &'static str = "empty";
    type Args<'a> = EmptyArgs<'a>;

    fn check(_: &Self::Args<'_>, _: &Grid) -> Result<()> {
        Ok(())
    }
}

/// The mirror of `FaultArgs`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FaultArgs {
    bad_address: u32,
}

/// `fault`.
struct Fault;

// SAFETY: the kernel touches no memory: it traps, or reads at an address that
// is mapped in no context, which the GPU answers with a fault. It ends either
// way. Its parameter is one u32.
unsafe impl KernelSpec for Fault {
    const NAME: &'static str = "fault";
    type Args<'a> = FaultArgs;

    fn check(_: &Self::Args<'_>, _: &Grid) -> Result<()> {
        Ok(())
    }
}

/// The ways to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A trap, as of a failed assertion.
    Trap,
    /// A read where no memory is.
    BadAddress,
}

/// Makes a GPU fail for everybody who holds it, and gives the error.
///
/// # Errors
/// Always: `DeviceLost` with the fault, or `Device` with what went wrong before.
pub fn fail(device: &CudaDevice, kind: FaultKind) -> Result<()> {
    let stream = device.stream()?;
    let bad_address = u32::from(kind == FaultKind::BadAddress);
    let grid = Grid { num_blocks: [1, 1], threads_per_block: 1 };
    device.kernel::<Fault>()?.enqueue(&stream, grid, FaultArgs { bad_address })?;
    stream.synchronize()
}
