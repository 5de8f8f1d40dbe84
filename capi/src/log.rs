//! The log of the library, for a function of the caller.

use std::cell::Cell;
use std::ffi::CString;
use std::sync::{OnceLock, PoisonError, RwLock};

use det_post::node::LogRecord;
use det_post_ros::LogLevel;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::{Registry, reload};

use super::call::{Address, ConstText, run};
use super::status::{Failure, Status};

/// Level of an entry: details, for developers.
pub const LOG_DEBUG: u32 = 10;
/// Level of an entry: progress.
pub const LOG_INFO: u32 = 20;
/// Level of an entry: a warning.
pub const LOG_WARN: u32 = 30;
/// Level of an entry: an error.
pub const LOG_ERROR: u32 = 40;

const _: () = assert!(
    LogLevel::Debug as u32 == LOG_DEBUG
        && LogLevel::Info as u32 == LOG_INFO
        && LogLevel::Warn as u32 == LOG_WARN
        && LogLevel::Error as u32 == LOG_ERROR
);

type Write = extern "C" fn(Address, u32, ConstText, ConstText);

/// What writes the log of the process.
static LOG: RwLock<Option<(Write, Address)>> = RwLock::new(None);

thread_local! {
    /// Whether this thread is in a call of the function.
    static IS_WRITING: Cell<bool> = const { Cell::new(false) };
}

/// Passes events to the function of the caller.
struct ToCaller;

impl<S: Subscriber> Layer<S> for ToCaller {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Entries that the function itself causes would call it without end.
        if IS_WRITING.replace(true) {
            return;
        }
        let log = LOG.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((write, context)) = *log {
            let record = LogRecord::of_event(event);
            // Neither contains a NUL: targets are paths of modules, and messages are escaped.
            let target = CString::new(event.metadata().target()).unwrap_or_default();
            let message = CString::new(record.message).unwrap_or_default();
            write(context, record.level as u32, ConstText::of(&target), ConstText::of(&message));
        }
        drop(log);
        IS_WRITING.set(false);
    }
}

type Filter = reload::Handle<Targets, Registry>;

/// The filter of this process, which the first call installs.
///
/// # Errors
/// Where the process, a program in Rust, has a subscriber of its own.
fn filter() -> Result<&'static Filter, Failure> {
    static FILTER: OnceLock<Option<Filter>> = OnceLock::new();
    let installed = FILTER.get_or_init(|| {
        let (filter, handle) = reload::Layer::new(Targets::new());
        let subscriber = tracing_subscriber::registry().with(filter).with(ToCaller);
        tracing::subscriber::set_global_default(subscriber).ok().map(|()| handle)
    });
    let refused = || Failure::argument("this process has a subscriber of `tracing` already");
    installed.as_ref().ok_or_else(refused)
}

fn level_of(number: u32) -> Result<LevelFilter, Failure> {
    match number {
        LOG_DEBUG => Ok(LevelFilter::DEBUG),
        LOG_INFO => Ok(LevelFilter::INFO),
        LOG_WARN => Ok(LevelFilter::WARN),
        LOG_ERROR => Ok(LevelFilter::ERROR),
        _ => Err(Failure::argument(format!("level {number}; allowed: 10, 20, 30, 40"))),
    }
}

/// Passes the log of the library to a function, in place of the one before: its entries from
/// `level` on, and entries of the libraries that it uses from `DET_POST_LOG_WARN` on. `NULL` ends
/// the log; without a call there is none. `target` is the module that an entry is from, such as
/// `det_post::node`; `message` is UTF-8 with control characters escaped, and may have several
/// lines.
///
/// The function is called from any thread, also from several at a time and within calls of the
/// library. It must not wait for other threads that use the library, and entries that it
/// causes itself are left out. When this function returns, the one before is not called any
/// more; it cannot be called by the function of the log.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_set_log(
    function: Option<
        extern "C" fn(context: Address, level: u32, target: ConstText, message: ConstText),
    >,
    context: Address,
    level: u32,
) -> Status {
    run(0, |_| {
        if IS_WRITING.get() {
            return Err(Failure::argument("the function of the log cannot set the log"));
        }
        let level = if function.is_some() { level_of(level)? } else { LevelFilter::OFF };
        let filter = filter()?;
        *LOG.write().unwrap_or_else(PoisonError::into_inner) =
            function.map(|function| (function as Write, context));
        let targets = Targets::new()
            .with_default(level.min(LevelFilter::WARN))
            .with_target("det_post", level);
        // Fails only without the subscriber, which stays for good.
        let _ = filter.reload(targets);
        Ok(())
    })
}
