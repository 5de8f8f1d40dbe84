//! The kernels of `kernels/layer_chain.cu`, by rows of a cluster.

use std::marker::PhantomData;

use super::args::{CLUSTER_BLOCKS, ChainArgs, THREADS_PER_BLOCK};
use super::check::check;
use crate::device::cuda::{
    Grid, KernelSpec, OverlappingKernel, check_threads, kernel_constant, refused,
};
use crate::error::Result;

/// Chains of so many rows per cluster.
pub struct Chain<const ROWS: u32>(PhantomData<()>);

/// What the launcher knows of a kernel.
pub trait ChainSpec: for<'a> OverlappingKernel<Args<'a> = ChainArgs<'a>> {
    /// Rows per cluster.
    const CLUSTER_ROWS: u32;
    /// Bytes of shared memory per thread block.
    const SHARED_BYTES: u32;
}

macro_rules! chains {
    ($($rows:literal, $bytes:literal: $name:literal;)+) => {$(
        impl ChainSpec for Chain<$rows> {
            const CLUSTER_ROWS: u32 = $rows;
            const SHARED_BYTES: u32 = kernel_constant!("layer_chain.cuh", $bytes);
        }

        // SAFETY: `ChainArgs` and what it consists of mirror the structs of the kernels. The
        // grid is whole clusters, as many as the rows need (checked). Columns of steps and
        // loads are below those of the rows; slices are long enough for the rows that are read
        // and written (checked). Results that are shared do not replace columns that another
        // thread block may still read (checked). Shared memory is what the kernel's layout
        // takes (asserted there). Thread blocks wait only for those of their cluster, which run
        // at the same time. Rows that are read later are not replaced while they are read, nor
        // read before they are there (checked).
        unsafe impl KernelSpec for Chain<$rows> {
            const NAME: &'static str = $name;
            type Args<'a> = ChainArgs<'a>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
                let num_blocks = args.num_rows.div_ceil($rows) * CLUSTER_BLOCKS;
                if grid.num_blocks != [num_blocks, 1] {
                    let message = format!("{:?} blocks, not {num_blocks}", grid.num_blocks);
                    return Err(refused(Self::NAME, &message));
                }
                check(Self::NAME, args)
            }
            fn shared_bytes(_args: &Self::Args<'_>) -> u32 {
                Self::SHARED_BYTES
            }
        }

        // SAFETY: before its `griddepcontrol.wait` the kernel reads its parameters and the
        // weights of layers, which the host alone writes, when it packs them, and writes its own
        // shared memory.
        unsafe impl OverlappingKernel for Chain<$rows> {}
    )+};
}

chains! {
    16, "kBytes16": "layer_chain_16_f16";
    24, "kBytes24": "layer_chain_24_f16";
    32, "kBytes32": "layer_chain_32_f16";
}
