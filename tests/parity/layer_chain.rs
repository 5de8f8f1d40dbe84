//! Layers that follow each other in chains. Only GPUs of compute capability 9.0 have any.

use det_post::device::cuda::{CudaDevice, DeviceBuffer};
use det_post::ops::layer_chain::cuda::{ChainLayer, LayerChain, Steps};
use det_post::ops::layer_norm::LayerNorm;
use det_post::ops::layer_stack::Workspace;
use det_post::ops::linear::cuda::DeviceRows;
use det_post::ops::linear::{Finish, LinearLayer};
use det_post::ops::rows::{Part, Rows, RowsMut};
use half::f16;

use super::bound;
use super::linear::share;
use super::random::Random;

/// As a device stores them.
fn stored(values: Vec<f32>) -> Vec<f32> {
    values.into_iter().map(|value| f16::from_f32(value).to_f32()).collect()
}

fn values(random: &mut Random, len: usize, most: f32) -> Vec<f32> {
    stored((0..len).map(|_| random.range(-most, most)).collect())
}

fn layer(random: &mut Random, [outputs, inputs]: [usize; 2], finish: u32) -> LinearLayer {
    let weights = values(random, outputs * inputs, 1.5 / (inputs as f32).sqrt());
    let bias = values(random, outputs, 0.5);
    let gamma = values(random, outputs, 0.5).iter().map(|value| value + 1.0).collect();
    let norm = LayerNorm::new(gamma, values(random, outputs, 0.5)).unwrap();
    let finish = match finish {
        0 => Finish::None,
        1 => Finish::Relu,
        2 => Finish::Norm(norm),
        _ => Finish::ReluNorm(norm),
    };
    LinearLayer::new([outputs, inputs], &weights, Some(&bias)).unwrap().with(finish).unwrap()
}

/// A layer over parts of rows side by side.
fn through(parts: &[(&[f32], usize)], layer: &LinearLayer) -> Vec<f32> {
    let num_rows = parts[0].0.len() / parts[0].1;
    let rows = (0..num_rows).flat_map(|row| {
        parts.iter().flat_map(move |(values, len)| values[row * len..(row + 1) * len].to_vec())
    });
    let rows: Vec<f32> = rows.collect();
    let mut out = vec![0.0; num_rows * layer.num_outputs()];
    let to = RowsMut::new(&mut out, layer.num_outputs());
    let input = Part::Of(Rows::new(&rows, layer.num_inputs()));
    Workspace::default().run(input, std::slice::from_ref(layer), to).unwrap();
    out
}

/// Layers of every width: over rows that are read, over results and their sums with other rows; to
/// rows, to a row per output and in f32, those of fewer rows among them.
fn chain(device: &CudaDevice, num_rows: usize) {
    let stream = device.stream().unwrap();
    let Some(kernel) = LayerChain::load(device, num_rows).unwrap() else { return };
    let mut random = Random::new(31);
    let wide = values(&mut random, num_rows * 512, 2.0);
    let narrow = values(&mut random, num_rows * 256, 2.0);
    let layers = [([256, 768], 2), ([1024, 512], 1), ([256, 1024], 3), ([416, 256], 0)];
    let [first, hidden, second, logits] =
        layers.map(|(sizes, finish)| layer(&mut random, sizes, finish));
    let [rotated, deltas] = [[512, 512], [18, 256]].map(|sizes| layer(&mut random, sizes, 0));
    let few = num_rows.div_ceil(2);

    let firsts = stored(through(&[(&wide[..], 512), (&narrow[..], 256)], &first));
    let sums = stored(firsts.iter().zip(&narrow).map(|(a, b)| a + b).collect());
    let hiddens = stored(through(&[(&narrow[..], 256), (&firsts[..], 256)], &hidden));
    let seconds = stored(through(&[(&hiddens[..], 1024)], &second));
    let expected_logits = through(&[(&sums[..], 256)], &logits);
    let expected_deltas = through(&[(&seconds[..], 256)], &deltas);
    // The second half of the inputs is before the first in the columns.
    let columns = through(&[(&firsts[..], 256), (&narrow[..], 256)], &rotated);

    let wide = DeviceRows::<f16>::from_host(&stream, &wide, 512).unwrap();
    let narrow = DeviceRows::<f16>::from_host(&stream, &narrow, 256).unwrap();
    let packed = [&first, &hidden, &second, &logits, &deltas]
        .map(|layer| ChainLayer::new(&stream, layer).unwrap());
    let rotated = ChainLayer::rotated(&stream, &rotated, 256).unwrap();
    let [first, hidden, second, logits, deltas] = &packed;
    let mut kept = DeviceRows::<f16>::zeros(&stream, num_rows, 256).unwrap();
    let mut to_rows = DeviceRows::<f16>::zeros(&stream, num_rows, 416).unwrap();
    let stride = num_rows.next_multiple_of(32);
    let mut to_columns = DeviceBuffer::<f16>::zeros(&stream, 512 * stride).unwrap();
    let mut to_values = DeviceBuffer::<f32>::zeros(&stream, num_rows * 18).unwrap();
    let mut results = Vec::new();
    for _ in 0..3 {
        let mut steps = Steps::new(&stream, num_rows);
        steps.load(&wide, 0, num_rows).unwrap();
        steps.load(&narrow, 512, num_rows).unwrap();
        let mut after = steps.share(first, 0, 768).unwrap();
        after.keep(&mut kept, num_rows).unwrap();
        after.add(512, 256);
        steps.share(hidden, 512, 1024).unwrap();
        steps.rows(logits, 256, &mut to_rows, few).unwrap();
        let transposed = (to_columns.output(&stream).unwrap(), stride);
        steps.columns(&rotated, 512, transposed, few).unwrap();
        steps.share(second, 1024, 0).unwrap();
        steps.values(deltas, 0, (to_values.output(&stream).unwrap(), 18)).unwrap();
        kernel.enqueue(&steps).unwrap();
        let transposed = to_columns.read().unwrap();
        let transposed = (0..few).flat_map(|row| {
            transposed[row..].iter().step_by(stride).take(512).map(|value| value.to_f32())
        });
        results.push([
            kept.read(256).unwrap(),
            to_rows.read(416).unwrap()[..few * 416].to_vec(),
            transposed.collect(),
            to_values.read().unwrap(),
        ]);
    }
    let bound = bound("layer_chain", "f16", "share of the largest value").in_unit();
    let expected = [
        firsts,
        expected_logits[..few * 416].to_vec(),
        columns[..few * 512].to_vec(),
        expected_deltas,
    ];
    for (index, (found, expected)) in results[0].iter().zip(&expected).enumerate() {
        let share = share(found, expected);
        assert!(share <= bound, "{num_rows} rows, result {index}: {share:e}");
    }
    assert!(results.iter().all(|result| *result == results[0]), "equal from run to run");
    let beyond = to_rows.read(416).unwrap();
    assert!(beyond[few * 416..].iter().all(|&value| value == 0.0), "rows beyond are not written");
}

#[test]
fn chains_of_few_rows_agree_with_their_layers() {
    let Some(device) = super::gpu() else { return };
    for num_rows in [1, 37] {
        chain(&device, num_rows);
    }
}

#[test]
fn chains_of_many_rows_agree_with_their_layers() {
    let Some(device) = super::gpu() else { return };
    // Clusters of 24 and 32 rows on a large GPU, the last cluster not full.
    for num_rows in [500, 900] {
        chain(&device, num_rows);
    }
}

#[test]
fn steps_out_of_order_are_refused() {
    let Some(device) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    let Some(kernel) = LayerChain::load(&device, 8).unwrap() else { return };
    let layer = layer(&mut Random::new(5), [256, 512], 0);
    let layer = ChainLayer::new(&stream, &layer).unwrap();
    let rows = DeviceRows::<f16>::zeros(&stream, 8, 512).unwrap();
    let mut steps = Steps::new(&stream, 8);
    steps.load(&rows, 0, 8).unwrap();
    steps.share(&layer, 0, 256).unwrap();
    let error = kernel.enqueue(&steps).unwrap_err();
    assert!(error.message().contains("replaces the columns 256..512"), "{error}");

    // Rows that are read later are there once results have been normalized, kept or added.
    let mut steps = Steps::new(&stream, 8);
    steps.load(&rows, 0, 8).unwrap();
    steps.load_later(&rows, 512, 8).unwrap();
    steps.share(&layer, 0, 1024).unwrap();
    steps.share(&layer, 512, 1280).unwrap();
    let error = kernel.enqueue(&steps).unwrap_err();
    assert!(error.message().contains("reads the columns 512..1024 too early"), "{error}");
}
