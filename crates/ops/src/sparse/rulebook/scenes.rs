//! Scenes and definitions for the tests of sparse operations.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{
    Geometry, Mode, SiteGrid, Sites, Table, fill_table, output_sites, sites_of_coordinates,
};

/// Cells of a small grid and an operation on them.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) batch_size: u32,
    pub(crate) shape: [u32; 3],
    pub(crate) cells: Vec<[i32; 4]>,
    pub(crate) geometry: Geometry,
    pub(crate) mode: Mode,
    pub(crate) output_padding: [u32; 3],
}

/// Two levels and the table between them.
pub(crate) struct Levels {
    pub(crate) input: Sites,
    pub(crate) output: Sites,
    pub(crate) table: Table,
}

/// Scenes of all modes; some of every cell, some of none.
pub(crate) fn scenes() -> impl Strategy<Value = Scene> {
    let axis = || (1_u32..=5, 1_u32..=3, 0_u32..=2, 1_u32..=2, 0_u32..=2, 3_u32..=11);
    let mode = prop_oneof![
        Just(Mode::Submanifold),
        Just(Mode::Strided),
        Just(Mode::Transposed),
        Just(Mode::Inverse)
    ];
    let share = prop_oneof![1 => Just(0.0), 6 => 0.02_f64..0.4, 1 => Just(1.0)];
    ([axis(), axis(), axis()], mode, 1_u32..=2, share, any::<u64>()).prop_filter_map(
        "the kernel is longer than the grid",
        |(axes, mode, batch_size, share, seed)| {
            let (mut kernel, mut stride) = (axes.map(|axis| axis.0), axes.map(|axis| axis.1));
            if mode == Mode::Submanifold {
                (kernel, stride) = (kernel.map(|taps| taps | 1), [1; 3]);
            }
            let (padding, dilation) = (axes.map(|axis| axis.2), axes.map(|axis| axis.3));
            let geometry = Geometry { kernel, stride, padding, dilation };
            let limit = |axis: usize| stride[axis].max(dilation[axis]) - 1;
            let output_padding = std::array::from_fn(|axis| axes[axis].4.min(limit(axis)));
            let shape = axes.map(|axis| axis.5);
            let scene =
                Scene { batch_size, shape, cells: Vec::new(), geometry, mode, output_padding };
            scene.output_shape()?;
            Some(Scene { cells: random_cells(batch_size, shape, share, seed), ..scene })
        },
    )
}

/// About a `share` of the cells of a grid, in a random order.
fn random_cells(batch_size: u32, shape: [u32; 3], share: f64, seed: u64) -> Vec<[i32; 4]> {
    let mut state = seed | 1;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    let grid = SiteGrid::new(batch_size, shape).unwrap();
    let mut cells = Vec::new();
    for index in 0..grid.num_cells() as u32 {
        let (place, drawn) = (random(), random() as f64 / (1_u64 << 53) as f64);
        if share >= 1.0 || drawn < share {
            cells.push((place, grid.cell_of(index).map(|cell| cell as i32)));
        }
    }
    cells.sort_unstable();
    cells.into_iter().map(|(_, cell)| cell).collect()
}

impl Scene {
    fn output_shape(&self) -> Option<[u32; 3]> {
        match self.mode {
            Mode::Submanifold => Some(self.shape),
            Mode::Transposed => {
                self.geometry.transposed_shape(self.shape, self.output_padding).ok()
            }
            Mode::Strided | Mode::Inverse => self.geometry.strided_shape(self.shape).ok(),
        }
    }

    /// The levels of the scene. The input of an inverse operation is the output
    /// of the strided one.
    pub(crate) fn levels(&self) -> Levels {
        let grid = |shape| SiteGrid::new(self.batch_size, shape).unwrap();
        let mut input = Sites::new(grid(self.shape), self.cells.len());
        sites_of_coordinates(&self.cells, &mut input, &mut Vec::new());
        let output_grid = grid(self.output_shape().unwrap());
        let mut output = Sites::new(output_grid, output_grid.num_cells());
        match self.mode {
            Mode::Submanifold => output = input.clone(),
            Mode::Inverse => {
                output_sites(&input, &self.geometry, Mode::Strided, &mut output).unwrap();
                (input, output) = (output, input);
            }
            mode => drop(output_sites(&input, &self.geometry, mode, &mut output).unwrap()),
        }
        let mut table = Table::new(&self.geometry, self.mode, output.len());
        fill_table(&input, &output, &mut table).unwrap();
        Levels { input, output, table }
    }

    /// The pairs by definition: per tap the (output cell, input cell), of
    /// all output cells of the grid.
    pub(crate) fn pairs(&self, levels: &Levels) -> Vec<BTreeMap<[i64; 4], [i64; 4]>> {
        let input: BTreeSet<[i64; 4]> = cells_of(&levels.input).into_iter().collect();
        let shape = levels.output.grid().shape().map(i64::from);
        let Geometry { kernel, stride, padding, dilation } = self.geometry;
        let mut taps = Vec::new();
        for tap in 0..self.geometry.num_taps() {
            let offset = self.geometry.tap_offset(tap);
            let mut pairs = BTreeMap::new();
            for batch in 0..i64::from(self.batch_size) {
                for place in 0..shape.iter().product::<i64>() {
                    let out = [
                        place / shape[2] / shape[1],
                        place / shape[2] % shape[1],
                        place % shape[2],
                    ];
                    let input_cell: Option<Vec<i64>> = (0..3)
                        .map(|axis| {
                            let [k, s, p, d, taps] = [offset, stride, padding, dilation, kernel]
                                .map(|v| i64::from(v[axis]));
                            match self.mode {
                                Mode::Submanifold => Some(out[axis] + (k - taps / 2) * d),
                                Mode::Strided => Some(out[axis] * s - p + k * d),
                                // out = in * s - p + k * d
                                _ => Some(out[axis] + p - k * d)
                                    .filter(|cell| cell % s == 0)
                                    .map(|cell| cell / s),
                            }
                        })
                        .collect();
                    if let Some(cell) = input_cell {
                        let cell = [batch, cell[0], cell[1], cell[2]];
                        if input.contains(&cell) {
                            pairs.insert([batch, out[0], out[1], out[2]], cell);
                        }
                    }
                }
            }
            taps.push(pairs);
        }
        taps
    }
}

/// The cells of sites, in their order.
pub(crate) fn cells_of(sites: &Sites) -> Vec<[i64; 4]> {
    sites.indices().iter().map(|&index| sites.grid().cell_of(index).map(i64::from)).collect()
}
