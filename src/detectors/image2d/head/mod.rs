//! Heads of camera networks: the YOLO families and end-to-end detectors.

#[cfg(feature = "cuda")]
mod cuda;

use super::boxes::ImageBoxes;
use crate::config::YoloFacts;
use det_post_infer::ExpectedDim::{Any, Exactly};
use det_post_infer::{Expected, Outputs, Side, bind};
use det_post_ops::image::letterbox::LetterboxParams;
use det_post_types::{
    Candidates, Dim, ElementType, Error, ErrorKind, MaskRule, Result, Size, Tensor, TensorSpec,
    TensorView, YoloLayout, YoloOutput,
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
        let network = network_size(facts, input)?;
        let bound = bind(Side::Output, &expected_outputs(facts, network)?, outputs)?;
        if let Some(&maps) = bound.last().filter(|_| facts.layout.has_mask_maps()) {
            check_maps(facts, network, &outputs[maps])?;
        }
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
                resize: facts.resize,
            },
            network,
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

    /// The positions of the network's outputs that are decoded.
    pub fn output_positions(&self) -> &[usize] {
        &self.outputs
    }

    /// The positions of the outputs that boxes are decoded from.
    fn decoded_outputs(&self) -> &[usize] {
        let num = self.outputs.len() - usize::from(self.layout.has_masks());
        &self.outputs[..num]
    }

    /// The positions of the predictions and of the prototypes or maps of a head with masks.
    ///
    /// # Errors
    /// `Model` for another head.
    pub(super) fn mask_outputs(&self) -> Result<[usize; 2]> {
        match self.outputs[..] {
            [.., maps] if self.layout.has_mask_maps() => Ok([maps, maps]),
            [predictions, prototypes] if self.layout.has_masks() => Ok([predictions, prototypes]),
            _ => {
                let message = format!("the layout `{}` has no masks", self.layout.name());
                Err(Error::new(ErrorKind::Model, "head", message))
            }
        }
    }

    /// The position of the output with the keypoints of a head with keypoints.
    ///
    /// # Errors
    /// `Model` for another head.
    pub(super) fn keypoint_output(&self) -> Result<usize> {
        match self.outputs[..] {
            [predictions] if self.layout.keypoints(self.num_classes).is_some() => Ok(predictions),
            _ => {
                let message = format!("the layout `{}` has no keypoints", self.layout.name());
                Err(Error::new(ErrorKind::Model, "head", message))
            }
        }
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
        let decoded = self.decoded_outputs();
        let mut tensors = [TensorView::default(); MAX_OUTPUTS];
        for (tensor, &output) in tensors.iter_mut().zip(decoded) {
            *tensor = outputs(output)?;
        }
        B::DECODE(
            &tensors[..decoded.len()],
            &self.layout,
            self.network,
            self.num_classes,
            score_threshold,
            candidates,
        )
    }
}

/// Refuses maps over boxes that are as large as the input: they are over the image.
fn check_maps(facts: &YoloFacts, network: Size, maps: &TensorSpec) -> Result<()> {
    let Size { width, height } = network;
    let is_pasted = match maps.shape.as_deref() {
        Some([.., Dim::Fixed(rows), Dim::Fixed(columns)]) => {
            [*columns, *rows] == [width as usize, height as usize]
        }
        _ => false,
    };
    if is_pasted && facts.masks.rule == MaskRule::Box {
        let message = format!(
            "`masks.rule: box` is for maps over the boxes; {maps} is as large as the input: allowed: `straight`"
        );
        return Err(Error::new(ErrorKind::Model, "head", message));
    }
    Ok(())
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
///
/// # Errors
/// `Model` when they do not fit the size of the network's input, or there are too many.
fn expected_outputs(facts: &YoloFacts, network: Size) -> Result<Vec<Expected>> {
    let misfit = |message: String| Err(Error::new(ErrorKind::Model, "head", message));
    let has_labels = facts.output_names.len() == 3;
    let outputs = match facts.layout.outputs(facts.class_names.len(), network, has_labels) {
        Ok(outputs) => outputs,
        Err(error) => return misfit(error.message().to_owned()),
    };
    if outputs.len() > MAX_OUTPUTS {
        let num = outputs.len();
        return misfit(format!("the layout has {num} outputs; allowed: up to {MAX_OUTPUTS}"));
    }
    let mut names = facts.output_names.iter().cloned().map(Some);
    let dim = |dim: Option<usize>| dim.map_or(Any, Exactly);
    let expected = |output: YoloOutput| {
        let elements = match output.is_labels {
            // mmdeploy writes all three. On a GPU they become floats.
            true => vec![ElementType::I64, ElementType::I32, ElementType::F32],
            false => vec![ElementType::F32, ElementType::F16],
        };
        let shapes = output.shapes.into_iter().map(|dims| dims.into_iter().map(dim).collect());
        let name = names.next().flatten();
        Expected { what: output.what, name, elements, shapes: shapes.collect() }
    };
    Ok(outputs.into_iter().map(expected).collect())
}
