//! The CUDA side of [`decode_yolo`](super::decode_yolo), with the choice of
//! the best ([`crate::ops::select`]) in the same kernel: one pass over the
//! tensor.
//!
//! The candidates are those of the CPU: decoded, cut to the capacity, then to
//! the wanted classes, then to the best `pre_nms_top_k`, each cut losing the
//! worst by the total order. Boxes, scores, classes and sources are equal (of
//! [`YoloLayout::Yolox`] sizes within 1 ULP: an exponential). They lie in any
//! order: the ops that follow sort.
//!
//! Layouts: `V5`, `V8` and `Yolox`, f32 or f16.

use half::f16;

use super::argument;
use crate::device::cuda::abi::decode_yolo::{
    COLUMNS_PER_BLOCK, Cells, MAX_LEVELS, Planes, ROWS_PER_BLOCK, Rows, YoloArgs, YoloLevel,
};
use crate::device::cuda::abi::select::{
    DecodeCounts, MAX_FOUND, SelectSettings, Selection as Slices, THREADS_PER_BLOCK,
};
use crate::device::cuda::{
    DeviceBuffer, DeviceCandidates, DeviceTensor, DeviceValues, Grid, In, Kernel, KernelSpec,
    Stream, blocks,
};
use crate::error::Result;
use crate::types::{Box2d, Candidate, Size, YoloLayout};

/// Which candidates go on to suppression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selection<'a> {
    /// Rows pass when their score is at least this.
    pub score_threshold: f32,
    /// Classes that are wanted; empty for all.
    pub class_filter: &'a [u32],
    /// The most rows that may pass, the best; at least one.
    pub candidate_capacity: usize,
    /// The most candidates of wanted classes, the best.
    pub pre_nms_top_k: usize,
}

/// Kernels and memory of the op on one stream, for one kind of head.
pub struct Workspace {
    stream: Stream,
    kernels: Kernels,
    head: Head,
    memory: Memory,
}

struct Memory {
    settings: DeviceBuffer<SelectSettings>,
    wanted: DeviceBuffer<u32>,
    found: DeviceBuffer<Candidate<Box2d>>,
    totals: DeviceBuffer<u64>,
    counts: DeviceBuffer<DecodeCounts>,
}

impl Memory {
    fn args<'a, T>(
        &'a mut self,
        stream: &Stream,
        head: &Head,
        values: In<'a, T>,
        candidates: &'a mut DeviceCandidates<Box2d>,
    ) -> Result<YoloArgs<'a, T>> {
        Ok(YoloArgs {
            values,
            selection: Slices {
                settings: self.settings.input(stream)?,
                wanted: self.wanted.input(stream)?,
                found: self.found.output(stream)?,
                items: candidates.items.output(stream)?,
                num: candidates.num.output(stream)?,
                totals: self.totals.output(stream)?,
                counts: self.counts.output(stream)?,
            },
            num_rows: head.num_rows as u32,
            num_classes: head.num_classes as u32,
            num_levels: head.num_levels as u32,
            reserved: 0,
            levels: head.levels,
        })
    }
}

/// What the shape of the tensor must be, and how its rows are read.
struct Head {
    num_rows: usize,
    num_classes: usize,
    num_levels: usize,
    levels: [YoloLevel; MAX_LEVELS],
    is_planes: bool,
}

enum Kernels {
    Rows(Kernel<Rows<f32>>, Kernel<Rows<f16>>),
    Cells(Kernel<Cells<f32>>, Kernel<Cells<f16>>),
    Planes(Kernel<Planes<f32>>, Kernel<Planes<f16>>),
}

impl Head {
    fn new(
        layout: &YoloLayout,
        network: Size,
        num_classes: usize,
        num_rows: usize,
    ) -> Result<Self> {
        if num_classes == 0 {
            return Err(argument("0 classes; at least 1".into()));
        }
        let mut head = Self {
            num_rows,
            num_classes,
            num_levels: 0,
            levels: [YoloLevel::default(); MAX_LEVELS],
            is_planes: matches!(layout, YoloLayout::V8),
        };
        if let YoloLayout::Yolox { strides } = layout {
            head.set_levels(strides, network)?;
        }
        if num_rows > MAX_FOUND {
            return Err(argument(format!("{num_rows} rows; at most {MAX_FOUND}")));
        }
        Ok(head)
    }

    /// The levels of a grid, whose cells must be the rows.
    fn set_levels(&mut self, strides: &[u32], network: Size) -> Result<()> {
        if strides.len() > MAX_LEVELS {
            return Err(argument(format!("{} levels; at most {MAX_LEVELS}", strides.len())));
        }
        let mut first_row = 0;
        for (level, &stride) in self.levels.iter_mut().zip(strides) {
            let Size { width, height } = network;
            if stride == 0 || width % stride != 0 || height % stride != 0 {
                return Err(argument(format!(
                    "stride {stride}; a divisor of the network's input {width}x{height} expected"
                )));
            }
            let num_columns = width / stride;
            *level =
                YoloLevel { first_row, num_columns, stride: stride as f32, ..YoloLevel::default() };
            first_row += num_columns * (height / stride);
        }
        self.num_levels = strides.len();
        if first_row as usize != self.num_rows {
            return Err(argument(format!(
                "{} rows; {first_row} expected for strides {strides:?}",
                self.num_rows
            )));
        }
        Ok(())
    }

    fn check(&self, outputs: &[&DeviceTensor]) -> Result<()> {
        let [output] = outputs else {
            return Err(argument(format!("{} outputs; 1 expected", outputs.len())));
        };
        let expected = if self.is_planes {
            [1, 4 + self.num_classes, self.num_rows]
        } else {
            [1, self.num_rows, 5 + self.num_classes]
        };
        if output.shape() != expected {
            return Err(argument(format!("output {:?}; {expected:?} expected", output.shape())));
        }
        Ok(())
    }
}

impl Workspace {
    /// Takes kernels and memory for the `num_rows` of a head's tensor (of `V8`
    /// its columns). Nothing passes before [`Workspace::set`].
    ///
    /// # Errors
    /// `Argument` for a layout without a CUDA side, no classes, or a number of
    /// rows that is not the layout's; `Device` when this build has no such
    /// kernels or there is not enough memory.
    pub fn new(
        stream: &Stream,
        layout: &YoloLayout,
        network: Size,
        num_classes: usize,
        num_rows: usize,
    ) -> Result<Self> {
        let device = stream.device();
        let kernels = match layout {
            YoloLayout::V5 => Kernels::Rows(device.kernel()?, device.kernel()?),
            YoloLayout::Yolox { .. } => Kernels::Cells(device.kernel()?, device.kernel()?),
            YoloLayout::V8 => Kernels::Planes(device.kernel()?, device.kernel()?),
            YoloLayout::V5Raw { .. } | YoloLayout::EndToEnd | YoloLayout::Detr { .. } => {
                return Err(argument(format!("{layout:?} has no CUDA side")));
            }
        };
        let head = Head::new(layout, network, num_classes, num_rows)?;
        let mut settings = DeviceBuffer::zeros(stream, 1)?;
        settings
            .write(&[SelectSettings { score_threshold: f32::NAN, ..SelectSettings::default() }])?;
        Ok(Self {
            stream: stream.clone(),
            kernels,
            head,
            memory: Memory {
                settings,
                wanted: DeviceBuffer::zeros(stream, num_classes.div_ceil(32))?,
                found: DeviceBuffer::zeros(stream, num_rows)?,
                totals: DeviceBuffer::zeros(stream, 3)?,
                counts: DeviceBuffer::zeros(stream, 1)?,
            },
        })
    }

    /// Writes the selection to the device and waits; recorded graphs follow
    /// it. Classes of the filter that the head has not are left out.
    ///
    /// # Errors
    /// `Device` when the copy fails.
    pub fn set(&mut self, selection: &Selection<'_>) -> Result<()> {
        let mut wanted = vec![0_u32; self.memory.wanted.len()];
        for &class in selection.class_filter {
            if let Some(word) = wanted.get_mut(class as usize / 32) {
                *word |= 1 << (class % 32);
            }
        }
        self.memory.wanted.write(&wanted)?;
        let count = |num: usize| u32::try_from(num).unwrap_or(u32::MAX);
        self.memory.settings.write(&[SelectSettings {
            score_threshold: selection.score_threshold,
            top_k: count(selection.pre_nms_top_k),
            has_filter: u32::from(!selection.class_filter.is_empty()),
            capacity: count(selection.candidate_capacity.max(1)),
        }])
    }

    /// Queues the decoding of `outputs` into `candidates`. Their capacity limits
    /// what goes on as [`Selection::pre_nms_top_k`] does.
    ///
    /// # Errors
    /// `Argument` when the tensors do not fit the head, naming expected and
    /// found, or there is no room for a candidate; `Device` when a buffer is
    /// another stream's or the launch fails.
    pub fn enqueue(
        &mut self,
        outputs: &[&DeviceTensor],
        candidates: &mut DeviceCandidates<Box2d>,
    ) -> Result<()> {
        self.head.check(outputs)?;
        let [output] = outputs else { return Ok(()) };
        let Self { stream, kernels, head, memory } = self;
        match output.values() {
            DeviceValues::F32(values) => {
                let args = memory.args(stream, head, values.input(stream)?, candidates)?;
                match kernels {
                    Kernels::Rows(kernel, _) => launch(kernel, stream, ROWS_PER_BLOCK, args),
                    Kernels::Cells(kernel, _) => launch(kernel, stream, ROWS_PER_BLOCK, args),
                    Kernels::Planes(kernel, _) => launch(kernel, stream, COLUMNS_PER_BLOCK, args),
                }
            }
            DeviceValues::F16(values) => {
                let args = memory.args(stream, head, values.input(stream)?, candidates)?;
                match kernels {
                    Kernels::Rows(_, kernel) => launch(kernel, stream, ROWS_PER_BLOCK, args),
                    Kernels::Cells(_, kernel) => launch(kernel, stream, ROWS_PER_BLOCK, args),
                    Kernels::Planes(_, kernel) => launch(kernel, stream, COLUMNS_PER_BLOCK, args),
                }
            }
        }
    }

    /// What decoding counted, on the device, for `gather`.
    pub fn counts(&self) -> &DeviceBuffer<DecodeCounts> {
        &self.memory.counts
    }
}

fn launch<'a, T: 'static, K>(
    kernel: &Kernel<K>,
    stream: &Stream,
    rows_per_block: u32,
    args: YoloArgs<'a, T>,
) -> Result<()>
where
    K: for<'b> KernelSpec<Args<'b> = YoloArgs<'b, T>>,
{
    // At least one block, which writes the counts of an empty tensor.
    let num_blocks = [blocks(args.num_rows as usize, rows_per_block).max(1), 1];
    kernel.enqueue(stream, Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK }, args)
}
