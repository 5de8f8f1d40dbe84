//! Speed of sparse networks on the CPU, one thread.
//!
//! `cargo bench --bench sparse` measures rulebooks and single convolutions on
//! voxels of a rough surface. `cargo bench --bench sparse -- --peer NETWORK
//! COORDINATES FEATURES MAP` runs a network on the voxels of two files, writes its
//! map and prints the wall and the CPU seconds of each run:
//! `benches/peers/encoder_spconv.py` calls it.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench, not a library")]

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use criterion::Criterion;
use det_post_infer::sparse::{CpuEncoder, Plan, load};
use det_post_ops::sparse::conv::{
    ConvParameters, Epilogue, PackedWeights, Precision, Workspace, sparse_conv,
};
use det_post_ops::sparse::rulebook::{
    Geometry, Mode, SiteGrid, Sites, Table, fill_table, output_sites, sites_of_coordinates,
};
use det_post_types::{ElementType, Tensor};

const NUM_RUNS: usize = 7;
const DOWN: Geometry =
    Geometry { kernel: [3; 3], stride: [2; 3], padding: [1; 3], dilation: [1; 3] };

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--peer") {
        let [network, coordinates, features, map] = &args[at + 1..at + 5] else { unreachable!() };
        return peer(network.as_ref(), coordinates.as_ref(), features.as_ref(), map.as_ref());
    }
    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    rulebooks(&mut criterion);
    convolutions(&mut criterion);
    criterion.final_summary();
}

/// About 100000 cells of a surface, in no order.
fn surface() -> Vec<[i32; 4]> {
    let height =
        |x: i32, y: i32| 20 + ((x as f32 / 9.0).sin() * 8.0 + (y as f32 / 7.0).cos() * 6.0) as i32;
    let column = |i: i32| (i * 7919 % 323 + 500, i * 6101 % 311 + 500);
    (0..323 * 311).map(column).map(|(x, y)| [0, height(x, y), y, x]).collect()
}

fn sites() -> Sites {
    let cells = surface();
    let mut sites = Sites::new(SiteGrid::new(1, [41, 1440, 1440]).unwrap(), cells.len());
    sites_of_coordinates(&cells, &mut sites, &mut Vec::new());
    sites
}

fn rulebooks(criterion: &mut Criterion) {
    let (cells, mut entered, mut rows) = (surface(), sites(), Vec::new());
    criterion.bench_function("rulebook: sites of 100k voxels", |b| {
        b.iter(|| sites_of_coordinates(black_box(&cells), &mut entered, &mut rows));
    });
    let level = sites();
    let mut coarse = Sites::new(SiteGrid::new(1, [21, 720, 720]).unwrap(), 2 * level.len());
    criterion.bench_function("rulebook: strided sites of 100k", |b| {
        b.iter(|| output_sites(black_box(&level), &DOWN, Mode::Strided, &mut coarse).unwrap());
    });
    let mut table = Table::new(&Geometry::submanifold([3; 3]), Mode::Submanifold, level.len());
    criterion.bench_function("rulebook: submanifold table of 100k", |b| {
        b.iter(|| fill_table(black_box(&level), &level, &mut table).unwrap());
    });
}

fn convolutions(criterion: &mut Criterion) {
    let level = sites();
    let mut table = Table::new(&Geometry::submanifold([3; 3]), Mode::Submanifold, level.len());
    fill_table(&level, &level, &mut table).unwrap();
    let num_pairs: usize = table.pairs_per_tap().iter().sum();
    let mut workspace = Workspace::new(1);
    for num_channels in [16, 32, 64, 128] {
        let weights: Vec<f32> =
            (0..27 * num_channels * num_channels).map(|i| (i % 17) as f32 / 64.0 - 0.125).collect();
        let sizes = [num_channels, 27, num_channels];
        let parameters = ConvParameters::new(sizes, &weights, None).unwrap();
        let weights = PackedWeights::new(&parameters, Precision::F32).unwrap();
        let input: Vec<f32> =
            (0..level.len() * num_channels).map(|i| (i % 31) as f32 / 16.0 - 1.0).collect();
        let mut out = vec![0.0; input.len()];
        let name = format!("sparse_conv: {num_pairs} pairs of {num_channels} channels");
        criterion.bench_function(&name, |b| {
            b.iter(|| {
                let epilogue = Epilogue { relu: true, ..Epilogue::default() };
                let input = black_box(&input);
                sparse_conv(input, &table, &weights, epilogue, &mut workspace, &mut out).unwrap();
            });
        });
    }
}

fn peer(network: &Path, coordinates: &Path, features: &Path, map: &Path) {
    let network = load(network).unwrap().network;
    let bytes = fs::read(coordinates).unwrap();
    let (cells, _) = bytes.as_chunks::<16>();
    let coordinates: Vec<[i32; 4]> = cells
        .iter()
        .map(|cell| {
            let (values, _) = cell.as_chunks();
            std::array::from_fn(|axis| i32::from_le_bytes(values[axis]))
        })
        .collect();
    let bytes = fs::read(features).unwrap();
    let features: Vec<f32> = bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();

    // Scattered voxels grow to eight times as many in a strided level.
    let capacities = network.default_capacities(8 * coordinates.len());
    let mut out = Tensor::zeros(ElementType::F32, &network.map_shape()).unwrap();
    let mut encoder =
        CpuEncoder::new(Plan::new(network, &capacities).unwrap(), Precision::F32, 1).unwrap();
    for _ in 0..NUM_RUNS {
        let (start, cpu_start) = (Instant::now(), cpu_seconds());
        encoder.run(black_box(&coordinates), &features, &mut out).unwrap();
        println!("{} {}", start.elapsed().as_secs_f64(), cpu_seconds() - cpu_start);
    }
    assert!(encoder.counts().levels.iter().all(|counts| counts.num_over_capacity == 0));
    let Tensor::F32 { values, .. } = out else { unreachable!() };
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(map, bytes).unwrap();
}

/// CPU time of this thread, the only one that runs the network.
fn cpu_seconds() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos: f64 = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN);
    nanos * 1e-9
}
