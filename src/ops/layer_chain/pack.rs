//! The order in which the kernels read weights, normalizations and the encoder's first layer.

use half::f16;

use super::args::{CHANNELS, TILE_OUTPUTS};
use crate::ops::layer_norm::LayerNorm;
use crate::ops::linear::LinearLayer;

/// Weights by thread block of a cluster, then by 64 outputs: of 8 inputs after each other 16 bytes
/// per output.
pub(super) fn weights(
    [num_inputs, num_outputs]: [usize; 2],
    weight: impl Fn(usize, usize) -> f32,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(num_inputs * num_outputs * size_of::<f16>());
    // Thread blocks have neighbouring tiles.
    for first in (0..num_outputs).step_by(TILE_OUTPUTS as usize) {
        for group in (0..num_inputs).step_by(8) {
            for (output, input) in pairs(TILE_OUTPUTS as usize, 8) {
                let value = f16::from_f32(weight(first + output, group + input));
                bytes.extend(value.to_le_bytes());
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
    fn weights_are_in_the_order_of_matrix_instructions() {
        // Exact in f16: outputs and inputs one after the other.
        let outputs = weights([256, 512], |output, _| output as f32);
        let inputs = weights([256, 512], |_, input| input as f32);
        let value =
            |bytes: &[u8], at: usize| f16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]);
        assert_eq!(outputs.len(), 2 * 256 * 512);
        // The second tile, its third group of 8 inputs, the sixth output.
        let at = 64 * 256 + 2 * 64 * 8 + 5 * 8;
        for input in 0..8 {
            assert_eq!(value(&outputs, at + input).to_f32(), 64.0 + 5.0);
            assert_eq!(value(&inputs, at + input).to_f32(), (16 + input) as f32);
        }
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
