//! The CUDA implementation of [`layer_norm`](super::layer_norm()): one launch, equal to the CPU.

use super::LayerNorm;
use super::kernels::{LayerNormArgs, Rows};
use crate::dense::Region;
use crate::dense::arena::{Arena, InPlace, check_disjoint};
use crate::dense::launch::{Source, Target, check_floats, row_grid};
use crate::dense::layout::RowLayout;
use crate::device::cuda::{CudaDevice, Kernel};
use det_post_types::Result;

/// The loaded kernel.
pub struct LayerNorms {
    rows: Kernel<Rows>,
}

impl LayerNorms {
    /// Loads the kernel.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { rows: device.kernel()? })
    }

    /// Queues the normalization of a tensor of f16 or f32 to one of either.
    ///
    /// # Errors
    /// `Argument` when the axes are not there, dims differ, or the windows are not within their
    /// buffers, overlap (input and output may be the same), are of i32 or have 2^32 elements;
    /// `Device` when the launch fails.
    pub fn enqueue(
        &self,
        arena: &Arena,
        norm: &LayerNorm<'_>,
        input: &Region,
        output: &Region,
    ) -> Result<()> {
        norm.check(input, output)?;
        let (input, output) = (arena.input(input)?, arena.output(output)?);
        let scales = arena.input(&norm.scales)?;
        let shifts = norm.shifts.as_ref().map(|shifts| arena.input(shifts)).transpose()?;
        let shifts_or_scales = shifts.unwrap_or(scales);
        check_disjoint("layer_norm", &[&output], &[&input], InPlace::SameWindow)?;
        check_disjoint("layer_norm", &[&output], &[&scales, &shifts_or_scales], InPlace::Refused)?;
        let tensors = [&input, &scales, &shifts_or_scales];
        check_floats("layer_norm", &tensors.map(|tensor| tensor.element()))?;
        check_floats("layer_norm", &[output.element()])?;
        let target = &output.region().window;
        if target.is_empty() {
            return Ok(());
        }
        let [source, of_scales, of_shifts] = tensors.map(|tensor| tensor.region().window.strides());
        let strides = [source, of_scales, of_shifts, target.strides()];
        let layout = RowLayout::new(target.dims(), norm.axes, strides)?;
        let args = LayerNormArgs {
            source: Source::new(&input, layout.strides[0]),
            scales: Source::new(&scales, layout.strides[1]),
            shifts: shifts
                .map_or_else(Source::none, |shifts| Source::new(&shifts, layout.strides[2])),
            target: Target::new(&output, layout.strides[3]),
            dims: layout.dims,
            epsilon: norm.epsilon,
            reserved: 0,
        };
        self.rows.enqueue_dependent(arena.stream(), row_grid(&args.dims), args)
    }
}
