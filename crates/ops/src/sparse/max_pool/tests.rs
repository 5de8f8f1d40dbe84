use proptest::prelude::*;

use super::*;
use crate::sparse::rulebook::Mode;
use crate::sparse::rulebook::scenes::{Scene, scenes};

#[test]
fn absent_cells_are_zero_and_not_a_number_stays() {
    use crate::sparse::rulebook::{Geometry, SiteGrid, Sites, fill_table, sites_of_coordinates};

    let mut sites = Sites::new(SiteGrid::new(1, [1, 1, 8]).unwrap(), 4);
    let cells = [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 4], [0, 0, 0, 7]];
    sites_of_coordinates(&cells, &mut sites, &mut Vec::new());
    let mut table = Table::new(&Geometry::submanifold([1, 1, 3]), Mode::Submanifold, 4);
    fill_table(&sites, &sites, &mut table).unwrap();
    let mut out = [9.0; 8];
    let input = [1.0, f32::NAN, 3.0, -1.0, -2.0, -4.0, f32::INFINITY, -0.0];
    sparse_max_pool(&input, &table, 2, &mut out).unwrap();
    assert!(out[1].is_nan() && out[3].is_nan());
    assert_eq!(
        [out[0], out[2], out[4], out[5], out[6], out[7]],
        [3.0, 3.0, 0.0, 0.0, f32::INFINITY, 0.0]
    );

    for (num_inputs, num_channels, num_outputs) in [(7, 2, 8), (8, 2, 7), (0, 0, 0), (8, 1, 8)] {
        let (input, mut out) = (vec![0.0; num_inputs], vec![0.0; num_outputs]);
        let error = sparse_max_pool(&input, &table, num_channels, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
    }
}

proptest! {
    #[test]
    fn the_largest_of_the_pairs_of_each_output(scene in scenes(), seed in any::<u32>()) {
        let scene = Scene { mode: Mode::Strided, ..scene };
        prop_assume!(scene.geometry.strided_shape(scene.shape).is_ok());
        let levels = scene.levels();
        let value = |i: usize| ((i as u32 ^ seed).wrapping_mul(2_654_435_761) >> 8) as f32 - 8e6;
        let input: Vec<f32> = (0..levels.input.len() * 3).map(value).collect();
        let mut out = vec![f32::NAN; levels.output.len() * 3];
        sparse_max_pool(&input, &levels.table, 3, &mut out).unwrap();
        for (i, &found) in out.iter().enumerate() {
            let rows = (0..levels.table.num_taps()).filter_map(|tap| levels.table.input_row(i / 3, tap));
            let expected = rows.map(|row| input[row as usize * 3 + i % 3]).fold(0.0, f32::max);
            prop_assert_eq!(found, expected);
        }
    }
}
