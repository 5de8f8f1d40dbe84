//! Which block of the kernel has which cells, so that no block has much more work than others.

use super::PART_POINTS;
use super::kernels::{TILE_COLUMNS, TILE_ROWS};
use super::shape::MapShape;
use super::table::PoolTable;

/// The work of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Schedule {
    /// Tiles of the map, by the points of their cells of one part, descending, then by number: all
    /// levels below each other, row by row.
    pub(super) tiles: Vec<u32>,
    /// By part of a long cell the number of that cell.
    pub(super) parts: Vec<u32>,
    /// The cells of more than one part, ascending.
    pub(super) long_cells: Vec<u32>,
    /// By long cell its first part, and one more at the end.
    pub(super) long_starts: Vec<u32>,
}

impl Schedule {
    pub(super) fn of(table: &PoolTable) -> Self {
        let MapShape { levels, rows, columns } = *table.map();
        let num_tile_columns = columns.div_ceil(TILE_COLUMNS as usize);
        let num_tiles = num_tile_columns * (levels * rows).div_ceil(TILE_ROWS as usize);
        let mut num_points = vec![0_u32; num_tiles];
        let mut schedule = Self { long_starts: vec![0], ..Self::default() };
        for cell in 0..table.map().num_cells() {
            let num = table.num_points_of(cell);
            if num > PART_POINTS {
                let index = schedule.long_cells.len() as u32;
                schedule.long_cells.push(cell as u32);
                schedule.parts.extend(std::iter::repeat_n(index, num.div_ceil(PART_POINTS)));
                schedule.long_starts.push(schedule.parts.len() as u32);
            } else {
                let (row, column) = (cell / columns, cell % columns);
                let tile = row / TILE_ROWS as usize * num_tile_columns;
                num_points[tile + column / TILE_COLUMNS as usize] += num as u32;
            }
        }
        schedule.tiles = (0..num_tiles as u32).collect();
        schedule.tiles.sort_by_key(|&tile| std::cmp::Reverse(num_points[tile as usize]));
        schedule
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::{FrustumShape, OUTSIDE};
    use super::*;

    #[test]
    fn heavy_tiles_are_first_and_long_cells_are_in_parts() {
        // 300 points: cell 3 has 129, cell 20 (the third tile) 128, cell 0 one, 42 are outside.
        let frustum = FrustumShape { num_cameras: 1, num_depths: 3, rows: 10, columns: 10 };
        let cells = |index: usize| match index {
            0..129 => 3,
            129..257 => 20,
            257 => 0,
            _ => OUTSIDE,
        };
        let cells: Vec<u32> = (0..300).map(cells).collect();
        let map = MapShape { levels: 1, rows: 5, columns: 20 };
        let table = PoolTable::of_cells(frustum, map, &cells).unwrap();
        let schedule = Schedule::of(&table);
        // Cell 20 is row 1, column 0, in the tile of cell 0.
        assert_eq!(schedule.tiles, [0, 1, 2, 3, 4, 5]);
        assert_eq!(schedule.parts, [0, 0]);
        assert_eq!((schedule.long_cells, schedule.long_starts), (vec![3], vec![0, 2]));

        let map = MapShape { levels: 5, rows: 1, columns: 20 };
        let moved: Vec<u32> =
            cells.iter().map(|&cell| if cell == 20 { 99 } else { cell }).collect();
        let table = PoolTable::of_cells(frustum, map, &moved).unwrap();
        assert_eq!(Schedule::of(&table).tiles, [5, 0, 1, 2, 3, 4]);
    }
}
