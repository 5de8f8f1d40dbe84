//! Mutated video: nothing panics, and what a packet claims does not bound memory or time.

use std::time::Duration;

use det_post_ros::messages::Image;
use det_post_ros::video::{VideoDecoder, VideoMessage, key_frame};
use det_post_types::{Header, Stamp};

use super::allocator::LARGEST_OF_THREAD;
use super::fuzz_messages::{Random, iterations, mutate};
use crate::common::messages::Message;
use crate::common::video::{CARRIERS, Picture, encode, message};
use crate::common::{cpu_time, memory};

/// The most bytes of a picture that are allowed.
const MAX_DATA: usize = 1 << 20;

/// The largest allocation by Rust: a picture and its message.
const MAX_ALLOCATION: usize = 2 * MAX_DATA;

/// Most that the process may grow by over all mutations. The tests of this program run at the
/// same time.
const MAX_GROWTH: usize = 768 << 20;

/// Most CPU time of one mutation.
const MAX_CPU_TIME: Duration = Duration::from_secs(1);

/// Packets of a small stream: a key frame, and pictures that depend on it.
fn seeds() -> Vec<(VideoMessage, Message)> {
    let pictures: Vec<Picture> = (0..6).map(|number| Picture::moving(48, 32, number)).collect();
    let packets = encode(&pictures, 3);
    let seed = |(index, data): (usize, &Vec<u8>)| {
        let carrier = CARRIERS[index % CARRIERS.len()];
        let header = Header { stamp: Stamp::from_ros(1, index as u32), frame_id: "camera" };
        let cdr = message(carrier, header, "h264", data);
        let (bag, topic) = ("video".into(), format!("packet {index}"));
        (carrier, Message { bag, topic, type_name: carrier.type_name().into(), cdr })
    };
    packets.iter().enumerate().map(seed).collect()
}

#[test]
fn mutated_video_is_decoded_or_refused() {
    let (carriers, seeds): (Vec<_>, Vec<_>) = seeds().into_iter().unzip();
    let (mut decoder, mut image, mut cdr) = (VideoDecoder::default(), Vec::new(), Vec::new());
    let (mut num_decoded, mut longest) = (0, Duration::ZERO);
    let resident = memory::resident();
    let num_iterations = iterations();
    for iteration in 0..num_iterations {
        let mut random = Random::new(iteration);
        // In the order of the stream, so that mutated pictures have what they depend on.
        let index = iteration as usize % seeds.len();
        cdr.clear();
        cdr.extend_from_slice(&seeds[index].cdr);
        let is_mutated = random.below(2) == 0;
        if is_mutated {
            match random.below(3) {
                0 => mutate(&mut cdr, &seeds, &mut random),
                // Behind the header of the message, in the packet.
                _ => {
                    for _ in 0..=random.below(4) {
                        let at = 40 + random.below(cdr.len());
                        if let Some(byte) = cdr.get_mut(at) {
                            *byte ^= 1 << random.below(8);
                        }
                    }
                }
            }
        }
        let start = cpu_time::of_thread();
        LARGEST_OF_THREAD.set(0);
        let _ = key_frame(carriers[index], &cdr);
        let decoded = decoder.decode_to(carriers[index], &cdr, MAX_DATA, &mut image);
        let largest = LARGEST_OF_THREAD.get();
        assert!(largest <= MAX_ALLOCATION, "{iteration}: {largest} bytes");
        longest = longest.max(cpu_time::of_thread() - start);
        if decoded.is_ok() {
            num_decoded += 1;
            // What is made of it is a whole image.
            Image::decode(&image).unwrap().view().unwrap();
        }
    }
    let growth = memory::resident().saturating_sub(resident);
    println!(
        "{num_iterations} packets of video, half of them mutated, {num_decoded} decoded, longest {longest:?} of CPU \
         time, growth {growth} bytes"
    );
    assert!(longest < MAX_CPU_TIME, "{longest:?}");
    assert!(growth < MAX_GROWTH, "grew by {growth} bytes");
    // A harness that only ever meets refusals, or none, would prove little.
    assert!(num_decoded * 20 > num_iterations, "{num_decoded} decoded");
    assert!(num_decoded * 20 < num_iterations * 19, "{num_decoded} decoded");
}

#[test]
fn every_truncated_packet_is_decoded_or_refused() {
    let mut image = Vec::new();
    for (carrier, seed) in seeds().into_iter().take(1) {
        for len in 0..seed.cdr.len() {
            let cut = &seed.cdr[..len];
            let _ = VideoDecoder::default().decode_to(carrier, cut, MAX_DATA, &mut image);
        }
    }
}
