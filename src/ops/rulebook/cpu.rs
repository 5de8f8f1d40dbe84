//! The CPU side of rulebooks.

use super::{EntranceCounts, Geometry, Mode, OutputCounts, Sites, Table};

const NO_INPUT: u32 = u32::MAX;

pub(super) fn sites_of_coordinates(
    coordinates: &[[i32; 4]],
    sites: &mut Sites,
    input_rows: &mut Vec<u32>,
) -> EntranceCounts {
    let grid = *sites.grid();
    let mut counts = EntranceCounts::default();
    sites.clear();
    for &cell in coordinates {
        match grid.index_of(cell) {
            None => counts.num_outside += 1,
            Some(index) if !sites.mark(index) => counts.num_duplicates += 1,
            Some(_) => {}
        }
    }
    counts.num_over_capacity = sites.rank_marked();
    counts.num_sites = sites.len();

    input_rows.clear();
    input_rows.resize(sites.len(), NO_INPUT);
    for (input, &cell) in coordinates.iter().enumerate() {
        if let Some(row) = grid.index_of(cell).and_then(|index| sites.row_of(index)) {
            let first = &mut input_rows[row as usize];
            *first = (*first).min(input as u32);
        }
    }
    counts
}

/// The cells along one axis that taps join to a cell, by tap.
#[derive(Clone, Copy)]
struct AxisCells {
    cells: [Option<u32>; Geometry::MAX_KERNEL as usize],
    num_taps: usize,
}

impl AxisCells {
    fn new(num_taps: u32, cell_of: impl Fn(i64) -> Option<i64>, size: u32) -> Self {
        let mut cells = [None; Geometry::MAX_KERNEL as usize];
        for (tap, cell) in cells[..num_taps as usize].iter_mut().enumerate() {
            let found = cell_of(tap as i64).and_then(|cell| u32::try_from(cell).ok());
            *cell = found.filter(|&cell| cell < size);
        }
        Self { cells, num_taps: num_taps as usize }
    }

    fn by_tap(&self) -> &[Option<u32>] {
        &self.cells[..self.num_taps]
    }

    fn iter(&self) -> impl Iterator<Item = u32> {
        self.by_tap().iter().copied().flatten()
    }
}

/// `cell * stride - padding + tap * dilation`
fn multiplied(geometry: &Geometry, axis: usize, cell: u32, size: u32) -> AxisCells {
    let (dilation, first) = (
        i64::from(geometry.dilation[axis]),
        i64::from(cell) * i64::from(geometry.stride[axis]) - i64::from(geometry.padding[axis]),
    );
    AxisCells::new(geometry.kernel[axis], |tap| Some(first + tap * dilation), size)
}

/// The cells whose [`multiplied`] is `cell`: `(cell + padding - tap * dilation) / stride`.
fn divided(geometry: &Geometry, axis: usize, cell: u32, size: u32) -> AxisCells {
    let (dilation, stride) = (i64::from(geometry.dilation[axis]), i64::from(geometry.stride[axis]));
    let last = i64::from(cell) + i64::from(geometry.padding[axis]);
    let cell_of = |tap| Some(last - tap * dilation).filter(|cell| cell % stride == 0);
    AxisCells::new(geometry.kernel[axis], |tap| cell_of(tap).map(|cell| cell / stride), size)
}

/// Axis by axis, the input cells of an output cell.
fn inputs_of(geometry: &Geometry, mode: Mode, cell: [u32; 3], input: [u32; 3]) -> [AxisCells; 3] {
    std::array::from_fn(|axis| match mode {
        Mode::Submanifold | Mode::Strided => multiplied(geometry, axis, cell[axis], input[axis]),
        Mode::Transposed | Mode::Inverse => divided(geometry, axis, cell[axis], input[axis]),
    })
}

pub(super) fn output_sites(
    input: &Sites,
    geometry: &Geometry,
    mode: Mode,
    output: &mut Sites,
) -> OutputCounts {
    let (input_grid, shape) = (*input.grid(), output.grid().shape());
    let mut counts = OutputCounts::default();
    output.clear();
    for &index in input.indices() {
        let [batch, cell @ ..] = input_grid.cell_of(index);
        let [cells0, cells1, cells2] = std::array::from_fn(|axis| match mode {
            Mode::Transposed => multiplied(geometry, axis, cell[axis], shape[axis]),
            _ => divided(geometry, axis, cell[axis], shape[axis]),
        });
        let mut has_output = false;
        for c0 in cells0.iter() {
            for c1 in cells1.iter() {
                let line = ((batch * shape[0] + c0) * shape[1] + c1) * shape[2];
                for c2 in cells2.iter() {
                    output.mark(line + c2);
                    has_output = true;
                }
            }
        }
        counts.num_inputs_without_output += usize::from(!has_output);
    }
    counts.num_over_capacity = output.rank_marked();
    counts.num_sites = output.len();
    counts
}

/// Fills the table; geometry, grids and capacity fit.
pub(super) fn fill_table(input: &Sites, output: &Sites, table: &mut Table) {
    let (mode, taps_per_word) = (table.mode(), table.taps_per_word());
    let geometry = centred(table.geometry(), mode);
    let (output_grid, shape) = (*output.grid(), input.grid().shape());
    let len = output.len();
    let words = table.start(input.len(), len);
    for (row, &index) in output.indices().iter().enumerate() {
        let [batch, cell @ ..] = output_grid.cell_of(index);
        let [cells0, cells1, cells2] = inputs_of(&geometry, mode, cell, shape);
        let first2 =
            i64::from(cell[2]) * i64::from(geometry.stride[2]) - i64::from(geometry.padding[2]);
        let mut words = words[row..].iter_mut().step_by(len);
        for &c0 in cells0.by_tap() {
            for &c1 in cells1.by_tap() {
                let line =
                    c0.zip(c1).map(|(c0, c1)| ((batch * shape[0] + c0) * shape[1] + c1) * shape[2]);
                if taps_per_word == 3 {
                    let word = line.map_or(0, |line| triple(input, line, first2, shape[2]));
                    words.next().into_iter().for_each(|to| *to = word);
                    continue;
                }
                for &c2 in cells2.by_tap() {
                    let row = line.zip(c2).and_then(|(line, c2)| input.row_of(line + c2));
                    let word = row.map_or(0, |row| row << Table::PRESENT_BITS | 1);
                    words.next().into_iter().for_each(|to| *to = word);
                }
            }
        }
    }
}

/// A submanifold geometry with the padding that centres its kernel.
fn centred(geometry: &Geometry, mode: Mode) -> Geometry {
    let padding = |axis| geometry.kernel[axis] / 2 * geometry.dilation[axis];
    match mode {
        Mode::Submanifold => Geometry { padding: std::array::from_fn(padding), ..*geometry },
        _ => *geometry,
    }
}

/// The word of the three cells of a line of `size` cells, from `first` on.
fn triple(sites: &Sites, line: u32, first: i64, size: u32) -> u32 {
    let (from, to) = (first.max(0), (first + 3).min(i64::from(size)));
    if from >= to {
        return 0;
    }
    let (row, present) = sites.window(line + from as u32, (to - from) as u32);
    let first_tap = (from - first) as u32;
    if present == 0 { 0 } else { row << Table::PRESENT_BITS | present << first_tap }
}
