//! Features pooled to maps: equal maps but for the bits of a NaN.

use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, Graph};
use det_post_ops::view::bev_pool::cuda::Workspace;
use det_post_ops::view::bev_pool::{
    CellAxis, DepthBins, Frustum, FrustumShape, IDENTITY, MapRows, MapShape, OUTSIDE, PoolCamera,
    PoolGeometry, PoolGrid, PoolInputs, PoolTable, bev_pool,
};
use det_post_types::{ElementType, Size, Tensor};

use det_post_testing::random::Random;
use det_post_testing::tensors::{tensor, upload};

const ELEMENTS: [ElementType; 2] = [ElementType::F32, ElementType::F16];

/// A table, channels, and which cameras are there.
struct Problem {
    table: PoolTable,
    num_channels: usize,
    present: Vec<bool>,
    /// Whether depths and features have NaN and infinities.
    has_not_finite: bool,
    what: String,
}

impl Problem {
    fn new(table: PoolTable, num_channels: usize, what: &str) -> Self {
        let present = vec![true; table.frustum().num_cameras];
        Self { table, num_channels, present, has_not_finite: false, what: what.into() }
    }

    fn inputs(&self, random: &mut Random, element: ElementType) -> [Tensor; 2] {
        let FrustumShape { num_cameras, num_depths, rows, columns } = *self.table.frustum();
        let mut values = |shape: &[usize], low: f32| {
            let num: usize = shape.iter().product();
            let mut values: Vec<f32> = (0..num).map(|_| random.range(low, 1.0)).collect();
            if self.has_not_finite {
                for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    values[random.below(num)] = bad;
                }
            }
            tensor(element, shape, &values)
        };
        [
            values(&[num_cameras, num_depths, rows, columns], 0.0),
            values(&[num_cameras, rows, columns, self.num_channels], -2.0),
        ]
    }

    fn reference(&self, [depth, features]: &[Tensor; 2], to: ElementType) -> Tensor {
        let mut map = Tensor::zeros(to, &self.table.map().of_channels(self.num_channels)).unwrap();
        let (depth, features) = (depth.view(), features.view());
        let inputs = PoolInputs { depth, features, present: Some(&self.present) };
        bev_pool(&inputs, &self.table, &mut map).unwrap();
        map
    }

    fn check(&self, device: &CudaDevice) {
        let stream = device.stream().unwrap();
        let mut workspace = Workspace::new(&stream, &self.table, self.num_channels).unwrap();
        workspace.enqueue_present(&self.present).unwrap();
        let mut random = Random::new(77);
        for from in ELEMENTS {
            for to in ELEMENTS {
                let inputs = self.inputs(&mut random, from);
                let [depth, features] = inputs.each_ref().map(|tensor| upload(&stream, tensor));
                let shape = self.table.map().of_channels(self.num_channels);
                let mut map = DeviceTensor::zeros(&stream, to, &shape).unwrap();
                let expected = canonical(&self.reference(&inputs, to));
                let graph =
                    Graph::capture(&stream, || workspace.enqueue(&depth, &features, &mut map));
                let graph = graph.unwrap();
                // Twice: tickets are zero again.
                for run in 0..2 {
                    graph.enqueue().unwrap();
                    let found = canonical(&map.read().unwrap());
                    let first = found.iter().zip(&expected).position(|(a, b)| a != b);
                    assert!(
                        found == expected,
                        "{}, {from} to {to}, {} channels, run {run}: first difference {first:?}",
                        self.what,
                        self.num_channels
                    );
                }
            }
        }
    }
}

/// The bits of a map; which bits a NaN has is not compared.
fn canonical(map: &Tensor) -> Vec<u32> {
    match map {
        Tensor::F32 { values, .. } => {
            values.iter().map(|v| if v.is_nan() { f32::NAN } else { *v }.to_bits()).collect()
        }
        Tensor::F16 { values, .. } => {
            let bits = |v: &half::f16| if v.is_nan() { half::f16::NAN } else { *v }.to_bits();
            values.iter().map(|v| bits(v).into()).collect()
        }
    }
}

/// Two cameras of two rows with so many points in the cells of a map, spread over all points.
fn of_intervals(lens: &[usize], map: MapShape) -> PoolTable {
    let num: usize = lens.iter().sum();
    let columns = num.div_ceil(2 * 5 * 2).max(1);
    let frustum = FrustumShape { num_cameras: 2, num_depths: 5, rows: 2, columns };
    let in_cells = lens.iter().enumerate();
    let mut cells: Vec<u32> =
        in_cells.flat_map(|(cell, &len)| std::iter::repeat_n(cell as u32, len)).collect();
    cells.resize(frustum.num_points(), OUTSIDE);
    let mut random = Random::new(num as u64);
    for at in (1..cells.len()).rev() {
        cells.swap(at, random.below(at + 1));
    }
    PoolTable::of_cells(frustum, map, &cells).unwrap()
}

#[test]
fn intervals_of_every_length_are_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let edges = [0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256, 257, 1024, 5001, 0, 3, 40];
    for num_channels in [1, 3, 4, 5, 64, 80, 96, 97, 128, 256] {
        let map = MapShape { levels: 1, rows: 1, columns: edges.len() };
        let table = of_intervals(&edges, map);
        Problem::new(table, num_channels, "edges of intervals").check(&device);
    }
    for (name, lens) in [
        ("no points", &[0, 0, 0][..]),
        ("all in one cell", &[40_000]),
        ("all in one cell of three", &[0, 20_000, 0]),
        ("a part of 128", &[128]),
        ("one point", &[0, 1]),
    ] {
        let map = MapShape { levels: 1, rows: 1, columns: lens.len() };
        for num_channels in [80, 100] {
            Problem::new(of_intervals(lens, map), num_channels, name).check(&device);
        }
    }
}

#[test]
fn missing_cameras_and_values_that_are_not_finite_are_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let lens: Vec<usize> = (0..60).map(|cell| 37 * cell % 200).collect();
    for levels in [1, 3] {
        let map = MapShape { levels, rows: 6 / levels, columns: 10 };
        for present in [[true, false], [false, true], [false, false]] {
            for has_not_finite in [false, true] {
                let table = of_intervals(&lens, map);
                let mut problem = Problem::new(table, 20, "cameras");
                problem.present = present.to_vec();
                problem.has_not_finite = has_not_finite;
                problem.check(&device);
            }
        }
    }
}

/// Cameras in a ring, 60 degrees apart and 70 wide, each `pitch` radians down.
fn ring(num: usize, image: Size, pitch: f64) -> Vec<PoolCamera> {
    let [width, height] = [image.width, image.height].map(f64::from);
    let focal = 0.5 * width / 35.0_f64.to_radians().tan();
    let camera = |index: usize| {
        let (sin, cos) = (60.0 * index as f64 + 7.0).to_radians().sin_cos();
        let (down, level) = pitch.sin_cos();
        // Columns of a rotation: right, down, ahead.
        let right = [sin, -cos, 0.0];
        let ahead = [cos * level, sin * level, -down];
        let lower = [-cos * down, -sin * down, -level];
        let place = [0.9 * cos, 0.7 * sin, 1.6];
        PoolCamera {
            intrinsics: [[focal, 0.0, 0.5 * width], [0.0, focal, 0.5 * height], [0.0, 0.0, 1.0]],
            network_from_image: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
            grid_from_camera: std::array::from_fn(|i| [right[i], lower[i], ahead[i], place[i]]),
        }
    };
    (0..num).map(camera).collect()
}

fn of_ring(num_cameras: usize, map: Size, rows: MapRows, cell_m: f64, z: CellAxis) -> PoolTable {
    let image = Size::new(704, 256);
    let cameras = ring(num_cameras, image, 0.03);
    let along = CellAxis { min_m: -54.0, max_m: 54.0, cell_m };
    let depths = DepthBins::below(1.0, 60.0, 0.5).unwrap();
    let geometry = PoolGeometry {
        frustum: Frustum { image, map, depths },
        grid: PoolGrid { x: along, y: along, z, rows },
        cameras: &cameras,
        augmentation: IDENTITY,
    };
    PoolTable::new(&geometry).unwrap()
}

const ONE_LEVEL: CellAxis = CellAxis { min_m: -10.0, max_m: 10.0, cell_m: 20.0 };

#[test]
fn rings_of_cameras_are_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let levels = CellAxis { min_m: -5.0, max_m: 3.0, cell_m: 2.0 };
    for (num_cameras, z, rows, cell_m, num_channels) in [
        (6, ONE_LEVEL, MapRows::X, 0.6, 80),
        (6, ONE_LEVEL, MapRows::Y, 0.9, 64),
        (5, levels, MapRows::X, 1.2, 33),
    ] {
        let table = of_ring(num_cameras, Size::new(44, 16), rows, cell_m, z);
        assert!(table.num_points() > 100_000);
        Problem::new(table, num_channels, "ring").check(&device);
    }
}

/// The shapes of BEVFusion for nuScenes.
#[test]
fn six_cameras_of_full_size_are_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let table = of_ring(6, Size::new(88, 32), MapRows::X, 0.3, ONE_LEVEL);
    let mut problem = Problem::new(table, 80, "full size");
    problem.present[4] = false;
    problem.check(&device);
}

#[test]
fn another_calibration_takes_the_place_of_the_one_before() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let map = MapShape { levels: 1, rows: 2, columns: 5 };
    let lens = [[400, 0, 3, 129, 1, 0, 64, 33, 0, 370], [0, 700, 200, 0, 0, 10, 10, 10, 10, 60]];
    let tables = lens.map(|lens| of_intervals(&lens, map));
    let mut workspace = Workspace::new(&stream, &tables[1], 3).unwrap();
    workspace.reserve(12).unwrap();
    for table in [&tables[0], &tables[1], &tables[0]] {
        workspace.set_table(table).unwrap();
        let problem = Problem::new(table.clone(), 12, "another table");
        let inputs = problem.inputs(&mut Random::new(5), ElementType::F32);
        let [depth, features] = inputs.each_ref().map(|tensor| upload(&stream, tensor));
        let shape = map.of_channels(12);
        let mut found = DeviceTensor::zeros(&stream, ElementType::F32, &shape).unwrap();
        workspace.enqueue(&depth, &features, &mut found).unwrap();
        let expected = problem.reference(&inputs, ElementType::F32);
        assert!(canonical(&found.read().unwrap()) == canonical(&expected));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let map = MapShape { levels: 1, rows: 1, columns: 2 };
    let table = of_intervals(&[3, 17], map);
    assert!(Workspace::new(&stream, &table, 0).is_err());
    assert!(Workspace::new(&stream, &table, 1 << 16).is_err());
    let mut workspace = Workspace::new(&stream, &table, 4).unwrap();
    assert!(workspace.enqueue_present(&[true]).is_err());
    let zeros = |element, shape: &[usize]| DeviceTensor::zeros(&stream, element, shape).unwrap();
    let mut fits = |depth: (ElementType, &[usize]), features: &[usize], out: &[usize]| {
        let (depth, features) = (zeros(depth.0, depth.1), zeros(ElementType::F32, features));
        workspace.enqueue(&depth, &features, &mut zeros(ElementType::F32, out)).is_ok()
    };
    let f32 = ElementType::F32;
    assert!(fits((f32, &[2, 5, 2, 1]), &[2, 2, 1, 4], &[1, 4, 1, 2]));
    assert!(!fits((ElementType::F16, &[2, 5, 2, 1]), &[2, 2, 1, 4], &[1, 4, 1, 2]));
    assert!(!fits((f32, &[2, 5, 1, 2]), &[2, 2, 1, 4], &[1, 4, 1, 2]));
    assert!(!fits((f32, &[2, 5, 2, 1]), &[2, 2, 1, 8], &[1, 8, 1, 2]));
    assert!(!fits((f32, &[2, 5, 2, 1]), &[2, 2, 1, 4], &[1, 4, 2, 1]));
}
