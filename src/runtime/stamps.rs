//! The order of a channel's stamps.

use det_post_types::{Stamp, named};

/// A step back by at least this means that the clock starts over (a recording that loops),
/// not that messages arrive out of order.
pub(super) const RESTART_NS: i64 = 1_000_000_000;

/// How far ahead of a frame's stamp there may be poses of the same run.
const POSE_LEAD_NS: i64 = 1_000_000_000;

named! {
    /// The order of a stamp and the newest one before it. Frames are processed in any case.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StampOrder {
        /// It is the first, or later.
        Rising => "rising",
        /// It is the same.
        Equal => "equal",
        /// It is earlier by less than a second.
        Back => "back",
        /// It is earlier by a second or more: the clock starts over.
        Restart => "restart",
    }
    /// The name in reports.
    pub fn name;
}

/// The newest stamp of a channel.
#[derive(Clone, Copy, Debug, Default)]
pub struct StampWatch {
    newest: Option<Stamp>,
    /// The stamp of the last restart that has not been taken.
    restart: Option<Stamp>,
}

impl StampWatch {
    /// Compares a stamp with the newest. After a restart, by the stamps or by
    /// `starts_over`, the stamp is the newest.
    pub fn note(&mut self, stamp: Stamp, starts_over: bool) -> StampOrder {
        let order = match self.newest {
            _ if starts_over => StampOrder::Restart,
            None => StampOrder::Rising,
            Some(newest) => match newest.nanos().saturating_sub(stamp.nanos()) {
                0 => StampOrder::Equal,
                RESTART_NS.. => StampOrder::Restart,
                1.. => StampOrder::Back,
                _ => StampOrder::Rising,
            },
        };
        if matches!(order, StampOrder::Rising | StampOrder::Restart) {
            self.newest = Some(stamp);
        }
        if order == StampOrder::Restart {
            self.restart = Some(stamp);
        }
        order
    }

    /// If the stamps have started over since the last call: the last time that a pose of the new run
    /// can have. Later poses are of the previous run.
    pub fn take_restart(&mut self) -> Option<Stamp> {
        let restart = self.restart.take()?;
        Some(Stamp::from_nanos(restart.nanos().saturating_add(POSE_LEAD_NS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_name() {
        let second = 1_000_000_000;
        let mut watch = StampWatch::default();
        for (nanos, order) in [
            (5 * second, StampOrder::Rising),
            (5 * second, StampOrder::Equal),
            (5 * second + 1, StampOrder::Rising),
            (5 * second, StampOrder::Back),
            (4 * second + 2, StampOrder::Back),
            (4 * second + 1, StampOrder::Restart),
            (4 * second + 2, StampOrder::Rising),
            (i64::MAX, StampOrder::Rising),
            (i64::MIN, StampOrder::Restart),
        ] {
            assert_eq!(watch.note(Stamp::from_nanos(nanos), false), order, "{nanos}");
        }
        assert_eq!(watch.note(Stamp::from_nanos(9), true), StampOrder::Restart);
        assert_eq!(watch.note(Stamp::from_nanos(10), false), StampOrder::Rising);
        assert!(StampOrder::ALL.iter().enumerate().all(|(i, &order)| order as usize == i));
    }
}
