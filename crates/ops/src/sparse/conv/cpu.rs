//! The CPU side of sparse convolution.
//!
//! Blocks of output rows are independent of each other: threads take them one
//! by one, and no number of threads changes a sum. Of a block, [`NUM_LANES`]
//! output channels are summed at a time, tap by tap, for [`ROWS_AT_ONCE`] of the
//! rows that have the tap: their sums stay in registers over all input
//! channels.

use std::sync::{Mutex, PoisonError};

use multiversion::multiversion;

use super::{Epilogue, PackedWeights};
use crate::sparse::rulebook::Table;

/// Output channels that are summed together.
pub(super) const NUM_LANES: usize = 16;
/// Output rows of a block.
const BLOCK_ROWS: usize = 256;
/// Rows that are summed together: six of two vectors of eight lanes, two
/// vectors of weights and one of a feature fill the 16 registers of AVX2.
const ROWS_AT_ONCE: usize = 6;

/// The sums of a row.
type Sums = [f32; NUM_LANES];

/// Arguments that fit together.
pub(super) struct Convolution<'a> {
    pub(super) input: &'a [f32],
    pub(super) table: &'a Table,
    pub(super) weights: &'a PackedWeights,
    pub(super) epilogue: Epilogue<'a>,
}

/// Memory of one thread.
#[derive(Clone, Debug)]
pub(super) struct BlockWorkspace {
    pairs: Vec<Pair>,
    pairs_per_tap: Vec<usize>,
    sums: Vec<Sums>,
}

/// A row of a block and the input row that a tap joins to it.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    row: u32,
    input: u32,
}

impl BlockWorkspace {
    pub(super) fn new() -> Self {
        Self {
            pairs: Vec::new(),
            pairs_per_tap: Vec::new(),
            sums: vec![[0.0; NUM_LANES]; BLOCK_ROWS],
        }
    }
}

/// Writes all of `out`, with a thread per workspace.
pub(super) fn sparse_conv(
    convolution: &Convolution<'_>,
    workspaces: &mut [BlockWorkspace],
    out: &mut [f32],
) {
    let block_len = BLOCK_ROWS * convolution.weights.num_outputs;
    let num_blocks = out.len().div_ceil(block_len);
    let blocks = Mutex::new(out.chunks_mut(block_len).enumerate());
    let next = || blocks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = |workspace: &mut BlockWorkspace| {
        while let Some((block, out)) = next() {
            convolution.block(block * BLOCK_ROWS, workspace, out);
        }
    };
    let num_threads = workspaces.len().min(num_blocks);
    let Some((own, others)) = workspaces[..num_threads].split_first_mut() else { return };
    if others.is_empty() {
        // A scope allocates, even without threads.
        return work(own);
    }
    std::thread::scope(|scope| {
        for workspace in others {
            drop(scope.spawn(|| work(workspace)));
        }
        work(own);
    });
}

impl Convolution<'_> {
    /// The rows from `first_row` on that `out` has.
    fn block(&self, first_row: usize, workspace: &mut BlockWorkspace, out: &mut [f32]) {
        let num_outputs = self.weights.num_outputs;
        let num_rows = out.len() / num_outputs;
        let BlockWorkspace { pairs, pairs_per_tap, sums } = workspace;
        list_pairs(self.table, first_row, num_rows, pairs, pairs_per_tap);
        let sums = &mut sums[..num_rows];
        for panel in 0..num_outputs.div_ceil(NUM_LANES) {
            sums.fill([0.0; NUM_LANES]);
            let weights = self.weights.panel(panel);
            add_products(self.input, weights, pairs, pairs_per_tap, sums);
            self.finish(first_row, panel, sums, out);
        }
    }

    /// Bias, residual and ReLU.
    fn finish(&self, first_row: usize, panel: usize, sums: &[Sums], out: &mut [f32]) {
        let num_outputs = self.weights.num_outputs;
        let channels = panel * NUM_LANES..((panel + 1) * NUM_LANES).min(num_outputs);
        let bias = &self.weights.bias[channels.clone()];
        let rows = out.chunks_exact_mut(num_outputs).zip(sums).enumerate();
        for (row, (out, sums)) in rows {
            let out = &mut out[channels.clone()];
            for ((out, sum), bias) in out.iter_mut().zip(sums).zip(bias) {
                *out = sum + bias;
            }
            if let Some(residual) = self.epilogue.residual {
                let residual = &residual[(first_row + row) * num_outputs..][channels.clone()];
                out.iter_mut().zip(residual).for_each(|(out, residual)| *out += residual);
            }
            if self.epilogue.relu {
                out.iter_mut().for_each(|out| *out = super::relu(*out));
            }
        }
    }
}

/// Lists the pairs of a block, tap by tap, [`BLOCK_ROWS`] places for each.
fn list_pairs(
    table: &Table,
    first_row: usize,
    num_rows: usize,
    pairs: &mut Vec<Pair>,
    pairs_per_tap: &mut Vec<usize>,
) {
    let (num_taps, taps_per_word) = (table.num_taps(), table.taps_per_word());
    pairs.resize(num_taps * BLOCK_ROWS, Pair::default());
    pairs_per_tap.clear();
    pairs_per_tap.resize(num_taps, 0);
    let groups = pairs
        .chunks_exact_mut(taps_per_word * BLOCK_ROWS)
        .zip(pairs_per_tap.chunks_exact_mut(taps_per_word))
        .zip(table.words().chunks_exact(table.len()));
    for ((pairs, lens), words) in groups {
        for (row, &word) in (0..).zip(&words[first_row..][..num_rows]) {
            let mut input = word >> Table::PRESENT_BITS;
            // Written whether it counts or not: a branch would cost more.
            for (tap, len) in lens.iter_mut().enumerate() {
                let is_present = word >> tap & 1;
                pairs[tap * BLOCK_ROWS + *len] = Pair { row, input };
                *len += is_present as usize;
                input += is_present;
            }
        }
    }
}

/// Adds the products of all taps to the sums of a block.
#[multiversion(targets("x86_64+avx2+fma"))]
fn add_products(
    input: &[f32],
    weights: &[Sums],
    pairs: &[Pair],
    pairs_per_tap: &[usize],
    sums: &mut [Sums],
) {
    let num_inputs = weights.len() / pairs_per_tap.len();
    let taps = weights.chunks_exact(num_inputs).zip(pairs.chunks_exact(BLOCK_ROWS));
    for ((weights, pairs), &len) in taps.zip(pairs_per_tap) {
        let (groups, rest) = pairs[..len].as_chunks::<ROWS_AT_ONCE>();
        for group in groups {
            add_rows(input, weights, group, sums);
        }
        match *rest {
            [] => {}
            [a] => add_rows(input, weights, &[a], sums),
            [a, b] => add_rows(input, weights, &[a, b], sums),
            [a, b, c] => add_rows(input, weights, &[a, b, c], sums),
            [a, b, c, d] => add_rows(input, weights, &[a, b, c, d], sums),
            [a, b, c, d, e, ..] => add_rows(input, weights, &[a, b, c, d, e], sums),
        }
    }
}

/// Adds the products of one tap to the sums of a few rows.
#[inline(always)]
fn add_rows<const N: usize>(input: &[f32], weights: &[Sums], pairs: &[Pair; N], sums: &mut [Sums]) {
    let num_inputs = weights.len();
    let features = pairs.map(|pair| &input[pair.input as usize * num_inputs..][..num_inputs]);
    let mut row_sums = pairs.map(|pair| sums[pair.row as usize]);
    for (channel, weights) in weights.iter().enumerate() {
        for (sums, features) in row_sums.iter_mut().zip(features) {
            let feature = features[channel];
            for (sum, &weight) in sums.iter_mut().zip(weights) {
                *sum = feature.mul_add(weight, *sum);
            }
        }
    }
    for (pair, row_sums) in pairs.iter().zip(row_sums) {
        sums[pair.row as usize] = row_sums;
    }
}
