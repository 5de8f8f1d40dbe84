//! The reference on the CPU.

use super::SiteTask;
use crate::decode::logit::{exp, logit_bound, power, sigmoid};
use crate::sparse::rulebook::Sites;
use det_post_types::{Box3d, Candidate, Candidates, Object3d, SiteDecode};

/// Decodes tasks whose outputs fit the parameters.
pub(super) fn decode_sites(
    tasks: &[SiteTask<&[f32]>],
    sites: &Sites,
    params: &SiteDecode,
    candidates: &mut Candidates<Object3d>,
) {
    let num_columns = sites.grid().shape()[2];
    let num_cells = sites.grid().num_cells() as u32;
    let mut num_nan = 0;
    let mut first_source = 0;
    for (task, classes) in tasks.iter().zip(&params.tasks) {
        for (channel, &class) in classes.iter().enumerate() {
            let bound = heat_bound(class, params);
            let heat = task.heatmap.iter().skip(channel).step_by(classes.len());
            for (row, (&heat, &cell)) in heat.zip(sites.indices()).enumerate() {
                num_nan += usize::from(heat.is_nan());
                if heat < bound || heat.is_nan() || bound.is_nan() {
                    continue;
                }
                let cell = [cell / num_columns, cell % num_columns];
                let site = Site { task, row, cell };
                if let Some((object, score, is_valid)) = site.decode(class, heat, params) {
                    let [y, x] = cell;
                    let source = first_source + y * num_columns + x;
                    let candidate = Candidate { bbox: object, score, class, source };
                    candidates.push_if_valid(candidate, is_valid);
                }
            }
        }
        first_source += num_cells;
    }
    candidates.add_nan_scores(num_nan);
}

/// The smallest heat of a class whose score may pass; NaN when none does.
pub(super) fn heat_bound(class: u32, params: &SiteDecode) -> f32 {
    params.score_thresholds.lowest(class).map_or(f32::NAN, logit_bound)
}

/// A site, and a row of the outputs of a task.
struct Site<'t, 'a> {
    task: &'t SiteTask<&'a [f32]>,
    row: usize,
    /// Row and column on the map.
    cell: [u32; 2],
}

impl Site<'_, '_> {
    /// The object of a class, its score, and whether it is valid; `None` when it does not pass.
    fn decode(&self, class: u32, heat: f32, params: &SiteDecode) -> Option<(Object3d, f32, bool)> {
        let Self { task, cell: [row, column], .. } = *self;
        let score = sigmoid(heat);
        let [offset_x, offset_y] = self.values(task.offset);
        let x = (column as f32 + offset_x) * params.cell_size_m[0] + params.origin_m[0];
        let y = (row as f32 + offset_y) * params.cell_size_m[1] + params.origin_m[1];
        let [z] = self.values(task.height);
        let center = [x, y, z];
        let has_center = center.iter().all(|value| value.is_finite());
        let threshold = params.score_thresholds.at_center(class, center)?;
        let [cos, sin] = self.values(task.rotation);
        let yaw_norm = (sin * sin + cos * cos).sqrt();
        let least_yaw_norm = params.yaw_norm_thresholds.get(class as usize);
        let passes = score >= threshold
            && params.center_range.is_none_or(|range| !has_center || range.contains(center))
            && least_yaw_norm.is_none_or(|&least| yaw_norm.is_nan() || yaw_norm >= least);
        if !passes {
            return None;
        }
        let size = self.values(task.size).map(exp);
        let [length_m, width_m, height_m] = params.size_order.length_width_height(size);
        let yaw_rad = params.yaw.yaw(sin, cos);
        let velocity = task.velocity.filter(|_| params.has_velocity);
        let object = Object3d {
            bbox: Box3d { center, length_m, width_m, height_m, yaw_rad },
            velocity_mps: velocity.map(|velocity| self.values(velocity)),
            variance: None,
        };
        let score = match (task.iou, params.iou_weights.get(class as usize)) {
            (Some(iou), Some(&weight)) => {
                let [iou] = self.values(iou);
                rectified(score, iou, weight)
            }
            _ => score,
        };
        let is_finite = sin.is_finite() && cos.is_finite() && score.is_finite();
        Some((object, score, is_finite && object.is_valid()))
    }

    fn values<const N: usize>(&self, output: &[f32]) -> [f32; N] {
        std::array::from_fn(|channel| output[self.row * N + channel])
    }
}

/// The score with a predicted overlap; NaN stays NaN.
fn rectified(score: f32, iou: f32, weight: f32) -> f32 {
    let iou = ((iou + 1.0) * 0.5).clamp(0.0, 1.0);
    power(score, 1.0 - weight) * power(iou, weight)
}
