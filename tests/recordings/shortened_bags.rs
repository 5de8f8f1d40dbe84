//! Recordings that are truncated while they are read.

use crate::common::recordings::{Layout, Message, mcap_file};

use std::fs::{self, OpenOptions};
use std::path::Path;

use det_post::ErrorKind;
use det_post_ros::bag::BagReader;

const LEN: usize = 300_000;

fn shorten(path: &Path, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn large_messages(num: usize) -> Vec<Message> {
    (0..num).map(|index| (index % 2, 10 * index as u64, vec![index as u8 + 1; LEN])).collect()
}

/// Reads a recording that is truncated to `len` once `num_before` messages are read; returns
/// the number of whole messages and the first error.
fn read(layout: Layout, num_before: usize, len: u64) -> (usize, det_post::Error) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.mcap");
    fs::write(&path, mcap_file(layout, &large_messages(20))).unwrap();
    let mut reader = BagReader::open(&path).unwrap();
    let mut num_read = 0;
    loop {
        if num_read == num_before {
            shorten(&path, len);
        }
        match reader.next_message() {
            Ok(Some(message)) => {
                let first = message.data[0];
                assert!(first != 0 && message.data.iter().all(|byte| *byte == first));
                assert_eq!(message.data.len(), LEN);
                num_read += 1;
            }
            Ok(None) => panic!("{num_read} messages and no error"),
            Err(error) => {
                assert!(reader.next_message().unwrap().is_none());
                return (num_read, error);
            }
        }
    }
}

#[test]
fn a_recording_that_is_truncated_while_it_is_read_ends_with_its_damage() {
    for num_per_chunk in [1, 4] {
        let layout = Layout { num_per_chunk, ..Layout::PLAIN };
        // Behind the reader, ahead of it, and to nothing.
        for (num_before, len) in [(6, 400_000), (2, 3_000_000), (0, 0), (3, 0)] {
            let (num_read, error) = read(layout, num_before, len);
            assert_eq!(error.kind(), ErrorKind::DamagedBag, "{error}");
            assert_eq!(num_read, num_before, "{error}");
            let message = error.message();
            let expected = format!("at byte {len}: the file was truncated while it was read");
            assert!(message.contains(&expected), "{message}");
            assert!(message.contains(&format!("{num_read} messages")), "{message}");
        }
    }
}

#[test]
fn small_messages_behind_the_new_end_are_no_messages() {
    // Below the size before which the length of the file is looked up.
    let small: Vec<Message> =
        (0..4000).map(|index| (index % 2, index as u64, vec![7; 1000])).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.mcap");
    let layout = Layout { num_per_chunk: 100, ..Layout::PLAIN };
    fs::write(&path, mcap_file(layout, &small)).unwrap();
    let mut reader = BagReader::open(&path).unwrap();
    for _ in 0..150 {
        assert_eq!(reader.next_message().unwrap().unwrap().data, [7; 1000]);
    }
    shorten(&path, 500_000);
    let mut num_read = 150;
    let error = loop {
        match reader.next_message() {
            Ok(Some(message)) => num_read += usize::from(message.data == [7; 1000]),
            Ok(None) => panic!("{num_read} messages and no error"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::DamagedBag, "{error}");
    assert!((200..600).contains(&num_read), "{num_read}: {error}");
    assert!(reader.next_message().unwrap().is_none());
}
