use half::f16;

use super::args::{CONSTANT_BYTES, MAX_CONSTANTS, STEP_BYTES, WIDTH};
use super::pack::{Packed, pack};
use super::*;
use crate::view::layer_norm::LayerNorm;
use crate::view::linear::Finish;
use crate::view::linear::fold::FoldedWeights;

/// Values that f16 has, all different in a layer of up to 2048 weights.
fn layer(
    [num_outputs, num_inputs]: [usize; 2],
    finish: impl Fn(LayerNorm) -> Finish,
) -> LinearLayer {
    let weights = (0..num_outputs * num_inputs).map(|i| (i % 2048) as f32 / 64.0 - 16.0);
    let bias: Vec<f32> = (0..num_outputs).map(|i| i as f32 / 8.0).collect();
    let gamma = (0..num_outputs).map(|i| if i % 2 == 0 { 1.0 } else { 0.5 }).collect();
    let norm = LayerNorm::new(gamma, bias.iter().map(|value| value - 1.0).collect()).unwrap();
    let weights: Vec<f32> = weights.collect();
    let layer = LinearLayer::new([num_outputs, num_inputs], &weights, Some(&bias)).unwrap();
    layer.with(finish(norm)).unwrap()
}

fn relu(_: LayerNorm) -> Finish {
    Finish::Relu
}

fn none(_: LayerNorm) -> Finish {
    Finish::None
}

/// The stream of a warp, read as the kernel does.
struct Read<'a> {
    constants: &'a [u8],
    weights: &'a [u8],
    plan: u64,
}

impl<'a> Read<'a> {
    fn of(packed: &'a Packed, warp: usize) -> Self {
        let from = &packed.streams[packed.warps[0][warp].begin as usize..];
        let (constants, weights) = from.split_at(CONSTANT_BYTES);
        Self { constants, weights, plan: packed.warps[0][warp].plan }
    }

    /// Constants of a layer of the warp: `c` and `s` of one of its outputs.
    fn constants(&self, index: usize, output: usize) -> [f32; 2] {
        let [group, of_group] = [output / 16, output % 16];
        let quad = (index * 2 + group) * 8 + of_group % 8;
        [0, 2].map(|at| self.f32(4 * quad + at + of_group / 8))
    }

    fn first(&self, channel: usize) -> [f32; 4] {
        [0, 1, 2, 3].map(|at| self.f32(MAX_CONSTANTS * 64 + 4 * channel + at))
    }

    fn f32(&self, at: usize) -> f32 {
        f32::from_le_bytes(self.constants[4 * at..][..4].try_into().unwrap())
    }

    /// Steps of the next layer, by output and input of the warp.
    fn next(&mut self) -> Vec<[[f32; 16]; WIDTH]> {
        let num_steps = (self.plan % 16 * 2) as usize;
        self.plan >>= 4;
        let (steps, weights) = self.weights.split_at(num_steps * STEP_BYTES);
        self.weights = weights;
        let step = |bytes: &[u8]| {
            let mut values = [[0.0; 16]; WIDTH];
            for (at, value) in bytes.as_chunks::<2>().0.iter().enumerate() {
                let [group, lane, word, half] = [at / 256, at / 8 % 32, at / 2 % 4, at % 2];
                let output = 16 * group + lane / 4 + 8 * (word % 2);
                let input = 2 * (lane % 4) + 8 * (word / 2) + half;
                values[output][input] = f16::from_le_bytes(*value).to_f32();
            }
            values
        };
        steps.chunks_exact(STEP_BYTES).map(step).collect()
    }

    fn is_at_end(&self) -> bool {
        self.plan == 0
    }
}

fn packed(rows: &[&[LinearLayer]], columns: &[(usize, &[LinearLayer])]) -> Packed {
    let stacks = layouts(rows, columns).unwrap();
    pack(sets(&stacks, rows.len())).unwrap()
}

#[test]
fn streams_hold_every_weight_where_the_kernel_reads_it() {
    let rows = [layer([64, 96], relu), layer([40, 64], Finish::ReluNorm), layer([11, 40], none)];
    let columns = [
        layer([40, 3], Finish::ReluNorm),
        layer([40, 40], Finish::ReluNorm),
        layer([24, 40], Finish::ReluNorm),
    ];
    let packed = packed(&[&rows], &[(2, &columns)]);
    let ends = packed.warps[0][1..].iter().map(|warp| warp.begin as usize);
    for (warp, end) in ends.chain([packed.streams.len()]).enumerate() {
        let mut read = Read::of(&packed, warp);
        let mut num_constants = 0;
        for (index, layer) in rows.iter().enumerate() {
            let norm = index.checked_sub(1).and_then(|before| rows[before].finish().norm());
            let folded = FoldedWeights::new(layer, norm).unwrap();
            let is_last = index == 2;
            let has_weights = warp < if is_last { 2 } else { layer.num_outputs().div_ceil(WIDTH) };
            let first = if is_last { 0 } else { warp * WIDTH };
            if has_weights || is_last {
                for output in 0..WIDTH {
                    let expected = folded.constants(first + output);
                    assert_eq!(read.constants(num_constants, output), expected);
                }
                num_constants += 1;
            }
            if !has_weights {
                continue;
            }
            let steps = read.next();
            if is_last {
                // 16 outputs for 32 inputs, in both halves of the first step.
                for (output, input) in (0..16).flat_map(|o| (0..32).map(move |i| (o, i))) {
                    let value = steps[0][16 * (input / 16) + output][input % 16];
                    assert_eq!(value, folded.weight(output, warp * WIDTH + input).to_f32());
                }
                assert_eq!(steps[1..], [[[0.0; 16]; WIDTH]]);
                continue;
            }
            assert_eq!(steps.len(), layer.num_inputs().next_multiple_of(WIDTH) / 16);
            for (step, values) in steps.iter().enumerate() {
                for (output, input) in (0..WIDTH).flat_map(|o| (0..16).map(move |i| (o, i))) {
                    let expected = folded.weight(first + output, 16 * step + input).to_f32();
                    assert_eq!(values[output][input], expected, "warp {warp}, layer {index}");
                }
            }
        }
        // The stack over columns has the first two warps, its last layer the first.
        if warp < 2 {
            for layer in 1..=if warp == 0 { 2 } else { 1 } {
                assert_eq!(read.next().len(), 4);
                let norm = columns[layer - 1].finish().norm();
                let folded = FoldedWeights::new(&columns[layer], norm).unwrap();
                let expected = folded.constants(warp * WIDTH + 5);
                assert_eq!(read.constants(num_constants, 5), expected);
                num_constants += 1;
            }
            let first = &columns[0];
            for channel in 0..WIDTH {
                let output = warp * WIDTH + channel;
                let expected = if output < 40 {
                    let [a, b, c] = [0, 1, 2].map(|input| first.weight(output, input));
                    [a, b, c, first.bias()[output]]
                } else {
                    [0.0; 4]
                };
                assert_eq!(read.first(channel), expected);
            }
        }
        if warp == 0 {
            // Summands and factors of the output's normalization; none of padding.
            let norm = columns[2].finish().norm().unwrap();
            let expected = [norm.beta()[17], norm.gamma()[17]];
            assert_eq!(read.constants(num_constants, 17), expected);
            assert_eq!(read.constants(num_constants, 24), [0.0; 2]);
        }
        assert!(read.is_at_end(), "warp {warp}");
        assert_eq!(end, packed.streams.len() - read.weights.len());
    }
}

#[test]
fn stacks_side_by_side_have_streams_of_their_own() {
    let [first, second] =
        [[64, 64], [32, 64]].map(|sizes| [layer(sizes, relu), layer([8, sizes[0]], none)]);
    let side_by_side = packed(&[&first, &second], &[]);
    let [of_first, of_second] = [&first, &second].map(|layers| packed(&[layers], &[]));
    assert_eq!(side_by_side.streams, [of_first.streams.clone(), of_second.streams].concat());
    for (warp, streams) in side_by_side.warps[1].iter().enumerate() {
        let single = of_second.warps[0][warp];
        let begin = single.begin + of_first.streams.len() as u64;
        assert_eq!(*streams, StreamArgs { begin, ..single });
    }
    assert_eq!(side_by_side.warps[0], of_first.warps[0]);
    assert_eq!(side_by_side.warps[2], [StreamArgs::default(); WARPS]);
}

#[test]
fn stacks_of_other_shapes_have_no_layout() {
    let encoder = |width: usize| {
        [layer([width, 3], Finish::ReluNorm), layer([width, width], Finish::ReluNorm)]
    };
    let deltas = [layer([256, 256], relu), layer([11, 256], none)];
    let [wide, narrow] = [128, 32].map(encoder);
    let of_columns = |columns: &[(usize, &[LinearLayer])]| layouts(&[], columns).is_some();
    assert!(
        layouts(&[&deltas[..]], &[(0, &wide), (3, &narrow), (8, &wide[..])]).is_none(),
        "9 warps"
    );
    assert!(layouts(&[&deltas[..]], &[(0, &wide), (3, &narrow), (8, &narrow)]).is_some());
    assert!(layouts(&[&deltas[..]], &[(9, &narrow)]).is_none(), "columns beyond the values");
    assert!(of_columns(&[(0, &narrow[..]); 4]) && !of_columns(&[(0, &narrow[..]); 5]));
    assert!(!of_columns(&[]) && !of_columns(&[(0, &[])]) && !of_columns(&[(0, &narrow[..1])]));
    assert!(!of_columns(&[(0, &encoder(36)[..])]), "36 outputs");
    assert!(!of_columns(&[(0, &encoder(264)[..])]), "264 channels");
    let of_rows = |layers: &[LinearLayer]| layouts(&[layers], &[]).is_some();
    assert!(of_rows(&deltas) && of_rows(&deltas[1..]));
    assert!(!of_rows(&[layer([16, 256], none)]), "16 values");
    assert!(!of_rows(&[layer([8, 48], none)]), "rows of 48 channels");
    assert!(!of_rows(&[layer([8, 64], Finish::Norm)]), "normalized values");
    assert!(!of_rows(&[layer([64, 64], Finish::NormRelu), layer([8, 64], none)]));
    assert!(!of_rows(&[layer([64, 64], relu), layer([8, 32], none)]), "other inputs");
    let six = vec![layer([32, 32], relu); 5];
    assert!(!of_rows(&[six, vec![layer([8, 32], none)]].concat()));
    assert!(layouts(&[&deltas[..]; 3], &[]).is_some() && layouts(&[&deltas[..]; 4], &[]).is_none());
    assert!(layouts(&[&deltas[..]; 2], &[(0, &narrow)]).is_none(), "columns of two stacks");
}

#[test]
fn stacks_with_too_many_constants_are_not_packed() {
    let square = layer([32, 32], Finish::ReluNorm);
    let rows = [vec![square.clone(); 4], vec![layer([11, 32], none)]].concat();
    let columns = [vec![layer([32, 3], Finish::ReluNorm)], vec![square; 3]].concat();
    let pack_with = |columns: &[LinearLayer]| {
        let stacks = layouts(&[&rows], &[(0, columns)]).unwrap();
        pack(sets(&stacks, 1)).is_some()
    };
    assert!(pack_with(&columns));
    assert!(!pack_with(&[&columns[..], &columns[1..2]].concat()));
}
