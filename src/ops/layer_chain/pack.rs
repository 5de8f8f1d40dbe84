//! The order in which the kernels read weights, normalizations and the encoder's first layer.

use half::f16;

use super::args::{CHANNELS, CLUSTER_BLOCKS, WARP_COLUMNS, WARPS};
use crate::ops::layer_norm::LayerNorm;
use crate::ops::linear::LinearLayer;

const LANES: usize = 32;

/// Weights by thread block of a cluster, then by warp: 16 inputs of its 32 columns after each
/// other, 16 bytes a lane twice. Warps that have the same columns share the inputs. Columns are
/// chosen so that a lane's four results of a row are neighbours.
pub(super) fn weights(
    [num_inputs, num_outputs]: [usize; 2],
    weight: impl Fn(usize, usize) -> f32,
) -> Vec<u8> {
    let block_columns = num_outputs / CLUSTER_BLOCKS as usize;
    let num_pairs = block_columns / WARP_COLUMNS as usize;
    let part_inputs = num_inputs * num_pairs / WARPS as usize;
    let mut bytes = Vec::with_capacity(num_inputs * num_outputs * size_of::<f16>());
    for (block, warp) in pairs(CLUSTER_BLOCKS as usize, WARPS as usize) {
        let column = block * block_columns + warp % num_pairs * WARP_COLUMNS as usize;
        let input = warp / num_pairs * part_inputs;
        for first in (input..input + part_inputs).step_by(16) {
            for (group, lane) in pairs(2, LANES) {
                for (word, half) in pairs(4, 2) {
                    let column = column + lane / 4 * 4 + 2 * group + word % 2;
                    let input = first + lane % 4 * 2 + word / 2 * 8 + half;
                    bytes.extend(f16::from_f32(weight(column, input)).to_le_bytes());
                }
            }
        }
    }
    bytes
}

/// Factors and summands of 256 channels after each other; a lane has 8 channels of each, in two
/// groups of four.
pub(super) fn norm(gamma: &[f32], beta: &[f32]) -> Vec<f32> {
    let mut values = Vec::with_capacity(2 * gamma.len());
    let channels = CHANNELS as usize;
    for (gamma, beta) in gamma.chunks(channels).zip(beta.chunks(channels)) {
        for (of, half) in [(gamma, 0), (gamma, 4), (beta, 0), (beta, 4)] {
            let lanes = of.chunks(8).flat_map(|lane| lane.iter().skip(half).take(4));
            values.extend(lanes);
        }
    }
    values
}

/// A normalization, as [`norm`].
pub(super) fn layer_norm(of: &LayerNorm) -> Vec<f32> {
    norm(of.gamma(), of.beta())
}

/// Three weights and the bias of each channel of layers side by side; a lane has 8 channels.
pub(super) fn encoder(layers: &[&LinearLayer]) -> Vec<f32> {
    let channels = layers.iter().flat_map(|layer| {
        (0..layer.num_outputs()).map(move |output| {
            let weight = |input| {
                if input < layer.num_inputs() { layer.weight(output, input) } else { 0.0 }
            };
            [weight(0), weight(1), weight(2), layer.bias()[output]]
        })
    });
    let channels: Vec<[f32; 4]> = channels.collect();
    let places = pairs(8, channels.len() / 8);
    places.flat_map(|(k, lane)| channels[8 * lane + k]).collect()
}

/// All pairs of numbers below two.
fn pairs(first: usize, second: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..first).flat_map(move |a| (0..second).map(move |b| (a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weight_is_packed_once() {
        // Distinct, and exact in f16: a column and an input of 256 by 512 in 17 bits do not fit,
        // so that columns and inputs are packed one after the other.
        for by_column in [true, false] {
            let weight = |column, input| if by_column { column as f32 } else { input as f32 };
            let packed = weights([512, 256], weight);
            let mut counts = [0; 512];
            for bytes in packed.as_chunks().0 {
                counts[f16::from_le_bytes(*bytes).to_f32() as usize] += 1;
            }
            let (num, each) = if by_column { (256, 512) } else { (512, 256) };
            assert!(counts[..num].iter().all(|&count| count == each));
            assert!(counts[num..].iter().all(|&count| count == 0));
        }
    }

    #[test]
    fn a_lane_has_neighbouring_columns() {
        // The third warp of the second block: the first columns again, the next 128 inputs
        // of 1024.
        let columns = weights([1024, 256], |column, _| column as f32);
        let inputs = weights([1024, 256], |_, input| input as f32);
        let value =
            |bytes: &[u8], at: usize| f16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]);
        let warp = (16 + 2) * 128 * 32;
        // Lane 5: its second word is that of the next column.
        let lane = warp + 5 * 8;
        assert_eq!(value(&columns, lane).to_f32(), 64.0 + 4.0);
        assert_eq!(value(&columns, lane + 2).to_f32(), 64.0 + 5.0);
        assert_eq!(value(&columns, lane + 256).to_f32(), 64.0 + 6.0);
        assert_eq!(value(&inputs, lane).to_f32(), 128.0 + 2.0);
        assert_eq!(value(&inputs, lane + 1).to_f32(), 128.0 + 3.0);
        assert_eq!(value(&inputs, lane + 4).to_f32(), 128.0 + 10.0);
    }

    #[test]
    fn normalizations_are_in_the_order_of_lanes() {
        let gamma: Vec<f32> = (0..512).map(|channel| channel as f32).collect();
        let beta: Vec<f32> = gamma.iter().map(|value| -value).collect();
        let packed = norm(&gamma, &beta);
        assert_eq!(packed.len(), 1024);
        // Lane 1 of the first channels, its second group, and its summands.
        assert_eq!(packed[4..8], [8.0, 9.0, 10.0, 11.0]);
        assert_eq!(packed[132..136], [12.0, 13.0, 14.0, 15.0]);
        assert_eq!(packed[260..264], [-8.0, -9.0, -10.0, -11.0]);
        assert_eq!(packed[512..516], [256.0, 257.0, 258.0, 259.0]);
    }
}
