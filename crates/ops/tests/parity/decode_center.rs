//! Decoding of CenterPoint heads, and what follows it: the same candidates, in
//! any order, the same counts of what was lost, the same detections.

use det_post_ops::arrays::candidates::cuda::{
    DecodedCenter, NUM_VARIANCES, SurvivorColumns, SurvivorIds,
};
use det_post_ops::decode::center::cuda::Workspace;
use det_post_ops::decode::center::{CenterTask, decode_center};
use det_post_ops::decode::gather::cuda::{Inputs3d, OutputAttributes, Workspace3d};
use det_post_ops::decode::gather::gather_3d;
use det_post_ops::decode::select::{Limits, select};
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, DeviceTensor, Graph, Stream};
use det_post_ops::nms;
use det_post_ops::nms::circle::nms_circle;
use det_post_ops::nms::cuda::{Capacity, Suppression3d};
use det_post_ops::shared::Motion;
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{
    Box3d, Candidate, Candidates, CenterDecode, CircleThreshold, ClassMode, Count, ElementType,
    FrameReport, Nms3d, NmsCircle, Object3d, PointRange, ScoreThresholds, SizeOrder, Tensor,
    TensorView, Variance3d, YawConvention, total_order,
};

use det_post_testing::check_near;
use det_post_testing::random::Random;
use det_post_testing::tensors::{tensor, upload};

/// A head and the answer of its network: per task heat map, offset, height,
/// size, rotation, velocity.
pub struct Head {
    params: CenterDecode,
    tasks: Vec<[Tensor; 6]>,
}

/// How maps are filled.
#[derive(Clone, Copy, Debug)]
pub struct Filling {
    pub element: ElementType,
    /// Share of cells whose score is high.
    pub passing: f32,
    /// Different heats, 0 for any.
    pub num_heats: usize,
    /// Share of numbers that are none, or far too large.
    pub broken: f32,
}

pub const PLAIN: Filling =
    Filling { element: ElementType::F32, passing: 0.02, num_heats: 0, broken: 0.0 };

pub fn params(tasks: Vec<Vec<u32>>) -> CenterDecode {
    let num_classes = tasks.iter().flatten().max().map_or(0, |&last| last as usize + 1);
    CenterDecode {
        origin_m: [-76.8, -70.4],
        cell_size_m: [0.32, 0.33],
        tasks,
        heatmap_logits: true,
        size_order: SizeOrder::WidthLengthHeight,
        size_log: true,
        yaw: YawConvention::ClockwiseFromMinusY,
        score_thresholds: ScoreThresholds::uniform(0.35, num_classes),
        yaw_norm_thresholds: vec![0.3; num_classes],
        center_range: None,
        has_velocity: false,
        has_variance: false,
    }
}

impl Head {
    pub fn new(
        random: &mut Random,
        params: CenterDecode,
        sizes: &[[usize; 2]],
        filling: Filling,
    ) -> Self {
        let copies = if params.has_variance { 2 } else { 1 };
        let strange = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, 0.0, -0.0];
        let mut tasks = Vec::new();
        for (classes, &[height, width]) in params.tasks.iter().zip(sizes) {
            let channels = [classes.len(), 2 * copies, copies, 3 * copies, 2 * copies, 2 * copies];
            tasks.push(std::array::from_fn(|map| {
                let shape = [1, channels[map], height, width];
                let values: Vec<f32> = (0..shape.iter().product())
                    .map(|_| {
                        if random.range(0.0, 1.0) < filling.broken {
                            return strange[random.below(strange.len())];
                        }
                        if map != 0 {
                            return random.range(-1.5, 1.5);
                        }
                        let passes = random.range(0.0, 1.0) < filling.passing;
                        let heat = random.range(0.0, 1.0);
                        let heat = match filling.num_heats {
                            0 => heat,
                            num => (heat * num as f32).floor() / num as f32,
                        };
                        match (passes, params.heatmap_logits) {
                            (true, true) => 5.0 * heat - 0.5,
                            (false, true) => -2.0 - 4.0 * heat,
                            (true, false) => heat,
                            (false, false) => 0.1 * heat,
                        }
                    })
                    .collect();
                tensor(filling.element, &shape, &values)
            }));
        }
        Self { params, tasks }
    }

    fn num_cells(&self) -> usize {
        self.tasks.iter().map(|[heat, ..]| heat.shape()[2] * heat.shape()[3]).sum()
    }

    fn describe(&self) -> String {
        let heat: Vec<_> = self.tasks.iter().map(|[heat, ..]| heat.shape().to_vec()).collect();
        format!("{} {heat:?} {:?}", self.tasks[0][0].element(), self.params)
    }

    /// As the lidar's frame does it: decoded, selected.
    pub fn reference(&self, capacity: usize, top_k: usize) -> (Candidates<Object3d>, FrameReport) {
        let tasks: Vec<CenterTask<TensorView<'_>>> = self
            .tasks
            .iter()
            .map(|[heatmap, offset, height, size, rotation, velocity]| CenterTask {
                heatmap: heatmap.view(),
                offset: offset.view(),
                height: height.view(),
                size: size.view(),
                rotation: rotation.view(),
                velocity: Some(velocity.view()),
            })
            .collect();
        let mut candidates = Candidates::with_capacity(capacity);
        decode_center(&tasks, &self.params, &mut candidates).unwrap();
        let cut = select(&mut candidates, top_k);
        let mut counts = FrameReport::new();
        cut.add_to(&mut counts);
        (candidates, counts)
    }
}

/// A head's maps in device memory.
struct Uploaded(Vec<[DeviceTensor; 6]>);

impl Uploaded {
    fn new(stream: &Stream, head: &Head) -> Self {
        Self(head.tasks.iter().map(|maps| maps.each_ref().map(|map| upload(stream, map))).collect())
    }

    fn tasks(&self) -> Vec<CenterTask<&DeviceTensor>> {
        self.0
            .iter()
            .map(|maps| CenterTask {
                heatmap: &maps[0],
                offset: &maps[1],
                height: &maps[2],
                size: &maps[3],
                rotation: &maps[4],
                velocity: Some(&maps[5]),
            })
            .collect()
    }
}

fn object_of(params: &CenterDecode, bbox: Box3d, motion: Motion) -> Object3d {
    let variance = Variance3d {
        center: motion.center_variance,
        size: motion.size_variance,
        yaw: motion.yaw_variance,
        velocity: motion.velocity_variance,
    };
    Object3d {
        bbox,
        velocity_mps: params.has_velocity.then_some(motion.velocity),
        variance: params.has_variance.then_some(variance),
    }
}

pub struct Problem<'a> {
    pub head: &'a Head,
    pub capacity: usize,
    pub top_k: usize,
}

impl Problem<'_> {
    pub fn check(&self, device: &CudaDevice) {
        let Self { head, capacity, top_k } = *self;
        check_arrays(head, capacity, device);
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let mut workspace =
            Workspace::new(&stream, &head.params, head.num_cells(), capacity).unwrap();
        workspace
            .set(&head.params, Limits { candidate_capacity: capacity, pre_nms_top_k: top_k })
            .unwrap();
        let maps = Uploaded::new(&stream, head);
        let mut num_voxels = DeviceBuffer::zeros(&stream, 1).unwrap();
        num_voxels.write(&[7]).unwrap();
        let mut candidates = DeviceCandidates::with_capacity(&stream, capacity).unwrap();
        let graph = Graph::capture(&stream, || {
            workspace.enqueue(&maps.tasks(), &num_voxels, &mut candidates, &mut counters)
        })
        .unwrap();
        let (expected, expected_counts) = head.reference(capacity, top_k);
        let context = format!("{}, capacity {capacity}, top {top_k}", head.describe());
        let mut before = Vec::new();
        for run in 0..3 {
            graph.enqueue().unwrap();
            let found = read(&candidates, &workspace, head);
            assert_eq!(counters.take().unwrap(), expected_counts, "{context}");
            assert_eq!(found.len(), expected.as_slice().len(), "{context}");
            for (a, b) in found.iter().zip(expected.as_slice()) {
                assert_eq!((a.class, a.source), (b.class, b.source), "{context}");
                check_near((a.score, &a.bbox), (b.score, &b.bbox), &context);
            }
            assert!(run == 0 || found == before, "{context}: a second run differs");
            before = found;
        }
        num_voxels.write(&[0]).unwrap();
        graph.enqueue().unwrap();
        assert_eq!(candidates.num.read().unwrap(), [0], "{context}: of no voxels");
        assert_eq!(counters.take().unwrap(), FrameReport::new(), "{context}: of no voxels");
    }
}

/// The arrays of a decoder with memory of its own: those of the reference, in the total order.
fn check_arrays(head: &Head, capacity: usize, device: &CudaDevice) {
    let stream = device.stream().unwrap();
    let mut decode = DecodedCenter::new(&stream, &head.params, head.num_cells(), capacity).unwrap();
    let maps = Uploaded::new(&stream, head);
    let (expected, counts) = head.reference(capacity, capacity);
    let context = format!("arrays of {}, capacity {capacity}", head.describe());
    for _ in 0..2 {
        let num = decode.run(&maps.tasks()).unwrap();
        assert_eq!(num, expected.as_slice().len(), "{context}");
        let mut found_counts = FrameReport::new();
        decode.ranked.take_counts().unwrap().add_to(&mut found_counts);
        assert_eq!(found_counts, counts, "{context}");
        let zeros = |len| DeviceBuffer::<f32>::zeros(&stream, len).unwrap();
        let [mut boxes, mut scores] = [zeros(7 * num), zeros(num)];
        let [mut velocities, mut variances] = [zeros(2 * num), zeros(NUM_VARIANCES * num)];
        let integers = || DeviceBuffer::<u64>::zeros(&stream, num).unwrap();
        let [mut classes, mut sources] = [integers(), integers()];
        let columns = SurvivorColumns {
            boxes: boxes.output(&stream).unwrap(),
            scores: scores.output(&stream).unwrap(),
            ids: SurvivorIds::I64 {
                classes: classes.output(&stream).unwrap(),
                sources: sources.output(&stream).unwrap(),
            },
        };
        if num == 0 {
            return;
        }
        decode.ranked.enqueue_columns(columns).unwrap();
        let outputs = (velocities.output(&stream).unwrap(), variances.output(&stream).unwrap());
        decode.enqueue_motions(outputs.0, outputs.1).unwrap();
        let (boxes, scores) = (boxes.read().unwrap(), scores.read().unwrap());
        let (velocities, variances) = (velocities.read().unwrap(), variances.read().unwrap());
        let (classes, sources) = (classes.read().unwrap(), sources.read().unwrap());
        let found = boxes.as_chunks::<7>().0.iter().zip(velocities.as_chunks::<2>().0);
        let variances = variances.as_chunks::<NUM_VARIANCES>().0;
        for (row, (&[x, y, z, length_m, width_m, height_m, yaw_rad], &velocity)) in
            found.enumerate()
        {
            let b = expected.as_slice()[row];
            let ids = (classes[row], sources[row]);
            assert_eq!(ids, (b.class.into(), b.source.into()), "{context}");
            let [vx, vy, vz, sx, sy, sz, yaw, v0, v1] = variances[row];
            let motion = Motion {
                velocity,
                center_variance: [vx, vy, vz],
                size_variance: [sx, sy, sz],
                yaw_variance: yaw,
                velocity_variance: [v0, v1],
            };
            let bbox = Box3d { center: [x, y, z], length_m, width_m, height_m, yaw_rad };
            let object = object_of(&head.params, bbox, motion);
            check_near((scores[row], &object), (b.score, &b.bbox), &context);
        }
    }
    let [mut short, mut long] = [(); 2].map(|()| DeviceBuffer::zeros(&stream, 8).unwrap());
    let outputs = (short.output(&stream).unwrap(), long.output(&stream).unwrap());
    assert!(decode.enqueue_motions(outputs.0, outputs.1).is_err(), "4 boxes, 8 variances");
}

/// The candidates with what lies beside them, in the total order.
fn read(
    candidates: &DeviceCandidates<Box3d>,
    workspace: &Workspace,
    head: &Head,
) -> Vec<Candidate<Object3d>> {
    let num = candidates.num.read().unwrap()[0] as usize;
    let (motions, places) = workspace.motions();
    let (motions, places) = (motions.read().unwrap(), places.read().unwrap());
    let mut found: Vec<_> = candidates.items.read().unwrap()[..num]
        .iter()
        .zip(places)
        .map(|(candidate, place)| Candidate {
            bbox: object_of(&head.params, candidate.bbox, motions[place as usize]),
            score: candidate.score,
            class: candidate.class,
            source: candidate.source,
        })
        .collect();
    found.sort_by(total_order);
    found
}

#[test]
fn sizes_tasks_and_elements_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(130);
    let many = vec![vec![0], vec![1, 2], vec![3, 4], vec![5], vec![6, 7], vec![8, 9]];
    for element in [ElementType::F32, ElementType::F16] {
        for (height, width) in [(1, 1), (5, 7), (16, 16), (33, 31), (128, 128)] {
            for tasks in [vec![vec![0]], vec![vec![0, 1, 2, 3, 4]], many.clone()] {
                let sizes = vec![[height, width]; tasks.len()];
                for (has_velocity, has_variance) in
                    [(false, false), (true, false), (false, true), (true, true)]
                {
                    let params =
                        CenterDecode { has_velocity, has_variance, ..params(tasks.clone()) };
                    let filling = Filling { element, passing: 0.1, ..PLAIN };
                    let head = Head::new(&mut random, params, &sizes, filling);
                    Problem { head: &head, capacity: 500, top_k: 400 }.check(&device);
                }
            }
        }
    }
    // Tasks of different sizes.
    let sizes = [[40, 30], [7, 9], [64, 64]];
    let params = params(vec![vec![2, 0], vec![1], vec![4, 3]]);
    let head = Head::new(&mut random, params, &sizes, Filling { passing: 0.1, ..PLAIN });
    Problem { head: &head, capacity: 300, top_k: 1000 }.check(&device);
}

#[test]
fn conventions_thresholds_and_ranges_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(131);
    let plain = params(vec![vec![1, 0], vec![2]]);
    let by_distance = ScoreThresholds {
        distance_upper_limits_m: vec![20.0, 60.0, 90.0],
        per_class: vec![vec![0.3, 0.5, 0.9], vec![0.9, 0.2, 0.2], vec![0.0, 1.1, 0.4]],
    };
    let range = PointRange { min: [-50.0, -60.0, -1.0], max: [40.0, 30.0, 1.0] };
    let variants = [
        CenterDecode { heatmap_logits: false, ..plain.clone() },
        CenterDecode { size_log: false, has_variance: true, ..plain.clone() },
        CenterDecode { size_order: SizeOrder::LengthWidthHeight, ..plain.clone() },
        CenterDecode { yaw: YawConvention::CounterClockwise, ..plain.clone() },
        CenterDecode { score_thresholds: by_distance, ..plain.clone() },
        CenterDecode { score_thresholds: ScoreThresholds::uniform(0.0, 3), ..plain.clone() },
        CenterDecode { score_thresholds: ScoreThresholds::uniform(1.5, 3), ..plain.clone() },
        CenterDecode { score_thresholds: ScoreThresholds::uniform(0.5, 1), ..plain.clone() },
        CenterDecode { yaw_norm_thresholds: vec![], ..plain.clone() },
        CenterDecode { yaw_norm_thresholds: vec![0.0, 1.0, 3.0], ..plain.clone() },
        CenterDecode { center_range: Some(range), has_velocity: true, ..plain.clone() },
    ];
    for params in variants {
        for broken in [0.0, 0.02] {
            let filling = Filling { passing: 0.1, broken, ..PLAIN };
            let head = Head::new(&mut random, params.clone(), &[[90, 80]; 2], filling);
            Problem { head: &head, capacity: 4000, top_k: 4000 }.check(&device);
        }
    }
}

#[test]
fn the_post_processing_of_a_frame_agrees() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(133);
    for (has_velocity, has_variance, passing) in
        [(false, false, 0.0), (true, false, 0.002), (true, true, 0.01), (false, true, 0.3)]
    {
        let params =
            CenterDecode { has_velocity, has_variance, ..params(vec![vec![0, 1, 2, 3, 4]]) };
        let filling = Filling { passing, ..PLAIN };
        let head = Head::new(&mut random, params, &[[240, 240]], filling);
        for (capacity, max_detections) in [(1000, 500), (2000, 10), (3000, 3000)] {
            check_frame(&device, &head, capacity, max_detections);
        }
    }
}

fn check_frame(device: &CudaDevice, head: &Head, capacity: usize, max_detections: usize) {
    let circle = NmsCircle {
        thresholds: vec![0.5, 1.5, 3.0, 0.85, 1.0],
        reading: CircleThreshold::Radius,
        class_mode: ClassMode::Agnostic,
    };
    let (candidates, mut counts) = head.reference(capacity, capacity);
    let (mut keep, mut expected) = (Vec::new(), Vec::new());
    nms_circle(candidates.as_slice(), &circle, &mut nms::Workspace::default(), &mut keep).unwrap();
    let over = gather_3d(candidates.as_slice(), &keep, max_detections, &mut expected);
    counts.add_count(Count::DetectionsOverLimit, over);

    let stream = device.stream().unwrap();
    let mut counters = DeviceCounters::new(&stream).unwrap();
    let mut decode = Workspace::new(&stream, &head.params, head.num_cells(), capacity).unwrap();
    decode
        .set(&head.params, Limits { candidate_capacity: capacity, pre_nms_top_k: capacity })
        .unwrap();
    let limits = Capacity { candidates: capacity, classes: 5 };
    let mut suppress = Suppression3d::new(&stream, &Nms3d::Circle(circle), limits).unwrap();
    let attributes =
        OutputAttributes { velocity: head.params.has_velocity, variance: head.params.has_variance };
    let mut gather = Workspace3d::new(&stream, attributes, max_detections).unwrap();
    let maps = Uploaded::new(&stream, head);
    let mut num_voxels = DeviceBuffer::zeros(&stream, 1).unwrap();
    num_voxels.write(&[1]).unwrap();
    let mut found = DeviceCandidates::with_capacity(&stream, capacity).unwrap();
    let graph = Graph::capture(&stream, || {
        decode.enqueue(&maps.tasks(), &num_voxels, &mut found, &mut counters)?;
        suppress.enqueue(&found)?;
        let (motions, kept) = (Some(decode.motions()), suppress.kept());
        gather.enqueue(&Inputs3d { candidates: &found, motions, kept }, &mut counters)
    })
    .unwrap();
    let mut out = Vec::new();
    let mut before = Vec::new();
    for run in 0..3 {
        graph.enqueue().unwrap();
        let read = gather.read(&mut out).unwrap();
        let context = format!("{}, capacity {capacity}, at most {max_detections}", head.describe());
        let mut report = FrameReport::new();
        counters.add_to(&mut report);
        assert_eq!(report, counts, "{context}");
        assert_eq!(read.suppressed.num_kept as usize, keep.len(), "{context}");
        assert_eq!(out.len(), expected.len(), "{context}");
        for (a, b) in out.iter().zip(&expected) {
            assert_eq!(a.class, b.class, "{context}");
            check_near((a.score, &a.object), (b.score, &b.object), &context);
        }
        assert!(run == 0 || out == before, "{context}: a second run differs");
        before.clone_from(&out);
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut counters = DeviceCounters::new(&stream).unwrap();
    let mut random = Random::new(134);
    let params = params(vec![vec![0, 1]]);
    let head = Head::new(&mut random, params.clone(), &[[8, 8]], PLAIN);
    let mut workspace = Workspace::new(&stream, &params, 64, 10).unwrap();
    let mut num_voxels = DeviceBuffer::zeros(&stream, 1).unwrap();
    num_voxels.write(&[1]).unwrap();
    let mut candidates = DeviceCandidates::with_capacity(&stream, 10).unwrap();
    let maps = Uploaded::new(&stream, &head);
    workspace.enqueue(&maps.tasks(), &num_voxels, &mut candidates, &mut counters).unwrap();
    assert_eq!(candidates.num.read().unwrap(), [0], "nothing passes before it is set");
    assert!(workspace.enqueue(&[], &num_voxels, &mut candidates, &mut counters).is_err());
    let big = Head::new(&mut random, params.clone(), &[[8, 9]], PLAIN);
    let big = Uploaded::new(&stream, &big);
    assert!(workspace.enqueue(&big.tasks(), &num_voxels, &mut candidates, &mut counters).is_err());
    let half = Filling { element: ElementType::F16, ..PLAIN };
    let half = Uploaded::new(&stream, &Head::new(&mut random, params.clone(), &[[8, 8]], half));
    let mut mixed = maps.tasks();
    mixed[0].size = half.tasks()[0].size;
    assert!(workspace.enqueue(&mixed, &num_voxels, &mut candidates, &mut counters).is_err());
    let mut swapped = maps.tasks();
    swapped[0].size = swapped[0].offset;
    assert!(workspace.enqueue(&swapped, &num_voxels, &mut candidates, &mut counters).is_err());
    let limits = Limits { candidate_capacity: 10, pre_nms_top_k: 10 };
    let velocity = CenterDecode { has_velocity: true, ..params.clone() };
    assert!(workspace.set(&velocity, limits).is_err());
    let norms = CenterDecode { yaw_norm_thresholds: vec![0.3], ..params.clone() };
    assert!(Workspace::new(&stream, &norms, 64, 10).is_err());
    assert!(Workspace::new(&stream, &CenterDecode { tasks: vec![], ..params }, 64, 10).is_err());
}
