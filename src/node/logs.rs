//! The log of the process on its way to `/rosout`, and its level.
//!
//! The program's subscriber of `tracing` makes a [`LogRecord`] of each event and adds it with
//! [`Logs::add`]; every node of the process publishes them on a separate thread. Between the
//! two is a bounded queue: an entry that finds it full is counted and dropped, so
//! that no frame waits for its log.

use std::fmt::{self, Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use det_post_ros::messages::Log;
use det_post_ros::middleware::{Publisher, Qos};
use det_post_ros::{LogLevel, LoggerLevel, NodeName, SetResult};
use det_post_types::text::{LineBreaks, Shown};
use det_post_types::{Error, ErrorKind, Result, Stamp};

/// Topic of the log.
pub const ROSOUT_TOPIC: &str = "/rosout";

/// Quality of service of the log, as rcl offers it.
pub const ROSOUT_QOS: Qos = Qos { depth: 1000, ..Qos::LATCHED };

/// Entries that wait for the thread of a node.
const MAX_WAITING: usize = 1000;

/// An entry of the log.
#[derive(Clone, Debug)]
pub struct LogRecord {
    /// When, by the system's clock.
    pub stamp: Stamp,
    /// Its severity.
    pub level: LogLevel,
    /// The text, safe to show.
    pub message: String,
    /// Source file.
    pub file: &'static str,
    /// Module.
    pub module: &'static str,
    /// Line in the source file.
    pub line: u32,
}

impl LogRecord {
    /// The entry of an event that happens now.
    pub fn of_event(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let mut text = Text::default();
        event.record(&mut text);
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX);
        Self {
            stamp: Stamp::from_nanos(nanos),
            level: match *metadata.level() {
                Level::ERROR => LogLevel::Error,
                Level::WARN => LogLevel::Warn,
                Level::INFO => LogLevel::Info,
                Level::DEBUG | Level::TRACE => LogLevel::Debug,
            },
            message: text.0,
            file: metadata.file().unwrap_or_default(),
            module: metadata.module_path().unwrap_or_default(),
            line: metadata.line().unwrap_or_default(),
        }
    }
}

/// The fields of an event as one text, safe to show.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        // A `String` takes everything.
        let _ = write_field(&mut self.0, field, value);
    }
}

/// Writes a field of an event, escaped.
pub(crate) fn write_field(writer: &mut dyn Write, field: &Field, value: &dyn Debug) -> fmt::Result {
    let mut shown = Shown::new(writer, LineBreaks::Marked);
    match field.name() {
        "message" => write!(shown, "{value:?}")?,
        name => write!(shown, "{name}={value:?}")?,
    }
    shown.finish()
}

/// Applies a level to the log of the process; `None`: the level of the start.
type LevelControl = Box<dyn Fn(Option<LogLevel>) + Send + Sync>;

/// The log of a process.
pub struct Logs {
    sinks: RwLock<Vec<Sink>>,
    control: Mutex<Option<LevelControl>>,
    num_sinks_ever: AtomicU64,
    num_lost: AtomicU64,
}

struct Sink {
    id: u64,
    sender: SyncSender<LogRecord>,
}

impl Logs {
    /// The log of this process.
    pub fn process() -> &'static Self {
        static LOGS: Logs = Logs {
            sinks: RwLock::new(Vec::new()),
            control: Mutex::new(None),
            num_sinks_ever: AtomicU64::new(0),
            num_lost: AtomicU64::new(0),
        };
        &LOGS
    }

    /// Whether a node publishes the log.
    pub fn is_published(&self) -> bool {
        !self.sinks.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Adds an entry. Never waits.
    pub fn add(&self, record: &LogRecord) {
        for sink in &*self.sinks.read().unwrap_or_else(PoisonError::into_inner) {
            if sink.sender.try_send(record.clone()).is_err() {
                self.num_lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Entries that were not published: the queue was full, or the middleware
    /// refused them.
    pub fn num_lost(&self) -> u64 {
        self.num_lost.load(Ordering::Relaxed)
    }

    /// Sets how the level of the log is changed.
    pub fn set_level_control(&self, control: LevelControl) {
        *self.control.lock().unwrap_or_else(PoisonError::into_inner) = Some(control);
    }

    fn set_level(&self, level: Option<LogLevel>) {
        if let Some(control) = &*self.control.lock().unwrap_or_else(PoisonError::into_inner) {
            control(level);
        }
    }

    fn open(&self) -> (u64, Receiver<LogRecord>) {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let id = self.num_sinks_ever.fetch_add(1, Ordering::Relaxed);
        self.sinks.write().unwrap_or_else(PoisonError::into_inner).push(Sink { id, sender });
        (id, receiver)
    }

    fn close(&self, id: u64) {
        let mut sinks = self.sinks.write().unwrap_or_else(PoisonError::into_inner);
        sinks.retain(|sink| sink.id != id);
    }
}

/// Publishes the log of the process in the name of a node until it is dropped;
/// the entries up to then are published.
pub struct Rosout {
    id: u64,
    thread: Option<JoinHandle<()>>,
}

impl Rosout {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Io` when there is no thread.
    pub fn start(node: &NodeName, publisher: Box<dyn Publisher>) -> Result<Self> {
        let logger = logger_of(node);
        let (id, records) = Logs::process().open();
        let thread = std::thread::Builder::new()
            .name("rosout".into())
            .spawn(move || publish_all(&records, publisher, &logger));
        match thread {
            Ok(thread) => Ok(Self { id, thread: Some(thread) }),
            Err(cause) => {
                Logs::process().close(id);
                Err(Error::new(ErrorKind::Io, "rosout", "no thread").with_source(cause))
            }
        }
    }
}

impl Drop for Rosout {
    fn drop(&mut self) {
        Logs::process().close(self.id);
        if let Some(thread) = self.thread.take() {
            // It ends after the last entry, unless it panicked.
            let _ = thread.join();
        }
    }
}

/// An error here is counted, not logged: its entry would come back.
fn publish_all(records: &Receiver<LogRecord>, mut publisher: Box<dyn Publisher>, logger: &str) {
    let mut bytes = Vec::new();
    for record in records {
        let LogRecord { stamp, level, message, file, module, line } = &record;
        let (stamp, level, line) = (*stamp, *level, *line);
        let log = Log { stamp, level, name: logger, message, file, function: module, line };
        if log.encode(&mut bytes).and_then(|()| publisher.publish(&bytes)).is_err() {
            Logs::process().num_lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Name of a node's logger.
fn logger_of(node: &NodeName) -> String {
    node.full().trim_start_matches('/').replace('/', ".")
}

/// The loggers of a node: its own, and the root (the empty name).
pub(super) struct Loggers {
    name: String,
    levels: Mutex<Levels>,
}

#[derive(Clone, Copy, Default)]
struct Levels {
    root: Option<LogLevel>,
    own: Option<LogLevel>,
}

impl Loggers {
    /// Loggers without separate levels.
    pub(super) fn new(node: &NodeName) -> Self {
        Self { name: logger_of(node), levels: Mutex::default() }
    }

    /// The level of each name; 0 for a logger without one, known or not, as rcl
    /// answers.
    pub(super) fn levels(&self, names: &[String]) -> Vec<LoggerLevel> {
        let mut levels = *self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let level_of = |name: &String| {
            let level = self.find(name, &mut levels).and_then(|level| *level);
            LoggerLevel { name: name.clone(), level: level.map_or(0, |level| level as u32) }
        };
        names.iter().map(level_of).collect()
    }

    /// Sets one level after the other. That of the node's logger takes effect,
    /// else that of the root; 0 removes a level.
    pub(super) fn set(&self, wanted: &[LoggerLevel]) -> Vec<SetResult> {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let results = wanted.iter().map(|wanted| self.set_one(wanted, &mut levels)).collect();
        Logs::process().set_level(levels.own.or(levels.root));
        results
    }

    fn set_one(&self, wanted: &LoggerLevel, levels: &mut Levels) -> SetResult {
        let LoggerLevel { name, level: number } = wanted;
        let level = LogLevel::of_number(*number);
        if level.is_none() && *number != 0 {
            return Err(format!("{number} is no level; allowed: 0, 10, 20, 30, 40, 50"));
        }
        let known = self.find(name, levels).ok_or_else(|| {
            format!("there is no logger {name:?}; allowed: {:?}, or empty for the root", self.name)
        })?;
        *known = level;
        Ok(())
    }

    fn find<'l>(&self, name: &str, levels: &'l mut Levels) -> Option<&'l mut Option<LogLevel>> {
        match name {
            "" => Some(&mut levels.root),
            name if name == self.name => Some(&mut levels.own),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(name: &str, level: u32) -> LoggerLevel {
        LoggerLevel { name: name.into(), level }
    }

    #[test]
    fn the_logger_of_a_node_has_its_name() {
        for (namespace, expected) in [("", "det_post"), ("/car/front", "car.front.det_post")] {
            assert_eq!(logger_of(&NodeName::new(namespace, "det_post").unwrap()), expected);
        }
    }

    #[test]
    fn levels_are_set_and_read_by_name() {
        let loggers = Loggers::new(&NodeName::new("front", "det_post").unwrap());
        let names = ["front.det_post", "", "other"].map(String::from);
        let numbers = || loggers.levels(&names).iter().map(|of| of.level).collect::<Vec<_>>();
        assert_eq!(numbers(), [0, 0, 0]);
        assert_eq!(loggers.set(&[level("front.det_post", 10), level("", 40)]), [Ok(()), Ok(())]);
        assert_eq!(numbers(), [10, 40, 0]);
        let results = loggers.set(&[level("other", 10), level("", 35), level("front.det_post", 0)]);
        assert!(results[0].as_ref().unwrap_err().contains("no logger \"other\""), "{results:?}");
        assert!(results[1].as_ref().unwrap_err().contains("35 is no level"), "{results:?}");
        assert_eq!((&results[2], numbers()), (&Ok(()), vec![0, 40, 0]));
    }
}
