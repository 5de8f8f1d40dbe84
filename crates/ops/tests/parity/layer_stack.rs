//! Stacks of layers, with what precedes and follows them, in one launch.

use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, Stream};
use det_post_ops::view::layer_norm::{LayerNorm, layer_norm};
use det_post_ops::view::layer_stack::Workspace;
use det_post_ops::view::layer_stack::cuda::{
    DeviceStack, MAX_JOBS, StackArgs, StackElement, StackKernel,
};
use det_post_ops::view::linear::cuda::{DeviceRows, device_norm};
use det_post_ops::view::linear::{Finish, LinearLayer};
use det_post_ops::view::rows::{Part, Rows, RowsMut};
use half::f16;

use det_post_testing::bounds::bound;
use det_post_testing::random::Random;
use det_post_testing::share;

pub struct Maker(pub Random);

impl Maker {
    pub fn values(&mut self, len: usize, most: f32) -> Vec<f32> {
        (0..len).map(|_| self.0.range(-most, most)).collect()
    }

    pub fn norm(&mut self, len: usize) -> LayerNorm {
        let gamma = self.values(len, 0.5).iter().map(|v| v + 1.0).collect();
        LayerNorm::new(gamma, self.values(len, 0.5)).unwrap()
    }

    /// Weights that a device stores exactly.
    pub fn layer<T: StackElement>(
        &mut self,
        [num_outputs, num_inputs]: [usize; 2],
        has_relu: bool,
        has_norm: bool,
    ) -> LinearLayer {
        let scale = 1.5 / (num_inputs as f32).sqrt();
        let weights = stored::<T>(self.values(num_outputs * num_inputs, scale));
        let bias = self.values(num_outputs, 0.5);
        let finish = match (has_relu, has_norm) {
            (false, false) => Finish::None,
            (true, false) => Finish::Relu,
            (false, true) => Finish::Norm(self.norm(num_outputs)),
            (true, true) => Finish::ReluNorm(self.norm(num_outputs)),
        };
        let layer = LinearLayer::new([num_outputs, num_inputs], &weights, Some(&bias)).unwrap();
        layer.with(finish).unwrap()
    }
}

/// As a device stores them.
pub fn stored<T: StackElement>(values: Vec<f32>) -> Vec<f32> {
    values.into_iter().map(|value| T::from_f32(value).to_f32()).collect()
}

/// Through one layer after another, each result rounded to what a device stores.
pub fn reference<T: StackElement>(rows: &[f32], layers: &[LinearLayer]) -> Vec<f32> {
    let mut rows = rows.to_vec();
    for (index, layer) in layers.iter().enumerate() {
        let num_inputs = layer.num_inputs();
        let mut out = vec![0.0; rows.len() / num_inputs * layer.num_outputs()];
        let to = RowsMut::new(&mut out, layer.num_outputs());
        let input = Part::Of(Rows::new(&rows, num_inputs));
        Workspace::default().run(input, std::slice::from_ref(layer), to).unwrap();
        rows = if index + 1 < layers.len() { stored::<T>(out) } else { out };
    }
    rows
}

pub fn upload(stream: &Stream, values: &[f32]) -> DeviceBuffer<f32> {
    let mut buffer = DeviceBuffer::zeros(stream, values.len()).unwrap();
    buffer.write(values).unwrap();
    buffer
}

/// A stack over normalized rows whose f32 outputs are divided and added to others, one over
/// the same rows and an addend, and one over columns of f32, of different lengths.
fn stacks<T: StackElement>(device: &CudaDevice, [num_rows, width]: [usize; 2], bound: f64) {
    let stream = device.stream().unwrap();
    let mut maker = Maker(Random::new(3));
    let rows = stored::<T>(maker.values(num_rows * width, 2.0));
    let addend = stored::<T>(maker.values(num_rows * width, 1.0));
    let columns = maker.values(num_rows * 11, 3.0);
    let summand = maker.values(num_rows * 11, 5.0);
    let norm = maker.norm(width);
    let square = [width; 2];
    let deltas = [
        maker.layer::<T>(square, true, false),
        maker.layer::<T>(square, true, true),
        maker.layer::<T>([40, width], true, false),
        maker.layer::<T>([width, 40], true, true),
        maker.layer::<T>([11, width], false, false),
    ];
    // Wider than what may lie between two layers.
    let wide = [maker.layer::<T>(square, true, true), maker.layer::<T>([416, width], false, false)];
    let of_columns = [
        maker.layer::<T>([6, 3], true, true),
        maker.layer::<T>([20, 6], true, true),
        maker.layer::<T>([20, 20], true, true),
    ];

    let mut normalized = rows.clone();
    layer_norm(RowsMut::new(&mut normalized, width), &norm).unwrap();
    let normalized = stored::<T>(normalized);
    let sums = normalized.iter().zip(&addend).map(|(a, b)| a + b).collect();
    let interval = 0.25;
    let moved = reference::<T>(&stored::<T>(sums), &deltas);
    let moved = moved.iter().zip(&summand).enumerate().map(|(at, (delta, summand))| {
        summand + if at % 11 >= 8 { delta / interval } else { *delta }
    });
    let first_columns: Vec<f32> = columns.chunks(11).flat_map(|row| row[3..6].to_vec()).collect();
    let expected = [
        moved.collect(),
        reference::<T>(&normalized, &wide),
        stored::<T>(reference::<T>(&first_columns, &of_columns)),
    ];

    let device_rows = DeviceRows::<T>::from_host(&stream, &rows, width).unwrap();
    let device_addend = DeviceRows::<T>::from_host(&stream, &addend, width).unwrap();
    let [columns, summand, interval] =
        [&columns[..], &summand, &[interval]].map(|values| upload(&stream, values));
    let norm = device_norm(&stream, &norm).unwrap();
    let deltas = DeviceStack::new::<T>(&stream, &deltas).unwrap();
    let wide = DeviceStack::new::<T>(&stream, &wide).unwrap();
    let of_columns = DeviceStack::of_columns::<T>(&stream, &of_columns).unwrap();
    let kernel = StackKernel::load(device).unwrap();
    let mut kept = DeviceRows::<T>::zeros(&stream, num_rows, width).unwrap();
    let mut outputs = [11, 416].map(|len| upload(&stream, &vec![0.0; num_rows * len]));
    let mut embedded = DeviceRows::<T>::zeros(&stream, num_rows, 48).unwrap();
    let mut found = Vec::new();
    for _ in 0..3 {
        let input = device_rows.part(&stream).unwrap();
        let norm = norm.input(&stream).unwrap();
        let [moved, logits] = &mut outputs;
        let output = embedded.output(&stream).unwrap();
        let jobs = [
            StackArgs {
                norm,
                normalized: kept.output(&stream).unwrap(),
                normalized_stride: device_rows.stride(),
                addend: device_addend.input(&stream).unwrap(),
                addend_stride: device_addend.stride(),
                values: moved.output(&stream).unwrap(),
                output_stride: 11,
                summand: summand.input(&stream).unwrap(),
                interval: interval.input(&stream).unwrap(),
                first_divided: 8,
                ..deltas.of_rows(&stream, input, num_rows).unwrap()
            },
            StackArgs {
                norm,
                values: logits.output(&stream).unwrap(),
                output_stride: 416,
                ..wide.of_rows(&stream, input, num_rows).unwrap()
            },
            // Beside other columns of the rows.
            StackArgs {
                output: output.split_at(10)[1],
                output_stride: 48,
                ..of_columns
                    .over_columns(&stream, (columns.input(&stream).unwrap(), 11), 3, num_rows)
                    .unwrap()
            },
        ];
        kernel.enqueue(&stream, &jobs).unwrap();
        let rows = embedded.read(48).unwrap();
        let beside: Vec<f32> = rows.chunks(48).flat_map(|row| row[10..30].to_vec()).collect();
        let others =
            rows.chunks(48).all(|row| row[..10].iter().chain(&row[30..]).all(|v| *v == 0.0));
        assert!(others, "other columns are not written");
        let again = [outputs[0].read().unwrap(), outputs[1].read().unwrap(), beside];
        assert!(found.is_empty() || found == again, "the same from run to run");
        found = again.to_vec();
    }
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let share = share(found, expected);
        assert!(share <= bound, "stack {index}, {num_rows} rows of {width}: {share:e}");
    }
    let share = share(&kept.read(width).unwrap(), &normalized);
    assert!(share <= bound, "normalized rows: {share:e}");
}

#[test]
fn stacks_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let of_element = |part| bound("view/layer_stack", part, "share of the largest value").in_unit();
    for sizes in [[1, 16], [15, 64], [16, 96], [17, 256], [500, 128], [901, 256]] {
        stacks::<f32>(&device, sizes, of_element("f32"));
        stacks::<f16>(&device, sizes, of_element("f16"));
    }
}

#[test]
fn a_nan_stays_in_its_row() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut maker = Maker(Random::new(9));
    let layers =
        [maker.layer::<f16>([32, 32], true, true), maker.layer::<f16>([5, 32], false, false)];
    let stack = DeviceStack::new::<f16>(&stream, &layers).unwrap();
    let kernel = StackKernel::load(&device).unwrap();
    let mut rows = maker.values(40 * 32, 1.0);
    rows[32 * 21 + 7] = f32::NAN;
    let rows = DeviceRows::<f16>::from_host(&stream, &rows, 32).unwrap();
    let mut values = upload(&stream, &[0.0; 40 * 5]);
    let job = StackArgs {
        values: values.output(&stream).unwrap(),
        output_stride: 5,
        ..stack.of_rows(&stream, rows.part(&stream).unwrap(), 40).unwrap()
    };
    kernel.enqueue(&stream, &[job]).unwrap();
    for (row, values) in values.read().unwrap().chunks(5).enumerate() {
        assert!(values.iter().all(|value| value.is_nan() == (row == 21)), "row {row}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut maker = Maker(Random::new(4));
    let mut layer = |sizes, relu, norm| maker.layer::<f32>(sizes, relu, norm);
    let square = [layer([32, 32], true, false), layer([32, 32], false, false)];
    let six = vec![square[0].clone(); 6];
    let error = DeviceStack::new::<f32>(&stream, &six).unwrap_err();
    assert!(error.message().contains("1 to 5"), "{error}");
    assert!(DeviceStack::new::<f32>(&stream, &[]).is_err());
    assert!(DeviceStack::of_columns::<f32>(&stream, &square).is_err(), "no normalization");
    let columns = [layer([16, 13], true, true), layer([16, 16], false, false)];
    let error = DeviceStack::of_columns::<f32>(&stream, &columns).unwrap_err();
    assert!(error.message().contains("13 columns; it must have at most 12"), "{error}");

    let kernel = StackKernel::<f32>::load(&device).unwrap();
    let rows = DeviceRows::<f32>::zeros(&stream, 8, 32).unwrap();
    let stack = DeviceStack::new::<f32>(&stream, &square).unwrap();
    let mut values = upload(&stream, &[0.0; 8 * 32]);
    let mut enqueue = |num_rows, copies: usize, stride| {
        let input = rows.part(&stream).unwrap();
        let job = StackArgs {
            values: values.output(&stream).unwrap(),
            output_stride: stride,
            ..stack.of_rows(&stream, input, num_rows).unwrap()
        };
        kernel.enqueue(&stream, &vec![job; copies])
    };
    enqueue(8, 1, 32).unwrap();
    assert!(enqueue(9, 1, 32).is_err(), "more rows than there are");
    assert!(enqueue(8, 1, 33).is_err(), "outputs beyond the memory");
    assert!(enqueue(8, MAX_JOBS + 1, 32).is_err());
    // Between two layers there are at most 256 channels.
    let wide = [layer([272, 32], true, false), layer([16, 272], false, false)];
    let wide = DeviceStack::new::<f32>(&stream, &wide).unwrap();
    let job = StackArgs {
        values: values.output(&stream).unwrap(),
        output_stride: 16,
        ..wide.of_rows(&stream, rows.part(&stream).unwrap(), 8).unwrap()
    };
    assert!(kernel.enqueue(&stream, &[job]).is_err());
}
