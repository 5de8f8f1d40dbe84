//! `kernels/empty.cu`: what a launch costs, for the benchmarks.

use super::super::{Grid, KernelSpec, Out};
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
