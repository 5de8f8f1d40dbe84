//! sqlite3 files made to exhaust, to run what is in their schema, or to lose
//! messages.

use std::path::{Path, PathBuf};
use std::time::Duration;

use det_post_ros::bag::BagReader;
use rusqlite::Connection;
use tempfile::TempDir;

use super::recordings::{messages, write_db3};
use super::{error_of, read};
use crate::common::cpu_time::cpu_time;

const TOPICS: &str = "CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL,
    type TEXT NOT NULL, serialization_format TEXT NOT NULL, offered_qos_profiles TEXT NOT NULL);
    INSERT INTO topics VALUES (1, '/camera', 'a/msg/A', 'cdr', '');";
const MESSAGES: &str = "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL,
    timestamp INTEGER NOT NULL, data BLOB NOT NULL);
    INSERT INTO messages VALUES (1, 1, 1000, x'00010203');";
const ENDLESS: &str = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n)";

/// A database made by SQL.
fn database(sql: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.db3");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA page_size = 4096;").unwrap();
    connection.execute_batch(sql).unwrap();
    (folder, path)
}

fn take_less_than(limit: Duration, path: &Path, check: impl FnOnce()) {
    let time = cpu_time(check);
    assert!(time < limit, "{} took {time:?}", path.display());
}

#[test]
fn plain_tables_are_read_whatever_stands_beside_them() {
    let (_folder, path) = database(&format!(
        "{TOPICS} {MESSAGES}
         CREATE VIEW view_of_all AS {ENDLESS} SELECT id FROM n;
         CREATE TRIGGER on_insert AFTER INSERT ON messages BEGIN DELETE FROM topics; END;
         CREATE INDEX timestamp_idx ON messages(timestamp);
         CREATE TABLE other(a, b AS (zeroblob(1000000000)));"
    ));
    let (found, errors) = read(&path);
    assert_eq!((found.len(), errors.len()), (1, 0), "{errors:?}");
}

#[test]
fn only_plain_tables_are_read() {
    let view = |columns: &str| format!("CREATE VIEW messages AS {ENDLESS} SELECT {columns} FROM n");
    let endless_view = view("id, 1 AS topic_id, id AS timestamp, x'00' AS data");
    // The schema says table, the statement says view.
    let disguised = format!(
        "{TOPICS} {endless_view}; PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET type = 'table', rootpage = 2 WHERE name = 'messages';"
    );
    let table = |columns: &str| format!("{TOPICS} CREATE TABLE messages({columns});");
    for (sql, part) in [
        (format!("{TOPICS} {endless_view}"), "type `view`"),
        (disguised, "malformed database schema"),
        (
            format!(
                "{MESSAGES} CREATE VIEW topics AS {ENDLESS}
                 SELECT id, '/t' AS name, 't' AS type, 'cdr' AS serialization_format FROM n"
            ),
            "type `view`",
        ),
        (format!("{TOPICS} {}", endless_view.replace("messages", "MESSAGES")), "type `view`"),
        (
            table(
                "id INTEGER PRIMARY KEY, topic_id, timestamp,
                 data AS (zeroblob(1000000000)) VIRTUAL",
            ),
            "computed",
        ),
        (table("id INTEGER PRIMARY KEY, topic_id, timestamp AS (id), data"), "computed"),
        (table("rowid, id, topic_id, timestamp, data"), "hides"),
        (
            format!(
                "{TOPICS} CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id, timestamp, data)
                 WITHOUT ROWID;"
            ),
            "no row identifiers",
        ),
        (
            format!(
                "{TOPICS} CREATE VIRTUAL TABLE messages USING fts5(id, topic_id, timestamp, data);"
            ),
            "type `virtual`",
        ),
        (TOPICS.to_owned(), "no table messages"),
        (MESSAGES.to_owned(), "no table topics"),
        (table("id INTEGER PRIMARY KEY, topic_id, timestamp"), "no column data"),
    ] {
        let (_folder, path) = database(&sql);
        take_less_than(Duration::from_secs(2), &path, || {
            let error = error_of(&path).to_string();
            assert!(error.contains("drive.db3") && error.contains(part), "{sql}: {error}");
        });
    }
}

#[test]
fn schemas_that_take_long_to_read_are_refused() {
    let deep = format!("CREATE TABLE t(a CHECK ({}1{}));", "(a + ".repeat(500), ")".repeat(500));
    let long = format!("CREATE TABLE t(a DEFAULT '{}');", "x".repeat(1 << 20));
    let wide = format!(
        "CREATE TABLE t({});",
        (0..1500).map(|i| format!("c{i},")).collect::<String>() + "c"
    );
    let many = "PRAGMA writable_schema = ON;
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000)
         INSERT INTO sqlite_schema SELECT 'table', 't' || i, 't' || i, 2,
             'CREATE TABLE t' || i || '(a)' FROM n;";
    for sql in [deep, long, wide, many.to_owned()] {
        let (_folder, path) = database(&format!("{TOPICS} {MESSAGES} {sql}"));
        take_less_than(Duration::from_secs(2), &path, || {
            assert!(error_of(&path).to_string().contains("cannot read the topics"));
        });
    }
}

#[test]
fn topics_are_found_without_a_search() {
    let (_folder, path) = database(&format!(
        "{TOPICS} {MESSAGES}
         WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n LIMIT 65535)
         INSERT INTO topics SELECT i, '/t' || i, 't', 'cdr', '' FROM n;
         WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n LIMIT 300000)
         INSERT INTO messages SELECT i, 65536 - i % 1000, i, x'00' FROM n;"
    ));
    take_less_than(Duration::from_secs(5), &path, || {
        let reader = BagReader::open(&path).unwrap();
        assert_eq!((reader.topics().len(), reader.num_messages()), (65_536, Some(300_001)));
    });
}

#[test]
fn rows_that_share_a_payload_are_no_more_than_the_file() {
    let (_folder, path) = database(&format!(
        "{TOPICS} {MESSAGES} DELETE FROM messages;
         INSERT INTO messages VALUES (1, 1, 1000, zeroblob(1000000));"
    ));
    let page: u32 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'messages'", [], |r| r.get(0))
        .unwrap();
    // The leaf holds one cell; 500 pointers to it make 500 rows.
    let mut bytes = std::fs::read(&path).unwrap();
    let leaf = &mut bytes[(page as usize - 1) * 4096..][..4096];
    assert_eq!((leaf[0], leaf[3], leaf[4]), (0x0d, 0, 1));
    let cell = [leaf[8], leaf[9]];
    leaf[3..5].copy_from_slice(&500_u16.to_be_bytes());
    leaf[8..1008].chunks_mut(2).for_each(|pointer| pointer.copy_from_slice(&cell));
    std::fs::write(&path, &bytes).unwrap();
    let (found, errors) = read(&path);
    assert_eq!((found.len(), errors.len()), (1, 1), "{errors:?}");
    assert!(errors[0].1.message().contains("payloads up to row"), "{}", errors[0].1);
}

#[test]
fn long_names_are_refused() {
    let (_folder, path) =
        database(&format!("{TOPICS} {MESSAGES} UPDATE topics SET name = hex(zeroblob(100000));"));
    let error = error_of(&path).to_string();
    assert!(error.contains("200000 bytes, at most 1024"), "{error}");
}

#[test]
fn changes_beside_the_file_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (live, copy) = (folder.path().join("live.db3"), folder.path().join("copy.db3"));
    write_db3(&live, &messages(5));
    let connection = Connection::open(&live).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA wal_checkpoint(TRUNCATE);
             INSERT INTO messages(topic_id, timestamp, data) VALUES (1, 5000, x'00');",
        )
        .unwrap();
    std::fs::copy(&live, &copy).unwrap();
    std::fs::copy(folder.path().join("live.db3-wal"), folder.path().join("copy.db3-wal")).unwrap();
    drop(connection);
    let (found, errors) = read(&copy);
    assert_eq!((found.len(), errors.len()), (5, 1), "{errors:?}");
    assert!(errors[0].1.message().contains("copy.db3-wal"), "{}", errors[0].1);
    assert_eq!(read(&live).0.len(), 6);
}

#[test]
fn a_database_whose_data_is_all_in_its_journal_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let live = Connection::open(folder.path().join("live.db3")).unwrap();
    live.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
         CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT, serialization_format TEXT);
         CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, timestamp INTEGER, data BLOB);",
    )
    .unwrap();
    for suffix in ["", "-wal"] {
        let name = |base: &str| folder.path().join(format!("{base}.db3{suffix}"));
        std::fs::copy(name("live"), name("copy")).unwrap();
    }
    let error = BagReader::open(&folder.path().join("copy.db3")).err().unwrap();
    assert!(error.to_string().contains("copy.db3-wal are not read"), "{error}");
}
