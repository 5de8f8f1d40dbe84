//! The parameters of `kernels/candidate_arrays.cu`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, assert_mirrors, check_len, check_lens, check_threads,
    kernel_constant, refused,
};
use crate::error::Result;
use crate::types::{Box2d, Box3d, Candidate, Kept, RotatedBox2d};

/// Threads per block: a candidate or a survivor each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("candidate_arrays.cu", "kThreads");

/// The parameter: `Args` in the kernel. Classes are the bits of signed integers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ArrayArgs<'a, B> {
    /// Row by row.
    pub boxes: In<'a, f32>,
    /// One per box.
    pub scores: In<'a, f32>,
    /// Classes of 32 bits, or none.
    pub classes32: In<'a, u32>,
    /// Classes of 64 bits, or none.
    pub classes64: In<'a, u64>,
    /// The candidates.
    pub candidates: Out<'a, Candidate<B>>,
    /// Their number.
    pub num: Out<'a, u32>,
    /// Receives `call` if a class is out of range.
    pub refused: Out<'a, u32>,
    /// Numbers of a row.
    pub num_columns: u32,
    /// The number of the call.
    pub call: u32,
}

assert_mirrors!(ArrayArgs<'_, Box2d>, "candidate_arrays.cu", "Args<Candidate2d>");

/// The parameter of `candidate_arrays_survivors`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SurvivorArgs<'a> {
    /// The survivors.
    pub kept: In<'a, Kept>,
    /// Their positions, the bits of signed integers.
    pub indices: Out<'a, u64>,
    /// Their scores; empty: none are written.
    pub scores: Out<'a, f32>,
}

assert_mirrors!(SurvivorArgs<'_>, "candidate_arrays.cu", "SurvivorArgs");

/// Boxes whose candidates are made from arrays.
pub trait Columns: Sized + 'static {
    /// The kernel.
    const NAME: &'static str;
}

impl Columns for Box2d {
    const NAME: &'static str = "candidate_arrays_2d";
}

impl Columns for RotatedBox2d {
    const NAME: &'static str = "candidate_arrays_rotated";
}

impl Columns for Box3d {
    const NAME: &'static str = "candidate_arrays_3d";
}

/// `candidate_arrays_2d`, `_rotated` and `_3d`.
pub struct Copy<B>(std::marker::PhantomData<B>);

// SAFETY: `ArrayArgs` mirrors `candidate_arrays::Args` (size asserted, `#[repr(C)]` in the same
// order), and `NAME` is the kernel for candidates with boxes `B`. A thread below the numbers of
// scores and of candidates reads its row, score and class, which the check covers, and writes its
// candidate; the others write nothing. All threads that write `refused` write the same value. No
// value is read or written by vectors. No thread waits.
unsafe impl<B: Columns + Clone + std::marker::Copy> KernelSpec for Copy<B> {
    const NAME: &'static str = B::NAME;
    type Args<'a> = ArrayArgs<'a, B>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let num = args.scores.len();
        if u32::try_from(num).is_err() {
            return Err(refused(Self::NAME, &format!("{num} scores; below 2^32 are possible")));
        }
        let of_class = |len| if len == 0 { 0 } else { num };
        check_lens(
            Self::NAME,
            [
                ("boxes", args.boxes.len(), num * args.num_columns as usize),
                ("classes32", args.classes32.len(), of_class(args.classes32.len())),
                ("classes64", args.classes64.len(), of_class(args.classes64.len())),
                ("num", args.num.len(), 1),
                ("refused", args.refused.len(), 1),
            ],
        )
    }
}

/// `candidate_arrays_survivors`.
pub struct Survivors;

// SAFETY: `SurvivorArgs` mirrors the struct of that name (3 slices, size asserted). A thread reads
// a survivor below the lengths of `kept` and `indices`, and writes its position, and its score
// below the length of `scores`. No thread waits.
unsafe impl KernelSpec for Survivors {
    const NAME: &'static str = "candidate_arrays_survivors";
    type Args<'a> = SurvivorArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        check_len(Self::NAME, "kept", args.kept.len(), args.indices.len())
    }
}
