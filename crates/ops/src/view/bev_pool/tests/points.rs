//! Where points are, and tables of them.

use proptest::prelude::*;

use super::*;

#[test]
fn a_point_is_where_its_ray_and_depth_put_it() {
    // The middle pixel of 3 by 3 looks straight ahead: depths 1.0, 1.5, … from x = -0.25.
    let image = Size::new(65, 33);
    let cameras = [ahead(image, [-0.25, 0.1, 1.5])];
    let mut geometry = geometry(&cameras);
    geometry.frustum = Frustum { image, ..frustum(Size::new(3, 3), 6) };
    let table = PoolTable::new(&geometry).unwrap();
    assert_eq!(table.map(), &MapShape { levels: 1, rows: 32, columns: 16 });
    for bin in 0..6 {
        let (x, y) = (-0.25 + 1.0 + 0.5 * bin as f64, 0.1);
        let cell = ((x + 8.0) / 0.5) as usize * 16 + ((y + 6.0) / 0.75) as usize;
        let middle = PoolPoint { camera: 0, depth: bin, pixel: 4 };
        assert!(table.points_of(cell).any(|point| point == middle), "{bin}");
    }
    // The left pixel is 32 columns of a focal length of 32.5 to the left, at pixel 0 of the image.
    let left = PoolPoint { camera: 0, depth: 2, pixel: 3 };
    let cell = ((-0.25 + 2.0 + 8.0) / 0.5) as usize * 16
        + ((0.1 + 2.0 * 32.0 / 32.5 + 6.0) / 0.75) as usize;
    assert!(table.points_of(cell).any(|point| point == left));
    // Rows along y: the same points in the transposed map.
    geometry.grid.rows = MapRows::Y;
    let turned = PoolTable::new(&geometry).unwrap();
    assert_eq!(turned.map(), &MapShape { levels: 1, rows: 16, columns: 32 });
    for cell in 0..32 * 16 {
        let other = cell % 16 * 32 + cell / 16;
        assert!(table.points_of(cell).eq(turned.points_of(other)), "{cell}");
    }
}

#[test]
fn augmentations_of_image_and_grid_are_undone_and_done() {
    let plain = [ahead(Size::new(64, 32), [0.1, 0.2, 1.0])];
    let expected = PoolTable::new(&geometry(&plain)).unwrap();
    // A camera image of twice the size, cut by 10 and 6 pixels: its intrinsics.
    let mut resized = plain;
    resized[0].intrinsics = [[64.0, 0.0, 83.0], [0.0, 64.0, 43.0], [0.0, 0.0, 1.0]];
    resized[0].network_from_image = [[0.5, 0.0, -10.0], [0.0, 0.5, -6.0]];
    // At columns of 31.5 as before: 0.5 * 83 - 10.
    assert_eq!(PoolTable::new(&geometry(&resized)).unwrap(), expected);
    // A quarter turn of the grid that the extrinsics undo.
    let mut turned = plain;
    turned[0].grid_from_camera = [
        plain[0].grid_from_camera[1],
        plain[0].grid_from_camera[0].map(|x| -x),
        plain[0].grid_from_camera[2],
    ];
    let mut turned = geometry(&turned);
    turned.augmentation = [[0.0, -1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    assert_eq!(PoolTable::new(&turned).unwrap(), expected);
}

#[test]
fn the_lowest_cell_is_twice_as_wide_and_the_ends_are_out() {
    // Depths along x only: one pixel, straight ahead.
    let image = Size::new(1, 1);
    let cameras = [ahead(image, [0.0, 0.0, 0.0])];
    for (first, expected) in [
        (-2.0, None),      // a whole cell below the grid
        (-1.999, Some(0)), // truncated to 0
        (-1.0, Some(0)),   // where the grid begins
        (-0.001, Some(0)),
        (0.0, Some(1)),
        (0.999, Some(1)),
        (1.0, None), // where it ends
        (f64::NAN, None),
        (f64::INFINITY, None),
    ] {
        let depths = DepthBins { first_m: first, step_m: 1.0, num: 1 };
        let frustum = Frustum { image, map: image, depths };
        let one = axis(-1.0, 1.0, 2.0);
        let grid = PoolGrid { x: axis(-1.0, 1.0, 1.0), y: one, z: one, rows: MapRows::X };
        let geometry = PoolGeometry { frustum, grid, cameras: &cameras, augmentation: IDENTITY };
        let table = PoolTable::new(&geometry).unwrap();
        let found = (0..2).find(|&cell| table.num_points_of(cell) > 0);
        assert_eq!(
            (found, table.num_outside()),
            (expected, usize::from(expected.is_none())),
            "{first}"
        );
    }
}

#[test]
fn depth_bins_and_cells_are_those_of_published_settings() {
    assert_eq!(DepthBins::below(1.0, 60.0, 0.5).unwrap().num, 118);
    assert_eq!(DepthBins::below(1.0, 45.0, 0.5).unwrap().num, 88);
    assert_eq!(axis(-54.0, 54.0, 0.3).num_cells().unwrap(), 360);
    assert_eq!(axis(-51.2, 51.2, 0.4).num_cells().unwrap(), 256);
    assert!(DepthBins::below(1.0, 1.0, 0.5).is_err());
    assert!(DepthBins::below(1.0, f64::NAN, 0.5).is_err());
    assert!(axis(-54.0, 54.0, 0.7).num_cells().is_err());
    assert!(axis(0.0, 1.0, f64::INFINITY).num_cells().is_err());
    assert!(axis(1.0, 0.0, 0.1).num_cells().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every point in a cell is there once, in the order of points; the others are counted.
    #[test]
    fn a_table_has_every_point_once_in_order(
        num_cameras in 1..4_usize,
        num_depths in 1..6_usize,
        rows in 1..5_usize,
        columns in 1..9_usize,
        levels in 1..3_usize,
        map_columns in 1..7_usize,
        seed in any::<u64>(),
    ) {
        let frustum = FrustumShape { num_cameras, num_depths, rows, columns };
        let map = MapShape { levels, rows: 2, columns: map_columns };
        let mut random = Random::new(seed);
        let cell = |_| match random.below(map.num_cells() + 2) {
            cell if cell < map.num_cells() => cell as u32,
            _ => OUTSIDE,
        };
        let cells: Vec<u32> = (0..frustum.num_points()).map(cell).collect();
        let table = PoolTable::of_cells(frustum, map, &cells).unwrap();
        let index = |point: PoolPoint| {
            (point.camera * num_depths + point.depth) * rows * columns + point.pixel
        };
        for cell in 0..map.num_cells() {
            let found: Vec<usize> = table.points_of(cell).map(index).collect();
            let all = cells.iter().enumerate().filter(|&(_, &of)| of as usize == cell);
            let expected: Vec<usize> = all.map(|(index, _)| index).collect();
            prop_assert_eq!(found, expected);
        }
        let num_outside = cells.iter().filter(|&&cell| cell == OUTSIDE).count();
        prop_assert_eq!(table.num_outside(), num_outside);
        prop_assert_eq!(table.num_points_of(map.num_cells()), 0);
    }
}
