//! Scenes for the parity of sparse operations: levels and tables of every mode on both
//! sides, compared while they are made.

use det_post_ops::device::cuda::{DeviceBuffer, Stream};
use det_post_ops::sparse::rulebook::cuda::{Cells, DeviceSites, DeviceTable, Workspace};
use det_post_ops::sparse::rulebook::{
    Geometry, Mode, SiteGrid, Sites, Table, fill_table, output_sites, sites_of_coordinates,
};

use super::random::Random;

/// A level of the input and, where the mode makes one, the level of the output.
pub struct Case {
    pub name: &'static str,
    pub grid: SiteGrid,
    pub geometry: Geometry,
    pub mode: Mode,
    pub output: SiteGrid,
    pub capacities: [usize; 2],
    pub coordinates: Vec<[i32; 4]>,
}

fn geometry(kernel: [u32; 3], stride: [u32; 3], padding: [u32; 3], dilation: [u32; 3]) -> Geometry {
    Geometry { kernel, stride, padding, dilation }
}

/// Clusters, so that neighbours are common, and rows outside of the grid.
fn coordinates(random: &mut Random, grid: &SiteGrid, num: usize) -> Vec<[i32; 4]> {
    let [s0, s1, s2] = grid.shape().map(|size| size as usize);
    let mut rows = Vec::new();
    while rows.len() < num {
        let batch = random.below(grid.batch_size() as usize) as i32;
        let start = [random.below(s0), random.below(s1), random.below(s2)].map(|c| c as i32);
        for _ in 0..12 {
            let step = |random: &mut Random| random.below(4) as i32 - 1;
            let cell = start.map(|c| c + step(random));
            rows.push([batch, cell[0], cell[1], cell[2]]);
        }
    }
    rows.truncate(num);
    rows
}

pub fn cases() -> Vec<Case> {
    let mut random = Random::new(410);
    let mut cases = Vec::new();
    let mut add = |name, batch, shape, geometry: Geometry, mode, capacities, num| {
        let grid = SiteGrid::new(batch, shape).unwrap();
        let shape = match mode {
            Mode::Strided => geometry.strided_shape(shape).unwrap(),
            Mode::Transposed => geometry.transposed_shape(shape, [0; 3]).unwrap(),
            Mode::Submanifold | Mode::Inverse => shape,
        };
        let output = SiteGrid::new(batch, shape).unwrap();
        let coordinates = coordinates(&mut random, &grid, num);
        cases.push(Case { name, grid, geometry, mode, output, capacities, coordinates });
    };
    let ample = [usize::MAX; 2];
    let one = [1; 3];
    let subm = Geometry::submanifold;
    add("subm 3", 2, [7, 40, 70], subm([3; 3]), Mode::Submanifold, ample, 900);
    add("subm 5", 1, [9, 33, 34], subm([5; 3]), Mode::Submanifold, ample, 500);
    add("subm 1 3 3", 1, [5, 20, 31], subm([1, 3, 3]), Mode::Submanifold, ample, 300);
    let dilated = geometry([3; 3], one, one, [1, 2, 2]);
    add("subm dilated", 1, [5, 20, 64], dilated, Mode::Submanifold, ample, 300);
    add("subm cut", 1, [7, 40, 70], subm([3; 3]), Mode::Submanifold, [100, 100], 900);
    add("subm none", 1, [7, 40, 70], subm([3; 3]), Mode::Submanifold, ample, 0);
    let down = geometry([3; 3], [2; 3], one, one);
    add("down", 2, [9, 41, 66], down, Mode::Strided, ample, 900);
    add("down cut", 1, [9, 41, 66], down, Mode::Strided, [800, 77], 900);
    add(
        "down drops",
        1,
        [8, 40, 40],
        geometry([3; 3], [2; 3], [0; 3], one),
        Mode::Strided,
        ample,
        700,
    );
    add(
        "out",
        1,
        [5, 40, 40],
        geometry([3, 1, 1], [2, 1, 1], [0; 3], one),
        Mode::Strided,
        ample,
        700,
    );
    add("pool", 1, [8, 40, 40], geometry([2; 3], [2; 3], [0; 3], one), Mode::Strided, ample, 700);
    let wide = geometry([3, 3, 5], [1, 2, 3], [1, 2, 2], [2, 1, 2]);
    add("down dilated", 1, [9, 40, 60], wide, Mode::Strided, ample, 500);
    add("up", 1, [4, 12, 20], down, Mode::Transposed, ample, 200);
    add(
        "up 2",
        1,
        [4, 12, 20],
        geometry([2; 3], [2; 3], [0; 3], one),
        Mode::Transposed,
        ample,
        200,
    );
    cases
}

/// The levels and the table of a case on both sides.
pub struct Made {
    pub input: Sites,
    pub output: Option<Sites>,
    pub table: Table,
    pub device_input: DeviceSites,
    pub device_output: Option<DeviceSites>,
    pub device_table: DeviceTable,
}

impl Made {
    pub fn new(stream: &Stream, case: &Case) -> Self {
        let [input_capacity, output_capacity] = case.capacities;
        let mut input = Sites::new(case.grid, input_capacity.min(case.coordinates.len().max(1)));
        let mut input_rows = Vec::new();
        let entrance = sites_of_coordinates(&case.coordinates, &mut input, &mut input_rows);
        let has_output = matches!(case.mode, Mode::Strided | Mode::Transposed);
        let mut output = has_output.then(|| Sites::new(case.output, output_capacity.min(1 << 20)));
        let counts = output
            .as_mut()
            .map(|output| output_sites(&input, &case.geometry, case.mode, output).unwrap());
        let rows = output.as_ref().unwrap_or(&input);
        let mut table = Table::new(&case.geometry, case.mode, rows.capacity());
        fill_table(&input, rows, &mut table).unwrap();

        let workspace = Workspace::new(stream).unwrap();
        let upload: Vec<[u32; 4]> =
            case.coordinates.iter().map(|row| row.map(i32::cast_unsigned)).collect();
        let mut cells = DeviceBuffer::zeros(stream, upload.len()).unwrap();
        cells.write(&upload).unwrap();
        let mut num = DeviceBuffer::zeros(stream, 1).unwrap();
        num.write(&[upload.len() as u32]).unwrap();
        let mut levels = vec![DeviceSites::input(stream, case.grid, input.capacity()).unwrap()];
        if let Some(output) = &output {
            levels.push(DeviceSites::output(stream, case.output, output.capacity()).unwrap());
        }
        let capacities = [input.capacity(), rows.capacity()];
        let mut device_table =
            DeviceTable::new(stream, &case.geometry, case.mode, capacities).unwrap();
        // Twice: what the first frame leaves makes no difference.
        for _ in 0..2 {
            workspace.enqueue_clear(&mut levels).unwrap();
            workspace.enqueue_input(Cells::Coordinates(&cells), &num, &mut levels[0]).unwrap();
            if let [input, output] = &mut levels[..] {
                workspace.enqueue_output(input, &case.geometry, case.mode, output).unwrap();
            }
            let (input, rows) = (&levels[0], levels.last().unwrap());
            workspace.enqueue_table(input, rows, &mut device_table).unwrap();
        }
        let name = case.name;
        assert_eq!(levels[0].entrance_counts().unwrap(), entrance, "{name}");
        assert_eq!(levels[0].read().unwrap(), input.indices(), "{name}");
        assert_eq!(levels[0].read_input_rows().unwrap(), input_rows, "{name}");
        if let (Some(output), Some(counts)) = (&output, counts) {
            assert_eq!(levels[1].output_counts().unwrap(), counts, "{name}");
            assert_eq!(levels[1].read().unwrap(), output.indices(), "{name}");
        }
        assert_eq!(device_table.read(rows.len()).unwrap(), table.words(), "{name}");
        let device_output = (levels.len() == 2).then(|| levels.pop().unwrap());
        let device_input = levels.pop().unwrap();
        Self { input, output, table, device_input, device_output, device_table }
    }

    pub fn rows(&self) -> (&Sites, &DeviceSites) {
        (
            self.output.as_ref().unwrap_or(&self.input),
            self.device_output.as_ref().unwrap_or(&self.device_input),
        )
    }
}

/// Values from `-most` to `most`.
pub fn values(random: &mut Random, num: usize, most: f32) -> Vec<f32> {
    (0..num).map(|_| random.range(-most, most)).collect()
}
