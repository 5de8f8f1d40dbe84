//! Mutated recordings: nothing panics, hangs, grows, or allocates for a bad
//! length.
//!
//! `DET_POST_FUZZ_ITERATIONS` sets how many mutations each kind of recording
//! gets; the seed is fixed, so every run mutates alike.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking"
)]

use crate::common::{cpu_time, memory, recordings, shared_data};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::allocator::LARGEST;
use det_post_ros::bag::{
    BagCompression, BagReader, BagWriter, MemoryBudget, OfferedQos, ReadOptions,
};
use det_post_types::Stamp;
use mcap::Compression;
use recordings::{Layout, mcap_file, messages, write_db3};

/// Longest CPU time one recording may take.
const MAX_TIME: Duration = Duration::from_secs(5);
/// Largest single allocation allowed. A zstd stream may ask for a window of
/// 128 MiB when head and stream both claim that much; nothing asks for more.
const MAX_ALLOCATION: usize = 160 << 20;

/// Largest growth of the process allowed over all mutations of a recording. The
/// tests of this program run at the same time.
const MAX_GROWTH: usize = 512 << 20;
/// What readers may hold; those of each test share it.
const MAX_MEMORY: usize = 64 << 20;

fn num_iterations() -> usize {
    let given = std::env::var("DET_POST_FUZZ_ITERATIONS").ok();
    given.and_then(|given| given.parse().ok()).unwrap_or(150)
}

/// xorshift64*: small, seeded, the same everywhere.
pub(super) struct Random(u64);

impl Random {
    /// A generator whose seed is not 0.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Flips, cuts, overwrites lengths, or splices, one to four times.
pub(super) fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    const LENGTHS: [u64; 8] = [0, 1, 0x7f, 0xffff, 0xffff_ffff, 1 << 29, u64::MAX, i64::MAX as u64];
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(5) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            kind @ (2 | 3) => {
                let length = LENGTHS[random.below(LENGTHS.len())].to_le_bytes();
                let num = if kind == 2 { 4 } else { 8 };
                let num = num.min(bytes.len() - at);
                bytes[at..at + num].copy_from_slice(&length[..num]);
            }
            _ => {
                let (from, num) = (random.below(bytes.len()), random.below(200));
                let piece = bytes[from..(from + num).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

/// Reads a recording to its end; how many messages and errors it gave.
fn read(path: &Path, max_messages: usize, options: &ReadOptions) -> (usize, usize) {
    let begin = cpu_time::of_thread();
    let (mut num_messages, mut num_errors) = (0, 0);
    match BagReader::open_with(path, options) {
        Err(_) => num_errors += 1,
        Ok(mut reader) => loop {
            match reader.next_message() {
                Ok(Some(message)) => {
                    assert!(message.topic < usize::MAX);
                    num_messages += 1;
                }
                Ok(None) => break,
                Err(_) => num_errors += 1,
            }
            assert!(num_messages <= max_messages && num_errors <= 1000, "without end");
        },
    }
    let time = cpu_time::of_thread() - begin;
    assert!(time < MAX_TIME, "took {time:?}");
    assert_eq!(options.memory.used(), 0, "memory is not given back");
    assert!(LARGEST.load(Ordering::Relaxed) < MAX_ALLOCATION, "a single allocation of that size");
    (num_messages, num_errors)
}

/// Mutates `file` of the recording at `path` (the file itself, or the
/// directory it is in) again and again.
fn fuzz(kind: &str, file: &Path, path: &Path, mutate: impl Fn(&mut Vec<u8>, &mut Random)) {
    let num = num_iterations();
    let original = std::fs::read(file).unwrap();
    let options = options();
    // No message takes less than eight bytes of the file; chunks can hold
    // more than the file has, but not here.
    let max_messages = original.len() + 10_000;
    let (whole, _) = read(path, max_messages, &options);
    assert!(whole > 0, "{kind}: the recording itself is readable");
    let resident = memory::resident();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut num_served, mut num_refused) = (0, 0);
    for _ in 0..num {
        let mut bytes = original.clone();
        mutate(&mut bytes, &mut random);
        std::fs::write(file, &bytes).unwrap();
        let (num_messages, num_errors) = read(path, max_messages, &options);
        num_served += num_messages;
        num_refused += usize::from(num_errors > 0);
    }
    std::fs::write(file, &original).unwrap();
    let growth = memory::resident().saturating_sub(resident);
    assert!(growth < MAX_GROWTH, "{kind}: grew by {growth} bytes");
    println!(
        "{kind}: {num} mutations, {num_refused} reported damage, {num_served} of {} messages, \
         largest allocation {} bytes, growth {growth} bytes",
        whole * num,
        LARGEST.load(Ordering::Relaxed)
    );
}

fn options() -> ReadOptions {
    let memory = Box::leak(Box::new(MemoryBudget::new(MAX_MEMORY)));
    ReadOptions { memory, ..ReadOptions::default() }
}

#[test]
fn mutated_mcap() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("drive.mcap");
    for (kind, compression) in
        [("mcap", None), ("lz4", Some(Compression::Lz4)), ("zstd", Some(Compression::Zstd))]
    {
        for (has_summary, is_chunked) in [(true, true), (false, true), (true, false)] {
            let layout = Layout { compression, has_summary, is_chunked, ..Layout::PLAIN };
            std::fs::write(&file, mcap_file(layout, &messages(12))).unwrap();
            let kind = format!("{kind}, summary {has_summary}, chunks {is_chunked}");
            fuzz(&kind, &file, &file, mutate);
        }
    }
}

#[test]
fn mutated_db3() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("drive.db3");
    write_db3(&file, &messages(40));
    fuzz("db3", &file, &file, mutate);
}

/// Puts pieces of YAML that mean something in the place of others.
fn mutate_lines(bytes: &mut Vec<u8>, random: &mut Random) {
    const PIECES: [&str; 22] = [
        "&a",
        "*a",
        "<<: *a",
        "!x",
        "!!binary",
        "? ",
        "- ",
        "[",
        "]",
        "{a: *a, b: *a}",
        "|",
        ">-",
        "..",
        "/dev/zero",
        "../bag/bag_0.mcap",
        "bag_0.mcap",
        "~",
        "-1",
        "18446744073709551616",
        "relative_file_paths: [/, ., bag_0.mcap, bag_0.mcap]",
        "version: 3",
        "---",
    ];
    let text = String::from_utf8(std::mem::take(bytes)).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=random.below(6) {
        let (at, from) = (random.below(lines.len()), random.below(lines.len()));
        let piece = PIECES[random.below(PIECES.len())];
        match random.below(6) {
            0 => lines[at] = lines[from].clone(),
            1 => lines.insert(at, lines[from].clone()),
            2 => drop(lines.splice(at..at, vec![piece.to_owned(); 1 << random.below(12)])),
            3 => lines[at] = format!("{}{}", " ".repeat(random.below(40)), lines[at].trim_start()),
            4 => match lines[at].split_once(": ") {
                Some((key, _)) => lines[at] = format!("{key}: {piece}"),
                None => lines[at].push_str(piece),
            },
            _ => lines[at].insert_str(0, &piece.repeat(1 + random.below(50))),
        }
    }
    *bytes = lines.join("\n").into_bytes();
}

/// Databases whose schema is put together from parts, sound and hostile ones.
#[test]
fn generated_db3_schemas() {
    const TYPES: [&str; 6] = ["INTEGER", "TEXT", "BLOB", "REAL", "ANY", "TEXT COLLATE NOCASE"];
    const EXTRAS: [&str; 7] = [
        "NOT NULL",
        "UNIQUE",
        "DEFAULT (randomblob(100000000))",
        "CHECK (1)",
        "AS (zeroblob(1000000000))",
        "AS (1) STORED",
        "PRIMARY KEY",
    ];
    const ENDS: [&str; 6] = ["", "", "", "", "WITHOUT ROWID", "STRICT"];
    const OTHERS: [&str; 8] = [
        "CREATE VIEW other AS SELECT * FROM messages, topics",
        "CREATE INDEX i ON messages(timestamp)",
        "CREATE UNIQUE INDEX u ON topics(name)",
        "CREATE TRIGGER t AFTER INSERT ON topics BEGIN DELETE FROM messages; END",
        "CREATE VIRTUAL TABLE other USING fts5(a)",
        "CREATE VIRTUAL TABLE other USING rtree(a, b, c)",
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = rootpage % 5 + 2",
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET name = 'messages'",
    ];
    const VIEWS: [&str; 3] = [
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, \
         1 AS topic_id, i AS timestamp, x'00' AS data, '/t' AS name, 't' AS type, \
         'cdr' AS serialization_format, '' AS offered_qos_profiles FROM n",
        "SELECT 1 AS id, 1 AS topic_id, 1 AS timestamp, zeroblob(1000000000) AS data",
        "SELECT * FROM topics",
    ];
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("drive.db3");
    let options = options();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut num_made, mut num_served, mut num_refused) = (0, 0, 0);
    for _ in 0..num_iterations() {
        let _absent = std::fs::remove_file(&path);
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").unwrap();
        let mut choose = |from: &[&'static str]| from[random.below(from.len())];
        for (table, columns) in [
            ("topics", ["id", "name", "type", "serialization_format"]),
            ("messages", ["id", "topic_id", "timestamp", "data"]),
        ] {
            let is_view = choose(&["", "", "", "", "", "view"]) == "view";
            let sql = if is_view {
                format!("CREATE VIEW {table} AS {}", choose(&VIEWS))
            } else {
                let columns = columns.iter().enumerate().map(|(at, column)| {
                    // Most are as rosbag2 has them.
                    match choose(&["", "", "", "", "", "", "", "", "type", "extra"]) {
                        "type" => format!("{column} {}", choose(&TYPES)),
                        "extra" => format!("{column} {}", choose(&EXTRAS)),
                        _ if at == 0 => format!("{column} INTEGER PRIMARY KEY"),
                        _ => (*column).to_owned(),
                    }
                });
                let columns: Vec<_> = columns.collect();
                format!("CREATE TABLE {table}({}) {}", columns.join(", "), choose(&ENDS))
            };
            num_made += usize::from(connection.execute_batch(&sql).is_ok());
        }
        let other = choose(&OTHERS);
        for sql in [
            "INSERT INTO topics VALUES (1, '/t', 't', 'cdr')",
            "INSERT INTO messages VALUES (1, 1, 1000, x'00010203')",
            "INSERT INTO messages VALUES (2, 1, 2000, 'text')",
            "INSERT INTO messages VALUES (3, 1, 3000, NULL)",
            other,
        ] {
            // Parts that do not fit together are left out.
            let _made = connection.execute_batch(sql);
        }
        drop(connection);
        if random.below(2) == 0 {
            let mut bytes = std::fs::read(&path).unwrap();
            mutate(&mut bytes, &mut random);
            std::fs::write(&path, &bytes).unwrap();
        }
        let (num_messages, num_errors) = read(&path, 10_000, &options);
        num_served += num_messages;
        num_refused += usize::from(num_errors > 0);
    }
    println!(
        "db3 schemas: {num_made} tables and views in {} files, {num_refused} files reported \
         damage, {num_served} messages",
        num_iterations()
    );
    assert!(num_served > 0 && num_refused > 0);
}

#[test]
fn mutated_contents_page() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("bag");
    let mut writer = BagWriter::create(&directory, BagCompression::None).unwrap();
    writer.add_topic("/camera", "a/msg/A", "", OfferedQos::default()).unwrap();
    for (_, time, payload) in messages(3) {
        writer.write(0, Stamp::from_nanos(time as i64), &payload).unwrap();
    }
    writer.finish().unwrap();
    let page = directory.join("metadata.yaml");
    fuzz("metadata.yaml, bytes", &page, &directory, mutate);
    fuzz("metadata.yaml, lines", &page, &directory, mutate_lines);
}

#[test]
fn mutated_shared_recordings() {
    let Some(data) = shared_data::shared_data() else { return };
    for name in ["broken/zero_points", "broken/truncated_mcap", "broken/jpeg_truncated"] {
        let target = tempfile::tempdir().unwrap();
        let mut bag = PathBuf::new();
        for entry in std::fs::read_dir(data.join("bags").join(name)).unwrap().flatten() {
            let copy = target.path().join(entry.file_name());
            std::fs::write(&copy, std::fs::read(entry.path()).unwrap()).unwrap();
            if copy.extension().is_some_and(|extension| extension == "mcap") {
                bag = copy;
            }
        }
        fuzz(name, &bag, target.path(), mutate);
    }
}
