//! The outputs of YOLO-family networks.

use det_post_ops::decode::yolo::{decode_yolo as decode_rows, decode_yolo_rotated};
use det_post_types::{AnchorLevel, Box2d, DetrBoxes, DetrClasses, RotatedBox2d, Size, YoloLayout};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::{Array, Found, capacity_of, columns, decoded};
use crate::argument::one_of;
use crate::array::{Input, gpu_of};
use crate::gpu::{self, Sessions, YoloHead, YoloSessions};
use crate::image::affines_of;
use crate::library::part;

/// Decodes the outputs of a YOLO-family network.
///
/// outputs: the tensors of a frame, float32 or float16, or, with batch, of several along the first
/// axis; layout: what they hold, as layout.kind
/// of a camera's parameters: v5 [1, N, 5 + C], v5_raw (logits, one tensor per stride, [1, A * (5 + C), H, W] or
/// [1, A, H, W, 5 + C]), v8
/// [1, 4 + C, N], obb [1, 4 + C + 1, N], yolox [1, N, 5 + C] (grid and strides not applied),
/// end_to_end [1, N, 6], detr (boxes [1, N, 4] and scores). size: height and width of the
/// network's input, for v5_raw, yolox and normalized boxes of detr. strides: of v5_raw and yolox;
/// anchors: of v5_raw, per level pairs of width and height. detr_boxes: center_normalized or
/// corner_pixels; logits: whether scores of detr are logits. Boxes with a score of at least
/// score_threshold pass; the best max_num of a frame are kept, all by default. affine: from the
/// image to the input, as letterbox returns it, or a matrix [2, 3]; with batch also a list of one
/// per frame: boxes are mapped back to pixels of the image, and not cut at its sides.
///
/// Returns a dict of arrays, best first: boxes, float32 [K, 4] (left, top, right, bottom in pixels
/// of the network's input) or, of obb, [K, 5] (centre, width, height, angle); scores, float32 [K];
/// classes, int64 [K]; rows, int64 [K], the positions in the tensors. With batch, a list of one dict
/// per frame.
#[pyfunction]
#[pyo3(signature = (outputs, layout, *, num_classes, score_threshold=0.25, size=None, strides=vec![8, 16, 32], anchors=None, detr_boxes="center_normalized", logits=true, max_num=None, affine=None, batch=false))]
#[expect(clippy::too_many_arguments, reason = "options by name")]
pub fn decode_yolo<'py>(
    outputs: &Array<'py>,
    layout: &str,
    num_classes: usize,
    score_threshold: f32,
    size: Option<(u32, u32)>,
    strides: Vec<u32>,
    anchors: Option<Vec<Vec<[f32; 2]>>>,
    detr_boxes: &str,
    logits: bool,
    max_num: Option<usize>,
    affine: Option<&Array<'py>>,
    batch: bool,
) -> PyResult<Array<'py>> {
    let py = outputs.py();
    // An array is a sequence, too.
    let arrays = match outputs.hasattr(pyo3::intern!(py, "__dlpack__"))? {
        true => vec![outputs.clone()],
        false => outputs.extract::<Vec<_>>()?,
    };
    let Some(like) = arrays.first() else {
        return Err(PyValueError::new_err("outputs is empty; the tensors of a frame are required"));
    };
    let layout = yolo_layout(layout, strides, anchors, detr_boxes, logits)?;
    let network = match size {
        Some((height, width)) => Size::new(width, height),
        None if layout.needs_input_size() => {
            let message = "size is None; this layout needs the height and width of the input";
            return Err(PyValueError::new_err(message));
        }
        None => Size::new(1, 1),
    };
    let decoding = Decoding { layout, network, num_classes, score_threshold, max_num };
    if !batch {
        let affines = affine.map(|affine| affines_of(affine, 1)).transpose()?;
        let found = decoding.run(&arrays)?;
        mapped_back(&found, affines.as_ref().and_then(|affines| affines.first()))?;
        return Ok(found.into_any());
    }
    let num_frames = like.len()?;
    for array in &arrays {
        if array.len()? != num_frames {
            let message = format!(
                "outputs are of {num_frames} and of {} frames along the first axis",
                array.len()?
            );
            return Err(PyValueError::new_err(message));
        }
    }
    let affines = affine.map(|affine| affines_of(affine, num_frames)).transpose()?;
    let frames = PyList::empty(py);
    for frame in 0..num_frames {
        let parts = arrays.iter().map(|array| part(array, frame)).collect::<PyResult<Vec<_>>>()?;
        let found = decoding.run(&parts)?;
        mapped_back(&found, affines.as_ref().and_then(|affines| affines.get(frame)))?;
        frames.append(found)?;
    }
    Ok(frames.into_any())
}

/// Maps the boxes of a frame to pixels of its image.
fn mapped_back(found: &Bound<'_, PyDict>, affine: Option<&[[f64; 3]; 2]>) -> PyResult<()> {
    let Some(affine) = affine else { return Ok(()) };
    let py = found.py();
    let module = py.import(pyo3::intern!(py, "det_post._affine"))?;
    module.call_method1(pyo3::intern!(py, "map_back"), (found, affine)).map(drop)
}

/// How the tensors of a frame become boxes.
struct Decoding {
    layout: YoloLayout,
    network: Size,
    num_classes: usize,
    score_threshold: f32,
    max_num: Option<usize>,
}

impl Decoding {
    /// The boxes of a frame.
    fn run<'py>(&self, arrays: &[Array<'py>]) -> Found<'py> {
        let Self { layout, network, num_classes, score_threshold, max_num } = self;
        let like = &arrays[0];
        let py = like.py();
        if let Some(gpu) = gpu_of("outputs", like)? {
            let shapes = arrays.iter().map(|array| array.getattr("shape")?.extract());
            let shapes: Vec<Vec<usize>> = shapes.collect::<PyResult<_>>()?;
            let num_values = shapes.iter().map(|shape| shape.iter().product::<usize>()).sum();
            let head = YoloHead {
                layout: layout.clone(),
                network: *network,
                num_classes: *num_classes,
                score_threshold: *score_threshold,
                capacity: capacity_of(*max_num, most_rows(layout, *num_classes, num_values))?,
            };
            if layout.has_rotated_boxes() {
                return gpu::decode_yolo(&ROTATED, gpu, arrays, &shapes, &head);
            }
            return gpu::decode_yolo(&ALIGNED, gpu, arrays, &shapes, &head);
        }
        let inputs = arrays.iter().map(|array| Input::new("outputs", array));
        let inputs = inputs.collect::<PyResult<Vec<_>>>()?;
        let tensors = inputs.iter().map(Input::tensor).collect::<PyResult<Vec<_>>>()?;
        let num_values = tensors.iter().map(|tensor| tensor.values().len()).sum();
        let capacity = capacity_of(*max_num, most_rows(layout, *num_classes, num_values))?;
        let options = (*num_classes, *score_threshold);
        if layout.has_rotated_boxes() {
            let found = decoded(py, capacity, |candidates| {
                decode_yolo_rotated(&tensors, layout, *network, options.0, options.1, candidates)
            })?;
            let numbers = |b: RotatedBox2d| [b.cx, b.cy, b.width, b.height, b.angle_rad];
            return columns(found.as_slice(), numbers, like);
        }
        let found = decoded(py, capacity, |candidates| {
            decode_rows(&tensors, layout, *network, options.0, options.1, candidates)
        })?;
        columns(found.as_slice(), |b| [b.x1, b.y1, b.x2, b.y2], like)
    }
}

static ALIGNED: YoloSessions<Box2d> = Sessions::new();
static ROTATED: YoloSessions<RotatedBox2d> = Sessions::new();

/// The most boxes in so many values.
fn most_rows(layout: &YoloLayout, num_classes: usize, num_values: usize) -> usize {
    let least_of_a_row = match layout {
        YoloLayout::EndToEnd => 6,
        YoloLayout::Detr { .. } => 4,
        _ => 4 + num_classes,
    };
    num_values / least_of_a_row
}

fn yolo_layout(
    kind: &str,
    strides: Vec<u32>,
    anchors: Option<Vec<Vec<[f32; 2]>>>,
    detr_boxes: &str,
    logits: bool,
) -> PyResult<YoloLayout> {
    Ok(match kind {
        "v5" => YoloLayout::V5,
        "v8" => YoloLayout::V8,
        "obb" => YoloLayout::Obb,
        "yolox" => YoloLayout::Yolox { strides },
        "end_to_end" => YoloLayout::EndToEnd,
        "detr" => {
            let forms = [
                ("center_normalized", DetrBoxes::CenterNormalized),
                ("corner_pixels", DetrBoxes::CornerPixels),
            ];
            let boxes = one_of("detr_boxes", detr_boxes, &forms)?;
            YoloLayout::Detr { boxes, logits, classes: DetrClasses::Best }
        }
        "v5_raw" => {
            let anchors = anchors.unwrap_or_default();
            if anchors.len() != strides.len() {
                let message = format!(
                    "anchors are of {} levels and strides of {}; v5_raw needs both",
                    anchors.len(),
                    strides.len()
                );
                return Err(PyValueError::new_err(message));
            }
            let levels = strides.into_iter().zip(anchors);
            let levels = levels.map(|(stride, anchors)| AnchorLevel { stride, anchors });
            YoloLayout::V5Raw { levels: levels.collect() }
        }
        _ => {
            let message = format!(
                "layout must be one of v5, v5_raw, v8, obb, yolox, end_to_end, detr, found \
                 {kind:?}"
            );
            return Err(PyValueError::new_err(message));
        }
    })
}
