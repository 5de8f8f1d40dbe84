//! Small recordings, built in memory.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use mcap::records::MessageHeader;
use mcap::{Compression, WriteOptions};

/// A message: index of its topic, log time, payload.
pub type Message = (usize, u64, Vec<u8>);

/// Names and types of the topics of every recording made here.
pub const TOPICS: [(&str, &str); 2] =
    [("/camera", "sensor_msgs/msg/Image"), ("/lidar", "sensor_msgs/msg/PointCloud2")];

/// `num` messages on alternating topics, ten units apart, of different lengths.
pub fn messages(num: usize) -> Vec<Message> {
    let payload = |index: usize| {
        let seed = index as u32 + 1;
        (0..40 + 7 * index as u32)
            .map(move |at| (at.wrapping_mul(2_654_435_761) >> 13 ^ seed) as u8)
    };
    (0..num).map(|index| (index % 2, 1000 + 10 * index as u64, payload(index).collect())).collect()
}

/// How an MCAP file is laid out.
#[derive(Clone, Copy)]
pub struct Layout {
    pub compression: Option<Compression>,
    pub is_chunked: bool,
    pub has_summary: bool,
    pub num_per_chunk: usize,
}

impl Layout {
    pub const PLAIN: Self =
        Self { compression: None, is_chunked: true, has_summary: true, num_per_chunk: 4 };
}

/// An MCAP file with `messages` in the order given.
pub fn mcap_file(layout: Layout, messages: &[Message]) -> Vec<u8> {
    let options = WriteOptions::new()
        .profile("ros2")
        .library("test")
        .compression(layout.compression)
        .compression_threads(0)
        .chunk_size(None)
        .use_chunks(layout.is_chunked)
        .emit_summary_records(layout.has_summary)
        .emit_summary_offsets(layout.has_summary);
    let mut file = Cursor::new(Vec::new());
    let mut writer = options.create(&mut file).unwrap();
    let channels = TOPICS.map(|(name, type_name)| {
        let schema = writer.add_schema(type_name, "ros2msg", b"byte[] data").unwrap();
        writer.add_channel(schema, name, "cdr", &BTreeMap::new()).unwrap()
    });
    for (index, (topic, log_time, payload)) in messages.iter().enumerate() {
        let header = MessageHeader {
            channel_id: channels[*topic],
            sequence: index as u32,
            log_time: *log_time,
            publish_time: *log_time,
        };
        writer.write_to_known_channel(&header, payload).unwrap();
        if (index + 1) % layout.num_per_chunk == 0 {
            writer.flush().unwrap();
        }
    }
    writer.finish().unwrap();
    drop(writer);
    file.into_inner()
}

/// Writes a sqlite3 file as rosbag2 does, rows in the order given.
pub fn write_db3(path: &Path, messages: &[Message]) {
    let mut connection = rusqlite::Connection::open(path).unwrap();
    connection
        .execute_batch(
            "PRAGMA page_size = 512;
             CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
                 serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL);
             CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL,
                 timestamp INTEGER NOT NULL, data BLOB NOT NULL);
             CREATE INDEX timestamp_idx ON messages (timestamp ASC);",
        )
        .unwrap();
    let rows = connection.transaction().unwrap();
    for (index, (name, type_name)) in TOPICS.iter().enumerate() {
        let values = (index as i64 + 1, name, type_name, "cdr", "");
        rows.execute("INSERT INTO topics VALUES (?, ?, ?, ?, ?)", values).unwrap();
    }
    for (topic, log_time, payload) in messages {
        let values = (*topic as i64 + 1, *log_time as i64, payload);
        rows.execute("INSERT INTO messages(topic_id, timestamp, data) VALUES (?, ?, ?)", values)
            .unwrap();
    }
    rows.commit().unwrap();
}
