//! Mutated files of sparse networks: nothing panics, hangs, or allocates for a
//! bad length.
//!
//! `DET_POST_FUZZ_ITERATIONS` sets how many mutations there are; the seed is
//! fixed, so every run mutates alike.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::allocator::{LARGEST_OF_THREAD, NUM_BYTES};
use super::fuzz_bags::{Random, mutate};
use crate::common::sparse_onnx::{File, autoware, scn};
use crate::common::{cpu_time, memory, shared_data};
use det_post_infer::sparse::{Plan, parse};
use det_post_testing::voxelnext::SMALL;

/// Longest CPU time that one file may take.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Largest single allocation: a small multiple of the largest file.
const MAX_ALLOCATION: usize = 4 << 20;
/// What may remain of all mutations together. The tests of this program run at
/// the same time.
const MAX_GROWTH: usize = 256 << 20;

fn num_iterations() -> usize {
    let given = std::env::var("DET_POST_FUZZ_ITERATIONS").ok();
    given.and_then(|given| given.parse().ok()).unwrap_or(2_000)
}

/// Whether a file is read. What is read can be planned.
fn read(bytes: &[u8]) -> bool {
    LARGEST_OF_THREAD.set(0);
    let begin = cpu_time::of_thread();
    let is_read = match parse(bytes) {
        Ok(file) => {
            let capacities = file.network.default_capacities(1_000);
            let plan = Plan::new(file.network, &capacities).unwrap();
            assert!(plan.memory(4).total() > 0);
            true
        }
        Err(error) => {
            assert!(!error.message().is_empty());
            false
        }
    };
    let time = cpu_time::of_thread() - begin;
    assert!(time < MAX_TIME, "took {time:?}");
    let largest = LARGEST_OF_THREAD.get();
    assert!(largest < MAX_ALLOCATION, "an allocation of {largest} bytes");
    is_read
}

/// Another value in place of one of the integers of an attribute: what is still
/// a file of the format reaches the checks of the geometry.
fn edit(file: &mut File, random: &mut Random) {
    use crate::common::onnx::Attr;
    const VALUES: [i64; 12] =
        [0, 1, 2, 3, 7, -1, 255, 256, 1 << 20, u32::MAX as i64, i64::MAX, i64::MIN];
    let num_nodes = file.nodes.len();
    let node = &mut file.nodes[random.below(num_nodes)];
    let value = VALUES[random.below(VALUES.len())];
    let num = node.attributes.len();
    match node.attributes.get_mut(random.below(num)) {
        Some((_, Attr::Int(int))) => *int = value,
        Some((_, Attr::Ints(ints))) if !ints.is_empty() => {
            let at = random.below(ints.len());
            ints[at] = value;
        }
        _ => {
            let other = file.nodes[random.below(num_nodes)].clone();
            file.nodes.push(other);
        }
    }
}

#[test]
fn fuzz_sparse_networks() {
    let mut files: Vec<Vec<u8>> =
        [scn(), autoware(), SMALL.file()].iter().map(File::to_bytes).collect();
    if let Some(root) = shared_data::shared_data() {
        let names = ["tiny.scn.onnx", "tiny_autoware.onnx"];
        files.extend(names.map(|name| std::fs::read(root.join("sparse").join(name)).unwrap()));
    }
    assert!(files.iter().all(|file| read(file)), "the files themselves are read");
    let num = num_iterations();
    let (resident, held) = (memory::resident(), NUM_BYTES.load(Ordering::Relaxed));
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    let mut num_read = 0;
    for at in 0..num {
        let bytes = if at % 2 == 0 {
            let mut bytes = files[at / 2 % files.len()].clone();
            mutate(&mut bytes, &mut random);
            bytes
        } else {
            let mut file = match at % 6 {
                1 => scn(),
                3 => autoware(),
                _ => SMALL.file(),
            };
            (0..=random.below(3)).for_each(|_| edit(&mut file, &mut random));
            let mut bytes = file.to_bytes();
            if random.below(4) == 0 {
                mutate(&mut bytes, &mut random);
            }
            bytes
        };
        num_read += usize::from(read(&bytes));
    }
    let growth = memory::resident().saturating_sub(resident);
    assert!(growth < MAX_GROWTH, "grew by {growth} bytes");
    println!(
        "{num} mutated files, {num_read} read, growth {growth} bytes, {} bytes held",
        NUM_BYTES.load(Ordering::Relaxed) - held
    );
    assert!(num_read > 0 && num_read < num / 2, "{num_read} of {num} are read");
}
