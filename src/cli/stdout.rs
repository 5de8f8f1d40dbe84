//! Standard output, where results go.

use std::io::{ErrorKind as IoErrorKind, Write};

use crate::error::{Error, ErrorKind, Result};

/// Whether standard output is still read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stdout {
    /// As far as the system tells.
    Open,
    /// The other end of the pipe is closed (`det_post … | head -1`). The text is
    /// dropped: there is no one left to tell.
    Closed,
}

/// Writes a text at once.
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
