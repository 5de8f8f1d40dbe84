//! One sqlite3 file as rosbag2 writes it.
//!
//! Messages come by log time, ties by row identifier. The order is made here
//! from one pass over the table, so a damaged time index loses nothing.
//! Each payload is copied once, from the page cache into one buffer that is
//! used again.
//!
//! Of a database cut short the rows are delivered that are still there. There
//! sqlite3 takes a missing page for zeros, so a payload whose last page would
//! hold zeros only counts as missing and ends the reading.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::TopicInfo;
use super::source::{Damage, Head};
use crate::error::{Error, ErrorKind, Result};
use crate::types::Stamp;

/// The sixteen bytes at the start of a database.
pub(super) const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Fewest bytes of the file one row can take: a cell pointer and a cell with
/// its two lengths, a record head of five and a one-byte payload.
const MIN_ROW_BYTES: u64 = 8;

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
    /// The size of a page, when the file is shorter than its head says.
    cut_page: Option<usize>,
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
        let cut_page = cut_page(path).filter(|(_, claimed)| *claimed > num_bytes);
        let (ids, mut topics) = topics(&connection).map_err(failed)?;
        let mut rows = Vec::new();
        let listed = list_rows(&connection, &ids, num_bytes / MIN_ROW_BYTES, &mut rows);
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
                let (_, claimed) = cut_page?;
                Some(Damage::somewhere(format!(
                    "the file has {num_bytes} bytes, its head says {claimed}"
                )))
            }),
            rows,
            next: 0,
            buffer: Vec::new(),
            is_loaded: false,
            cut_page: cut_page.map(|(page, _)| page),
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
        let what = match read_payload(&self.connection, row.id, &mut self.buffer) {
            Ok(topic_id)
                if self.cut_page.is_some_and(|page| {
                    let len = last_page_len(page, topic_id, row.log_time, self.buffer.len());
                    self.buffer.iter().rev().take(len).all(|byte| *byte == 0) && len > 0
                }) =>
            {
                "the last page of the payload is missing".to_owned()
            }
            Ok(_) => {
                self.is_loaded = true;
                return;
            }
            Err(error) => error.to_string(),
        };
        self.damage = Some(Damage::somewhere(format!("row {} is not readable: {what}", row.id)));
        self.next = self.rows.len();
    }

    fn skip_unwanted(&mut self) {
        let is_unwanted = |row: &Row| self.wanted.get(row.topic) != Some(&true);
        while self.rows.get(self.next).is_some_and(is_unwanted) {
            self.next += 1;
            self.is_loaded = false;
        }
    }
}

/// Row identifiers of the topics, and the topics in the same order.
fn topics(connection: &Connection) -> rusqlite::Result<(Vec<i64>, Vec<TopicInfo>)> {
    // The column with the offered QoS came with a later version of rosbag2.
    let has_qos = connection.prepare("SELECT offered_qos_profiles FROM topics LIMIT 0").is_ok();
    let qos = if has_qos { "offered_qos_profiles" } else { "''" };
    let query =
        format!("SELECT id, name, type, serialization_format, {qos} FROM topics LIMIT 65536");
    let mut statement = connection.prepare(&query)?;
    let mut found = statement.query([])?;
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

/// Lists the rows in the order of the table until its end or its damage.
fn list_rows(
    connection: &Connection,
    topic_ids: &[i64],
    max_rows: u64,
    rows: &mut Vec<Row>,
) -> std::result::Result<(), Damage> {
    let listed = rows.len();
    let broken = |error: rusqlite::Error, listed: usize| {
        Damage::somewhere(format!("the table of messages breaks off after {listed} rows: {error}"))
    };
    let mut statement = connection
        .prepare("SELECT id, timestamp, topic_id FROM messages NOT INDEXED")
        .map_err(|error| broken(error, listed))?;
    let mut found = statement.query([]).map_err(|error| broken(error, listed))?;
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

/// Reads the payload of a row and gives the identifier of its topic.
fn read_payload(connection: &Connection, id: i64, buffer: &mut Vec<u8>) -> rusqlite::Result<i64> {
    let mut statement =
        connection.prepare_cached("SELECT topic_id, data FROM messages WHERE id = ?1")?;
    let mut found = statement.query([id])?;
    let row = found.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let payload = row.get_ref(1)?.as_blob()?;
    buffer.clear();
    buffer.extend_from_slice(payload);
    row.get(0)
}

/// The page size and the file size that the head of a database names.
fn cut_page(path: &Path) -> Option<(usize, u64)> {
    let mut head = [0; 32];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
    let [.., a, b, c, d] = head;
    let page = match u16::from_be_bytes([head[16], head[17]]) {
        1 => 65536,
        size => usize::from(size),
    };
    Some((page, u64::from(u32::from_be_bytes([a, b, c, d])) * page as u64))
}

/// How many bytes of the payload stand on the last overflow page of its row;
/// 0 when the row has none. The rule is that of section 1.6 of
/// <https://www.sqlite.org/fileformat2.html>, without reserved bytes.
fn last_page_len(page: usize, topic_id: i64, log_time: i64, payload: usize) -> usize {
    let blob_type = 2 * payload + 12;
    let blob_type_len = (usize::BITS - blob_type.leading_zeros()).div_ceil(7) as usize;
    let head = 1 + 1 + 1 + 1 + blob_type_len;
    let record = head + int_len(topic_id) + int_len(log_time) + payload;
    let on_overflow = page.saturating_sub(4);
    let max_local = page.saturating_sub(35);
    if on_overflow == 0 || record <= max_local {
        return 0;
    }
    let min_local = (page.saturating_sub(12) * 32 / 255).saturating_sub(23);
    let tail = (record - min_local) % on_overflow;
    let len = if tail == 0 || min_local + tail <= max_local { on_overflow } else { tail };
    len.min(payload)
}

/// Bytes of an integer in a record.
fn int_len(value: i64) -> usize {
    match value {
        0 | 1 => 0,
        -0x80..=0x7f => 1,
        -0x8000..=0x7fff => 2,
        -0x80_0000..=0x7f_ffff => 3,
        -0x8000_0000..=0x7fff_ffff => 4,
        -0x8000_0000_0000..=0x7fff_ffff_ffff => 6,
        _ => 8,
    }
}
