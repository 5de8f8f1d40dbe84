//! Heads of camera networks: the YOLO families and end-to-end detectors.

#[cfg(feature = "cuda")]
mod cuda;

use super::boxes::ImageBoxes;
use crate::config::YoloFacts;
use det_post_infer::ExpectedDim::{self, Any, Exactly};
use det_post_infer::{Expected, Outputs, Side, bind};
use det_post_ops::image::letterbox::LetterboxParams;
use det_post_types::{
    Candidates, Dim, ElementType, Error, ErrorKind, Result, Size, Tensor, TensorSpec, TensorView,
    YoloLayout,
};

/// The maximum number of output tensors of a head.
const MAX_OUTPUTS: usize = 8;

/// The maximum width and height of a network's input, as head files may state it.
const MAX_INPUT_SIZE: u32 = 16384;

/// The head of a camera network, with tensors that fit.
#[derive(Clone, Debug)]
pub struct YoloHead {
    layout: YoloLayout,
    num_classes: usize,
    letterbox: LetterboxParams,
    network: Size,
    element: ElementType,
    outputs: Vec<usize>,
}

impl YoloHead {
    /// Matches the facts of a network with the tensors it has.
    ///
    /// # Errors
    /// `Model` naming expected and found tensors when they do not fit, or when
    /// neither the facts nor the network define the size of the input.
    pub fn new(facts: &YoloFacts, inputs: &[TensorSpec], outputs: &[TensorSpec]) -> Result<Self> {
        let num_classes = facts.class_names.len();
        let [width, height] = match facts.input_size {
            Some(Size { width, height }) => [width, height].map(|n| Exactly(n as usize)),
            None => [Any, Any],
        };
        let image = Expected {
            what: "image",
            name: facts.input_name.clone(),
            elements: vec![ElementType::F32, ElementType::F16],
            shapes: vec![vec![Exactly(1), Exactly(3), height, width]],
        };
        let input = &inputs[bind(Side::Input, &[image], inputs)?[0]];
        let bound = bind(Side::Output, &expected_outputs(facts, num_classes), outputs)?;
        for (_, unused) in outputs.iter().enumerate().filter(|(index, _)| !bound.contains(index)) {
            tracing::info!("the network's output {unused} is not read");
        }
        Ok(Self {
            layout: facts.layout.clone(),
            num_classes,
            letterbox: LetterboxParams {
                placement: facts.placement,
                channel_order: facts.channel_order,
                normalization: facts.normalization,
                pad_value: facts.pad_value,
            },
            network: network_size(facts, input)?,
            element: input.element.unwrap_or(ElementType::F32),
            outputs: bound,
        })
    }

    /// As [`Self::new`], for outputs that come without the network. Without an `input_size` the
    /// network's input is as large as any.
    ///
    /// # Errors
    /// `Model` naming expected and found tensors when they do not fit.
    pub fn of_outputs(facts: &YoloFacts, outputs: &[TensorSpec]) -> Result<Self> {
        let size = facts.input_size.unwrap_or(Size::new(MAX_INPUT_SIZE, MAX_INPUT_SIZE));
        let shape = input_shape(size).map(Dim::Fixed);
        let name = facts.input_name.clone().unwrap_or_default();
        let input = TensorSpec { name, element: None, shape: Some(shape.to_vec()) };
        Self::new(facts, &[input], outputs)
    }

    /// Size of the network's input.
    pub fn network(&self) -> Size {
        self.network
    }

    /// Memory for the network's input, `[1, 3, height, width]`.
    ///
    /// # Errors
    /// `Argument` when the size does not fit into memory.
    pub fn input(&self) -> Result<Tensor> {
        Tensor::zeros(self.element, &input_shape(self.network))
    }

    /// The shape of the input of a network with these facts.
    ///
    /// # Errors
    /// `Model` when neither the facts nor the network define its size.
    pub fn input_shape(facts: &YoloFacts, input: &TensorSpec) -> Result<[usize; 4]> {
        network_size(facts, input).map(input_shape)
    }

    /// The parameters of the letterbox from an image to the input.
    pub fn letterbox(&self) -> &LetterboxParams {
        &self.letterbox
    }

    /// Decodes the network's outputs, by their position, into candidates, in pixels of its input.
    ///
    /// # Errors
    /// `Inference` or `Argument` when an output has another shape than declared.
    pub fn decode<B: ImageBoxes>(
        &self,
        outputs: &Outputs<'_>,
        score_threshold: f32,
        candidates: &mut Candidates<B>,
    ) -> Result<()> {
        let num_outputs = self.outputs.len();
        let mut tensors = [TensorView::default(); MAX_OUTPUTS];
        for (tensor, &output) in tensors.iter_mut().zip(&self.outputs) {
            *tensor = outputs(output)?;
        }
        B::DECODE(
            &tensors[..num_outputs],
            &self.layout,
            self.network,
            self.num_classes,
            score_threshold,
            candidates,
        )
    }
}

fn input_shape(Size { width, height }: Size) -> [usize; 4] {
    [1, 3, height as usize, width as usize]
}

/// The size that the facts give, or else the network.
fn network_size(facts: &YoloFacts, input: &TensorSpec) -> Result<Size> {
    match (facts.input_size, input.shape.as_deref()) {
        (Some(size), _) => Ok(size),
        (None, Some([_, _, Dim::Fixed(height), Dim::Fixed(width)])) => {
            Ok(Size::new(*width as u32, *height as u32))
        }
        _ => Err(Error::new(
            ErrorKind::Model,
            "head",
            format!("the size of input {input} is unknown; set `input_size` in the head file"),
        )),
    }
}

/// The output tensors of a layout, in the order of its decoding.
fn expected_outputs(facts: &YoloFacts, num_classes: usize) -> Vec<Expected> {
    let floats = || vec![ElementType::F32, ElementType::F16];
    let tensor = |what, elements, shapes: Vec<Vec<ExpectedDim>>| (what, elements, shapes);
    let rows = |columns| vec![vec![Exactly(1), Any, Exactly(columns)]];
    let planes = |planes| vec![vec![Exactly(1), Exactly(planes), Any]];
    let tensors = match &facts.layout {
        YoloLayout::V5 | YoloLayout::Yolox { .. } => {
            vec![tensor("predictions", floats(), rows(5 + num_classes))]
        }
        YoloLayout::V8 => vec![tensor("predictions", floats(), planes(4 + num_classes))],
        YoloLayout::Obb => vec![tensor("predictions", floats(), planes(4 + num_classes + 1))],
        YoloLayout::EndToEnd => vec![tensor("detections", floats(), rows(6))],
        YoloLayout::V5Raw { levels } => levels
            .iter()
            .map(|level| {
                let (num_anchors, columns) = (level.anchors.len(), 5 + num_classes);
                let flat = vec![Exactly(1), Exactly(num_anchors * columns), Any, Any];
                let split = vec![Exactly(1), Exactly(num_anchors), Any, Any, Exactly(columns)];
                tensor("level", floats(), vec![flat, split])
            })
            .collect(),
        YoloLayout::Detr { .. } => {
            let boxes = tensor("boxes", floats(), rows(4));
            if facts.output_names.len() == 3 {
                let scores = tensor("scores", floats(), vec![vec![Exactly(1), Any]]);
                let integers = vec![ElementType::I64, ElementType::I32];
                vec![boxes, scores, tensor("labels", integers, vec![vec![Exactly(1), Any]])]
            } else {
                vec![boxes, tensor("scores", floats(), rows(num_classes))]
            }
        }
    };
    let mut names = facts.output_names.iter().cloned().map(Some);
    tensors
        .into_iter()
        .map(|(what, elements, shapes)| {
            let name = names.next().flatten();
            Expected { what, name, elements, shapes }
        })
        .collect()
}
