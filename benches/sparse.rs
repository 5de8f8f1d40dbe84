//! A sparse network on the CPU, one thread, beside spconv: `benches/peers/encoder_spconv.py` calls
//! it.
//!
//! `cargo bench --bench sparse -- --peer NETWORK COORDINATES FEATURES MAP` runs a network on the
//! voxels of two files, writes its map and prints the wall and the CPU seconds of each run.
//! `det_post bench sparse` measures the operations.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench, not a library")]

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use det_post_infer::sparse::{CpuEncoder, Plan, load};
use det_post_ops::sparse::conv::Precision;
use det_post_types::{ElementType, Tensor};

const NUM_RUNS: usize = 7;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.iter().position(|arg| arg == "--peer").map(|at| &args[at + 1..]) {
        Some([network, coordinates, features, map, ..]) => {
            peer(network.as_ref(), coordinates.as_ref(), features.as_ref(), map.as_ref());
        }
        _ => println!("nothing to do: expected --peer NETWORK COORDINATES FEATURES MAP"),
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
