//! The rows with the largest values, and the memory that they join or are kept in.

use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, In, Out, Stream};
use det_post_ops::view::linear::cuda::{DeviceRows, Element};
use det_post_ops::view::refine::move_anchors;
use det_post_ops::view::top_rows::cuda::{RowElement, TopRows, TopRowsArgs};
use det_post_ops::view::top_rows::top_rows;
use det_post_types::{CachedYaw, Motion, QueryBox};
use half::f16;

use det_post_testing::random::Random;

const NUM_CHANNELS: usize = 48;

struct Scene {
    logits: Vec<f32>,
    features: Vec<f32>,
    boxes: Vec<QueryBox>,
}

impl Scene {
    /// `num_steps` different logits a unit, so that there are ties.
    fn random([num_rows, num_classes]: [usize; 2], num_steps: f32, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut values = |len: usize| -> Vec<f32> {
            (0..len).map(|_| f16::from_f32(random.range(-4.0, 4.0)).to_f32()).collect()
        };
        let logits = values(num_rows * num_classes);
        Self {
            logits: logits.iter().map(|logit| (logit * num_steps).round() / num_steps).collect(),
            features: values(num_rows * NUM_CHANNELS),
            boxes: values(num_rows * 11).as_chunks().0.to_vec(),
        }
    }

    fn num_classes(&self) -> usize {
        self.logits.len() / self.boxes.len()
    }

    fn values(&self) -> Vec<f32> {
        let rows = self.logits.chunks(self.num_classes());
        rows.map(|row| row.iter().copied().fold(f32::NEG_INFINITY, f32::max)).collect()
    }
}

fn sigmoid(logit: f32) -> f32 {
    (1.0 / (1.0 + (-f64::from(logit)).exp())) as f32
}

/// The best rows by the reference.
fn best(values: &[f32], num: usize) -> Vec<u32> {
    let mut rows = vec![0; num];
    top_rows(values, &mut Vec::new(), &mut rows).unwrap();
    rows
}

struct Uploaded<T> {
    logits: DeviceBuffer<f32>,
    features: DeviceRows<T>,
    boxes: DeviceBuffer<f32>,
}

fn upload(stream: &Stream, values: &[f32]) -> DeviceBuffer<f32> {
    let mut buffer = DeviceBuffer::zeros(stream, values.len()).unwrap();
    buffer.write(values).unwrap();
    buffer
}

fn upload_scene<T: Element>(stream: &Stream, scene: &Scene) -> Uploaded<T> {
    Uploaded {
        logits: upload(stream, &scene.logits),
        features: DeviceRows::from_host(stream, &scene.features, NUM_CHANNELS).unwrap(),
        boxes: upload(stream, scene.boxes.as_flattened()),
    }
}

/// Features and boxes of rows.
fn rows_of(scene: &Scene, rows: &[u32]) -> (Vec<f32>, Vec<f32>) {
    let features = rows.iter().flat_map(|&row| {
        scene.features[row as usize * NUM_CHANNELS..][..NUM_CHANNELS].iter().copied()
    });
    let boxes = rows.iter().flat_map(|&row| scene.boxes[row as usize]);
    (features.collect(), boxes.collect())
}

/// Moved rows of a memory, then the best of the frame.
fn joins<T: Element + RowElement>(device: &CudaDevice, sizes: [usize; 3], yaw: CachedYaw) {
    let [num_rows, num_memory, num_classes] = sizes;
    let stream = device.stream().unwrap();
    let scene = Scene::random([num_rows, num_classes], 8.0, 3);
    let mut memory = Scene::random([num_memory, num_classes], 1e3, 7);
    let motion = Motion {
        interval_s: 0.31,
        current_from_past: [
            [0.98, -0.199, 0.0, -1.25],
            [0.199, 0.98, 0.001, 0.5],
            [0.0, -0.001, 1.0, 0.03],
        ],
    };
    let num_chosen = num_rows - num_memory;
    let kept = best(&scene.values(), num_chosen);
    let on_device = upload_scene::<T>(&stream, &scene);
    let of_memory = upload_scene::<T>(&stream, &memory);
    let values = [motion.current_from_past.as_flattened(), &[motion.interval_s]].concat();
    let values = upload(&stream, &values);
    let mut features = DeviceRows::<T>::zeros(&stream, num_rows, NUM_CHANNELS).unwrap();
    let mut boxes = upload(&stream, &vec![f32::NAN; 11 * num_rows]);
    let mut rows = DeviceBuffer::<u32>::zeros(&stream, num_chosen).unwrap();
    let args = TopRowsArgs {
        logits: on_device.logits.input(&stream).unwrap(),
        features: on_device.features.input(&stream).unwrap(),
        boxes: on_device.boxes.input(&stream).unwrap(),
        confidence: In::empty(),
        to_features: features.output(&stream).unwrap(),
        to_boxes: boxes.output(&stream).unwrap(),
        to_confidence: Out::empty(),
        rows: rows.output(&stream).unwrap(),
        memory_features: of_memory.features.input(&stream).unwrap(),
        memory_boxes: of_memory.boxes.input(&stream).unwrap(),
        motion: values.input(&stream).unwrap(),
        num_rows: num_rows as u32,
        num_classes: scene.num_classes() as u32,
        num_chosen: num_chosen as u32,
        num_memory: num_memory as u32,
        num_channels: NUM_CHANNELS as u32,
        swaps_yaw: u32::from(yaw == CachedYaw::CosSin),
        decay: 1.0,
        reserved: 0,
    };
    TopRows::<T>::load(device, num_rows).unwrap().enqueue(&stream, args).unwrap();
    assert_eq!(rows.read().unwrap(), kept, "{sizes:?}");
    move_anchors(&mut memory.boxes, &motion, yaw);
    let (kept_features, kept_boxes) = rows_of(&scene, &kept);
    let expected = [memory.features, kept_features].concat();
    assert!(features.read(NUM_CHANNELS).unwrap() == expected, "{sizes:?}");
    let expected = [memory.boxes.as_flattened(), &kept_boxes].concat();
    assert!(boxes.read().unwrap() == expected, "{sizes:?}");
}

#[test]
fn the_memory_comes_before_the_best_rows() {
    let Some(device) = det_post_testing::gpu() else { return };
    for sizes in [[9, 5, 3], [48, 32, 1], [250, 150, 10], [900, 600, 3], [512, 300, 10]] {
        for yaw in [CachedYaw::SinCos, CachedYaw::CosSin] {
            joins::<f32>(&device, sizes, yaw);
            joins::<f16>(&device, sizes, yaw);
        }
    }
}

/// The rows with the highest confidence, which decays from frame to frame.
fn keeps<T: Element + RowElement>(
    device: &CudaDevice,
    scene: &Scene,
    num_kept: usize,
    num_before: usize,
) {
    let num_rows = scene.boxes.len();
    let stream = device.stream().unwrap();
    let before: Vec<f32> = (0..num_before).map(|row| (row % 7) as f32 / 7.0).collect();
    let mut confidence: Vec<f32> = scene.values().into_iter().map(sigmoid).collect();
    for (value, before) in confidence.iter_mut().zip(&before) {
        *value = value.max(before * 0.6);
    }
    let kept = best(&confidence, num_kept);
    let on_device = upload_scene::<T>(&stream, scene);
    let before = upload(&stream, &before);
    let mut features = DeviceRows::<T>::zeros(&stream, num_kept, NUM_CHANNELS).unwrap();
    let mut boxes = upload(&stream, &vec![f32::NAN; 11 * num_kept]);
    let mut kept_confidence = upload(&stream, &vec![f32::NAN; num_kept]);
    let mut rows = DeviceBuffer::<u32>::zeros(&stream, num_kept).unwrap();
    let args = TopRowsArgs {
        logits: on_device.logits.input(&stream).unwrap(),
        features: on_device.features.input(&stream).unwrap(),
        boxes: on_device.boxes.input(&stream).unwrap(),
        confidence: if num_before == 0 { In::empty() } else { before.input(&stream).unwrap() },
        to_features: features.output(&stream).unwrap(),
        to_boxes: boxes.output(&stream).unwrap(),
        to_confidence: kept_confidence.output(&stream).unwrap(),
        rows: rows.output(&stream).unwrap(),
        memory_features: In::empty(),
        memory_boxes: In::empty(),
        motion: In::empty(),
        num_rows: num_rows as u32,
        num_classes: scene.num_classes() as u32,
        num_chosen: num_kept as u32,
        num_memory: 0,
        num_channels: NUM_CHANNELS as u32,
        swaps_yaw: 0,
        decay: 0.6,
        reserved: 0,
    };
    let kernel = TopRows::<T>::load(device, num_rows).unwrap();
    kernel.enqueue(&stream, args).unwrap();
    // More rows than there are.
    assert!(
        kernel.enqueue(&stream, TopRowsArgs { num_chosen: num_rows as u32 + 1, ..args }).is_err()
    );
    assert!(kernel.enqueue(&stream, TopRowsArgs { num_channels: 12, ..args }).is_err());
    assert!(kernel.enqueue(&stream, TopRowsArgs { num_memory: 1, ..args }).is_err());
    assert_eq!(rows.read().unwrap(), kept);
    let expected: Vec<f32> = kept.iter().map(|&row| confidence[row as usize]).collect();
    assert_eq!(kept_confidence.read().unwrap(), expected);
    let (expected_features, expected_boxes) = rows_of(scene, &kept);
    assert!(features.read(NUM_CHANNELS).unwrap() == expected_features);
    assert!(boxes.read().unwrap() == expected_boxes);
}

#[test]
fn the_best_rows_are_kept() {
    let Some(device) = det_post_testing::gpu() else { return };
    for (num_rows, num_kept, num_classes) in
        [(1, 1, 3), (10, 6, 2), (48, 32, 3), (900, 600, 10), (900, 900, 7)]
    {
        for num_before in [0, num_kept] {
            // Many ties, few ties.
            for num_steps in [1.0, 1e3] {
                let scene = Scene::random([num_rows, num_classes], num_steps, 11);
                keeps::<f32>(&device, &scene, num_kept, num_before);
                keeps::<f16>(&device, &scene, num_kept, num_before);
            }
        }
    }
}

#[test]
fn rows_without_a_number_come_last() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut scene = Scene::random([64, 3], 4.0, 5);
    scene.logits[3 * 7] = f32::NAN;
    scene.logits[3 * 20..3 * 21].fill(f32::NAN);
    scene.logits[3 * 30..3 * 31].fill(f32::NEG_INFINITY);
    scene.logits[3 * 40 + 2] = f32::INFINITY;
    keeps::<f32>(&device, &scene, 64, 0);
    keeps::<f16>(&device, &scene, 30, 30);
}
