//! Linear layers with what precedes and follows them, in one launch.

use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer};
use det_post_ops::view::layer_norm::{LayerNorm, layer_norm};
use det_post_ops::view::linear::cuda::{
    DeviceLayer, DeviceRows, Element, FirstPart, JobArgs, LinearKernels, PartArgs, device_norm,
    padded,
};
use det_post_ops::view::linear::{Finish, LinearLayer, linear};
use det_post_ops::view::rows::{Part, Rows, RowsMut};
use half::f16;

use det_post_testing::bounds::bound;
use det_post_testing::random::Random;
use det_post_testing::share;

fn values(random: &mut Random, len: usize, most: f32) -> Vec<f32> {
    (0..len).map(|_| random.range(-most, most)).collect()
}

/// As a device stores them.
fn stored<T: Element>(values: Vec<f32>) -> Vec<f32> {
    values.into_iter().map(|value| T::from_f32(value).to_f32()).collect()
}

/// Two layers over normalized rows, one of them transposed, and one over both parts of an
/// input with a residual, in one launch.
fn layers<T: Element>(device: &CudaDevice, num_rows: usize, num_inputs: usize, bound: f64) {
    let stream = device.stream().unwrap();
    let mut random = Random::new(71);
    let num_outputs = 80;
    let width = padded(num_inputs);
    let rows = stored::<T>(values(&mut random, num_rows * num_inputs, 3.0));
    let more = stored::<T>(values(&mut random, num_rows * 32, 3.0));
    let residual = stored::<T>(values(&mut random, num_rows * num_outputs, 2.0));
    let scale = 1.0 / (num_inputs as f32).sqrt();
    let mut layer = |inputs: usize, finish: Finish| {
        let weights = stored::<T>(values(&mut random, num_outputs * inputs, scale));
        let bias = values(&mut random, num_outputs, 0.5);
        let layer = LinearLayer::new([num_outputs, inputs], &weights, Some(&bias)).unwrap();
        layer.with(finish).unwrap()
    };
    let of_norm = layer(num_inputs, Finish::Relu);
    let transposed = layer(num_inputs, Finish::None);
    let of_both = layer(num_inputs + 32, Finish::None);
    let norm =
        LayerNorm::new(values(&mut random, num_inputs, 1.5), values(&mut random, num_inputs, 0.5))
            .unwrap();

    let mut normalized = rows.clone();
    layer_norm(RowsMut::new(&mut normalized, num_inputs), &norm).unwrap();
    let normalized = stored::<T>(normalized);
    let reference = |layer: &LinearLayer, parts: &[Part<'_>], residuals: &[Rows<'_>]| {
        let mut out = vec![0.0; num_rows * num_outputs];
        let to = RowsMut::new(&mut out, num_outputs);
        linear(parts, layer, residuals, &mut Vec::new(), to).unwrap();
        stored::<T>(out)
    };
    let input = [Part::Of(Rows::new(&normalized, num_inputs))];
    let both = [Part::Of(Rows::new(&rows, num_inputs)), Part::Of(Rows::new(&more, 32))];
    let expected = [
        reference(&of_norm, &input, &[]),
        reference(&transposed, &input, &[]),
        reference(&of_both, &both, &[Rows::new(&residual, num_outputs)]),
    ];

    let device_rows = DeviceRows::<T>::from_host(&stream, &rows, num_inputs).unwrap();
    let device_more = DeviceRows::<T>::from_host(&stream, &more, 32).unwrap();
    let device_residual = DeviceRows::<T>::from_host(&stream, &residual, num_outputs).unwrap();
    let device_norm = device_norm(&stream, &norm).unwrap();
    let [first, second, third] =
        [&of_norm, &transposed, &of_both].map(|l| DeviceLayer::new::<T>(&stream, l).unwrap());
    let kernels = LinearKernels::load(device, (width + 32) as u32, width as u32).unwrap();
    let rows_of = |columns| DeviceRows::<T>::zeros(&stream, num_rows, columns).unwrap();
    let (mut kept, mut a, mut c) =
        (rows_of(num_inputs), rows_of(num_outputs), rows_of(num_outputs));
    let stride = num_rows.next_multiple_of(32);
    let mut b = DeviceBuffer::<T>::zeros(&stream, num_outputs * stride).unwrap();
    let num_columns = num_outputs as u32;
    // The norm covers whole padded rows only where nothing is padded.
    assert_eq!(width, num_inputs);
    for _ in 0..2 {
        let norm = device_norm.input(&stream).unwrap();
        let input = device_rows.part(&stream).unwrap();
        let jobs = [
            JobArgs {
                norm,
                normalized_stride: width as u32,
                normalized: kept.output(&stream).unwrap(),
                has_relu: 1,
                output_stride: num_columns,
                output: a.output(&stream).unwrap(),
                ..first.job(&stream, input, num_rows).unwrap()
            },
            JobArgs {
                norm,
                is_transposed: 1,
                output_stride: stride as u32,
                output: b.output(&stream).unwrap(),
                ..second.job(&stream, input, num_rows).unwrap()
            },
            JobArgs {
                parts: [input, device_more.part(&stream).unwrap(), PartArgs::empty()],
                residual: device_residual.input(&stream).unwrap(),
                residual_stride: num_columns,
                output_stride: num_columns,
                output: c.output(&stream).unwrap(),
                ..third.job(&stream, input, num_rows).unwrap()
            },
        ];
        kernels.enqueue(&stream, &jobs).unwrap();
    }
    let b = b.read().unwrap();
    let rows = 0..num_rows;
    let columns = |row: usize| (0..num_outputs).map(move |column| column * stride + row);
    let b: Vec<f32> = rows.flat_map(columns).map(|at| b[at].to_f32()).collect();
    let found = [a.read(num_outputs).unwrap(), b, c.read(num_outputs).unwrap()];
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let share = share(found, expected);
        assert!(share <= bound, "layer {index} of {num_inputs}, {num_rows} rows: {share:e}");
    }
    let share = share(&kept.read(num_inputs).unwrap(), &normalized);
    assert!(share <= bound, "{num_inputs} normalized, {num_rows} rows: {share:e}");
}

#[test]
fn layers_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    // One row, a part of a tile, tiles of 16, 32 and 64 rows; inputs in one chunk and several.
    for (num_rows, num_inputs) in
        [(1, 16), (5, 64), (37, 256), (300, 256), (2100, 64), (6000, 96), (50, 512)]
    {
        let bound = |part| bound("view/linear", part, "share of the largest value").in_unit();
        layers::<f32>(&device, num_rows, num_inputs, bound("f32"));
        layers::<f16>(&device, num_rows, num_inputs, bound("f16"));
    }
}

/// Layers as those of a Sparse4D block: over a normalized part, with rows added to it and kept or
/// not, in one launch; over several parts, as rows and transposed.
fn folded_layers(device: &CudaDevice, num_rows: usize, num_inputs: usize, num_more: usize) {
    let bound = bound("view/linear", "f16", "share of the largest value").in_unit();
    let stream = device.stream().unwrap();
    let mut random = Random::new(73);
    let [num_wide, num_values] = [208, 21];
    let mut rows =
        |columns: usize, most| stored::<f16>(values(&mut random, num_rows * columns, most));
    let [first, addend, more] =
        [num_inputs, num_inputs, num_more].map(|columns| rows(columns, 3.0));
    let mut layer = |outputs: usize, inputs: usize, finish| {
        let scale = 1.0 / (inputs as f32).sqrt();
        let weights = stored::<f16>(values(&mut random, outputs * inputs, scale));
        let bias = values(&mut random, outputs, 0.5);
        let layer = LinearLayer::new([outputs, inputs], &weights, Some(&bias)).unwrap();
        layer.with(finish).unwrap()
    };
    let wide = layer(num_wide, num_inputs, Finish::Relu);
    let narrow = layer(num_values, num_inputs, Finish::None);
    let of_parts = layer(num_wide, num_inputs + num_more, Finish::None);
    let gamma = values(&mut random, num_inputs, 1.5);
    let norm = LayerNorm::new(gamma, values(&mut random, num_inputs, 0.5)).unwrap();

    let mut normalized = first.clone();
    layer_norm(RowsMut::new(&mut normalized, num_inputs), &norm).unwrap();
    let reference = |layer: &LinearLayer, parts: &[Part<'_>]| {
        let mut out = vec![0.0; num_rows * layer.num_outputs()];
        let to = RowsMut::new(&mut out, layer.num_outputs());
        linear(parts, layer, &[], &mut Vec::new(), to).unwrap();
        out
    };
    let added: Vec<f32> = normalized.iter().zip(&addend).map(|(a, b)| a + b).collect();
    let expected_wide = reference(&wide, &[Part::Of(Rows::new(&added, num_inputs))]);
    let expected_narrow = reference(&narrow, &[Part::Of(Rows::new(&normalized, num_inputs))]);
    let parts = [Part::Of(Rows::new(&first, num_inputs)), Part::Of(Rows::new(&more, num_more))];
    let expected_parts = reference(&of_parts, &parts);

    let on_device =
        |values: &[f32], columns| DeviceRows::<f16>::from_host(&stream, values, columns).unwrap();
    let device_first = on_device(&first, num_inputs);
    let device_addend = on_device(&addend, num_inputs);
    let device_more = on_device(&more, num_more);
    let device_norm = device_norm(&stream, &norm).unwrap();
    let fold = |layer, first| DeviceLayer::folded::<f16>(&stream, layer, first).unwrap();
    let of_norm = |has_addend| Some(FirstPart { norm: &norm, has_addend });
    let [wide, narrow] = [fold(&wide, of_norm(true)), fold(&narrow, of_norm(false))];
    let of_parts = fold(&of_parts, None);
    let most = (num_inputs + num_more) as u32;
    let kernels = LinearKernels::load(device, most, num_inputs as u32).unwrap();
    let rows_of = |columns| DeviceRows::<f16>::zeros(&stream, num_rows, columns).unwrap();
    let (mut kept, mut to_wide, mut to_parts) =
        (rows_of(num_inputs), rows_of(num_wide), rows_of(num_wide));
    let mut to_values = DeviceBuffer::<f32>::zeros(&stream, num_rows * num_values).unwrap();
    let stride = num_rows.next_multiple_of(32);
    let mut transposed = DeviceBuffer::<f16>::zeros(&stream, num_wide * stride).unwrap();
    let mut before = None;
    for _ in 0..20 {
        let norm = device_norm.input(&stream).unwrap();
        let input = device_first.part(&stream).unwrap();
        let of_wide = JobArgs {
            norm,
            normalized_stride: num_inputs as u32,
            normalized: kept.output(&stream).unwrap(),
            addend: device_addend.input(&stream).unwrap(),
            has_relu: 1,
            output_stride: num_wide as u32,
            output: to_wide.output(&stream).unwrap(),
            ..wide.job(&stream, input, num_rows).unwrap()
        };
        let of_narrow = JobArgs {
            norm,
            values: to_values.output(&stream).unwrap(),
            values_stride: num_values as u32,
            num_values: num_values as u32,
            ..narrow.job(&stream, input, num_rows).unwrap()
        };
        let parts = [input, device_more.part(&stream).unwrap(), PartArgs::empty()];
        let rows = JobArgs {
            parts,
            output_stride: num_wide as u32,
            output: to_parts.output(&stream).unwrap(),
            ..of_parts.job(&stream, input, num_rows).unwrap()
        };
        let columns = JobArgs {
            parts,
            is_transposed: 1,
            output_stride: stride as u32,
            output: transposed.output(&stream).unwrap(),
            ..of_parts.job(&stream, input, num_rows).unwrap()
        };
        let launches: [&[(JobArgs<'_, f16>, &DeviceLayer)]; 3] = [
            &[(of_narrow, &narrow), (of_wide, &wide)],
            &[(rows, &of_parts)],
            &[(columns, &of_parts)],
        ];
        for jobs in launches {
            let folded = kernels.enqueue_folded(&stream, jobs).unwrap();
            assert_eq!(folded, kernels.has_folded(), "{num_rows} rows of {num_inputs}");
        }
        let found = (
            to_wide.read(num_wide).unwrap(),
            to_values.read().unwrap(),
            to_parts.read(num_wide).unwrap(),
            transposed.read().unwrap(),
            kept.read(num_inputs).unwrap(),
        );
        assert!(before.as_ref().is_none_or(|before| *before == found), "runs differ");
        before = Some(found);
    }
    let (wide, values, parts, transposed, kept) = before.unwrap();
    let columns = |row: usize| (0..num_wide).map(move |column| column * stride + row);
    let transposed: Vec<f32> =
        (0..num_rows).flat_map(columns).map(|at| transposed[at].to_f32()).collect();
    let shares = [
        ("over the sum", share(&wide, &expected_wide)),
        ("values", share(&values, &expected_narrow)),
        ("parts", share(&parts, &expected_parts)),
        ("transposed", share(&transposed, &expected_parts)),
        ("normalized", share(&kept, &normalized)),
    ];
    for (name, share) in shares {
        assert!(share <= bound, "{name} of {num_inputs}, {num_rows} rows: {share:e}");
    }
}

#[test]
fn folded_layers_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    // A row, parts of a block, blocks of 64 and of 128 columns; the inputs of several parts in two blocks of
    // a cluster where there are 512 and more.
    for (num_rows, num_inputs, num_more) in [
        (1, 64, 96),
        (37, 256, 256),
        (512, 256, 128),
        (300, 256, 768),
        (900, 256, 256),
        (2100, 256, 256),
    ] {
        folded_layers(&device, num_rows, num_inputs, num_more);
    }
}

/// Queries, keys and values of so many rows that blocks compute values after queries.
#[test]
fn layers_of_the_same_rows_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let bound = bound("view/linear", "f16", "share of the largest value").in_unit();
    let stream = device.stream().unwrap();
    let mut random = Random::new(74);
    let [num_rows, num_inputs, num_outputs] = [900, 256, 496];
    let mut rows = || stored::<f16>(values(&mut random, num_rows * num_inputs, 3.0));
    let [first, more] = [rows(), rows()];
    let layers = [2 * num_inputs, 2 * num_inputs, num_inputs].map(|inputs| {
        let scale = 1.0 / (inputs as f32).sqrt();
        let weights = stored::<f16>(values(&mut random, num_outputs * inputs, scale));
        let bias = values(&mut random, num_outputs, 0.5);
        LinearLayer::new([num_outputs, inputs], &weights, Some(&bias)).unwrap()
    });
    let expected = layers.each_ref().map(|layer| {
        let parts = [&first, &more].map(|part| Part::Of(Rows::new(part, num_inputs)));
        let mut out = vec![0.0; num_rows * num_outputs];
        let to = RowsMut::new(&mut out, num_outputs);
        let num_parts = layer.num_inputs() / num_inputs;
        linear(&parts[..num_parts], layer, &[], &mut Vec::new(), to).unwrap();
        out
    });
    let layers =
        layers.each_ref().map(|layer| DeviceLayer::folded::<f16>(&stream, layer, None).unwrap());
    let kernels = LinearKernels::load(&device, 2 * num_inputs as u32, num_inputs as u32).unwrap();
    let [first, more] = [&first, &more]
        .map(|rows| DeviceRows::<f16>::from_host(&stream, rows, num_inputs).unwrap());
    let mut queries = DeviceRows::<f16>::zeros(&stream, num_rows, num_outputs).unwrap();
    let mut keys = DeviceRows::<f16>::zeros(&stream, num_rows, num_outputs).unwrap();
    let stride = num_rows.next_multiple_of(16);
    let mut transposed = DeviceBuffer::<f16>::zeros(&stream, num_outputs * stride).unwrap();
    let mut before = None;
    for _ in 0..20 {
        let input = first.part(&stream).unwrap();
        let parts = [input, more.part(&stream).unwrap(), PartArgs::empty()];
        let job = |layer: usize, output| JobArgs {
            parts,
            output_stride: num_outputs as u32,
            output,
            ..layers[layer].job(&stream, input, num_rows).unwrap()
        };
        let of_values = JobArgs {
            is_transposed: 1,
            output_stride: stride as u32,
            output: transposed.output(&stream).unwrap(),
            ..layers[2].job(&stream, input, num_rows).unwrap()
        };
        let jobs = [
            (job(0, queries.output(&stream).unwrap()), &layers[0]),
            (job(1, keys.output(&stream).unwrap()), &layers[1]),
            (of_values, &layers[2]),
        ];
        let folded = kernels.enqueue_folded(&stream, &jobs).unwrap();
        assert_eq!(folded, kernels.has_folded());
        let found = (
            queries.read(num_outputs).unwrap(),
            keys.read(num_outputs).unwrap(),
            transposed.read().unwrap(),
        );
        assert!(before.as_ref().is_none_or(|before| *before == found), "runs differ");
        before = Some(found);
    }
    let (queries, keys, transposed) = before.unwrap();
    let columns = |row: usize| (0..num_outputs).map(move |column| column * stride + row);
    let transposed: Vec<f32> =
        (0..num_rows).flat_map(columns).map(|at| transposed[at].to_f32()).collect();
    for (found, expected) in [queries, keys, transposed].iter().zip(&expected) {
        let share = share(found, expected);
        assert!(share <= bound, "{share:e}");
    }
}

#[test]
fn a_nan_stays_in_its_row() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut random = Random::new(72);
    let mut rows = values(&mut random, 40 * 64, 1.0);
    rows[17 * 64 + 9] = f32::NAN;
    let weights = values(&mut random, 32 * 64, 0.2);
    let layer = LinearLayer::new([32, 64], &weights, None).unwrap();
    let layer = DeviceLayer::new::<f16>(&stream, &layer).unwrap();
    let kernels = LinearKernels::<f16>::load(&device, 64, 64).unwrap();
    let input = DeviceRows::from_host(&stream, &rows, 64).unwrap();
    let mut out = DeviceRows::zeros(&stream, 40, 32).unwrap();
    let job = JobArgs {
        has_relu: 1,
        output_stride: 32,
        output: out.output(&stream).unwrap(),
        ..layer.job(&stream, input.part(&stream).unwrap(), 40).unwrap()
    };
    kernels.enqueue(&stream, &[job]).unwrap();
    for (row, found) in out.read(32).unwrap().chunks_exact(32).enumerate() {
        assert!(found.iter().all(|value| value.is_nan() == (row == 17)), "{row}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let layer = LinearLayer::new([32, 64], &[0.5; 32 * 64], None).unwrap();
    let layer = DeviceLayer::new::<f32>(&stream, &layer).unwrap();
    let kernels = LinearKernels::<f32>::load(&device, 64, 64).unwrap();
    let input = DeviceRows::<f32>::zeros(&stream, 10, 64).unwrap();
    let narrow = DeviceRows::<f32>::zeros(&stream, 10, 32).unwrap();
    let mut out = DeviceRows::<f32>::zeros(&stream, 10, 32).unwrap();
    let part = input.part(&stream).unwrap();
    let output = out.output(&stream).unwrap();
    let job = |part, num_rows| JobArgs {
        output_stride: 32,
        output,
        ..layer.job(&stream, part, num_rows).unwrap()
    };
    kernels.enqueue(&stream, &[job(part, 10)]).unwrap();
    for (job, message) in [
        (job(part, 11), "first part has 640 values, at least 704 required"),
        (JobArgs { output_stride: 48, ..job(part, 10) }, "output has 320 values"),
        (JobArgs { num_outputs: 48, ..job(part, 10) }, "weights has 8192 values"),
        (JobArgs { norm: part.rows, ..job(part, 10) }, "norms of 640"),
        (job(narrow.part(&stream).unwrap(), 0), "0 rows"),
    ] {
        let error = kernels.enqueue(&stream, &[job]).unwrap_err();
        assert!(error.message().contains(message), "{error}");
    }
    assert!(kernels.enqueue(&stream, &[job(part, 10); 5]).is_err());
}
