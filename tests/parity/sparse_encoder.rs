//! Whole networks of sparse convolutions: one graph a frame.

use det_post::device::cuda::{DeviceBuffer, DeviceTensor, Graph, Stream};
use det_post::infer::sparse::{CpuEncoder, CudaEncoder, Plan, SparseNetwork};
use det_post::ops::rulebook::cuda::Cells;
use det_post::ops::sparse_conv::Precision;
use det_post::types::{ElementType, Tensor};

use super::common::encoders::{Family, network};
use super::common::npz::Npz;
use super::common::shared_data::shared_data;
use super::random::Random;
use super::tensors::bits;

/// The `mini` scene of the shared references.
struct Scene {
    network: SparseNetwork,
    coordinates: Vec<[i32; 4]>,
    features: Vec<f32>,
}

impl Scene {
    fn open(family: Family) -> Option<Self> {
        let path = shared_data()?.join(format!("sparse/{}_mini.npz", family.name()));
        let npz = Npz::open(&path);
        let shape = npz.i32("level0/shape");
        let shape = [shape[0], shape[1], shape[2]].map(i32::cast_unsigned);
        let (network, _) = network(&family.layers(21, &npz), shape).unwrap();
        let coordinates = npz.rows_of_4("in_coords").to_vec();
        Some(Self { network, coordinates, features: npz.f32("in_features").to_vec() })
    }

    fn plan(&self, num_voxels: usize) -> Plan {
        Plan::new(self.network.clone(), &self.network.default_capacities(num_voxels)).unwrap()
    }

    fn reference(&self, num: usize, precision: Precision) -> (Tensor, CpuEncoder) {
        let plan = self.plan(self.coordinates.len());
        let mut map = Tensor::zeros(ElementType::F32, &self.network.map_shape()).unwrap();
        let mut encoder = CpuEncoder::new(plan, precision, 2).unwrap();
        encoder.run(&self.coordinates[..num], &self.features[..num * 5], &mut map).unwrap();
        (map, encoder)
    }
}

/// A recorded encoder and its inputs.
struct Recorded {
    encoder: CudaEncoder,
    num: DeviceBuffer<u32>,
    map: DeviceTensor,
    graph: Graph,
}

impl Recorded {
    fn new(stream: &Stream, scene: &Scene, precision: Precision) -> Self {
        let plan = scene.plan(scene.coordinates.len());
        let mut encoder = CudaEncoder::new(stream, plan, precision).unwrap();
        let rows: Vec<[u32; 4]> =
            scene.coordinates.iter().map(|row| row.map(i32::cast_unsigned)).collect();
        let mut cells = DeviceBuffer::zeros(stream, rows.len()).unwrap();
        cells.write(&rows).unwrap();
        let mut features = DeviceBuffer::zeros(stream, scene.features.len()).unwrap();
        features.write(&scene.features).unwrap();
        let num = DeviceBuffer::zeros(stream, 1).unwrap();
        let shape = scene.network.map_shape();
        let mut map = DeviceTensor::zeros(stream, ElementType::F32, &shape).unwrap();
        let graph = Graph::record(stream, || {
            encoder.enqueue(Cells::Coordinates(&cells), &num, &features, &mut map)
        })
        .unwrap();
        Self { encoder, num, map, graph }
    }

    fn run(&mut self, num: usize) -> Tensor {
        self.num.write(&[num as u32]).unwrap();
        self.graph.enqueue().unwrap();
        self.map.read().unwrap()
    }
}

fn f32_values(tensor: &Tensor) -> &[f32] {
    let Tensor::F32 { values, .. } = tensor else { panic!("{:?}", tensor.element()) };
    values
}

fn relative_l2(found: &Tensor, expected: &Tensor) -> f64 {
    let pairs = || f32_values(found).iter().zip(f32_values(expected));
    let sum: f64 = pairs().map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
    let norm: f64 = pairs().map(|(_, &b)| f64::from(b).powi(2)).sum();
    (sum / norm).sqrt()
}

#[test]
fn encoders_agree_to_the_bit_in_f32() {
    let Some(device) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    for family in [Family::Res, Family::Plain] {
        let Some(scene) = Scene::open(family) else { return };
        let mut recorded = Recorded::new(&stream, &scene, Precision::F32);
        let all = scene.coordinates.len();
        // What a frame leaves makes no difference to the next.
        for num in [all, 0, 1, all / 3, all] {
            let (expected, on_cpu) = scene.reference(num, Precision::F32);
            let found = recorded.run(num);
            assert!(bits(&found) == bits(&expected), "{family:?} {num} voxels");
            assert_eq!(recorded.encoder.counts().unwrap(), *on_cpu.counts(), "{family:?} {num}");
            for (sites, expected) in recorded.encoder.levels().iter().zip(on_cpu.levels()) {
                assert_eq!(sites.read().unwrap(), expected.indices());
            }
            for (table, expected) in recorded.encoder.tables().iter().zip(on_cpu.tables()) {
                assert_eq!(table.read(expected.len()).unwrap(), expected.words());
            }
        }
    }
}

#[test]
fn encoders_of_lower_precision_agree_and_repeat() {
    let Some(device) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    for family in [Family::Res, Family::Plain] {
        let Some(scene) = Scene::open(family) else { return };
        let all = scene.coordinates.len();
        let (expected, _) = scene.reference(all, Precision::F32);
        for (precision, bound) in
            [(Precision::F16, 4e-3), (Precision::Bf16, 3e-2), (Precision::Tf32, 4e-3)]
        {
            let mut recorded = Recorded::new(&stream, &scene, precision);
            let found = recorded.run(all);
            let distance = relative_l2(&found, &expected);
            assert!(distance > 0.0 && distance <= bound, "{family:?} {precision:?}: {distance:e}");
            for _ in 0..20 {
                assert!(bits(&recorded.run(all)) == bits(&found), "{family:?} {precision:?}");
            }
            let empty = recorded.run(0);
            assert!(f32_values(&empty).iter().all(|value| value.to_bits() == 0));
            assert!(bits(&recorded.run(all)) == bits(&found), "{family:?} {precision:?}");
        }
    }
}

#[test]
fn the_order_of_the_voxels_makes_no_difference() {
    let Some(device) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    let Some(mut scene) = Scene::open(Family::Plain) else { return };
    let all = scene.coordinates.len();
    let expected = Recorded::new(&stream, &scene, Precision::F16).run(all);
    let mut random = Random::new(420);
    for i in (1..all).rev() {
        let j = random.below(i + 1);
        scene.coordinates.swap(i, j);
        (0..5).for_each(|channel| scene.features.swap(i * 5 + channel, j * 5 + channel));
    }
    let found = Recorded::new(&stream, &scene, Precision::F16).run(all);
    assert!(bits(&found) == bits(&expected));
}
