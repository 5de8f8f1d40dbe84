//! Kernels that belong to no operation (`kernels/shared/diagnostic.cu`): an empty one, to
//! measure the cost of a launch, and one that faults, to test that channels
//! survive that.

use super::{CudaDevice, Grid, KernelSpec, Out, mirrors};
use det_post_types::Result;

/// The mirror of `EmptyArgs`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct EmptyArgs<'a> {
    /// Not accessed.
    pub nothing: Out<'a, u32>,
}

/// `empty`: does nothing.
pub struct Empty;

// SAFETY: the kernel accesses nothing and terminates; its parameter is one slice.
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

mirrors!(EmptyArgs<'_>, "shared/diagnostic.cu", "EmptyArgs");
mirrors!(FaultArgs, "shared/diagnostic.cu", "FaultArgs");

/// `fault`.
struct Fault;

// SAFETY: the kernel accesses no memory: it traps, or reads an address that no
// context maps, which is a fault. It terminates either way. Its parameter is one
// u32.
unsafe impl KernelSpec for Fault {
    const NAME: &'static str = "fault";
    type Args<'a> = FaultArgs;

    fn check(_: &Self::Args<'_>, _: &Grid) -> Result<()> {
        Ok(())
    }
}

/// The kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// A trap, as after a failed assertion.
    Trap,
    /// A read of unmapped memory.
    BadAddress,
}

/// Makes a GPU fail for every user of it, and returns the error.
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
