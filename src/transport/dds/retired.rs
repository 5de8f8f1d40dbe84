//! Writers on their way out.
//!
//! What a writer sent last, and its reader has not confirmed, is lost with the
//! writer: an answer to `shutdown`, the last detections. So a writer stays
//! until every reader has confirmed all of it, or for [`PATIENCE`]; meanwhile
//! nobody waits for it but a door that closes.

use std::time::{Duration, Instant};

use super::payload::RawWriter;
use super::{Graph, held};

/// How long a writer waits for readers that do not confirm: what the frame in
/// flight leaves of the second in which the program is to end.
pub(super) const PATIENCE: Duration = Duration::from_millis(200);

/// How often a door that closes looks.
const POLL: Duration = Duration::from_millis(2);

/// A writer that nobody writes with any more.
pub(super) struct Leaving {
    writer: RawWriter,
    until: Instant,
}

impl Leaving {
    fn may_go(&self, now: Instant) -> bool {
        let is_confirmed = self.writer.wait_for_acknowledgments(Duration::ZERO);
        !matches!(is_confirmed, Ok(false)) || now >= self.until
    }
}

impl Graph {
    /// Lets go of a writer once what it wrote has arrived.
    pub(super) fn see_off(&self, writer: RawWriter) {
        let leaving = Leaving { writer, until: Instant::now() + PATIENCE };
        held(&self.leaving).push(leaving);
        self.let_go();
    }

    /// Lets go of the writers that may leave now; tells whether others stay.
    pub(super) fn let_go(&self) -> bool {
        let now = Instant::now();
        let mut leaving = held(&self.leaving);
        let gone: Vec<_> = leaving.extract_if(.., |writer| writer.may_go(now)).collect();
        let some_stay = !leaving.is_empty();
        drop(leaving);
        for Leaving { writer, .. } in gone {
            self.leave(rustdds::RTPSEntity::guid(&writer));
        }
        some_stay
    }

    /// Waits until all writers that are to leave have left.
    pub(super) fn await_leaving(&self) {
        while self.let_go() {
            std::thread::sleep(POLL);
        }
    }
}
