//! Requests to a writer, and how often they are made.

use std::time::Duration;

use crate::types::Guid;
use crate::wire::NumberSet;

/// Between asking twice, at first.
pub(super) const RETRY: Duration = Duration::from_millis(50);

/// Between asking a writer twice that has sent no heartbeat, at first, and while its samples
/// wait for one.
pub(super) const GREET: Duration = Duration::from_millis(100);

/// Requests to a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub writer: Guid,
    /// From 0 on where nothing is known of what the writer has.
    pub set: NumberSet,
    pub fragments: Vec<(i64, NumberSet)>,
    pub is_final: bool,
}
