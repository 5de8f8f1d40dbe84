//! The CPU side of rulebooks.

use super::{EntranceCounts, Geometry, Mode, OutputCounts, Scaled, SiteGrid, Sites, Table};

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

/// The direction in which an operation joins cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    /// `cell * stride - padding + tap * dilation`
    Multiplied,
    /// The cells whose product is `cell`: `(cell + padding - tap * dilation) / stride`,
    /// where that is a whole number.
    Divided,
}

/// The cells of a grid that taps join to the cells of another one, for cells in
/// ascending order. Those of a line share all but the last axis.
struct JoinedCells {
    geometry: Geometry,
    join: Join,
    from: SiteGrid,
    to: SiteGrid,
    line: Option<u32>,
    /// By the taps of the first two axes, the index of the first cell of the
    /// joined line.
    lines: [Option<u32>; MAX_LINES],
}

const MAX_LINES: usize = (Geometry::MAX_KERNEL * Geometry::MAX_KERNEL) as usize;

impl JoinedCells {
    fn new(geometry: &Geometry, join: Join, from: &SiteGrid, to: &SiteGrid) -> Self {
        let (geometry, from, to) = (*geometry, *from, *to);
        Self { geometry, join, from, to, line: None, lines: [None; MAX_LINES] }
    }

    /// Goes to a cell. Returns its place along the last axis.
    fn go_to(&mut self, index: u32) -> u32 {
        let [s0, s1, s2] = self.from.shape();
        let line = index / s2;
        if self.line != Some(line) {
            self.line = Some(line);
            self.find_lines([line / s1 / s0, line / s1 % s0, line % s1]);
        }
        index - line * s2
    }

    /// The lines that are joined to the cell's, by tap.
    fn lines(&self) -> &[Option<u32>] {
        let [k0, k1, _] = self.geometry.kernel;
        &self.lines[..(k0 * k1) as usize]
    }

    fn find_lines(&mut self, [batch, c0, c1]: [u32; 3]) {
        let [k0, k1, _] = self.geometry.kernel;
        let [s0, s1, s2] = self.to.shape();
        for tap0 in 0..k0 {
            let c0 = self.joined(0, c0, tap0).map(|c0| (batch * s0 + c0) * s1);
            for tap1 in 0..k1 {
                let line = c0.zip(self.joined(1, c1, tap1)).map(|(c0, c1)| (c0 + c1) * s2);
                self.lines[(tap0 * k1 + tap1) as usize] = line;
            }
        }
    }

    /// The place along an axis that a tap joins to a place.
    fn joined(&self, axis: usize, cell: u32, tap: u32) -> Option<u32> {
        let Geometry { stride, padding, dilation, .. } = self.geometry;
        let [stride, padding, dilation] = [stride, padding, dilation].map(|values| values[axis]);
        let cell = match self.join {
            Join::Multiplied => {
                let padded = i64::from(cell) * i64::from(stride) + i64::from(tap * dilation);
                u32::try_from(padded - i64::from(padding)).ok()
            }
            Join::Divided => {
                let product = (cell + padding).checked_sub(tap * dilation)?;
                Some(product / stride).filter(|cell| cell * stride == product)
            }
        };
        cell.filter(|&cell| cell < self.to.shape()[axis])
    }
}

pub(super) fn output_sites(
    input: &Sites,
    geometry: &Geometry,
    mode: Mode,
    output: &mut Sites,
) -> OutputCounts {
    let join = if mode == Mode::Transposed { Join::Multiplied } else { Join::Divided };
    let mut joined = JoinedCells::new(geometry, join, input.grid(), output.grid());
    let mut counts = OutputCounts::default();
    output.clear();
    for &index in input.indices() {
        let mut has_output = false;
        let c2 = joined.go_to(index);
        for c2 in (0..geometry.kernel[2]).filter_map(|tap| joined.joined(2, c2, tap)) {
            for line in joined.lines().iter().flatten() {
                output.mark(line + c2);
                has_output = true;
            }
        }
        counts.num_inputs_without_output += usize::from(!has_output);
    }
    counts.num_over_capacity = output.rank_marked();
    counts.num_sites = output.len();
    counts
}

/// Marks the cells of a plane under the sites of levels, whose grids fit.
pub(super) fn merged_sites(sources: &[Scaled<&Sites>], output: &mut Sites) -> OutputCounts {
    output.clear();
    for Scaled { level, scale } in sources {
        for &index in level.indices() {
            output.mark(output.grid().under(level.grid().cell_of(index), *scale));
        }
    }
    let num_over_capacity = output.rank_marked();
    OutputCounts { num_sites: output.len(), num_over_capacity, num_inputs_without_output: 0 }
}

/// Fills the table; geometry, grids and capacity fit.
pub(super) fn fill_table(input: &Sites, output: &Sites, table: &mut Table) {
    let (mode, taps_per_word) = (table.mode(), table.taps_per_word());
    let geometry = centred(table.geometry(), mode);
    let join = match mode {
        Mode::Submanifold | Mode::Strided => Join::Multiplied,
        Mode::Transposed | Mode::Inverse => Join::Divided,
    };
    let mut joined = JoinedCells::new(&geometry, join, output.grid(), input.grid());
    let num_cells = input.grid().shape()[2];
    let len = output.len();
    let words = table.start(input.len(), len);
    for (row, &index) in output.indices().iter().enumerate() {
        let c2 = joined.go_to(index);
        if taps_per_word == 3 {
            let first = i64::from(c2 * geometry.stride[2]) - i64::from(geometry.padding[2]);
            for (line, word) in joined.lines().iter().zip(words[row..].iter_mut().step_by(len)) {
                *word = line.map_or(0, |line| triple(input, line, first, num_cells));
            }
            continue;
        }
        for tap in 0..geometry.kernel[2] {
            let cell = joined.joined(2, c2, tap);
            let words = words[tap as usize * len + row..].iter_mut();
            let words = words.step_by(geometry.kernel[2] as usize * len);
            for (line, word) in joined.lines().iter().zip(words) {
                let index = line.zip(cell).map(|(line, cell)| line + cell);
                let row = index.and_then(|index| input.row_of(index));
                *word = row.map_or(0, |row| row << Table::PRESENT_BITS | 1);
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
