//! A kernel with its weights between windows: what convolutions, transposed convolutions and
//! products of matrices are made of.

use super::args::{ConvArgs, MapArgs};
use super::exact::ExactLayout;
use super::job::{Job, Operand};
use super::kernels::{ConvKernel, has_warpgroups};
use super::pack::{Packed, Source, pack, pack_exact};
use super::tiling::{Layout, Limits, TILINGS, layouts};
use super::{Products, argument, exact};
use crate::dense::Residual;
use crate::dense::arena::{Arena, InPlace, Input, Output, check_disjoint};
use crate::device::cuda::{DeviceBuffer, Grid, In, Stream};
use det_post_types::{ElementType, Result};

/// A kernel that suits a convolution and its shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The name of the kernel.
    pub name: &'static str,
    index: usize,
}

/// A kernel with its weights, and the windows of a job.
pub(crate) struct Launch {
    stream: Stream,
    job: Job,
    plan: Plan,
    kernel: ConvKernel,
    weights: DeviceBuffer<u8>,
    bias: DeviceBuffer<f32>,
    steps: DeviceBuffer<u32>,
}

/// How a job is divided.
#[derive(Clone, Copy, Debug)]
enum Plan {
    /// Matrix instructions.
    F16(Layout),
    /// Sums in the order of the contract.
    Exact(ExactLayout),
    /// One channel a group.
    Depthwise,
}

fn limits(stream: &Stream) -> Result<Limits> {
    let device = stream.device();
    Ok(Limits {
        shared_bytes: device.shared_bytes_per_block()?,
        num_multiprocessors: device.num_multiprocessors(),
        has_warpgroups: has_warpgroups(device)?,
    })
}

impl Plan {
    /// The plans that give the same bytes, best first.
    fn all(job: &Job, limits: Limits) -> Vec<Self> {
        if job.groups > 1 && [job.inputs, job.outputs] == [1; 2] && job.shuffle == [1; 2] {
            return vec![Self::Depthwise];
        }
        if job.products == Products::F32 {
            return exact::layouts(job, limits).into_iter().map(Self::Exact).collect();
        }
        layouts(job, limits).into_iter().map(|(layout, _)| Self::F16(layout)).collect()
    }

    fn tile(&self) -> Tile {
        let (index, name) = match self {
            Self::F16(layout) => (layout.index, TILINGS[layout.index].name),
            Self::Exact(layout) => (layout.index, exact::TILINGS[layout.index].name),
            Self::Depthwise => (0, "dense_conv_depthwise"),
        };
        Tile { name, index }
    }

    /// Blocks and threads of the launch.
    fn grid(&self, job: &Job) -> Grid {
        let (num_blocks, threads_per_block) = match self {
            Self::F16(layout) => {
                (layout.num_blocks(job), TILINGS[layout.index].threads_per_block())
            }
            Self::Exact(layout) => {
                (layout.num_blocks(job), exact::TILINGS[layout.index].threads_per_block())
            }
            Self::Depthwise => {
                let threads = exact::DEPTHWISE_THREADS;
                let pieces = u64::from(job.items)
                    * u64::from(job.size[0])
                    * u64::from(job.size[1])
                    * u64::from(job.groups.div_ceil(8));
                let blocks = pieces.div_ceil(u64::from(threads));
                ([u32::try_from(blocks).unwrap_or(u32::MAX), 1], threads)
            }
        };
        Grid { num_blocks, threads_per_block }
    }

    /// Columns of a group, padded.
    fn num_columns(&self, job: &Job) -> u32 {
        match self {
            Self::F16(layout) => layout.column_blocks * TILINGS[layout.index].columns,
            Self::Exact(layout) => layout.column_blocks * exact::TILINGS[layout.index].columns,
            Self::Depthwise => job.groups.next_multiple_of(8),
        }
    }

    fn pack(&self, job: &Job, source: &Source<'_>) -> Packed {
        match self {
            Self::F16(layout) => pack(job, layout, source),
            Self::Exact(_) => pack_exact(job, job.groups, self.num_columns(job), source),
            // The groups are the columns of one.
            Self::Depthwise => {
                let weight = |_: u32, column, tap, input| (source.weight)(column, 0, tap, input);
                let bias = |_: u32, column| (source.bias)(column, 0);
                let source = Source { weight: &weight, bias: &bias };
                pack_exact(job, 1, self.num_columns(job), &source)
            }
        }
    }
}

impl Launch {
    /// The kernels for a job, the best first.
    ///
    /// # Errors
    /// `Device` with the driver's error.
    pub(crate) fn tiles(arena: &Arena, job: &Job) -> Result<Vec<Tile>> {
        let plans = Plan::all(job, limits(arena.stream())?);
        Ok(plans.iter().map(Plan::tile).collect())
    }

    /// Packs the weights for a kernel, the best without one given.
    ///
    /// # Errors
    /// `Argument` when no kernel fits; `Device` when this build has none or there is not enough
    /// memory.
    pub(crate) fn new(
        arena: &Arena,
        job: Job,
        source: &Source<'_>,
        tile: Option<Tile>,
    ) -> Result<Self> {
        let stream = arena.stream().clone();
        let mut plans = Plan::all(&job, limits(&stream)?).into_iter();
        let Some(plan) = plans.find(|plan| tile.is_none_or(|tile| tile == plan.tile())) else {
            return argument(format!(
                "no tile of a kernel fits {} to {} channels by a kernel of {:?} with stride {:?} and \
                 dilation {:?} into the shared memory of {}",
                job.inputs,
                job.outputs,
                job.kernel,
                job.stride,
                job.dilation,
                stream.device()
            ));
        };
        let shared_bytes = if let Plan::F16(layout) = &plan { layout.shared_bytes } else { 0 };
        let threads = plan.grid(&job).threads_per_block;
        let kernel = ConvKernel::load(stream.device(), plan.tile().name, shared_bytes, threads)?;
        let packed = plan.pack(&job, source);
        let mut weights = DeviceBuffer::zeros(&stream, packed.weights.len())?;
        weights.write(&packed.weights)?;
        let mut bias = DeviceBuffer::zeros(&stream, packed.bias.len())?;
        bias.write(&packed.bias)?;
        let mut steps = DeviceBuffer::zeros(&stream, packed.steps.len())?;
        steps.write(&packed.steps)?;
        Ok(Self { stream, job, plan, kernel, weights, bias, steps })
    }

    /// The name of the kernel.
    pub(crate) fn kernel(&self) -> &'static str {
        self.plan.tile().name
    }

    /// Queues it.
    ///
    /// # Errors
    /// `Argument` when windows are not within the arena's buffers or overlap; `Device` when the
    /// arena belongs to another stream, or the launch fails.
    pub(crate) fn enqueue(&self, arena: &Arena) -> Result<()> {
        let job = &self.job;
        let read = |operand: &Operand| arena.input(&operand.region);
        let input = read(&job.input)?;
        let output = arena.output(&job.output.region)?;
        let right = job.right.as_ref().map(read).transpose()?;
        let residual = job.residual.as_ref().map(read).transpose()?;
        for input in [Some(&input), right.as_ref()].into_iter().flatten() {
            check_disjoint("conv", &[&output], &[input], InPlace::Refused)?;
        }
        // A residual may be the output: a thread reads the values that it writes.
        if let Some(residual) = &residual {
            check_disjoint("conv", &[&output], &[residual], InPlace::SameWindow)?;
        }
        let mut pairs = vec![(input.element(), &job.input)];
        pairs.extend(right.as_ref().map(Input::element).zip(job.right.as_ref()));
        pairs.extend(residual.as_ref().map(Input::element).zip(job.residual.as_ref()));
        pairs.push((output.element(), &job.output));
        if pairs.iter().any(|(element, operand)| *element != operand.element) {
            return argument("the arena has buffers of other elements".to_owned());
        }
        let windows = Windows { input, right, residual, output };
        let args = self.args(&windows)?;
        self.kernel.enqueue(&self.stream, self.plan.grid(job), args)
    }

    fn args<'a>(&'a self, windows: &Windows<'a>) -> Result<ConvArgs<'a>> {
        let job = &self.job;
        let stored = |operand: &Operand| {
            let is_whole = job.groups == 1 || job.outputs.is_multiple_of(8);
            let is_depthwise = matches!(self.plan, Plan::Depthwise);
            map_of(operand, operand.is_vector() && (is_whole || is_depthwise))
        };
        let is_vector = match self.plan {
            Plan::F16(_) => job.is_vector(),
            Plan::Exact(_) => false,
            Plan::Depthwise => job.input.is_vector(),
        };
        // The groups of a depthwise convolution are the channels of one.
        let [inputs, outputs] = match self.plan {
            Plan::Depthwise => [job.groups; 2],
            _ => [job.inputs, job.outputs],
        };
        let mut args = ConvArgs {
            input: windows.input.bytes(),
            weights: match &windows.right {
                Some(right) => right.bytes(),
                None => self.weights.input(&self.stream)?,
            },
            bias: self.bias.input(&self.stream)?,
            residual: windows.residual.map_or_else(In::empty, |residual| residual.bytes()),
            steps: self.steps.input(&self.stream)?,
            output: windows.output.bytes(),
            in_map: map_of(&job.input, is_vector),
            res_map: job.residual.as_ref().map(stored).unwrap_or_default(),
            out_map: stored(&job.output),
            activation: job.epilogue.activation.into(),
            residual_place: match job.epilogue.residual {
                None => 0,
                Some(Residual::BeforeActivation) => 1,
                Some(Residual::AfterActivation) => 2,
            },
            num_items: job.items,
            in_height: job.input_size[0],
            in_width: job.input_size[1],
            upsample_shift: job.upsample - 1,
            out_height: job.size[0],
            out_width: job.size[1],
            kernel_y: job.kernel[0],
            kernel_x: job.kernel[1],
            stride_y: job.stride[0],
            stride_x: job.stride[1],
            dilation_y: job.dilation[0],
            dilation_x: job.dilation[1],
            pad_y: job.pad[0] as u32,
            pad_x: job.pad[1] as u32,
            num_inputs: inputs,
            num_outputs: outputs,
            tap_columns: job.tap_columns(),
            shuffle_y: job.shuffle[0],
            shuffle_x: job.shuffle[1],
            num_columns: self.plan.num_columns(job),
            num_products: job.kernel[0] * job.kernel[1] * job.inputs,
            weights_vector: u32::from(job.right.is_none()),
            weights_f32: 1,
            rounds: u32::from(job.products == Products::F16),
            column_blocks: 1,
            tiles_y: 1,
            tiles_x: 1,
            ..ConvArgs::empty()
        };
        if let Some(right) = &job.right {
            let map = map_of(right, false);
            args.weights_f32 = map.is_f32;
            args.weights_item = map.item;
            args.weights_input = map.channel;
            args.weights_column = map.pixel;
        }
        match &self.plan {
            Plan::F16(layout) => write_f16(layout, &mut args),
            Plan::Exact(layout) => {
                args.column_blocks = layout.column_blocks;
                [args.tiles_y, args.tiles_x] = layout.tiles;
                args.tile_x_log2 = layout.tile_x_log2;
            }
            Plan::Depthwise => {}
        }
        Ok(args)
    }
}

fn write_f16(layout: &Layout, args: &mut ConvArgs<'_>) {
    args.column_blocks = layout.column_blocks;
    [args.tiles_y, args.tiles_x] = layout.tiles;
    args.tile_x_log2 = layout.tile_x_log2;
    [args.patch_height, args.patch_width] = layout.patch;
    args.pixel_bytes = layout.pixel_bytes;
    args.patch_bytes = layout.patch_bytes;
    args.num_patches = layout.num_patches;
    args.chunk_channels = layout.chunk_channels;
    args.num_chunks = layout.num_chunks;
    args.chunk_steps = layout.chunk_steps;
    args.num_steps = layout.num_steps;
}

/// What a launch reads and writes.
struct Windows<'a> {
    input: Input<'a>,
    right: Option<Input<'a>>,
    residual: Option<Input<'a>>,
    output: Output<'a>,
}

/// The strides of a window `[N, C, H, W]`; those of a dimension of length 1 mean nothing.
fn map_of(operand: &Operand, is_vector: bool) -> MapArgs {
    let window = &operand.region.window;
    let stride = |axis: usize| {
        if window.dims()[axis] == 1 { u32::from(axis == 1) } else { window.strides()[axis] as u32 }
    };
    MapArgs {
        item: stride(0),
        channel: stride(1),
        row: stride(2),
        pixel: stride(3),
        is_f32: u32::from(operand.element == ElementType::F32),
        is_vector: u32::from(is_vector),
    }
}
