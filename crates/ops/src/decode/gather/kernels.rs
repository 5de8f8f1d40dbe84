//! The parameters of `kernels/decode/gather.cu`.

use std::marker::PhantomData;

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, Plain, check_lens, check_threads, kernel_constant, kernel_specs,
    mirrors, refused,
};
use crate::nms::cuda::NmsCounts;
use crate::shared::Motion;
use det_post_types::{Box2d, Box3d, Candidate, Detection2d, Kept, Result, RotatedBox2d};

/// Threads of the only block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("decode/gather.cu", "kThreads");

/// The transform to source pixels, in device memory: `Settings` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct GatherSettings {
    /// Factor along x and y.
    pub scale: [f32; 2],
    /// Shift along x and y.
    pub offset: [f32; 2],
    /// Width and height of the source image.
    pub size: [f32; 2],
    /// The maximum number of detections.
    pub max_detections: u32,
    /// Factor of the sides of rotated boxes.
    pub mean_scale: f32,
}

/// The result for the host, beside the detections: `Gathered` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Gathered {
    /// The number of survivors, and whether a class has no threshold.
    pub suppressed: NmsCounts,
    /// The number of detections.
    pub num_detections: u32,
}

// SAFETY: 8 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for GatherSettings {}
// SAFETY: 3 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for Gathered {}

mirrors!(GatherSettings, "decode/gather.cu", "Settings");
mirrors!(Gathered, "decode/gather.cu", "Gathered");

/// The parameter of `gather_2d` and `gather_rotated`: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GatherArgs<'a, B> {
    /// The candidates.
    pub candidates: In<'a, Candidate<B>>,
    /// The survivors, best first.
    pub kept: In<'a, Kept>,
    /// Their number.
    pub nms_counts: In<'a, NmsCounts>,
    /// The settings.
    pub settings: In<'a, GatherSettings>,
    /// The counters of the frame, which the kernel clears.
    pub counters: Out<'a, u32>,
    /// The detections, in mapped host memory.
    pub published: Out<'a, Detection2d<B>>,
    /// The result, in mapped host memory.
    pub gathered: Out<'a, Gathered>,
    /// The counters, in mapped host memory.
    pub published_counters: Out<'a, u32>,
    /// The detections in device memory; empty where no kernel reads them.
    pub copied: Out<'a, Detection2d<B>>,
    /// The row of each among the network's.
    pub sources: Out<'a, u32>,
    /// Their number.
    pub num_copied: Out<'a, u32>,
}

mirrors!(GatherArgs<'_, Box2d>, "decode/gather.cu", "Args", Candidate<Box2d>, Detection2d<Box2d>);
mirrors!(
    GatherArgs<'_, RotatedBox2d>,
    "decode/gather.cu",
    "Args",
    Candidate<RotatedBox2d>,
    Detection2d<RotatedBox2d>
);

/// The launch of one block.
pub const GRID: Grid = Grid { num_blocks: [1, 1], threads_per_block: THREADS_PER_BLOCK };

fn check_grid(kernel: &str, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    if grid.num_blocks != GRID.num_blocks {
        return Err(refused(kernel, &format!("found {:?} blocks, expected one", grid.num_blocks)));
    }
    Ok(())
}

fn check<B>(kernel: &str, args: &GatherArgs<'_, B>, grid: &Grid) -> Result<()> {
    check_grid(kernel, grid)?;
    let slices = [
        ("nms_counts", args.nms_counts.len(), 1),
        ("settings", args.settings.len(), 1),
        ("gathered", args.gathered.len(), 1),
        ("published_counters", args.published_counters.len(), args.counters.len()),
    ];
    check_lens(kernel, slices)
}

/// `gather_2d` and `gather_rotated`, by their boxes.
pub struct GatherBoxes<B>(PhantomData<B>);

// SAFETY: `GatherArgs` mirrors `gather::Args` (11 slices, compared). Survivors are read below the
// length of `kept`, candidates at indices compared with their length, detections written below the
// length of `published`, copies and sources below the shorter of both, their number if there is
// a place, counters below the length of theirs; the check covers the other slices. No thread waits
// for another block: there is one.
kernel_specs! {
    check;
    unsafe GatherBoxes<Box2d>: "gather_2d", GatherArgs<Box2d>;
    unsafe GatherBoxes<RotatedBox2d>: "gather_rotated", GatherArgs<RotatedBox2d>;
}

/// Words of a 3D detection: class, score and the seven numbers of the box.
pub const BOX_WORDS: usize = kernel_constant!("decode/gather.cu", "kBoxWords") as usize;
/// Further words of heads with velocities.
pub const VELOCITY_WORDS: usize = kernel_constant!("decode/gather.cu", "kVelocityWords") as usize;
/// Further words of heads with variances.
pub const VARIANCE_WORDS: usize = kernel_constant!("decode/gather.cu", "kVarianceWords") as usize;

/// The parameter of `gather_3d`: `Args3d` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Gather3dArgs<'a> {
    /// The candidates.
    pub candidates: In<'a, Candidate<Box3d>>,
    /// Velocities and variances; empty for heads without them.
    pub motions: In<'a, Motion>,
    /// The index of each candidate in `motions`.
    pub places: In<'a, u32>,
    /// The survivors, best first.
    pub kept: In<'a, Kept>,
    /// Their number.
    pub nms_counts: In<'a, NmsCounts>,
    /// The counters of the frame, which the kernel clears.
    pub counters: Out<'a, u32>,
    /// The detections as words, in mapped host memory.
    pub published: Out<'a, u32>,
    /// The result, in mapped host memory.
    pub gathered: Out<'a, Gathered>,
    /// The counters, in mapped host memory.
    pub published_counters: Out<'a, u32>,
    /// The maximum number of detections.
    pub max_detections: u32,
    /// Not 0: detections have velocities.
    pub has_velocity: u32,
    /// Not 0: detections have variances.
    pub has_variance: u32,
    /// Padding.
    pub reserved: u32,
}

mirrors!(Gather3dArgs<'_>, "decode/gather.cu", "Args3d");

/// `gather_3d`.
pub struct Gather3d;

// SAFETY: `Gather3dArgs` mirrors `gather::Args3d` (9 slices and 4 words, compared). Survivors are
// read below the length of `kept`, candidates, places and motions at indices compared with their
// lengths, detections written below the length of `published`, counters below the length of theirs;
// the check covers the other slices. No thread waits for another block: there is one.
unsafe impl KernelSpec for Gather3d {
    const NAME: &'static str = "gather_3d";
    type Args<'a> = Gather3dArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_grid(Self::NAME, grid)?;
        let slices = [
            ("nms_counts", args.nms_counts.len(), 1),
            ("gathered", args.gathered.len(), 1),
            ("published_counters", args.published_counters.len(), args.counters.len()),
        ];
        check_lens(Self::NAME, slices)
    }
}
