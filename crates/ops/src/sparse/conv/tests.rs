use proptest::prelude::*;

use super::*;
use crate::sparse::rulebook::scenes::{Levels, Scene, cells_of, scenes};
use crate::sparse::rulebook::{Geometry, Mode, SiteGrid, Sites, fill_table, sites_of_coordinates};

/// Values between -1 and 1 that follow from a seed.
fn values(seed: u64, num: usize) -> Vec<f32> {
    let value = |i: u64| {
        let mut x = (seed ^ 0x5dee_ce66).wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x >> 40) as f32 / 8_388_608.0) - 1.0
    };
    (1..=num as u64).map(value).collect()
}

/// A convolution with all of its data.
struct Case {
    levels: Levels,
    channels: [usize; 2],
    input: Vec<f32>,
    weights: Vec<f32>,
    bias: Option<Vec<f32>>,
    residual: Option<Vec<f32>>,
    relu: bool,
}

impl Case {
    fn new(levels: Levels, channels: [usize; 2], seed: u64) -> Self {
        let [num_inputs, num_outputs] = channels;
        Self {
            input: values(seed, levels.input.len() * num_inputs),
            weights: values(seed + 1, num_outputs * levels.table.num_taps() * num_inputs),
            bias: Some(values(seed + 2, num_outputs)),
            residual: Some(values(seed + 3, levels.output.len() * num_outputs)),
            relu: true,
            levels,
            channels,
        }
    }

    /// Only the sum.
    fn plain(levels: Levels, channels: [usize; 2], seed: u64) -> Self {
        Self { bias: None, residual: None, relu: false, ..Self::new(levels, channels, seed) }
    }

    fn run(&self, precision: Precision, num_threads: usize) -> Vec<f32> {
        let [num_inputs, num_outputs] = self.channels;
        let sizes = [num_outputs, self.levels.table.num_taps(), num_inputs];
        let parameters = ConvParameters::new(sizes, &self.weights, self.bias.as_deref()).unwrap();
        let weights = PackedWeights::new(&parameters, precision).unwrap();
        let epilogue =
            Epilogue { residual: self.residual.as_deref(), relu: self.relu, stored: precision };
        let mut out = vec![f32::NAN; self.levels.output.len() * num_outputs];
        let mut workspace = Workspace::new(num_threads);
        for _ in 0..2 {
            let table = &self.levels.table;
            sparse_conv(&self.input, table, &weights, epilogue, &mut workspace, &mut out).unwrap();
        }
        out
    }

    /// The contract, word by word.
    fn by_contract(&self) -> Vec<f32> {
        let [num_inputs, num_outputs] = self.channels;
        let num_taps = self.levels.table.num_taps();
        let mut out = Vec::new();
        for row in 0..self.levels.output.len() {
            for output in 0..num_outputs {
                let mut value = 0.0_f32;
                for tap in 0..num_taps {
                    let Some(input) = self.levels.table.input_row(row, tap) else { continue };
                    for channel in 0..num_inputs {
                        let weight = self.weights[(output * num_taps + tap) * num_inputs + channel];
                        let feature = self.input[input as usize * num_inputs + channel];
                        value = feature.mul_add(weight, value);
                    }
                }
                value += self.bias.as_ref().map_or(0.0, |bias| bias[output]);
                if let Some(residual) = &self.residual {
                    value += residual[row * num_outputs + output];
                }
                out.push(if self.relu && value < 0.0 { 0.0 } else { value });
            }
        }
        out
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// A submanifold level of all cells of a grid.
fn all_active(shape: [u32; 3], kernel: [u32; 3]) -> Levels {
    let grid = SiteGrid::new(1, shape).unwrap();
    let cells: Vec<[i32; 4]> =
        (0..grid.num_cells() as u32).map(|i| grid.cell_of(i).map(|cell| cell as i32)).collect();
    submanifold(grid, &cells, kernel)
}

fn submanifold(grid: SiteGrid, cells: &[[i32; 4]], kernel: [u32; 3]) -> Levels {
    let mut input = Sites::new(grid, cells.len());
    sites_of_coordinates(cells, &mut input, &mut Vec::new());
    let geometry = Geometry::submanifold(kernel);
    let mut table = Table::new(&geometry, Mode::Submanifold, input.len());
    fill_table(&input, &input, &mut table).unwrap();
    Levels { output: input.clone(), input, table }
}

#[test]
fn any_number_of_threads_gives_the_bits_of_the_contract() {
    // More rows than a block, and channels around the number of lanes.
    for (channels, seed) in [([5, 16], 1), ([16, 8], 2), ([17, 33], 3), ([1, 1], 4), ([32, 64], 5)]
    {
        let case = Case::new(all_active([7, 9, 13], [3; 3]), channels, seed);
        let expected = bits(&case.by_contract());
        for num_threads in [0, 1, 2, 5] {
            assert_eq!(bits(&case.run(Precision::F32, num_threads)), expected, "{channels:?}");
        }
    }
}

#[test]
fn no_sites_and_one_site() {
    let grid = SiteGrid::new(1, [8, 8, 8]).unwrap();
    let none = Case::new(submanifold(grid, &[], [3; 3]), [4, 8], 1);
    assert!(none.run(Precision::F32, 2).is_empty());
    let one = Case::plain(submanifold(grid, &[[0, 7, 0, 7]], [3; 3]), [4, 8], 1);
    // Only the centre tap.
    let expected: Vec<f32> = one
        .weights
        .chunks_exact(27 * 4)
        .map(|weights| {
            let products = weights[13 * 4..].iter().zip(&one.input);
            products.fold(0.0, |sum, (weight, feature)| feature.mul_add(*weight, sum))
        })
        .collect();
    assert_eq!(one.run(Precision::F32, 1), expected);
}

#[test]
fn not_a_number_and_infinities_reach_their_neighbours_single() {
    for bad in [f32::NAN, f32::INFINITY] {
        let mut case = Case::plain(all_active([3, 5, 7], [3; 3]), [3, 20], 9);
        case.relu = true;
        let clean = case.run(Precision::F32, 1);
        let row = 52; // cell (1, 2, 3)
        case.input[row * 3 + 1] = bad;
        let found = case.run(Precision::F32, 2);
        for (row, cell) in cells_of(&case.levels.output).into_iter().enumerate() {
            let is_near = (0..3).all(|axis| (cell[axis + 1] - [1, 2, 3][axis]).abs() <= 1);
            let [found, clean] = [&found, &clean].map(|out| bits(&out[row * 20..][..20]));
            if bad.is_nan() && is_near {
                assert!(found.iter().all(|&bits| f32::from_bits(bits).is_nan()), "{cell:?}");
            } else if is_near {
                let is_bad = |&bits: &u32| [0.0, f32::INFINITY].contains(&f32::from_bits(bits));
                assert!(found.iter().all(is_bad), "{cell:?}");
            } else {
                assert_eq!(found, clean, "{cell:?}");
            }
        }
    }
}

#[test]
fn the_epilogue_keeps_not_a_number_and_adds_in_order() {
    let grid = SiteGrid::new(1, [1, 1, 1]).unwrap();
    let levels = || submanifold(grid, &[[0; 4]], [1; 3]);
    // (sum, bias, residual, ReLU) and the result.
    for (sum, bias, residual, relu, expected) in [
        (-1.5, Some(1.0), None, false, -0.5_f32),
        (-1.5, Some(1.0), None, true, 0.0),
        (-0.0, None, None, true, 0.0),
        (f32::NAN, Some(1.0), Some(1.0), true, f32::NAN),
        (1.0, None, Some(f32::NAN), true, f32::NAN),
        // The bias first: 1e8 + 1 is 1e8.
        (1e8, Some(1.0), Some(-1e8), false, 0.0),
        (f32::NEG_INFINITY, None, None, true, 0.0),
    ] {
        let case = Case {
            levels: levels(),
            channels: [1, 1],
            input: vec![sum],
            weights: vec![1.0],
            bias: bias.map(|bias| vec![bias]),
            residual: residual.map(|residual| vec![residual]),
            relu,
        };
        let found = case.run(Precision::F32, 1)[0];
        assert!(found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan());
    }
}

#[test]
fn other_precisions_round_factors_and_results() {
    let case = Case::new(all_active([3, 4, 5], [3; 3]), [19, 24], 3);
    for precision in [Precision::Tf32, Precision::F16, Precision::Bf16] {
        let round = |values: &[f32]| values.iter().map(|&v| precision.round(v)).collect::<Vec<_>>();
        let rounded = Case {
            levels: all_active([3, 4, 5], [3; 3]),
            input: round(&case.input),
            weights: round(&case.weights),
            bias: case.bias.clone(),
            residual: case.residual.clone(),
            ..case
        };
        let expected = rounded.by_contract();
        let expected = if precision == Precision::Tf32 { expected } else { round(&expected) };
        assert_eq!(bits(&case.run(precision, 2)), bits(&expected), "{precision:?}");
        assert_ne!(bits(&case.run(precision, 2)), bits(&case.run(Precision::F32, 2)));
    }
    // 1 + 2^-11 is half way between two values of 10 bits.
    let half_way = 1.0 + 2_f32.powi(-11);
    for (precision, expected) in [
        (Precision::F32, half_way),
        (Precision::Tf32, 1.0 + 2_f32.powi(-10)),
        (Precision::F16, 1.0),
        (Precision::Bf16, 1.0),
    ] {
        assert_eq!([precision.round(half_way), precision.round(-half_way)], [expected, -expected]);
        assert!(precision.round(f32::NAN).is_nan());
        assert_eq!(precision.round(f32::INFINITY), f32::INFINITY);
    }
    assert_eq!(Precision::Tf32.round(f32::MAX), f32::INFINITY);
}

#[test]
fn what_does_not_fit_is_refused() {
    let (weights, bias) = (vec![0.5; 2 * 27 * 3], vec![0.0; 2]);
    for (sizes, weights, bias, message) in [
        ([2, 27, 3], &weights[1..], Some(&bias[..]), "161 weights"),
        ([2, 27, 3], &weights[..], Some(&bias[1..]), "a bias of 1"),
        ([0, 27, 3], &[][..], None, "1 to 4096"),
        ([2, 0, 3], &[][..], None, "0 taps"),
        ([4097, 1, 1], &[0.0; 4097][..], None, "1 to 4096"),
        ([1, 1, 2], &[f32::NAN, f32::INFINITY][..], None, "2 weights or biases are NaN"),
        ([1, 1, 1], &[1.0][..], Some(&[f32::NEG_INFINITY][..]), "1 weights or biases"),
        ([4096, usize::MAX, 4096], &[][..], None, "weights"),
    ] {
        let error = ConvParameters::new(sizes, weights, bias).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().contains(message), "{error}");
    }
    let parameters = ConvParameters::new([2, 27, 3], &weights, Some(&bias)).unwrap();
    let packed = PackedWeights::new(&parameters, Precision::F32).unwrap();
    let table = all_active([1, 1, 4], [3; 3]).table;
    let flat = all_active([1, 1, 4], [1, 1, 3]).table;
    let residual = [0.0; 7];
    let with_residual = Epilogue { residual: Some(&residual), ..Epilogue::default() };
    for (num_inputs, table, epilogue, num_outputs) in [
        (11, &table, Epilogue::default(), 8),
        (12, &table, Epilogue::default(), 7),
        (12, &table, with_residual, 8),
        (12, &flat, Epilogue::default(), 8),
    ] {
        let (input, mut out) = (vec![0.0; num_inputs], vec![0.0; num_outputs]);
        let mut workspace = Workspace::new(1);
        let error = sparse_conv(&input, table, &packed, epilogue, &mut workspace, &mut out);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Argument);
    }
}

#[test]
fn weights_that_rounding_makes_infinite_are_refused() {
    // Halfway to the next step beyond the largest value is infinite.
    let largest = f32::from_bits(0x7f7f_0000);
    for (precision, largest, beyond, message) in [
        (Precision::F16, 65504.0, 65520.0, "2 weights of up to 6.552e4 are beyond float16"),
        (Precision::Bf16, largest, f32::MAX, "2 weights of up to 3.4028235e38 are beyond bfloat16"),
        (Precision::Tf32, largest, f32::MAX, "2 weights of up to 3.4028235e38 are beyond TF32"),
    ] {
        let packed = |weights: &[f32]| {
            let parameters = ConvParameters::new([1, 1, 3], weights, None).unwrap();
            PackedWeights::new(&parameters, precision).map(|_| ())
        };
        packed(&[largest, -largest, 0.0]).unwrap();
        let error = packed(&[beyond, 1.0, -beyond]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().starts_with(message), "{error}");
    }
    let parameters = ConvParameters::new([1, 1, 1], &[f32::MAX], None).unwrap();
    PackedWeights::new(&parameters, Precision::F32).unwrap();
}

/// The convolution of the dense grid in f64, at the sites of the output.
fn dense(scene: &Scene, case: &Case) -> Vec<f64> {
    let [num_inputs, num_outputs] = case.channels;
    let inputs = cells_of(&case.levels.input);
    let outputs = cells_of(&case.levels.output);
    let pairs = scene.pairs(&case.levels);
    let mut out = vec![0.0; outputs.len() * num_outputs];
    for (tap, pairs) in pairs.iter().enumerate() {
        for (cell, input) in pairs {
            let (Ok(row), Ok(input)) = (outputs.binary_search(cell), inputs.binary_search(input))
            else {
                continue;
            };
            for output in 0..num_outputs {
                for channel in 0..num_inputs {
                    let weight =
                        case.weights[(output * pairs_len(scene) + tap) * num_inputs + channel];
                    out[row * num_outputs + output] +=
                        f64::from(weight) * f64::from(case.input[input * num_inputs + channel]);
                }
            }
        }
    }
    out
}

fn pairs_len(scene: &Scene) -> usize {
    scene.geometry.num_taps()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn sums_are_those_of_the_dense_convolution(
        scene in scenes(), channels in [1_usize..20, 1_usize..20], seed in any::<u32>(),
    ) {
        let case = Case::plain(scene.levels(), channels, seed.into());
        let found = case.run(Precision::F32, 2);
        prop_assert_eq!(bits(&found), bits(&case.by_contract()));
        let expected = dense(&scene, &case);
        for (found, expected) in found.iter().zip(expected) {
            prop_assert!((f64::from(*found) - expected).abs() < 1e-4, "{} for {}", found, expected);
        }
    }

    #[test]
    fn each_tap_single_copies_the_input_that_it_joins(scene in scenes(), tap in any::<prop::sample::Index>()) {
        let tap = tap.index(pairs_len(&scene));
        let mut case = Case::plain(scene.levels(), [2, 2], 5);
        case.weights.fill(0.0);
        for channel in 0..2 {
            case.weights[(channel * pairs_len(&scene) + tap) * 2 + channel] = 1.0;
        }
        let found = case.run(Precision::F32, 1);
        for (row, found) in found.chunks_exact(2).enumerate() {
            let input = case.levels.table.input_row(row, tap);
            let expected = input.map_or([0.0; 2], |input| {
                [0, 1].map(|channel| case.input[input as usize * 2 + channel])
            });
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_batch_of_two_is_two_scenes(scene in scenes(), seed in any::<u32>()) {
        let scene = Scene { batch_size: 2, ..scene };
        let both = Case::plain(scene.levels(), [3, 5], seed.into());
        let found = both.run(Precision::F32, 1);
        let (mut input_row, mut output_row) = (0, 0);
        for batch in 0..2 {
            let cells = scene.cells.iter().filter(|cell| cell[0] == batch);
            let cells = cells.map(|&[_, c0, c1, c2]| [0, c0, c1, c2]).collect();
            let single = Scene { batch_size: 1, cells, ..scene.clone() }.levels();
            let num_inputs = single.input.len();
            let input = both.input[3 * input_row..][..3 * num_inputs].to_vec();
            let case = Case { input, ..Case::plain(single, [3, 5], seed.into()) };
            let expected = case.run(Precision::F32, 1);
            let num_outputs = case.levels.output.len();
            prop_assert_eq!(bits(&found[5 * output_row..][..5 * num_outputs]), bits(&expected));
            (input_row, output_row) = (input_row + num_inputs, output_row + num_outputs);
        }
        prop_assert_eq!([input_row, output_row], [both.levels.input.len(), both.levels.output.len()]);
    }

    #[test]
    fn sums_are_linear_in_the_features(scene in scenes(), factor in -3_i32..4) {
        let factor = 2_f32.powi(factor);
        let mut case = Case::plain(scene.levels(), [3, 4], 6);
        let once = case.run(Precision::F32, 1);
        case.input.iter_mut().for_each(|value| *value *= factor);
        let scaled = case.run(Precision::F32, 1);
        prop_assert!(scaled.iter().zip(once).all(|(scaled, once)| *scaled == once * factor));
    }
}
