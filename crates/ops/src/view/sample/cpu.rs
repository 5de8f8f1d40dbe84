//! The reference on the CPU.

use super::{MapsView, ViewSampling, Weighting, Workspace, add_sample};
use crate::decode::logit::{exp, sigmoid};

/// Arguments that fit together.
pub(super) fn view_sample(
    maps: &MapsView<'_>,
    sampling: &ViewSampling<'_>,
    workspace: &mut Workspace,
    out: &mut [f32],
) {
    let &ViewSampling { points, num_points, projections, min_depth_m, weighting } = sampling;
    let num_levels = maps.levels().len();
    let num_groups = weighting.num_groups();
    let Workspace { weights, projected } = workspace;
    let queries = points.chunks_exact(num_points).zip(out.chunks_exact_mut(maps.num_channels()));
    for (query, (points, out)) in queries.enumerate() {
        projected.clear();
        let views = projections.iter();
        projected.extend(views.flat_map(|projection| {
            points.iter().map(|&point| projection.project(point, min_depth_m))
        }));
        write_weights(query, projections.len(), num_levels * num_points, weighting, weights);
        out.fill(0.0);
        let mut weights = weights.chunks_exact(num_groups);
        for (view, projected) in projected.chunks_exact(num_points).enumerate() {
            for level in 0..num_levels {
                for (projected, weights) in projected.iter().zip(&mut weights) {
                    if projected.is_seen {
                        add_sample(maps, [view, level], projected.at, weights, out);
                    }
                }
            }
        }
    }
}

/// Writes the weights of a query, `[N, L, P, G]`.
fn write_weights(
    query: usize,
    num_views: usize,
    num_samples: usize,
    weighting: Weighting<'_>,
    weights: &mut Vec<f32>,
) {
    weights.clear();
    match weighting {
        Weighting::Sigmoid { logits } => {
            let len = num_views * num_samples;
            weights.extend(logits[query * len..][..len].iter().map(|&logit| sigmoid(logit)));
        }
        Weighting::Softmax { logits, view_logits, num_groups } => {
            let len = num_samples * num_groups;
            let logits = &logits[query * len..][..len];
            for of_view in view_logits.chunks_exact(len) {
                weights.extend(logits.iter().zip(of_view).map(|(logit, of_view)| logit + of_view));
            }
            (0..num_groups).for_each(|group| softmax(weights, group, num_groups));
        }
    }
}

/// The softmax of every `num_groups`th value from the `group`th on.
fn softmax(values: &mut [f32], group: usize, num_groups: usize) {
    let len = values.len();
    let of_group = || (group..len).step_by(num_groups);
    let max = of_group().map(|index| values[index]).fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for index in of_group() {
        values[index] = exp(values[index] - max);
        sum += values[index];
    }
    for index in of_group() {
        values[index] /= sum;
    }
}
