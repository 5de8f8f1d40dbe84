//! One sqlite3 file as rosbag2 writes it.
//!
//! Messages come by log time, ties by row identifier. The order is made here
//! from one pass over the table, so a damaged time index loses nothing.
//! Each payload is copied once, from the page cache into one buffer that is
//! used again.
//!
//! Of a database that is shorter than its head says, the rows are delivered
//! that stand before the first row, in the order of the table, of which a
//! byte is missing; to tell, the file is read through once when it is opened.

mod cut;

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use self::cut::CutFile;
use super::TopicInfo;
use super::source::{Damage, Head};
use crate::error::{Error, ErrorKind, Result};
use crate::types::Stamp;

/// The sixteen bytes at the start of a database.
pub(super) const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Fewest bytes of the file one row can take: a cell pointer and a cell with
/// its two lengths, a record head of five and a one-byte payload.
const MIN_ROW_BYTES: u64 = 8;

/// Most topics that are read.
const MAX_TOPICS: i64 = 65536;

/// A reader of one database.
pub(super) struct Db3File {
    connection: Connection,
    pub(super) topics: Vec<TopicInfo>,
    /// First and last log time of the readable rows.
    pub(super) span: Option<(Stamp, Stamp)>,
    wanted: Vec<bool>,
    pub(super) damage: Option<Damage>,
    /// By log time, then row identifier.
    rows: Vec<Row>,
    next: usize,
    /// The payload of row `next`, when `is_loaded`.
    buffer: Vec<u8>,
    is_loaded: bool,
}

struct Row {
    log_time: i64,
    id: i64,
    topic: usize,
}

impl Db3File {
    /// Opens the database read-only and lists its rows as far as they are
    /// readable.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DamagedBag`] when the topics cannot be read.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let failed = |error: rusqlite::Error| {
            let message = format!("cannot read the topics of {}", path.display());
            Error::new(ErrorKind::DamagedBag, "bag", message).with_source(error)
        };
        let num_bytes = path.metadata().map_or(0, |metadata| metadata.len());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
        // Without writable_schema sqlite refuses a file that is shorter than
        // its head says; with it, the pages that are there can be read.
        connection
            .execute_batch(
                "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;
                 PRAGMA writable_schema = ON;",
            )
            .map_err(failed)?;
        connection.pragma_update(None, "mmap_size", num_bytes as i64).map_err(failed)?;
        let cut = CutFile::detect(path)?;
        let (ids, mut topics) = topics(&connection, cut.as_ref()).map_err(failed)?;
        let mut rows = Vec::new();
        let num_whole = num_whole_rows(&connection, "messages", cut.as_ref()).map_err(failed)?;
        let max_rows = num_bytes / MIN_ROW_BYTES;
        let listed = list_rows(&connection, &ids, num_whole, max_rows, &mut rows);
        rows.sort_by_key(|row| (row.log_time, row.id));
        for row in &rows {
            if let Some(topic) = topics.get_mut(row.topic) {
                topic.num_messages = topic.num_messages.map(|num| num + 1);
            }
        }
        let time = |row: &Row| Stamp::from_nanos(row.log_time);
        Ok(Self {
            connection,
            wanted: vec![true; topics.len()],
            topics,
            span: rows.first().map(time).zip(rows.last().map(time)),
            damage: listed.err().or_else(|| {
                let cut = cut?;
                let (found, claimed) = (cut.len(), cut.claimed_len);
                Some(Damage::somewhere(format!(
                    "the file has {found} bytes, its head says {claimed}"
                )))
            }),
            rows,
            next: 0,
            buffer: Vec::new(),
            is_loaded: false,
        })
    }

    /// Delivers only the topics marked in `wanted`, one entry per topic.
    pub(super) fn select(&mut self, wanted: Vec<bool>) {
        self.wanted = wanted;
        self.skip_unwanted();
    }

    /// Where the next message stands in time.
    pub(super) fn head(&self) -> Head {
        match self.rows.get(self.next) {
            Some(row) if self.is_loaded => Head::Ready(Stamp::from_nanos(row.log_time)),
            Some(row) => Head::NotBefore(Stamp::from_nanos(row.log_time)),
            None => Head::End,
        }
    }

    /// The message at a ready head: its topic in `topics` and its payload.
    pub(super) fn message(&self) -> Option<(usize, &[u8])> {
        let row = self.rows.get(self.next)?;
        self.is_loaded.then_some((row.topic, &self.buffer))
    }

    /// Drops the message at the head.
    pub(super) fn advance(&mut self) {
        self.next += 1;
        self.is_loaded = false;
        self.skip_unwanted();
    }

    /// Reads the payload of the next row. Damage ends the file.
    pub(super) fn load(&mut self) {
        let Some(row) = self.rows.get(self.next) else { return };
        match read_payload(&self.connection, row.id, &mut self.buffer) {
            Ok(()) => self.is_loaded = true,
            Err(error) => {
                let what = format!("row {} is not readable: {error}", row.id);
                self.damage = Some(Damage::somewhere(what));
                self.next = self.rows.len();
            }
        }
    }

    fn skip_unwanted(&mut self) {
        let is_unwanted = |row: &Row| self.wanted.get(row.topic) != Some(&true);
        while self.rows.get(self.next).is_some_and(is_unwanted) {
            self.next += 1;
            self.is_loaded = false;
        }
    }
}

/// How many rows of `table` can be trusted, as the limit of a query: -1, which
/// is no limit, unless the file is cut.
fn num_whole_rows(
    connection: &Connection,
    table: &str,
    cut: Option<&CutFile>,
) -> rusqlite::Result<i64> {
    let Some(cut) = cut else { return Ok(-1) };
    let query = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    let root = connection.query_row(query, [table], |row| row.get(0))?;
    Ok(i64::try_from(cut.num_whole_rows(root)).unwrap_or(i64::MAX))
}

/// Row identifiers of the topics, and the topics in the same order.
fn topics(
    connection: &Connection,
    cut: Option<&CutFile>,
) -> rusqlite::Result<(Vec<i64>, Vec<TopicInfo>)> {
    // The column with the offered QoS came with a later version of rosbag2.
    let has_qos = connection.prepare("SELECT offered_qos_profiles FROM topics LIMIT 0").is_ok();
    let qos = if has_qos { "offered_qos_profiles" } else { "''" };
    let query = format!(
        "SELECT id, name, type, serialization_format, {qos} FROM topics NOT INDEXED LIMIT ?1"
    );
    let num_whole = num_whole_rows(connection, "topics", cut)?;
    let limit = if num_whole < 0 { MAX_TOPICS } else { num_whole.min(MAX_TOPICS) };
    let mut statement = connection.prepare(&query)?;
    let mut found = statement.query([limit])?;
    let (mut ids, mut topics) = (Vec::new(), Vec::new());
    while let Some(row) = found.next()? {
        ids.push(row.get(0)?);
        topics.push(TopicInfo {
            name: row.get(1)?,
            type_name: row.get(2)?,
            serialization: row.get(3)?,
            num_messages: Some(0),
            offered_qos: row.get(4)?,
        });
    }
    Ok((ids, topics))
}

/// Lists the first `limit` rows in the order of the table, or those before
/// damage.
fn list_rows(
    connection: &Connection,
    topic_ids: &[i64],
    limit: i64,
    max_rows: u64,
    rows: &mut Vec<Row>,
) -> std::result::Result<(), Damage> {
    let listed = rows.len();
    let broken = |error: rusqlite::Error, listed: usize| {
        Damage::somewhere(format!("the table of messages breaks off after {listed} rows: {error}"))
    };
    let mut statement = connection
        .prepare("SELECT id, timestamp, topic_id FROM messages NOT INDEXED LIMIT ?1")
        .map_err(|error| broken(error, listed))?;
    let mut found = statement.query([limit]).map_err(|error| broken(error, listed))?;
    while let Some(row) = found.next().map_err(|error| broken(error, rows.len()))? {
        let fields = || Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (id, log_time, topic): (i64, i64, i64) =
            fields().map_err(|error| broken(error, rows.len()))?;
        let Some(topic) = topic_ids.iter().position(|known| *known == topic) else {
            return Err(Damage::somewhere(format!(
                "row {id} is of topic {topic}, which is not declared"
            )));
        };
        if rows.len() as u64 >= max_rows {
            return Err(Damage::somewhere(format!(
                "the table of messages has more than {max_rows} rows, the file has no room for them"
            )));
        }
        rows.push(Row { log_time, id, topic });
    }
    Ok(())
}

/// Reads the payload of a row.
fn read_payload(connection: &Connection, id: i64, buffer: &mut Vec<u8>) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached("SELECT data FROM messages WHERE id = ?1")?;
    let mut found = statement.query([id])?;
    let row = found.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let payload = row.get_ref(0)?.as_blob()?;
    buffer.clear();
    buffer.extend_from_slice(payload);
    Ok(())
}
