use proptest::prelude::*;

use super::*;
use crate::sparse::rulebook::{SiteGrid, merged_sites, sites_of_coordinates};
use det_post_types::ErrorKind;

fn sites(shape: [u32; 3], cells: &[[i32; 3]]) -> Sites {
    let grid = SiteGrid::new(1, shape).unwrap();
    let mut sites = Sites::new(grid, 1000);
    let cells: Vec<[i32; 4]> = cells.iter().map(|&[z, y, x]| [0, z, y, x]).collect();
    sites_of_coordinates(&cells, &mut sites, &mut Vec::new());
    sites
}

fn plane(rows: u32, columns: u32, capacity: usize) -> Sites {
    Sites::new(SiteGrid::new(1, [1, rows, columns]).unwrap(), capacity)
}

#[test]
fn sums_are_in_the_order_of_levels_then_of_heights() {
    // Sums of these numbers depend on their order.
    let (fine, coarse) =
        (sites([3, 2, 3], &[[2, 0, 2], [0, 0, 2], [1, 0, 2], [0, 1, 1]]), [[1, 0, 1]]);
    let coarse = sites([2, 1, 2], &coarse);
    let mut out_sites = plane(2, 3, 10);
    let sources = [Scaled { level: &fine, scale: 1 }, Scaled { level: &coarse, scale: 2 }];
    let counts = merged_sites(&sources, &mut out_sites).unwrap();
    assert_eq!((counts.num_sites, counts.num_over_capacity), (2, 0));
    assert_eq!(out_sites.indices(), [2, 4]);
    // Rows of the fine level: (0, 0, 2), (0, 1, 1), (1, 0, 2), (2, 0, 2).
    let of_fine = [1e8, 1.0, -1e8, 3.0].map(|value: f32| [value, -0.0]);
    let of_coarse = [[0.5, -0.0]];
    let with = |sources: [Scaled<_>; 2]| {
        [
            Source { sites: sources[0], features: of_fine.as_flattened() },
            Source { sites: sources[1], features: of_coarse.as_flattened() },
        ]
    };
    let mut out = [f32::NAN; 4];
    sparse_merge(&with(sources), 2, &out_sites, &mut out).unwrap();
    assert_eq!(out, [(1e8 + -1e8) + 3.0 + 0.5, 0.0, 1.0, 0.0]);
    assert!(out[1].is_sign_positive() && out[3].is_sign_positive());
    // The other order of levels.
    let [first, second] = with(sources);
    sparse_merge(&[second, first], 2, &out_sites, &mut out).unwrap();
    assert_eq!(out[0], ((0.5 + 1e8) + -1e8) + 3.0);
}

#[test]
fn none_one_full_and_one_over() {
    let empty = sites([2, 4, 4], &[]);
    let mut out_sites = plane(4, 4, 3);
    let source = |sites| [Scaled { level: sites, scale: 1 }];
    assert_eq!(merged_sites(&source(&empty), &mut out_sites).unwrap().num_sites, 0);
    sparse_merge(&[Source { sites: source(&empty)[0], features: &[] }], 5, &out_sites, &mut [])
        .unwrap();
    let mut cells = vec![[1, 0, 1], [0, 2, 2], [1, 3, 0]];
    for (more, over) in [(None, 0), (Some([0, 3, 3]), 1)] {
        cells.extend(more);
        let level = sites([2, 4, 4], &cells);
        let counts = merged_sites(&source(&level), &mut out_sites).unwrap();
        assert_eq!((counts.num_sites, counts.num_over_capacity), (3, over));
        assert_eq!(out_sites.indices(), [1, 10, 12], "the lowest indices stay");
        let features: Vec<f32> = (0..level.len()).map(|row| row as f32 + 1.0).collect();
        let mut out = [0.0; 3];
        let of_level = [Source { sites: source(&level)[0], features: &features }];
        sparse_merge(&of_level, 1, &out_sites, &mut out).unwrap();
        let rows = [[0, 1, 0, 1], [0, 0, 2, 2], [0, 1, 3, 0]].map(|[batch, z, y, x]| {
            let index = level.grid().index_of([batch, z, y, x]).unwrap();
            level.row_of(index).unwrap() as f32 + 1.0
        });
        assert_eq!(out, rows);
    }
}

#[test]
fn not_a_number_stays_in_its_cell() {
    let level = sites([1, 1, 3], &[[0, 0, 0], [0, 0, 1], [0, 0, 2]]);
    let mut out_sites = plane(1, 3, 3);
    let source = Scaled { level: &level, scale: 1 };
    merged_sites(&[source], &mut out_sites).unwrap();
    let features = [1.0, f32::NAN, f32::INFINITY];
    let mut out = [0.0; 3];
    sparse_merge(&[Source { sites: source, features: &features }], 1, &out_sites, &mut out)
        .unwrap();
    assert!(out[0] == 1.0 && out[1].is_nan() && out[2] == f32::INFINITY);
}

#[test]
fn what_has_no_place_is_refused() {
    let level = sites([2, 3, 3], &[[0, 2, 2]]);
    let refused = |scale, shape: [u32; 3]| {
        let mut plane = Sites::new(SiteGrid::new(1, shape).unwrap(), 9);
        merged_sites(&[Scaled { level: &level, scale }], &mut plane).unwrap_err()
    };
    for (scale, shape) in [(1, [2, 3, 3]), (0, [1, 3, 3]), (2, [1, 4, 5]), (1, [1, 3, 2])] {
        let error = refused(scale, shape);
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().contains("no place on a plane"), "{error}");
    }
    let mut out_sites = plane(5, 5, 9);
    let source = Scaled { level: &level, scale: 2 };
    merged_sites(&[source], &mut out_sites).unwrap();
    assert_eq!(out_sites.indices(), [24]);
    let features = [1.0; 2];
    for (num_sources, num_channels, len) in [(0, 2, 2), (4, 2, 2), (1, 0, 2), (1, 1, 1), (1, 2, 3)]
    {
        let sources = vec![Source { sites: source, features: &features }; num_sources];
        let error = sparse_merge(&sources, num_channels, &out_sites, &mut vec![0.0; len]);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Argument);
    }
}

proptest! {
    /// Whole numbers: their sums are exact in any order.
    #[test]
    fn a_cell_has_the_sum_of_what_is_above(
        cells in prop::collection::vec(prop::array::uniform3(0..7_i32), 0..60),
        scales in prop::array::uniform3(1..4_u32),
    ) {
        let levels: Vec<Sites> = (0..3)
            .map(|level| {
                let of_level = cells.iter().skip(level).step_by(3);
                sites([7, 7, 7], &of_level.copied().collect::<Vec<_>>())
            })
            .collect();
        let sources: Vec<_> = levels
            .iter()
            .zip(scales)
            .map(|(level, scale)| Scaled { level, scale })
            .collect();
        let features: Vec<Vec<f32>> =
            levels.iter().map(|level| level.indices().iter().map(|&i| i as f32).collect()).collect();
        let mut expected = std::collections::BTreeMap::new();
        for (level, scale) in levels.iter().zip(scales) {
            for &index in level.indices() {
                let [_, _, y, x] = level.grid().cell_of(index);
                *expected.entry(y * scale * 19 + x * scale).or_insert(0.0) += index as f32;
            }
        }
        let mut out_sites = plane(19, 19, 400);
        let counts = merged_sites(&sources, &mut out_sites).unwrap();
        prop_assert_eq!(counts.num_over_capacity, 0);
        let mut out = vec![f32::NAN; out_sites.len()];
        let with_features: Vec<_> = sources
            .iter()
            .zip(&features)
            .map(|(&sites, features)| Source { sites, features })
            .collect();
        sparse_merge(&with_features, 1, &out_sites, &mut out).unwrap();
        let found: Vec<_> = out_sites.indices().iter().copied().zip(out).collect();
        prop_assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    }
}
