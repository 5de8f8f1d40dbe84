//! The order in which kernels read weights.

use half::{bf16, f16};

use super::kernels::{Method, Shape};
use super::{ConvParameters, Precision};

/// Lanes of a warp.
const LANES: u32 = 32;
/// Bytes that a lane reads at once.
const QUAD_WORDS: u32 = 4;

/// Values of a row of features on the device: 16, or a multiple of 32.
pub(super) fn row_len(num_channels: usize) -> usize {
    if num_channels <= 16 { 16 } else { num_channels.next_multiple_of(32) }
}

/// The weights of all blocks of `shape` for features whose channels are there `parts`
/// times, as the bytes that a kernel reads.
///
/// With matrix instructions a word has two values of 16 bits or one of 32. Block by block,
/// tap, column of 64 channels, chunk of input channels, 16 output channels and step, each
/// lane has 4 words: of the output channels `g` and `g + 1` (twice) of its row `g = lane / 4`,
/// first of the step's first word of input channels, then of its second. A row of the matrix
/// is the output channel `g * channels / 8 + 2 * part`, so that a lane's results are
/// neighbours.
///
/// In f32 the order is tap, input channel, output channel.
pub(super) fn pack(
    parameters: &ConvParameters<'_>,
    precision: Precision,
    shape: Shape,
    parts: usize,
    num_chunks: u32,
) -> Vec<u8> {
    let weight = |output: u32, tap: usize, input: u32| {
        let (output, input) = (output as usize, input as usize);
        let (num_inputs, num_outputs) = (parameters.num_inputs(), parameters.num_outputs());
        if output >= num_outputs || input >= num_inputs * parts {
            return 0.0;
        }
        let row = output * parameters.num_taps() + tap;
        parameters.weights()[row * num_inputs + input % num_inputs]
    };
    let num_outputs = row_len(parameters.num_outputs()) as u32;
    let num_inputs = (parameters.num_inputs() as u32).next_multiple_of(4);
    let mut bytes = Vec::new();
    if shape.method == Method::Exact {
        for tap in 0..parameters.num_taps() {
            for input in 0..num_inputs {
                let outputs = 0..num_outputs;
                bytes.extend(outputs.flat_map(|output| weight(output, tap, input).to_le_bytes()));
            }
        }
        return bytes;
    }
    let columns = shape.channels.div_ceil(64);
    let channels = shape.channels / columns;
    let words_per_lane = shape.chunk_bytes / 16;
    let values_per_word = 4 / shape.element_bytes;
    for block in 0..num_outputs / shape.channels {
        for tap in 0..parameters.num_taps() {
            for column in 0..columns {
                for chunk in 0..num_chunks {
                    for quad in 0..channels / 16 * words_per_lane / 2 {
                        let part = quad / (words_per_lane / 2);
                        let step = quad % (words_per_lane / 2);
                        for place in 0..LANES * QUAD_WORDS {
                            let (lane, x) = (place / QUAD_WORDS, place % QUAD_WORDS);
                            let output = (block * columns + column) * channels
                                + lane / 4 * (channels / 8)
                                + 2 * part
                                + x % 2;
                            let word = (chunk * 4 + lane % 4) * words_per_lane + 2 * step + x / 2;
                            for value in 0..values_per_word {
                                let input = word * values_per_word + value;
                                push(&mut bytes, weight(output, tap, input), precision);
                            }
                        }
                    }
                }
            }
        }
    }
    bytes
}

fn push(bytes: &mut Vec<u8>, weight: f32, precision: Precision) {
    match precision {
        Precision::F32 | Precision::Tf32 => bytes.extend(precision.round(weight).to_le_bytes()),
        Precision::F16 => bytes.extend(f16::from_f32(weight).to_le_bytes()),
        Precision::Bf16 => bytes.extend(bf16::from_f32(weight).to_le_bytes()),
    }
}
