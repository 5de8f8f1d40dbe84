use std::collections::BTreeSet;

use proptest::prelude::*;

use super::scenes::{Scene, cells_of, scenes};
use super::*;

const DOWN: Geometry =
    Geometry { kernel: [3; 3], stride: [2; 3], padding: [1; 3], dilation: [1; 3] };

fn grid(shape: [u32; 3]) -> SiteGrid {
    SiteGrid::new(1, shape).unwrap()
}

fn enter(grid: SiteGrid, cells: &[[i32; 4]], capacity: usize) -> (Sites, Vec<u32>, EntranceCounts) {
    let (mut sites, mut rows) = (Sites::new(grid, capacity), vec![7; 3]);
    let counts = sites_of_coordinates(cells, &mut sites, &mut rows);
    (sites, rows, counts)
}

#[test]
fn grids_are_bounded() {
    for (batch_size, shape, cells) in [
        (1, [41, 1440, 1440], Some(85_017_600)),
        (1, [1 << 10, 1 << 9, 1 << 9], Some(1 << 28)),
        (3, [41, 1440, 1440], Some(255_052_800)),
        (4, [41, 1440, 1440], None),
        (1, [(1 << 28) + 1, 1, 1], None),
        (1, [0, 5, 5], None),
        (0, [5, 5, 5], None),
        (u32::MAX, [u32::MAX; 3], None),
    ] {
        match (SiteGrid::new(batch_size, shape), cells) {
            (Ok(grid), Some(cells)) => assert_eq!(grid.num_cells(), cells),
            (Err(error), None) => assert_eq!(error.kind(), ErrorKind::Argument),
            (found, _) => panic!("{batch_size} x {shape:?}: {found:?}"),
        }
    }
    let error = SiteGrid::new(1, [201, 4000, 4000]).unwrap_err();
    assert!(error.message().contains("3216000000 cells"), "{error}");
}

#[test]
fn every_row_of_the_input_is_accounted_for() {
    let cells = [
        [0, 1, 2, 3],
        [0, 0, 0, 0],
        [0, 1, 2, 3],
        [0, 1, 2, 4],
        [0, 2, 0, 0],
        [0, 0, 0, -1],
        [-1, 0, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 3, 0],
        [0, i32::MAX, 0, 0],
        [0, 1, 2, 3],
        [0, i32::MIN, 0, 0],
    ];
    let num_outside = 7;
    // (capacity, sites, over capacity)
    for (capacity, rows, num_over_capacity) in
        [(8, vec![1, 0, 3], 0), (3, vec![1, 0, 3], 0), (2, vec![1, 0], 1), (0, vec![], 3)]
    {
        let (sites, input_rows, counts) = enter(grid([2, 3, 5]), &cells, capacity);
        assert_eq!(input_rows, rows);
        assert_eq!(sites.indices(), &[0, 28, 29][..rows.len()]);
        let num_sites = rows.len();
        let expected =
            EntranceCounts { num_sites, num_outside, num_duplicates: 2, num_over_capacity };
        assert_eq!(counts, expected, "{capacity}");
        assert_eq!(sites.row_of(29), (num_sites == 3).then_some(2));
    }
    let (sites, rows, counts) = enter(grid([2, 3, 5]), &[], 4);
    assert!(sites.is_empty() && rows.is_empty());
    assert_eq!(counts, EntranceCounts::default());
}

#[test]
fn shapes_follow_from_the_geometry() {
    let flat = Geometry { padding: [0, 1, 1], ..DOWN };
    let out = Geometry { kernel: [3, 1, 1], stride: [2, 1, 1], padding: [0; 3], dilation: [1; 3] };
    let mut shape = [41, 1440, 1440];
    for (geometry, expected) in [
        (DOWN, [21, 720, 720]),
        (DOWN, [11, 360, 360]),
        (flat, [5, 180, 180]),
        (out, [2, 180, 180]),
    ] {
        shape = geometry.strided_shape(shape).unwrap();
        assert_eq!(shape, expected);
    }
    assert_eq!(DOWN.transposed_shape([8, 9, 10], [0; 3]).unwrap(), [15, 17, 19]);
    assert_eq!(DOWN.transposed_shape([8, 9, 10], [1, 0, 1]).unwrap(), [16, 17, 20]);

    let too_long = Geometry { kernel: [5, 1, 1], padding: [0; 3], ..DOWN };
    assert!(too_long.strided_shape([4, 4, 4]).is_err());
    assert!(Geometry { padding: [2; 3], ..DOWN }.transposed_shape([1; 3], [0; 3]).is_err());
    for wrong in [
        Geometry { kernel: [3, 0, 3], ..DOWN },
        Geometry { kernel: [3, 16, 3], ..DOWN },
        Geometry { stride: [0, 1, 1], ..DOWN },
        Geometry { dilation: [1, 1, 256], ..DOWN },
        Geometry { padding: [u32::MAX; 3], ..DOWN },
    ] {
        let error = wrong.strided_shape([40; 3]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
    }
    for wrong in [DOWN, Geometry::submanifold([3, 2, 3])] {
        assert!(wrong.check(Mode::Submanifold).is_err(), "{wrong}");
    }
}

#[test]
fn levels_keep_the_lowest_sites_of_their_capacity() {
    // Far apart: 1, 2 or 4 outputs each.
    let cells = [[0, 4, 4, 4], [0, 3, 4, 4], [0, 0, 0, 0], [0, 4, 1, 1]];
    let (input, _, _) = enter(grid([5, 5, 5]), &cells, 4);
    // By axis: 4 has output 2, 3 has 1 and 2, 1 has 0 and 1, 0 has 0.
    let all = [0, 17, 18, 19, 21, 22, 26];
    for capacity in 0..=all.len() + 1 {
        let kept = capacity.min(all.len());
        let mut output = Sites::new(grid([3, 3, 3]), capacity);
        // Twice: nothing stays from the frame before.
        for _ in 0..2 {
            let counts = output_sites(&input, &DOWN, Mode::Strided, &mut output).unwrap();
            assert_eq!(output.indices(), &all[..kept]);
            assert_eq!([counts.num_sites, counts.num_over_capacity], [kept, all.len() - kept]);
            assert_eq!(counts.num_inputs_without_output, 0);
        }
        // Sites that were cut are in no table.
        let mut table = Table::new(&Geometry::submanifold([3; 3]), Mode::Submanifold, kept);
        fill_table(&output, &output, &mut table).unwrap();
        let rows = (0..kept).flat_map(|row| (0..27).map(move |tap| (row, tap)));
        assert!(
            rows.filter_map(|(row, tap)| table.input_row(row, tap)).all(|row| row < kept as u32)
        );
    }
}

#[test]
fn inputs_without_an_output_are_counted() {
    // The last of eight slabs is under no kernel without padding.
    let geometry = Geometry { padding: [0; 3], ..DOWN };
    let (input, _, _) = enter(grid([8, 3, 3]), &[[0, 7, 1, 1], [0, 6, 1, 1], [0, 0, 0, 0]], 3);
    let mut output = Sites::new(grid([3, 1, 1]), 3);
    let counts = output_sites(&input, &geometry, Mode::Strided, &mut output).unwrap();
    let expected =
        OutputCounts { num_sites: 2, num_over_capacity: 0, num_inputs_without_output: 1 };
    assert_eq!(counts, expected);
}

#[test]
fn neighbours_do_not_cross_the_ends_of_a_line() {
    // The last cell of a line and the first of the next.
    let (sites, _, _) = enter(grid([1, 2, 3]), &[[0, 0, 0, 2], [0, 0, 1, 0]], 2);
    let mut table = Table::new(&Geometry::submanifold([1, 1, 3]), Mode::Submanifold, 2);
    fill_table(&sites, &sites, &mut table).unwrap();
    assert_eq!(table.words(), [1 << 1, 1 << 3 | 1 << 1]);
    assert_eq!(table.pairs_per_tap(), [0, 2, 0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let (sites, _, _) = enter(grid([4, 4, 4]), &[[0, 1, 1, 1], [0, 2, 1, 1]], 2);
    let mut output = Sites::new(grid([4, 4, 4]), 2);
    for (mode, message) in [
        (Mode::Strided, "Strided of kernel [3, 3, 3]"),
        (Mode::Transposed, "to one of 1x[4, 4, 4]"),
        (Mode::Inverse, "from a grid"),
        (Mode::Submanifold, "odd kernel and stride 1"),
    ] {
        let error = output_sites(&sites, &DOWN, mode, &mut output).unwrap_err();
        assert!(error.message().contains(message), "{error}");
    }
    let centred = Geometry::submanifold([3; 3]);
    let error = output_sites(&sites, &centred, Mode::Submanifold, &mut output).unwrap_err();
    assert!(error.message().contains("no separate sites"), "{error}");

    let mut small = Table::new(&centred, Mode::Submanifold, 1);
    let error = fill_table(&sites, &sites, &mut small).unwrap_err();
    assert!(error.message().contains("2 output sites, the table is for 1"), "{error}");
    let mut table = Table::new(&centred, Mode::Submanifold, 2);
    let error = fill_table(&sites, &output, &mut table).unwrap_err();
    assert!(error.message().contains("levels of the same sites"), "{error}");
    let two = Sites::new(SiteGrid::new(2, [2, 2, 2]).unwrap(), 2);
    let error = fill_table(&sites, &two, &mut Table::new(&DOWN, Mode::Strided, 2)).unwrap_err();
    assert!(error.message().contains("2x[2, 2, 2]"), "{error}");
}

#[test]
fn output_padding_alone_may_make_a_grid() {
    let geometry =
        Geometry { kernel: [1; 3], stride: [1; 3], padding: [0, 2, 0], dilation: [1, 2, 1] };
    assert!(geometry.transposed_shape([3, 4, 3], [0; 3]).is_err());
    assert_eq!(geometry.transposed_shape([3, 4, 3], [0, 1, 0]).unwrap(), [3, 1, 3]);
    let (input, _, _) = enter(grid([3, 4, 3]), &[[0, 1, 2, 1], [0, 1, 1, 1]], 2);
    for (shape, is_possible) in [([3, 1, 3], true), ([3, 2, 3], false), ([2, 1, 3], false)] {
        let mut output = Sites::new(grid(shape), 9);
        let counts = output_sites(&input, &geometry, Mode::Transposed, &mut output);
        assert_eq!(counts.is_ok(), is_possible, "{shape:?}");
        assert!(!is_possible || output.indices() == [4]);
    }
}

proptest! {
    #[test]
    fn tables_hold_the_pairs_of_the_definition(scene in scenes()) {
        let levels = scene.levels();
        let [inputs, outputs] = [&levels.input, &levels.output].map(cells_of);
        prop_assert!(levels.output.indices().is_sorted_by(|a, b| a < b));
        let pairs = scene.pairs(&levels);
        if matches!(scene.mode, Mode::Strided | Mode::Transposed) {
            let reached: BTreeSet<[i64; 4]> = pairs.iter().flat_map(|tap| tap.keys().copied()).collect();
            prop_assert_eq!(&reached.into_iter().collect::<Vec<_>>(), &outputs);
        }
        for (tap, pairs) in pairs.iter().enumerate() {
            for (row, cell) in outputs.iter().enumerate() {
                let found = levels.table.input_row(row, tap).map(|row| inputs[row as usize]);
                prop_assert_eq!(found, pairs.get(cell).copied(), "tap {} of {:?}", tap, cell);
            }
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(scene in scenes()) {
        let mut sorted = scene.clone();
        sorted.cells.sort_unstable();
        let [a, b] = [&scene, &sorted].map(Scene::levels);
        prop_assert_eq!(a.input.indices(), b.input.indices());
        prop_assert_eq!(a.output.indices(), b.output.indices());
        prop_assert_eq!(a.table.words(), b.table.words());
    }

    #[test]
    fn submanifold_pairs_are_symmetric(scene in scenes()) {
        let kernel = scene.geometry.kernel.map(|taps| taps | 1);
        let geometry = Geometry { kernel, stride: [1; 3], ..scene.geometry };
        let scene = Scene { mode: Mode::Submanifold, geometry, ..scene };
        let levels = scene.levels();
        let pairs = levels.table.pairs_per_tap();
        prop_assert_eq!(pairs[pairs.len() / 2], levels.input.len());
        prop_assert!(pairs.iter().eq(pairs.iter().rev()), "{:?}", pairs);
    }

    #[test]
    fn a_workspace_keeps_nothing_of_the_frame_before(scene in scenes(), other in scenes()) {
        let cells = |scene: &Scene| {
            let inside = |cell: &&[i32; 4]| {
                (0..3).all(|axis| (cell[axis + 1] as u32) < other.shape[axis]) && cell[0] == 0
            };
            scene.cells.iter().filter(inside).copied().collect::<Vec<_>>()
        };
        let grid = grid(other.shape);
        let mut used = Sites::new(grid, 40);
        for cells in [cells(&scene), cells(&other)] {
            let counts = sites_of_coordinates(&cells, &mut used, &mut Vec::new());
            let (fresh, _, expected) = enter(grid, &cells, 40);
            prop_assert_eq!(counts, expected);
            prop_assert_eq!(used.indices(), fresh.indices());
            for index in 0..grid.num_cells() as u32 {
                prop_assert_eq!(used.row_of(index), fresh.row_of(index));
            }
        }
    }
}
