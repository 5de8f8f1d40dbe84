//! Suppression on arrays.

use det_post_ops::arrays::candidates::{Classes, candidate_arrays};
use det_post_ops::nms::{Workspace, suppress_2d, suppress_3d, suppress_rotated};
use det_post_types::{
    Box2d, Box3d, Candidate, CircleThreshold, ClassMode, Kept, Nms2d, Nms3d, NmsBev, NmsBevFast,
    NmsCircle, NmsFast, NmsIou, NmsIou3d, NmsRotated, NmsSoft, Object3d, RotatedBox2d, SoftDecay,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::argument::Thresholds;
use crate::array::{Input, Output, gpu_of};
use crate::error::raised;
use crate::gpu::{self, Sessions, SuppressionSession};

type Array<'py> = Bound<'py, PyAny>;

/// Candidates from arrays: `boxes` of `K` numbers each, scores, and classes where there are any.
fn candidates<B, const K: usize>(
    [boxes, scores]: [&Array<'_>; 2],
    classes: Option<&Array<'_>>,
    bbox: impl Fn([f32; K]) -> B,
) -> PyResult<Vec<Candidate<B>>> {
    let [boxes, scores] = [Input::new("boxes", boxes)?, Input::new("scores", scores)?];
    let boxes = boxes.rows::<f32, K>()?;
    let scores = scores.vector::<f32>(boxes.len())?;
    let classes = classes.map(|classes| Input::new("classes", classes)).transpose()?;
    let classes = match &classes {
        None => Classes::None,
        Some(input) if input.is::<i32>() => Classes::I32(input.vector(boxes.len())?),
        Some(input) => Classes::I64(input.vector(boxes.len())?),
    };
    let mut candidates = Vec::with_capacity(boxes.len());
    candidate_arrays(boxes, scores, classes, bbox, &mut candidates)
        .map_err(|error| raised(&error))?;
    Ok(candidates)
}

/// Boxes of one class suppress each other where there are classes, else all boxes.
fn class_mode(classes: Option<&Array<'_>>) -> ClassMode {
    if classes.is_some() { ClassMode::Aware } else { ClassMode::Agnostic }
}

/// Runs a suppression without the interpreter's lock. The survivors, best first.
fn suppressed<B: Send + Sync>(
    py: Python<'_>,
    candidates: &[Candidate<B>],
    suppress: impl Fn(&[Candidate<B>], &mut Workspace, &mut Vec<Kept>) -> det_post::Result<()>
    + Send
    + Sync,
) -> PyResult<Vec<Kept>> {
    py.detach(|| {
        let mut keep = Vec::new();
        suppress(candidates, &mut Workspace::with_capacity(candidates.len()), &mut keep)?;
        Ok(keep)
    })
    .map_err(|error| raised(&error))
}

/// The positions of the survivors, int64.
fn indices<'py>(kept: &[Kept], like: &Array<'py>) -> PyResult<Array<'py>> {
    let indices: Vec<i64> = kept.iter().map(|kept| i64::from(kept.index)).collect();
    Output::of(indices, &[kept.len()], like)
}

/// The scores of the survivors as they were kept, float32.
fn scores_of<'py>(kept: &[Kept], like: &Array<'py>) -> PyResult<Array<'py>> {
    Output::of(kept.iter().map(|kept| kept.score).collect::<Vec<f32>>(), &[kept.len()], like)
}

static ALIGNED: Sessions<SuppressionSession<Box2d>> = Sessions::new();
static ROTATED: Sessions<SuppressionSession<RotatedBox2d>> = Sessions::new();
static IN_SPACE: Sessions<SuppressionSession<Box3d>> = Sessions::new();

/// The survivors of boxes `[N, 4]`: positions and, if wanted, scores.
fn suppress_aligned<'py>(
    arrays: [&Array<'py>; 2],
    classes: Option<&Array<'py>>,
    nms: &Nms2d,
    has_scores: bool,
) -> PyResult<(Array<'py>, Option<Array<'py>>)> {
    let [boxes, _] = arrays;
    if let Some(gpu) = gpu_of("boxes", boxes)? {
        return gpu::suppressed(&ALIGNED, gpu, arrays, classes, (4, nms), has_scores);
    }
    let bbox = |[x1, y1, x2, y2]: [f32; 4]| Box2d { x1, y1, x2, y2 };
    let candidates = candidates(arrays, classes, bbox)?;
    let kept = suppressed(boxes.py(), &candidates, |candidates, workspace, keep| {
        suppress_2d(candidates, nms, workspace, keep)
    })?;
    let scores = has_scores.then(|| scores_of(&kept, boxes)).transpose()?;
    Ok((indices(&kept, boxes)?, scores))
}

/// Boxes `[N, 7]`: centre, length, width, height, yaw.
fn object(numbers: [f32; 7]) -> Object3d {
    let [x, y, z, length_m, width_m, height_m, yaw_rad] = numbers;
    let bbox = Box3d { center: [x, y, z], length_m, width_m, height_m, yaw_rad };
    Object3d { bbox, ..Object3d::default() }
}

/// The survivors of boxes `[N, K]` in space.
fn suppress_in_space<'py, const K: usize>(
    arrays: [&Array<'py>; 2],
    classes: Option<&Array<'py>>,
    bbox: impl Fn([f32; K]) -> Object3d,
    nms: &Nms3d,
) -> PyResult<Array<'py>> {
    let [boxes, _] = arrays;
    if let Some(gpu) = gpu_of("boxes", boxes)? {
        let (kept, _) = gpu::suppressed(&IN_SPACE, gpu, arrays, classes, (K, nms), false)?;
        return Ok(kept);
    }
    let candidates = candidates(arrays, classes, bbox)?;
    let kept = suppressed(boxes.py(), &candidates, |candidates, workspace, keep| {
        suppress_3d(candidates, nms, workspace, keep)
    })?;
    indices(&kept, boxes)
}

/// Greedy suppression by IoU of axis-aligned boxes, whatever their class.
///
/// boxes: float32 [N, 4], left, top, right, bottom. scores: float32 [N]. A box is suppressed if
/// its IoU with a better kept box is above iou_threshold. offset: 0, or 1 for boxes whose corners
/// are whole pixels. score_threshold: only boxes above it are eligible. max_num: the maximum
/// number of survivors.
///
/// Returns the positions of the survivors, int64, best first; equal scores in the order of their
/// positions. A box with a NaN is neither kept nor suppresses. As torchvision.ops.nms.
#[pyfunction]
#[pyo3(signature = (boxes, scores, iou_threshold, *, offset=0, score_threshold=None, max_num=None))]
pub fn nms<'py>(
    boxes: &Array<'py>,
    scores: &Array<'py>,
    iou_threshold: f32,
    offset: u8,
    score_threshold: Option<f32>,
    max_num: Option<usize>,
) -> PyResult<Array<'py>> {
    let nms = Nms2d::Iou(NmsIou {
        iou_threshold,
        offset,
        class_mode: ClassMode::Agnostic,
        score_threshold,
        max_num: max_num.unwrap_or(usize::MAX),
    });
    Ok(suppress_aligned([boxes, scores], None, &nms, false)?.0)
}

/// As nms, where only boxes of one class suppress each other.
///
/// idxs: the classes, int64 or int32 [N]. As torchvision.ops.batched_nms, without moving boxes.
#[pyfunction]
#[pyo3(signature = (boxes, scores, idxs, iou_threshold, *, offset=0, score_threshold=None, max_num=None))]
pub fn batched_nms<'py>(
    boxes: &Array<'py>,
    scores: &Array<'py>,
    idxs: &Array<'py>,
    iou_threshold: f32,
    offset: u8,
    score_threshold: Option<f32>,
    max_num: Option<usize>,
) -> PyResult<Array<'py>> {
    let nms = Nms2d::Iou(NmsIou {
        iou_threshold,
        offset,
        class_mode: ClassMode::Aware,
        score_threshold,
        max_num: max_num.unwrap_or(usize::MAX),
    });
    Ok(suppress_aligned([boxes, scores], Some(idxs), &nms, false)?.0)
}

/// Suppression by IoU in one pass: a box is suppressed by any better box that overlaps it, even
/// a suppressed one. Arguments and result as nms.
///
/// classes: int64 or int32 [N]; with them, only boxes of one class suppress each other.
#[pyfunction]
#[pyo3(signature = (boxes, scores, iou_threshold, *, classes=None))]
pub fn fast_nms<'py>(
    boxes: &Array<'py>,
    scores: &Array<'py>,
    iou_threshold: f32,
    classes: Option<&Array<'py>>,
) -> PyResult<Array<'py>> {
    let nms = Nms2d::Fast(NmsFast { iou_threshold, class_mode: class_mode(classes) });
    Ok(suppress_aligned([boxes, scores], classes, &nms, false)?.0)
}

/// Suppression that lowers scores.
///
/// method: "linear" (score * (1 - iou) from iou_threshold on) or "gaussian"
/// (score * exp(-iou^2 / sigma)). Boxes whose score decays below min_score are dropped, except
/// the top box. classes as in fast_nms.
///
/// Returns the positions of the kept boxes, int64, in the order in which they were kept, and
/// their scores at that moment, float32.
#[pyfunction]
#[pyo3(signature = (boxes, scores, *, iou_threshold=0.3, sigma=0.5, min_score=1e-3, method="linear", offset=0, classes=None))]
#[expect(clippy::too_many_arguments, reason = "options by name")]
pub fn soft_nms<'py>(
    boxes: &Array<'py>,
    scores: &Array<'py>,
    iou_threshold: f32,
    sigma: f32,
    min_score: f32,
    method: &str,
    offset: u8,
    classes: Option<&Array<'py>>,
) -> PyResult<(Array<'py>, Array<'py>)> {
    let decay = match method {
        "linear" => SoftDecay::Linear { iou_threshold },
        "gaussian" => SoftDecay::Gaussian { sigma },
        _ => {
            let message = format!("method must be \"linear\" or \"gaussian\", found {method:?}");
            return Err(PyValueError::new_err(message));
        }
    };
    let class_mode = class_mode(classes);
    let nms = Nms2d::Soft(NmsSoft { decay, min_score, offset, class_mode });
    let (kept, lowered) = suppress_aligned([boxes, scores], classes, &nms, true)?;
    lowered.map(|lowered| (kept, lowered)).ok_or_else(|| PyValueError::new_err("no scores"))
}

/// Greedy suppression by IoU of rotated boxes in a plane.
///
/// boxes: float32 [N, 5], centre x and y, width, height, and the turn of the width from +x
/// towards +y in radians. Other arguments and result as fast_nms.
#[pyfunction]
#[pyo3(signature = (boxes, scores, iou_threshold, *, classes=None))]
pub fn nms_rotated<'py>(
    boxes: &Array<'py>,
    scores: &Array<'py>,
    iou_threshold: f32,
    classes: Option<&Array<'py>>,
) -> PyResult<Array<'py>> {
    let nms = Nms2d::Rotated(NmsRotated { iou_threshold, class_mode: class_mode(classes) });
    if let Some(gpu) = gpu_of("boxes", boxes)? {
        let arrays = [boxes, scores];
        return Ok(gpu::suppressed(&ROTATED, gpu, arrays, classes, (5, &nms), false)?.0);
    }
    let bbox = |[cx, cy, width, height, angle_rad]: [f32; 5]| RotatedBox2d {
        cx,
        cy,
        width,
        height,
        angle_rad,
    };
    let candidates = candidates([boxes, scores], classes, bbox)?;
    let kept = suppressed(boxes.py(), &candidates, |candidates, workspace, keep| {
        suppress_rotated(candidates, &nms, workspace, keep)
    })?;
    indices(&kept, boxes)
}

/// Suppression by IoU of footprints in the bird's-eye view.
///
/// boxes: float32 [N, 7], centre x, y, z, length, width, height, yaw. iou_threshold: for all
/// classes, or a list of one per class; the class of the better box decides. Boxes whose centres are
/// farther apart than search_distance do not suppress each other. one_pass: a suppressed box still
/// suppresses others, as in Autoware. Other arguments and result as fast_nms.
#[pyfunction]
#[pyo3(signature = (boxes, scores, iou_threshold, *, classes=None, search_distance=f32::INFINITY, one_pass=false))]
pub fn nms_bev<'py>(
    boxes: &Array<'py>,
    scores: &Array<'py>,
    iou_threshold: Thresholds,
    classes: Option<&Array<'py>>,
    search_distance: f32,
    one_pass: bool,
) -> PyResult<Array<'py>> {
    let class_mode = class_mode(classes);
    let (iou_thresholds, search_distance_m) = (iou_threshold.into(), search_distance);
    let nms = if one_pass {
        Nms3d::BevFast(NmsBevFast {
            iou_thresholds,
            search_distance_m,
            unlimited_pairs: Vec::new(),
            forbidden_pairs: Vec::new(),
            class_mode,
        })
    } else {
        Nms3d::Bev(NmsBev {
            iou_thresholds,
            search_distance_m,
            forbidden_pairs: Vec::new(),
            class_mode,
        })
    };
    suppress_in_space([boxes, scores], classes, object, &nms)
}

/// Greedy suppression by IoU of volumes. Arguments and result as nms_bev.
#[pyfunction]
#[pyo3(signature = (boxes, scores, iou_threshold, *, classes=None))]
pub fn nms_3d<'py>(
    boxes: &Array<'py>,
    scores: &Array<'py>,
    iou_threshold: Thresholds,
    classes: Option<&Array<'py>>,
) -> PyResult<Array<'py>> {
    let iou_thresholds = iou_threshold.into();
    let nms = Nms3d::Iou3d(NmsIou3d { iou_thresholds, class_mode: class_mode(classes) });
    suppress_in_space([boxes, scores], classes, object, &nms)
}

/// Greedy suppression by distance of centres.
///
/// centers: float32 [N, 2]. threshold: a radius in metres (suppressed if nearer), or, with
/// squared, the square of a distance (suppressed if not farther), as mmdet3d's circle_nms takes
/// it; for all classes, or a list of one per class. Other arguments and result as fast_nms.
#[pyfunction]
#[pyo3(signature = (centers, scores, threshold, *, classes=None, squared=false))]
pub fn circle_nms<'py>(
    centers: &Array<'py>,
    scores: &Array<'py>,
    threshold: Thresholds,
    classes: Option<&Array<'py>>,
    squared: bool,
) -> PyResult<Array<'py>> {
    let reading = if squared { CircleThreshold::SquaredDistance } else { CircleThreshold::Radius };
    let thresholds = threshold.into();
    let nms = Nms3d::Circle(NmsCircle { thresholds, reading, class_mode: class_mode(classes) });
    let point = |[x, y]: [f32; 2]| object([x, y, 0.0, 0.0, 0.0, 0.0, 0.0]);
    suppress_in_space([centers, scores], classes, point, &nms)
}
