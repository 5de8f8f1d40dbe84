//! The CUDA implementation of [`mask`](super::mask): two kernels behind the gathering, for a
//! recorded graph. Equal to the CPU, bit for bit, but for the sigmoid.

use half::f16;

pub use super::kernels::MaskTotals;
use super::kernels::{
    Bits, BitsArgs, MaskSettings, PLAN_THREADS, Plan, PlanArgs, Planned, THREADS_PER_BLOCK,
};
use super::{Coefficients, MaskMapping, Places, argument};
use crate::decode::gather::cuda::GatheredRows;
use crate::device::cuda::{
    DeviceBuffer, DeviceFloat, DeviceTensor, Grid, Kernel, MappedBuffer, Stream,
};
use det_post_types::{Box2d, ElementType, MaskWindow, Masks, Result, Size};

/// Blocks of a multiprocessor that take tiles.
const BLOCKS_PER_MULTIPROCESSOR: u32 = 8;

/// The outputs of a network that masks are computed from, in device memory.
#[derive(Clone, Copy)]
pub struct Outputs<'a> {
    /// The tensor with the coefficients; with [`Coefficients::Maps`] the maps, too.
    pub predictions: &'a DeviceTensor,
    /// Where they are in it.
    pub coefficients: Coefficients,
    /// `[1, M, h, w]`, of the same element type; with [`Coefficients::Maps`] a map for each row.
    pub prototypes: &'a DeviceTensor,
}

/// Kernels and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    plan: Kernel<Plan>,
    f32: Kernel<Bits<f32>>,
    f16: Kernel<Bits<f16>>,
    settings: DeviceBuffer<MaskSettings>,
    planned: DeviceBuffer<Planned>,
    totals: DeviceBuffer<MaskTotals>,
    windows: MappedBuffer<MaskWindow>,
    /// By mask, not 0 where a coefficient or the value of a pixel is not finite.
    invalid: MappedBuffer<u32>,
    published: MappedBuffer<MaskTotals>,
    words: MappedBuffer<u32>,
    word_capacity: usize,
    image: Size,
}

/// The masks of a frame, copied from mapped memory.
#[derive(Debug, Default)]
pub struct ReadMasks {
    image: Size,
    windows: Vec<MaskWindow>,
    words: Vec<u32>,
    /// By mask.
    invalid: Vec<u32>,
}

impl ReadMasks {
    /// Memory for the masks of `max_detections`, together of `capacity_bytes`.
    pub fn with_capacity(max_detections: usize, capacity_bytes: usize) -> Self {
        Self {
            image: Size::new(0, 0),
            windows: Vec::with_capacity(max_detections),
            words: Vec::with_capacity(capacity_bytes / size_of::<u32>()),
            invalid: Vec::with_capacity(max_detections),
        }
    }

    /// Of how many of them a coefficient or the value of a pixel is NaN or infinite.
    pub fn num_invalid(&self) -> usize {
        self.invalid.iter().filter(|&&is| is != 0).count()
    }

    /// The masks.
    pub fn masks(&self) -> Masks<'_> {
        Masks { image: self.image, windows: &self.windows, words: &self.words }
    }
}

impl Workspace {
    /// Loads the kernels and allocates memory for the masks of `max_detections`, together of
    /// `capacity_bytes`. There are no masks before [`Workspace::set`].
    ///
    /// # Errors
    /// `Device` when this build has no such kernels or there is not enough memory.
    pub fn new(stream: &Stream, max_detections: usize, capacity_bytes: usize) -> Result<Self> {
        let device = stream.device();
        let word_capacity = (capacity_bytes / size_of::<u32>()).min(u32::MAX as usize);
        Ok(Self {
            stream: stream.clone(),
            plan: device.kernel()?,
            f32: device.kernel()?,
            f16: device.kernel()?,
            settings: DeviceBuffer::zeros(stream, 1)?,
            planned: DeviceBuffer::zeros(stream, max_detections.max(1))?,
            totals: DeviceBuffer::zeros(stream, 1)?,
            windows: MappedBuffer::zeros(stream, max_detections.max(1))?,
            invalid: MappedBuffer::zeros(stream, max_detections.max(1))?,
            published: MappedBuffer::zeros(stream, 1)?,
            words: MappedBuffer::zeros(stream, word_capacity.max(1))?,
            word_capacity,
            image: Size::new(0, 0),
        })
    }

    /// Writes the mapping to the device and waits: needed when the size of the image changes.
    /// Recorded graphs use the mapping last set.
    ///
    /// # Errors
    /// `Argument` when the mapping does not fit prototypes of the shape `prototypes`; `Device` when
    /// the copy fails.
    pub fn set(&mut self, mapping: &MaskMapping, prototypes: &[usize]) -> Result<()> {
        mapping.check(prototypes)?;
        let MaskMapping { x, y, image, sigmoid, level, extent } = *mapping;
        self.image = image;
        self.settings.write(&[MaskSettings {
            x,
            y,
            width: image.width,
            height: image.height,
            sigmoid: u32::from(sigmoid),
            level,
            extent: extent as u32,
            reserved: 0,
        }])
    }

    /// Queues the masks of the detections that gathering left on the device.
    ///
    /// # Errors
    /// `Argument` when the shapes or the element types of the tensors do not fit, naming expected
    /// and found; `Device` when a buffer belongs to another stream or a launch fails.
    pub fn enqueue(&mut self, outputs: &Outputs<'_>, rows: &GatheredRows<Box2d>) -> Result<()> {
        let Outputs { predictions, coefficients, prototypes } = *outputs;
        let shapes = [predictions.shape(), prototypes.shape()];
        let places = Places::new(coefficients, shapes[0], shapes[1])?;
        match (predictions.element(), prototypes.element()) {
            (ElementType::F32, ElementType::F32) | (ElementType::F16, ElementType::F16) => {}
            (found, other) => {
                let message = format!("predictions of {found} and prototypes of {other}; the same");
                return Err(argument(message + " type expected"));
            }
        }
        let num_blocks = self.stream.device().num_multiprocessors() * BLOCKS_PER_MULTIPROCESSOR;
        let Self { stream, plan, f32, f16, settings, planned, totals, windows, .. } = self;
        let (published, invalid) = (&mut self.published, &mut self.invalid);
        let args = PlanArgs {
            detections: rows.detections.input(stream)?,
            sources: rows.sources.input(stream)?,
            num_detections: rows.num.input(stream)?,
            settings: settings.input(stream)?,
            planned: planned.output(stream)?,
            totals: totals.output(stream)?,
            published: windows.output(stream)?,
            published_totals: published.output(stream)?,
            invalid: invalid.output(stream)?,
            word_capacity: u32::try_from(self.word_capacity).unwrap_or(u32::MAX),
            reserved: 0,
        };
        let grid = Grid { num_blocks: [1, 1], threads_per_block: PLAN_THREADS };
        plan.enqueue(stream, grid, args)?;
        let words = &mut self.words;
        let planned = PlannedMasks { settings, planned, totals, words, invalid };
        let grid = Grid { num_blocks: [num_blocks, 1], threads_per_block: THREADS_PER_BLOCK };
        match predictions.element() {
            ElementType::F16 => f16.enqueue(stream, grid, planned.args(stream, outputs, places)?),
            _ => f32.enqueue(stream, grid, planned.args(stream, outputs, places)?),
        }
    }

    /// Replaces the contents of `out` by the masks of the queued frame, for which the caller has
    /// waited. Nothing is allocated if `out` has the capacities of the workspace.
    pub fn read_complete(&self, out: &mut ReadMasks) -> MaskTotals {
        let totals = self.published.get(0).unwrap_or_default();
        out.image = self.image;
        out.windows.clear();
        out.words.clear();
        out.invalid.clear();
        self.windows.copy_to(totals.num_masks as usize, &mut out.windows);
        self.words.copy_to(totals.num_words as usize, &mut out.words);
        self.invalid.copy_to(totals.num_masks as usize, &mut out.invalid);
        totals
    }
}

/// What `mask_plan` wrote, and the memory of the bits.
struct PlannedMasks<'a> {
    settings: &'a DeviceBuffer<MaskSettings>,
    planned: &'a DeviceBuffer<Planned>,
    totals: &'a DeviceBuffer<MaskTotals>,
    words: &'a mut MappedBuffer<u32>,
    invalid: &'a mut MappedBuffer<u32>,
}

impl<'a> PlannedMasks<'a> {
    /// The parameter of `mask_bits_*`.
    fn args<T: DeviceFloat>(
        self,
        stream: &Stream,
        outputs: &Outputs<'a>,
        places: Places,
    ) -> Result<BitsArgs<'a, T>> {
        let Outputs { predictions, prototypes, .. } = *outputs;
        let &[_, _, height, width] = prototypes.shape() else {
            return Err(argument(format!("prototypes {:?}", prototypes.shape())));
        };
        let word = |num: usize| {
            u32::try_from(num).map_err(|_| argument(format!("{num} is above {}", u32::MAX)))
        };
        Ok(BitsArgs {
            predictions: predictions.input(stream)?,
            prototypes: prototypes.input(stream)?,
            settings: self.settings.input(stream)?,
            planned: self.planned.input(stream)?,
            totals: self.totals.input(stream)?,
            words: self.words.output(stream)?,
            invalid: self.invalid.output(stream)?,
            map_width: word(width)?,
            map_height: word(height)?,
            num_prototypes: word(places.num_coefficients)?,
            num_rows: word(places.num_rows)?,
            first: word(places.first)?,
            row_distance: word(places.row_distance)?,
            distance: word(places.distance)?,
            are_maps: u32::from(places.are_maps),
        })
    }
}
