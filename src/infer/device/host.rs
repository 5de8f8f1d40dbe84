//! A network on the CPU between kernels on the device: explicit copies.

use super::failed;
use crate::device::cuda::{DeviceTensor, PinnedTensor, Stream};
use crate::error::Result;
use crate::infer::Engine;
use crate::types::{ElementType, Tensor, TensorSpec, TensorView};

/// The most inputs a network may have here.
const MAX_INPUTS: usize = 8;

/// Bytes that one run copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumBytes {
    /// From the device to the host.
    pub to_host: usize,
    /// From the host to the device.
    pub to_device: usize,
}

/// An engine on the CPU with its inputs and outputs in device memory.
pub struct HostEngine {
    engine: Box<dyn Engine>,
    inputs: Vec<Copied>,
    /// One an output; `None` where it does not hold floats.
    outputs: Vec<Option<Copied>>,
    name: String,
}

/// A tensor of the device and the page-locked memory it is copied through.
struct Copied {
    device: DeviceTensor,
    pinned: PinnedTensor,
}

impl Copied {
    fn new(stream: &Stream, element: ElementType, shape: &[usize]) -> Result<Self> {
        let device = DeviceTensor::zeros(stream, element, shape)?;
        let pinned = PinnedTensor::like(stream, &device)?;
        Ok(Self { device, pinned })
    }
}

impl HostEngine {
    pub(super) fn new(
        mut engine: Box<dyn Engine>,
        stream: &Stream,
        shapes: &[Vec<usize>],
    ) -> Result<Self> {
        if shapes.len() > MAX_INPUTS {
            let num = shapes.len();
            return Err(failed(format!(
                "the network has {num} inputs, at most {MAX_INPUTS} are bound"
            )));
        }
        let element = |spec: &TensorSpec| spec.element.unwrap_or(ElementType::F32);
        let elements: Vec<_> = engine.inputs().iter().map(element).collect();
        let inputs = elements.iter().zip(shapes);
        let inputs = inputs.map(|(&element, shape)| Copied::new(stream, element, shape));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let zeros = elements.iter().zip(shapes);
        let zeros = zeros.map(|(&element, shape)| Tensor::zeros(element, shape));
        let zeros = zeros.collect::<Result<Vec<_>>>()?;
        engine.run(&zeros.iter().map(Tensor::view).collect::<Vec<_>>())?;
        let outputs = (0..engine.outputs().len()).map(|index| {
            let output = engine.output(index)?;
            match output.values().element() {
                element @ (ElementType::F32 | ElementType::F16) => {
                    Copied::new(stream, element, output.shape()).map(Some)
                }
                ElementType::I32 | ElementType::I64 => Ok(None),
            }
        });
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        let name = format!("{} on the CPU", engine.name());
        let engine = Self { engine, inputs, outputs, name };
        let NumBytes { to_host, to_device } = engine.copies();
        tracing::info!(
            "{} runs between kernels of {}: every frame copies {to_host} bytes down and {to_device} up, \
             and waits once more",
            engine.name,
            stream.device(),
        );
        Ok(engine)
    }

    pub(super) fn inputs(&self) -> &[TensorSpec] {
        self.engine.inputs()
    }

    pub(super) fn outputs(&self) -> &[TensorSpec] {
        self.engine.outputs()
    }

    pub(super) fn input(&mut self, index: usize) -> Option<&mut DeviceTensor> {
        self.inputs.get_mut(index).map(|input| &mut input.device)
    }

    pub(super) fn output(&self, index: usize) -> Option<&DeviceTensor> {
        self.outputs.get(index)?.as_ref().map(|output| &output.device)
    }

    /// Waits for the inputs, runs, and queues the upload of the outputs.
    pub(super) fn enqueue(&mut self) -> Result<()> {
        let Self { engine, inputs, outputs, .. } = self;
        let num_inputs = inputs.len();
        let mut views = [TensorView::default(); MAX_INPUTS];
        for (view, input) in views.iter_mut().zip(inputs) {
            *view = input.pinned.download(&input.device)?;
        }
        engine.run(&views[..num_inputs])?;
        for (index, output) in outputs.iter_mut().enumerate() {
            let Some(Copied { device, pinned }) = output else { continue };
            let answer = engine.output(index)?;
            if answer.shape() != device.shape() {
                let (found, first) = (answer.shape(), device.shape());
                return Err(failed(format!(
                    "output {index} is {found:?}, at first it was {first:?}"
                )));
            }
            pinned.enqueue_upload(answer, device)?;
        }
        Ok(())
    }

    pub(super) fn copies(&self) -> NumBytes {
        NumBytes {
            to_host: self.inputs.iter().map(|input| input.device.num_bytes()).sum(),
            to_device: self.outputs.iter().flatten().map(|output| output.device.num_bytes()).sum(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}
