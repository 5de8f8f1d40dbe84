//! Mutated packed clouds: nothing panics, and what unpacking allocates is bounded by the bytes that are allowed,
//! whatever a message claims.

use std::time::Duration;

use det_post_ros::messages::PointCloud2;
use det_post_ros::packed_cloud::{PackedCloud, Unpacker};

use super::allocator::LARGEST_OF_THREAD;
use super::fuzz_messages::{Random, iterations, mutate};
use crate::common::messages::Message;
use crate::common::{cpu_time, memory, packed_clouds};

/// The most bytes of data that are allowed.
const MAX_DATA: usize = 1 << 20;

/// The largest allocation: a chunk of Cloudini, three times the data, and what codecs need for any message.
const MAX_ALLOCATION: usize = 3 * MAX_DATA + (1 << 20);

/// Most that the process may grow by over all mutations. The tests of this program run at the
/// same time.
const MAX_GROWTH: usize = 512 << 20;

/// Most CPU time of one mutation.
const MAX_CPU_TIME: Duration = Duration::from_secs(1);

#[test]
fn mutated_packed_clouds_are_unpacked_or_refused() {
    let cases = packed_clouds::few();
    let seed = |case: &packed_clouds::Case| Message {
        bag: "packed".into(),
        topic: case.name.clone(),
        type_name: case.kind.type_name().into(),
        cdr: case.packed.clone(),
    };
    let seeds: Vec<Message> = cases.iter().map(seed).collect();
    let (mut unpacker, mut cloud, mut cdr) = (Unpacker::default(), Vec::new(), Vec::new());
    let (mut num_unpacked, mut num_read) = (0, 0);
    let (mut longest, mut largest) = (Duration::ZERO, 0);
    let resident = memory::resident();
    let num_iterations = iterations();
    for iteration in 0..num_iterations {
        let mut random = Random::new(iteration);
        let index = random.below(seeds.len());
        cdr.clear();
        cdr.extend_from_slice(&seeds[index].cdr);
        mutate(&mut cdr, &seeds, &mut random);
        // Half of them behind the layout, in the payload.
        for _ in 0..random.below(2) * random.below(5) {
            let at = 100 + random.below(cdr.len());
            if let Some(byte) = cdr.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        let kind = match random.below(16) {
            0 => PackedCloud::ALL[random.below(PackedCloud::ALL.len())],
            _ => cases[index].kind,
        };
        let start = cpu_time::of_thread();
        LARGEST_OF_THREAD.set(0);
        let unpacked = unpacker.unpack_to(kind, &cdr, MAX_DATA, &mut cloud);
        largest = largest.max(LARGEST_OF_THREAD.get());
        assert!(largest <= MAX_ALLOCATION, "{iteration}: {largest} bytes, {}", seeds[index].topic);
        longest = longest.max(cpu_time::of_thread() - start);
        if unpacked.is_ok() {
            num_unpacked += 1;
            assert!(cloud.len() <= MAX_DATA + (64 << 10), "{iteration}: {} bytes", cloud.len());
            // What is made of it is a whole message, whose sizes may still contradict each other.
            let cloud = PointCloud2::decode(&cloud).unwrap();
            num_read += u64::from(cloud.view().is_ok());
        }
    }
    let growth = memory::resident().saturating_sub(resident);
    println!(
        "{num_iterations} mutations of {} packed clouds, {num_unpacked} unpacked, {num_read} read, \
         longest {longest:?} of CPU time, largest allocation {largest} bytes, growth {growth} bytes",
        seeds.len()
    );
    assert!(longest < MAX_CPU_TIME, "{longest:?}");
    assert!(growth < MAX_GROWTH, "grew by {growth} bytes");
    // A harness that only ever meets refusals, or none, would prove little.
    assert!(num_unpacked * 20 > num_iterations, "{num_unpacked} unpacked");
    assert!(num_unpacked * 20 < num_iterations * 19, "{num_unpacked} unpacked");
}

#[test]
fn every_truncated_packed_cloud_is_unpacked_or_refused() {
    let (mut unpacker, mut cloud) = (Unpacker::default(), Vec::new());
    for case in packed_clouds::few() {
        for len in 0..case.packed.len().saturating_sub(4) {
            let unpacked = unpacker.unpack_to(case.kind, &case.packed[..len], MAX_DATA, &mut cloud);
            assert!(unpacked.is_err(), "{} cut to {len}", case.name);
        }
    }
}
