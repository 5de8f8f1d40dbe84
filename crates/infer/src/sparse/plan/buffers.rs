//! Buffers: a tensor takes the first one that no tensor still to be read holds.

use super::Step;
use crate::sparse::operation::SparseNetwork;

/// The buffer of each tensor, and how many there are. No step writes the buffer
/// of a tensor that it reads.
pub(super) fn assign(network: &SparseNetwork, steps: &[Step]) -> (Vec<Option<usize>>, usize) {
    let mut last_reader = vec![0; network.tensors.len()];
    for (at, step) in steps.iter().enumerate() {
        step.kind.inputs().for_each(|tensor| last_reader[tensor] = at);
    }
    network.ends().for_each(|tensor| last_reader[tensor] = steps.len());
    let mut buffer_of = vec![None; network.tensors.len()];
    // The tensor that each buffer holds.
    let mut held: Vec<usize> = vec![0];
    buffer_of[0] = Some(0);
    for (at, step) in steps.iter().enumerate() {
        let free = held.iter().position(|&tensor| last_reader[tensor] < at);
        let buffer = free.unwrap_or(held.len());
        match held.get_mut(buffer) {
            Some(tensor) => *tensor = step.output,
            None => held.push(step.output),
        }
        buffer_of[step.output] = Some(buffer);
    }
    (buffer_of, held.len())
}
