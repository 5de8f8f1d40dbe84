//! A connection to a database that is not trusted.
//!
//! The file is opened read-only and immutable, so that sqlite3 takes no locks
//! and reads no journal. Its schema may define views, triggers,
//! virtual tables and generated columns, all of which run when they are read;
//! only plain tables are read here. Sizes of text and SQL are limited, and
//! every statement ends after a number of steps.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rusqlite::blob::Blob;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, MAIN_DB, OpenFlags, OptionalExtension, Result};

/// Steps between two looks at the number that is left.
const STEPS_PER_LOOK: u64 = 1000;
/// Steps for a statement that does not walk a table. Reading the schema of
/// rosbag2 takes some hundred.
const FEW_STEPS: u64 = 100_000;
/// More steps than the walk over a table takes for a row.
const STEPS_PER_ROW: u64 = 64;
/// Memory for pages that are not mapped, in KiB. The file names a size of its
/// own otherwise.
const CACHE_KIB: i64 = 2048;

/// What a statement may ask for at most. The tables of rosbag2 have up to
/// seven columns and one `CREATE TABLE` of some hundred bytes each.
const LIMITS: [(Limit, i32); 11] = [
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 64 << 10),
    (Limit::SQLITE_LIMIT_COLUMN, 64),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 16),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 2),
    (Limit::SQLITE_LIMIT_VDBE_OP, 10_000),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 8),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64),
    (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 8),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

/// A read-only connection.
pub(super) struct Database {
    connection: Connection,
    steps_left: Arc<AtomicU64>,
}

/// A table that is safe to read.
pub(super) struct Table {
    columns: Vec<String>,
}

impl Table {
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name == column)
    }
}

impl Database {
    /// Opens the file at `path`, which has `num_bytes`. `is_cut` states that it
    /// is shorter than its header states. Statements end once `stop` is set.
    pub(super) fn open(
        path: &Path,
        num_bytes: u64,
        is_cut: bool,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_URI;
        let mut connection = Connection::open_with_flags(immutable_uri(path), flags)?;
        for (limit, value) in LIMITS {
            connection.set_limit(limit, value)?;
        }
        // No value is longer than the file.
        let max_len = num_bytes.clamp(64 << 10, 1 << 30) as i32;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, max_len)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        // sqlite3 refuses a file that is shorter than its header states, unless the
        // schema is writable, which the defensive setting rules out.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, !is_cut)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, is_cut)?;
        let steps_left = Arc::new(AtomicU64::new(FEW_STEPS));
        let (left, stop) = (Arc::clone(&steps_left), Arc::clone(stop));
        let is_over = move || {
            let taken = |left: u64| left.checked_sub(STEPS_PER_LOOK);
            stop.load(Ordering::Relaxed)
                || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_err()
        };
        connection.progress_handler(STEPS_PER_LOOK as i32, Some(is_over))?;
        let database = Self { connection, steps_left };
        database.connection.execute_batch("PRAGMA cell_size_check = ON;")?;
        database.connection.pragma_update(None, "mmap_size", num_bytes as i64)?;
        // Reads the schema, which sets the size of the cache that the file names.
        database.allow_steps(0);
        database.root_page("messages")?;
        database.connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        Ok(database)
    }

    /// The connection, for a statement that walks over at most `num_rows`.
    pub(super) fn walk(&self, num_rows: u64) -> &Connection {
        self.allow_steps(num_rows);
        &self.connection
    }

    /// The payload of a row of `messages`, opened for reading.
    pub(super) fn payload(&self, row: i64) -> Result<Blob<'_>> {
        self.allow_steps(0);
        self.connection.blob_open(MAIN_DB, c"messages", c"data", row, true)
    }

    /// Checks that a name is that of a plain table with these columns.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn check_table(
        &self,
        name: &'static str,
        required: &[&str],
    ) -> std::result::Result<Table, String> {
        let failed = |error: rusqlite::Error| format!("the table {name} is not readable: {error}");
        self.allow_steps(0);
        let list = format!("PRAGMA main.table_list({name})");
        let kind = |row: &rusqlite::Row<'_>| Ok((row.get(2)?, row.get(4)?));
        let found: Option<(String, bool)> =
            self.connection.query_row(&list, [], kind).optional().map_err(failed)?;
        match found {
            None => return Err(format!("there is no table {name}")),
            Some((kind, _)) if kind != "table" => {
                return Err(format!("{name} is not a plain table (type `{kind}`)"));
            }
            Some((_, true)) => return Err(format!("the table {name} has no row identifiers")),
            Some((_, false)) => {}
        }
        let columns = self.columns(name).map_err(failed)?;
        for (column, is_plain) in &columns {
            if !is_plain {
                return Err(format!("the table {name} has computed or hidden columns"));
            }
            if ["rowid", "oid", "_rowid_"].contains(&column.as_str()) {
                return Err(format!("the table {name} hides its row identifiers"));
            }
        }
        let table = Table { columns: columns.into_iter().map(|(column, _)| column).collect() };
        match required.iter().find(|column| !table.has(column)) {
            Some(missing) => Err(format!("the table {name} has no column {missing}")),
            None => Ok(table),
        }
    }

    /// The columns of a table in lower case, and whether each is plain.
    fn columns(&self, table: &str) -> Result<Vec<(String, bool)>> {
        let mut statement =
            self.connection.prepare(&format!("PRAGMA main.table_xinfo({table})"))?;
        let column = |row: &rusqlite::Row<'_>| {
            Ok((row.get::<_, String>(1)?.to_ascii_lowercase(), row.get::<_, i64>(6)? == 0))
        };
        statement.query_map([], column)?.collect()
    }

    /// The page at which a table starts, if there is one of that name.
    pub(super) fn root_page(&self, table: &str) -> Result<Option<u32>> {
        self.allow_steps(0);
        let query = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        self.connection.query_row(query, [table], |row| row.get(0)).optional()
    }

    /// Sets the steps for the next statement.
    fn allow_steps(&self, num_rows: u64) {
        let num_steps = FEW_STEPS.saturating_add(num_rows.saturating_mul(STEPS_PER_ROW));
        self.steps_left.store(num_steps, Ordering::Relaxed);
    }
}

/// The file with changes that are not in the database, if there is one: it was
/// not closed, and its last transactions are in a separate file.
pub(super) fn open_journal(path: &Path) -> Option<PathBuf> {
    ["-wal", "-journal"].into_iter().find_map(|suffix| {
        let mut name: OsString = path.into();
        name.push(suffix);
        let journal = PathBuf::from(name);
        journal.metadata().is_ok_and(|about| about.len() > 0).then_some(journal)
    })
}

/// The URI under which sqlite3 opens a file without locks and journals.
fn immutable_uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    // An absolute path, lest it starts with what URIs give a meaning.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            _ => {
                let _infallible = write!(uri, "%{byte:02x}");
            }
        }
    }
    uri + "?immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_is_a_uri() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a b.db3", "a?mode=rw#%41&.db3", "ü\u{1}.db3"] {
            let path = folder.path().join(name);
            Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
            let database = Database::open(&path, 8192, false, &Arc::default()).unwrap();
            assert!(database.check_table("t", &["a"]).is_ok(), "{name}");
        }
    }

    #[test]
    fn a_statement_ends_after_its_steps() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.db3");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t(a)").unwrap();
        let database = Database::open(&path, 8192, false, &Arc::default()).unwrap();
        let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                       SELECT count(*) FROM n";
        let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        let error = database.walk(1000).query_row(endless, [], count).unwrap_err();
        let code = error.sqlite_error_code();
        assert_eq!(code, Some(rusqlite::ErrorCode::OperationInterrupted));
    }
}
