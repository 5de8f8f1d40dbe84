//! The parameters of `kernels/arrays/candidates.cu`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_len, check_lens, check_threads, kernel_constant, mirrors,
    refused,
};
use crate::shared::Motion;
use crate::shared::kernels::Floats;
use det_post_types::{Box2d, Box3d, Candidate, Kept, Result, RotatedBox2d};

/// Threads per block: a candidate or a survivor each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("arrays/candidates.cu", "kThreads");

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

mirrors!(ArrayArgs<'_, B>, "arrays/candidates.cu", "Args", Candidate<B>; where B: Floats);

/// The parameter of `candidate_arrays_columns_*`: `ColumnArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ColumnArgs<'a, B> {
    /// The candidates.
    pub candidates: In<'a, Candidate<B>>,
    /// The survivors among them.
    pub kept: In<'a, Kept>,
    /// Their boxes, row by row.
    pub boxes: Out<'a, f32>,
    /// Their scores.
    pub scores: Out<'a, f32>,
    /// Their classes, the bits of signed integers of 64 bits; or none.
    pub classes64: Out<'a, u64>,
    /// Their sources likewise.
    pub sources64: Out<'a, u64>,
    /// Their classes of 32 bits; or none.
    pub classes32: Out<'a, u32>,
    /// Their sources likewise.
    pub sources32: Out<'a, u32>,
}

mirrors!(ColumnArgs<'_, B>, "arrays/candidates.cu", "ColumnArgs", Candidate<B>; where B: Floats);

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

mirrors!(SurvivorArgs<'_>, "arrays/candidates.cu", "SurvivorArgs");

/// The parameter of `candidate_arrays_motions`: `MotionArgs` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MotionArgs<'a> {
    /// The survivors.
    pub kept: In<'a, Kept>,
    /// By candidate, its index among the found ones.
    pub places: In<'a, u32>,
    /// By found candidate.
    pub motions: In<'a, Motion>,
    /// Along x and y.
    pub velocities: Out<'a, f32>,
    /// Of centre, sizes, yaw and velocity; empty: none are written.
    pub variances: Out<'a, f32>,
}

mirrors!(MotionArgs<'_>, "arrays/candidates.cu", "MotionArgs");

/// Numbers of the variances of a box.
pub const NUM_VARIANCES: usize = 9;

/// Boxes whose candidates are made from arrays.
pub trait Columns: Floats {
    /// The kernel from arrays to candidates.
    const COPY: &'static str;
    /// The kernel from survivors to arrays.
    const COLUMNS: &'static str;
    /// Numbers of a box.
    const NUM_NUMBERS: usize = size_of::<Self>() / size_of::<f32>();
}

impl Columns for Box2d {
    const COPY: &'static str = "candidate_arrays_2d";
    const COLUMNS: &'static str = "candidate_arrays_columns_2d";
}

impl Columns for RotatedBox2d {
    const COPY: &'static str = "candidate_arrays_rotated";
    const COLUMNS: &'static str = "candidate_arrays_columns_rotated";
}

impl Columns for Box3d {
    const COPY: &'static str = "candidate_arrays_3d";
    const COLUMNS: &'static str = "candidate_arrays_columns_3d";
}

/// `candidate_arrays_2d`, `_rotated` and `_3d`.
pub struct Copy<B>(std::marker::PhantomData<B>);

// SAFETY: `ArrayArgs` mirrors `candidate_arrays::Args` (compared), and `COPY` is the kernel for
// candidates with boxes `B`. A thread below the numbers of scores and of candidates reads its row,
// score and class, which the check covers, and writes its candidate; the others write nothing. All
// threads that write `refused` write the same value. No value is read or written by vectors. No
// thread waits.
unsafe impl<B: Columns + Clone + std::marker::Copy> KernelSpec for Copy<B> {
    const NAME: &'static str = B::COPY;
    type Args<'a> = ArrayArgs<'a, B>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let num = args.scores.len();
        if u32::try_from(num).is_err() {
            return Err(refused(Self::NAME, &format!("{num} scores exceed the limit of 2^32 - 1")));
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

/// `candidate_arrays_columns_2d`, `_rotated` and `_3d`.
pub struct WriteColumns<B>(std::marker::PhantomData<B>);

// SAFETY: `ColumnArgs` mirrors the struct of that name (8 slices, compared), and `COLUMNS` is the
// kernel for candidates with boxes `B`. A thread reads a survivor below the lengths of `kept` and
// `scores`, and the candidate at its index, which is compared with their number. It writes a row of
// boxes and a value of each other array that is not empty; all are long enough (checked). No thread
// waits.
unsafe impl<B: Columns + Clone + std::marker::Copy> KernelSpec for WriteColumns<B> {
    const NAME: &'static str = B::COLUMNS;
    type Args<'a> = ColumnArgs<'a, B>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let num = args.scores.len();
        let or_none = |len| if len == 0 { 0 } else { num };
        let [long, short] = [
            [args.classes64.len(), args.sources64.len()],
            [args.classes32.len(), args.sources32.len()],
        ];
        check_lens(
            Self::NAME,
            [
                ("kept", args.kept.len(), num),
                ("boxes", args.boxes.len(), num.saturating_mul(B::NUM_NUMBERS)),
                ("classes64", long[0], or_none(long[0])),
                ("sources64", long[1], or_none(long[1])),
                ("classes32", short[0], or_none(short[0])),
                ("sources32", short[1], or_none(short[1])),
            ],
        )
    }
}

/// `candidate_arrays_survivors`.
pub struct Survivors;

// SAFETY: `SurvivorArgs` mirrors the struct of that name (3 slices, compared). A thread reads a
// survivor below the lengths of `kept` and `indices`, and writes its position, and its score below
// the length of `scores`. No thread waits.
unsafe impl KernelSpec for Survivors {
    const NAME: &'static str = "candidate_arrays_survivors";
    type Args<'a> = SurvivorArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        check_len(Self::NAME, "kept", args.kept.len(), args.indices.len())
    }
}

/// `candidate_arrays_motions`.
pub struct Motions;

// SAFETY: `MotionArgs` mirrors the struct of that name (5 slices, compared). A thread reads a
// survivor below the length of `kept`, its place and motion where these are below the lengths of
// their slices, and writes two velocities and nine variances where these end within theirs. No
// thread waits.
unsafe impl KernelSpec for Motions {
    const NAME: &'static str = "candidate_arrays_motions";
    type Args<'a> = MotionArgs<'a>;

    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let num = args.velocities.len() / 2;
        let num_variances = if args.variances.is_empty() { 0 } else { num * NUM_VARIANCES };
        check_lens(
            Self::NAME,
            [("kept", args.kept.len(), num), ("variances", args.variances.len(), num_variances)],
        )
    }
}
