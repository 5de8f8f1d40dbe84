//! Sparse levels and features as arrays: cells of sites, rows of features in the order of the
//! sites, and the input rows of a rulebook.
//!
//! Sites have the order of their level: scene, then cell, ascending
//! ([`rulebook`](crate::sparse::rulebook)). Features are rows of f32, of which the level takes the
//! first of each cell; with 16-bit precisions they are rounded to nearest even where they are
//! stored. All else is integers and copies, equal on every device.
//!
//! On the device, rows of features are padded and stored in the precision of the convolution
//! ([`DeviceFeatures`](crate::sparse::conv::cuda::DeviceFeatures)), and the numbers of sites
//! become known there: [`cuda::Workspace`] makes levels, waits for their numbers, and writes arrays
//! of these sizes. Memory of a level is for a capacity, beyond which the sites of the lowest
//! cells stay.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use crate::sparse::rulebook::{Sites, Table};

/// Scene and cell of every site.
pub fn cells(sites: &Sites) -> impl Iterator<Item = [u32; 4]> {
    sites.indices().iter().map(|&index| sites.grid().cell_of(index))
}

/// Replaces the contents of `out` by the rows of `num_channels` values that sites come from, in
/// the order of the sites. Rows beyond the values are left out.
pub fn rows_of_sites(values: &[f32], num_channels: usize, input_rows: &[u32], out: &mut Vec<f32>) {
    out.clear();
    let row_of = |&row: &u32| {
        let start = row as usize * num_channels;
        values.get(start..start + num_channels)
    };
    out.extend(input_rows.iter().filter_map(row_of).flatten());
}

/// By tap and row of the output the row of the input, `None` where there is no site.
pub fn input_rows(table: &Table) -> impl Iterator<Item = Option<u32>> {
    let row_of = move |tap| (0..table.len()).map(move |row| table.input_row(row, tap));
    (0..table.num_taps()).flat_map(row_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sparse::rulebook::{Geometry, Mode, SiteGrid, fill_table, sites_of_coordinates};

    fn level(coordinates: &[[i32; 4]]) -> (Sites, Vec<u32>) {
        let mut sites = Sites::new(SiteGrid::new(2, [2, 3, 4]).unwrap(), coordinates.len());
        let mut rows = Vec::new();
        sites_of_coordinates(coordinates, &mut sites, &mut rows);
        (sites, rows)
    }

    #[test]
    fn arrays_have_the_order_of_the_sites() {
        let coordinates =
            [[1, 0, 2, 3], [0, 1, 1, 2], [0, 1, 1, 1], [0, 5, 0, 0], [0, 1, 1, 2], [-1, 0, 0, 0]];
        let (sites, rows) = level(&coordinates);
        let found: Vec<_> = cells(&sites).collect();
        assert_eq!(found, [[0, 1, 1, 1], [0, 1, 1, 2], [1, 0, 2, 3]]);
        let values: Vec<f32> = (0..12_u8).map(f32::from).collect();
        let mut sorted = vec![9.0];
        rows_of_sites(&values, 2, &rows, &mut sorted);
        assert_eq!(sorted, [4.0, 5.0, 2.0, 3.0, 0.0, 1.0]);
        let mut table =
            Table::new(&Geometry::submanifold([1, 1, 3]), Mode::Submanifold, sites.len());
        fill_table(&sites, &sites, &mut table).unwrap();
        let found: Vec<_> = input_rows(&table).collect();
        let expected = [None, Some(0), None, Some(0), Some(1), Some(2), Some(1), None, None];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_empty_level_gives_empty_arrays() {
        let (sites, rows) = level(&[]);
        assert_eq!(cells(&sites).count(), 0);
        let mut sorted = vec![1.0];
        rows_of_sites(&[], 3, &rows, &mut sorted);
        assert!(sorted.is_empty());
        let table = Table::new(&Geometry::submanifold([3; 3]), Mode::Submanifold, 0);
        assert_eq!(input_rows(&table).count(), 0);
    }
}
