//! A LiDAR channel whose network takes the points of voxels, from the message to its detections:
//! what the network is given, and the same detections and counts on both devices.

use det_post::config::{ChannelKind, Config, LidarConfig};
use det_post::detectors::proposals::{CpuDetector, CudaDetector};
use det_post_infer::Engine;
use det_post_ops::device::cuda::{CudaDevice, Stream};
use det_post_types::{
    Count, Detection3d, Dim, ElementType, Error, ErrorKind, ProposalLayout, Result, Stage, Stamp,
    TensorSpec, TensorValues, TensorView, Transfer,
};
use nalgebra::Isometry3;

use crate::common::counting_voxels::{self, Point};
use crate::common::detect::{Detected, in_cloud};
use det_post_testing::check_near;
use det_post_testing::clouds::Cloud;

const NUM_PROPOSALS: usize = 300;
const NUM_CLASSES: usize = 5;
const LAYOUTS: [ProposalLayout; 2] = [ProposalLayout::TransFusion, ProposalLayout::BevFusion];

/// A network whose proposals are its first voxels: their cells and mean points.
struct FirstVoxels {
    layout: ProposalLayout,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    boxes: Vec<f32>,
    scores: Vec<f32>,
    directions: Vec<f32>,
    labels: Vec<i64>,
}

fn spec(name: &str, element: ElementType, shape: &[usize]) -> TensorSpec {
    let dim = |&n: &usize| if n == 0 { Dim::Dynamic } else { Dim::Fixed(n) };
    TensorSpec {
        name: name.to_owned(),
        element: Some(element),
        shape: Some(shape.iter().map(dim).collect()),
    }
}

impl FirstVoxels {
    /// With the names of the head, inputs in another order than theirs.
    fn new(config: &LidarConfig, layout: ProposalLayout) -> Self {
        let (points, channels) =
            (config.facts.max_points_per_voxel, config.facts.num_point_channels());
        let p = NUM_PROPOSALS;
        let (f32, i32) = (ElementType::F32, ElementType::I32);
        let (numbers, columns, outputs) = match layout {
            ProposalLayout::TransFusion => (
                "num_points",
                4,
                vec![
                    spec("cls_score0", f32, &[1, NUM_CLASSES, p]),
                    spec("bbox_pred0", f32, &[1, 8, p]),
                    spec("dir_cls_pred0", f32, &[1, 2, p]),
                ],
            ),
            ProposalLayout::BevFusion => (
                "num_points_per_voxel",
                3,
                vec![
                    spec("bbox_pred", f32, &[10, p]),
                    spec("score", f32, &[p]),
                    spec("label_pred", ElementType::I64, &[p]),
                ],
            ),
        };
        let inputs = vec![
            spec("coors", i32, &[0, columns]),
            spec("voxels", f32, &[0, points, channels]),
            spec(numbers, i32, &[0]),
        ];
        let [boxes, scores, directions] = [(); 3].map(|()| Vec::new());
        Self { layout, inputs, outputs, boxes, scores, directions, labels: Vec::new() }
    }

    fn fill(&mut self, points: &TensorView<'_>, numbers: &[i32], cells: &TensorView<'_>) {
        let (&[num, slots, channels], &[_, columns]) = (points.shape(), cells.shape()) else {
            panic!("{:?} {:?}", points.shape(), cells.shape())
        };
        let (TensorValues::F32(points), TensorValues::I32(cells)) =
            (points.values(), cells.values())
        else {
            panic!()
        };
        assert_eq!(numbers.len(), num);
        let p = NUM_PROPOSALS;
        self.boxes = vec![0.0; self.layout.num_box_channels() * p];
        self.scores = vec![0.0; NUM_CLASSES * p];
        self.directions = vec![1.0; 2 * p];
        self.labels = vec![0; p];
        for voxel in 0..num.min(p) {
            let row = &points[voxel * slots * channels..][..slots * channels];
            let sum = |c: usize| row.iter().skip(c).step_by(channels).sum::<f32>();
            let cell = &cells[voxel * columns..][..columns];
            let class = voxel % NUM_CLASSES;
            let score = 0.2 + numbers[voxel] as f32 / 64.0 + (voxel % 7) as f32 * 0.05;
            let numbers = [
                cell[columns - 1] as f32 * 0.25,
                cell[columns - 2] as f32 * 0.25,
                sum(2) / numbers[voxel] as f32,
                0.5 + 0.01 * sum(0),
                0.2,
                0.4,
                sum(channels - 1),
                0.6,
                sum(1),
                cell[columns - 3] as f32,
            ];
            for (channel, number) in numbers.iter().take(self.layout.num_box_channels()).enumerate()
            {
                self.boxes[channel * p + voxel] = *number;
            }
            match self.layout {
                ProposalLayout::TransFusion => self.scores[class * p + voxel] = score,
                ProposalLayout::BevFusion => self.scores[voxel] = score,
            }
            self.directions[voxel] = sum(channels - 1);
            // One in 50 is no class of the head.
            self.labels[voxel] = if voxel % 50 == 49 { 9 } else { class as i64 };
        }
    }
}

impl Engine for FirstVoxels {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        let [cells, points, numbers] = inputs else { panic!("{} inputs", inputs.len()) };
        let TensorValues::I32(numbers) = numbers.values() else { panic!() };
        self.fill(points, numbers, cells);
        Ok(())
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        const P: usize = NUM_PROPOSALS;
        match (self.layout, index) {
            (ProposalLayout::TransFusion, 0) => {
                TensorView::new(&[1, NUM_CLASSES, P], TensorValues::F32(&self.scores))
            }
            (ProposalLayout::TransFusion, 1) => {
                TensorView::new(&[1, 8, P], TensorValues::F32(&self.boxes))
            }
            (ProposalLayout::TransFusion, 2) => {
                TensorView::new(&[1, 2, P], TensorValues::F32(&self.directions))
            }
            (ProposalLayout::BevFusion, 0) => {
                TensorView::new(&[10, P], TensorValues::F32(&self.boxes))
            }
            (ProposalLayout::BevFusion, 1) => {
                TensorView::new(&[P], TensorValues::F32(&self.scores[..P]))
            }
            (ProposalLayout::BevFusion, 2) => {
                TensorView::new(&[P], TensorValues::I64(&self.labels))
            }
            _ => Err(Error::new(ErrorKind::Inference, "infer", "no such output")),
        }
    }

    fn name(&self) -> &str {
        "first voxels"
    }
}

fn config(layout: ProposalLayout, more: &[&str]) -> LidarConfig {
    let head = match layout {
        ProposalLayout::TransFusion => "transfusion_autoware",
        ProposalLayout::BevFusion => "bevfusion_autoware",
    };
    let facts = std::fs::read_to_string(format!("config/heads/{head}.yaml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("head.yaml");
    std::fs::write(&file, facts.replace("min_voxels: 5000", "min_voxels: 3")).unwrap();
    let given = [
        "l.input:=/points".to_owned(),
        format!("l.head:={}", file.display()),
        "l.model_path:=m.onnx".to_owned(),
        "l.point_capacity:=20000".to_owned(),
        "l.voxel_capacity:=5000".to_owned(),
    ];
    let more = more.iter().map(|text| format!("l.{text}"));
    let given: Vec<String> = given.into_iter().chain(more).collect();
    let mut config = Config::load(&[], &given).unwrap();
    match config.channels.remove(0).kind {
        ChannelKind::Lidar(lidar) => *lidar,
        _ => panic!("a lidar head"),
    }
}

/// The same channel on both devices.
struct Pair {
    on_cpu: CpuDetector,
    on_gpu: CudaDetector,
    _stream: Stream,
}

impl Pair {
    fn new(device: &CudaDevice, layout: ProposalLayout, more: &[&str]) -> Self {
        let config = config(layout, more);
        let stream = device.stream().unwrap();
        let network = || Box::new(FirstVoxels::new(&config, layout));
        Self {
            on_cpu: CpuDetector::new(&config, network()).unwrap(),
            on_gpu: CudaDetector::new(&config, &stream, network()).unwrap(),
            _stream: stream,
        }
    }

    /// Number of detections of a sweep, once both sides agree; `None` if both drop it.
    fn check(&mut self, points: &[Point], sweep: usize, context: &str) -> Option<usize> {
        let cloud = cloud(points);
        let (view, stamp) = (cloud.view(), Stamp::from_nanos(100_000_000 * sweep as i64));
        let pose = (sweep != 3).then(|| Isometry3::translation(0.3 * sweep as f64, -0.2, 0.01));
        let expected = in_cloud(&mut self.on_cpu, &view, stamp, pose.as_ref());
        let found = in_cloud(&mut self.on_gpu, &view, stamp, pose.as_ref());
        let expected = match expected {
            Ok(expected) => expected,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TooFewVoxels, "{context}: {error}");
                let found = found.err().unwrap();
                assert_eq!((found.kind(), found.message()), (error.kind(), error.message()));
                return None;
            }
        };
        let found = found.unwrap_or_else(|error| panic!("{context}: {error}"));
        compare(&found, &expected, context);
        assert!(found.report.bytes(Stage::Infer, Transfer::Download) > 0, "{context}");
        Some(found.detections.len())
    }
}

fn cloud(points: &[Point]) -> Cloud {
    Cloud::plain(points.as_flattened(), &["intensity"])
}

fn compare(found: &Detected<Detection3d>, expected: &Detected<Detection3d>, context: &str) {
    for count in Count::ALL {
        let (found, expected) = (found.report.count(count), expected.report.count(count));
        assert_eq!(found, expected, "{context}: {}", count.name());
    }
    assert_eq!(found.detections.len(), expected.detections.len(), "{context}");
    for (a, b) in found.detections.iter().zip(&expected.detections) {
        assert_eq!(a.class, b.class, "{context}");
        check_near((a.score, &a.object), (b.score, &b.object), context);
    }
}

#[test]
fn the_network_is_given_the_voxels_of_the_frame() {
    for layout in LAYOUTS {
        let config = config(layout, &["densification.num_past_sweeps:=0"]);
        let mut detector =
            CpuDetector::new(&config, Box::new(FirstVoxels::new(&config, layout))).unwrap();
        let points = counting_voxels::cloud(3, 900);
        let cloud = cloud(&points);
        let found = in_cloud(&mut detector, &cloud.view(), Stamp::from_nanos(1), None).unwrap();
        assert!(found.detections.len() > 10, "{layout:?}: {}", found.detections.len());
        let has_velocity = found.detections.iter().all(|d| d.object.velocity_mps.is_some());
        assert_eq!(has_velocity, layout.has_velocity());
        if layout.has_velocity() {
            assert!(found.report.count(Count::ClassesUnknown) > 0);
        }
        // An empty cloud has no voxels; the next frame is processed.
        let error = in_cloud(&mut detector, &self::cloud(&[]).view(), Stamp::from_nanos(2), None);
        assert_eq!(error.err().unwrap().kind(), ErrorKind::TooFewVoxels, "{layout:?}");
        let again = in_cloud(&mut detector, &cloud.view(), Stamp::from_nanos(3), None).unwrap();
        assert_eq!(again.detections, found.detections);
    }
}

#[test]
fn another_network_is_refused() {
    let [trans, bev] = LAYOUTS.map(|layout| config(layout, &[]));
    for (config, layout) in
        [(&trans, ProposalLayout::BevFusion), (&bev, ProposalLayout::TransFusion)]
    {
        let network = Box::new(FirstVoxels::new(config, layout));
        let error = CpuDetector::new(config, network).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Model);
        assert!(error.message().contains("points per voxel"), "{error}");
    }
}

#[test]
fn clouds_of_any_size_one_after_another() {
    let Some(device) = det_post_testing::gpu() else { return };
    for layout in LAYOUTS {
        for past in [0, 2] {
            let past = format!("densification.num_past_sweeps:={past}");
            let mut pair = Pair::new(&device, layout, &[&past]);
            let (mut num_detections, mut num_dropped) = (0, 0);
            for (sweep, num) in [1500, 0, 1, 700, 9000, 3000, 400].into_iter().enumerate() {
                let points = counting_voxels::cloud(1 + sweep as u32, num);
                let context = format!("{layout:?} {past}, sweep {sweep}");
                match pair.check(&points, sweep, &context) {
                    Some(num) => num_detections += num,
                    None => num_dropped += 1,
                }
            }
            assert!(num_detections > 60, "{layout:?} {past}: {num_detections}");
            assert!(num_dropped > 0 || !past.ends_with('0'), "{layout:?} {past}");
        }
    }
}

#[test]
fn limits_cut_and_count_alike() {
    let Some(device) = det_post_testing::gpu() else { return };
    let points = counting_voxels::cloud(9, 3000);
    for layout in LAYOUTS {
        for more in [
            &["voxel_capacity:=100"][..],
            &["voxel_capacity:=3"],
            &["point_capacity:=700", "max_detections:=4"],
            &["pre_nms_top_k:=5", "candidate_capacity:=9"],
        ] {
            let mut pair = Pair::new(&device, layout, more);
            for sweep in [0, 1] {
                let num = pair.check(&points, sweep, &format!("{layout:?} {more:?}"));
                assert!(num.is_some_and(|num| num > 0), "{layout:?} {more:?}");
            }
        }
    }
}
