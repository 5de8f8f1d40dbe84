//! The parameters of `kernels/decode/keypoints.cu`.

use std::marker::PhantomData;

use half::f16;

use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, Plain, check_len, check_threads, kernel_constant,
    kernel_specs, mirrors, refused,
};
use det_post_types::{Keypoint, Result};

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("decode/keypoints.cu", "kThreads");

/// The transform to source pixels, in device memory: `Settings` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct KeypointSettings {
    /// Factor along x and y.
    pub scale: [f32; 2],
    /// Shift along x and y.
    pub offset: [f32; 2],
    /// Width and height of the source image.
    pub size: [f32; 2],
}

// SAFETY: 6 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for KeypointSettings {}
// SAFETY: repr(C) of 3 f32, no gap, any bits are a value.
unsafe impl Plain for Keypoint {}

/// The parameter: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct KeypointArgs<'a, T> {
    /// The network's output.
    pub output: In<'a, T>,
    /// By detection, its row of the output.
    pub sources: In<'a, u32>,
    /// Number of detections.
    pub num: In<'a, u32>,
    /// The settings.
    pub settings: In<'a, KeypointSettings>,
    /// The keypoints, in mapped host memory.
    pub keypoints: Out<'a, Keypoint>,
    /// Rows of the output.
    pub num_rows: u32,
    /// Its columns.
    pub num_columns: u32,
    /// The column of the first number.
    pub first: u32,
    /// Keypoints of a row.
    pub num_keypoints: u32,
    /// Numbers of a keypoint.
    pub num_values: u32,
    /// Not 0: a plane a column.
    pub is_planes: u32,
}

mirrors!(KeypointSettings, "decode/keypoints.cu", "Settings");
mirrors!(Keypoint, "decode/keypoints.cu", "Keypoint");
mirrors!(KeypointArgs<'_, T>, "decode/keypoints.cu", "Args", T; where T: Mirror);

fn check<T>(kernel: &str, args: &KeypointArgs<'_, T>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [num_rows, num_columns, first, num_keypoints] =
        [args.num_rows, args.num_columns, args.first, args.num_keypoints].map(|num| num as usize);
    let last = first.saturating_add(num_keypoints.saturating_mul(args.num_values as usize));
    if num_keypoints == 0 || !matches!(args.num_values, 2 | 3) || last > num_columns {
        let message = format!(
            "{num_keypoints} keypoints of {} numbers from column {first} of {num_columns}",
            args.num_values
        );
        return Err(refused(kernel, &message));
    }
    let num_threads = u64::from(grid.num_blocks[0]) * u64::from(THREADS_PER_BLOCK);
    if grid.num_blocks[1] != 1 || num_threads > u64::from(u32::MAX) {
        return Err(refused(kernel, &format!("{:?} blocks", grid.num_blocks)));
    }
    check_len(kernel, "output", args.output.len(), num_rows.saturating_mul(num_columns))?;
    check_len(kernel, "num", args.num.len(), 1)?;
    check_len(kernel, "settings", args.settings.len(), 1)?;
    let num = args.sources.len().saturating_mul(num_keypoints);
    check_len(kernel, "keypoints", args.keypoints.len(), num)
}

/// `keypoints_*`, by the elements of the output.
pub struct Keypoints<T>(PhantomData<T>);

// SAFETY: `KeypointArgs` mirrors `keypoints::Args` (5 slices and 6 words, compared). A thread whose
// detection is not below the length of `sources` writes nothing; the others write a keypoint below
// `sources.len * num_keypoints`, the least length of `keypoints`, and read numbers of a row below
// the number of rows, in columns below the number of columns, whose product the output has
// (checked). No thread waits.
kernel_specs! {
    check;
    unsafe Keypoints<f32>: "keypoints_f32", KeypointArgs<f32>;
    unsafe Keypoints<f16>: "keypoints_f16", KeypointArgs<f16>;
}
