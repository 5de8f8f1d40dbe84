//! The parameters of `kernels/decode/center.cu`.

use half::f16;

use crate::decode::select::kernels::{MAX_FOUND, SelectSlices, THREADS_PER_BLOCK};
use crate::decode::thresholds::ThresholdArgs;
use crate::device::cuda::{
    Grid, In, KernelSpec, Mirror, Out, Plain, check_lens, check_threads, kernel_constant,
    kernel_specs, mirrors, refused,
};
use crate::shared::Motion;
use det_post_types::{Box3d, Result};

/// Cells per block.
pub const CELLS_PER_BLOCK: u32 = kernel_constant!("decode/center.cu", "kCells") * THREADS_PER_BLOCK;
/// The maximum number of tasks of a head.
pub const MAX_TASKS: usize = kernel_constant!("decode/center.cu", "kMaxTasks") as usize;

/// The range of centres, in device memory: `Settings` in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct CenterSettings {
    /// Not 0: centres outside are dropped.
    pub has_range: u32,
    /// Smallest x, y, z.
    pub min: [f32; 3],
    /// Largest x, y, z, exclusive.
    pub max: [f32; 3],
    /// Padding.
    pub reserved: u32,
}

// SAFETY: 8 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for CenterSettings {}

/// The maps of a task: `Task` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CenterMaps<'a, T> {
    /// A channel per class.
    pub heatmap: In<'a, T>,
    /// Two channels; as all below, twice as many with variances.
    pub offset: In<'a, T>,
    /// One channel.
    pub height: In<'a, T>,
    /// Three channels.
    pub size: In<'a, T>,
    /// Two channels.
    pub rotation: In<'a, T>,
    /// Two channels; none without velocities.
    pub velocity: In<'a, T>,
    /// Rows of a channel.
    pub num_rows: u32,
    /// Columns of a channel.
    pub num_columns: u32,
    /// The source of the first cell.
    pub first_source: u32,
    /// The index of its first class among those of all tasks.
    pub first_class: u32,
    /// Channels of the heat map.
    pub num_classes: u32,
    /// Padding.
    pub reserved: u32,
}

/// The parameter: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CenterArgs<'a, T> {
    /// The selection of candidates, at most one per cell.
    pub selection: SelectSlices<'a, Box3d>,
    /// By found candidate.
    pub motions: Out<'a, Motion>,
    /// By candidate, its index among the found ones.
    pub places: Out<'a, u32>,
    /// One value; 0: no cell passes.
    pub num_voxels: In<'a, u32>,
    /// The settings.
    pub settings: In<'a, CenterSettings>,
    /// By task, the smallest heat that may pass.
    pub bounds: In<'a, f32>,
    /// Task by task, the class of each channel.
    pub classes: In<'a, u32>,
    /// Score thresholds by class and distance.
    pub thresholds: ThresholdArgs<'a>,
    /// By class, the threshold of the norm of sine and cosine.
    pub least_yaw_norms: In<'a, f32>,
    /// The corner of the map.
    pub origin: [f32; 2],
    /// The size of a cell.
    pub cell_size: [f32; 2],
    /// Not 0: heat is a logit.
    pub heat_is_logit: u32,
    /// Not 0: sizes are width, length, height.
    pub width_comes_first: u32,
    /// Not 0: sizes are logarithms.
    pub size_is_log: u32,
    /// Not 0: angles turn clockwise from -y.
    pub yaw_turns_clockwise: u32,
    /// Not 0: there are velocities.
    pub has_velocity: u32,
    /// Not 0: there are variances.
    pub has_variance: u32,
    /// The tasks, as many as the grid has rows of blocks.
    pub tasks: [CenterMaps<'a, T>; MAX_TASKS],
}

mirrors!(CenterSettings, "decode/center.cu", "Settings");
mirrors!(CenterMaps<'_, T>, "decode/center.cu", "Task", T; where T: Mirror);
mirrors!(CenterArgs<'_, T>, "decode/center.cu", "Args", T; where T: Mirror);

fn check<T>(kernel: &str, args: &CenterArgs<'_, T>, grid: &Grid) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [x, y] = grid.num_blocks;
    let num_tasks = y as usize;
    let copies = if args.has_variance == 0 { 1 } else { 2 };
    let mut num_cells = 0_usize;
    for (index, task) in args.tasks.iter().take(num_tasks).enumerate() {
        let cells = (task.num_rows as usize).saturating_mul(task.num_columns as usize);
        num_cells = num_cells.saturating_add(cells);
        if cells > x as usize * CELLS_PER_BLOCK as usize {
            return Err(refused(
                kernel,
                &format!("{x} blocks do not fit {cells} cells of task {index}"),
            ));
        }
        let num_velocities = if args.has_velocity == 0 { 0 } else { 2 * copies };
        let channels = [
            ("heatmap", task.heatmap.len(), task.num_classes as usize),
            ("offset", task.offset.len(), 2 * copies),
            ("height", task.height.len(), copies),
            ("size", task.size.len(), 3 * copies),
            ("rotation", task.rotation.len(), 2 * copies),
            ("velocity", task.velocity.len(), num_velocities),
        ];
        check_lens(
            kernel,
            channels.map(|(name, len, num)| (name, len, num.saturating_mul(cells))),
        )?;
        let last_class = task.first_class as usize + task.num_classes as usize;
        check_lens(kernel, [("classes", args.classes.len(), last_class)])?;
    }
    if num_tasks == 0 || num_tasks > MAX_TASKS || x == 0 || num_cells > MAX_FOUND {
        let message =
            format!("{num_tasks} tasks of {num_cells} cells in all do not fit {x} blocks");
        return Err(refused(kernel, &message));
    }
    let slices = [
        ("num_voxels", args.num_voxels.len(), 1),
        ("settings", args.settings.len(), 1),
        ("bounds", args.bounds.len(), num_tasks),
    ];
    check_lens(kernel, slices)?;
    check_lens(kernel, args.selection.needed(num_cells))
}

/// `decode_center_*`.
pub struct DecodeCenter<T>(std::marker::PhantomData<T>);

// SAFETY: `CenterArgs` mirrors `decode_center::Args` (compared). Cells that are read are below the
// number of cells of their task, whose maps hold all channels that are read (checked); thresholds,
// norms, classes' bits, motions and places are compared with the lengths of their slices, and
// without a filter no bit is read. What a block appends is compared with the lengths of `found` and
// `items`; the block that counts last reads `found` below its length. It waits for the writes of
// the others, which have counted: they run and do not wait.
kernel_specs! {
    check;
    unsafe DecodeCenter<f32>: "decode_center_f32", CenterArgs<f32>;
    unsafe DecodeCenter<f16>: "decode_center_f16", CenterArgs<f16>;
}
