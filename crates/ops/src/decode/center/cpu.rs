//! The reference on the CPU.

use super::CenterTask;
use crate::decode::logit::{exp, logit_bound, sigmoid};
use det_post_types::{
    Box3d, Candidate, Candidates, CenterDecode, Object3d, TensorValues, TensorView, Variance3d,
};

/// Decodes tasks whose tensors fit the parameters.
pub(super) fn decode_center(
    tasks: &[CenterTask<TensorView<'_>>],
    params: &CenterDecode,
    candidates: &mut Candidates<Object3d>,
) {
    let mut first_source = 0;
    for (task, classes) in tasks.iter().zip(&params.tasks) {
        let maps = Maps::new(task, params, first_source);
        match task.heatmap.values() {
            TensorValues::F32(heat) => decode_task(heat, classes, &maps, params, candidates),
            TensorValues::F16(heat) => decode_task(heat, classes, &maps, params, candidates),
            TensorValues::I32(_)
            | TensorValues::I64(_)
            | TensorValues::F64(_)
            | TensorValues::I8(_) => {}
        }
        first_source += maps.num_cells;
    }
}

fn decode_task<T: Copy + Into<f32>>(
    heat: &[T],
    classes: &[u32],
    maps: &Maps<'_>,
    params: &CenterDecode,
    candidates: &mut Candidates<Object3d>,
) {
    let bound = heat_bound(classes, params).unwrap_or(f32::NAN);
    let mut num_nan = 0;
    for cell in 0..maps.num_cells {
        let mut best = f32::NEG_INFINITY;
        let mut best_class = u32::MAX;
        let mut has_nan = false;
        for (channel, &class) in classes.iter().enumerate() {
            let value: f32 = heat[channel * maps.num_cells + cell].into();
            has_nan |= value.is_nan();
            if value > best || (value == best && class < best_class) {
                (best, best_class) = (value, class);
            }
        }
        num_nan += usize::from(has_nan);
        if best >= bound && best_class != u32::MAX {
            let score = if params.heatmap_logits { sigmoid(best) } else { best };
            if let Some((candidate, is_valid)) = decode_cell(maps, cell, best_class, score, params)
            {
                candidates.push_if_valid(candidate, is_valid);
            }
        }
    }
    candidates.add_nan_scores(num_nan);
}

/// The smallest heat whose score may pass; `None` when no class of the task has a
/// threshold.
pub(super) fn heat_bound(classes: &[u32], params: &CenterDecode) -> Option<f32> {
    let lowest = |&class: &u32| params.score_thresholds.lowest(class);
    let lowest = classes.iter().filter_map(lowest).reduce(f32::min)?;
    Some(if params.heatmap_logits { logit_bound(lowest) } else { lowest })
}

/// The candidate of a cell and whether it is valid; `None` when the cell does not pass.
fn decode_cell(
    maps: &Maps<'_>,
    cell: usize,
    class: u32,
    score: f32,
    params: &CenterDecode,
) -> Option<(Candidate<Object3d>, bool)> {
    let [offset_x, offset_y] = maps.offset.values_at(cell);
    let [z] = maps.height.values_at(cell);
    let x = (maps.column(cell) + offset_x) * params.cell_size_m[0] + params.origin_m[0];
    let y = (maps.row(cell) + offset_y) * params.cell_size_m[1] + params.origin_m[1];
    let center = [x, y, z];
    let has_center = center.iter().all(|value| value.is_finite());
    let threshold = params.score_thresholds.at_center(class, center)?;
    let [sin, cos] = maps.rotation.values_at(cell);
    let yaw_norm = (sin * sin + cos * cos).sqrt();
    let least_yaw_norm = params.yaw_norm_thresholds.get(class as usize);
    let passes = score >= threshold
        && params.center_range.is_none_or(|range| !has_center || range.contains(center))
        && least_yaw_norm.is_none_or(|&least| yaw_norm.is_nan() || yaw_norm >= least);
    if !passes {
        return None;
    }

    let size: [f32; 3] = maps.size.values_at(cell);
    let size = if params.size_log { size.map(exp) } else { size };
    let [length_m, width_m, height_m] = params.size_order.length_width_height(size);
    let yaw_rad = params.yaw.yaw(sin, cos);
    let object = Object3d {
        bbox: Box3d { center, length_m, width_m, height_m, yaw_rad },
        velocity_mps: maps.velocity.as_ref().map(|map| map.values_at(cell)),
        variance: params.has_variance.then(|| variance_of(maps, cell, size, [sin, cos], params)),
    };
    let source = (maps.first_source + cell) as u32;
    let is_valid = object.is_valid() && sin.is_finite() && cos.is_finite();
    Some((Candidate { bbox: object, score, class, source }, is_valid))
}

/// `size` is decoded and in the order of the channels.
fn variance_of(
    maps: &Maps<'_>,
    cell: usize,
    size: [f32; 3],
    [sin, cos]: [f32; 2],
    params: &CenterDecode,
) -> Variance3d {
    let [x, y] = maps.offset.variances_at(cell);
    let [z] = maps.height.variances_at(cell);
    let [cell_x, cell_y] = params.cell_size_m;
    let of_size: [f32; 3] = maps.size.variances_at(cell);
    let of_size = if params.size_log {
        std::array::from_fn(|i| of_size[i] * (size[i] * size[i]))
    } else {
        of_size
    };
    let [of_sin, of_cos] = maps.rotation.variances_at(cell);
    let norm_squared = sin * sin + cos * cos;
    Variance3d {
        center: [x * (cell_x * cell_x), y * (cell_y * cell_y), z],
        size: params.size_order.length_width_height(of_size),
        yaw: (cos * cos * of_sin + sin * sin * of_cos) / (norm_squared * norm_squared),
        velocity: maps.velocity.as_ref().map_or([0.0; 2], |map| map.variances_at(cell)),
    }
}

/// The regression maps of a task.
struct Maps<'a> {
    offset: Map<'a>,
    height: Map<'a>,
    size: Map<'a>,
    rotation: Map<'a>,
    velocity: Option<Map<'a>>,
    num_columns: usize,
    num_cells: usize,
    first_source: usize,
}

impl<'a> Maps<'a> {
    fn new(task: &CenterTask<TensorView<'a>>, params: &CenterDecode, first_source: usize) -> Self {
        let [num_rows, num_columns] = match *task.heatmap.shape() {
            [.., rows, columns] => [rows, columns],
            _ => [0, 0],
        };
        let num_cells = num_rows * num_columns;
        let map = |view: TensorView<'a>| Map { values: view.values(), num_cells };
        Self {
            offset: map(task.offset),
            height: map(task.height),
            size: map(task.size),
            rotation: map(task.rotation),
            velocity: task.velocity.filter(|_| params.has_velocity).map(map),
            num_columns,
            num_cells,
            first_source,
        }
    }

    fn row(&self, cell: usize) -> f32 {
        (cell / self.num_columns) as f32
    }

    fn column(&self, cell: usize) -> f32 {
        (cell % self.num_columns) as f32
    }
}

/// One regression map: the channels of the values, then of their variances.
struct Map<'a> {
    values: TensorValues<'a>,
    num_cells: usize,
}

impl Map<'_> {
    fn values_at<const N: usize>(&self, cell: usize) -> [f32; N] {
        std::array::from_fn(|channel| self.at(channel, cell))
    }

    fn variances_at<const N: usize>(&self, cell: usize) -> [f32; N] {
        std::array::from_fn(|channel| exp(self.at(N + channel, cell)))
    }

    fn at(&self, channel: usize, cell: usize) -> f32 {
        let index = channel * self.num_cells + cell;
        match self.values {
            TensorValues::F32(values) => values[index],
            TensorValues::F16(values) => values[index].to_f32(),
            TensorValues::I32(_)
            | TensorValues::I64(_)
            | TensorValues::F64(_)
            | TensorValues::I8(_) => f32::NAN,
        }
    }
}
