//! The CUDA implementation of [`decode_yolo`](super::decode_yolo) and
//! [`decode_yolo_rotated`](super::decode_yolo_rotated), with the selection
//! ([`crate::decode::select`]) in the same kernel: one pass over the tensor.
//!
//! The candidates are those of the CPU: decoded, limited to the capacity, then to
//! the wanted classes, then to the best `pre_nms_top_k`; each limit drops the worst in
//! the total order. Boxes, scores, classes and sources are equal (within 1 ULP where
//! an exponential or a sigmoid occurs). Their order in memory is undefined: later ops
//! sort.
//!
//! All layouts, f32 or f16; labels of [`YoloLayout::Detr`] are floats, as all
//! tensors in device memory.

mod head;

use half::f16;
use head::{DetrScores, Head, Kind};

use super::kernels::{
    CellRows, Detr, DetrClassRows, DetrLabels, EndToEnd, MAX_OUTPUTS, PixelRows, Planes, RawRows,
    RotatedEndToEnd, RotatedPlanes, Yolo, YoloArgs, YoloRows,
};
use super::{argument, unsupported};
use crate::decode::logit::logit_bound;
use crate::decode::select::cuda::Selecting;
use crate::decode::select::kernels::{SelectSettings, THREADS_PER_BLOCK};
use crate::device::cuda::{
    DeviceBuffer, DeviceFloat, DeviceTensor, Grid, In, Kernel, KernelSpec, Stream, blocks,
};
use crate::shared::kernels::Floats;
use crate::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{Box2d, ElementType, Result, RotatedBox2d, Size, YoloLayout};

/// The limits of the candidates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selection<'a> {
    /// The smallest score.
    pub score_threshold: f32,
    /// Classes that are wanted; empty for all.
    pub class_filter: &'a [u32],
    /// The maximum number of rows that pass, best first; at least 1 is kept.
    pub candidate_capacity: usize,
    /// The maximum number of candidates of wanted classes, best first.
    pub pre_nms_top_k: usize,
}

/// Kernels and memory of the op on one stream, for one head with boxes `B`.
pub struct Workspace<B = Box2d> {
    stream: Stream,
    kernels: Kernels<B>,
    head: Head,
    memory: Memory<B>,
}

struct Memory<B> {
    selecting: Selecting<B>,
    bound: DeviceBuffer<f32>,
    anchors: DeviceBuffer<[f32; 2]>,
}

impl<B: Floats> Memory<B> {
    fn new(stream: &Stream, head: &Head) -> Result<Self> {
        let mut selecting = Selecting::new(stream, head.max_found(), head.num_classes)?;
        selecting
            .settings
            .write(&[SelectSettings { score_threshold: f32::NAN, ..SelectSettings::default() }])?;
        let mut bound = DeviceBuffer::zeros(stream, 1)?;
        bound.write(&[f32::NAN])?;
        let mut anchors = DeviceBuffer::zeros(stream, head.anchors.len())?;
        anchors.write(&head.anchors)?;
        Ok(Self { selecting, bound, anchors })
    }

    fn args<'a, T: DeviceFloat>(
        &'a mut self,
        stream: &Stream,
        head: &Head,
        outputs: &[&'a DeviceTensor],
        (candidates, counters): (&'a mut DeviceCandidates<B>, &'a mut DeviceCounters),
    ) -> Result<YoloArgs<'a, T, B>> {
        let (logits, normalized) = match head.kind {
            Kind::Detr { logits, normalized, .. } => (logits, normalized),
            _ => (false, false),
        };
        let rows = head.rows;
        Ok(YoloArgs {
            outputs: inputs(outputs, stream)?,
            selection: self.selecting.slices(stream, candidates, counters)?,
            bound: self.bound.input(stream)?,
            anchors: self.anchors.input(stream)?,
            num_rows: head.num_rows as u32,
            num_classes: head.num_classes as u32,
            num_levels: head.num_levels as u32,
            logits: u32::from(logits),
            normalized: u32::from(normalized),
            network_width: head.network.width as f32,
            network_height: head.network.height as f32,
            row_columns: rows.map_or(0, |rows| rows.num_columns as u32),
            row_box: rows.map_or(0, |rows| rows.first_of_box as u32),
            row_score: rows.map_or(0, |rows| rows.score as u32),
            row_class: rows.and_then(|rows| rows.class).map_or(u32::MAX, |class| class as u32),
            levels: head.levels,
            reserved: 0,
        })
    }
}

/// The kernels of one layout, by element type.
struct ByElement<L>
where
    Yolo<L, f32>: KernelSpec,
    Yolo<L, f16>: KernelSpec,
{
    f32: Kernel<Yolo<L, f32>>,
    f16: Kernel<Yolo<L, f16>>,
}

/// The kernels of one layout with boxes `B`.
pub struct Kernels<B>(Box<dyn Decode<B>>);

/// Boxes that kernels decode.
pub trait Decoded: Floats {
    /// Loads the kernels of a layout.
    ///
    /// # Errors
    /// `Argument` for a layout without such boxes; `Device` when this build has no
    /// such kernels.
    fn kernels(stream: &Stream, kind: Kind, layout: &YoloLayout) -> Result<Kernels<Self>>;
}

impl Decoded for Box2d {
    fn kernels(stream: &Stream, kind: Kind, layout: &YoloLayout) -> Result<Kernels<Self>> {
        match kind {
            Kind::PixelRows => ByElement::<PixelRows>::load(stream),
            Kind::CellRows => ByElement::<CellRows>::load(stream),
            Kind::RawRows => ByElement::<RawRows>::load(stream),
            Kind::Planes => ByElement::<Planes>::load(stream),
            Kind::EndToEnd => ByElement::<EndToEnd>::load(stream),
            Kind::Detr { scores: DetrScores::Best, .. } => ByElement::<Detr>::load(stream),
            Kind::Detr { scores: DetrScores::All, .. } => ByElement::<DetrClassRows>::load(stream),
            Kind::Detr { scores: DetrScores::Labels, .. } => ByElement::<DetrLabels>::load(stream),
            Kind::RotatedPlanes | Kind::RotatedEndToEnd => Err(unsupported(layout, "axis-aligned")),
        }
    }
}

impl Decoded for RotatedBox2d {
    fn kernels(stream: &Stream, kind: Kind, layout: &YoloLayout) -> Result<Kernels<Self>> {
        match kind {
            Kind::RotatedPlanes => ByElement::<RotatedPlanes>::load(stream),
            Kind::RotatedEndToEnd => ByElement::<RotatedEndToEnd>::load(stream),
            Kind::PixelRows
            | Kind::CellRows
            | Kind::RawRows
            | Kind::Planes
            | Kind::EndToEnd
            | Kind::Detr { .. } => Err(unsupported(layout, "rotated")),
        }
    }
}

/// Queues the decoding of a network's outputs.
trait Decode<B>: Send {
    fn enqueue(
        &self,
        stream: &Stream,
        head: &Head,
        memory: &mut Memory<B>,
        outputs: &[&DeviceTensor],
        lists: (&mut DeviceCandidates<B>, &mut DeviceCounters),
    ) -> Result<()>;
}

impl<L: YoloRows + 'static> ByElement<L>
where
    Self: Decode<L::Bbox>,
    Yolo<L, f32>: KernelSpec,
    Yolo<L, f16>: KernelSpec,
{
    fn load(stream: &Stream) -> Result<Kernels<L::Bbox>> {
        let device = stream.device();
        Ok(Kernels(Box::new(Self { f32: device.kernel()?, f16: device.kernel()? })))
    }
}

impl<L: YoloRows> Decode<L::Bbox> for ByElement<L>
where
    Yolo<L, f32>: for<'a> KernelSpec<Args<'a> = YoloArgs<'a, f32, L::Bbox>>,
    Yolo<L, f16>: for<'a> KernelSpec<Args<'a> = YoloArgs<'a, f16, L::Bbox>>,
{
    fn enqueue(
        &self,
        stream: &Stream,
        head: &Head,
        memory: &mut Memory<L::Bbox>,
        outputs: &[&DeviceTensor],
        lists: (&mut DeviceCandidates<L::Bbox>, &mut DeviceCounters),
    ) -> Result<()> {
        // At least one block, which writes the counts of an empty tensor.
        let num_blocks = [blocks(head.num_rows, L::ROWS_PER_BLOCK).max(1), 1];
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        if outputs.first().is_some_and(|output| output.element() == ElementType::F16) {
            self.f16.enqueue(stream, grid, memory.args(stream, head, outputs, lists)?)
        } else {
            self.f32.enqueue(stream, grid, memory.args(stream, head, outputs, lists)?)
        }
    }
}

/// The values of all tensors, which have the same element type; then those of the first
/// again.
fn inputs<'a, T: DeviceFloat>(
    outputs: &[&'a DeviceTensor],
    stream: &Stream,
) -> Result<[In<'a, T>; MAX_OUTPUTS]> {
    let [first, ..] = outputs else {
        return Err(argument("0 outputs; at least 1 expected".into()));
    };
    let mut values = [first.input(stream)?; MAX_OUTPUTS];
    for (values, output) in values.iter_mut().zip(outputs) {
        *values = output.input(stream)?;
    }
    Ok(values)
}

impl<B: Decoded> Workspace<B> {
    /// Loads the kernels and allocates memory for a head whose network's outputs have
    /// these shapes. No row passes before [`Workspace::set`].
    ///
    /// # Errors
    /// `Argument` for no classes, a layout with other boxes, or shapes that are not
    /// the layout's, naming expected and found; `Device` when this build has no such kernels or
    /// there is not enough memory.
    pub fn new(
        stream: &Stream,
        layout: &YoloLayout,
        network: Size,
        num_classes: usize,
        shapes: &[&[usize]],
    ) -> Result<Self> {
        let head = Head::new(layout, network, num_classes, shapes)?;
        let kernels = B::kernels(stream, head.kind, layout)?;
        let memory = Memory::new(stream, &head)?;
        Ok(Self { stream: stream.clone(), kernels, head, memory })
    }

    /// Writes the selection to the device and waits; recorded graphs use the values
    /// last set. Classes of the filter that the head does not have are ignored.
    ///
    /// # Errors
    /// `Device` when the copy fails.
    pub fn set(&mut self, selection: &Selection<'_>) -> Result<()> {
        let mut wanted = vec![0_u32; self.memory.selecting.wanted.len()];
        for &class in selection.class_filter {
            if let Some(word) = wanted.get_mut(class as usize / 32) {
                *word |= 1 << (class % 32);
            }
        }
        if self.head.kind.has_logits() {
            self.memory.bound.write(&[logit_bound(selection.score_threshold)])?;
        }
        self.memory.selecting.wanted.write(&wanted)?;
        let count = |num: usize| u32::try_from(num).unwrap_or(u32::MAX);
        self.memory.selecting.settings.write(&[SelectSettings {
            score_threshold: selection.score_threshold,
            top_k: count(selection.pre_nms_top_k),
            has_filter: u32::from(!selection.class_filter.is_empty()),
            capacity: count(selection.candidate_capacity.max(1)),
        }])
    }

    /// Queues the decoding of `outputs` into `candidates`, whose capacity is a limit
    /// like [`Selection::pre_nms_top_k`]. Dropped candidates are added to `counters`.
    ///
    /// # Errors
    /// `Argument` when the tensors do not fit the head, naming expected and found, or
    /// the capacity is 0; `Device` when a buffer belongs to another stream or the
    /// launch fails.
    pub fn enqueue(
        &mut self,
        outputs: &[&DeviceTensor],
        candidates: &mut DeviceCandidates<B>,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        self.head.check(outputs)?;
        let Self { stream, kernels, head, memory } = self;
        kernels.0.enqueue(stream, head, memory, outputs, (candidates, counters))
    }
}
