//! The reference: a row and all its columns at a time.

use super::LinearMax;
use crate::dense::rows::larger;
use crate::dense::{HostArena, Region};
use det_post_types::Result;

/// Computes the layer on the CPU.
///
/// # Errors
/// `Argument` when windows do not fit the layer or their buffers, or are of i32.
pub fn linear_max(
    arena: &mut HostArena,
    layer: &LinearMax,
    input: &Region,
    output: &Region,
) -> Result<()> {
    let [groups, rows] = layer.check(input, output)?;
    let values = arena.read(input)?;
    let mut out = vec![f32::NEG_INFINITY; groups * layer.num_outputs];
    let mut sums = vec![0.0; layer.num_outputs];
    let group_len = rows * layer.num_inputs;
    for (group, largest) in values.chunks(group_len).zip(out.chunks_mut(layer.num_outputs)) {
        for row in group.chunks(layer.num_inputs) {
            sums.fill(0.0);
            for (&x, weights) in row.iter().zip(layer.weights.chunks(layer.num_outputs)) {
                for (sum, &weight) in sums.iter_mut().zip(weights) {
                    *sum = x.mul_add(weight, *sum);
                }
            }
            for ((largest, &sum), &bias) in largest.iter_mut().zip(&sums).zip(&layer.bias) {
                *largest = larger(*largest, layer.activation.apply(sum + bias));
            }
        }
    }
    arena.write(output, &out)
}
