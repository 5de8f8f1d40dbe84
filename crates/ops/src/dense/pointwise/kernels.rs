//! The parameters of `kernels/dense/pointwise.cu`.

use super::instruction::{Kind, Placed};
use super::{MAX_CONSTANTS, MAX_INSTRUCTIONS, MAX_LIVE, MAX_SOURCES, MAX_TARGETS, Op};
use crate::dense::activation::ActivationArgs;
use crate::dense::launch::{Dims, Source, Target, VECTOR, product, reach};
use crate::device::cuda::{
    DependentKernel, Grid, KernelSpec, check_threads, kernel_constant, mirrors, refused,
};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("dense/pointwise.cu", "kThreads");
/// The most jobs of a launch.
pub const MAX_JOBS: usize = kernel_constant!("dense/pointwise.cu", "kMaxJobs") as usize;
/// Rows and columns of a block of a transposed copy.
pub const TILE: u32 = kernel_constant!("dense/pointwise.cu", "kTile");

const _: () = {
    assert!(MAX_SOURCES == kernel_constant!("dense/pointwise.cu", "kMaxSources") as usize);
    assert!(MAX_TARGETS == kernel_constant!("dense/pointwise.cu", "kMaxTargets") as usize);
    assert!(MAX_LIVE == kernel_constant!("dense/pointwise.cu", "kRegisters") as usize);
    assert!(MAX_CONSTANTS == kernel_constant!("dense/pointwise.cu", "kMaxConstants") as usize);
    let instructions = kernel_constant!("dense/pointwise.cu", "kMaxInstructions");
    assert!(MAX_INSTRUCTIONS == instructions as usize);
};

/// An instruction: `Instruction` in the kernels.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct InstructionArgs {
    /// Its number.
    pub op: u32,
    /// Registers, or behind them constants; then the register that is written.
    pub operands: [u8; 4],
    /// Of [`Op::Activation`].
    pub activation: ActivationArgs,
}

mirrors!(InstructionArgs, "dense/pointwise.cu", "Instruction");

/// A program and its tensors: `Job` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct JobArgs<'a> {
    /// Tensors that are read.
    pub sources: [Source<'a>; MAX_SOURCES],
    /// Tensors that are written.
    pub targets: [Target<'a>; MAX_TARGETS],
    /// Their dimensions; the last counts groups where a thread has 8 elements.
    pub dims: Dims,
    /// The program.
    pub instructions: [InstructionArgs; MAX_INSTRUCTIONS],
    /// As bits.
    pub constants: [u32; MAX_CONSTANTS],
    /// The operands that are stored.
    pub results: [u8; MAX_TARGETS],
    /// Number of sources.
    pub num_sources: u32,
    /// Number of targets.
    pub num_targets: u32,
    /// Number of instructions.
    pub num_instructions: u32,
    /// The product of the dimensions.
    pub num_items: u32,
    /// Whether activations are within the precision of f16.
    pub is_fast: u32,
    /// What a thread has, by the numbers of the kernels.
    pub shape: u32,
    /// Blocks of the jobs up to this one.
    pub end_block: u32,
}

mirrors!(JobArgs<'_>, "dense/pointwise.cu", "Job");

/// The parameter of `dense_pointwise_*`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PointwiseArgs<'a> {
    /// What runs.
    pub jobs: [JobArgs<'a>; MAX_JOBS],
    /// Number of jobs.
    pub num_jobs: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(PointwiseArgs<'_>, "dense/pointwise.cu", "Args");

/// A thread has an element.
pub const ELEMENT: u32 = kernel_constant!("dense/pointwise.cu", "kElement");
/// A thread has neighbouring elements.
pub const NEIGHBOURS: u32 = kernel_constant!("dense/pointwise.cu", "kNeighbours");
/// A thread has part of a tile.
pub const TRANSPOSED: u32 = kernel_constant!("dense/pointwise.cu", "kTransposed");

/// The number of an operation in the kernels.
pub fn code(Placed { op, kind, .. }: &Placed) -> u32 {
    macro_rules! number {
        ($name:literal) => {
            kernel_constant!("dense/pointwise.cu", $name)
        };
    }
    match (op, kind) {
        (Op::Where, _) => number!("kWhere"),
        (Op::Add, Kind::F32) => number!("kAdd"),
        (Op::Sub, Kind::F32) => number!("kSub"),
        (Op::Mul, Kind::F32) => number!("kMul"),
        (Op::Div, Kind::F32) => number!("kDiv"),
        (Op::Min, Kind::F32) => number!("kMin"),
        (Op::Max, Kind::F32) => number!("kMax"),
        (Op::Equal, Kind::F32) => number!("kEqual"),
        (Op::Less, Kind::F32) => number!("kLess"),
        (Op::LessOrEqual, Kind::F32) => number!("kLessOrEqual"),
        (Op::Neg, Kind::F32) => number!("kNeg"),
        (Op::Abs, Kind::F32) => number!("kAbs"),
        (Op::Add, Kind::I32) => number!("kIntegerAdd"),
        (Op::Sub, Kind::I32) => number!("kIntegerSub"),
        (Op::Mul, Kind::I32) => number!("kIntegerMul"),
        (Op::Div, Kind::I32) => number!("kIntegerDiv"),
        (Op::Min, Kind::I32) => number!("kIntegerMin"),
        (Op::Max, Kind::I32) => number!("kIntegerMax"),
        (Op::Equal, Kind::I32) => number!("kIntegerEqual"),
        (Op::Less, Kind::I32) => number!("kIntegerLess"),
        (Op::LessOrEqual, Kind::I32) => number!("kIntegerLessOrEqual"),
        (Op::Neg, Kind::I32) => number!("kIntegerNeg"),
        (Op::Abs, Kind::I32) => number!("kIntegerAbs"),
        (Op::Mod, _) => number!("kIntegerMod"),
        (Op::And, _) => number!("kAnd"),
        (Op::Or, _) => number!("kOr"),
        (Op::Xor, _) => number!("kXor"),
        (Op::Not, _) => number!("kNot"),
        (Op::Pow, _) => number!("kPow"),
        (Op::Sign, _) => number!("kSign"),
        (Op::Sqrt, _) => number!("kSqrt"),
        (Op::Floor, _) => number!("kFloor"),
        (Op::Ceil, _) => number!("kCeil"),
        (Op::Round, _) => number!("kRound"),
        (Op::Exp, _) => number!("kExp"),
        (Op::Log, _) => number!("kLog"),
        (Op::Erf, _) => number!("kErf"),
        (Op::Sin, _) => number!("kSin"),
        (Op::Cos, _) => number!("kCos"),
        (Op::RoundToF16, _) => number!("kRoundToF16"),
        (Op::ToF32, _) => number!("kIntegerToFloat"),
        (Op::ToI32, _) => number!("kToInteger"),
        (Op::ToBool, _) => number!("kToBool"),
        (Op::Activation(_), _) => number!("kActivation"),
    }
}

impl JobArgs<'_> {
    /// Its blocks; `None` beyond 2^32 - 1.
    pub fn num_blocks(&self) -> Option<u32> {
        if self.shape != TRANSPOSED {
            return Some(self.num_items.div_ceil(THREADS_PER_BLOCK));
        }
        let [outer @ .., rows, columns] = self.dims.sizes() else { return None };
        product(outer)?.checked_mul(rows.div_ceil(TILE))?.checked_mul(columns.div_ceil(TILE))
    }

    fn check(&self, kernel: &str) -> Result<()> {
        self.dims.check(kernel, self.num_items)?;
        let counts =
            [self.num_sources, self.num_targets, self.num_instructions].map(|n| n as usize);
        let [num_sources, num_targets, num_instructions] = counts;
        let is_copy = num_sources == 1 && num_targets == 1;
        let fits = num_sources <= MAX_SOURCES
            && num_targets <= MAX_TARGETS
            && num_instructions <= MAX_INSTRUCTIONS
            && (is_copy || self.shape != TRANSPOSED);
        if !fits {
            let message = format!("{counts:?} sources, targets and instructions");
            return Err(refused(kernel, &message));
        }
        let width = if self.shape == NEIGHBOURS { VECTOR } else { 1 };
        let rank = self.dims.rank as usize;
        for source in &self.sources[..num_sources] {
            // A source that does not change along the last dimension is read one element at a time.
            let read = if source.strides[rank - 1] == 0 { 1 } else { width };
            let fits = read == 1 || is_aligned(source.bytes.is_aligned_to(16), &source.strides);
            let reach = reach(self.dims.sizes(), &source.strides, read);
            source.check(kernel, "a source", if fits { reach } else { usize::MAX })?;
        }
        for target in &self.targets[..num_targets] {
            let fits = width == 1 || is_aligned(target.bytes.is_aligned_to(16), &target.strides);
            let reach = reach(self.dims.sizes(), &target.strides, width);
            target.check(kernel, "a target", if fits { reach } else { usize::MAX })?;
        }
        Ok(())
    }
}

/// Whether 8 neighbours begin at addresses of 16 bytes.
fn is_aligned(is_address_aligned: bool, strides: &[u32]) -> bool {
    is_address_aligned && strides.iter().all(|stride| stride.is_multiple_of(VECTOR as u32))
}

fn check(kernel: &str, args: &PointwiseArgs<'_>, grid: &Grid, has_neighbours: bool) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let num_jobs = args.num_jobs as usize;
    let mut end = Some(0_u32);
    for job in &args.jobs[..num_jobs.min(MAX_JOBS)] {
        job.check(kernel)?;
        if job.shape == NEIGHBOURS && !has_neighbours {
            return Err(refused(kernel, "a job of neighbours"));
        }
        end = end.zip(job.num_blocks()).and_then(|(end, own)| end.checked_add(own));
        if end != Some(job.end_block) {
            return Err(refused(kernel, &format!("a job ends at block {}", job.end_block)));
        }
    }
    if !(1..=MAX_JOBS).contains(&num_jobs) || end.map(|end| [end, 1]) != Some(grid.num_blocks) {
        return Err(refused(kernel, &format!("{num_jobs} jobs, {grid:?}")));
    }
    Ok(())
}

macro_rules! pointwise {
    ($($spec:ident: $name:literal, $has_neighbours:literal;)+) => {$(
        #[doc = concat!("`", $name, "`.")]
        pub struct $spec;

        // SAFETY: `PointwiseArgs` mirrors the kernels' struct. A block is of one job (the ends are
        // checked), which is none of neighbours where the kernel has no place for them (checked). An
        // item of it, or an element of a tile, is below the number of items, with indices below the
        // dimensions (their product is checked): the elements that it reads and writes are within
        // what the slices were checked to have, at addresses of their alignment. Operands beyond the
        // registers are taken modulo the number of constants, and results modulo the number of
        // registers. No block waits for another.
        unsafe impl KernelSpec for $spec {
            const NAME: &'static str = $name;
            type Args<'a> = PointwiseArgs<'a>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check(Self::NAME, args, grid, $has_neighbours)
            }
        }

        // SAFETY: the kernels wait before they read or write anything but their parameters.
        unsafe impl DependentKernel for $spec {}
    )+};
}

pointwise! {
    Jobs: "dense_pointwise_jobs", true;
    Elements: "dense_pointwise_elements", false;
}
