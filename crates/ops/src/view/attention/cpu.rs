//! The reference on the CPU: head by head, with the keys of a head in panels of
//! [`NUM_LANES`], so that as many products of a query are summed together.

use multiversion::multiversion;

use super::Workspace;
use crate::decode::logit::exp;
use crate::view::rows::{Rows, RowsMut};

/// Keys of a panel.
pub(super) const NUM_LANES: usize = 16;

/// Arguments that fit together.
pub(super) fn attention(
    queries: Rows<'_>,
    keys: Rows<'_>,
    values: Rows<'_>,
    num_heads: usize,
    workspace: &mut Workspace,
    mut out: RowsMut<'_>,
) {
    let len = queries.num_columns() / num_heads;
    let scale = 1.0 / (len as f32).sqrt();
    let Workspace { keys: panels, weights } = workspace;
    for head in 0..num_heads {
        let columns = head * len..(head + 1) * len;
        write_panels(keys.columns(columns.clone()), panels);
        let values = values.columns(columns.clone());
        for query in 0..queries.len() {
            let row = &queries.row(query)[columns.clone()];
            weights.clear();
            for panel in panels.chunks_exact(len) {
                weights.extend(scores(row, panel, scale));
            }
            weights.truncate(keys.len());
            let max = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            weights.iter_mut().for_each(|weight| *weight = exp(*weight - max));
            weighted_mean(weights, values, &mut out.row(query)[columns.clone()]);
        }
    }
}

/// The keys of a head by panel and dimension; zero in the lanes past the last key.
fn write_panels(keys: Rows<'_>, panels: &mut Vec<[f32; NUM_LANES]>) {
    let len = keys.num_columns();
    panels.clear();
    panels.resize(keys.len().div_ceil(NUM_LANES) * len, [0.0; NUM_LANES]);
    for key in 0..keys.len() {
        let panel = &mut panels[key / NUM_LANES * len..][..len];
        for (lanes, &value) in panel.iter_mut().zip(keys.row(key)) {
            lanes[key % NUM_LANES] = value;
        }
    }
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn scores(query: &[f32], panel: &[[f32; NUM_LANES]], scale: f32) -> [f32; NUM_LANES] {
    let mut sums = [0.0_f32; NUM_LANES];
    for (&value, lanes) in query.iter().zip(panel) {
        for (sum, &key) in sums.iter_mut().zip(lanes) {
            *sum = value.mul_add(key, *sum);
        }
    }
    sums.map(|sum| sum * scale)
}

#[multiversion(targets("x86_64+avx2+fma"))]
fn weighted_mean(weights: &[f32], values: Rows<'_>, out: &mut [f32]) {
    out.fill(0.0);
    let mut total = 0.0;
    for (key, &weight) in weights.iter().enumerate() {
        total += weight;
        for (sum, &value) in out.iter_mut().zip(values.row(key)) {
            *sum = weight.mul_add(value, *sum);
        }
    }
    out.iter_mut().for_each(|sum| *sum /= total);
}
