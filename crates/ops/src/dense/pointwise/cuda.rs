//! The CUDA implementation of [`pointwise`](super::pointwise()): one launch for up to four
//! programs.

use super::instruction::Place;
use super::kernels::{
    ELEMENT, Elements, InstructionArgs, JobArgs, Jobs, MAX_JOBS, NEIGHBOURS, PointwiseArgs,
    THREADS_PER_BLOCK, TRANSPOSED, code,
};
use super::{
    Job, MAX_CONSTANTS, MAX_INSTRUCTIONS, MAX_LIVE, MAX_SOURCES, MAX_TARGETS, Op, Program,
};
use crate::dense::arena::{Arena, InPlace, Input, Output, check_disjoint};
use crate::dense::launch::{Source, Target, VECTOR, is_aligned};
use crate::dense::layout::Layout;
use crate::dense::{Activation, Region};
use crate::device::cuda::{CudaDevice, Grid, Kernel, refused};
use det_post_types::{ElementType, Result};

const MAX_TENSORS: usize = MAX_SOURCES + MAX_TARGETS;

/// The loaded kernels.
pub struct Pointwise {
    jobs: Kernel<Jobs>,
    elements: Kernel<Elements>,
}

/// The tensors of a job.
struct Tensors<'a> {
    sources: Vec<Input<'a>>,
    targets: Vec<Output<'a>>,
}

impl Pointwise {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { jobs: device.kernel()?, elements: device.kernel()? })
    }

    /// Queues a program on windows of the same dims.
    ///
    /// # Errors
    /// As [`Self::enqueue_jobs`].
    pub fn enqueue(
        &self,
        arena: &Arena,
        program: &Program,
        sources: &[Region],
        targets: &[Region],
    ) -> Result<()> {
        self.enqueue_jobs(arena, &[Job { program, sources, targets }])
    }

    /// Queues programs, each on windows of the same dims. They are independent: none reads what
    /// another writes. A launch has up to four.
    ///
    /// # Errors
    /// `Argument` when windows are not those of their program, not of the same dims, not within
    /// their buffers, overlap otherwise than a source and a target of one job that are the same, or
    /// have 2^32 elements; `Device` when a launch fails.
    pub fn enqueue_jobs(&self, arena: &Arena, jobs: &[Job<'_>]) -> Result<()> {
        let mut tensors = Vec::with_capacity(jobs.len());
        for job in jobs {
            tensors.push(Tensors::of(arena, job)?);
        }
        check_independent(&tensors)?;
        let mut args = Vec::with_capacity(jobs.len());
        for (job, tensors) in jobs.iter().zip(&tensors) {
            if !job.targets[0].window.is_empty() {
                args.push(tensors.job(job.program)?);
            }
        }
        args.chunks(MAX_JOBS).try_for_each(|jobs| self.launch(arena, jobs))
    }

    fn launch(&self, arena: &Arena, jobs: &[JobArgs<'_>]) -> Result<()> {
        let mut all = [jobs[0]; MAX_JOBS];
        let mut end_block = 0_u32;
        for (to, job) in all.iter_mut().zip(jobs) {
            let end = job.num_blocks().and_then(|num| end_block.checked_add(num));
            end_block = end.ok_or_else(|| refused("dense_pointwise_jobs", "too many elements"))?;
            *to = JobArgs { end_block, ..*job };
        }
        let args = PointwiseArgs { jobs: all, num_jobs: jobs.len() as u32, reserved: 0 };
        let grid = Grid { num_blocks: [end_block, 1], threads_per_block: THREADS_PER_BLOCK };
        match jobs.iter().any(|job| job.shape == NEIGHBOURS) {
            true => self.jobs.enqueue_dependent(arena.stream(), grid, args),
            false => self.elements.enqueue_dependent(arena.stream(), grid, args),
        }
    }
}

/// Refuses targets that overlap each other, a source of another job, or a source of their job
/// unless they are the same window.
fn check_independent(jobs: &[Tensors<'_>]) -> Result<()> {
    let targets: Vec<&Output<'_>> = jobs.iter().flat_map(|job| &job.targets).collect();
    check_disjoint("pointwise", &targets, &[], InPlace::Refused)?;
    for (at, job) in jobs.iter().enumerate() {
        let own: Vec<&Output<'_>> = job.targets.iter().collect();
        for (other_at, other) in jobs.iter().enumerate() {
            let sources: Vec<&Input<'_>> = other.sources.iter().collect();
            let in_place = if at == other_at { InPlace::SameWindow } else { InPlace::Refused };
            check_disjoint("pointwise", &own, &sources, in_place)?;
        }
    }
    Ok(())
}

impl<'a> Tensors<'a> {
    fn of(arena: &'a Arena, job: &Job<'_>) -> Result<Self> {
        let is_integer =
            |region: &Region| Ok(arena.buffer(region.buffer)?.element() == ElementType::I32);
        job.program.check(job.sources, job.targets, is_integer)?;
        let sources = job.sources.iter().map(|region| arena.input(region));
        let targets = job.targets.iter().map(|region| arena.output(region));
        Ok(Self {
            sources: sources.collect::<Result<_>>()?,
            targets: targets.collect::<Result<_>>()?,
        })
    }

    /// The program in the shape that the windows permit.
    fn job(&self, program: &Program) -> Result<JobArgs<'a>> {
        let layout = self.layout();
        if program.is_copy()
            && let Some(layout) = transposed(&layout)
        {
            return self.args(program, &layout, TRANSPOSED);
        }
        match self.vectors(&layout) {
            Some(layout) => self.args(program, &layout, NEIGHBOURS),
            None => self.args(program, &layout, ELEMENT),
        }
    }

    /// Dimensions in the order of the first target.
    fn layout(&self) -> Layout<MAX_TENSORS> {
        let mut strides: [&[usize]; MAX_TENSORS] = [&[]; MAX_TENSORS];
        for (to, source) in strides.iter_mut().zip(&self.sources) {
            *to = source.region().window.strides();
        }
        for (to, target) in strides[MAX_SOURCES..].iter_mut().zip(&self.targets) {
            *to = target.region().window.strides();
        }
        let dims = self.targets[0].region().window.dims();
        Layout::new(dims, strides).ordered_by(MAX_SOURCES).merged()
    }

    /// The layout of threads with neighbouring elements; `None` where a tensor does not have them
    /// side by side, or at addresses of 16 bytes.
    fn vectors(&self, layout: &Layout<MAX_TENSORS>) -> Option<Layout<MAX_TENSORS>> {
        let last = layout.rank - 1;
        let of = |at: usize, is_address_aligned: bool, may_repeat: bool| {
            let strides = &layout.strides[at];
            (may_repeat && strides[last] == 0)
                || strides[last] == 1
                    && is_aligned(is_address_aligned, strides[..last].iter().copied())
        };
        let mut sources = self.sources.iter().enumerate();
        let mut targets = self.targets.iter().enumerate();
        let fits = layout.sizes[last].is_multiple_of(VECTOR)
            && sources.all(|(at, source)| of(at, source.bytes().is_aligned_to(16), true))
            && targets
                .all(|(at, target)| of(MAX_SOURCES + at, target.bytes().is_aligned_to(16), false));
        let mut layout = *layout;
        layout.sizes[last] /= VECTOR;
        layout.strides.iter_mut().for_each(|strides| strides[last] *= VECTOR);
        fits.then_some(layout)
    }

    fn args(
        &self,
        program: &Program,
        layout: &Layout<MAX_TENSORS>,
        shape: u32,
    ) -> Result<JobArgs<'a>> {
        let mut sources = [Source::none(); MAX_SOURCES];
        for (at, (to, source)) in sources.iter_mut().zip(&self.sources).enumerate() {
            *to = Source::new(source, layout.strides[at]);
        }
        let mut targets = [Target::none(); MAX_TARGETS];
        for (at, (to, target)) in targets.iter_mut().zip(&self.targets).enumerate() {
            *to = Target::new(target, layout.strides[MAX_SOURCES + at]);
        }
        let mut instructions = [InstructionArgs::default(); MAX_INSTRUCTIONS];
        for (to, instruction) in instructions.iter_mut().zip(&program.code) {
            let [a, b, c] = instruction.operands.map(operand);
            let activation = match instruction.op {
                Op::Activation(activation) => activation,
                _ => Activation::None,
            };
            *to = InstructionArgs {
                op: code(instruction),
                operands: [a, b, c, instruction.register],
                activation: activation.into(),
            };
        }
        let mut constants = [0; MAX_CONSTANTS];
        constants[..program.constants.len()].copy_from_slice(&program.constants);
        let mut results = [0; MAX_TARGETS];
        for (to, &(_, place)) in results.iter_mut().zip(&program.results) {
            *to = operand(place);
        }
        let is_fast = self.targets.iter().all(|target| target.element() == ElementType::F16);
        Ok(JobArgs {
            sources,
            targets,
            dims: layout.dims()?,
            instructions,
            constants,
            results,
            num_sources: self.sources.len() as u32,
            num_targets: self.targets.len() as u32,
            num_instructions: program.code.len() as u32,
            num_items: layout.len() as u32,
            is_fast: u32::from(is_fast),
            shape,
            end_block: 0,
        })
    }
}

fn operand(place: Place) -> u8 {
    match place {
        Place::Register(at) => at,
        Place::Constant(at) => MAX_LIVE as u8 + at,
    }
}

/// The layout of a copy through shared memory, whose last dimension is the target's and the one
/// before it the source's; `None` where both change first along the same dimension, or one of
/// them is shorter than half a tile.
fn transposed(layout: &Layout<MAX_TENSORS>) -> Option<Layout<MAX_TENSORS>> {
    let last = layout.rank - 1;
    let along = (0..last).find(|&axis| layout.strides[0][axis] == 1)?;
    let is_wide = |axis: usize| layout.sizes[axis] >= 16;
    let fits = layout.strides[0][last] > 1 && is_wide(last) && is_wide(along);
    let mut layout = *layout;
    for axis in along..last - 1 {
        layout.sizes.swap(axis, axis + 1);
        layout.strides.iter_mut().for_each(|strides| strides.swap(axis, axis + 1));
    }
    fits.then_some(layout)
}
