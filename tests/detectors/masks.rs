//! Camera channels of networks with masks: against the reference of a small network, and the same
//! masks on both devices.

use std::path::Path;

use det_post::config::{ChannelConfig, ChannelKind, Config};
use det_post::detectors::image2d::CpuDetector;
use det_post::detectors::{Detector, FrameInput, FrameSet};
use det_post_types::{
    Count, Detections, Encoding, FrameReport, Header, ImagePayload, ImageView, MaskWindow, Rle,
    Size,
};
use serde_json::Value;

use crate::common::shared_data::shared_data;

/// A channel with one network.
pub(super) fn channel(head: &str, model: &str, more: &[&str]) -> ChannelConfig {
    let mut overrides = vec!["c.input:=/i".into(), format!("c.model_path:={model}")];
    overrides.push(format!("c.head:={head}"));
    overrides.extend(more.iter().map(|&parameter| parameter.to_owned()));
    Config::load(&[], &overrides).unwrap().channels.remove(0)
}

/// An RGB image of a PNG file.
pub(super) fn picture(path: &Path) -> (Size, Vec<u8>) {
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.color_type, png::ColorType::Rgb);
    (Size::new(info.width, info.height), pixels)
}

#[test]
fn a_small_network_finds_the_objects_of_the_reference() {
    let Some(folder) = shared_data().map(|data| data.join("detr")) else { return };
    let text = std::fs::read_to_string(folder.join("yolo26_seg_tiny_expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    // Boxes outside the image are none; the reference keeps them without an area.
    let has_area = |object: &&Value| {
        let [x1, y1, x2, y2] = [0, 1, 2, 3].map(|at| object["box_source"][at].as_f64().unwrap());
        x2 > x1 && y2 > y1
    };
    let objects: Vec<&Value> =
        expected["objects"].as_array().unwrap().iter().filter(has_area).collect();
    let (size, pixels) = picture(&folder.join("yolo26_seg_tiny.png"));
    let model = folder.join("yolo26_seg_tiny.onnx").display().to_string();
    let config = channel("auto", &model, &["c.score_threshold:=0.25"]);
    let ChannelKind::Camera(camera) = &config.kind else { panic!("no camera") };
    assert_eq!(camera.head, "yolo26_seg");
    let mut detector = CpuDetector::<det_post_types::Box2d>::load(camera).unwrap();
    let step = 3 * size.width as usize;
    let image = ImageView::new(size, step, Encoding::Rgb8, false, &pixels).unwrap();
    let input = [Some(FrameInput::image(Header::default(), ImagePayload::Raw(image)))];
    let mut report = FrameReport::new();
    let found = detector.detect(&FrameSet::single(&input), &mut report).unwrap();
    let Detections::Masked2d(boxes, masks) = found else { panic!("no masks") };
    assert_eq!(boxes.len(), objects.len());
    // The reference divides both axes by one gain; the image has 106 rows in the input, not 105.87.
    let gain = 160.0 / 201.0;
    let stretch = [1.0, gain * 133.0 / 106.0];
    let (mut sum, mut num) = (0.0, 0);
    for (index, (found, object)) in boxes.iter().zip(&objects).enumerate() {
        assert_eq!(u64::from(found.class), object["class_id"].as_u64().unwrap(), "{index}");
        let score = object["score"].as_f64().unwrap();
        assert!((f64::from(found.score) - score).abs() < 1e-3, "{index}");
        let b = found.bbox;
        for (axis, value) in [b.x1, b.y1, b.x2, b.y2].into_iter().enumerate() {
            let side = f64::from([size.width, size.height][axis % 2]);
            let expected = object["box_source"][axis].as_f64().unwrap();
            let expected = if expected >= side { side } else { expected * stretch[axis % 2] };
            assert!(
                (f64::from(value) - expected.min(side)).abs() < 0.1,
                "{index}: {b:?} {expected}"
            );
        }
        let of = &object["rle"]["straight_source"];
        let expected = Rle::from_compressed(size, of["counts"].as_str().unwrap()).unwrap();
        let found = Rle::of(&masks.get(index).unwrap());
        if expected.area() >= 400 {
            // A row or a column at the edge of the box, by the stretch.
            let iou = found.iou(&expected).unwrap();
            assert!(iou > 0.9, "{index}: {iou}");
            (sum, num) = (sum + iou, num + 1);
        }
    }
    println!("IoU {:.4} of {num} masks", sum / f64::from(num));
    assert!(num > 5 && sum / f64::from(num) > 0.98);
    assert_eq!(report.count(Count::MasksOverCapacity), 0);

    // Less memory than the masks need: boxes stay.
    let needed: usize = masks.windows.iter().map(MaskWindow::num_words).sum::<usize>() * 4;
    let capacity = format!("c.mask_capacity_bytes:={}", needed - 4);
    let config = channel("auto", &model, &["c.score_threshold:=0.25", &capacity]);
    let ChannelKind::Camera(camera) = &config.kind else { panic!("no camera") };
    let all = (boxes.to_vec(), masks.windows.to_vec(), masks.words.to_vec());
    let mut detector = CpuDetector::<det_post_types::Box2d>::load(camera).unwrap();
    let found = detector.detect(&FrameSet::single(&input), &mut report).unwrap();
    let Detections::Masked2d(boxes, masks) = found else { panic!("no masks") };
    let num = masks.windows.len();
    assert_eq!((boxes, masks.windows), (&all.0[..], &all.1[..num]));
    assert!(all.2.starts_with(masks.words) && num < boxes.len());
    assert_eq!(report.count(Count::MasksOverCapacity), (boxes.len() - num) as u64);
}

#[cfg(feature = "cuda")]
mod on_both_devices {
    use super::*;
    use det_post::Result;
    use det_post::detectors::image2d::CudaDetector;
    use det_post_infer::Engine;
    use det_post_infer::device::{DeviceEngine, fixed_shape};
    use det_post_testing::random::Random;
    use det_post_types::{
        Box2d, Detection2d, Dim, ElementType, Stage, TensorSpec, TensorValues, TensorView, Transfer,
    };

    use crate::camera_pipeline::TestImage;

    const NETWORK: usize = 64;
    const MAP: usize = 16;
    const NUM_ROWS: usize = 120;

    /// A network whose answers are taken from the pixels of its input.
    struct Segments {
        inputs: Vec<TensorSpec>,
        outputs: Vec<TensorSpec>,
        is_final: bool,
        shapes: [Vec<usize>; 2],
        values: [Vec<f32>; 2],
    }

    impl Segments {
        fn new(head: &str) -> Self {
            let is_final = head == "yolo26_seg";
            let predictions =
                if is_final { vec![1, NUM_ROWS, 38] } else { vec![1, 4 + 80 + 32, NUM_ROWS] };
            let shapes = [predictions, vec![1, 32, MAP, MAP]];
            let spec = |name: &str, shape: &[usize]| TensorSpec {
                name: name.into(),
                element: Some(ElementType::F32),
                shape: Some(shape.iter().map(|&n| Dim::Fixed(n)).collect()),
            };
            Self {
                inputs: vec![spec("images", &[1, 3, NETWORK, NETWORK])],
                outputs: vec![spec("output0", &shapes[0]), spec("output1", &shapes[1])],
                is_final,
                values: [0, 1].map(|i| vec![0.0; shapes[i].iter().product::<usize>()]),
                shapes,
            }
        }
    }

    impl Engine for Segments {
        fn inputs(&self) -> &[TensorSpec] {
            &self.inputs
        }

        fn outputs(&self) -> &[TensorSpec] {
            &self.outputs
        }

        fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
            let TensorValues::F32(pixels) = inputs[0].values() else { panic!("not f32") };
            let number = |place: usize| (pixels[place % pixels.len()] * 37.0).rem_euclid(1.0);
            let side = NETWORK as f32;
            let columns = if self.is_final { 38 } else { 116 };
            for row in 0..NUM_ROWS {
                let number = |column: usize| number(row * 7919 + column * 104_729);
                let (x, y) = (number(0) * side, number(1) * side);
                let (width, height) = (number(2) * 30.0, number(3) * 30.0);
                for column in 0..columns {
                    let value = match (self.is_final, column) {
                        (_, 0) => x,
                        (_, 1) => y,
                        (true, 2) => x + width,
                        (true, 3) => y + height,
                        (false, 2) => width,
                        (false, 3) => height,
                        (true, 5) => (number(5) * 80.0).floor(),
                        (true, 6..) | (false, 84..) => number(column) - 0.5,
                        _ => number(column),
                    };
                    let place = if self.is_final {
                        row * columns + column
                    } else {
                        column * NUM_ROWS + row
                    };
                    self.values[0][place] = value;
                }
            }
            for (place, value) in self.values[1].iter_mut().enumerate() {
                *value = number(place * 31 + 5) - 0.5;
            }
            Ok(())
        }

        fn output(&self, index: usize) -> Result<TensorView<'_>> {
            TensorView::new(&self.shapes[index], TensorValues::F32(&self.values[index]))
        }

        fn name(&self) -> &str {
            "segments"
        }
    }

    type Answer = (Vec<Detection2d>, Size, Vec<MaskWindow>, Vec<u32>, Vec<u64>);

    fn detect(detector: &mut dyn Detector, image: &TestImage, report: &mut FrameReport) -> Answer {
        let input = [Some(FrameInput::image(Header::default(), image.payload()))];
        let found = detector.detect(&FrameSet::single(&input), report).unwrap();
        let Detections::Masked2d(boxes, masks) = found else { panic!("no masks") };
        let (windows, words) = (masks.windows.to_vec(), masks.words.to_vec());
        let counts = Count::ALL.map(|count| report.count(count)).to_vec();
        (boxes.to_vec(), masks.image, windows, words, counts)
    }

    #[test]
    fn masks_agree() {
        let Some(device) = det_post_testing::gpu() else { return };
        let mut random = Random::new(91);
        for head in ["yolo_seg", "yolo26_seg"] {
            let cases: [&[&str]; 4] = [
                &["c.score_threshold:=0.6"],
                &["c.score_threshold:=0.6", "c.mask_capacity_bytes:=1000"],
                &["c.score_threshold:=0.9", "c.class_filter:=[person, car, dog, chair, vase]"],
                &["c.score_threshold:=0.3", "c.max_detections:=7"],
            ];
            let (mut num_set, mut num_over) = (0, 0);
            for more in cases {
                let config = channel(head, "m", more);
                let ChannelKind::Camera(camera) = &config.kind else { panic!("no camera") };
                let stream = device.stream().unwrap();
                let engine = || Box::new(Segments::new(head));
                let mut on_cpu = CpuDetector::<Box2d>::new(camera, engine()).unwrap();
                let on_host = DeviceEngine::on_host(engine(), &stream, fixed_shape).unwrap();
                let mut on_gpu = CudaDetector::<Box2d>::new(camera, &stream, on_host).unwrap();
                for (width, height) in [(98, 50), (640, 482), (50, 400), (64, 64), (333, 90)] {
                    let size = Size::new(width, height);
                    let image = TestImage::new(&mut random, size, Encoding::Bgr8);
                    for again in [false, true] {
                        let context = format!("{head} {more:?} {size:?} {again}");
                        let expected = detect(&mut on_cpu, &image, &mut FrameReport::new());
                        let mut report = FrameReport::new();
                        let found = detect(&mut on_gpu, &image, &mut report);
                        assert_eq!(found, expected, "{context}");
                        let num_bytes = found.3.len() as u64 * 4;
                        let read = report.bytes(Stage::Postprocess, Transfer::Download);
                        assert!(read > num_bytes, "{context}");
                        num_set += found.3.iter().map(|word| word.count_ones()).sum::<u32>();
                        num_over += report.count(Count::MasksOverCapacity);
                    }
                }
            }
            assert!(num_set > 10_000 && num_over > 0, "{head}: {num_set} {num_over}");
        }
    }
}
