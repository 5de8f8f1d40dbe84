//! The CUDA implementation of [`top_k`](super::top_k()): one launch, equal to the CPU.

use super::kernels::{Rows, THREADS_PER_BLOCK, TopKArgs};
use super::{Chosen, TopK};
use crate::dense::Region;
use crate::dense::arena::{Arena, InPlace, check_disjoint};
use crate::dense::launch::{Source, Target, check_floats, check_indices};
use crate::dense::layout::RowLayout;
use crate::device::cuda::{CudaDevice, Grid, Kernel};
use det_post_types::Result;

/// The loaded kernel.
pub struct TopKs {
    rows: Kernel<Rows>,
}

impl TopKs {
    /// Loads the kernel.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { rows: device.kernel()? })
    }

    /// Queues the choice from a tensor of f16 or f32.
    ///
    /// # Errors `Argument` when the axis is not there, the dims do not fit, more than
    /// [`MAX_CHOSEN`](super::MAX_CHOSEN) values or than there are are wanted, or the windows are
    /// not within their buffers, overlap, are of other elements or have 2^32; `Device` when the
    /// launch fails.
    pub fn enqueue(&self, arena: &Arena, op: &TopK, input: &Region, chosen: &Chosen) -> Result<()> {
        let num_chosen = op.check(input, chosen)?;
        let input = arena.input(input)?;
        check_floats("top_k", &[input.element()])?;
        let values = chosen.values.as_ref().map(|region| arena.output(region)).transpose()?;
        let positions = chosen.positions.as_ref().map(|region| arena.output(region)).transpose()?;
        let outputs: Vec<_> = values.iter().chain(&positions).collect();
        check_disjoint("top_k", &outputs, &[&input], InPlace::Refused)?;
        if let Some(values) = &values {
            check_floats("top_k", &[values.element()])?;
        }
        if let Some(positions) = &positions {
            check_indices("top_k", positions.element())?;
        }
        let source = &input.region().window;
        if num_chosen == 0 || source.is_empty() {
            return Ok(());
        }
        let strides_of = |region: &Option<Region>| match region {
            Some(region) => region.window.strides().to_vec(),
            None => vec![0; source.rank()],
        };
        let [of_values, of_positions] = [chosen.values, chosen.positions].map(|of| strides_of(&of));
        let strides = [source.strides(), &of_values[..], &of_positions[..]];
        let layout = RowLayout::new(source.dims(), &[op.axis], strides)?;
        let args = TopKArgs {
            source: Source::new(&input, layout.strides[0]),
            values: values.map_or_else(Target::none, |to| Target::new(&to, layout.strides[1])),
            positions: positions
                .map_or_else(Target::none, |to| Target::new(&to, layout.strides[2])),
            dims: layout.dims,
            num_chosen: num_chosen as u32,
            is_smallest: u32::from(op.is_smallest),
        };
        let num_blocks = [args.dims.num_rows, 1];
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        self.rows.enqueue_dependent(arena.stream(), grid, args)
    }
}
