//! What readers hold is bounded, and they stay quick where much overlaps.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use det_post::ErrorKind;
use det_post_ros::bag::{BagReader, MemoryBudget, ReadOptions};
use mcap::records::MessageHeader;
use mcap::{Compression, WriteOptions};

use super::recordings::{Layout, Message, mcap_file};
use super::{drain, page, read};
use crate::common::cpu_time::cpu_time;

fn budget(limit: usize) -> &'static MemoryBudget {
    Box::leak(Box::new(MemoryBudget::new(limit)))
}

fn open(path: &Path, memory: &'static MemoryBudget) -> BagReader {
    BagReader::open_with(path, &ReadOptions { memory, ..ReadOptions::default() }).unwrap()
}

/// `num_chunks` chunks of `num_per_chunk` messages, each over the same times.
fn overlapping(num_chunks: usize, num_per_chunk: usize, len: usize) -> Vec<Message> {
    let message = |chunk: usize, at: usize| (0, 1000 + at as u64, vec![chunk as u8; len]);
    (0..num_chunks).flat_map(|chunk| (0..num_per_chunk).map(move |at| message(chunk, at))).collect()
}

fn write(path: &Path, messages: &[Message], num_per_chunk: usize, compression: Compression) {
    let layout = Layout { compression: Some(compression), num_per_chunk, ..Layout::PLAIN };
    std::fs::write(path, mcap_file(layout, messages)).unwrap();
}

#[test]
fn overlapping_chunks_stay_within_the_budget() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // 30 chunks of 4 MB that decompress from some kilobytes.
    let wanted = overlapping(30, 4, 1 << 20);
    for compression in [Compression::Lz4, Compression::Zstd] {
        write(file.path(), &wanted, 4, compression);
        for limit in [1 << 30, 20 << 20, 5 << 20] {
            let budget = budget(limit);
            let mut reader = open(file.path(), budget);
            let mut found = Vec::new();
            let mut most = 0;
            while let Some(message) = reader.next_message().unwrap() {
                found.push((message.log_time.nanos() as u64, message.data[0]));
                most = most.max(budget.used());
                assert!(budget.used() <= limit);
            }
            // All at once where there is room, none is lost where there is not.
            assert_eq!(found.is_sorted(), limit == 1 << 30);
            assert_eq!(most > 100 << 20, limit == 1 << 30, "{most}");
            found.sort_unstable();
            let mut sorted: Vec<_> = wanted.iter().map(|m| (m.1, m.2[0])).collect();
            sorted.sort_unstable();
            assert_eq!(found, sorted);
            assert!(budget.used() <= 32 << 20, "{} bytes are kept", budget.used());
            drop(reader);
            assert_eq!(budget.used(), 0);
        }
    }
}

/// Large chunks that are soon done, between small ones that stay open to the
/// end: these do not hold the buffers of those.
#[test]
fn small_chunks_do_not_hold_buffers_of_large_ones() {
    let mut wanted = Vec::new();
    for at in 0..40 {
        wanted.push((0, 1000 + 2 * at, vec![0; 4 << 20]));
        wanted.push((0, 1000 + 2 * at, vec![1; 8]));
        wanted.push((1, 1001 + 2 * at, vec![2; 8]));
        wanted.push((1, 5000 + at, vec![3; 8]));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), &wanted, 2, Compression::Zstd);
    let budget = budget(1 << 30);
    let mut reader = open(file.path(), budget);
    let mut num_messages = 0;
    while reader.next_message().unwrap().is_some() {
        num_messages += 1;
        assert!(budget.used() < 12 << 20, "{} bytes", budget.used());
    }
    assert_eq!(num_messages, wanted.len());
}

#[test]
fn a_chunk_beyond_the_budget_is_damage() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut wanted = overlapping(2, 4, 1 << 10);
    wanted.extend(overlapping(1, 4, 1 << 20).into_iter().map(|m| (m.0, m.1 + 100, m.2)));
    write(file.path(), &wanted, 4, Compression::Zstd);
    let budget = budget(1 << 20);
    let (found, errors) = drain(&mut open(file.path(), budget));
    assert_eq!((found.len(), errors.len()), (8, 1), "{errors:?}");
    let message = errors[0].1.message();
    assert!(message.contains("recordings have 1048576"), "{message}");
    assert_eq!(budget.used(), 0);
}

#[test]
fn files_of_a_recording_share_the_budget() {
    let directory = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..6).map(|at| format!("part_{at}.mcap")).collect();
    for name in &names {
        write(&directory.path().join(name), &overlapping(1, 8, 1 << 20), 8, Compression::Zstd);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    std::fs::write(directory.path().join("metadata.yaml"), page(&names, "")).unwrap();
    let budget = budget(20 << 20);
    let mut reader = open(directory.path(), budget);
    let mut num_messages = 0;
    while reader.next_message().unwrap().is_some() {
        num_messages += 1;
        assert!(budget.used() <= budget.limit());
    }
    assert_eq!(num_messages, 48);
}

#[test]
fn rows_and_payloads_of_sqlite3_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive.db3");
    let mut wanted = overlapping(1, 3000, 100);
    wanted.push((0, 5000, vec![7; 200_000]));
    super::recordings::write_db3(&path, &wanted);
    // Room for the rows and the small payloads, then for not even the rows.
    for (limit, num_messages, part) in
        [(1 << 20, 3001, ""), (150_000, 3000, "the next row needs"), (50_000, 2048, "a list of")]
    {
        let budget = budget(limit);
        let (found, errors) = drain(&mut open(&path, budget));
        assert_eq!(found.len(), num_messages, "{errors:?}");
        assert_eq!(errors.is_empty(), part.is_empty(), "{errors:?}");
        assert!(errors.iter().all(|(_, error)| error.message().contains(part)), "{errors:?}");
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn many_open_chunks_are_merged_quickly() {
    // All of the same time, so that all are open at once.
    let wanted: Vec<Message> = (0..60_000).map(|at| (0, 1000, vec![at as u8; 8])).collect();
    let layout = Layout { num_per_chunk: 1, ..Layout::PLAIN };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), mcap_file(layout, &wanted)).unwrap();
    let mut read_back = (Vec::new(), Vec::new());
    let time = cpu_time(|| read_back = read(file.path()));
    assert!(time < Duration::from_secs(5), "{time:?}");
    let (found, errors) = read_back;
    assert!(errors.is_empty() && found == wanted);
}

#[test]
fn long_names_are_not_copied_for_every_topic() {
    let name = "x".repeat(1 << 20);
    let mut file = Cursor::new(Vec::new());
    let mut writer = WriteOptions::new().compression(None).create(&mut file).unwrap();
    let schema = writer.add_schema(&name, "ros2msg", b"byte[] data").unwrap();
    for at in 0..2000 {
        let channel =
            writer.add_channel(schema, &format!("/t{at}"), "cdr", &BTreeMap::new()).unwrap();
        let header =
            MessageHeader { channel_id: channel, sequence: 0, log_time: 1, publish_time: 1 };
        writer.write_to_known_channel(&header, b"payload").unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), file.into_inner()).unwrap();
    let reader = BagReader::open(path.path()).unwrap();
    assert_eq!(reader.topics().len(), 2000);
    assert!(reader.topics().iter().all(|topic| topic.type_name.is_empty()));
}

#[test]
fn opening_ends_when_it_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let messages = super::recordings::messages(2000);
    let (mcap, db3) = (directory.path().join("a.mcap"), directory.path().join("b.db3"));
    let layout = Layout { has_summary: false, ..Layout::PLAIN };
    std::fs::write(&mcap, mcap_file(layout, &messages)).unwrap();
    super::recordings::write_db3(&db3, &messages);
    let options = ReadOptions::default();
    options.stop.store(true, Ordering::Relaxed);
    for path in [&mcap, &db3, directory.path()] {
        let error = BagReader::open_with(path, &options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}");
    }
}
