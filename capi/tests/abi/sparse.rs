//! Layers that share rulebooks, from C: equal to the operations in Rust, byte for byte.

use std::fs;
use std::path::Path;

use det_post_ops::arrays::sparse::{cells, input_rows, rows_of_sites};
use det_post_ops::sparse::conv::{
    ConvParameters, Epilogue, PackedWeights, Precision, Workspace, sparse_conv,
};
use det_post_ops::sparse::max_pool::sparse_max_pool;
use det_post_ops::sparse::rulebook::{
    Geometry, Mode, SiteGrid, Sites, Table, fill_table, output_sites, sites_of_coordinates,
};
use det_post_ops::sparse::to_map::{map_shape, to_map};
use det_post_types::{ElementType, Tensor};
use tempfile::TempDir;

use super::programs::{Language, Program};
use super::require::{Need, skip};

const PRECISIONS: [Precision; 4] =
    [Precision::F32, Precision::Tf32, Precision::F16, Precision::Bf16];

/// Output and input channels of the layers.
const LAYERS: [[usize; 2]; 5] = [[16, 5], [16, 16], [32, 16], [32, 32], [16, 32]];

/// Numbers that are the same on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }

    fn floats(&mut self, num: usize, from: f32, to: f32) -> Vec<f32> {
        (0..num).map(|_| from + (to - from) * (self.next() % (1 << 20)) as f32 / 1e6).collect()
    }
}

/// Weights `[Cout, 27, Cin]`, bias, scale and shift.
struct Layer {
    sizes: [usize; 2],
    weights: Vec<f32>,
    of_outputs: [Vec<f32>; 3],
}

struct Inputs {
    cells: Vec<[i32; 4]>,
    features: Vec<f32>,
    layers: Vec<Layer>,
}

impl Inputs {
    fn new() -> Self {
        let mut random = Random(7);
        // Some are outside, some are there twice.
        let mut cell = || [3, 10, 34, 41].map(|size| (random.next() % size) as i32);
        let cells: Vec<[i32; 4]> = (0..3000).map(|_| cell()).collect();
        let features = random.floats(5 * cells.len(), -1.0, 1.0);
        let layers = LAYERS.map(|sizes @ [num_outputs, num_inputs]| Layer {
            sizes,
            weights: random.floats(num_outputs * 27 * num_inputs, -0.1, 0.1),
            of_outputs: [(-0.5, 0.5), (0.5, 1.5), (-0.5, 0.5)]
                .map(|(from, to)| random.floats(num_outputs, from, to)),
        });
        Self { cells, features, layers: layers.into() }
    }

    fn save(&self, folder: &Path) {
        let write = |name: &str, bytes: Vec<u8>| fs::write(folder.join(name), bytes).unwrap();
        write("cells", self.cells.iter().flatten().flat_map(|c| c.to_le_bytes()).collect());
        let bytes = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
        write("features", bytes(&self.features));
        for (number, layer) in (1..).zip(&self.layers) {
            write(&format!("w{number}.weights"), bytes(&layer.weights));
            for (name, values) in ["bias", "scale", "shift"].iter().zip(&layer.of_outputs) {
                write(&format!("w{number}.{name}"), bytes(values));
            }
        }
    }
}

impl Layer {
    fn packed(&self, precision: Precision) -> PackedWeights {
        let ([num_outputs, num_inputs], [bias, scale, shift]) = (self.sizes, &self.of_outputs);
        let per_output = 27 * num_inputs;
        let weights = self.weights.iter().enumerate();
        let weights: Vec<f32> = weights
            .map(|(at, &w)| (f64::from(w) * f64::from(scale[at / per_output])) as f32)
            .collect();
        let folded = |at: usize| f64::from(bias[at]) * f64::from(scale[at]) + f64::from(shift[at]);
        let bias: Vec<f32> = (0..num_outputs).map(|at| folded(at) as f32).collect();
        let sizes = [num_outputs, 27, num_inputs];
        PackedWeights::new(&ConvParameters::new(sizes, &weights, Some(&bias)).unwrap(), precision)
            .unwrap()
    }

    fn run(
        &self,
        (input, table): (&[f32], &Table),
        precision: Precision,
        residual: Option<&[f32]>,
        relu: bool,
    ) -> Vec<f32> {
        let mut out = vec![0.0; table.len() * self.sizes[0]];
        let epilogue = Epilogue { residual, relu, stored: precision };
        let packed = self.packed(precision);
        sparse_conv(input, table, &packed, epilogue, &mut Workspace::new(1), &mut out).unwrap();
        out
    }
}

fn table(input: &Sites, output: &Sites, geometry: &Geometry, mode: Mode) -> Table {
    let mut table = Table::new(geometry, mode, output.len());
    fill_table(input, output, &mut table).unwrap();
    table
}

/// What the program writes, by name.
fn expected(inputs: &Inputs, precision: Precision) -> Vec<(String, Vec<u8>)> {
    let grid = SiteGrid::new(2, [9, 33, 40]).unwrap();
    let mut sites = Sites::new(grid, inputs.cells.len());
    let mut rows = Vec::new();
    let counts = sites_of_coordinates(&inputs.cells, &mut sites, &mut rows);
    assert!(counts.num_outside > 100 && counts.num_duplicates > 20, "{counts:?}");
    let [subm, down_by, pool_by] = [(3, 1), (3, 2), (2, 2)].map(|(kernel, stride): (u32, u32)| {
        let (kernel, stride, padding) = ([kernel; 3], [stride; 3], [kernel / 2; 3]);
        Geometry { kernel, stride, padding, dilation: [1; 3] }
    });
    let strided = |geometry: &Geometry| {
        let shape = geometry.strided_shape(grid.shape()).unwrap();
        let mut output = Sites::new(SiteGrid::new(2, shape).unwrap(), 27 * sites.len());
        output_sites(&sites, geometry, Mode::Strided, &mut output).unwrap();
        output
    };
    let (coarse, cells_of_pool) = (strided(&down_by), strided(&pool_by));
    let same = table(&sites, &sites, &subm, Mode::Submanifold);
    let down = table(&sites, &coarse, &down_by, Mode::Strided);
    let up = table(&coarse, &sites, &down_by, Mode::Inverse);
    let pooling = table(&sites, &cells_of_pool, &pool_by, Mode::Strided);
    let of_coarse = table(&coarse, &coarse, &subm, Mode::Submanifold);

    let mut sorted = Vec::new();
    rows_of_sites(&inputs.features, 5, &rows, &mut sorted);
    let [w1, w2, w3, w4, w5] = &inputs.layers[..] else { panic!("five layers") };
    let out1 = w1.run((&sorted, &same), precision, None, true);
    let out2 = w2.run((&out1, &same), precision, Some(&out1), true);
    let out3 = w3.run((&out2, &down), precision, None, true);
    let out4 = w4.run((&out3, &of_coarse), precision, Some(&out3), false);
    let out5 = w5.run((&out4, &up), precision, Some(&out2), true);
    let mut pooled = vec![0.0; 16 * pooling.len()];
    sparse_max_pool(&out2, &pooling, 16, &mut pooled).unwrap();
    let shape = map_shape(coarse.grid(), [2, 1, 0], 32).unwrap();
    let mut map = Tensor::zeros(ElementType::F32, &shape).unwrap();
    to_map(&out4, &coarse, [2, 1, 0], 32, &mut map).unwrap();
    let Tensor::F32 { values: map, .. } = map else { panic!("a map of f32") };

    let floats = [("out1", out1), ("out2", out2), ("out3", out3), ("out4", out4), ("out5", out5)];
    let floats = floats.into_iter().chain([("pooled", pooled), ("map", map)]);
    let bytes = |values: Vec<f32>| values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut all: Vec<(String, Vec<u8>)> =
        floats.map(|(name, values)| (name.to_owned(), bytes(values))).collect();
    let numbers =
        [counts.num_sites, counts.num_outside, counts.num_duplicates, counts.num_over_capacity];
    all.push(("counts".into(), numbers.iter().flat_map(|n| n.to_le_bytes()).collect()));
    let numbers = cells(&sites).flatten().flat_map(u32::to_le_bytes);
    all.push(("coordinates".into(), numbers.collect()));
    all.push(("rows".into(), rows.iter().flat_map(|&row| u64::from(row).to_le_bytes()).collect()));
    for (number, table) in [&same, &down, &up].into_iter().enumerate() {
        let rows = input_rows(table).map(|row| row.map_or(-1, |row| row as i32));
        all.push((format!("pairs{number}"), rows.flat_map(i32::to_le_bytes).collect()));
        let num = table.pairs_per_tap().into_iter().flat_map(usize::to_le_bytes).collect();
        all.push((format!("pairs{number}.num"), num));
    }
    all
}

#[track_caller]
fn run(device: &str, options: &[&str], precisions: std::ops::Range<usize>) {
    let options = [options, &["-ldl"]].concat();
    let source = "capi/tests/abi/sparse.cpp";
    let Some(program) = Program::compile(source, Language::Cpp17, &options) else { return };
    let inputs = Inputs::new();
    for precision in precisions {
        let folder = TempDir::new().unwrap();
        inputs.save(folder.path());
        let path = folder.path().to_str().unwrap();
        match program.run(&[path, device, &precision.to_string()]).as_str() {
            "no GPU\n" => return skip(Need::Cuda, "no GPU"),
            printed => assert_eq!(printed, "no failures\n"),
        }
        for (name, bytes) in expected(&inputs, PRECISIONS[precision]) {
            let found = fs::read(folder.path().join(&name)).unwrap();
            assert!(found == bytes, "{name} in {:?}", PRECISIONS[precision]);
        }
    }
}

/// Host pointers, in every precision, as they are and under the sanitizers of gcc.
#[test]
fn sparse_layers_share_rulebooks() {
    run("cpu", &[], 0..4);
    run("cpu", &["-fsanitize=address,undefined", "-fno-sanitize-recover"], 0..1);
}

/// Device pointers on a stream of the caller, in f32, which is equal.
#[test]
fn sparse_layers_share_rulebooks_on_a_gpu() {
    run("cuda:0", &[], 0..1);
}
