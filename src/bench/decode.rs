//! From a network's outputs to detections: decoding, suppression, gathering.

use super::case::{Bar, Case, wall};
use super::inputs::{detr, yolo};
use super::letterbox::NETWORK;
use super::measure::Bench;
use crate::detectors::image2d::ImageBoxes;
use det_post_ops::decode::select::select;
use det_post_ops::device::Device;
use det_post_ops::nms::Workspace;
use det_post_types::ElementType::{self, F16, F32};
use det_post_types::{
    Box2d, Candidates, ClassMode, Detection2d, DetrBoxes, DetrClasses, Kept, Letterbox, Nms2d,
    NmsIou, NmsRotated, Placement, Result, RotatedBox2d, Size, Tensor, YoloLayout,
};

pub(super) const SOURCE: Size = Size::new(1920, 1080);
pub(super) const MAX_DETECTIONS: usize = 300;
const SCORE_THRESHOLD: f32 = 0.25;
pub(super) const NUM_CLASSES: usize = 80;
/// Of RF-DETR.
const DETR_THRESHOLD: f32 = 0.5;
const NUM_DETR_CLASSES: usize = 91;
/// The most candidates that are found, and that enter suppression: what the
/// parameters `candidate_capacity` and `pre_nms_top_k` are by default.
const CAPACITY: usize = 8192;
const TOP_K: usize = 1000;

/// Head, element type, rows that pass, bar of decoding and suppression.
const ROWS: [(Kind, ElementType, usize, Option<Bar>); 13] = [
    (Kind::V5, F32, 0, None),
    (Kind::V5, F32, 200, wall(Some(39.0), 12.0)),
    (Kind::V5, F32, 1000, wall(Some(178.0), 15.0)),
    (Kind::V5, F16, 200, None),
    (Kind::V5, F16, 1000, None),
    (Kind::V5, F32, 12_600, None),
    (Kind::V8, F32, 200, None),
    (Kind::V8, F16, 1000, None),
    (Kind::Obb, F32, 200, None),
    (Kind::Obb, F32, 1000, None),
    (Kind::Yolox, F32, 200, None),
    (Kind::RfDetr, F32, 30, None),
    (Kind::RfDetr, F16, 30, None),
];

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    V5,
    V8,
    Obb,
    Yolox,
    RfDetr,
}

impl Kind {
    fn layout(self) -> YoloLayout {
        match self {
            Self::V5 => YoloLayout::V5,
            Self::V8 => YoloLayout::V8,
            Self::Obb => YoloLayout::Obb,
            Self::Yolox => YoloLayout::Yolox { strides: vec![8, 16, 32] },
            Self::RfDetr => YoloLayout::Detr {
                boxes: DetrBoxes::CenterNormalized,
                logits: true,
                classes: DetrClasses::All,
            },
        }
    }

    fn num_rows(self) -> usize {
        match self {
            Self::V5 => 25_200,
            Self::V8 | Self::Obb | Self::Yolox => 8400,
            Self::RfDetr => 300,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::V5 => "yolov5 25200x85",
            Self::V8 => "yolov8 84x8400",
            Self::Obb => "yolo_obb 85x8400",
            Self::Yolox => "yolox 8400x85",
            Self::RfDetr => "rfdetr 300x91",
        }
    }
}

/// A head and the outputs of its network that boxes are decoded from.
pub(super) struct HeadOutput {
    pub(super) layout: YoloLayout,
    pub(super) tensors: Vec<Tensor>,
    pub(super) name: String,
}

impl HeadOutput {
    pub(super) fn new(kind: Kind, element: ElementType, num_passing: usize) -> Self {
        let (layout, num_rows) = (kind.layout(), kind.num_rows());
        let tensors = match kind {
            Kind::RfDetr => detr(num_rows, NUM_DETR_CLASSES, num_passing, element).into(),
            _ => vec![yolo(&layout, num_rows, NUM_CLASSES, num_passing, element)],
        };
        Self { layout, tensors, name: name(kind, element, num_passing) }
    }

    fn is_detr(&self) -> bool {
        matches!(self.layout, YoloLayout::Detr { .. })
    }

    fn num_classes(&self) -> usize {
        if self.is_detr() { NUM_DETR_CLASSES } else { NUM_CLASSES }
    }

    fn score_threshold(&self) -> f32 {
        if self.is_detr() { DETR_THRESHOLD } else { SCORE_THRESHOLD }
    }

    fn nms<B: ImageBoxes>(&self) -> Nms2d {
        if self.layout.is_end_to_end() { Nms2d::None } else { nms::<B>() }
    }
}

fn name(kind: Kind, element: ElementType, num_passing: usize) -> String {
    format!("{} {element}, {num_passing} candidates", kind.name())
}

pub(super) fn nms<B: ImageBoxes>() -> Nms2d {
    let (iou_threshold, class_mode) = (0.45, ClassMode::Agnostic);
    if B::ARE_ROTATED {
        return Nms2d::Rotated(NmsRotated { iou_threshold, class_mode });
    }
    Nms2d::Iou(NmsIou {
        iou_threshold,
        offset: 0,
        class_mode,
        score_threshold: None,
        max_num: usize::MAX,
    })
}

pub(super) fn placed() -> Letterbox {
    Letterbox::new(SOURCE, NETWORK, Placement::Center)
}

#[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "bars are of GPUs"))]
pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    for (kind, element, num_passing, bar) in ROWS {
        let name = name(kind, element, num_passing);
        let steps = ["decode", "decode + nms", "decode + nms + gather"];
        if !steps.iter().any(|step| bench.wants(&format!("{step} {name}"))) {
            continue;
        }
        let output = HeadOutput::new(kind, element, num_passing);
        match (device, output.layout.has_rotated_boxes()) {
            (Device::Cpu, false) => on_cpu::<Box2d>(bench, &output)?,
            (Device::Cpu, true) => on_cpu::<RotatedBox2d>(bench, &output)?,
            #[cfg(feature = "cuda")]
            (Device::Cuda(device), false) => {
                cuda::measure::<Box2d>(bench, device, &output, bar)?;
            }
            #[cfg(feature = "cuda")]
            (Device::Cuda(device), true) => {
                cuda::measure::<RotatedBox2d>(bench, device, &output, bar)?;
            }
        }
    }
    Ok(())
}

/// What follows the network on the CPU.
pub(super) struct OnCpu<B = Box2d> {
    candidates: Candidates<B>,
    workspace: Workspace,
    keep: Vec<Kept>,
    pub(super) detections: Vec<Detection2d<B>>,
    nms: Nms2d,
}

impl<B: ImageBoxes> OnCpu<B> {
    pub(super) fn new(output: &HeadOutput) -> Self {
        Self {
            candidates: Candidates::with_capacity(CAPACITY),
            workspace: Workspace::with_capacity(TOP_K),
            keep: Vec::with_capacity(TOP_K),
            detections: Vec::with_capacity(MAX_DETECTIONS),
            nms: output.nms::<B>(),
        }
    }

    fn decode(&mut self, output: &HeadOutput) -> Result<()> {
        let outputs: Vec<_> = output.tensors.iter().map(Tensor::view).collect();
        let (num_classes, threshold) = (output.num_classes(), output.score_threshold());
        let out = &mut self.candidates;
        B::DECODE(&outputs, &output.layout, NETWORK, num_classes, threshold, out)
    }

    /// Replaces the contents of `sources` by the rows of the detections.
    pub(super) fn sources(&self, sources: &mut Vec<u32>) {
        let (candidates, back) = (self.candidates.as_slice(), placed().source_from_network());
        B::SOURCES(candidates, &self.keep, &back, SOURCE, MAX_DETECTIONS, sources);
    }

    fn suppress(&mut self, output: &HeadOutput) -> Result<()> {
        self.decode(output)?;
        select(&mut self.candidates, TOP_K);
        B::SUPPRESS(self.candidates.as_slice(), &self.nms, &mut self.workspace, &mut self.keep)
    }

    /// All of it.
    pub(super) fn gather(&mut self, output: &HeadOutput) -> Result<()> {
        self.suppress(output)?;
        let (candidates, back) = (self.candidates.as_slice(), placed().source_from_network());
        B::GATHER(candidates, &self.keep, &back, SOURCE, MAX_DETECTIONS, &mut self.detections);
        Ok(())
    }
}

fn on_cpu<B: ImageBoxes>(bench: &mut Bench<'_>, output: &HeadOutput) -> Result<()> {
    let name = &output.name;
    let mut steps = OnCpu::<B>::new(output);
    bench.host(Case::new(format!("decode {name}")), || steps.decode(output))?;
    bench.host(Case::new(format!("decode + nms {name}")), || steps.suppress(output))?;
    bench.host(Case::new(format!("decode + nms + gather {name}")), || steps.gather(output))
}

#[cfg(feature = "cuda")]
pub(super) mod cuda {
    use super::{
        Bar, Bench, CAPACITY, Case, Detection2d, HeadOutput, MAX_DETECTIONS, NETWORK, Result,
        SOURCE, TOP_K, placed,
    };
    use crate::detectors::image2d::DeviceBoxes;
    use det_post_ops::decode::gather::cuda::Workspace as Gatherer;
    use det_post_ops::decode::yolo::cuda::{Selection, Workspace as Decoder};
    use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, Graph, Stream};
    use det_post_ops::nms::cuda::{Capacity, Suppression};
    use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
    use det_post_types::{Box2d, Tensor};

    /// What follows the network on a GPU.
    pub(in crate::bench) struct Steps<B: DeviceBoxes = Box2d> {
        outputs: Vec<DeviceTensor>,
        decoder: Decoder<B>,
        candidates: DeviceCandidates<B>,
        counters: DeviceCounters,
        suppression: Suppression<B>,
        pub(in crate::bench) gather: Gatherer<B>,
        pub(in crate::bench) detections: Vec<Detection2d<B>>,
    }

    impl<B: DeviceBoxes> Steps<B> {
        pub(in crate::bench) fn new(stream: &Stream, output: &HeadOutput) -> Result<Self> {
            let HeadOutput { layout, tensors, .. } = output;
            let num_classes = output.num_classes();
            let outputs = tensors.iter().map(|tensor| on_device(stream, tensor));
            let shapes: Vec<&[usize]> = tensors.iter().map(Tensor::shape).collect();
            let mut decoder = Decoder::new(stream, layout, NETWORK, num_classes, &shapes)?;
            decoder.set(&Selection {
                score_threshold: output.score_threshold(),
                class_filter: &[],
                candidate_capacity: CAPACITY,
                pre_nms_top_k: TOP_K,
            })?;
            let capacity = Capacity { candidates: TOP_K, classes: num_classes };
            let mut gather = Gatherer::new(stream, MAX_DETECTIONS)?;
            gather.set_placement(&placed().source_from_network(), SOURCE)?;
            Ok(Self {
                outputs: outputs.collect::<Result<_>>()?,
                decoder,
                candidates: DeviceCandidates::with_capacity(stream, TOP_K)?,
                counters: DeviceCounters::new(stream)?,
                suppression: Suppression::new(stream, &output.nms::<B>(), capacity)?,
                gather,
                detections: Vec::with_capacity(MAX_DETECTIONS),
            })
        }

        /// Gathers the rows of the detections, too.
        pub(in crate::bench) fn with_rows(mut self) -> Result<Self> {
            self.gather = self.gather.with_rows()?;
            Ok(self)
        }

        fn decode(&mut self) -> Result<()> {
            let outputs: Vec<_> = self.outputs.iter().collect();
            self.decoder.enqueue(&outputs, &mut self.candidates, &mut self.counters)
        }

        fn suppress(&mut self) -> Result<()> {
            self.decode()?;
            self.suppression.enqueue(&self.candidates)
        }

        /// Queues all of it.
        pub(in crate::bench) fn gather(&mut self) -> Result<()> {
            self.suppress()?;
            self.gather.enqueue(&self.candidates, self.suppression.kept(), &mut self.counters)
        }

        /// Waits for the detections.
        pub(in crate::bench) fn read(&mut self) -> Result<()> {
            self.gather.read(&mut self.detections).map(|_| ())
        }
    }

    /// A copy of a tensor in device memory.
    pub(in crate::bench) fn on_device(stream: &Stream, tensor: &Tensor) -> Result<DeviceTensor> {
        let mut copy = DeviceTensor::zeros(stream, tensor.element(), tensor.shape())?;
        copy.write(&tensor.view())?;
        Ok(copy)
    }

    pub(super) fn measure<B: DeviceBoxes>(
        bench: &mut Bench<'_>,
        device: &CudaDevice,
        output: &HeadOutput,
        bar: Option<Bar>,
    ) -> Result<()> {
        let stream = &device.stream()?;
        let name = &output.name;
        let mut steps = Steps::<B>::new(stream, output)?;
        bench.recorded(Case::new(format!("decode {name}")), stream, || steps.decode())?;
        let case = Case::new(format!("decode + nms {name}")).with_bar(bar);
        bench.recorded(case, stream, || steps.suppress())?;
        let graph = Graph::capture(stream, || steps.gather())?;
        let case = Case::new(format!("decode + nms + gather {name}"));
        bench.device(case, stream, || graph.enqueue(), || steps.read())
    }
}
