//! Camera channels of networks with a map of its mask for each row, RF-DETR-Seg and Mask R-CNN by mmdeploy:
//! masks that can be counted by hand, and the same on both devices.

use det_post::Result;
use det_post::config::{CameraConfig, ChannelKind};
use det_post::detectors::image2d::CpuDetector;
use det_post::detectors::{Detector, FrameInput, FrameSet};
use det_post_infer::Engine;
use det_post_testing::onnx::Graph;
use det_post_types::{
    Box2d, Count, Detection2d, Detections, Dim, ElementType, Encoding, FrameReport, Header,
    ImagePayload, ImageView, MaskWindow, Size, TensorSpec, TensorValues, TensorView,
};

use crate::masks::channel;

const NETWORK: usize = 64;
const NUM_CLASSES: usize = 91;

/// A network that answers the same to every image.
struct Maps {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    shapes: Vec<Vec<usize>>,
    values: [Vec<f32>; 3],
    labels: Vec<i64>,
}

impl Maps {
    /// Rows of numbers, and a map of `side` squared for each. The second output are logits, or where
    /// `labels` are given, they are.
    fn new(rows: &[&[f32]], logits: &[f32], labels: &[i64], maps: Vec<f32>, side: usize) -> Self {
        let num = rows.len();
        let second = if labels.is_empty() { vec![1, num, NUM_CLASSES] } else { vec![1, num] };
        let shapes = vec![vec![1, num, rows[0].len()], second, vec![1, num, side, side]];
        let spec = |name: &str, element, shape: &[usize]| TensorSpec {
            name: name.into(),
            element: Some(element),
            shape: Some(shape.iter().map(|&n| Dim::Fixed(n)).collect()),
        };
        let float = ElementType::F32;
        let of_second = if labels.is_empty() { float } else { ElementType::I64 };
        Self {
            inputs: vec![spec("input", float, &[1, 3, NETWORK, NETWORK])],
            outputs: vec![
                spec("dets", float, &shapes[0]),
                spec("labels", of_second, &shapes[1]),
                spec("masks", float, &shapes[2]),
            ],
            shapes,
            values: [rows.concat(), logits.to_vec(), maps],
            labels: labels.to_vec(),
        }
    }

    /// RF-DETR-Seg: a query whose map is above 0 in its left half.
    fn of_queries() -> Self {
        let mut logits = vec![-9.0; 2 * NUM_CLASSES];
        (logits[3], logits[NUM_CLASSES + 5]) = (2.0, -1.0);
        let map = (0..16 * 16).map(|at| if at % 16 < 8 { 4.0 } else { -4.0 });
        let maps = map.clone().chain(map).collect();
        Self::new(&[&[0.5, 0.5, 0.5, 0.5], &[0.5; 4]], &logits, &[], maps, 16)
    }

    /// Mask R-CNN: a box as large as its map, the left half of which is 1, and a row of padding.
    fn of_regions() -> Self {
        let map = (0..28 * 28).map(|at| if at % 28 < 14 { 1.0 } else { 0.0 });
        let maps = map.clone().chain(map).collect();
        let rows: [&[f32]; 2] = [&[10.0, 20.0, 38.0, 48.0, 0.9], &[0.0; 5]];
        Self::new(&rows, &[], &[7, -1], maps, 28)
    }
}

impl Engine for Maps {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, _inputs: &[TensorView<'_>]) -> Result<()> {
        Ok(())
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        let values = match index {
            1 if !self.labels.is_empty() => TensorValues::I64(&self.labels),
            _ => TensorValues::F32(&self.values[index]),
        };
        TensorView::new(&self.shapes[index], values)
    }

    fn name(&self) -> &str {
        "maps"
    }
}

fn camera(head: &str) -> CameraConfig {
    match channel(head, "m", &[]).kind {
        ChannelKind::Camera(config) => *config,
        _ => panic!("no camera"),
    }
}

type Answer = (Vec<Detection2d>, Size, Vec<MaskWindow>, Vec<u32>, Vec<u64>);

/// The detections of a black image as large as the input, or of another size.
fn detect(detector: &mut dyn Detector, size: Size) -> Answer {
    let pixels = vec![0; (3 * size.width * size.height) as usize];
    let step = 3 * size.width as usize;
    let image = ImageView::new(size, step, Encoding::Rgb8, false, &pixels).unwrap();
    let input = [Some(FrameInput::image(Header::default(), ImagePayload::Raw(image)))];
    let mut report = FrameReport::new();
    let found = detector.detect(&FrameSet::single(&input), &mut report).unwrap();
    let Detections::Masked2d(boxes, masks) = found else { panic!("no masks") };
    let counts = Count::ALL.map(|count| report.count(count)).to_vec();
    (boxes.to_vec(), masks.image, masks.windows.to_vec(), masks.words.to_vec(), counts)
}

/// Classes and boxes, and the pixels that are set.
fn found(config: &CameraConfig, network: Maps) -> (Vec<(u32, [f32; 4])>, u32) {
    let mut detector = CpuDetector::<Box2d>::new(config, Box::new(network)).unwrap();
    let size = Size::new(NETWORK as u32, NETWORK as u32);
    let (boxes, _, windows, words, _) = detect(&mut detector, size);
    assert_eq!(windows.len(), boxes.len());
    let of = |found: &Detection2d| {
        let b = found.bbox;
        (found.class, [b.x1, b.y1, b.x2, b.y2])
    };
    (boxes.iter().map(of).collect(), words.iter().map(|word| word.count_ones()).sum())
}

/// A head as shipped, with another line.
fn with_line(head: &str, line: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let shipped = format!("{}/config/heads/{head}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(shipped).unwrap();
    let path = folder.path().join("head.yaml");
    std::fs::write(&path, text + line).unwrap();
    (folder, path.display().to_string())
}

#[test]
fn masks_of_queries_end_at_their_boxes_unless_they_are_not_to() {
    let boxes = vec![(3, [16.0, 16.0, 48.0, 48.0])];
    assert_eq!(found(&camera("rfdetr_seg"), Maps::of_queries()), (boxes.clone(), 16 * 32));
    // As its package gives them: the left half of the image.
    let (_folder, head) = with_line("rfdetr_seg", "masks:\n  crop: false\n");
    assert_eq!(found(&camera(&head), Maps::of_queries()), (boxes, 32 * 64));
}

#[test]
fn masks_of_regions_are_over_their_boxes() {
    let config = camera("mmdeploy_seg");
    let boxes = vec![(7, [10.0, 20.0, 38.0, 48.0])];
    assert_eq!(found(&config, Maps::of_regions()), (boxes, 14 * 28));
    // Masks of the image are no masks of regions.
    let rows: [&[f32]; 1] = [&[10.0, 20.0, 38.0, 48.0, 0.9]];
    let pasted = || {
        let map = (0..NETWORK * NETWORK).map(|at| if at % NETWORK < 24 { 1.0 } else { 0.0 });
        Maps::new(&rows, &[], &[7], map.collect(), NETWORK)
    };
    let refused = CpuDetector::<Box2d>::new(&config, Box::new(pasted())).err().unwrap();
    assert!(refused.message().contains("`straight`"), "{refused}");
    let text = std::fs::read_to_string(format!(
        "{}/config/heads/mmdeploy_seg.yaml",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("head.yaml");
    std::fs::write(&path, text.replace("rule: box", "rule: straight")).unwrap();
    let config = camera(&path.display().to_string());
    assert_eq!(found(&config, pasted()).1, 14 * 28);
}

#[cfg(feature = "cuda")]
#[test]
fn masks_from_maps_agree() {
    use det_post::detectors::image2d::CudaDetector;
    use det_post_infer::device::{DeviceEngine, fixed_shape};

    let Some(device) = det_post_testing::gpu() else { return };
    let (_folder, whole) = with_line("rfdetr_seg", "masks:\n  crop: false\n");
    type Network = fn() -> Maps;
    let networks: [(&str, Network); 3] = [
        ("rfdetr_seg", Maps::of_queries),
        (&whole, Maps::of_queries),
        ("mmdeploy_seg", Maps::of_regions),
    ];
    for (head, network) in networks {
        let config = camera(head);
        let stream = device.stream().unwrap();
        let mut on_cpu = CpuDetector::<Box2d>::new(&config, Box::new(network())).unwrap();
        let engine = DeviceEngine::on_host(Box::new(network()), &stream, fixed_shape).unwrap();
        let mut on_gpu = CudaDetector::<Box2d>::new(&config, &stream, engine).unwrap();
        let mut num_set = 0;
        for (width, height) in [(64, 64), (98, 50), (640, 482), (50, 400)] {
            let size = Size::new(width, height);
            let expected = detect(&mut on_cpu, size);
            num_set += expected.3.iter().map(|word| word.count_ones()).sum::<u32>();
            assert_eq!(detect(&mut on_gpu, size), expected, "{head} {size:?}");
        }
        assert!(num_set > 1000, "{head}: {num_set} pixels of masks");
    }
}

#[test]
fn files_of_such_networks_have_their_heads() {
    use ElementType::{F32, I64};
    let folder = tempfile::tempdir().unwrap();
    let masks = ("masks", F32, &[1, -1, 28, 28][..]);
    for (expected, [dets, labels]) in [
        ("rfdetr", [("dets", F32, &[1, 300, 4][..]), ("labels", F32, &[1, 300, 91][..])]),
        ("mmdeploy", [("dets", F32, &[1, -1, 5]), ("labels", I64, &[1, -1])]),
    ] {
        for outputs in [&[dets, labels][..], &[dets, labels, masks]] {
            let mut graph = Graph::new("net", "").input("input", F32, &[1, 3, 64, 64]);
            for &(name, element, dims) in outputs {
                graph = graph.output(name, element, dims);
            }
            let path = folder.path().join("net.onnx");
            graph.save(&path).unwrap();
            let config = channel("auto", path.to_str().unwrap(), &[]);
            let ChannelKind::Camera(camera) = &config.kind else { panic!("no camera") };
            let suffix = if outputs.len() == 3 { "_seg" } else { "" };
            assert_eq!(camera.head, format!("{expected}{suffix}"));
        }
    }
}
