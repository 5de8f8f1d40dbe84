//! Whole networks of sparse convolutions: one graph a frame.

use std::collections::HashSet;

use det_post_infer::sparse::{CpuEncoder, CudaEncoder, Plan, SparseNetwork};
use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, Graph, Stream};
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::rulebook::cuda::Cells;
use det_post_types::{ElementType, Tensor};

use det_post_testing::encoders::{Family, Voxelized, network, scan};
use det_post_testing::npz::Npz;
use det_post_testing::random::Random;
use det_post_testing::shared_data::shared_data;
use det_post_testing::tensors::bits;

/// An encoder of the shared references and voxels for it.
struct Scene {
    network: SparseNetwork,
    coordinates: Vec<[i32; 4]>,
    features: Vec<f32>,
    file: Npz,
}

impl Scene {
    fn open(family: Family) -> Option<Self> {
        let path = shared_data()?.join(format!("sparse/{}_mini.npz", family.name()));
        let npz = Npz::open(&path);
        let voxels = Voxelized {
            coordinates: npz.rows_of_4("in_coords").to_vec(),
            features: npz.f32("in_features").to_vec(),
        };
        Some(Self::new(family, "mini", 21, voxels, &npz))
    }

    fn new(family: Family, scene: &str, seed: u64, voxels: Voxelized, scene_file: &Npz) -> Self {
        let shape = scene_file.i32("level0/shape");
        let shape = [shape[0], shape[1], shape[2]].map(i32::cast_unsigned);
        let name = format!("sparse/{}_{scene}.npz", family.name());
        let file = Npz::open(&shared_data().unwrap().join(name));
        let (network, _) = network(&family.layers(seed, &file), shape).unwrap();
        let Voxelized { coordinates, features } = voxels;
        Self { network, coordinates, features, file }
    }

    /// A part of a ten-sweep scan, and all of it.
    fn large(family: Family) -> Option<[Self; 2]> {
        let residual = |scene: &str| {
            shared_data().map(|folder| Npz::open(&folder.join(format!("sparse/res8x_{scene}.npz"))))
        };
        let crop = residual("crop")?;
        let voxels = Voxelized {
            coordinates: crop.rows_of_4("in_coords").to_vec(),
            features: crop.f32("in_features").to_vec(),
        };
        let crop = Self::new(family, "crop", 22, voxels, &crop);
        Some([crop, Self::new(family, "scan", 23, scan()?, &residual("scan")?)])
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
        let graph = Graph::capture(stream, || {
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
    let Some(device) = det_post_testing::gpu() else { return };
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
    let Some(device) = det_post_testing::gpu() else { return };
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
    let Some(device) = det_post_testing::gpu() else { return };
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

/// Sites, counts, tables and the map of real scans.
#[test]
fn real_scans_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    for family in [Family::Res, Family::Plain] {
        let Some(scenes) = Scene::large(family) else { return };
        for scene in scenes {
            let all = scene.coordinates.len();
            let (expected, on_cpu) = scene.reference(all, Precision::F32);
            let mut recorded = Recorded::new(&stream, &scene, Precision::F32);
            assert!(bits(&recorded.run(all)) == bits(&expected), "{family:?} {all}");
            let encoder = &recorded.encoder;
            assert_eq!(encoder.counts().unwrap(), *on_cpu.counts(), "{family:?} {all}");
            for (sites, expected) in encoder.levels().iter().zip(on_cpu.levels()) {
                assert_eq!(sites.read().unwrap(), expected.indices());
            }
            for (table, expected) in encoder.tables().iter().zip(on_cpu.tables()) {
                assert_eq!(table.read(expected.len()).unwrap(), expected.words());
            }
            drop(recorded);
            for (precision, bound) in [(Precision::F16, 4e-3), (Precision::Bf16, 3e-2)] {
                let mut recorded = Recorded::new(&stream, &scene, precision);
                let found = recorded.run(all);
                let distance = relative_l2(&found, &expected);
                assert!(distance <= bound, "{family:?} {all} {precision:?}: {distance:e}");
                for _ in 0..20 {
                    assert!(bits(&recorded.run(all)) == bits(&found), "{family:?} {precision:?}");
                }
            }
        }
    }
}

/// The map of the whole scan beside the samples of the reference.
#[test]
fn the_scan_has_the_map_of_the_reference() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    for family in [Family::Res, Family::Plain] {
        let Some([_, scene]) = Scene::large(family) else { return };
        let all = scene.coordinates.len();
        for (precision, bound) in [(Precision::F32, 1e-5), (Precision::F16, 4e-3)] {
            let map = Recorded::new(&stream, &scene, precision).run(all);
            let values = f32_values(&map);
            let mut found = Vec::new();
            for &[_, z, y, x] in scene.file.rows_of_4("bev_sample_coords") {
                let [z, y, x] = [z, y, x].map(|cell| cell as usize);
                found.extend((0..128).map(|c| values[((2 * c + z) * 180 + y) * 180 + x]));
            }
            let expected = scene.file.f32("bev_sample_features");
            let as_tensor = |values: Vec<f32>| Tensor::F32 { shape: vec![values.len()], values };
            let distance = relative_l2(&as_tensor(found), &as_tensor(expected.to_vec()));
            assert!(distance <= bound, "{family:?} {precision:?}: {distance:e}");
        }
    }
}

/// The scan, and the scan with shifted copies of itself: 400,000 voxels.
fn merged(scan: &Scene, num: usize) -> Vec<[i32; 4]> {
    let mut seen = HashSet::new();
    let shifts = (0..).map(|i| [i / 9 % 3, 3 * (i % 3), 3 * (i / 3 % 3)]);
    let copies = shifts.flat_map(|[dz, dy, dx]| {
        scan.coordinates
            .iter()
            .map(move |&[batch, z, y, x]| [batch, (z + dz) % 41, (y + dy) % 1440, (x + dx) % 1440])
    });
    copies.filter(|&cell| seen.insert(cell)).take(num).collect()
}

/// One recorded graph: no frame leaves anything to the next.
#[test]
fn frames_of_any_size_are_equal_to_fresh_ones() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let Some([_, mut scene]) = Scene::large(Family::Res) else { return };
    let num_scan = scene.coordinates.len();
    scene.coordinates = merged(&scene, 400_000);
    assert_eq!(scene.coordinates.len(), 400_000);
    let mut random = Random::new(421);
    scene.features.extend((5 * num_scan..5 * 400_000).map(|_| random.range(-10.0, 10.0)));
    let mut recorded = Recorded::new(&stream, &scene, Precision::F16);
    recorded.run(num_scan);
    let before = stream.num_allocations();
    let frames = [num_scan, 0, 1, 400_000, num_scan];
    let found = frames.map(|num| {
        let map = recorded.run(num);
        assert_eq!(recorded.encoder.counts().unwrap().entrance.num_sites, num);
        map
    });
    assert_eq!(stream.num_allocations(), before, "frames take device memory");
    drop(recorded);
    for (num, found) in frames.into_iter().zip(&found) {
        let fresh = Recorded::new(&stream, &scene, Precision::F16).run(num);
        assert!(bits(&fresh) == bits(found), "{num} voxels");
    }
}

/// What docs/limits.md promises.
#[test]
fn an_encoder_of_160000_voxels_takes_220_mebibytes() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let Some([_, scene]) = Scene::large(Family::Res) else { return };
    let encoder = CudaEncoder::new(&stream, scene.plan(160_000), Precision::F16).unwrap();
    assert!(encoder.num_bytes() <= 220 << 20, "{}", encoder.num_bytes());
}
