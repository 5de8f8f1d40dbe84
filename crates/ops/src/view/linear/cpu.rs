//! The reference on the CPU: a few rows and [`NUM_LANES`] outputs at a time, whose
//! sums stay in registers over all inputs.

use multiversion::multiversion;

use super::{Finish, LinearLayer};
use crate::view::rows::{Part, Rows, RowsMut};

/// Outputs that are summed together.
pub(super) const NUM_LANES: usize = 16;
/// Rows that are summed together: with two vectors of weights and one of an input
/// their sums fill the 16 registers of AVX2.
const ROWS_AT_ONCE: usize = 6;

/// Arguments that fit together.
pub(super) fn linear(
    parts: &[Part<'_>],
    layer: &LinearLayer,
    residuals: &[Rows<'_>],
    rows: &mut Vec<f32>,
    mut out: RowsMut<'_>,
) {
    let num_rows = out.len();
    let mut sums = [[0.0; NUM_LANES]; ROWS_AT_ONCE];
    for first_row in (0..num_rows).step_by(ROWS_AT_ONCE) {
        let len = ROWS_AT_ONCE.min(num_rows - first_row);
        rows.clear();
        for row in first_row..first_row + len {
            parts.iter().for_each(|part| part.extend(row, rows));
        }
        // Rows past the last multiply zeros.
        rows.resize(ROWS_AT_ONCE * layer.num_inputs, 0.0);
        for first_output in (0..layer.num_outputs).step_by(NUM_LANES) {
            let weights = &layer.weights[first_output..];
            let row_len = layer.num_outputs.next_multiple_of(NUM_LANES);
            add_products(rows, layer.num_inputs, weights, row_len, &mut sums);
            let outputs = first_output..(first_output + NUM_LANES).min(layer.num_outputs);
            for (row, sums) in sums[..len].iter().enumerate() {
                out.row(first_row + row)[outputs.clone()].copy_from_slice(&sums[..outputs.len()]);
            }
        }
        for row in first_row..first_row + len {
            finish(layer, residuals, row, out.row(row));
        }
    }
}

fn finish(layer: &LinearLayer, residuals: &[Rows<'_>], row: usize, values: &mut [f32]) {
    values.iter_mut().zip(&layer.bias).for_each(|(value, bias)| *value += bias);
    for residual in residuals {
        values.iter_mut().zip(residual.row(row)).for_each(|(value, residual)| *value += residual);
    }
    let relu = |values: &mut [f32]| {
        for value in values.iter_mut().filter(|value| **value < 0.0) {
            *value = 0.0;
        }
    };
    match &layer.finish {
        Finish::None => {}
        Finish::Relu => relu(values),
        Finish::Norm(norm) => norm.apply(values),
        Finish::NormRelu(norm) => {
            norm.apply(values);
            relu(values);
        }
        Finish::ReluNorm(norm) => {
            relu(values);
            norm.apply(values);
        }
    }
}

/// Writes the sums of all rows for the outputs at which `weights` begins.
#[multiversion(targets("x86_64+avx2+fma"))]
fn add_products(
    rows: &[f32],
    num_inputs: usize,
    weights: &[f32],
    row_len: usize,
    sums: &mut [[f32; NUM_LANES]; ROWS_AT_ONCE],
) {
    let rows: [&[f32]; ROWS_AT_ONCE] =
        std::array::from_fn(|row| &rows[row * num_inputs..][..num_inputs]);
    let mut totals = [[0.0; NUM_LANES]; ROWS_AT_ONCE];
    for input in 0..num_inputs {
        let weights = &weights[input * row_len..][..NUM_LANES];
        for (totals, row) in totals.iter_mut().zip(rows) {
            let value = row[input];
            for (total, &weight) in totals.iter_mut().zip(weights) {
                *total = value.mul_add(weight, *total);
            }
        }
    }
    *sums = totals;
}
