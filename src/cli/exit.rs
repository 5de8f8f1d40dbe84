//! Exit codes.

use det_post_types::{Error, ErrorKind};

/// Exit codes, the same for every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Done. Frames that were refused are counted in the report.
    Done = 0,
    /// Failed, with the reason in the log; also a replay without a frame that could be used.
    Failed = 1,
    /// Wrong use or configuration; of the live node also what a restart would meet again.
    Usage = 2,
    /// Done with loss: the recording itself is damaged.
    Damaged = 3,
    /// Ended by SIGINT, SIGTERM or SIGHUP before everything was done; partial results are in
    /// `det_post.partial/`.
    Interrupted = 4,
}

/// Their description in `--help`.
pub(super) const HELP: &str = "Exit codes: 0 done (refused frames are counted in the report), \
                               1 failed, or no frame could be used, 2 wrong use or configuration, 3 finished with loss (the \
                               recording is damaged), 4 interrupted by a signal (what was done is \
                               in det_post.partial/).";

impl ExitStatus {
    /// The exit code.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl From<&Error> for ExitStatus {
    fn from(error: &Error) -> Self {
        match error.kind() {
            // A network that does not load or fit is one that the configuration names.
            ErrorKind::Usage | ErrorKind::Config | ErrorKind::Model => Self::Usage,
            ErrorKind::DamagedBag => Self::Damaged,
            ErrorKind::Interrupted => Self::Interrupted,
            _ => Self::Failed,
        }
    }
}
