//! Decoding of heads on sites: the same candidates, in any order, the same counts.

use det_post_ops::decode::select::{Limits, select};
use det_post_ops::decode::sites::cuda::Workspace;
use det_post_ops::decode::sites::{SiteTask, decode_sites};
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, Graph, Stream};
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::conv::cuda::DeviceFeatures;
use det_post_ops::sparse::rulebook::cuda::{Cells, DeviceSites, Workspace as Rulebooks};
use det_post_ops::sparse::rulebook::{SiteGrid, Sites, sites_of_coordinates};
use det_post_types::{
    Candidate, Candidates, FrameReport, Object3d, PointRange, ScoreThresholds, SiteDecode,
    SizeOrder, YawConvention, total_order,
};

use det_post_testing::check_near;
use det_post_testing::random::Random;

const SHAPE: [u32; 3] = [1, 45, 61];

fn params(tasks: &[&[u32]]) -> SiteDecode {
    SiteDecode {
        origin_m: [-54.0, -50.3],
        cell_size_m: [0.6, 0.61],
        tasks: tasks.iter().map(|classes| classes.to_vec()).collect(),
        score_thresholds: ScoreThresholds::uniform(0.35, 10),
        yaw_norm_thresholds: Vec::new(),
        iou_weights: Vec::new(),
        size_order: SizeOrder::LengthWidthHeight,
        yaw: YawConvention::CounterClockwise,
        center_range: None,
        has_velocity: true,
    }
}

/// Sites and, task by task, the outputs: heat map, offset, height, size, rotation, velocity, iou.
struct Head {
    params: SiteDecode,
    precision: Precision,
    cells: Vec<[i32; 4]>,
    tasks: Vec<[Vec<f32>; 7]>,
}

impl Head {
    fn new(
        random: &mut Random,
        params: SiteDecode,
        precision: Precision,
        num_cells: usize,
        broken: f32,
    ) -> Self {
        let mut cells: Vec<[i32; 4]> = (0..num_cells)
            .map(|_| {
                let [z, y, x] = SHAPE.map(|size| random.below(size as usize) as i32);
                [0, z, y, x]
            })
            .collect();
        cells.sort_unstable();
        cells.dedup();
        let strange = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, 0.0, -0.0];
        let mut tasks = Vec::new();
        for classes in &params.tasks {
            let channels = [classes.len(), 2, 1, 3, 2, 2, 1];
            tasks.push(std::array::from_fn(|output| {
                let value = |random: &mut Random| {
                    if random.range(0.0, 1.0) < broken {
                        return strange[random.below(strange.len())];
                    }
                    let passes = output != 0 || random.range(0.0, 1.0) < 0.1;
                    if passes { random.range(-1.5, 1.5) } else { random.range(-7.0, -2.0) }
                };
                let values = (0..cells.len() * channels[output]).map(|_| value(random));
                values.map(|value| precision.round_stored(value)).collect()
            }));
        }
        Self { params, precision, cells, tasks }
    }

    fn reference(&self, sites: &Sites, limits: Limits) -> (Candidates<Object3d>, FrameReport) {
        let tasks: Vec<SiteTask<&[f32]>> =
            self.tasks.iter().map(|of| task(of, Vec::as_slice)).collect();
        let mut candidates = Candidates::with_capacity(limits.candidate_capacity);
        decode_sites(&tasks, sites, &self.params, &mut candidates).unwrap();
        let cut = select(&mut candidates, limits.pre_nms_top_k);
        let mut counts = FrameReport::new();
        cut.add_to(&mut counts);
        (candidates, counts)
    }

    fn upload(&self, stream: &Stream, capacity: usize) -> Vec<[DeviceFeatures; 7]> {
        let upload = |(values, channels): (&Vec<f32>, usize)| {
            let len = capacity * DeviceFeatures::row_len(channels);
            let mut features = DeviceFeatures::new(stream, self.precision, len).unwrap();
            features.write(values, channels).unwrap();
            features
        };
        let tasks = self.tasks.iter().zip(&self.params.tasks);
        tasks
            .map(|(outputs, classes)| {
                let channels = [classes.len(), 2, 1, 3, 2, 2, 1];
                std::array::from_fn(|output| upload((&outputs[output], channels[output])))
            })
            .collect()
    }

    fn check(&self, device: &CudaDevice, capacity: usize, top_k: usize) {
        let stream = device.stream().unwrap();
        let limits = Limits { candidate_capacity: capacity, pre_nms_top_k: top_k };
        let grid = SiteGrid::new(1, SHAPE).unwrap();
        let num = self.cells.len();
        let mut sites = Sites::new(grid, num + 3);
        sites_of_coordinates(&self.cells, &mut sites, &mut Vec::new());
        let mut on_device = DeviceSites::input(&stream, grid, num + 3).unwrap();
        let mut rows = DeviceBuffer::zeros(&stream, num.max(1)).unwrap();
        let cells: Vec<_> = self.cells.iter().map(|row| row.map(i32::cast_unsigned)).collect();
        rows.write(&cells).unwrap();
        let mut number = DeviceBuffer::zeros(&stream, 1).unwrap();
        number.write(&[num as u32]).unwrap();
        let rulebooks = Rulebooks::new(&stream).unwrap();
        rulebooks.enqueue_input(Cells::Coordinates(&rows), &number, &mut on_device).unwrap();

        let outputs = self.upload(&stream, on_device.capacity());
        let tasks: Vec<_> = outputs.iter().map(|of| task(of, |features| features)).collect();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let mut workspace =
            Workspace::new(&stream, &self.params, on_device.capacity(), capacity).unwrap();
        workspace.set(&self.params, limits).unwrap();
        let mut candidates = DeviceCandidates::with_capacity(&stream, capacity).unwrap();
        let graph = Graph::capture(&stream, || {
            workspace.enqueue(&tasks, &on_device, &mut candidates, &mut counters)
        })
        .unwrap();
        let (expected, expected_counts) = self.reference(&sites, limits);
        let context =
            format!("{num} sites, {:?}, {capacity}, {top_k}, {:?}", self.precision, self.params);
        for _ in 0..3 {
            graph.enqueue().unwrap();
            let num = candidates.num.read().unwrap()[0] as usize;
            assert_eq!(counters.take().unwrap(), expected_counts, "{context}");
            assert_eq!(num, expected.as_slice().len(), "{context}");
            let (motions, places) = workspace.motions();
            let (motions, places) = (motions.read().unwrap(), places.read().unwrap());
            let mut found: Vec<_> = candidates.items.read().unwrap()[..num]
                .iter()
                .zip(places)
                .map(|(of, place)| Candidate {
                    bbox: Object3d {
                        bbox: of.bbox,
                        velocity_mps: self
                            .params
                            .has_velocity
                            .then(|| motions[place as usize].velocity),
                        variance: None,
                    },
                    score: of.score,
                    class: of.class,
                    source: of.source,
                })
                .collect();
            found.sort_by(total_order);
            for (a, b) in found.iter().zip(expected.as_slice()) {
                assert_eq!((a.class, a.source), (b.class, b.source), "{context}");
                check_near((a.score, &a.bbox), (b.score, &b.bbox), &context);
            }
        }
    }
}

fn task<'a, T, U>(of: &'a [T; 7], output: impl Fn(&'a T) -> &'a U) -> SiteTask<&'a U>
where
    U: ?Sized,
{
    let [heatmap, offset, height, size, rotation, velocity, iou] = of.each_ref().map(output);
    let (velocity, iou) = (Some(velocity), Some(iou));
    SiteTask { heatmap, offset, height, size, rotation, velocity, iou }
}

#[test]
fn heads_of_any_size_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(432);
    let nuscenes: &[&[u32]] = &[&[0], &[1, 2], &[3, 4], &[5], &[6, 7], &[8, 9]];
    let wide: &[&[u32]] = &[&[9, 0, 8, 1, 7, 2, 6, 3, 5, 4]];
    for precision in [Precision::F32, Precision::F16, Precision::Bf16] {
        for tasks in [&[&[0_u32][..]][..], nuscenes, wide] {
            for num in [0, 1, 255, 256, 257, 2000] {
                let head = Head::new(&mut random, params(tasks), precision, num, 0.0);
                head.check(&device, 4000, 4000);
                head.check(&device, 100, 30);
            }
        }
    }
}

#[test]
fn thresholds_overlaps_and_broken_numbers_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(433);
    let plain = params(&[&[1, 0], &[2]]);
    let by_distance = ScoreThresholds {
        distance_upper_limits_m: vec![20.0, 40.0, 60.0],
        per_class: vec![vec![0.3, 0.5, 0.9], vec![0.9, 0.2, 0.2], vec![0.0, 1.1, 0.4]],
    };
    let range = PointRange { min: [-50.0, -40.0, -1.0], max: [-20.0, -25.0, 1.0] };
    for params in [
        SiteDecode { iou_weights: vec![0.68, 0.71, 0.65], ..plain.clone() },
        SiteDecode { iou_weights: vec![0.0, 1.0, 0.5], has_velocity: false, ..plain.clone() },
        SiteDecode { yaw_norm_thresholds: vec![0.9, 0.0, 1.3], ..plain.clone() },
        SiteDecode { center_range: Some(range), ..plain.clone() },
        SiteDecode {
            size_order: SizeOrder::WidthLengthHeight,
            yaw: YawConvention::ClockwiseFromMinusY,
            ..plain.clone()
        },
        SiteDecode { score_thresholds: by_distance, ..plain.clone() },
        plain,
    ] {
        for broken in [0.0, 0.05] {
            let head = Head::new(&mut random, params.clone(), Precision::F32, 1500, broken);
            head.check(&device, 3000, 2000);
            head.check(&device, 64, 64);
        }
    }
}
