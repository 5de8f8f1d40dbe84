//! After warm-up, frames of several cameras allocate nothing, whether their images were
//! prepared on arrival or not.

use std::path::Path;

use det_post::config::SurroundConfig;
use det_post::detectors::surround::streampetr::StreamPetrFamily;
use det_post::detectors::surround::{CpuDetector, ViewFamily};
use det_post::detectors::{Detector, FrameInput};
use det_post::{Error, ErrorKind, Result};
use det_post_infer::Engine;
use det_post_infer::view_decoder::{self, ViewNetwork};
use det_post_types::{Detr3d, Dim, Sparse4d, TensorSpec, TensorValues, TensorView, ViewDecoder};

#[cfg(feature = "cuda")]
use super::allocations::{DeviceMemory, gpu};
use super::allocations::{allocations_after_warm_up, detect, noise};
use crate::common::streampetr::{FILES, backbone};
use crate::common::surround_frames::{Cameras, streampetr_config, surround_config};
use crate::common::surround_rig::SIZES;
use crate::common::view_networks::{detr3d, detr3d_facts, sparse4d, sparse4d_facts};

/// A network in place of another one, with the same tensors and outputs that are noise.
struct Noise {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    values: Vec<(Vec<usize>, Vec<f32>)>,
}

impl Noise {
    fn like(path: &Path) -> Box<dyn Engine> {
        let engine = det_post_infer::load(path, &Default::default()).unwrap();
        let values = |spec: &TensorSpec| {
            let length = |dim: &Dim| match dim {
                Dim::Fixed(length) => *length,
                Dim::Dynamic => panic!("{} has a dynamic dimension", spec.name),
            };
            let shape: Vec<usize> = spec.shape.as_ref().unwrap().iter().map(length).collect();
            let values = (0..shape.iter().product()).map(noise).collect();
            (shape, values)
        };
        Box::new(Self {
            inputs: engine.inputs().to_vec(),
            values: engine.outputs().iter().map(values).collect(),
            outputs: engine.outputs().to_vec(),
        })
    }
}

impl Engine for Noise {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        assert_eq!(inputs.len(), self.inputs.len());
        Ok(())
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        let missing = || Error::new(ErrorKind::Inference, "noise", "no such output");
        let (shape, values) = self.values.get(index).ok_or_else(missing)?;
        TensorView::new(shape, TensorValues::F32(values))
    }

    fn name(&self) -> &str {
        "noise"
    }
}

/// Checks that frames of pixels allocate nothing.
#[track_caller]
fn check(detector: &mut dyn Detector, name: &str) {
    let cameras = Cameras::new();
    for prepares in [false, true] {
        let frames: Vec<_> = (0..8).map(|number| cameras.frame(number, 0, false)).collect();
        let mut next = frames.iter();
        let mut num_detections = 0;
        detector.reset().unwrap();
        let num_allocations = allocations_after_warm_up(|| {
            let frame = next.next().unwrap();
            for (camera, input) in frame.inputs.iter().enumerate().filter(|_| prepares) {
                let input: &FrameInput<'_> = input.as_ref().unwrap();
                detector.prepare(camera, input).unwrap();
            }
            num_detections = detect(detector, &frame.set());
        });
        assert!(num_detections > 0, "{name}");
        assert_eq!(num_allocations, 0, "{name}, prepared: {prepares}");
    }
}

#[test]
fn a_frame_of_streampetr_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = streampetr_config(folder.path());
    let [backbone, position, head] = FILES.map(|name| Noise::like(&folder.path().join(name)));
    let family = StreamPetrFamily::of(&config).unwrap();
    let networks = family.on_cpu(backbone, position, head).unwrap();
    let mut detector = CpuDetector::new(&config, 6, networks).unwrap();
    check(&mut detector, "streampetr");
}

/// DETR3D and Sparse4D for six cameras: their configurations and networks.
fn view_decoders(folder: &Path) -> [(SurroundConfig, ViewNetwork); 2] {
    const HEAD: &str = "sensor: surround
class_names: [car, truck, pedestrian]
cameras: 6
input_size: [96, 48]
channel_order: rgb
mean: [120.0, 120.0, 120.0]
std: [60.0, 60.0, 60.0]
level_strides: [8]
extra_level: true
size_order: length_width_height
yaw: counter_clockwise
defaults: {nms: {kind: none}}
";
    let path = folder.join("head.yaml");
    let detr3d = {
        let facts = Detr3d { num_views: 6, ..detr3d_facts() };
        let head = "kind: detr3d
point_range_m: [-30, -30, -3, 30, 30, 3]
decoder: {channels: 16, heads: 2, queries: 12, blocks: 2, min_depth_m: 0.01}
";
        (head, detr3d(&facts), ViewDecoder::Detr3d(facts))
    };
    let sparse4d = {
        let facts = Sparse4d { num_views: 6, ..sparse4d_facts() };
        let head = "kind: sparse4d
decoder: {channels: 16, heads: 4, groups: 2, anchors: 10, cached: 6, blocks: 3}
";
        (head, sparse4d(&facts), ViewDecoder::Sparse4d(facts))
    };
    [detr3d, sparse4d].map(|(facts, weights, decoder)| {
        std::fs::write(&path, format!("{HEAD}{facts}")).unwrap();
        let config = surround_config(&format!(
            "head: {}, model_path: b, weights_path: w, score_thresholds: 0.01",
            path.display()
        ));
        (config, view_decoder::parse(&weights.to_safetensors(), &decoder).unwrap())
    })
}

#[test]
fn a_frame_of_view_decoders_allocates_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backbone.onnx");
    backbone(&SIZES, 11).save(&path).unwrap();
    for (config, network) in view_decoders(folder.path()) {
        let backbone = Noise::like(&path);
        let networks = ViewFamily::of(&config).unwrap().on_cpu(backbone, &network, &[]).unwrap();
        let mut detector = CpuDetector::new(&config, 6, networks).unwrap();
        check(&mut detector, &config.head);
    }
}

/// With a backbone that is on the GPU, the host waits once for a frame.
#[test]
#[cfg(feature = "cuda")]
fn a_frame_of_view_decoders_on_a_gpu_allocates_nothing_and_waits_once() {
    use det_post::detectors::surround::CudaDetector;
    use det_post_infer::device::DeviceEngine;
    use det_post_types::{ElementType, Tensor};

    let Some((_alone, device)) = gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (config, network) in view_decoders(folder.path()) {
        let stream = device.stream().unwrap();
        let input = TensorSpec {
            name: "images".into(),
            element: Some(ElementType::F32),
            shape: Some([6, 3, 48, 96].map(Dim::Fixed).to_vec()),
        };
        let shape = vec![6, 16, 6, 12];
        let maps = Tensor::F32 { values: (0..6 * 16 * 6 * 12).map(noise).collect(), shape };
        let engine = DeviceEngine::fixed(&stream, vec![input], &[("maps", &maps)]).unwrap();
        let family = ViewFamily::of(&config).unwrap();
        let networks = family.on_gpu(&stream, engine, &network, &[]).unwrap();
        let mut detector = CudaDetector::new(&config, 6, &stream, networks).unwrap();
        check(&mut detector, &config.head);
        let cameras = Cameras::new();
        detector.reset().unwrap();
        let mut before = DeviceMemory::of(&stream);
        for number in 0..8 {
            // One camera may be missing.
            let mut frame = cameras.frame(number, 0, false);
            if number == 5 {
                frame.inputs[2] = None;
            }
            let waits = stream.num_waits();
            assert!(detect(&mut detector, &frame.set()) > 0);
            assert_eq!(stream.num_waits() - waits, 1, "frame {number}");
            let on_device = DeviceMemory::of(&stream);
            if number < 3 {
                before = on_device;
            }
            assert!(on_device.is_as(&before), "frame {number}: {on_device:?} {before:?}");
        }
    }
}

#[test]
#[cfg(feature = "cuda")]
fn a_frame_of_streampetr_on_a_gpu_allocates_nothing() {
    use det_post::detectors::surround::CudaDetector;

    let Some((_alone, device)) = gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = streampetr_config(folder.path());
    let stream = device.stream().unwrap();
    let mut detector = CudaDetector::load(&config, 6, &stream).unwrap();
    let cameras = Cameras::new();
    for (prepares, is_compressed) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut before = DeviceMemory::of(&stream);
        // The driver and nvJPEG settle in the first half. A leak of 128 KiB a frame exceeds what
        // is allowed in the second.
        for number in 0..80 {
            let frame = cameras.frame(number, 0, is_compressed);
            let waits = stream.num_waits();
            for (camera, input) in frame.inputs.iter().enumerate().filter(|_| prepares) {
                detector.prepare(camera, input.as_ref().unwrap()).unwrap();
            }
            // At most one for each image, which is borrowed until then.
            let prepared = stream.num_waits();
            assert!(prepared - waits <= if prepares { 6 } else { 0 });
            assert!(detect(&mut detector, &frame.set()) > 0);
            let on_device = DeviceMemory::of(&stream);
            if number < 40 {
                before = on_device;
                continue;
            }
            // One for the outputs; each of two networks on the host waits for its input.
            assert_eq!(stream.num_waits() - prepared, 3);
            let what = format!("prepared: {prepares}, compressed: {is_compressed}, {number}");
            assert!(on_device.is_as(&before), "{what}: {on_device:?} {before:?}");
        }
        detector.reset().unwrap();
    }
}
