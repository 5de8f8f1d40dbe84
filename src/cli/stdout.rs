//! Standard output, for results.

use std::io::{ErrorKind as IoErrorKind, Write};

use det_post_types::{Error, ErrorKind, Result};

/// Whether standard output is still read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stdout {
    /// It is, as far as the system reports.
    Open,
    /// The other end of the pipe is closed (`det_post … | head -1`), and the text is dropped.
    Closed,
}

/// Writes a text and flushes.
///
/// # Errors
/// `Io` when standard output cannot be written for another reason than that it
/// was closed.
pub(super) fn print(text: &str) -> Result<Stdout> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Stdout::Open),
        Err(error) if error.kind() == IoErrorKind::BrokenPipe => Ok(Stdout::Closed),
        Err(error) => {
            Err(Error::new(ErrorKind::Io, "stdout", "cannot write the results").with_source(error))
        }
    }
}
