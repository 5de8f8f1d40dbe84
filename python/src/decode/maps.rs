//! Maps in the bird's-eye view: heads of centres and of anchors.

use det_post_ops::decode::anchor::{AnchorOutputs, decode_anchor as decode_anchors};
use det_post_ops::decode::center::{CenterTask, decode_center as decode_tasks};
use det_post_types::{Anchor, AnchorDecode, CenterDecode, PointRange};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyMapping;

use super::{
    Array, Found, Scores, capacity_of, decoded, size_order_of, space_columns, thresholds, yaw_of,
};
use crate::array::{Input, gpu_of};
use crate::gpu;

/// Decodes the maps of a CenterPoint head.
///
/// tasks: one mapping per task with heatmap [1, classes, H, W], offset [1, 2, H, W], height
/// [1, 1, H, W], size [1, 3, H, W], rotation [1, 2, H, W] (sine, cosine) and, if there is one,
/// velocity [1, 2, H, W]; float32 or float16. origin: x, y of the corner of the map; cell_size: of
/// its cells along x and y, in metres. classes: per task the class of each channel; by default
/// they are counted through. heatmap_logits, size_log: whether heat maps are logits and sizes
/// logarithms. size_order: length_width_height or width_length_height; yaw: counter_clockwise or
/// clockwise_from_minus_y. score_threshold: for all classes, a list of one per class, or per class
/// a list of one per distance bin with upper limits distance_limits. yaw_norm_thresholds: per class
/// the least norm of sine and cosine. center_range: smallest x, y, z, then largest, of centres.
/// has_variance: whether the values of every map but the heat map are followed by logarithms of
/// their variances. The best max_num are kept, all by default.
///
/// Returns a dict of arrays, best first: boxes, float32 [K, 7] (centre, length, width, height,
/// yaw); scores; classes; rows (cells, task by task); velocities [K, 2] and variances [K, 9]
/// (of centre, sizes, yaw, velocity) where the head gives them.
#[pyfunction]
#[pyo3(signature = (tasks, *, origin, cell_size, score_threshold=Scores::One(0.1), distance_limits=vec![], classes=None, heatmap_logits=true, size_order="length_width_height", size_log=true, yaw="counter_clockwise", yaw_norm_thresholds=vec![], center_range=None, has_variance=false, max_num=None))]
#[expect(clippy::too_many_arguments, reason = "options by name")]
#[expect(clippy::needless_pass_by_value, reason = "lists from Python are made for the call")]
pub fn decode_center<'py>(
    py: Python<'py>,
    tasks: Vec<Bound<'py, PyMapping>>,
    origin: [f32; 2],
    cell_size: [f32; 2],
    score_threshold: Scores,
    distance_limits: Vec<f32>,
    classes: Option<Vec<Vec<u32>>>,
    heatmap_logits: bool,
    size_order: &str,
    size_log: bool,
    yaw: &str,
    yaw_norm_thresholds: Vec<f32>,
    center_range: Option<[f32; 6]>,
    has_variance: bool,
    max_num: Option<usize>,
) -> Found<'py> {
    let arrays = tasks.iter().map(arrays_of_task).collect::<PyResult<Vec<_>>>()?;
    let Some(like) = arrays.first().map(|task| &task.heatmap) else {
        return Err(PyValueError::new_err("tasks is empty; at least one is required"));
    };
    let gpu = gpu_of("heatmap", like)?;
    let of_task = |task: &CenterTask<_>| task.try_map_named(Input::new);
    let inputs = match gpu {
        None => arrays.iter().map(of_task).collect::<PyResult<Vec<_>>>()?,
        Some(_) => vec![],
    };
    let shapes = match gpu {
        None => inputs.iter().map(|task| task.heatmap.shape().to_vec()).collect(),
        Some(_) => arrays
            .iter()
            .map(|task| task.heatmap.getattr("shape")?.extract())
            .collect::<PyResult<Vec<Vec<usize>>>>()?,
    };
    let channels = shapes.iter().map(|shape| shape.get(1).copied().unwrap_or(0) as u32);
    let mut num_counted = 0;
    let counted = channels.map(|num| {
        num_counted += num;
        (num_counted - num..num_counted).collect::<Vec<_>>()
    });
    let classes = match classes {
        Some(classes) => classes,
        None => counted.collect(),
    };
    let num_classes = classes.iter().flatten().max().map_or(0, |&class| class as usize + 1);
    let has_velocity = arrays.iter().any(|task| task.velocity.is_some());
    let params = CenterDecode {
        origin_m: origin,
        cell_size_m: cell_size,
        tasks: classes,
        heatmap_logits,
        size_order: size_order_of(size_order)?,
        size_log,
        yaw: yaw_of(yaw)?,
        score_thresholds: thresholds(score_threshold, distance_limits, num_classes)?,
        yaw_norm_thresholds,
        center_range: center_range.map(PointRange::from_bounds),
        has_velocity,
        has_variance,
    };
    if let Some(gpu) = gpu {
        return gpu::decode_center(gpu, &arrays, &params, max_num);
    }
    let maps = inputs.iter().map(|task| task.try_map_named(|_, map| map.tensor()));
    let maps = maps.collect::<PyResult<Vec<_>>>()?;
    let num_cells = maps.iter().map(|task| task.height.values().len()).sum::<usize>();
    let capacity = capacity_of(max_num, num_cells)?;
    let found = decoded(py, capacity, |candidates| decode_tasks(&maps, &params, candidates))?;
    space_columns(&found, [has_velocity, has_variance], like)
}

fn arrays_of_task<'py>(task: &Bound<'py, PyMapping>) -> PyResult<CenterTask<Array<'py>>> {
    let map_of = |name: &str| {
        task.get_item(name).map_err(|_| PyKeyError::new_err(format!("a task has no {name}")))
    };
    Ok(CenterTask {
        heatmap: map_of("heatmap")?,
        offset: map_of("offset")?,
        height: map_of("height")?,
        size: map_of("size")?,
        rotation: map_of("rotation")?,
        velocity: task.contains("velocity")?.then(|| map_of("velocity")).transpose()?,
    })
}

/// Decodes the maps of an anchor head, such as PointPillars of OpenPCDet.
///
/// classes, boxes, directions: [1, channels, H, W] or, with channels_last, [1, H, W, channels],
/// float32 or float16. point_range: smallest x, y, z, then largest. anchor_sizes: per class length,
/// width, height; anchor_heights: per class z of the centre; rotations: yaws of each class's
/// anchors; direction_offset: in radians. align_center: whether anchors are at the centres of
/// cells. score_threshold, distance_limits, max_num and the result as decode_center.
#[pyfunction]
#[pyo3(signature = (classes, boxes, directions=None, *, point_range, anchor_sizes, anchor_heights, rotations=vec![0.0, std::f32::consts::FRAC_PI_2], direction_offset=0.0, align_center=false, channels_last=false, score_threshold=Scores::One(0.1), distance_limits=vec![], max_num=None))]
#[expect(clippy::too_many_arguments, reason = "options by name")]
pub fn decode_anchor<'py>(
    classes: &Array<'py>,
    boxes: &Array<'py>,
    directions: Option<&Array<'py>>,
    point_range: [f32; 6],
    anchor_sizes: Vec<[f32; 3]>,
    anchor_heights: Vec<f32>,
    rotations: Vec<f32>,
    direction_offset: f32,
    align_center: bool,
    channels_last: bool,
    score_threshold: Scores,
    distance_limits: Vec<f32>,
    max_num: Option<usize>,
) -> Found<'py> {
    if anchor_sizes.len() != anchor_heights.len() {
        let (sizes, heights) = (anchor_sizes.len(), anchor_heights.len());
        let message = format!("anchor_sizes are of {sizes} classes, anchor_heights of {heights}");
        return Err(PyValueError::new_err(message));
    }
    let num_classes = anchor_sizes.len();
    let anchors = anchor_sizes.into_iter().zip(anchor_heights);
    let params = AnchorDecode {
        range: PointRange::from_bounds(point_range),
        align_center,
        anchors: anchors.map(|(size_m, center_z_m)| Anchor { size_m, center_z_m }).collect(),
        rotations_rad: rotations,
        direction_offset_rad: direction_offset,
        channels_last,
        score_thresholds: thresholds(score_threshold, distance_limits, num_classes)?,
    };
    if let Some(gpu) = gpu_of("classes", classes)? {
        let outputs = AnchorOutputs { classes, boxes, directions };
        return gpu::decode_anchor(gpu, &outputs, &params, max_num);
    }
    let inputs = (
        Input::new("classes", classes)?,
        Input::new("boxes", boxes)?,
        directions.map(|directions| Input::new("directions", directions)).transpose()?,
    );
    let outputs = AnchorOutputs {
        classes: inputs.0.tensor()?,
        boxes: inputs.1.tensor()?,
        directions: inputs.2.as_ref().map(Input::tensor).transpose()?,
    };
    let capacity = capacity_of(max_num, outputs.boxes.values().len() / 7)?;
    let found = decoded(classes.py(), capacity, |candidates| {
        decode_anchors(&outputs, &params, candidates)
    })?;
    space_columns(&found, [false, false], classes)
}
