//! Reading an uncompressed image recording against one memcpy of it.

#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use det_post_ros::bag::{BagCompression, BagReader, BagWriter, OfferedQos};
use det_post_types::Stamp;

const NUM_IMAGES: usize = 64;
/// A 1920x1080 rgb8 image with its message head.
const IMAGE_BYTES: usize = 6_220_852;

fn write_recording(directory: &Path) -> det_post::Result<()> {
    let mut writer = BagWriter::create(directory, BagCompression::None)?;
    let topic = writer.add_topic("/camera", "sensor_msgs/msg/Image", "", OfferedQos::default())?;
    for index in 0..NUM_IMAGES {
        let image: Vec<u8> = (0..IMAGE_BYTES).map(|at| (at * 7 + index) as u8).collect();
        writer.write(topic, Stamp::from_nanos(index as i64 * 33_000_000), &image)?;
    }
    writer.finish()
}

fn read(path: &Path, mut take: impl FnMut(&[u8])) -> det_post::Result<usize> {
    let mut reader = BagReader::open(path)?;
    let mut num_bytes = 0;
    while let Some(message) = reader.next_message()? {
        take(message.data);
        num_bytes += message.data.len();
    }
    Ok(num_bytes)
}

fn bag(criterion: &mut Criterion) {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("images");
    write_recording(&directory).unwrap();
    let recording = std::fs::read(directory.join("images_0.mcap")).unwrap();
    let mut copy = vec![1u8; recording.len()];
    let mut slot = vec![1u8; IMAGE_BYTES];

    let mut group = criterion.benchmark_group("bag");
    group.sample_size(20).throughput(Throughput::Bytes(recording.len() as u64));
    group.bench_function("memcpy of the recording", |bencher| {
        bencher.iter(|| {
            copy.copy_from_slice(black_box(&recording));
            black_box(&copy);
        });
    });
    group.bench_function("memcpy image by image into one slot", |bencher| {
        bencher.iter(|| {
            for image in black_box(&recording).chunks_exact(IMAGE_BYTES) {
                slot.copy_from_slice(image);
                black_box(&slot);
            }
        });
    });
    group.bench_function("read, payloads as slices", |bencher| {
        bencher.iter(|| {
            read(&directory, |data| {
                black_box(data);
            })
            .unwrap()
        });
    });
    group.bench_function("read, payloads copied into one slot", |bencher| {
        bencher.iter(|| {
            read(&directory, |data| {
                slot.copy_from_slice(data);
                black_box(&slot);
            })
            .unwrap()
        });
    });
    // What checking the checksums of mapped chunks would add.
    group.bench_function("read, checksum of each payload", |bencher| {
        bencher.iter(|| {
            read(&directory, |data| {
                black_box(crc32fast::hash(data));
            })
            .unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, bag);
criterion_main!(benches);
