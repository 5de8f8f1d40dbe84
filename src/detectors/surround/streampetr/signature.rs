//! The tensors of the three networks, by name, and the lengths that they state.

use crate::config::SurroundFacts;
use ElementType::{F32, F64, I32, I64};
use ExpectedDim::{Any, Exactly};
use det_post_infer::{Expected, ExpectedDim, Side, bind};
use det_post_ops::decode::streampetr::{NUM_BOX_CHANNELS, num_queries_of};
use det_post_types::{Dim, ElementType, Error, ErrorKind, Result, Size, TensorSpec};

/// An input of the network of position embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PositionInput {
    ImageShape,
    Intrinsics,
    TargetFromImage,
    Features,
}

/// An input of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadInput {
    Features,
    PositionEmbedding,
    Cone,
    Pose,
    InversePose,
    Time,
    MemoryEmbedding,
    MemoryReferencePoint,
    MemoryAge,
    MemoryPose,
    MemoryVelocity,
}

/// An output of the head, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadOutput {
    Logits,
    Boxes,
    MemoryEmbedding,
    MemoryReferencePoint,
    MemoryPose,
    MemoryVelocity,
}

/// The lengths of the tensors of the networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Cameras.
    pub num_cameras: usize,
    /// Size of the images.
    pub input_size: Size,
    /// Channels of features and embeddings.
    pub num_channels: usize,
    /// Rows of the memory.
    pub memory: usize,
    /// Queries.
    pub num_queries: usize,
    /// Whether the numbers of a query are adjacent.
    pub channels_last: bool,
}

/// The inputs of the networks in the order of the files, the positions of their outputs
/// and the lengths of their tensors.
#[derive(Clone, Debug)]
pub struct Signature {
    pub(super) position_inputs: Vec<PositionInput>,
    /// Embedding and cone.
    pub(super) position_outputs: [usize; 2],
    pub(super) head_inputs: Vec<HeadInput>,
    pub(super) head_outputs: [usize; 6],
    /// The shape of each input of the network of position embeddings.
    pub(super) position_shapes: Vec<Vec<usize>>,
    /// The shape of each input of the head.
    pub(super) head_shapes: Vec<Vec<usize>>,
    /// The position of the features among the outputs of the backbone.
    pub features: usize,
    /// The lengths.
    pub lengths: Lengths,
}

/// What the head file states of the images, in place of dimensions that the backbone leaves
/// open.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatedImages {
    /// The number of cameras.
    pub num_cameras: Option<usize>,
    /// The size of an image.
    pub size: Option<Size>,
}

impl StatedImages {
    /// As a network's facts state them.
    pub(in crate::detectors::surround) fn of(facts: &SurroundFacts) -> Self {
        Self { num_cameras: facts.num_cameras, size: facts.input_size }
    }
}

/// Inputs and outputs of a network.
#[derive(Clone, Copy, Debug)]
pub struct Specs<'a> {
    /// Its inputs.
    pub inputs: &'a [TensorSpec],
    /// Its outputs.
    pub outputs: &'a [TensorSpec],
}

impl Signature {
    /// Matches the tensors of the three networks with their meaning, for a number of
    /// classes.
    ///
    /// # Errors
    /// `Model`, naming the tensor and what is expected, when one is missing, unknown, has
    /// another type or a length that contradicts the others.
    pub fn new(
        backbone: Specs<'_>,
        position: Specs<'_>,
        head: Specs<'_>,
        num_classes: usize,
        stated: StatedImages,
    ) -> Result<Self> {
        let StatedImages { num_cameras, size } = stated;
        let (num_cameras, input_size) = image_shape(backbone.inputs, num_cameras, size)?;
        let n = Exactly(num_cameras);
        let features = expected("features", "img_feats", vec![Exactly(1), n, Any, Any, Any]);
        let [features] = positions(bind(Side::Output, &[features], backbone.outputs)?)?;
        let &[_, memory, num_channels] =
            fixed(find(head.inputs, "pre_memory_embedding")?)?.as_slice()
        else {
            return refuse("pre_memory_embedding does not have three dimensions".into());
        };
        let layout = |name: &str, channels| layout_of(find(head.outputs, name)?, channels);
        let logits = layout("all_cls_scores", num_classes)?;
        let boxes = layout("all_bbox_preds", NUM_BOX_CHANNELS)?;
        let Some(&(channels_last, num_queries)) = logits.iter().find(|form| boxes.contains(form))
        else {
            return refuse(format!(
                "outputs {} and {} do not have one number of queries and one layout",
                find(head.outputs, "all_cls_scores")?,
                find(head.outputs, "all_bbox_preds")?
            ));
        };
        let lengths =
            Lengths { num_cameras, input_size, num_channels, memory, num_queries, channels_last };
        let (position_inputs, position_shapes) = position_inputs(position.inputs, n)?;
        let (head_inputs, head_shapes) = head_inputs(head.inputs, &lengths)?;
        let (position_outputs, head_outputs) = (
            position_outputs(position.outputs, num_channels)?,
            head_outputs(head.outputs, &lengths)?,
        );
        Ok(Self {
            position_inputs,
            position_outputs,
            head_inputs,
            head_outputs,
            position_shapes,
            head_shapes,
            features,
            lengths,
        })
    }
}

#[cfg(feature = "cuda")]
impl Signature {
    /// The position of an input of the head.
    ///
    /// # Errors
    /// `Model` when the head does not have it.
    pub(super) fn head_input(&self, input: HeadInput) -> Result<usize> {
        let position = self.head_inputs.iter().position(|found| *found == input);
        position.ok_or_else(|| error(format!("the head has no input {input:?}")))
    }
}

/// The number and the size of the images.
fn image_shape(
    inputs: &[TensorSpec],
    cameras: Option<usize>,
    input_size: Option<Size>,
) -> Result<(usize, Size)> {
    let three = vec![Exactly(1), Any, Exactly(3), Any, Any];
    bind(Side::Input, &[expected("images", "img", three)], inputs)?;
    let spec = find(inputs, "img")?;
    let stated = [
        None,
        cameras,
        None,
        input_size.map(|size| size.height as usize),
        input_size.map(|size| size.width as usize),
    ];
    let dims = spec.shape.clone().unwrap_or(vec![Dim::Dynamic; 5]);
    let length = |axis: usize, what: &str| match (&dims[axis], stated[axis]) {
        (&Dim::Fixed(n), Some(stated)) if n != stated => {
            refuse(format!("input {spec} has {n} {what}, the head file states {stated}"))
        }
        (&Dim::Fixed(n), _) | (Dim::Dynamic, Some(n)) => Ok(n),
        (Dim::Dynamic, None) => {
            refuse(format!("input {spec} does not state its {what}: state it in the head file"))
        }
    };
    let [cameras, height, width] =
        [length(1, "cameras")?, length(3, "rows")?, length(4, "columns")?];
    let [width, height] = [width, height].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    Ok((cameras, Size::new(width, height)))
}

/// A tensor with its meaning.
type Meant<T> = (T, Expected);

fn position_inputs(
    found: &[TensorSpec],
    cameras: ExpectedDim,
) -> Result<(Vec<PositionInput>, Vec<Vec<usize>>)> {
    let matrices = || vec![Exactly(1), cameras, Exactly(4), Exactly(4)];
    let shape = Expected {
        elements: vec![I32, I64],
        ..expected("image shape", "img_metas_pad", vec![Exactly(3)])
    };
    let features = expected("features", "img_feats", vec![Exactly(1), cameras, Any, Any, Any]);
    let mut meant = vec![
        (PositionInput::ImageShape, shape),
        (PositionInput::Intrinsics, expected("intrinsics", "intrinsics", matrices())),
        (PositionInput::TargetFromImage, expected("matrices", "img2lidar", matrices())),
    ];
    optional(&mut meant, PositionInput::Features, features, found);
    in_order(meant, found)
}

fn position_outputs(found: &[TensorSpec], num_channels: usize) -> Result<[usize; 2]> {
    let rows =
        |what, name, channels| expected(what, name, vec![Exactly(1), Any, Exactly(channels)]);
    let wanted = [rows("embeddings", "pos_embed", num_channels), rows("cones", "cone", 8)];
    positions(bind(Side::Output, &wanted, found)?)
}

fn head_inputs(
    found: &[TensorSpec],
    lengths: &Lengths,
) -> Result<(Vec<HeadInput>, Vec<Vec<usize>>)> {
    let &Lengths { num_cameras, num_channels, memory, .. } = lengths;
    let one = Exactly(1);
    let rows =
        |what, name, channels: usize| expected(what, name, vec![one, Any, Exactly(channels)]);
    let of_memory = |what, name, dims: &[usize]| {
        let dims = [1, memory].iter().chain(dims).map(|&n| Exactly(n)).collect();
        expected(what, name, dims)
    };
    let pose = |what, name| expected(what, name, vec![one, Exactly(4), Exactly(4)]);
    let of_x = vec![one, Exactly(num_cameras), Exactly(num_channels), Any, Any];
    let time =
        Expected { elements: vec![F32, F64], ..expected("time", "data_timestamp", vec![one]) };
    let mut meant = vec![
        (HeadInput::Features, expected("features", "x", of_x)),
        (HeadInput::PositionEmbedding, rows("embeddings", "pos_embed", num_channels)),
        (HeadInput::Cone, rows("cones", "cone", 8)),
        (HeadInput::Pose, pose("pose", "data_ego_pose")),
        (HeadInput::InversePose, pose("inverse pose", "data_ego_pose_inv")),
        (HeadInput::MemoryEmbedding, of_memory("memory", "pre_memory_embedding", &[num_channels])),
        (HeadInput::MemoryReferencePoint, of_memory("memory", "pre_memory_reference_point", &[3])),
        (HeadInput::MemoryAge, of_memory("memory", "pre_memory_timestamp", &[1])),
        (HeadInput::MemoryPose, of_memory("memory", "pre_memory_egopose", &[4, 4])),
        (HeadInput::MemoryVelocity, of_memory("memory", "pre_memory_velo", &[2])),
    ];
    optional(&mut meant, HeadInput::Time, time, found);
    in_order(meant, found)
}

fn head_outputs(found: &[TensorSpec], lengths: &Lengths) -> Result<[usize; 6]> {
    let of_memory = |name, dims: &[usize]| {
        let dims = dims.iter().map(|&n| Exactly(n));
        expected("memory", name, [Exactly(1), Any].into_iter().chain(dims).collect())
    };
    let any = |what, name: &str| Expected {
        what,
        name: Some(name.to_owned()),
        elements: vec![F32],
        shapes: Vec::new(),
    };
    // In the order of `HeadOutput`.
    let wanted = [
        any("logits", "all_cls_scores"),
        any("boxes", "all_bbox_preds"),
        of_memory("post_memory_embedding", &[lengths.num_channels]),
        of_memory("post_memory_reference_point", &[3]),
        of_memory("post_memory_egopose", &[4, 4]),
        of_memory("post_memory_velo", &[2]),
    ];
    positions(bind(Side::Output, &wanted, found)?)
}

/// The layouts that a shape may have, each with its number of queries.
fn layout_of(spec: &TensorSpec, num_channels: usize) -> Result<Vec<(bool, usize)>> {
    let shape = fixed(spec)?;
    let form = |last| Some((last, num_queries_of(&shape, num_channels, last)?));
    let forms: Vec<_> = [false, true].into_iter().filter_map(form).collect();
    match forms.is_empty() {
        true => refuse(format!("output {spec} does not have {num_channels} channels")),
        false => Ok(forms),
    }
}

/// Adds a tensor that a network may lack.
fn optional<T>(meant: &mut Vec<Meant<T>>, input: T, expected: Expected, found: &[TensorSpec]) {
    if found.iter().any(|spec| Some(&spec.name) == expected.name.as_ref()) {
        meant.push((input, expected));
    }
}

/// Meaning and shape of the inputs in the order of the network. A length that neither the
/// network nor the other tensors state is 0.
fn in_order<T: Copy>(
    meant: Vec<Meant<T>>,
    found: &[TensorSpec],
) -> Result<(Vec<T>, Vec<Vec<usize>>)> {
    let (inputs, wanted): (Vec<T>, Vec<Expected>) = meant.into_iter().unzip();
    let positions = bind(Side::Input, &wanted, found)?;
    let shape_of = |expected: &Expected, spec: &TensorSpec| {
        let dims = expected.shapes[0].iter().enumerate();
        let stated = |axis: usize| spec.shape.as_ref().and_then(|dims| dims.get(axis));
        let length = |(axis, dim): (usize, &ExpectedDim)| match (dim, stated(axis)) {
            (Exactly(n), _) | (Any, Some(Dim::Fixed(n))) => *n,
            (Any, _) => 0,
        };
        dims.map(length).collect::<Vec<usize>>()
    };
    let mut ordered: Vec<(usize, T, Vec<usize>)> = Vec::with_capacity(inputs.len());
    for ((input, expected), position) in inputs.into_iter().zip(&wanted).zip(positions) {
        ordered.push((position, input, shape_of(expected, &found[position])));
    }
    ordered.sort_by_key(|(position, ..)| *position);
    Ok(ordered.into_iter().map(|(_, input, shape)| (input, shape)).unzip())
}

fn expected(what: &'static str, name: &str, shape: Vec<ExpectedDim>) -> Expected {
    Expected { what, name: Some(name.to_owned()), elements: vec![F32], shapes: vec![shape] }
}

fn find<'a>(specs: &'a [TensorSpec], name: &str) -> Result<&'a TensorSpec> {
    specs.iter().find(|spec| spec.name == name).ok_or_else(|| {
        let found: Vec<String> = specs.iter().map(TensorSpec::to_string).collect();
        error(format!("there is no tensor {name:?}; found: {}", found.join("; ")))
    })
}

/// A shape whose lengths are all stated.
fn fixed(spec: &TensorSpec) -> Result<Vec<usize>> {
    let length = |dim: &Dim| match dim {
        Dim::Fixed(n) => Some(*n),
        Dim::Dynamic => None,
    };
    let shape = spec.shape.as_ref().and_then(|dims| dims.iter().map(length).collect());
    shape.ok_or_else(|| error(format!("{spec} does not state its lengths")))
}

fn positions<const N: usize>(positions: Vec<usize>) -> Result<[usize; N]> {
    positions.try_into().map_err(|_| error("the number of tensors does not match".into()))
}

fn error(message: String) -> Error {
    Error::new(ErrorKind::Model, "streampetr", message)
}

fn refuse<T>(message: String) -> Result<T> {
    Err(error(message))
}
