//! Sparse levels, tables and features: the same sites, counts and words, the same bits in
//! f32.

use det_post::device::cuda::{CudaDevice, DeviceBuffer, DeviceTensor, Stream};
use det_post::ops::rulebook::cuda::{Cells, DeviceSites, DeviceTable, Workspace};
use det_post::ops::rulebook::{
    Geometry, Mode, SiteGrid, Sites, Table, fill_table, output_sites, sites_of_coordinates,
};
use det_post::ops::sparse_conv::cuda::{Convolution, DeviceFeatures};
use det_post::ops::sparse_conv::{
    ConvParameters, Epilogue, PackedWeights, Precision, Workspace as ConvWorkspace, sparse_conv,
};
use det_post::ops::sparse_max_pool;
use det_post::ops::to_map::{map_shape, to_map};
use det_post::types::{ElementType, Tensor};

use super::random::Random;
use super::tensors::bits;

/// A level of the input and, where the mode makes one, the level of the output.
struct Case {
    name: &'static str,
    grid: SiteGrid,
    geometry: Geometry,
    mode: Mode,
    output: SiteGrid,
    capacities: [usize; 2],
    coordinates: Vec<[i32; 4]>,
}

fn geometry(kernel: [u32; 3], stride: [u32; 3], padding: [u32; 3], dilation: [u32; 3]) -> Geometry {
    Geometry { kernel, stride, padding, dilation }
}

/// Clusters, so that neighbours are common, and rows outside of the grid.
fn coordinates(random: &mut Random, grid: &SiteGrid, num: usize) -> Vec<[i32; 4]> {
    let [s0, s1, s2] = grid.shape().map(|size| size as usize);
    let mut rows = Vec::new();
    while rows.len() < num {
        let batch = random.below(grid.batch_size() as usize) as i32;
        let start = [random.below(s0), random.below(s1), random.below(s2)].map(|c| c as i32);
        for _ in 0..12 {
            let step = |random: &mut Random| random.below(4) as i32 - 1;
            let cell = start.map(|c| c + step(random));
            rows.push([batch, cell[0], cell[1], cell[2]]);
        }
    }
    rows.truncate(num);
    rows
}

fn cases() -> Vec<Case> {
    let mut random = Random::new(410);
    let mut cases = Vec::new();
    let mut add = |name, batch, shape, geometry: Geometry, mode, capacities, num| {
        let grid = SiteGrid::new(batch, shape).unwrap();
        let shape = match mode {
            Mode::Strided => geometry.strided_shape(shape).unwrap(),
            Mode::Transposed => geometry.transposed_shape(shape, [0; 3]).unwrap(),
            Mode::Submanifold | Mode::Inverse => shape,
        };
        let output = SiteGrid::new(batch, shape).unwrap();
        let coordinates = coordinates(&mut random, &grid, num);
        cases.push(Case { name, grid, geometry, mode, output, capacities, coordinates });
    };
    let ample = [usize::MAX; 2];
    let one = [1; 3];
    let subm = Geometry::submanifold;
    add("subm 3", 2, [7, 40, 70], subm([3; 3]), Mode::Submanifold, ample, 900);
    add("subm 5", 1, [9, 33, 34], subm([5; 3]), Mode::Submanifold, ample, 500);
    add("subm 1 3 3", 1, [5, 20, 31], subm([1, 3, 3]), Mode::Submanifold, ample, 300);
    let dilated = geometry([3; 3], one, one, [1, 2, 2]);
    add("subm dilated", 1, [5, 20, 64], dilated, Mode::Submanifold, ample, 300);
    add("subm cut", 1, [7, 40, 70], subm([3; 3]), Mode::Submanifold, [100, 100], 900);
    add("subm none", 1, [7, 40, 70], subm([3; 3]), Mode::Submanifold, ample, 0);
    let down = geometry([3; 3], [2; 3], one, one);
    add("down", 2, [9, 41, 66], down, Mode::Strided, ample, 900);
    add("down cut", 1, [9, 41, 66], down, Mode::Strided, [800, 77], 900);
    add(
        "down drops",
        1,
        [8, 40, 40],
        geometry([3; 3], [2; 3], [0; 3], one),
        Mode::Strided,
        ample,
        700,
    );
    add(
        "out",
        1,
        [5, 40, 40],
        geometry([3, 1, 1], [2, 1, 1], [0; 3], one),
        Mode::Strided,
        ample,
        700,
    );
    add("pool", 1, [8, 40, 40], geometry([2; 3], [2; 3], [0; 3], one), Mode::Strided, ample, 700);
    let wide = geometry([3, 3, 5], [1, 2, 3], [1, 2, 2], [2, 1, 2]);
    add("down dilated", 1, [9, 40, 60], wide, Mode::Strided, ample, 500);
    add("up", 1, [4, 12, 20], down, Mode::Transposed, ample, 200);
    add(
        "up 2",
        1,
        [4, 12, 20],
        geometry([2; 3], [2; 3], [0; 3], one),
        Mode::Transposed,
        ample,
        200,
    );
    cases
}

/// The levels and the table of a case on both sides.
struct Made {
    input: Sites,
    output: Option<Sites>,
    table: Table,
    device_input: DeviceSites,
    device_output: Option<DeviceSites>,
    device_table: DeviceTable,
}

impl Made {
    fn new(stream: &Stream, case: &Case) -> Self {
        let [input_capacity, output_capacity] = case.capacities;
        let mut input = Sites::new(case.grid, input_capacity.min(case.coordinates.len().max(1)));
        let mut input_rows = Vec::new();
        let entrance = sites_of_coordinates(&case.coordinates, &mut input, &mut input_rows);
        let has_output = matches!(case.mode, Mode::Strided | Mode::Transposed);
        let mut output = has_output.then(|| Sites::new(case.output, output_capacity.min(1 << 20)));
        let counts = output
            .as_mut()
            .map(|output| output_sites(&input, &case.geometry, case.mode, output).unwrap());
        let rows = output.as_ref().unwrap_or(&input);
        let mut table = Table::new(&case.geometry, case.mode, rows.capacity());
        fill_table(&input, rows, &mut table).unwrap();

        let workspace = Workspace::new(stream).unwrap();
        let upload: Vec<[u32; 4]> =
            case.coordinates.iter().map(|row| row.map(i32::cast_unsigned)).collect();
        let mut cells = DeviceBuffer::zeros(stream, upload.len()).unwrap();
        cells.write(&upload).unwrap();
        let mut num = DeviceBuffer::zeros(stream, 1).unwrap();
        num.write(&[upload.len() as u32]).unwrap();
        let mut levels = vec![DeviceSites::input(stream, case.grid, input.capacity()).unwrap()];
        if let Some(output) = &output {
            levels.push(DeviceSites::output(stream, case.output, output.capacity()).unwrap());
        }
        let capacities = [input.capacity(), rows.capacity()];
        let mut device_table =
            DeviceTable::new(stream, &case.geometry, case.mode, capacities).unwrap();
        // Twice: what the first frame leaves makes no difference.
        for _ in 0..2 {
            workspace.enqueue_clear(&mut levels).unwrap();
            workspace.enqueue_input(Cells::Coordinates(&cells), &num, &mut levels[0]).unwrap();
            if let [input, output] = &mut levels[..] {
                workspace.enqueue_output(input, &case.geometry, case.mode, output).unwrap();
            }
            let (input, rows) = (&levels[0], levels.last().unwrap());
            workspace.enqueue_table(input, rows, &mut device_table).unwrap();
        }
        let name = case.name;
        assert_eq!(levels[0].entrance_counts().unwrap(), entrance, "{name}");
        assert_eq!(levels[0].read().unwrap(), input.indices(), "{name}");
        assert_eq!(levels[0].read_input_rows().unwrap(), input_rows, "{name}");
        if let (Some(output), Some(counts)) = (&output, counts) {
            assert_eq!(levels[1].output_counts().unwrap(), counts, "{name}");
            assert_eq!(levels[1].read().unwrap(), output.indices(), "{name}");
        }
        assert_eq!(device_table.read(rows.len()).unwrap(), table.words(), "{name}");
        let device_output = (levels.len() == 2).then(|| levels.pop().unwrap());
        let device_input = levels.pop().unwrap();
        Self { input, output, table, device_input, device_output, device_table }
    }

    fn rows(&self) -> (&Sites, &DeviceSites) {
        (
            self.output.as_ref().unwrap_or(&self.input),
            self.device_output.as_ref().unwrap_or(&self.device_input),
        )
    }
}

#[test]
fn sites_counts_and_tables_agree() {
    let Some(device) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    for case in cases() {
        let made = Made::new(&stream, &case);
        assert_eq!(made.rows().0.is_empty(), case.coordinates.is_empty(), "{}", case.name);
    }
}

#[test]
fn the_pairs_of_an_inverse_agree() {
    let Some(device) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    for case in cases().iter().filter(|case| case.mode == Mode::Strided) {
        let made = Made::new(&stream, case);
        let (output, device_output) = made.rows();
        let capacities = [output.capacity(), made.input.capacity()];
        let mut table = Table::new(&case.geometry, Mode::Inverse, made.input.capacity());
        fill_table(output, &made.input, &mut table).unwrap();
        let mut found =
            DeviceTable::new(&stream, &case.geometry, Mode::Inverse, capacities).unwrap();
        let workspace = Workspace::new(&stream).unwrap();
        workspace.enqueue_table(device_output, &made.device_input, &mut found).unwrap();
        assert_eq!(found.read(made.input.len()).unwrap(), table.words(), "{}", case.name);
    }
}

fn values(random: &mut Random, num: usize, most: f32) -> Vec<f32> {
    (0..num).map(|_| random.range(-most, most)).collect()
}

/// Relative L2 distance, and the largest difference as a share of the largest value.
fn distance(found: &[f32], expected: &[f32]) -> [f64; 2] {
    assert_eq!(found.len(), expected.len());
    let pairs = || found.iter().zip(expected).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    let sum: f64 = pairs().map(|(a, b)| (a - b).powi(2)).sum();
    let norm: f64 = pairs().map(|(_, b)| b.powi(2)).sum();
    let most = pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let largest = pairs().map(|(_, b)| b.abs()).fold(0.0, f64::max);
    [(sum / norm.max(1e-30)).sqrt(), most / largest.max(1e-30)]
}

fn convolve(device: &CudaDevice, precision: Precision, bounds: [f64; 2]) {
    let stream = device.stream().unwrap();
    let mut random = Random::new(411);
    let channels =
        [[5, 16], [16, 16], [16, 32], [24, 40], [32, 64], [64, 64], [64, 128], [96, 33], [16, 80]];
    let cases = cases();
    let cases = cases.iter().filter(|case| case.mode != Mode::Inverse);
    for (case, [num_inputs, num_outputs]) in cases.flat_map(|case| channels.map(|c| (case, c))) {
        let made = Made::new(&stream, case);
        let (rows, device_rows) = made.rows();
        let num_taps = made.table.num_taps();
        let weights = values(&mut random, num_outputs * num_taps * num_inputs, 0.3);
        let bias = values(&mut random, num_outputs, 0.5);
        let sizes = [num_outputs, num_taps, num_inputs];
        let parameters = ConvParameters::new(sizes, &weights, Some(&bias)).unwrap();
        let input: Vec<f32> = values(&mut random, made.input.len() * num_inputs, 2.0)
            .into_iter()
            .map(|value| precision.round_stored(value))
            .collect();
        let residual: Vec<f32> = values(&mut random, rows.len() * num_outputs, 2.0)
            .into_iter()
            .map(|value| precision.round_stored(value))
            .collect();
        let relu = num_outputs != 64;
        let with_residual = num_outputs != 32;
        let mut expected = vec![0.0; rows.len() * num_outputs];
        let epilogue =
            Epilogue { residual: with_residual.then_some(&residual[..]), relu, stored: precision };
        let packed = PackedWeights::new(&parameters, precision);
        let mut workspace = ConvWorkspace::new(1);
        sparse_conv(&input, &made.table, &packed, epilogue, &mut workspace, &mut expected).unwrap();

        let features = |values: &[f32], num_rows: usize, num_channels| {
            let len = num_rows * DeviceFeatures::row_len(num_channels);
            let mut features = DeviceFeatures::new(&stream, precision, len).unwrap();
            features.write(values, num_channels).unwrap();
            features
        };
        let device_input = features(&input, made.input.capacity(), num_inputs);
        let device_residual = features(&residual, rows.capacity(), num_outputs);
        let mut out = features(&[], rows.capacity(), num_outputs);
        let convolution = Convolution::new(&stream, &parameters, precision).unwrap();
        let residual = with_residual.then_some(&device_residual);
        for _ in 0..2 {
            let table = (&made.device_table, device_rows);
            convolution.enqueue(&device_input, table, residual, relu, &mut out).unwrap();
        }
        let found = out.read(rows.len(), num_outputs).unwrap();
        let name = case.name;
        if precision == Precision::F32 {
            let first = (0..found.len()).find(|&i| found[i].to_bits() != expected[i].to_bits());
            let pair = first.map(|i| (found[i], expected[i]));
            assert_eq!(first, None, "{name} {num_inputs} to {num_outputs}: {pair:?}");
        } else {
            let [l2, most] = distance(&found, &expected);
            let fits = l2 <= bounds[0] && most <= bounds[1];
            assert!(fits, "{name} {num_inputs} to {num_outputs} {precision:?}: {l2:e} {most:e}");
        }
    }
}

#[test]
fn convolutions_agree_to_the_bit_in_f32() {
    let Some(device) = super::gpu() else { return };
    convolve(&device, Precision::F32, [0.0; 2]);
}

#[test]
fn convolutions_of_16_bits_and_tf32_agree() {
    let Some(device) = super::gpu() else { return };
    // The sums of both sides are f32 of the same products; what is left is the rounding
    // on store and of tensor cores inside a sum.
    convolve(&device, Precision::F16, [3e-4, 1e-3]);
    convolve(&device, Precision::Bf16, [3e-3, 8e-3]);
    convolve(&device, Precision::Tf32, [1e-5, 1e-5]);
}

#[test]
fn a_nan_reaches_its_neighbours_alone() {
    let Some(device) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut random = Random::new(412);
    let cases = cases();
    let made = Made::new(&stream, &cases[0]);
    let weights = values(&mut random, 64 * 27 * 32, 0.3);
    let parameters = ConvParameters::new([64, 27, 32], &weights, None).unwrap();
    let mut input = values(&mut random, made.input.len() * 32, 2.0);
    let marked = made.input.len() / 2;
    input[marked * 32 + 3] = f32::NAN;
    input[(marked + 1) * 32] = f32::INFINITY;
    for precision in [Precision::F32, Precision::F16, Precision::Bf16, Precision::Tf32] {
        let len = made.input.capacity() * 64;
        let mut features = DeviceFeatures::new(&stream, precision, len).unwrap();
        features.write(&input, 32).unwrap();
        let mut out = DeviceFeatures::new(&stream, precision, len).unwrap();
        let convolution = Convolution::new(&stream, &parameters, precision).unwrap();
        let table = (&made.device_table, &made.device_input);
        convolution.enqueue(&features, table, None, true, &mut out).unwrap();
        let found = out.read(made.input.len(), 64).unwrap();
        for (row, found) in found.chunks_exact(64).enumerate() {
            let inputs = (0..27).filter_map(|tap| made.table.input_row(row, tap));
            let joined: Vec<u32> = inputs.collect();
            let has_nan = joined.contains(&(marked as u32));
            let has_either = has_nan || joined.contains(&(marked as u32 + 1));
            assert_eq!(found.iter().any(|v| !v.is_finite()), has_either, "{precision:?} {row}");
            assert!(!has_nan || found.iter().all(|v| v.is_nan()), "{precision:?} {row}");
        }
    }
}

#[test]
fn pools_and_maps_agree() {
    let Some(device) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut random = Random::new(413);
    for case in cases() {
        let made = Made::new(&stream, &case);
        let (rows, device_rows) = made.rows();
        for (num_channels, precision) in
            [(3, Precision::F32), (16, Precision::F16), (40, Precision::Bf16), (64, Precision::F32)]
        {
            let values = values(&mut random, made.input.len() * num_channels, 3.0);
            let input: Vec<f32> = values.iter().map(|&v| precision.round_stored(v)).collect();
            let mut expected = vec![0.0; rows.len() * num_channels];
            let table = &made.table;
            sparse_max_pool::sparse_max_pool(&input, table, num_channels, &mut expected).unwrap();
            let row_len = DeviceFeatures::row_len(num_channels);
            let len = made.input.capacity() * row_len;
            let mut features = DeviceFeatures::new(&stream, precision, len).unwrap();
            features.write(&input, num_channels).unwrap();
            let len = rows.capacity() * row_len;
            let mut out = DeviceFeatures::new(&stream, precision, len).unwrap();
            let pool = sparse_max_pool::cuda::Workspace::new(&stream).unwrap();
            let table = (&made.device_table, device_rows);
            pool.enqueue(&features, num_channels, table, &mut out).unwrap();
            let found = out.read(rows.len(), num_channels).unwrap();
            assert_eq!(found, expected, "{} {num_channels}", case.name);

            for (axes, element) in [
                ([0, 1, 2], ElementType::F32),
                ([2, 0, 1], ElementType::F16),
                ([2, 1, 0], ElementType::F32),
            ] {
                let shape = map_shape(rows.grid(), axes, num_channels).unwrap();
                let mut map = Tensor::zeros(element, &shape).unwrap();
                to_map(&expected, rows, axes, num_channels, &mut map).unwrap();
                let mut device_map = DeviceTensor::zeros(&stream, element, &shape).unwrap();
                let workspace = det_post::ops::to_map::cuda::Workspace::new(&stream).unwrap();
                workspace.enqueue(&out, device_rows, axes, num_channels, &mut device_map).unwrap();
                let found = bits(&device_map.read().unwrap());
                assert!(found == bits(&map), "{} {num_channels} {axes:?}", case.name);
            }
        }
    }
}
