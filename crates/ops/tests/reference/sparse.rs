//! Every operation by itself: coordinates, order, tables and counts are equal,
//! features agree to 1e-5 of the largest value of their case.

use det_post_ops::sparse::conv::{
    ConvParameters, Epilogue, PackedWeights, Precision, Workspace, sparse_conv,
};
use det_post_ops::sparse::max_pool::sparse_max_pool;
use det_post_ops::sparse::rulebook::{
    EntranceCounts, Geometry, Mode, SiteGrid, Sites, Table, fill_table, output_sites,
    sites_of_coordinates,
};
use det_post_ops::sparse::to_map::{map_shape, to_map};
use det_post_types::{ElementType, Tensor};

use det_post_testing::assert_close;
use det_post_testing::npz::Npz;
use det_post_testing::shared_data::shared_data;

fn operations() -> Option<Npz> {
    Some(Npz::open(&shared_data()?.join("sparse/ops.npz")))
}

/// The names of all cases.
fn cases(file: &Npz) -> Vec<String> {
    let mut cases: Vec<String> =
        file.names().iter().map(|name| name.split('/').next().unwrap().to_owned()).collect();
    cases.dedup();
    cases
}

/// `meta` of a case.
struct Meta {
    input: [u32; 3],
    output: [u32; 3],
    geometry: Geometry,
    batch_size: u32,
    mode: Mode,
}

impl Meta {
    fn of(file: &Npz, case: &str) -> Self {
        let meta = file.i32(&format!("{case}/meta"));
        let three = |at: usize| -> [u32; 3] { std::array::from_fn(|i| meta[at + i] as u32) };
        let geometry = Geometry {
            kernel: three(6),
            stride: three(9),
            padding: three(12),
            dilation: three(15),
        };
        let mode = match (meta[19], meta[20]) {
            (1, 0) => Mode::Submanifold,
            (0, 1) => Mode::Transposed,
            _ => Mode::Strided,
        };
        Self { input: three(0), output: three(3), geometry, batch_size: meta[18] as u32, mode }
    }
}

/// A level with the features of its sites in their order.
struct Level {
    sites: Sites,
    input_rows: Vec<u32>,
    features: Vec<f32>,
}

impl Level {
    fn enter(grid: SiteGrid, coordinates: &[[i32; 4]], features: &[f32]) -> Self {
        let (mut sites, mut input_rows) = (Sites::new(grid, coordinates.len()), Vec::new());
        let counts = sites_of_coordinates(coordinates, &mut sites, &mut input_rows);
        let all = EntranceCounts { num_sites: coordinates.len(), ..EntranceCounts::default() };
        assert_eq!(counts, all);
        let num_channels = features.len() / coordinates.len();
        let row = |&row: &u32| &features[row as usize * num_channels..][..num_channels];
        let features = input_rows.iter().flat_map(row).copied().collect();
        Self { sites, input_rows, features }
    }
}

fn coordinates_of(sites: &Sites) -> Vec<[i32; 4]> {
    let cell_of = |&index| sites.grid().cell_of(index).map(|cell| cell as i32);
    sites.indices().iter().map(cell_of).collect()
}

/// Per tap and output row the row of the input as it was given, or -1.
fn tap_rows(table: &Table, input_rows: &[u32]) -> Vec<i32> {
    let rows = |tap| (0..table.len()).map(move |row| table.input_row(row, tap));
    (0..table.num_taps())
        .flat_map(rows)
        .map(|row| row.map_or(-1, |row| input_rows[row as usize] as i32))
        .collect()
}

fn convolve(file: &Npz, case: &str, input: &[f32], table: &Table) -> Vec<f32> {
    let name = |array| format!("{case}/{array}");
    let shape = &file.array(&name("weight")).shape;
    let sizes = [shape[0], shape[1..4].iter().product(), shape[4]];
    let bias = file.contains(&name("bias")).then(|| file.f32(&name("bias")));
    let parameters = ConvParameters::new(sizes, file.f32(&name("weight")), bias).unwrap();
    let weights = PackedWeights::new(&parameters, Precision::F32).unwrap();
    let mut out = vec![f32::NAN; table.len() * sizes[0]];
    let mut workspace = Workspace::new(2);
    sparse_conv(input, table, &weights, Epilogue::default(), &mut workspace, &mut out).unwrap();
    out
}

#[test]
fn operations_equal_the_reference() {
    let Some(file) = operations() else { return };
    let cases = cases(&file);
    assert_eq!(cases.len(), 19, "{cases:?}");
    for case in cases.iter().filter(|case| *case != "inverse") {
        let name = |array| format!("{case}/{array}");
        let Meta { input: shape, output, geometry, batch_size, mode } = Meta::of(&file, case);
        let grid = SiteGrid::new(batch_size, shape).unwrap();
        let input =
            Level::enter(grid, file.rows_of_4(&name("in_coords")), file.f32(&name("in_features")));
        let expected = file.rows_of_4(&name("out_coords"));

        let mut sites = Sites::new(SiteGrid::new(batch_size, output).unwrap(), expected.len());
        if mode == Mode::Submanifold {
            sites = input.sites.clone();
        } else {
            let counts = output_sites(&input.sites, &geometry, mode, &mut sites).unwrap();
            assert_eq!(counts.num_over_capacity, 0, "{case}");
            let mut unread: Vec<i32> = (0..input.sites.len() as i32).collect();
            unread.retain(|row| !file.i32(&name("table")).contains(row));
            assert_eq!(counts.num_inputs_without_output, unread.len(), "{case}");
            assert!(case != "down_s2_p0_drops_inputs" || !unread.is_empty());
        }
        assert_eq!(coordinates_of(&sites), expected, "{case}");

        let mut table = Table::new(&geometry, mode, sites.len());
        fill_table(&input.sites, &sites, &mut table).unwrap();
        assert_eq!(tap_rows(&table, &input.input_rows), file.i32(&name("table")), "{case}");
        let pairs: Vec<i32> = table.pairs_per_tap().into_iter().map(|num| num as i32).collect();
        assert_eq!(pairs, file.i32(&name("pairs")), "{case}");

        let expected = file.f32(&name("out_features"));
        let found = if case.starts_with("maxpool") {
            let mut out = vec![f32::NAN; expected.len()];
            sparse_max_pool(&input.features, &table, expected.len() / table.len(), &mut out)
                .unwrap();
            assert_eq!(out, expected, "{case}");
            out
        } else {
            convolve(&file, case, &input.features, &table)
        };
        assert_close(&found, expected, case);

        if file.contains(&name("dense")) {
            let dense = file.array(&name("dense"));
            let num_channels = dense.shape[1];
            let shape = map_shape(sites.grid(), [0, 1, 2], num_channels).unwrap();
            let mut map = Tensor::zeros(ElementType::F32, &shape).unwrap();
            to_map(&found, &sites, [0, 1, 2], num_channels, &mut map).unwrap();
            let Tensor::F32 { values, .. } = &map else { panic!("{map:?}") };
            assert_close(values, file.f32(&name("dense")), "dense");
        }
    }
}

#[test]
fn an_inverse_convolution_returns_to_the_sites() {
    let Some(file) = operations() else { return };
    let Meta { input: shape, output, geometry, batch_size, .. } = Meta::of(&file, "inverse.down");
    let grid = |shape| SiteGrid::new(batch_size, shape).unwrap();
    let coordinates = file.rows_of_4("inverse.down/in_coords");
    let fine = Level::enter(grid(shape), coordinates, file.f32("inverse.down/in_features")).sites;
    let features = file.f32("inverse/mid_features");
    let mut coarse = Sites::new(grid(output), features.len());
    output_sites(&fine, &geometry, Mode::Strided, &mut coarse).unwrap();
    assert_eq!(coordinates_of(&fine), file.rows_of_4("inverse/out_coords"));

    let mut table = Table::new(&geometry, Mode::Inverse, fine.len());
    fill_table(&coarse, &fine, &mut table).unwrap();
    let rows: Vec<u32> = (0..coarse.len() as u32).collect();
    assert_eq!(tap_rows(&table, &rows), file.i32("inverse/table"));
    let pairs: Vec<i32> = table.pairs_per_tap().into_iter().map(|num| num as i32).collect();
    assert_eq!(pairs, file.i32("inverse/pairs"));
    let found = convolve(&file, "inverse", features, &table);
    assert_close(&found, file.f32("inverse/out_features"), "inverse");
}
