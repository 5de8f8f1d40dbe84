//! Whole frames: what is around a camera's network, and the pipeline with
//! answers that cost nothing.

use super::decode::{Answered, Kind, OnCpu, SOURCE};
use super::inputs::Picture;
use super::letterbox::{input_shape, params};
use super::measure::{Bench, Case};
use crate::config::{CameraConfig, ChannelKind, Config};
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::infer::Engine;
use crate::ops::letterbox::{Workspace, letterbox};
use crate::pipeline::CameraPipeline;
use crate::types::{Dim, ElementType, Encoding, ImagePayload, Tensor, TensorSpec, TensorView};

/// Without what is between: the network, and on a GPU the upload.
const AROUND: &str = "camera frame but network and upload, 1920x1080 bgr8, yolov5, 200";
const WHOLE: &str = "camera frame but network, 1920x1080 bgr8, yolov5, 200 candidates";

pub(super) fn cases(bench: &mut Bench, device: &Device) -> Result<()> {
    if !bench.wants(AROUND) && !bench.wants(WHOLE) {
        return Ok(());
    }
    let picture = Picture::new(SOURCE, Encoding::Bgr8);
    let answered = Answered::new(Kind::V5, ElementType::F32, 200);
    if bench.wants(AROUND) {
        match device {
            Device::Cpu => around_on_cpu(bench, &picture, &answered)?,
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => cuda::around(bench, device, &picture, &answered)?,
        }
    }
    if bench.wants(WHOLE) {
        let config = config()?;
        let mut pipeline = match device {
            Device::Cpu => CameraPipeline::with_engine(&config, Box::new(Given::new(&answered)))?,
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => cuda::pipeline(&config, device, &answered)?,
        };
        let payload = ImagePayload::Raw(picture.view()?);
        bench.host(Case::new(WHOLE), || pipeline.process(&payload).map(|_| ()))?;
    }
    Ok(())
}

fn around_on_cpu(bench: &mut Bench, picture: &Picture, answered: &Answered) -> Result<()> {
    let image = picture.view()?;
    let mut workspace = Workspace::new();
    let mut input = Tensor::zeros(ElementType::F32, &input_shape())?;
    let mut rest = OnCpu::new();
    bench.host(Case::new(AROUND), || {
        letterbox(&image, &params(), &mut workspace, &mut input)?;
        rest.gather(answered)
    })
}

/// A channel with the shipped defaults.
fn config() -> Result<CameraConfig> {
    let parameters = ["c.input:=/i", "c.head:=yolov5", "c.model_path:=m"].map(String::from);
    let kind = Config::load(&[], &parameters)?.channels.pop().map(|channel| channel.kind);
    match kind {
        Some(ChannelKind::Camera(config)) => Ok(*config),
        _ => Err(Error::new(ErrorKind::Config, "bench", "yolov5 is not a camera's head")),
    }
}

fn input() -> TensorSpec {
    spec("images", ElementType::F32, &input_shape())
}

fn spec(name: &str, element: ElementType, shape: &[usize]) -> TensorSpec {
    let shape = Some(shape.iter().map(|&n| Dim::Fixed(n)).collect());
    TensorSpec { name: name.to_owned(), element: Some(element), shape }
}

/// An engine whose answers stand before it is asked.
struct Given {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    answer: Tensor,
}

impl Given {
    fn new(answered: &Answered) -> Self {
        let answer = answered.tensor.clone();
        let outputs = vec![spec("output", answer.element(), answer.shape())];
        Self { inputs: vec![input()], outputs, answer }
    }
}

impl Engine for Given {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, _inputs: &[TensorView<'_>]) -> Result<()> {
        Ok(())
    }

    fn output(&self, _index: usize) -> Result<TensorView<'_>> {
        Ok(self.answer.view())
    }

    fn name(&self) -> &str {
        "given answers"
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    use super::super::decode::cuda::Steps;
    use super::super::measure::wall;
    use super::{
        AROUND, Answered, Bench, CameraConfig, CameraPipeline, Case, ElementType, Picture, Result,
        input, input_shape, params,
    };
    use crate::device::cuda::{CudaDevice, DeviceImage, DeviceTensor, Graph};
    use crate::infer::device::DeviceEngine;
    use crate::ops::letterbox::cuda::{Kernels, enqueue_letterbox};

    /// Two launches and one wait, as a frame has them.
    pub(super) fn around(
        bench: &mut Bench,
        device: &CudaDevice,
        picture: &Picture,
        answered: &Answered,
    ) -> Result<()> {
        let stream = &device.stream()?;
        let view = picture.view()?;
        let kernels = Kernels::load(device)?;
        let mut image = DeviceImage::with_capacity(stream, view.data().len())?;
        let mut out = DeviceTensor::zeros(stream, ElementType::F32, &input_shape())?;
        image.enqueue_upload(&view)?;
        let before = Graph::record(stream, || {
            enqueue_letterbox(stream, &kernels, &image, &params(), &mut out).map(|_| ())
        })?;
        let mut steps = Steps::new(stream, answered)?;
        let after = Graph::record(stream, || steps.gather())?;
        let enqueue = || before.enqueue().and_then(|()| after.enqueue());
        let case = Case::new(AROUND).with_bar(wall(None, 30.0));
        bench.device(case, stream, enqueue, || steps.read())
    }

    pub(super) fn pipeline(
        config: &CameraConfig,
        device: &CudaDevice,
        answered: &Answered,
    ) -> Result<CameraPipeline> {
        let stream = &device.stream()?;
        let answers = [("output", &answered.tensor)];
        let engine = DeviceEngine::given(stream, vec![input()], &answers)?;
        CameraPipeline::with_device_engine(config, stream, engine)
    }
}
