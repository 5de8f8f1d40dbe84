//! Layers of 32-bit floats among layers of 16-bit floats, on a GPU as on the CPU: copies between
//! them, readers and writers of both; and what a study says.

use det_post_infer::Engine;
use det_post_infer::dense::{DenseEngine, PlanOptions};
use det_post_infer::device::{DeviceEngine, fixed_shape};
use det_post_ops::device::cuda::{DeviceValues, Stream};
use det_post_testing::gpu;
use det_post_testing::onnx::Graph;
use det_post_testing::precision_networks::{cases, overflowing, pyramid};
use det_post_testing::random::Random;
use det_post_types::{
    EngineKind, EngineOptions, GpuEngineOptions, LayerStudy, MapLayout, Tensor, TensorValues,
    TensorView,
};
use half::f16;

/// Relative error (L2) between the devices in 16-bit floats; with 32-bit floats throughout 1e-5.
const BOUND: f64 = 4e-3;

fn options(tf32: bool, keep: &[&str], study: Option<&LayerStudy>) -> EngineOptions {
    let keep_f32 = keep.iter().map(|name| (*name).to_owned()).collect();
    let gpu = GpuEngineOptions { tf32, keep_f32, ..GpuEngineOptions::default() };
    EngineOptions { kind: EngineKind::Cuda, gpu, study: study.cloned(), ..EngineOptions::default() }
}

fn noise(num: usize) -> Vec<f32> {
    let mut random = Random::new(5);
    (0..num).map(|_| random.range(0.0, 1.0)).collect()
}

struct Case {
    folder: tempfile::TempDir,
}

impl Case {
    fn new(graph: &Graph) -> Self {
        let folder = tempfile::tempdir().unwrap();
        graph.save(&folder.path().join("network.onnx")).unwrap();
        Self { folder }
    }

    fn on_cpu(&self, options: &EngineOptions) -> Vec<f32> {
        let path = self.folder.path().join("network.onnx");
        let mut engine =
            DenseEngine::load(&path, PlanOptions::from(&options.gpu), &fixed_shape).unwrap();
        let shape = engine.network().input_shapes[0].clone();
        let values = noise(shape.iter().product());
        engine.run(&[TensorView::new(&shape, TensorValues::F32(&values)).unwrap()]).unwrap();
        match engine.output(0).unwrap().values() {
            TensorValues::F32(values) => values.to_vec(),
            other => panic!("{}", other.element()),
        }
    }

    /// The output of two runs, which are equal.
    fn on_gpu(&self, options: &EngineOptions, stream: &Stream) -> Vec<f32> {
        let path = self.folder.path().join("network.onnx");
        let mut engine = DeviceEngine::load(&path, options, stream, fixed_shape).unwrap();
        let mut outputs = [0, 1].map(|_| {
            let layout = engine.input_layout(0);
            let input = engine.input(0).unwrap();
            let mut values = noise(input.shape().iter().product());
            if layout == MapLayout::ChannelsLast {
                values = with_channels_last(&values, input.shape());
            }
            match input.values_mut() {
                DeviceValues::F32(to) => to.write(&values).unwrap(),
                DeviceValues::F16(to) => {
                    let halves: Vec<f16> = values.into_iter().map(f16::from_f32).collect();
                    to.write(&halves).unwrap();
                }
                DeviceValues::I8(_) => panic!("an input of i8"),
            }
            engine.enqueue().unwrap();
            stream.synchronize().unwrap();
            let Tensor::F32 { values, .. } = engine.output(0).unwrap().read().unwrap() else {
                panic!("not f32")
            };
            values
        });
        let bits = |values: &[f32]| values.iter().map(|of| of.to_bits()).collect::<Vec<u32>>();
        assert_eq!(bits(&outputs[0]), bits(&outputs[1]));
        std::mem::take(&mut outputs[0])
    }
}

/// Planes in the order of `[N, H, W, C]`.
fn with_channels_last(planes: &[f32], shape: &[usize]) -> Vec<f32> {
    let &[n, h, w, c] = shape else { panic!("{shape:?} is no map") };
    let plane =
        |image: usize, pixel: usize, channel: usize| planes[(image * c + channel) * h * w + pixel];
    let pixels = (0..n).flat_map(|image| (0..h * w).map(move |pixel| (image, pixel)));
    pixels
        .flat_map(|(image, pixel)| (0..c).map(move |channel| plane(image, pixel, channel)))
        .collect()
}

fn relative(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(expected).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    let (square, norm) =
        pairs.fold((0.0, 0.0), |(s, n), (a, b)| (s + (a - b).powi(2), n + b.powi(2)));
    (square / norm.max(1e-30_f64)).sqrt()
}

#[test]
fn layers_beside_each_other_agree_with_the_cpu() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    let case = Case::new(&pyramid());
    let of = |tf32: bool, study: Option<&LayerStudy>| options(tf32, &[], study);
    for tf32 in [true, false] {
        let options = of(tf32, None);
        let (expected, found) = (case.on_cpu(&options), case.on_gpu(&options, &stream));
        let error = relative(&found, &expected);
        assert!(error <= if tf32 { BOUND } else { 1e-5 }, "f16 {tf32}: {error:e}");
        // One step after another.
        let study = LayerStudy::default();
        assert_eq!(case.on_gpu(&of(tf32, Some(&study)), &stream), found);
        for _ in 0..50 {
            assert_eq!(case.on_gpu(&options, &stream), found);
        }
    }
}

#[test]
fn mixed_precision_agrees_with_the_cpu() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    for (name, graph, keep) in cases() {
        let case = Case::new(&graph);
        for tf32 in [true, false] {
            let options = options(tf32, &keep, None);
            let (found, expected) = (case.on_gpu(&options, &stream), case.on_cpu(&options));
            let error = relative(&found, &expected);
            println!("{name}, f16 {tf32}: {error:.1e}");
            assert!(error <= if tf32 { BOUND } else { 1e-5 }, "{name}, f16 {tf32}: {error:e}");
        }
    }
}

#[test]
fn inputs_with_channels_last_change_no_byte() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    let mut num_channels_last = 0;
    for (name, graph, keep) in cases() {
        let case = Case::new(&graph);
        for tf32 in [true, false] {
            let planar = options(tf32, &keep, None);
            let mut last = planar.clone();
            last.gpu.channels_last_inputs = true;
            let path = case.folder.path().join("network.onnx");
            let engine = DeviceEngine::load(&path, &last, &stream, fixed_shape).unwrap();
            num_channels_last += usize::from(engine.input_layout(0) == MapLayout::ChannelsLast);
            let [found, expected] = [&last, &planar].map(|of| case.on_gpu(of, &stream));
            assert!(found == expected, "{name}, f16 {tf32}");
        }
    }
    assert!(num_channels_last >= 2, "{num_channels_last} inputs have their channels last");
}

#[test]
fn a_study_changes_nothing_and_agrees_with_the_cpu() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    let case = Case::new(&overflowing());
    for (tf32, keep) in [(false, &[][..]), (true, &["Conv_2"][..])] {
        let (on_gpu, on_cpu) = (LayerStudy::default(), LayerStudy::default());
        let plain = case.on_gpu(&options(tf32, keep, None), &stream);
        assert_eq!(case.on_gpu(&options(tf32, keep, Some(&on_gpu)), &stream), plain);
        let path = case.folder.path().join("network.onnx");
        let mut engine = det_post_infer::load(&path, &options(tf32, keep, Some(&on_cpu))).unwrap();
        let values = noise(8 * 16 * 16);
        let input = TensorView::new(&[1, 8, 16, 16], TensorValues::F32(&values)).unwrap();
        engine.run(&[input]).unwrap();
        let [found, expected] = [on_gpu, on_cpu].map(|study| study.networks().remove(0).layers);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((&found.name, found.stored), (&expected.name, expected.stored));
            assert_eq!(found.num_not_finite, expected.num_not_finite, "{}", found.name);
            let apart = (found.largest - expected.largest).abs();
            assert!(apart <= 4e-3 * expected.largest, "{}: {apart:e}", found.name);
        }
    }
}
