//! The kernels of `kernels/nms/*.cu` and their one parameter struct, the mirror of
//! `kernels/nms/args.cuh`.

use std::marker::PhantomData;

use super::parameters::Parameters;
use super::scratch::{DENSE_CAPACITY, Scratch, Sizes};
use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, Plain, check_len, check_threads, kernel_constant, mirrors,
    refused,
};
use crate::nms::kernels::NmsSettings;
use crate::shared::kernels::Floats;
use det_post_types::{Candidate, Kept, Result};

/// Up to this capacity the kernel `bitmask` does everything.
pub const BITMASK_CAPACITY: usize = kernel_constant!("nms/bits.cuh", "kBitmaskCapacity") as usize;
const MAX_ROWS: usize = kernel_constant!("nms/bits.cuh", "kMaxRows") as usize;
const DENSE_ROWS: usize = kernel_constant!("nms/bitmask_dense.cuh", "kDenseRows") as usize;
/// Candidates that are sorted together before `merge`.
pub const TILE: u32 = kernel_constant!("nms/sort.cuh", "kTile");
/// Candidates that a block of `sort` sorts against their tile.
pub const SORTED_PER_BLOCK: u32 = kernel_constant!("nms/sort.cuh", "kSortedPerBlock");
/// Tiles that a block of `merge` searches.
pub const TILES_AT_ONCE: u32 = kernel_constant!("nms/sort.cuh", "kTilesAtOnce");
/// Candidates per block of `nms_none`.
pub const NONE_PER_BLOCK: u32 = kernel_constant!("nms/none.cu", "kCandidatesPerBlock");

/// The mirror of `NmsCounts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct NmsCounts {
    /// Survivors.
    pub num_kept: u32,
    /// One more than the highest class without a threshold, else 0.
    pub class_over: u32,
}

// SAFETY: 2 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for NmsCounts {}
mirrors!(NmsCounts, "nms/args.cuh", "NmsCounts");

/// The mirror of `NmsParameters`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ParameterSlices<'a> {
    pub settings: In<'a, NmsSettings>,
    /// By class.
    pub groups: In<'a, u32>,
    /// By class.
    pub thresholds: In<'a, f32>,
    /// Pairs of classes: the forbidden, then the unlimited.
    pub pairs: In<'a, [u32; 2]>,
}

/// The mirror of `NmsOutput`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OutputSlices<'a> {
    pub kept: Out<'a, Kept>,
    pub counts: Out<'a, NmsCounts>,
    pub host_kept: Out<'a, Kept>,
    pub host_counts: Out<'a, NmsCounts>,
}

mirrors!(ParameterSlices<'_>, "nms/args.cuh", "NmsParameters");
mirrors!(OutputSlices<'_>, "nms/args.cuh", "NmsOutput");

/// The mirror of `NmsArgs`, the parameter of every suppression kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NmsArgs<'a, C> {
    /// Their length is the capacity.
    pub candidates: In<'a, C>,
    pub num_candidates: In<'a, u32>,
    pub parameters: ParameterSlices<'a>,
    pub scratch: Scratch<'a>,
    pub output: OutputSlices<'a>,
}

mirrors!(NmsArgs<'_, C>, "nms/args.cuh", "NmsArgs", C; where C: Mirror);

impl<C> NmsArgs<'_, C> {
    /// Refuses slices that are shorter than the capacity or the sizes ask for.
    ///
    /// # Errors
    /// `Argument` with the kernel, the slice and both lengths.
    pub fn check(&self, kernel: &str, sizes: &Sizes) -> Result<()> {
        let capacity = self.candidates.len();
        let OutputSlices { kept, counts, host_kept, host_counts } = &self.output;
        check_len(kernel, "num_candidates", self.num_candidates.len(), 1)?;
        check_len(kernel, "settings", self.parameters.settings.len(), 1)?;
        check_len(kernel, "kept", kept.len(), capacity)?;
        check_len(kernel, "counts", counts.len(), 1)?;
        check_len(kernel, "host_kept", host_kept.len(), capacity)?;
        check_len(kernel, "host_counts", host_counts.len(), 1)?;
        self.scratch.check(kernel, sizes)
    }
}

/// How a family suppresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all: the kernel `<op>`.
    None,
    /// By lowering scores: the kernel `<op>`.
    Soft,
    /// By the kernels of `nms/nms.cuh`, `<op>_<step>`.
    Greedy,
}

/// What a family's kernel `prepare` writes of each candidate for the exact test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Geometry {
    /// Nothing: there is no such kernel.
    None,
    /// A rectangle in the image.
    Rectangle,
    /// The footprint of a box in space and its class.
    Footprint,
    /// A footprint and the heights of a box in space.
    Solid,
}

impl Geometry {
    /// Vectors of 16 bytes per candidate.
    pub const fn num_vectors(self) -> usize {
        match self {
            Self::None => 0,
            Self::Rectangle | Self::Footprint => 2,
            Self::Solid => 3,
        }
    }
}

/// A kernel of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything, of a method with one kernel.
    Only,
    /// The geometry for the exact test.
    Prepare,
    /// Everything else, up to [`BITMASK_CAPACITY`].
    Bitmask,
    /// Tiles by rank and by spatial key.
    Sort,
    /// The positions in all tiles.
    Merge,
    /// Proxies in both orders, and the bounds of leaves.
    Leaves,
    /// The states of all candidates.
    Reduce,
    /// The survivors in order.
    Compact,
}

impl Step {
    /// Threads per block, as the kernel was compiled for.
    pub const fn num_threads(self, method: Method) -> u32 {
        match self {
            Self::Only if matches!(method, Method::Soft) => {
                kernel_constant!("nms/soft.cu", "kThreads")
            }
            Self::Only => kernel_constant!("nms/none.cu", "kThreads"),
            Self::Bitmask => kernel_constant!("nms/bits.cuh", "kBitmaskThreads"),
            Self::Leaves => kernel_constant!("nms/sort.cuh", "kLeavesThreads"),
            Self::Prepare | Self::Sort | Self::Merge | Self::Reduce | Self::Compact => {
                kernel_constant!("nms/args.cuh", "kNmsThreads")
            }
        }
    }
}

/// The kernels of a kind of suppression.
///
/// # Safety
/// The implementer promises that `NAMES`, by [`Step`], are kernels of `METHOD` for
/// candidates with boxes `Bbox`, of a policy with `GEOMETRY`.
pub unsafe trait Family: 'static {
    /// The box of a candidate.
    type Bbox: Floats;
    /// The op.
    const OP: &'static str;
    /// Names of the kernels.
    const NAMES: [&'static str; 8];
    /// How it suppresses.
    const METHOD: Method = Method::Greedy;
    /// What `prepare` writes for the exact test.
    const GEOMETRY: Geometry = Geometry::None;

    /// Parameters as the kernels take them.
    ///
    /// # Errors
    /// `Argument` as on the CPU, or for an empty list of thresholds.
    fn parameters(&self) -> Result<Parameters<'_>>;
}

impl Sizes {
    /// The sizes that a kernel of `P` needs for `capacity` candidates.
    pub fn of<P: Family>(step: Step, capacity: usize) -> Self {
        let geometry = P::GEOMETRY.num_vectors() * capacity;
        match step {
            Step::Only if P::METHOD == Method::Soft => Self { soft: capacity, ..Self::default() },
            Step::Only => Self::default(),
            Step::Prepare => Self { geometry, ..Self::default() },
            Step::Bitmask => Self { geometry, bitmask: capacity, ..Self::default() },
            Step::Sort | Step::Merge | Step::Leaves | Step::Reduce | Step::Compact => {
                Self { geometry, search: capacity, ..Self::default() }
            }
        }
    }
}

/// Names of the kernels of an op, by [`Step`].
macro_rules! names {
    ($name:literal) => {
        [
            $name,
            concat!($name, "_prepare"),
            concat!($name, "_bitmask"),
            concat!($name, "_sort"),
            concat!($name, "_merge"),
            concat!($name, "_leaves"),
            concat!($name, "_reduce"),
            concat!($name, "_compact"),
        ]
    };
}
pub(crate) use names;

/// One kernel of the family of `P`, by the number of its [`Step`].
pub struct StepOf<P, const STEP: usize>(PhantomData<P>);

impl<P, const STEP: usize> StepOf<P, STEP> {
    const STEP: Step = {
        use Step::{Bitmask, Compact, Leaves, Merge, Only, Prepare, Reduce, Sort};
        [Only, Prepare, Bitmask, Sort, Merge, Leaves, Reduce, Compact][STEP]
    };
}

// SAFETY: `NmsArgs` mirrors the struct of that name, and `Family` promises that the kernel takes
// it. Every index that a kernel uses is below the number of candidates, which it limits to the
// capacity, or was stored by an earlier kernel. Stored indices are below the capacity, since
// scratch memory is zeroed at first and receives only positions of candidates, or are compared
// with it where they are sums. Groups, thresholds and pairs of classes are read within their
// lengths. The check covers all other slices. Candidates are read 16 bytes at a time within the
// slice, whose start is so aligned. Every kernel ends: `reduce` waits only for candidates that
// blocks with earlier tickets, hence running ones, have taken, and the last block of `bitmask` only
// for blocks that wait for nothing and are resident beside it (see
// `kernels/nms/bitmask_dense.cuh`); an iteration decides at least the best undecided candidate.
unsafe impl<P: Family, const STEP: usize> KernelSpec for StepOf<P, STEP> {
    const NAME: &'static str = P::NAMES[STEP];
    type Args<'a> = NmsArgs<'a, Candidate<P::Bbox>>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        let (kernel, capacity) = (Self::NAME, args.candidates.len());
        check_threads(kernel, grid.threads_per_block, Self::STEP.num_threads(P::METHOD))?;
        match Self::STEP {
            Step::Bitmask => check_bitmask(kernel, capacity, grid)?,
            Step::Only if P::METHOD == Method::Soft && grid.num_blocks != [1, 1] => {
                return Err(refused(
                    kernel,
                    &format!("found {:?} blocks, expected one", grid.num_blocks),
                ));
            }
            _ => {}
        }
        args.check(kernel, &Sizes::of::<P>(Self::STEP, capacity))
    }
}

/// Refuses a grid with more rows per block than the bitmask kernels support.
fn check_bitmask(kernel: &str, capacity: usize, grid: &Grid) -> Result<()> {
    let [num_blocks, y] = grid.num_blocks;
    let rows = |num: usize| capacity.min(num).div_ceil(num_blocks.max(1) as usize);
    let fits = capacity <= BITMASK_CAPACITY
        && rows(BITMASK_CAPACITY) <= MAX_ROWS
        && rows(DENSE_CAPACITY) <= DENSE_ROWS;
    if fits && num_blocks.is_power_of_two() && y == 1 {
        return Ok(());
    }
    Err(refused(
        kernel,
        &format!("{capacity} candidates do not fit a grid of {:?}", grid.num_blocks),
    ))
}
