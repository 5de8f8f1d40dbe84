//! Outputs of networks to candidates.

use det_post_ops::decode::anchor::{AnchorOutputs, decode_anchor};
use det_post_ops::decode::center::{CenterTask, decode_center};
use det_post_ops::decode::yolo::{decode_yolo, decode_yolo_rotated};
use det_post_types::{
    Box2d, Candidate, Candidates, CenterDecode, Object3d, RotatedBox2d, TensorView,
};

use super::call::{Call, Const, In, Out, run};
use super::decoding_gpu::{OnGpu, Outputs, YoloHead};
use super::decoding_settings::{AnchorDecoding, CenterDecoding, YoloDecoding};
use super::status::{Failure, Status};
use super::tensors::Tensor;
use super::workspace::{Opened, WORKSPACES, Workspace};

/// The boxes that a decoder finds, in the total order: score descending, then class, then
/// position in the network's output. They are what `det_post_workspace_suppress` takes.
#[repr(C)]
pub struct Decoded {
    /// `num_candidates` times `box_len` values, as `boxes.boxes`.
    pub boxes: Const<f32>,
    /// A score per candidate.
    pub scores: Const<f32>,
    /// A class per candidate.
    pub classes: Const<u32>,
    /// A position in the network's output per candidate.
    pub sources: Const<u32>,
    /// Per candidate the velocity along x and y in metres per second, or `NULL`.
    pub velocities_mps: Const<f32>,
    /// Number of candidates.
    pub num_candidates: usize,
    /// Values of a box: 4, 5 of rotated boxes, 7 of boxes in space.
    pub box_len: usize,
    /// Candidates over the capacity, the worst, which are not among these.
    pub num_over_capacity: usize,
    /// Boxes with a score that is NaN, which are not among these.
    pub num_nan_scores: usize,
    /// Boxes whose score passes and that are no boxes (a number is not finite, an edge or an
    /// extent is reversed), which are not among these.
    pub num_invalid_boxes: usize,
    /// Boxes whose score passes and whose class is not below the number of classes, which are
    /// not among these.
    pub num_unknown_classes: usize,
}

/// The memory of decoders, which grows to the largest call.
#[derive(Default)]
pub(super) struct Memory {
    aligned: Option<(usize, Candidates<Box2d>)>,
    rotated: Option<(usize, Candidates<RotatedBox2d>)>,
    in_space: Option<(usize, Candidates<Object3d>)>,
    on_gpu: OnGpu,
    boxes: Vec<f32>,
    scores: Vec<f32>,
    classes: Vec<u32>,
    sources: Vec<u32>,
    velocities: Vec<f32>,
    public: Option<Decoded>,
}

/// The most candidates of a call.
const MAX_CAPACITY: usize = 1 << 24;

fn check_capacity(capacity: usize) -> Result<(), Failure> {
    if (1..=MAX_CAPACITY).contains(&capacity) {
        return Ok(());
    }
    let message = format!("capacity must be 1 to {MAX_CAPACITY}, found {capacity}");
    Err(Failure::argument(message))
}

/// Candidates for a capacity: those of before if it is theirs.
fn of_capacity<B: Copy>(
    of_before: &mut Option<(usize, Candidates<B>)>,
    capacity: usize,
) -> Result<&mut Candidates<B>, Failure> {
    check_capacity(capacity)?;
    if of_before.as_ref().is_none_or(|(of, _)| *of != capacity) {
        *of_before = None;
    }
    Ok(&mut of_before.get_or_insert_with(|| (capacity, Candidates::with_capacity(capacity))).1)
}

/// The arrays of a result.
struct Arrays<'a> {
    boxes: &'a mut Vec<f32>,
    scores: &'a mut Vec<f32>,
    classes: &'a mut Vec<u32>,
    sources: &'a mut Vec<u32>,
    velocities: &'a mut Vec<f32>,
    public: &'a mut Option<Decoded>,
}

impl Arrays<'_> {
    /// Sorts candidates and writes them to the arrays.
    fn fill<B: Copy, const N: usize>(
        self,
        candidates: &mut Candidates<B>,
        numbers: impl Fn(&B) -> [f32; N],
        velocity: impl Fn(&B) -> Option<[f32; 2]>,
    ) -> Const<Decoded> {
        candidates.finish(usize::MAX);
        let found: &[Candidate<B>] = candidates.as_slice();
        let Self { boxes, scores, classes, sources, velocities, public } = self;
        boxes.clear();
        boxes.extend(found.iter().flat_map(|one| numbers(&one.bbox)));
        scores.clear();
        scores.extend(found.iter().map(|one| one.score));
        classes.clear();
        classes.extend(found.iter().map(|one| one.class));
        sources.clear();
        sources.extend(found.iter().map(|one| one.source));
        velocities.clear();
        velocities.extend(found.iter().filter_map(|one| velocity(&one.bbox)).flatten());
        Const::one(public.insert(Decoded {
            boxes: Const::of(boxes),
            scores: Const::of(scores),
            classes: Const::of(classes),
            sources: Const::of(sources),
            velocities_mps: Const::if_so(!velocities.is_empty(), velocities),
            num_candidates: found.len(),
            box_len: N,
            num_over_capacity: candidates.num_dropped(),
            num_nan_scores: candidates.num_nan_scores(),
            num_invalid_boxes: candidates.num_invalid_boxes(),
            num_unknown_classes: candidates.num_unknown_classes(),
        }))
    }
}

fn of_object(object: &Object3d) -> [f32; 7] {
    let bbox = object.bbox;
    let [x, y, z] = bbox.center;
    [x, y, z, bbox.length_m, bbox.width_m, bbox.height_m, bbox.yaw_rad]
}

impl Memory {
    fn parts(&mut self) -> (Stores<'_>, Arrays<'_>) {
        let Self { aligned, rotated, in_space, .. } = self;
        let Self { boxes, scores, classes, sources, velocities, public, .. } = self;
        let arrays = Arrays { boxes, scores, classes, sources, velocities, public };
        (Stores { aligned, rotated, in_space }, arrays)
    }

    fn yolo(
        &mut self,
        call: &Call,
        decoding: &YoloDecoding,
        outputs: &[TensorView<'_>],
    ) -> Result<Const<Decoded>, Failure> {
        let layout = decoding.layout(call)?;
        let (size, num_classes) = (decoding.input_size(), decoding.num_classes as usize);
        let (threshold, capacity) = (decoding.score_threshold, decoding.capacity);
        let (stores, arrays) = self.parts();
        if layout.has_rotated_boxes() {
            let found = of_capacity(stores.rotated, capacity)?;
            decode_yolo_rotated(outputs, &layout, size, num_classes, threshold, found)?;
            return Ok(arrays.fill(found, |b| [b.cx, b.cy, b.width, b.height, b.angle_rad], none));
        }
        let found = of_capacity(stores.aligned, capacity)?;
        decode_yolo(outputs, &layout, size, num_classes, threshold, found)?;
        Ok(arrays.fill(found, |b| [b.x1, b.y1, b.x2, b.y2], none))
    }

    fn center(
        &mut self,
        call: &Call,
        decoding: &CenterDecoding,
        outputs: &[TensorView<'_>],
    ) -> Result<Const<Decoded>, Failure> {
        let params = decoding.params(call)?;
        let num_maps = num_maps(&params, outputs.len())?;
        let tasks: Vec<_> = outputs
            .chunks_exact(num_maps)
            .map(|maps| CenterTask {
                heatmap: maps[0],
                offset: maps[1],
                height: maps[2],
                size: maps[3],
                rotation: maps[4],
                velocity: maps.get(5).copied(),
            })
            .collect();
        let (stores, arrays) = self.parts();
        let found = of_capacity(stores.in_space, decoding.capacity)?;
        decode_center(&tasks, &params, found)?;
        Ok(arrays.fill(found, of_object, |object| object.velocity_mps))
    }

    fn anchor(
        &mut self,
        call: &Call,
        decoding: &AnchorDecoding,
        outputs: &[TensorView<'_>],
    ) -> Result<Const<Decoded>, Failure> {
        let params = decoding.params(call)?;
        let outputs = match *outputs {
            [classes, boxes] => AnchorOutputs { classes, boxes, directions: None },
            [classes, boxes, directions] => {
                AnchorOutputs { classes, boxes, directions: Some(directions) }
            }
            _ => return Err(not_two_or_three(outputs.len())),
        };
        let (stores, arrays) = self.parts();
        let found = of_capacity(stores.in_space, decoding.capacity)?;
        decode_anchor(&outputs, &params, found)?;
        Ok(arrays.fill(found, of_object, none))
    }
}

impl Memory {
    fn yolo_on(&mut self, outputs: Outputs<'_>, of: &YoloDecoding) -> Result<Decoded, Failure> {
        let head = YoloHead {
            layout: of.layout(outputs.call)?,
            input: of.input_size(),
            num_classes: of.num_classes as usize,
            score_threshold: of.score_threshold,
        };
        Ok(self.on_gpu.yolo(&head, outputs)?)
    }

    fn center_on(&mut self, outputs: Outputs<'_>, of: &CenterDecoding) -> Result<Decoded, Failure> {
        let params = of.params(outputs.call)?;
        let num_maps = num_maps(&params, outputs.tensors.len())?;
        Ok(self.on_gpu.center(&params, num_maps, outputs)?)
    }

    fn anchor_on(&mut self, outputs: Outputs<'_>, of: &AnchorDecoding) -> Result<Decoded, Failure> {
        let params = of.params(outputs.call)?;
        match outputs.tensors.len() {
            2 | 3 => Ok(self.on_gpu.anchor(&params, outputs)?),
            num => Err(not_two_or_three(num)),
        }
    }
}

/// Maps of a task among `num` of all tasks.
fn num_maps(params: &CenterDecode, num: usize) -> Result<usize, Failure> {
    let num_maps = if params.has_velocity { 6 } else { 5 };
    if num == num_maps * params.tasks.len() {
        return Ok(num_maps);
    }
    let of = params.tasks.len();
    Err(Failure::argument(format!(
        "found {num} tensors, expected {num_maps} of each of {of} tasks"
    )))
}

fn not_two_or_three(num: usize) -> Failure {
    Failure::argument(format!("found {num} tensors, expected 2 or 3"))
}

/// Candidates by their boxes.
struct Stores<'a> {
    aligned: &'a mut Option<(usize, Candidates<Box2d>)>,
    rotated: &'a mut Option<(usize, Candidates<RotatedBox2d>)>,
    in_space: &'a mut Option<(usize, Candidates<Object3d>)>,
}

fn none<B>(_: &B) -> Option<[f32; 2]> {
    None
}

/// A decoder on tensors in host memory.
type OnHost<D> = fn(&mut Memory, &Call, &D, &[TensorView<'_>]) -> Result<Const<Decoded>, Failure>;

/// A decoder: on tensors in host memory, and on a GPU.
struct Decoder<D> {
    on_host: OnHost<D>,
    on_gpu: fn(&mut Memory, Outputs<'_>, &D) -> Result<Decoded, Failure>,
    capacity: fn(&D) -> usize,
}

/// Runs a decoder on tensors.
fn decode<D>(
    workspace: Workspace,
    decoding: In<D>,
    (tensors, num_tensors): (In<Tensor>, usize),
    decoded: Out<Const<Decoded>>,
    decoder: &Decoder<D>,
) -> Status {
    run(workspace.id, |call| {
        call.check_out(decoded, "decoded")?;
        let decoding = call.one(decoding, "decoding")?;
        let tensors = call.slice(tensors, num_tensors, "tensors")?;
        let found = WORKSPACES.with(workspace.id, |opened| {
            let Opened { gpu, decoding: memory, .. } = opened;
            if let Some(gpu) = gpu {
                let capacity = (decoder.capacity)(decoding);
                check_capacity(capacity)?;
                let outputs = Outputs { gpu, call, tensors, capacity };
                let found = (decoder.on_gpu)(memory, outputs, decoding)?;
                return Ok(Const::one(memory.public.insert(found)));
            }
            let views = tensors.iter().map(|tensor| tensor.view(call));
            let views = views.collect::<Result<Vec<_>, _>>()?;
            (decoder.on_host)(memory, call, decoding, &views)
        })?;
        call.write(decoded, found, "decoded")
    })
}

/// Decodes the outputs of a network of the YOLO family or of a DETR, float32 or float16, in the
/// order of the layout, to boxes in pixels of the network's input.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_decode_yolo(
    workspace: Workspace,
    decoding: In<YoloDecoding>,
    tensors: In<Tensor>,
    num_tensors: usize,
    decoded: Out<Const<Decoded>>,
) -> Status {
    let decoder = Decoder {
        on_host: Memory::yolo,
        on_gpu: Memory::yolo_on,
        capacity: |decoding| decoding.capacity,
    };
    decode(workspace, decoding, (tensors, num_tensors), decoded, &decoder)
}

/// Decodes the maps of a CenterPoint head, `[1, channels, H, W]`, float32 or float16. Tensors
/// task by task: heat map, offset, height, size, rotation and, with `has_velocity`, velocity.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_decode_center(
    workspace: Workspace,
    decoding: In<CenterDecoding>,
    tensors: In<Tensor>,
    num_tensors: usize,
    decoded: Out<Const<Decoded>>,
) -> Status {
    let decoder = Decoder {
        on_host: Memory::center,
        on_gpu: Memory::center_on,
        capacity: |decoding| decoding.capacity,
    };
    decode(workspace, decoding, (tensors, num_tensors), decoded, &decoder)
}

/// Decodes the maps of an anchor head, float32 or float16. Tensors: class logits, boxes and, if
/// there are any, logits of directions.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_decode_anchor(
    workspace: Workspace,
    decoding: In<AnchorDecoding>,
    tensors: In<Tensor>,
    num_tensors: usize,
    decoded: Out<Const<Decoded>>,
) -> Status {
    let decoder = Decoder {
        on_host: Memory::anchor,
        on_gpu: Memory::anchor_on,
        capacity: |decoding| decoding.capacity,
    };
    decode(workspace, decoding, (tensors, num_tensors), decoded, &decoder)
}
