//! The order in which kernels read weights.

use half::{bf16, f16};

use super::shape::{F32_INPUT_MULTIPLE, Method, Shape};
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
/// times, as the bytes that a kernel reads. With matrix instructions a tap has `num_chunks`
/// steps along the input channels.
pub(super) fn pack(
    parameters: &ConvParameters<'_>,
    precision: Precision,
    shape: Shape,
    parts: usize,
    num_chunks: u32,
) -> Vec<u8> {
    let source = Source { parameters, parts };
    let mut packed = Packed { bytes: Vec::new(), precision };
    match shape.method {
        Method::Exact => pack_exact(&source, &mut packed),
        Method::Resident | Method::Staged => pack_lanes(&source, shape, num_chunks, &mut packed),
        Method::Warpgroup => pack_rows(&source, shape, num_chunks, &mut packed),
    }
    packed.bytes
}

/// Weights by output channel, tap and input channel; 0 beyond the channels.
struct Source<'a> {
    parameters: &'a ConvParameters<'a>,
    parts: usize,
}

impl Source<'_> {
    fn weight(&self, output: u32, tap: usize, input: u32) -> f32 {
        let (output, input) = (output as usize, input as usize);
        let num_inputs = self.parameters.num_inputs();
        if output >= self.parameters.num_outputs() || input >= num_inputs * self.parts {
            return 0.0;
        }
        let row = output * self.parameters.num_taps() + tap;
        self.parameters.weights()[row * num_inputs + input % num_inputs]
    }

    fn num_taps(&self) -> usize {
        self.parameters.num_taps()
    }

    fn padded_outputs(&self) -> u32 {
        row_len(self.parameters.num_outputs()) as u32
    }
}

/// By tap, input channel, output channel.
fn pack_exact(source: &Source<'_>, packed: &mut Packed) {
    let num_inputs = source.parameters.num_inputs() as u32;
    for tap in 0..source.num_taps() {
        for input in 0..num_inputs.next_multiple_of(F32_INPUT_MULTIPLE) {
            for output in 0..source.padded_outputs() {
                packed.push(source.weight(output, tap, input));
            }
        }
    }
}

/// A word has two values of 16 bits or one of 32. Block by block, tap, column of 64 channels,
/// chunk of input channels, 16 output channels and step, each lane has 4 words: of the output
/// channels `g` and `g + 1` (twice) of its row `g = lane / 4`, first of the step's first word
/// of input channels, then of its second. A row of the matrix is the output channel
/// `g * channels / 8 + 2 * part`, so that a lane's results are neighbours.
fn pack_lanes(source: &Source<'_>, shape: Shape, num_chunks: u32, packed: &mut Packed) {
    let columns = shape.channels.div_ceil(64);
    let channels = shape.channels / columns;
    let words_per_lane = shape.chunk_bytes / 16;
    let values_per_word = 4 / shape.element_bytes;
    for block in 0..source.padded_outputs() / shape.channels {
        for tap in 0..source.num_taps() {
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
                                packed.push(source.weight(output, tap, input));
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Block by block, tap, step, 16 input channels and 8 output channels, two parts of 8 rows, a
/// row of 8 input channels for each output channel: what a warpgroup's matrix instruction reads
/// from shared memory. Lane `t` of four has the input channels `8 t ..` of each 32 and the
/// output channels `t * channels / 4 ..`, so that its loads and results are neighbours.
fn pack_rows(source: &Source<'_>, shape: Shape, num_steps: u32, packed: &mut Packed) {
    let inputs_per_step = shape.chunk_bytes / shape.element_bytes;
    for block in 0..source.padded_outputs() / shape.channels {
        for tap in 0..source.num_taps() {
            for sixteen in 0..num_steps * inputs_per_step / 16 {
                for eight in 0..shape.channels / 8 {
                    for place in 0..128 {
                        let (part, row, k) = (place / 64, place / 8 % 8, place % 8);
                        let output = block * shape.channels
                            + row / 2 * (shape.channels / 4)
                            + eight * 2
                            + row % 2;
                        // Of each 32 input channels the words 2 s and 2 s + 1 of a lane.
                        let word = sixteen % 2 * 2 + part;
                        let input = sixteen / 2 * 32 + k / 2 * 8 + word * 2 + k % 2;
                        packed.push(source.weight(output, tap, input));
                    }
                }
            }
        }
    }
}

struct Packed {
    bytes: Vec<u8>,
    precision: Precision,
}

impl Packed {
    fn push(&mut self, weight: f32) {
        let precision = self.precision;
        match precision {
            Precision::F32 | Precision::Tf32 => {
                self.bytes.extend(precision.round(weight).to_le_bytes());
            }
            Precision::F16 => self.bytes.extend(f16::from_f32(weight).to_le_bytes()),
            Precision::Bf16 => self.bytes.extend(bf16::from_f32(weight).to_le_bytes()),
        }
    }
}
