mod points;

use super::*;
use det_post_testing::random::Random;
use det_post_testing::tensors::{bits, tensor};
use det_post_types::{ElementType, Size};

/// A camera of 90 degrees that looks along +x from a place, in a frame of x ahead, y left, z up.
fn ahead(image: Size, place: [f64; 3]) -> PoolCamera {
    let [width, height] = [image.width, image.height].map(f64::from);
    PoolCamera {
        intrinsics: [
            [0.5 * width, 0.0, 0.5 * (width - 1.0)],
            [0.0, 0.5 * width, 0.5 * (height - 1.0)],
            [0.0, 0.0, 1.0],
        ],
        network_from_image: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        grid_from_camera: [
            [0.0, 0.0, 1.0, place[0]],
            [-1.0, 0.0, 0.0, place[1]],
            [0.0, -1.0, 0.0, place[2]],
        ],
    }
}

fn axis(min_m: f64, max_m: f64, cell_m: f64) -> CellAxis {
    CellAxis { min_m, max_m, cell_m }
}

fn grid() -> PoolGrid {
    PoolGrid {
        x: axis(-8.0, 8.0, 0.5),
        y: axis(-6.0, 6.0, 0.75),
        z: axis(-4.0, 4.0, 8.0),
        rows: MapRows::X,
    }
}

fn frustum(map: Size, num: usize) -> Frustum {
    let depths = DepthBins { first_m: 1.0, step_m: 0.5, num };
    Frustum { image: Size::new(64, 32), map, depths }
}

fn geometry(cameras: &[PoolCamera]) -> PoolGeometry<'_> {
    let frustum = frustum(Size::new(8, 4), 20);
    PoolGeometry { frustum, grid: grid(), cameras, augmentation: IDENTITY }
}

/// A table of points `[1, D, 1, W]` with so many points in the cells of a map of one row.
fn of_intervals(lens: &[usize]) -> PoolTable {
    let num: usize = lens.iter().sum();
    let frustum =
        FrustumShape { num_cameras: 1, num_depths: 3, rows: 1, columns: num.div_ceil(3).max(1) };
    let in_cells = lens.iter().enumerate();
    let mut cells: Vec<u32> =
        in_cells.flat_map(|(cell, &len)| std::iter::repeat_n(cell as u32, len)).collect();
    cells.resize(frustum.num_points(), OUTSIDE);
    // Spread over the points, the same every time.
    let mut random = Random::new(lens.len() as u64);
    for at in (1..cells.len()).rev() {
        cells.swap(at, random.below(at + 1));
    }
    let map = MapShape { levels: 1, rows: 1, columns: lens.len() };
    PoolTable::of_cells(frustum, map, &cells).unwrap()
}

/// Depth and features of a table, each exact in f16.
fn inputs(table: &PoolTable, num_channels: usize, seed: u64) -> [Tensor; 2] {
    let FrustumShape { num_cameras, num_depths, rows, columns } = *table.frustum();
    let mut random = Random::new(seed);
    let mut values = |shape: &[usize], low: f32| {
        let num = shape.iter().product();
        let values: Vec<f32> =
            (0..num).map(|_| f16::from_f32(random.range(low, 1.0)).to_f32()).collect();
        tensor(ElementType::F32, shape, &values)
    };
    [
        values(&[num_cameras, num_depths, rows, columns], 0.0),
        values(&[num_cameras, rows, columns, num_channels], -1.0),
    ]
}

fn pooled(table: &PoolTable, inputs: &[Tensor; 2], present: Option<&[bool]>) -> Tensor {
    let num_channels = inputs[1].shape()[3];
    let mut out = Tensor::zeros(ElementType::F32, &table.map().of_channels(num_channels)).unwrap();
    if let Tensor::F32 { values, .. } = &mut out {
        values.fill(7.0);
    }
    let [depth, features] = inputs.each_ref().map(Tensor::view);
    bev_pool(&PoolInputs { depth, features, present }, table, &mut out).unwrap();
    out
}

fn values(tensor: &Tensor) -> &[f32] {
    let Tensor::F32 { values, .. } = tensor else { panic!("f32") };
    values
}

/// The published form in f64: every product is added to its cell, one point after the other.
fn scattered(table: &PoolTable, [depth, features]: &[Tensor; 2], present: &[bool]) -> Vec<f64> {
    let [num_cameras, num_depths, rows, columns]: [usize; 4] = depth.shape().try_into().unwrap();
    let num_channels = features.shape()[3];
    let mut cell_of = std::collections::HashMap::new();
    for cell in 0..table.map().num_cells() {
        for PoolPoint { camera, depth, pixel } in table.points_of(cell) {
            assert!(cell_of.insert((camera, depth, pixel), cell).is_none(), "a point in two cells");
        }
    }
    let plane = table.map().plane();
    let mut map = vec![0.0; table.map().levels * num_channels * plane];
    for camera in (0..num_cameras).filter(|&camera| present[camera]) {
        for bin in 0..num_depths {
            for pixel in 0..rows * columns {
                let Some(&cell) = cell_of.get(&(camera, bin, pixel)) else { continue };
                let weight = values(depth)[(camera * num_depths + bin) * rows * columns + pixel];
                for c in 0..num_channels {
                    let feature =
                        values(features)[(camera * rows * columns + pixel) * num_channels + c];
                    let to = (cell / plane * num_channels + c) * plane + cell % plane;
                    map[to] += f64::from(weight) * f64::from(feature);
                }
            }
        }
    }
    map
}

#[test]
fn a_map_is_the_scattered_sum_of_products() {
    let image = Size::new(64, 32);
    let mut behind = ahead(image, [-0.5, 0.0, 1.4]);
    behind.grid_from_camera[0][2] = -1.0;
    behind.grid_from_camera[1][0] = 1.0;
    let cameras = [ahead(image, [0.5, 0.0, 1.5]), behind];
    for z in [axis(-4.0, 4.0, 8.0), axis(-1.0, 2.0, 1.0)] {
        for (rows, num_channels) in [(MapRows::X, 1), (MapRows::X, 17), (MapRows::Y, 32)] {
            let mut geometry = geometry(&cameras);
            geometry.grid.z = z;
            geometry.grid.rows = rows;
            let table = PoolTable::new(&geometry).unwrap();
            assert!(table.num_points() > 300 && table.num_outside() > 0);
            let inputs = inputs(&table, num_channels, 3);
            for present in [[true, true], [true, false], [false, false]] {
                let found = pooled(&table, &inputs, Some(&present));
                let expected = scattered(&table, &inputs, &present);
                let largest = expected.iter().fold(1e-30_f64, |most, x| most.max(x.abs()));
                for (found, expected) in values(&found).iter().zip(&expected) {
                    assert!((f64::from(*found) - expected).abs() <= 1e-6 * largest);
                }
            }
        }
    }
}

/// The sums of an interval by the words of the contract.
fn contract(terms: &[f32]) -> f32 {
    let part = |terms: &[f32]| {
        let sum = |k: usize| terms.iter().skip(k).step_by(4).fold(0.0_f32, |sum, term| sum + term);
        (sum(0) + sum(1)) + (sum(2) + sum(3))
    };
    terms.chunks(PART_POINTS).map(part).reduce(|total, part| total + part).unwrap_or(0.0)
}

#[test]
fn intervals_of_every_length_are_summed_in_the_order_of_the_contract() {
    let lens = [0, 1, 2, 3, 4, 5, 31, 32, 33, 127, 128, 129, 255, 256, 257, 3000, 0];
    let table = of_intervals(&lens);
    let inputs = inputs(&table, 3, 9);
    let found = pooled(&table, &inputs, None);
    for (cell, &len) in lens.iter().enumerate() {
        assert_eq!(table.num_points_of(cell), len);
        for c in 0..3 {
            let columns = table.frustum().columns;
            let term = |point: PoolPoint| {
                let depth = values(&inputs[0])[point.depth * columns + point.pixel];
                depth * values(&inputs[1])[point.pixel * 3 + c]
            };
            let terms: Vec<f32> = table.points_of(cell).map(term).collect();
            assert_eq!(values(&found)[c * lens.len() + cell].to_bits(), contract(&terms).to_bits());
        }
    }
    // All in one cell, and none at all.
    let table = of_intervals(&[5000]);
    assert_eq!((table.num_points_of(0), table.num_outside()), (5000, 1));
    let none = of_intervals(&[0, 0]);
    assert_eq!(none.num_points(), 0);
    let inputs = self::inputs(&none, 2, 1);
    assert_eq!(bits(&pooled(&none, &inputs, None)), [0; 4]);
}

#[test]
fn what_is_not_finite_stays_in_its_cells_and_missing_cameras_are_not_read() {
    let frustum = FrustumShape { num_cameras: 2, num_depths: 1, rows: 1, columns: 3 };
    let map = MapShape { levels: 1, rows: 1, columns: 4 };
    let table = PoolTable::of_cells(frustum, map, &[0, 1, 2, 0, 1, OUTSIDE]).unwrap();
    let depth = [0.5, f32::NAN, 0.25, f32::NAN, f32::INFINITY, f32::NAN];
    let depth = tensor(ElementType::F32, &[2, 1, 1, 3], &depth);
    let features = tensor(ElementType::F32, &[2, 1, 3, 1], &[2.0, 1.0, 4.0, f32::NAN, 1.0, 1.0]);
    let inputs = [depth, features];
    let found = pooled(&table, &inputs, Some(&[true, false]));
    let found = values(&found);
    assert_eq!((found[0], found[2], found[3]), (1.0, 1.0, 0.0));
    assert!(found[1].is_nan());
    let found = pooled(&table, &inputs, Some(&[false, true]));
    let found = values(&found);
    assert!(found[0].is_nan() && found[1] == f32::INFINITY && found[2] == 0.0);
}

#[test]
fn maps_of_f16_are_rounded_once_and_inputs_of_f16_are_read_as_their_values() {
    let table = of_intervals(&[1, 40, 0, 400]);
    let inputs = inputs(&table, 5, 12);
    let expected = pooled(&table, &inputs, None);
    let rounded: Vec<u32> =
        values(&expected).iter().map(|&x| f16::from_f32(x).to_bits().into()).collect();
    let halves = inputs.each_ref().map(|t| tensor(ElementType::F16, t.shape(), values(t)));
    for from in [&inputs, &halves] {
        for to in [ElementType::F32, ElementType::F16] {
            let mut out = Tensor::zeros(to, expected.shape()).unwrap();
            let [depth, features] = from.each_ref().map(Tensor::view);
            let inputs = PoolInputs { depth, features, present: None };
            bev_pool(&inputs, &table, &mut out).unwrap();
            let expected = if to == ElementType::F32 { bits(&expected) } else { rounded.clone() };
            assert_eq!(bits(&out), expected);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let table = of_intervals(&[2, 1]);
    let refused = |depth: &[usize], features: &[usize], out: &[usize], present: Option<&[bool]>| {
        let tensor = |shape: &[usize]| Tensor::zeros(ElementType::F32, shape).unwrap();
        let (depth, features, mut out) = (tensor(depth), tensor(features), tensor(out));
        let inputs = PoolInputs { depth: depth.view(), features: features.view(), present };
        bev_pool(&inputs, &table, &mut out).is_err()
    };
    assert!(!refused(&[1, 3, 1, 1], &[1, 1, 1, 2], &[1, 2, 1, 2], None));
    assert!(refused(&[1, 3, 1, 2], &[1, 1, 1, 2], &[1, 2, 1, 2], None));
    assert!(refused(&[1, 3, 1, 1], &[1, 1, 2, 2], &[1, 2, 1, 2], None));
    assert!(refused(&[1, 3, 1, 1], &[1, 1, 1, 0], &[1, 0, 1, 2], None));
    assert!(refused(&[1, 3, 1, 1], &[1, 1, 1, 2], &[1, 2, 2, 1], None));
    assert!(refused(&[1, 3, 1, 1], &[1, 1, 1, 2], &[1, 2, 1, 2], Some(&[true, true])));
    let (depth, features) = (tensor(ElementType::F16, &[1, 3, 1, 1], &[0.0; 3]), [0.0; 2]);
    let features = tensor(ElementType::F32, &[1, 1, 1, 2], &features);
    let inputs = PoolInputs { depth: depth.view(), features: features.view(), present: None };
    let mut out = Tensor::zeros(ElementType::F32, &[1, 2, 1, 2]).unwrap();
    let error = bev_pool(&inputs, &table, &mut out).unwrap_err();
    assert!(error.message().contains("both f32 or both f16"), "{error}");

    let shape = FrustumShape { num_cameras: 1, num_depths: 2, rows: 1, columns: 1 };
    let map = MapShape { levels: 1, rows: 1, columns: 3 };
    let of = |shape, map, cells: &[u32]| PoolTable::of_cells(shape, map, cells).is_ok();
    assert!(of(shape, map, &[2, OUTSIDE]));
    assert!(!of(shape, map, &[3, 0]) && !of(shape, map, &[0]));
    assert!(!of(FrustumShape { num_cameras: 33, ..shape }, map, &[0; 66]));
    assert!(!of(FrustumShape { num_depths: 0, ..shape }, map, &[]));
    assert!(!of(shape, MapShape { rows: 1 << 20, columns: 1 << 12, ..map }, &[0, 0]));
    let cameras = [ahead(Size::new(64, 32), [0.0; 3])];
    let mut singular = cameras;
    singular[0].intrinsics[0][0] = 0.0;
    let mut far = cameras;
    far[0].grid_from_camera[2][3] = f64::NAN;
    let mut flat = cameras;
    flat[0].network_from_image[1] = flat[0].network_from_image[0];
    for cameras in [&singular[..], &far, &flat, &[]] {
        assert!(PoolTable::new(&geometry(cameras)).is_err());
    }
    assert!(PoolTable::new(&geometry(&cameras)).is_ok());
}
