//! One sqlite3 file as rosbag2 writes it.
//!
//! Messages come by log time, ties by row identifier. The order is made here
//! from one pass over the table, so a damaged time index loses nothing.
//! Each payload is copied once, from the page cache into one buffer that is
//! used again.
//!
//! The file is not trusted: `database.rs` states what may be read of it. The
//! payloads of all rows together may not exceed the file, nor may the number of
//! rows.
//!
//! Of a database that is shorter than its header states, the rows before the first
//! incomplete one, in the order of the table, are delivered. To find it, the whole
//! file is read once when it is opened.

mod cut;
mod database;

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::types::Type;

use self::cut::CutFile;
use self::database::{Database, open_journal};
use super::budget::{MemoryBudget, Reservation};
use super::damage::Damage;
use super::mapped::Mapped;
use super::options::{MAX_DECLARED_BYTES, MAX_NAME_BYTES, ReadOptions};
use super::span::LogSpan;
use super::time::Head;
use super::topic::TopicInfo;
use det_post_types::{Error, ErrorKind, Result, Stamp};

/// Fewest bytes of the file one row can take: a cell pointer and a cell with
/// its two lengths, a record head of five and a one-byte payload.
const MIN_ROW_BYTES: u64 = 8;

/// Most topics that are read.
const MAX_TOPICS: u64 = 65536;

/// The first step by which the list of rows grows; each further one doubles it.
const FIRST_ROWS: usize = 1024;

/// The content of a table, or its damage.
type Found<T> = std::result::Result<T, String>;

/// A reader of one database.
pub(super) struct Db3File {
    database: Database,
    num_bytes: u64,
    pub(super) topics: Vec<TopicInfo>,
    /// First and last log time of the readable rows.
    pub(super) span: Option<(Stamp, Stamp)>,
    wanted: Vec<bool>,
    /// The log times that are delivered.
    limits: LogSpan,
    pub(super) damage: Option<Damage>,
    /// By log time, then row identifier.
    rows: Vec<Row>,
    next: usize,
    /// The payload of row `next` when `payload_len` is given, and more.
    buffer: Vec<u8>,
    payload_len: Option<usize>,
    /// Covers the capacities of `rows` and `buffer`.
    memory: Reservation,
    budget: &'static MemoryBudget,
    /// Bytes that the next payload takes, when the budget lacked them.
    missing: Option<usize>,
}

struct Row {
    log_time: i64,
    id: i64,
    topic: u32,
}

impl Db3File {
    /// Opens the database read-only and lists its rows as far as they are
    /// readable.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::DamagedBag`] when the topics cannot be read or the tables
    /// are not those that rosbag2 writes.
    pub(super) fn open(path: &Path, options: &ReadOptions) -> Result<Self> {
        let failed = |problem: String| {
            let changes =
                unread_changes(path).map_or(String::new(), |changes| format!("; {changes}"));
            let message =
                format!("cannot read the topics of {}: {problem}{changes}", path.display());
            Error::new(ErrorKind::DamagedBag, "bag", message)
        };
        let map = Mapped::open(path)?;
        let num_bytes = map.len() as u64;
        let cut = CutFile::detect(map, &options.stop);
        let database = Database::open(path, num_bytes, cut.is_some(), &options.stop)
            .map_err(|error| failed(error.to_string()))?;
        let (ids, mut topics) = topics(&database, cut.as_ref()).map_err(failed)?;
        database.check_table("messages", &["timestamp", "topic_id", "data"]).map_err(failed)?;
        let mut rows = Rows { rows: Vec::new(), memory: Reservation::new(options.memory) };
        let num_whole = num_whole_rows(&database, "messages", cut.as_ref()).map_err(failed)?;
        let listed = rows.list(&database, &ids, num_whole, num_bytes);
        let Rows { mut rows, memory } = rows;
        rows.sort_unstable_by_key(|row| (row.log_time, row.id));
        for row in &rows {
            if let Some(topic) = topics.get_mut(row.topic as usize) {
                topic.num_messages = topic.num_messages.map(|num| num + 1);
            }
        }
        let time = |row: &Row| Stamp::from_nanos(row.log_time);
        Ok(Self {
            database,
            num_bytes,
            wanted: vec![true; topics.len()],
            limits: LogSpan::default(),
            topics,
            span: rows.first().map(time).zip(rows.last().map(time)),
            damage: listed.err().or_else(|| incomplete(path, cut.as_ref())),
            rows,
            next: 0,
            buffer: Vec::new(),
            payload_len: None,
            memory,
            budget: options.memory,
            missing: None,
        })
    }

    /// Delivers only the topics marked in `wanted`, one entry per topic.
    pub(super) fn select(&mut self, wanted: Vec<bool>) {
        self.wanted = wanted;
        self.skip_unwanted();
    }

    /// Delivers only messages with these log times.
    pub(super) fn limit(&mut self, limits: LogSpan) {
        self.limits = limits;
        self.skip_unwanted();
    }

    /// The time of the next message.
    pub(super) fn head(&self) -> Head {
        let Some(row) = self.rows.get(self.next) else { return Head::End };
        let log_time = Stamp::from_nanos(row.log_time);
        match self.missing {
            _ if self.payload_len.is_some() => Head::Ready(log_time),
            Some(missing) if missing > self.budget.available() => Head::Blocked(log_time),
            _ => Head::NotBefore(log_time),
        }
    }

    /// The message at a ready head: its topic in `topics` and its payload.
    pub(super) fn message(&self) -> Option<(usize, &[u8])> {
        let row = self.rows.get(self.next)?;
        Some((row.topic as usize, self.buffer.get(..self.payload_len?)?))
    }

    /// Drops the message at the head.
    pub(super) fn advance(&mut self) {
        self.next += 1;
        self.payload_len = None;
        self.skip_unwanted();
    }

    /// Reads the payload of the next row. Damage ends the file.
    pub(super) fn load(&mut self) {
        let Some(id) = self.rows.get(self.next).map(|row| row.id) else { return };
        self.missing = None;
        if let Err(problem) = self.read_payload(id) {
            self.end(format!("row {id} is not readable: {problem}"));
        }
    }

    /// Releases the buffer that is kept for later rows.
    pub(super) fn release_spare(&mut self) {
        if self.payload_len.is_none() {
            self.buffer = Vec::new();
            let _shrinking = self.memory.resize(self.rows.capacity() * size_of::<Row>());
        }
    }

    /// Ends a file for whose next payload no memory is left.
    pub(super) fn refuse_blocked(&mut self) {
        let (missing, limit) = (self.missing.take().unwrap_or_default(), self.budget.limit());
        self.end(format!(
            "the next row needs {missing} bytes of memory, recordings have {limit} \
             (`--recording-memory-mib`)"
        ));
    }

    fn end(&mut self, what: String) {
        self.damage = Some(Damage::somewhere(what));
        self.next = self.rows.len();
        self.payload_len = None;
    }

    /// Reads the payload of a row into the buffer, unless the budget lacks the
    /// memory.
    fn read_payload(&mut self, id: i64) -> Found<()> {
        let blob = self.database.payload(id).map_err(|error| error.to_string())?;
        let len = blob.len();
        if len as u64 > self.num_bytes {
            return Err(format!("it claims {len} bytes, the file has {}", self.num_bytes));
        }
        let missing = len.saturating_sub(self.buffer.capacity());
        if !self.memory.resize(self.memory.num_bytes() + missing) {
            drop(blob);
            self.release_spare();
            self.missing = Some(len);
            return Ok(());
        }
        if len > self.buffer.len() {
            self.buffer.reserve_exact(len - self.buffer.len());
            self.buffer.resize(len, 0);
        }
        let payload = self.buffer.get_mut(..len).unwrap_or_default();
        blob.read_at_exact(payload, 0).map_err(|error| error.to_string())?;
        self.payload_len = Some(len);
        Ok(())
    }

    fn skip_unwanted(&mut self) {
        let is_unwanted = |row: &Row| {
            self.wanted.get(row.topic as usize) != Some(&true)
                || !self.limits.contains(Stamp::from_nanos(row.log_time))
        };
        while self.rows.get(self.next).is_some_and(is_unwanted) {
            self.next += 1;
            self.payload_len = None;
            self.missing = None;
        }
    }
}

/// What is missing of a file apart from rows that are not readable.
fn incomplete(path: &Path, cut: Option<&CutFile>) -> Option<Damage> {
    if let Some(cut) = cut {
        let (found, claimed) = (cut.len(), cut.claimed_len);
        return Some(Damage::somewhere(format!(
            "the file has {found} bytes, its header declares {claimed}"
        )));
    }
    unread_changes(path).map(Damage::somewhere)
}

/// What a file lacks whose recorder did not close it: up to everything.
fn unread_changes(path: &Path) -> Option<String> {
    let journal = open_journal(path)?;
    Some(format!(
        "the recorder did not close it, changes in {} are not read; open it once with `sqlite3`",
        journal.display()
    ))
}

/// How many rows of `table` can be trusted, as the limit of a query: -1, which
/// means no limit, unless the file is cut.
fn num_whole_rows(database: &Database, table: &str, cut: Option<&CutFile>) -> Found<i64> {
    let Some(cut) = cut else { return Ok(-1) };
    let root = database.root_page(table).map_err(|error| error.to_string())?;
    let num = root.map_or(0, |root| cut.num_whole_rows(root));
    Ok(i64::try_from(num).unwrap_or(i64::MAX))
}

/// The topics, and the index of each by its row identifier.
fn topics(
    database: &Database,
    cut: Option<&CutFile>,
) -> Found<(BTreeMap<i64, u32>, Vec<TopicInfo>)> {
    let table = database.check_table("topics", &["id", "name", "type", "serialization_format"])?;
    // Later versions of rosbag2 added the column with the offered QoS.
    let has_qos = table.has("offered_qos_profiles");
    let qos = if has_qos { "offered_qos_profiles" } else { "''" };
    let query = format!(
        "SELECT id, name, type, serialization_format, {qos} FROM topics NOT INDEXED LIMIT ?1"
    );
    let num_whole = num_whole_rows(database, "topics", cut)?;
    let limit = u64::try_from(num_whole).map_or(MAX_TOPICS, |num| num.min(MAX_TOPICS));
    let read = || -> rusqlite::Result<_> {
        let mut statement = database.walk(MAX_TOPICS).prepare(&query)?;
        let mut found = statement.query([limit as i64])?;
        let (mut ids, mut topics, mut num_bytes) = (BTreeMap::new(), Vec::new(), 0);
        while let Some(row) = found.next()? {
            let text = |column, max_len| -> rusqlite::Result<String> {
                let text = row.get_ref(column)?.as_str()?;
                if text.len() <= max_len {
                    return Ok(text.to_owned());
                }
                let problem = format!("{} bytes, at most {max_len} are read", text.len());
                Err(rusqlite::Error::FromSqlConversionFailure(column, Type::Text, problem.into()))
            };
            let name = |column| text(column, MAX_NAME_BYTES);
            let topic = TopicInfo {
                num_messages: Some(0),
                offered_qos: text(4, MAX_DECLARED_BYTES - num_bytes)?,
                ..TopicInfo::declared(&name(1)?, &name(2)?, &name(3)?)
            };
            num_bytes += topic.offered_qos.len();
            ids.entry(row.get(0)?).or_insert(topics.len() as u32);
            topics.push(topic);
        }
        Ok((ids, topics))
    };
    read().map_err(|error| error.to_string())
}

/// Rows within a memory budget.
struct Rows {
    rows: Vec<Row>,
    memory: Reservation,
}

impl Rows {
    /// Lists the first `limit` rows in the order of the table, or those before
    /// damage.
    fn list(
        &mut self,
        database: &Database,
        topics: &BTreeMap<i64, u32>,
        limit: i64,
        file_len: u64,
    ) -> std::result::Result<(), Damage> {
        let max_rows = file_len / MIN_ROW_BYTES;
        let read = |rows: &mut Self| -> rusqlite::Result<Found<()>> {
            // `octet_length` reads no more of a payload than its length.
            let query = "SELECT rowid, timestamp, topic_id, octet_length(data)
                         FROM messages NOT INDEXED LIMIT ?1";
            let mut statement = database.walk(max_rows).prepare(query)?;
            let mut found = statement.query([limit])?;
            let mut num_bytes: u64 = 0;
            while let Some(row) = found.next()? {
                let (id, log_time, topic): (i64, i64, i64) =
                    (row.get(0)?, row.get(1)?, row.get(2)?);
                let Some(topic) = topics.get(&topic) else {
                    return Ok(Err(format!("row {id} is of topic {topic}, which is not declared")));
                };
                num_bytes =
                    num_bytes.saturating_add_signed(row.get::<_, Option<i64>>(3)?.unwrap_or(0));
                if num_bytes > file_len {
                    return Ok(Err(format!(
                        "the payloads up to row {id} have {num_bytes} bytes, the file has {file_len}"
                    )));
                }
                if rows.rows.len() as u64 >= max_rows {
                    return Ok(Err(format!(
                        "the table of messages has more than {max_rows} rows, too many \
                         for the size of the file"
                    )));
                }
                if !rows.push(Row { log_time, id, topic: *topic }) {
                    return Ok(Err(format!(
                        "a list of more than {} rows takes more memory than recordings have \
                         (`--recording-memory-mib`)",
                        rows.rows.len()
                    )));
                }
            }
            Ok(Ok(()))
        };
        let problem = match read(self) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(problem)) => problem,
            Err(error) => {
                let num = self.rows.len();
                format!("the table of messages breaks off after {num} rows: {error}")
            }
        };
        Err(Damage::somewhere(problem))
    }

    /// Appends a row; false when the budget lacks the memory.
    fn push(&mut self, row: Row) -> bool {
        let num_rows = self.rows.len();
        if num_rows == self.rows.capacity() {
            let more = num_rows.max(FIRST_ROWS);
            if !self.memory.resize((num_rows + more) * size_of::<Row>()) {
                return false;
            }
            self.rows.reserve_exact(more);
        }
        self.rows.push(row);
        true
    }
}
