//! Levels, tables and features from arrays in memory of any owner, and arrays of them: equal.

use det_post_ops::arrays::sparse::cuda::Workspace;
use det_post_ops::arrays::sparse::{cells, input_rows, rows_of_sites};
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, Out, Stream};
use det_post_ops::sparse::conv::cuda::{Convolution, DeviceFeatures};
use det_post_ops::sparse::conv::{
    ConvParameters, Epilogue, PackedWeights, Precision, Workspace as ConvWorkspace, sparse_conv,
};
use det_post_ops::sparse::rulebook::cuda::{DeviceSites, DeviceTable};
use det_post_ops::sparse::rulebook::{
    EntranceCounts, Geometry, Mode, OutputCounts, SiteGrid, Sites, Table, fill_table, output_sites,
    sites_of_coordinates,
};

use super::sparse_conv::distance;
use det_post_testing::bounds::bound;
use det_post_testing::random::Random;
use det_post_testing::sparse_scenes::{Case, cases, values};

const PRECISIONS: [Precision; 4] =
    [Precision::F32, Precision::Tf32, Precision::F16, Precision::Bf16];

/// The levels and the table of a case on the CPU.
struct Reference {
    input: Sites,
    rows: Vec<u32>,
    output: Option<Sites>,
    table: Table,
    entered: EntranceCounts,
    reached: Option<OutputCounts>,
}

impl Reference {
    fn new(case: &Case) -> Self {
        let [input_capacity, output_capacity] = case.capacities;
        let mut input = Sites::new(case.grid, input_capacity.min(case.coordinates.len()));
        let mut rows = Vec::new();
        let entered = sites_of_coordinates(&case.coordinates, &mut input, &mut rows);
        let has_output = matches!(case.mode, Mode::Strided | Mode::Transposed);
        let mut output = has_output.then(|| Sites::new(case.output, output_capacity));
        let reached = output
            .as_mut()
            .map(|output| output_sites(&input, &case.geometry, case.mode, output).unwrap());
        let to = output.as_ref().unwrap_or(&input);
        let mut table = Table::new(&case.geometry, case.mode, to.len());
        fill_table(&input, to, &mut table).unwrap();
        Self { input, rows, output, table, entered, reached }
    }

    fn output(&self) -> &Sites {
        self.output.as_ref().unwrap_or(&self.input)
    }
}

/// Memory that has held something else.
fn used(stream: &Stream, num_bytes: usize) -> DeviceBuffer<u8> {
    let mut memory = DeviceBuffer::zeros(stream, num_bytes).unwrap();
    memory.write(&vec![0xa5; num_bytes]).unwrap();
    memory
}

/// The bits of coordinates in device memory, not aligned to rows.
fn upload(stream: &Stream, coordinates: &[[i32; 4]]) -> DeviceBuffer<u32> {
    let bits = coordinates.as_flattened().iter().map(|value| value.cast_unsigned());
    let bits: Vec<u32> = [7].into_iter().chain(bits).collect();
    let mut buffer = DeviceBuffer::zeros(stream, bits.len()).unwrap();
    buffer.write(&bits).unwrap();
    buffer
}

/// The levels and the table of a case on the GPU, each as small as its contents.
struct Made {
    input: DeviceSites,
    output: Option<DeviceSites>,
    table: DeviceTable,
}

impl Made {
    fn new(workspace: &Workspace, case: &Case, reference: &Reference) -> Self {
        let (stream, name) = (workspace.stream(), case.name);
        let [input_capacity, output_capacity] = case.capacities;
        let level = |grid: SiteGrid, capacity: usize, is_input| {
            let num_bytes = DeviceSites::num_bytes_for(&grid, capacity, is_input);
            let memory = used(stream, num_bytes);
            assert!(
                DeviceSites::in_memory(used(stream, num_bytes - 256), grid, capacity, is_input)
                    .is_err()
            );
            DeviceSites::in_memory(memory, grid, capacity, is_input).unwrap()
        };
        let capacity = input_capacity.min(case.coordinates.len());
        let mut input = level(case.grid, capacity, true);
        let coordinates = upload(stream, &case.coordinates);
        let coordinates = coordinates.input(stream).unwrap().from(1);
        // Twice: what the first call leaves makes no difference.
        for _ in 0..2 {
            workspace.enqueue_input(coordinates, &mut input).unwrap();
            let counts = input.fit_entrance().unwrap();
            assert_eq!(counts, reference.entered, "{name}");
            assert_eq!(input.capacity(), counts.num_sites, "{name}");
        }
        let mut output = reference.output.as_ref().map(|expected| {
            let most = input.capacity() * case.geometry.num_taps();
            let mut output = level(*expected.grid(), output_capacity.min(most), false);
            let (geometry, mode) = (&case.geometry, case.mode);
            workspace.enqueue_output(&input, geometry, mode, &mut output).unwrap();
            let counts = output.fit_output().unwrap();
            assert_eq!(Some(counts), reference.reached, "{name}");
            assert_eq!(output.capacity(), expected.len(), "{name}");
            output
        });
        let table = {
            let to = output.as_mut().map_or(&input, |output| &*output);
            let capacities = [input.capacity(), to.capacity()];
            let num_words = DeviceTable::num_words_for(&case.geometry, case.mode, capacities[1]);
            let num_bytes = Out::<u32>::num_carved_bytes(num_words);
            let memory = used(stream, num_bytes).carve(num_words).unwrap();
            let mut table =
                DeviceTable::in_memory(memory, &case.geometry, case.mode, capacities).unwrap();
            workspace.enqueue_table(&input, to, &mut table).unwrap();
            table
        };
        Self { input, output, table }
    }

    fn output(&self) -> &DeviceSites {
        self.output.as_ref().unwrap_or(&self.input)
    }
}

fn check_arrays(workspace: &Workspace, made: &Made, reference: &Reference, name: &str) {
    let stream = workspace.stream();
    for (level, expected) in [(&made.input, &reference.input), (made.output(), reference.output())]
    {
        let mut found = DeviceBuffer::<u32>::zeros(stream, 4 * expected.len()).unwrap();
        workspace.enqueue_sites(level, found.output(stream).unwrap(), Out::empty()).unwrap();
        let expected: Vec<u32> = cells(expected).flatten().collect();
        assert!(found.read().unwrap() == expected, "{name}: cells");
    }
    let mut rows = DeviceBuffer::<u64>::zeros(stream, reference.rows.len()).unwrap();
    workspace.enqueue_sites(&made.input, Out::empty(), rows.output(stream).unwrap()).unwrap();
    let expected: Vec<u64> = reference.rows.iter().map(|&row| row.into()).collect();
    assert!(rows.read().unwrap() == expected, "{name}: rows");
    let mut rows = DeviceBuffer::<u64>::zeros(stream, reference.rows.len() + 1).unwrap();
    let too_many = rows.output(stream).unwrap();
    assert!(workspace.enqueue_sites(&made.input, Out::empty(), too_many).is_err(), "{name}");
    let expected: Vec<u32> =
        input_rows(&reference.table).map(|row| row.unwrap_or(u32::MAX)).collect();
    let mut table = DeviceBuffer::<u32>::zeros(stream, expected.len()).unwrap();
    workspace.enqueue_table_rows(&made.table, table.output(stream).unwrap()).unwrap();
    assert!(table.read().unwrap() == expected, "{name}: table");
}

#[test]
fn levels_and_tables_are_those_of_the_arrays() {
    let Some(device) = det_post_testing::gpu() else { return };
    let workspace = Workspace::new(&device.stream().unwrap()).unwrap();
    for case in cases() {
        let reference = Reference::new(&case);
        let made = Made::new(&workspace, &case, &reference);
        check_arrays(&workspace, &made, &reference, case.name);
    }
}

#[test]
fn one_site_at_every_corner_of_a_grid() {
    let Some(device) = det_post_testing::gpu() else { return };
    let workspace = Workspace::new(&device.stream().unwrap()).unwrap();
    let grid = SiteGrid::new(3, [2, 5, 9]).unwrap();
    for cell in [[0, 0, 0, 0], [2, 1, 4, 8], [1, 0, 4, 8], [3, 0, 0, 0], [0, 0, 0, -1]] {
        let case = Case {
            name: "one",
            grid,
            geometry: Geometry::submanifold([3; 3]),
            mode: Mode::Submanifold,
            output: grid,
            capacities: [usize::MAX; 2],
            coordinates: vec![cell; 2],
        };
        let reference = Reference::new(&case);
        let made = Made::new(&workspace, &case, &reference);
        check_arrays(&workspace, &made, &reference, case.name);
    }
}

#[test]
fn features_are_rounded_once_and_come_back() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let workspace = Workspace::new(&stream).unwrap();
    let mut random = Random::new(420);
    for precision in PRECISIONS {
        for (num_rows, num_channels) in [(0, 4), (1, 1), (3, 16), (700, 5), (129, 17), (65, 96)] {
            let context = format!("{num_rows} rows of {num_channels} in {precision:?}");
            let mut expected = values(&mut random, num_rows * num_channels, 70_000.0);
            if let Some(value) = expected.first_mut() {
                *value = f32::NAN;
            }
            let mut array = DeviceBuffer::zeros(&stream, expected.len() + 1).unwrap();
            array.write(&[&[9.0], &expected[..]].concat()).unwrap();
            let array = array.input(&stream).unwrap().from(1);
            let num_bytes = DeviceFeatures::num_bytes_for(num_rows, num_channels, precision);
            assert!(DeviceFeatures::in_memory(used(&stream, 100), precision).is_err());
            let mut features =
                DeviceFeatures::in_memory(used(&stream, num_bytes), precision).unwrap();
            let rows = (array, num_channels);
            workspace.enqueue_features(rows, None, num_rows, &mut features).unwrap();
            assert!(workspace.enqueue_features(rows, None, num_rows + 1, &mut features).is_err());
            let mut back = DeviceBuffer::<f32>::zeros(&stream, expected.len()).unwrap();
            let out = back.output(&stream).unwrap();
            workspace.enqueue_values(&features, num_channels, out).unwrap();
            for value in &mut expected {
                *value = precision.round_stored(*value);
            }
            let bits = |values: Vec<f32>| -> Vec<u32> {
                // Which NaN is stored differs.
                let bits = |value: f32| if value.is_nan() { 1 } else { value.to_bits() };
                values.into_iter().map(bits).collect()
            };
            assert!(bits(back.read().unwrap()) == bits(expected), "{context}");
        }
    }
}

/// A convolution of arrays: levels of one stream, weights of another.
fn convolve(device: &CudaDevice, case: &Case, random: &mut Random, precision: Precision) {
    let stream = device.stream().unwrap();
    let workspace = Workspace::new(&stream).unwrap();
    let levels = Workspace::new(&device.stream().unwrap()).unwrap();
    let reference = Reference::new(case);
    let made = Made::new(&levels, case, &reference);
    // The caller orders the streams.
    levels.stream().synchronize().unwrap();
    for [num_inputs, num_outputs] in [[4, 16], [5, 33], [17, 64], [128, 128]] {
        let context = format!("{} {num_inputs} to {num_outputs} {precision:?}", case.name);
        let num_taps = case.geometry.num_taps();
        let weights = values(random, num_outputs * num_taps * num_inputs, 0.3);
        let bias = values(random, num_outputs, 0.5);
        let sizes = [num_outputs, num_taps, num_inputs];
        let parameters = ConvParameters::new(sizes, &weights, Some(&bias)).unwrap();
        let array = values(random, case.coordinates.len() * num_inputs, 2.0);
        let num_rows = reference.output().len();
        let residual: Vec<f32> = values(random, num_rows * num_outputs, 2.0)
            .into_iter()
            .map(|value| precision.round_stored(value))
            .collect();
        let mut sorted = Vec::new();
        rows_of_sites(&array, num_inputs, &reference.rows, &mut sorted);
        let mut expected = vec![0.0; num_rows * num_outputs];
        let epilogue = Epilogue { residual: Some(&residual), relu: true, stored: precision };
        let packed = PackedWeights::new(&parameters, precision).unwrap();
        let mut threads = ConvWorkspace::new(1);
        sparse_conv(&sorted, &reference.table, &packed, epilogue, &mut threads, &mut expected)
            .unwrap();

        let buffer = |values: &[f32]| {
            let mut buffer = DeviceBuffer::zeros(&stream, values.len()).unwrap();
            buffer.write(values).unwrap();
            buffer
        };
        let rows = |num_rows, num_channels| {
            let num_bytes = DeviceFeatures::num_bytes_for(num_rows, num_channels, precision);
            DeviceFeatures::in_memory(used(&stream, num_bytes), precision).unwrap()
        };
        let [array, residual_array] = [buffer(&array), buffer(&residual)];
        let input = made.input.on(&stream).unwrap();
        let output = made.output().on(&stream).unwrap();
        let table = made.table.on(&stream).unwrap();
        let mut features = rows(reference.input.len(), num_inputs);
        let of = (array.input(&stream).unwrap(), num_inputs);
        let num_sites = reference.input.len();
        workspace.enqueue_features(of, Some(&input), num_sites, &mut features).unwrap();
        let mut residual = rows(num_rows, num_outputs);
        let of = (residual_array.input(&stream).unwrap(), num_outputs);
        workspace.enqueue_features(of, None, num_rows, &mut residual).unwrap();
        let mut out = rows(num_rows, num_outputs);
        let convolution = Convolution::new(&stream, &parameters, precision).unwrap();
        convolution.enqueue(&features, (&table, &output), Some(&residual), true, &mut out).unwrap();
        let mut found = DeviceBuffer::<f32>::zeros(&stream, expected.len()).unwrap();
        workspace.enqueue_values(&out, num_outputs, found.output(&stream).unwrap()).unwrap();
        let found = found.read().unwrap();
        if precision == Precision::F32 {
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert!(bits(&found) == bits(&expected), "{context}");
            continue;
        }
        let name = match precision {
            Precision::F16 => "f16",
            Precision::Bf16 => "bf16",
            Precision::F32 | Precision::Tf32 => "TF32",
        };
        let bounds = ["relative error (L2)", "share of the largest value"]
            .map(|number| bound("sparse/conv", name, number).in_unit());
        let [l2, most] = distance(&found, &expected);
        assert!(l2 <= bounds[0] && most <= bounds[1], "{context}: {l2:e} {most:e}");
    }
}

#[test]
fn convolutions_of_arrays_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(421);
    for case in cases().iter().filter(|case| case.mode != Mode::Inverse) {
        for precision in PRECISIONS {
            convolve(&device, case, &mut random, precision);
        }
    }
}

#[test]
fn memory_of_a_table_serves_smaller_ones() {
    let Some(device) = det_post_testing::gpu() else { return };
    let workspace = Workspace::new(&device.stream().unwrap()).unwrap();
    let case = &cases()[0];
    let reference = Reference::new(case);
    let made = Made::new(&workspace, case, &reference);
    let stream = workspace.stream();
    let len = reference.input.len();
    let mut table =
        DeviceTable::new(stream, &case.geometry, case.mode, [len + 500, len + 500]).unwrap();
    assert!(!table.resize([len, 100 * len]).unwrap());
    assert!(table.resize([len, len]).unwrap());
    workspace.enqueue_table(&made.input, &made.input, &mut table).unwrap();
    assert_eq!(table.read(len).unwrap(), reference.table.words());
}
