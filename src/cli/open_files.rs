//! The number of files that the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to the highest that is allowed without privileges: a recording of many files has
/// all of them open, and the usual limit is 1024.
pub(super) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!("open files stay limited to {}: {error}", current.unwrap_or_default());
    }
}
