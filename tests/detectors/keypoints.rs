//! Camera channels of networks with keypoints: against the reference of a small network, and the
//! same keypoints on both devices.

use det_post::config::ChannelKind;
use det_post::detectors::image2d::CpuDetector;
use det_post::detectors::{Detector, FrameInput, FrameSet};
use det_post_types::{
    Box2d, Detections, Encoding, FrameReport, Header, ImagePayload, ImageView, YoloLayout,
};
use serde_json::Value;

use crate::common::shared_data::shared_data;
use crate::masks::{channel, picture};

#[test]
fn a_small_network_finds_the_keypoints_of_the_reference() {
    let Some(folder) = shared_data().map(|data| data.join("detr")) else { return };
    let text = std::fs::read_to_string(folder.join("yolo26_pose_tiny_expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    // Boxes that are clipped to nothing are left out.
    let has_area = |object: &&Value| {
        let edge = |at: usize| object["box_source"][at].as_f64().unwrap();
        edge(0) < edge(2) && edge(1) < edge(3)
    };
    let objects: Vec<&Value> =
        expected["objects"].as_array().unwrap().iter().filter(has_area).collect();
    assert!(objects.len() > 20);
    let (size, pixels) = picture(&folder.join("yolo26_pose_tiny.png"));
    let model = folder.join("yolo26_pose_tiny.onnx").display().to_string();
    let config = channel("auto", &model, &["c.score_threshold:=0.25"]);
    let ChannelKind::Camera(camera) = &config.kind else { panic!("no camera") };
    assert_eq!(camera.head, "yolo26_pose");
    let YoloLayout::PoseEndToEnd { num_keypoints, num_values: 3 } = camera.facts.layout else {
        panic!("{:?}", camera.facts.layout)
    };
    let mut detector = CpuDetector::<Box2d>::load(camera).unwrap();
    let step = 3 * size.width as usize;
    let image = ImageView::new(size, step, Encoding::Rgb8, false, &pixels).unwrap();
    let input = [Some(FrameInput::image(Header::default(), ImagePayload::Raw(image)))];
    let found = detector.detect(&FrameSet::single(&input), &mut FrameReport::new()).unwrap();
    let Detections::Keypoints2d(boxes, keypoints) = found else { panic!("no keypoints") };
    assert_eq!(boxes.len(), objects.len());
    assert_eq!(keypoints.all.len(), boxes.len() * num_keypoints);
    // The reference divides both axes by one gain; the image has whole columns and rows in the input.
    let side = f64::from(size.width.max(size.height));
    let gain = 192.0 / side;
    let stretch = [size.width, size.height].map(f64::from).map(|s| s * gain / (s * gain).round());
    let numbers = |value: &Value| -> Vec<f64> {
        value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
    };
    for (index, (found, object)) in boxes.iter().zip(&objects).enumerate() {
        assert_eq!(u64::from(found.class), object["class_id"].as_u64().unwrap(), "{index}");
        assert!((f64::from(found.score) - object["score"].as_f64().unwrap()).abs() < 1e-3);
        let scores = numbers(&object["visibility"]);
        let points = object["keypoints_source"].as_array().unwrap();
        assert_eq!(points.len(), num_keypoints);
        for (found, (point, score)) in keypoints.of(index).iter().zip(points.iter().zip(scores)) {
            assert!((f64::from(found.score) - score).abs() < 1e-3, "{index} {found:?} {score}");
            for (axis, (value, wanted)) in [found.x, found.y].iter().zip(numbers(point)).enumerate()
            {
                let side = f64::from([size.width, size.height][axis]);
                let wanted = if wanted >= side { side } else { wanted * stretch[axis] };
                let difference = (f64::from(*value) - wanted.min(side)).abs();
                // A keypoint beyond the edge is stretched before it is clipped.
                let is_at_edge = side - wanted < 1.0 && side - f64::from(*value) < 1.0;
                assert!(difference < 0.1 || is_at_edge, "{index}: {found:?} {wanted}");
            }
        }
    }
}

#[test]
fn shape_of_keypoints_comes_from_the_metadata() {
    let Some(folder) = shared_data().map(|data| data.join("detr")) else { return };
    let model = folder.join("yolo26_pose_tiny.onnx").display().to_string();
    for head in ["yolo_pose", "yolo26_pose"] {
        // The layout of the family becomes its layout of final boxes.
        let ChannelKind::Camera(camera) = channel(head, &model, &[]).kind else { panic!() };
        assert!(matches!(camera.facts.layout, YoloLayout::PoseEndToEnd { .. }), "{head}");
    }
    for (head, reason) in [("yolov8", "`yolo_pose`"), ("yolo_seg", "`yolo_pose`")] {
        let overrides =
            ["c.input:=/i".into(), format!("c.model_path:={model}"), format!("c.head:={head}")];
        let error = det_post::config::Config::load(&[], &overrides).unwrap_err();
        assert!(error.message().contains(reason), "{error}");
    }
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
        Count, Detection2d, Dim, ElementType, Keypoint, Size, TensorSpec, TensorValues, TensorView,
    };

    use crate::camera_pipeline::TestImage;

    const NETWORK: usize = 64;
    const NUM_ROWS: usize = 120;
    const NUM_COLUMNS: usize = 17 * 3;

    /// A network whose answers are taken from the pixels of its input.
    struct Poses {
        inputs: Vec<TensorSpec>,
        outputs: Vec<TensorSpec>,
        is_final: bool,
        shape: Vec<usize>,
        values: Vec<f32>,
    }

    impl Poses {
        fn new(head: &str) -> Self {
            let is_final = head == "yolo26_pose";
            let shape = match is_final {
                true => vec![1, NUM_ROWS, 6 + NUM_COLUMNS],
                false => vec![1, 5 + NUM_COLUMNS, NUM_ROWS],
            };
            let spec = |name: &str, shape: &[usize]| TensorSpec {
                name: name.into(),
                element: Some(ElementType::F32),
                shape: Some(shape.iter().map(|&n| Dim::Fixed(n)).collect()),
            };
            Self {
                inputs: vec![spec("images", &[1, 3, NETWORK, NETWORK])],
                outputs: vec![spec("output0", &shape)],
                is_final,
                values: vec![0.0; shape.iter().product::<usize>()],
                shape,
            }
        }
    }

    impl Engine for Poses {
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
            let columns = self.shape[if self.is_final { 2 } else { 1 }];
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
                        (_, 4) => number(4),
                        (true, 5) => 0.0,
                        // Also numbers outside of the image, and some that are none.
                        _ if number(column) > 0.98 => f32::NAN,
                        _ => number(column) * 1.5 * side - 0.25 * side,
                    };
                    let place = match self.is_final {
                        true => row * columns + column,
                        false => column * NUM_ROWS + row,
                    };
                    self.values[place] = value;
                }
            }
            Ok(())
        }

        fn output(&self, _: usize) -> Result<TensorView<'_>> {
            TensorView::new(&self.shape, TensorValues::F32(&self.values))
        }

        fn name(&self) -> &str {
            "poses"
        }
    }

    type Answer = (Vec<Detection2d>, Vec<[u32; 3]>, Vec<u64>);

    fn detect(detector: &mut dyn Detector, image: &TestImage) -> Answer {
        let input = [Some(FrameInput::image(Header::default(), image.payload()))];
        let mut report = FrameReport::new();
        let found = detector.detect(&FrameSet::single(&input), &mut report).unwrap();
        let Detections::Keypoints2d(boxes, keypoints) = found else { panic!("no keypoints") };
        assert_eq!(keypoints.all.len(), boxes.len() * keypoints.num_per_detection);
        let bits = |k: &Keypoint| [k.x, k.y, k.score].map(f32::to_bits);
        let counts = Count::ALL.map(|count| report.count(count)).to_vec();
        (boxes.to_vec(), keypoints.all.iter().map(bits).collect(), counts)
    }

    #[test]
    fn keypoints_agree() {
        let Some(device) = det_post_testing::gpu() else { return };
        let mut random = Random::new(17);
        for head in ["yolo_pose", "yolo26_pose"] {
            let mut num_found = 0;
            for more in [&["c.score_threshold:=0.6"][..], &["c.max_detections:=7"]] {
                let config = channel(head, "m", more);
                let ChannelKind::Camera(camera) = &config.kind else { panic!("no camera") };
                let stream = device.stream().unwrap();
                let engine = || Box::new(Poses::new(head));
                let mut on_cpu = CpuDetector::<Box2d>::new(camera, engine()).unwrap();
                let on_host = DeviceEngine::on_host(engine(), &stream, fixed_shape).unwrap();
                let mut on_gpu = CudaDetector::<Box2d>::new(camera, &stream, on_host).unwrap();
                for (width, height) in [(98, 50), (640, 482), (50, 400), (64, 64)] {
                    let size = Size::new(width, height);
                    let image = TestImage::new(&mut random, size, Encoding::Bgr8);
                    let expected = detect(&mut on_cpu, &image);
                    num_found += expected.1.len();
                    for _ in 0..2 {
                        assert_eq!(
                            detect(&mut on_gpu, &image),
                            expected,
                            "{head} {more:?} {size:?}"
                        );
                    }
                }
            }
            assert!(num_found > 1000, "{head}: {num_found}");
        }
    }
}
