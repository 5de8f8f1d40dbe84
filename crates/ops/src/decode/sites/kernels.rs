//! The parameters of `kernels/decode/sites.cu`.

use crate::decode::select::kernels::{MAX_FOUND, SelectSlices, THREADS_PER_BLOCK};
use crate::decode::thresholds::ThresholdArgs;
use crate::device::cuda::{
    Grid, In, KernelSpec, Out, check_lens, check_threads, kernel_constant, kernel_specs, mirrors,
    refused,
};
use crate::shared::Motion;
use crate::sparse::conv::ZERO_BYTES;
use det_post_types::{Box3d, Result};

/// The maximum number of tasks of a head.
pub const MAX_TASKS: usize = kernel_constant!("decode/sites.cu", "kMaxTasks") as usize;

/// The outputs of a task: `Task` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SiteTaskArgs<'a> {
    /// A channel per class.
    pub heatmap: In<'a, u8>,
    /// Two channels.
    pub offset: In<'a, u8>,
    /// One channel.
    pub height: In<'a, u8>,
    /// Three channels.
    pub size: In<'a, u8>,
    /// Two channels.
    pub rotation: In<'a, u8>,
    /// Two channels; none without velocities.
    pub velocity: In<'a, u8>,
    /// One channel; none without overlaps.
    pub iou: In<'a, u8>,
    /// The source of the first cell.
    pub first_source: u32,
    /// The index of its first class among the classes of all tasks.
    pub first_class: u32,
    /// Channels of the heat map.
    pub num_classes: u32,
    /// Values of a row of the heat map.
    pub heat_len: u32,
}

/// The parameter: `Args` in the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SiteArgs<'a> {
    /// The selection of candidates, at most one per site and class.
    pub selection: SelectSlices<'a, Box3d>,
    /// By found candidate.
    pub motions: Out<'a, Motion>,
    /// By candidate, its index among the found ones.
    pub places: Out<'a, u32>,
    /// Linear indices on the map.
    pub sites: In<'a, u32>,
    /// The first value is the number of sites.
    pub counts: In<'a, u32>,
    /// Least x, y, z of a centre, then greatest.
    pub range: In<'a, f32>,
    /// By class of a task, the smallest heat that may pass.
    pub bounds: In<'a, f32>,
    /// Task by task, the class of each channel.
    pub classes: In<'a, u32>,
    /// Score thresholds by class and distance.
    pub thresholds: ThresholdArgs<'a>,
    /// By class, the threshold of the norm of sine and cosine.
    pub least_yaw_norms: In<'a, f32>,
    /// By class, the weight of the overlap.
    pub iou_weights: In<'a, f32>,
    /// The corner of the map.
    pub origin: [f32; 2],
    /// The size of a cell.
    pub cell_size: [f32; 2],
    /// Columns of the map.
    pub num_columns: u32,
    /// The most sites.
    pub capacity: u32,
    /// Values of a row of all outputs but heat maps.
    pub row_len: u32,
    /// Number of tasks.
    pub num_tasks: u32,
    /// Not 0: there are velocities.
    pub has_velocity: u32,
    /// Not 0: sizes are width, length, height.
    pub width_comes_first: u32,
    /// Not 0: angles turn clockwise from -y.
    pub yaw_turns_clockwise: u32,
    /// Padding.
    pub reserved: u32,
    /// The tasks; those past the last repeat the first.
    pub tasks: [SiteTaskArgs<'a>; MAX_TASKS],
}

mirrors!(SiteTaskArgs<'_>, "decode/sites.cu", "Task");
mirrors!(SiteArgs<'_>, "decode/sites.cu", "Args");

fn check(kernel: &str, args: &SiteArgs<'_>, grid: &Grid, element_bytes: usize) -> Result<()> {
    check_threads(kernel, grid.threads_per_block, THREADS_PER_BLOCK)?;
    let [x, y] = grid.num_blocks;
    let (num_tasks, num_slots) = (args.num_tasks as usize, y as usize);
    let capacity = args.capacity as usize;
    let mut first_class = 0;
    let mut are_in_order = num_tasks <= MAX_TASKS;
    for task in args.tasks.iter().take(num_tasks) {
        are_in_order &= task.first_class == first_class && task.num_classes <= task.heat_len;
        first_class += task.num_classes;
        let rows = |row_len: u32| {
            let row_bytes = row_len as usize * element_bytes;
            ZERO_BYTES.saturating_add(capacity.saturating_mul(row_bytes))
        };
        let (heat, other) = (rows(task.heat_len), rows(args.row_len));
        let optional = |is_there: bool| if is_there { other } else { 0 };
        check_lens(
            kernel,
            [
                ("heatmap", task.heatmap.len(), heat),
                ("offset", task.offset.len(), other),
                ("height", task.height.len(), other),
                ("size", task.size.len(), other),
                ("rotation", task.rotation.len(), other),
                ("velocity", task.velocity.len(), optional(args.has_velocity != 0)),
                ("iou", task.iou.len(), optional(!args.iou_weights.is_empty())),
            ],
        )?;
    }
    let num_pairs = capacity.saturating_mul(num_slots);
    let fits = are_in_order
        && num_tasks > 0
        && first_class == y
        && args.row_len >= 3
        && args.num_columns > 0
        && capacity <= x as usize * THREADS_PER_BLOCK as usize
        && num_pairs <= MAX_FOUND;
    if !fits {
        let message = format!("{num_tasks} tasks of {capacity} sites do not fit {x} by {y} blocks");
        return Err(refused(kernel, &message));
    }
    check_lens(
        kernel,
        [
            ("sites", args.sites.len(), capacity),
            ("counts", args.counts.len(), 1),
            ("range", args.range.len(), 6),
            ("bounds", args.bounds.len(), num_slots),
            ("classes", args.classes.len(), num_slots),
        ],
    )?;
    check_lens(kernel, args.selection.needed(num_pairs))
}

/// `decode_sites_f32`.
pub struct DecodeF32;
/// `decode_sites_f16`.
pub struct DecodeF16;
/// `decode_sites_bf16`.
pub struct DecodeBf16;

// SAFETY: `SiteArgs` mirrors `decode_sites::Args` (compared). Rows that are read are below the
// number of sites and the capacity, for which sites and outputs are long enough; channels are below
// the length of a row (checked: three at most, and of heat maps the classes of the task, which the
// grid has rows of blocks for). Thresholds, norms, weights, motions and places are compared with the
// lengths of their slices, and without a filter no bit is read. What a block appends is compared
// with the lengths of `found` and `items`. The block that counts last waits for the writes of the
// others, which have counted: they run and do not wait.
kernel_specs! {
    check;
    unsafe DecodeF32: "decode_sites_f32", SiteArgs, 4;
    unsafe DecodeF16: "decode_sites_f16", SiteArgs, 2;
    unsafe DecodeBf16: "decode_sites_bf16", SiteArgs, 2;
}
