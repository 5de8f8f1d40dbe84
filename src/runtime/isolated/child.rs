//! The process of a channel: its start, its log and its end.

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tracing::Level;
use tracing::level_filters::LevelFilter;

/// The longest piece of a line that is one entry of the log.
const MAX_LINE: u64 = 8192;

/// The variable with the filter of the log.
const FILTER: &str = "RUST_LOG";

/// Starts `program isolated` for a channel. What it writes to stderr are entries of this process's
/// log.
///
/// The system kills the process with the thread that started it ([`end_with_parent`]): with a
/// separate thread, which follows the log and lives until the process has ended.
///
/// # Errors
/// The errors of the system, for a program or a thread.
pub(super) fn start(program: &Path, channel: &str, stdin: OwnedFd) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.arg("isolated").stdin(Stdio::from(stdin)).stdout(Stdio::null()).stderr(Stdio::piped());
    // Not interrupted with this process, which first finishes frames in flight.
    command.process_group(0);
    if std::env::var_os(FILTER).is_none() {
        command.env(
            FILTER,
            format!("warn,det_post={}", LevelFilter::current().min(LevelFilter::DEBUG)),
        );
    }
    let (told, started) = sync_channel(1);
    let channel = channel.to_owned();
    std::thread::Builder::new().name("isolated log".into()).spawn(move || {
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return drop(told.send(Err(error))),
        };
        let (id, log) = (child.id(), child.stderr.take());
        if told.send(Ok(child)).is_err() {
            return;
        }
        if let Some(log) = log {
            follow(&mut BufReader::new(log), &channel);
        }
        // Fails when its end was awaited already.
        let id = i32::try_from(id).ok().and_then(Pid::from_raw);
        let _ = id.map(|id| waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
    })?;
    started.recv().unwrap_or_else(|_| Err(io::Error::other("the thread of its log has ended")))
}

/// Lets the system kill this process, also while it is stopped or hangs, when the thread that started
/// it ends.
pub(super) fn end_with_parent() {
    // Without it the process ends with its next request.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

/// Logs lines until their end, those that state a level at that level. Others are of libraries: they
/// are warnings.
fn follow(lines: &mut impl BufRead, channel: &str) {
    let mut level = Level::WARN;
    let mut line = Vec::new();
    while lines.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        let (stated, rest) = split_level(text);
        // A further line of an entry has a mark.
        let is_further = text.starts_with("    | ");
        level = if is_further { level } else { stated.unwrap_or(Level::WARN) };
        match level {
            _ if rest.is_empty() => {}
            Level::ERROR => tracing::error!("channel {channel}: {rest}"),
            Level::WARN => tracing::warn!("channel {channel}: {rest}"),
            Level::INFO => tracing::info!("channel {channel}: {rest}"),
            _ => tracing::debug!("channel {channel}: {rest}"),
        }
        line.clear();
    }
}

/// The level at the begin of a line, and the rest.
fn split_level(line: &str) -> (Option<Level>, &str) {
    let (word, rest) = line.trim_start().split_once(' ').unwrap_or((line, ""));
    let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
    match levels.into_iter().find(|level| level.as_str() == word) {
        Some(level) => (Some(level), rest.trim_start()),
        None => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use super::*;

    #[derive(Clone, Default)]
    struct Entries(Arc<Mutex<Vec<String>>>);

    struct Text(String);

    impl Visit for Text {
        fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
            self.0 += &format!("{value:?}");
        }
    }

    impl<S: tracing::Subscriber> Layer<S> for Entries {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            let mut text = Text(format!("{} ", event.metadata().level()));
            event.record(&mut text);
            self.0.lock().unwrap().push(text.0);
        }
    }

    #[test]
    fn lines_are_entries_at_their_levels() {
        let entries = Entries::default();
        let subscriber = tracing_subscriber::registry().with(entries.clone());
        let log = " INFO device cpu\nERROR two\n    | lines\nof a library\n\n\nDEBUG x\nERRORS\n";
        let long = [log.as_bytes(), &[b'y'; 20_000]].concat();
        tracing::subscriber::with_default(subscriber, || follow(&mut &long[..], "eyes"));
        let entries = entries.0.lock().unwrap();
        let expected = [
            "INFO channel eyes: device cpu",
            "ERROR channel eyes: two",
            "ERROR channel eyes:     | lines",
            "WARN channel eyes: of a library",
            "DEBUG channel eyes: x",
            "WARN channel eyes: ERRORS",
        ];
        assert_eq!(entries[..expected.len()], expected);
        let rest = &entries[expected.len()..];
        assert_eq!(rest.len(), 3, "pieces of 8 KiB");
        assert!(rest.iter().all(|piece| piece.len() < 9000 && piece.contains("yyy")));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let (_ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let error = start(Path::new("/no/det_post"), "eyes", theirs.into()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
