//! `kernels/gather.cu`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, Plain, assert_mirrors, check_len, check_threads, kernel_constant,
    refused,
};
use crate::error::Result;
use crate::ops::decode_center::kernels::Motion;
use crate::ops::densify::kernels::DensifyNumbers;
use crate::ops::nms::cuda::NmsCounts;
use crate::ops::select::kernels::DecodeCounts;
use crate::ops::unpack::kernels::UnpackNumbers;
use crate::ops::voxelize::kernels::VoxelizeNumbers;
use crate::types::{Box2d, Box3d, Candidate, Detection2d, Kept};

/// Threads of the one block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("gather.cu", "kThreads");

/// The way to source pixels: the mirror of `Settings`, in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct GatherSettings {
    /// Factor along x and y.
    pub scale: [f32; 2],
    /// Shift along x and y.
    pub offset: [f32; 2],
    /// Width and height of the source image.
    pub size: [f32; 2],
    /// The most detections.
    pub max_detections: u32,
    /// Fills the struct to 32 bytes.
    pub reserved: u32,
}

/// What became of the candidates of a frame: the mirror of `FrameCounts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FrameCounts {
    /// What decoding found and lost.
    pub decoded: DecodeCounts,
    /// Survivors of suppression.
    pub num_kept: u32,
    /// Detections.
    pub num_detections: u32,
    /// Detections lost because they were over the limit.
    pub num_over_limit: u32,
}

// SAFETY: 8 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for GatherSettings {}
// SAFETY: 7 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for FrameCounts {}

assert_mirrors!(GatherSettings, "gather.cu", "Settings");
assert_mirrors!(FrameCounts, "gather.cu", "FrameCounts");
assert_mirrors!(Detection2d, "gather.cu", "Detection");

/// The mirror of `Args`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct GatherArgs<'a> {
    /// What was suppressed.
    pub candidates: In<'a, Candidate<Box2d>>,
    /// The survivors, best first.
    pub kept: In<'a, Kept>,
    /// How many.
    pub nms_counts: In<'a, NmsCounts>,
    /// What decoding counted.
    pub decode_counts: In<'a, DecodeCounts>,
    /// The settings.
    pub settings: In<'a, GatherSettings>,
    /// The detections, in memory of the host.
    pub published: Out<'a, Detection2d>,
    /// The counts of the frame, in memory of the host.
    pub published_counts: Out<'a, FrameCounts>,
}

assert_mirrors!(GatherArgs<'_>, "gather.cu", "Args");

/// `gather_2d`.
pub struct Gather2d;

// SAFETY: `GatherArgs` mirrors `gather::Args` (7 slices of 16 bytes). Survivors
// are read below the length of `kept`, candidates at indices compared with
// their length, detections written below the length of `published`; the check
// covers the slices of one value. No thread waits for another block: there is
// one.
unsafe impl KernelSpec for Gather2d {
    const NAME: &'static str = "gather_2d";
    type Args<'a> = GatherArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        if grid.num_blocks != [1, 1] {
            return Err(refused(Self::NAME, &format!("{:?} blocks, not one", grid.num_blocks)));
        }
        let slices = [
            ("nms_counts", args.nms_counts.len()),
            ("decode_counts", args.decode_counts.len()),
            ("settings", args.settings.len()),
            ("published_counts", args.published_counts.len()),
        ];
        slices.into_iter().try_for_each(|(name, found)| check_len(Self::NAME, name, found, 1))
    }
}

/// Words of a detection in space: class, score and the seven numbers of the box.
pub const BOX_WORDS: usize = kernel_constant!("gather.cu", "kBoxWords") as usize;
/// Further words, where the head says a velocity.
pub const VELOCITY_WORDS: usize = kernel_constant!("gather.cu", "kVelocityWords") as usize;
/// Further words, where the head says variances.
pub const VARIANCE_WORDS: usize = kernel_constant!("gather.cu", "kVarianceWords") as usize;

/// What became of the points and candidates of a lidar frame: the mirror of
/// `LidarCounts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct LidarCounts {
    /// Candidates and detections.
    pub frame: FrameCounts,
    /// What suppression counted.
    pub suppressed: NmsCounts,
    /// Where the cloud's points went.
    pub unpacked: UnpackNumbers,
    /// What joining past sweeps lost.
    pub densified: DensifyNumbers,
    /// Where the points went among voxels.
    pub voxelized: VoxelizeNumbers,
}

// SAFETY: 21 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for LidarCounts {}

assert_mirrors!(LidarCounts, "gather.cu", "LidarCounts");

/// The mirror of `Args3d`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Gather3dArgs<'a> {
    /// What was suppressed.
    pub candidates: In<'a, Candidate<Box3d>>,
    /// Velocities and variances; none when the head has none.
    pub motions: In<'a, Motion>,
    /// By candidate, its place among them.
    pub places: In<'a, u32>,
    /// The survivors, best first.
    pub kept: In<'a, Kept>,
    /// How many.
    pub nms_counts: In<'a, NmsCounts>,
    /// What decoding counted.
    pub decode_counts: In<'a, DecodeCounts>,
    /// What the ops before counted; each may be missing.
    pub unpacked: In<'a, UnpackNumbers>,
    /// The same.
    pub densified: In<'a, DensifyNumbers>,
    /// The same.
    pub voxelized: In<'a, VoxelizeNumbers>,
    /// The detections, word after word, in memory of the host.
    pub published: Out<'a, u32>,
    /// The counts of the frame, in memory of the host.
    pub published_counts: Out<'a, LidarCounts>,
    /// The most detections.
    pub max_detections: u32,
    /// Not 0: they have velocities.
    pub has_velocity: u32,
    /// Not 0: they have variances.
    pub has_variance: u32,
    /// Fills the struct to a multiple of 8 bytes.
    pub reserved: u32,
}

assert_mirrors!(Gather3dArgs<'_>, "gather.cu", "Args3d");

/// `gather_3d`.
pub struct Gather3d;

// SAFETY: `Gather3dArgs` mirrors `gather::Args3d` (11 slices of 16 bytes and 4
// words). Survivors are read below the length of `kept`, candidates, places and
// motions at indices compared with their lengths, detections written below the
// length of `published`; counts that are missing are not read, and the check
// covers the slices of one value. No thread waits for another block: there is
// one.
unsafe impl KernelSpec for Gather3d {
    const NAME: &'static str = "gather_3d";
    type Args<'a> = Gather3dArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        if grid.num_blocks != [1, 1] {
            return Err(refused(Self::NAME, &format!("{:?} blocks, not one", grid.num_blocks)));
        }
        let slices = [
            ("nms_counts", args.nms_counts.len()),
            ("decode_counts", args.decode_counts.len()),
            ("published_counts", args.published_counts.len()),
        ];
        slices.into_iter().try_for_each(|(name, found)| check_len(Self::NAME, name, found, 1))
    }
}
