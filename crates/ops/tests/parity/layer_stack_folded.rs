//! Stacks whose normalizations are folded into their layers, against the layers one by one. Only GPUs
//! of compute capability 9.0 have the kernel.

use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, Out, Stream};
use det_post_ops::view::layer_norm::{LayerNorm, layer_norm};
use det_post_ops::view::layer_stack::cuda::{DeviceStack, StackArgs};
use det_post_ops::view::layer_stack::folded::FoldedStacks;
use det_post_ops::view::linear::LinearLayer;
use det_post_ops::view::linear::cuda::{DeviceRows, device_norm};
use det_post_ops::view::rows::RowsMut;
use half::f16;

use super::layer_stack::{Maker, reference, stored, upload};
use det_post_testing::bounds::bound;
use det_post_testing::random::Random;
use det_post_testing::share;

const BOX_LEN: usize = 11;
/// The first columns of the encoder's parts.
const COLUMNS: [usize; 4] = [0, 3, 6, 8];
/// Other columns before the outputs of an encoder, and after them.
const BEFORE: usize = 8;
const AFTER: usize = 24;
const INTERVAL: f32 = 0.25;

type Part = [LinearLayer; 4];

/// The layers of a Sparse4D block's deltas and of its encoder.
struct Layers {
    deltas: Vec<LinearLayer>,
    encoder: [Part; 4],
    norm: LayerNorm,
    width: usize,
}

impl Layers {
    /// With a number added to the biases before normalizations.
    fn new(width: usize, shift: f32) -> Self {
        let mut maker = Maker(Random::new(width as u64 + 7));
        let mut layer =
            |sizes, relu, norm| shifted(&maker.layer::<f16>(sizes, relu, norm), shift, norm);
        let square = [width; 2];
        let deltas = vec![
            layer(square, true, false),
            layer(square, true, true),
            layer(square, true, false),
            layer(square, true, true),
            layer([BOX_LEN, width], false, false),
        ];
        let parts = if width == 256 { [128, 32, 32, 64] } else { [48, 16, 8, 24] };
        let mut index = 0;
        let encoder = parts.map(|width| {
            let num_columns = if index == 2 { 2 } else { 3 };
            index += 1;
            let first = layer([width, num_columns], true, true);
            [first, layer([width; 2], true, true), layer([width; 2], true, true), {
                layer([width; 2], true, true)
            }]
        });
        Self { deltas, encoder, norm: maker.norm(width), width }
    }

    fn columns(&self) -> Vec<(usize, &[LinearLayer])> {
        COLUMNS.into_iter().zip(self.encoder.iter().map(|part| &part[..])).collect()
    }

    /// The encoder's outputs side by side.
    fn encoded(&self, boxes: &[f32]) -> Vec<f32> {
        let parts = COLUMNS.iter().zip(&self.encoder).map(|(&first, layers)| {
            let columns = first..first + layers[0].num_inputs();
            let rows = boxes.chunks(BOX_LEN).flat_map(|row| row[columns.clone()].to_vec());
            (layers[0].num_outputs(), reference::<f16>(&rows.collect::<Vec<_>>(), layers))
        });
        let parts: Vec<(usize, Vec<f32>)> = parts.collect();
        let row = |row| parts.iter().flat_map(move |(len, part)| &part[row * len..(row + 1) * len]);
        (0..boxes.len() / BOX_LEN).flat_map(row).copied().collect()
    }
}

fn shifted(layer: &LinearLayer, by: f32, has_norm: bool) -> LinearLayer {
    let sizes = [layer.num_outputs(), layer.num_inputs()];
    let weights = (0..sizes[0] * sizes[1]).map(|at| layer.weight(at / sizes[1], at % sizes[1]));
    let weights: Vec<f32> = weights.collect();
    let by = if has_norm { by } else { 0.0 };
    let bias: Vec<f32> = layer.bias().iter().map(|value| value + by).collect();
    let shifted = LinearLayer::new(sizes, &weights, Some(&bias)).unwrap();
    shifted.with(layer.finish().clone()).unwrap()
}

/// What a launch reads.
struct Input {
    rows: Vec<f32>,
    addend: Vec<f32>,
    summand: Vec<f32>,
    num_rows: usize,
}

impl Input {
    fn new(num_rows: usize, width: usize, shift: f32) -> Self {
        let mut maker = Maker(Random::new(num_rows as u64));
        let rows = maker.values(num_rows * width, 2.0).iter().map(|value| value + shift).collect();
        let addend = maker.values(num_rows * width, 1.0);
        let [rows, addend] = [rows, addend].map(stored::<f16>);
        Self { rows, addend, summand: maker.values(num_rows * BOX_LEN, 3.0), num_rows }
    }

    /// The normalized rows, and the values.
    fn values(&self, layers: &Layers) -> [Vec<f32>; 2] {
        let mut normalized = self.rows.clone();
        layer_norm(RowsMut::new(&mut normalized, layers.width), &layers.norm).unwrap();
        let normalized = stored::<f16>(normalized);
        let sums = normalized.iter().zip(&self.addend).map(|(a, b)| a + b).collect();
        let deltas = reference::<f16>(&stored::<f16>(sums), &layers.deltas);
        let values = deltas.iter().zip(&self.summand).enumerate().map(|(at, (delta, summand))| {
            summand + if at % BOX_LEN >= 8 { delta / INTERVAL } else { *delta }
        });
        let values = values.collect();
        [normalized, values]
    }
}

/// What a launch gives: normalized rows, values, and the encoder's outputs.
fn run(
    stream: &Stream,
    stacks: &FoldedStacks<f16>,
    (layers, has_encoder): (&Layers, bool),
    input: &Input,
) -> [Vec<f32>; 3] {
    let (width, num_rows) = (layers.width, input.num_rows);
    let rows = DeviceRows::<f16>::from_host(stream, &input.rows, width).unwrap();
    let addend = DeviceRows::<f16>::from_host(stream, &input.addend, width).unwrap();
    let [summand, interval] = [&input.summand[..], &[INTERVAL]].map(|of| upload(stream, of));
    let norm = device_norm(stream, &layers.norm).unwrap();
    let mut kept = DeviceRows::<f16>::zeros(stream, num_rows, width).unwrap();
    let mut values = upload(stream, &vec![0.0; num_rows * BOX_LEN]);
    let mut embedded = DeviceRows::<f16>::zeros(stream, num_rows, BEFORE + width + AFTER).unwrap();
    let stack = DeviceStack::new::<f16>(stream, &layers.deltas).unwrap();
    let args = StackArgs {
        norm: norm.input(stream).unwrap(),
        normalized: kept.output(stream).unwrap(),
        normalized_stride: rows.stride(),
        addend: addend.input(stream).unwrap(),
        addend_stride: addend.stride(),
        values: values.output(stream).unwrap(),
        output_stride: BOX_LEN as u32,
        summand: summand.input(stream).unwrap(),
        interval: interval.input(stream).unwrap(),
        first_divided: 8,
        ..stack.of_rows(stream, rows.part(stream).unwrap(), num_rows).unwrap()
    };
    let stride = embedded.stride();
    let output = if has_encoder {
        let [_, output] = embedded.output(stream).unwrap().split_at(BEFORE);
        (output, stride)
    } else {
        (Out::empty(), 0)
    };
    stacks.enqueue(stream, &[args], output).unwrap();
    [kept.read(width).unwrap(), values.read().unwrap(), outputs(&embedded, width)]
}

/// The outputs of an encoder, beside which nothing is written.
fn outputs(embedded: &DeviceRows<f16>, width: usize) -> Vec<f32> {
    let len = BEFORE + width + AFTER;
    let rows = embedded.read(len).unwrap();
    let others =
        |row: &[f32]| row[..BEFORE].iter().chain(&row[BEFORE + width..]).all(|&value| value == 0.0);
    assert!(rows.chunks(len).all(others), "other columns are not written");
    rows.chunks(len).flat_map(|row| row[BEFORE..BEFORE + width].to_vec()).collect()
}

fn near(found: &[f32], expected: &[f32], context: &str) {
    let bound = bound("view/layer_stack", "f16", "share of the largest value").in_unit();
    let share = share(found, expected);
    assert!(share <= bound, "{context}: {share:e}");
}

fn stacks_agree(device: &CudaDevice, [num_rows, width]: [usize; 2], [shift, of_layers]: [f32; 2]) {
    let stream = device.stream().unwrap();
    let layers = Layers::new(width, of_layers);
    let deltas = &layers.deltas[..];
    let Some(both) = FoldedStacks::new(&stream, &[deltas], &layers.columns()).unwrap() else {
        return;
    };
    let single = FoldedStacks::new(&stream, &[deltas], &[]).unwrap().unwrap();
    let input = Input::new(num_rows, width, shift);
    let [normalized, values] = input.values(&layers);
    let context = format!("{num_rows} rows of {width}, means of {shift} and {of_layers}");
    let found = run(&stream, &both, (&layers, true), &input);
    near(&found[0], &normalized, &format!("{context}, normalized rows"));
    near(&found[1], &values, &format!("{context}, values"));
    // Of the boxes that the device has.
    near(&found[2], &layers.encoded(&found[1]), &format!("{context}, encoder"));
    for _ in 0..3 {
        let again = run(&stream, &both, (&layers, true), &input);
        assert!(again == found, "{context}: the same from run to run");
    }
    let [normalized, values, nothing] = run(&stream, &single, (&layers, false), &input);
    assert!([&normalized, &values] == [&found[0], &found[1]], "{context}: without the encoder");
    assert!(nothing.iter().all(|&value| value == 0.0));
}

#[test]
fn stacks_over_rows_and_their_values_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    for sizes in [[1, 256], [8, 96], [37, 256], [41, 96], [512, 256], [900, 256]] {
        stacks_agree(&device, sizes, [0.0; 2]);
    }
    stacks_agree(&device, [23, 256], [30.0, 4.0]);
}

#[test]
fn stacks_over_columns_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let cases = [[1, 256], [8, 96], [37, 256], [512, 96], [900, 256]].map(|sizes| (sizes, 0.0));
    for ([num_rows, width], shift) in cases.into_iter().chain([([77, 256], 4.0)]) {
        let layers = Layers::new(width, shift);
        let Some(stacks) = FoldedStacks::<f16>::new(&stream, &[], &layers.columns()).unwrap()
        else {
            return;
        };
        let boxes = Maker(Random::new(3)).values(num_rows * BOX_LEN, 3.0);
        let columns = upload(&stream, &boxes);
        let len = BEFORE + width + AFTER;
        let found = [0, 1, 2].map(|_| {
            let mut embedded = DeviceRows::<f16>::zeros(&stream, num_rows, len).unwrap();
            let stride = embedded.stride();
            let [_, output] = embedded.output(&stream).unwrap().split_at(BEFORE);
            let columns = (columns.input(&stream).unwrap(), BOX_LEN);
            stacks.enqueue_over_columns(&stream, columns, num_rows, (output, stride)).unwrap();
            outputs(&embedded, width)
        });
        let context = format!("{num_rows} rows to {width}, means of {shift}");
        near(&found[0], &layers.encoded(&boxes), &context);
        assert!(found.iter().all(|other| *other == found[0]), "{context}: from run to run");
    }
}

/// One layer, layers of different widths, and no columns beside them.
#[test]
fn stacks_of_other_widths_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut maker = Maker(Random::new(21));
    let wide = maker.layer::<f16>([200, 64], true, true);
    let narrow = maker.layer::<f16>([56, 200], false, true);
    let last = maker.layer::<f16>([7, 56], false, false);
    let one = maker.layer::<f16>([12, 64], true, false);
    let part = [
        maker.layer::<f16>([72, 2], true, true),
        maker.layer::<f16>([121, 72], false, false),
        maker.layer::<f16>([40, 121], true, false),
    ];
    let rows = stored::<f16>(maker.values(50 * 64, 1.0));
    let of_host = DeviceRows::<f16>::from_host(&stream, &rows, 64).unwrap();
    for layers in [vec![wide, narrow, last], vec![one]] {
        let stacks = FoldedStacks::<f16>::new(&stream, &[&layers], &[(4, &part)]).unwrap();
        let Some(stacks) = stacks else { return };
        let num_values = layers[layers.len() - 1].num_outputs();
        let mut values = DeviceBuffer::<f32>::zeros(&stream, 50 * num_values).unwrap();
        let mut embedded = DeviceRows::<f16>::zeros(&stream, 50, 40).unwrap();
        let stack = DeviceStack::new::<f16>(&stream, &layers).unwrap();
        let args = StackArgs {
            values: values.output(&stream).unwrap(),
            output_stride: num_values as u32,
            ..stack.of_rows(&stream, of_host.part(&stream).unwrap(), 50).unwrap()
        };
        let stride = embedded.stride();
        stacks.enqueue(&stream, &[args], (embedded.output(&stream).unwrap(), stride)).unwrap();
        let values = values.read().unwrap();
        near(&values, &reference::<f16>(&rows, &layers), "values");
        let columns: Vec<f32> =
            values.chunks(num_values).flat_map(|row| [row[4], row[5]]).collect();
        near(&embedded.read(40).unwrap(), &reference::<f16>(&columns, &part), "of columns");
    }
}

/// Deltas, classes and quality as after the last block: the same as each by itself.
#[test]
fn stacks_side_by_side_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let layers = Layers::new(256, 0.0);
    let mut maker = Maker(Random::new(22));
    let mut head = |num_values| {
        let square = [256; 2];
        let hidden = [0, 1].map(|_| maker.layer::<f16>(square, true, true));
        [hidden.to_vec(), vec![maker.layer::<f16>([num_values, 256], false, false)]].concat()
    };
    let [classes, quality] = [10, 2].map(&mut head);
    let stacks = [&layers.deltas[..], &classes, &quality];
    let Some(side_by_side) = FoldedStacks::<f16>::new(&stream, &stacks, &[]).unwrap() else {
        return;
    };
    for num_rows in [1, 37, 900] {
        let input = Input::new(num_rows, 256, 0.0);
        let rows = DeviceRows::<f16>::from_host(&stream, &input.rows, 256).unwrap();
        let addend = DeviceRows::<f16>::from_host(&stream, &input.addend, 256).unwrap();
        let [summand, interval] = [&input.summand[..], &[INTERVAL]].map(|of| upload(&stream, of));
        let norm = device_norm(&stream, &layers.norm).unwrap();
        let packed = stacks.map(|layers| DeviceStack::new::<f16>(&stream, layers).unwrap());
        let mut values = [BOX_LEN, 10, 2].map(|len| upload(&stream, &vec![0.0; num_rows * len]));
        let mut run = |which: std::ops::Range<usize>, folded: &FoldedStacks<f16>| {
            let mut jobs = [StackArgs::empty(); 3];
            for (index, (job, values)) in jobs.iter_mut().zip(&mut values).enumerate() {
                *job = StackArgs {
                    norm: norm.input(&stream).unwrap(),
                    values: values.output(&stream).unwrap(),
                    output_stride: [BOX_LEN, 10, 2][index] as u32,
                    ..packed[index].of_rows(&stream, rows.part(&stream).unwrap(), num_rows).unwrap()
                };
                if index != 1 {
                    job.addend = addend.input(&stream).unwrap();
                    job.addend_stride = addend.stride();
                }
            }
            jobs[0].summand = summand.input(&stream).unwrap();
            jobs[0].interval = interval.input(&stream).unwrap();
            jobs[0].first_divided = 8;
            folded.enqueue(&stream, &jobs[which.clone()], (Out::empty(), 0)).unwrap();
            which.map(|index| values[index].read().unwrap()).collect::<Vec<_>>()
        };
        let found = run(0..3, &side_by_side);
        for (index, layers) in stacks.iter().enumerate() {
            let single = FoldedStacks::new(&stream, &[layers], &[]).unwrap().unwrap();
            let single = run(index..index + 1, &single);
            assert!(single == [found[index].clone()], "stack {index}, {num_rows} rows");
        }
        near(&found[0], &input.values(&layers)[1], "deltas");
        let mut normalized = input.rows.clone();
        layer_norm(RowsMut::new(&mut normalized, 256), &layers.norm).unwrap();
        near(&found[1], &reference::<f16>(&stored::<f16>(normalized), &classes), "classes");
    }
}

#[test]
fn a_nan_stays_in_its_row() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let layers = Layers::new(96, 0.0);
    let columns = layers.columns();
    let Some(stacks) = FoldedStacks::new(&stream, &[&layers.deltas], &columns).unwrap() else {
        return;
    };
    let mut input = Input::new(40, 96, 0.0);
    let clean = run(&stream, &stacks, (&layers, true), &input);
    input.rows[21 * 96 + 7] = f32::NAN;
    let found = run(&stream, &stacks, (&layers, true), &input);
    for ((found, clean), len) in found.iter().zip(&clean).zip([96, BOX_LEN, 96]) {
        for (row, (found, clean)) in found.chunks(len).zip(clean.chunks(len)).enumerate() {
            let is_nan = found.iter().all(|value| value.is_nan());
            assert!(if row == 21 { is_nan } else { found == clean }, "row {row}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let layers = Layers::new(96, 0.0);
    let deltas = &layers.deltas[..];
    let in_f32 = FoldedStacks::<f32>::new(&stream, &[deltas], &layers.columns()).unwrap();
    assert!(in_f32.is_none(), "rows of f32");
    let five = [(0, &layers.encoder[1][..]); 5];
    assert!(FoldedStacks::<f16>::new(&stream, &[], &five).unwrap().is_none());
    let Some(stacks) = FoldedStacks::<f16>::new(&stream, &[deltas], &layers.columns()).unwrap()
    else {
        return;
    };
    let rows = DeviceRows::<f16>::zeros(&stream, 8, 96).unwrap();
    let mut values = upload(&stream, &[0.0; 8 * BOX_LEN]);
    let mut embedded = DeviceRows::<f16>::zeros(&stream, 8, 96).unwrap();
    let stack = DeviceStack::new::<f16>(&stream, &layers.deltas).unwrap();
    let mut enqueue = |num_rows, row_stride, first: usize, stride| {
        let args = StackArgs {
            values: values.output(&stream).unwrap(),
            output_stride: BOX_LEN as u32,
            row_stride,
            ..stack.of_rows(&stream, rows.part(&stream).unwrap(), num_rows).unwrap()
        };
        let [_, output] = embedded.output(&stream).unwrap().split_at(first);
        stacks.enqueue(&stream, &[args], (output, stride))
    };
    enqueue(8, 96, 0, 96).unwrap();
    assert!(enqueue(9, 96, 0, 96).is_err(), "more rows than there are");
    assert!(enqueue(8, 97, 0, 96).is_err(), "rows that are not aligned");
    assert!(enqueue(8, 96, 8, 96).is_err(), "outputs beyond the memory");
    assert!(enqueue(7, 96, 4, 96).is_err(), "outputs that are not aligned");
    assert!(enqueue(0, 96, 0, 96).is_err(), "no rows");
    enqueue(7, 96, 8, 96).unwrap();
    let mut values = upload(&stream, &[0.0; 8 * BOX_LEN]);
    let args = StackArgs {
        values: values.output(&stream).unwrap(),
        output_stride: BOX_LEN as u32,
        ..stack.of_rows(&stream, rows.part(&stream).unwrap(), 8).unwrap()
    };
    let two = FoldedStacks::<f16>::new(&stream, &[deltas; 2], &[]).unwrap().unwrap();
    let nothing = (Out::empty(), 0);
    two.enqueue(&stream, &[args; 2], nothing).unwrap();
    assert!(two.enqueue(&stream, &[args], nothing).is_err(), "a stack is missing");
    let fewer = StackArgs { num_rows: 7, ..args };
    assert!(two.enqueue(&stream, &[args, fewer], nothing).is_err(), "fewer rows");
    let boxes = upload(&stream, &[0.0; 8 * BOX_LEN]);
    let columns = (boxes.input(&stream).unwrap(), BOX_LEN);
    let output = (embedded.output(&stream).unwrap(), 96);
    assert!(stacks.enqueue_over_columns(&stream, columns, 8, output).is_err(), "of rows");
    let encoder = FoldedStacks::<f16>::new(&stream, &[], &layers.columns()).unwrap().unwrap();
    let mut enqueue = |num_rows, stride| {
        let columns = (boxes.input(&stream).unwrap(), stride);
        let output = (embedded.output(&stream).unwrap(), 96);
        encoder.enqueue_over_columns(&stream, columns, num_rows, output)
    };
    enqueue(8, BOX_LEN).unwrap();
    assert!(enqueue(8, BOX_LEN + 1).is_err(), "columns beyond the memory");
    assert!(enqueue(9, 1).is_err(), "outputs beyond the memory");
}
