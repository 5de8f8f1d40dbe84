//! Whether a reader and a writer match (DDS 1.4, table in 2.2.3).

use std::time::Duration;

use super::duration::{INFINITE, duration};
use crate::qos::{Durability, History, Qos, Reliability};
use crate::types::{EndpointKind, Mismatch};
use crate::wire::{Cursor, Parameter, ParameterWriter, pid};

/// All policies that decide whether endpoints match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointQos {
    pub qos: Qos,
    deadline: Duration,
    /// Automatic, manual by participant, manual by topic.
    liveliness: u32,
    liveliness_lease: Duration,
    is_exclusive: bool,
    /// Scope, coherent, ordered.
    presentation: (u32, bool, bool),
    orders_by_source: bool,
    is_in_partition: bool,
}

impl EndpointQos {
    /// Default policies but for those in `qos`.
    pub fn new(qos: Qos) -> Self {
        Self {
            qos,
            deadline: INFINITE,
            liveliness: 0,
            liveliness_lease: INFINITE,
            is_exclusive: false,
            presentation: (0, false, false),
            orders_by_source: false,
            is_in_partition: false,
        }
    }

    /// The policies of an endpoint that announces none.
    pub fn unsaid(kind: EndpointKind) -> Self {
        let reliability = match kind {
            EndpointKind::Reader => Reliability::BestEffort,
            EndpointKind::Writer => Reliability::Reliable,
        };
        let (durability, history) = (Durability::Volatile, History::KeepLast(1));
        Self::new(Qos { reliability, durability, history })
    }

    /// Takes over a parameter that is a policy; `None` when its value is malformed.
    pub fn read(&mut self, Parameter { id, mut value }: Parameter<'_>) -> Option<()> {
        let value = &mut value;
        match id {
            pid::RELIABILITY => {
                self.qos.reliability = match value.u32()? {
                    1 => Reliability::BestEffort,
                    2 => Reliability::Reliable,
                    _ => return None,
                };
            }
            pid::DURABILITY => {
                self.qos.durability = match value.u32()? {
                    0 => Durability::Volatile,
                    1 => Durability::TransientLocal,
                    2 => Durability::Transient,
                    3 => Durability::Persistent,
                    _ => return None,
                };
            }
            pid::HISTORY => {
                let (kind, depth) = (value.u32()?, value.u32()?);
                let last = History::KeepLast(depth as usize);
                self.qos.history = if kind == 0 { last } else { History::KeepAll };
            }
            pid::DEADLINE => self.deadline = duration(value)?,
            pid::LIVELINESS => {
                self.liveliness = value.u32()?;
                self.liveliness_lease = duration(value)?;
            }
            pid::OWNERSHIP => self.is_exclusive = value.u32()? == 1,
            pid::PRESENTATION => {
                let (scope, [coherent, ordered]) = (value.u32()?, value.array::<2>()?);
                self.presentation = (scope, coherent != 0, ordered != 0);
            }
            pid::DESTINATION_ORDER => self.orders_by_source = value.u32()? == 1,
            pid::PARTITION => self.is_in_partition = !has_default_partition(value)?,
            _ => {}
        }
        Some(())
    }

    /// Appends the policies of an endpoint of ours.
    pub fn write(&self, list: &mut ParameterWriter) {
        let reliability: u32 = match self.qos.reliability {
            Reliability::BestEffort => 1,
            Reliability::Reliable => 2,
        };
        // Blocks for 100 ms at most, the default.
        let blocking = (100_u64 << 32) / 1000;
        let blocking = [[0; 4], (blocking as u32).to_le_bytes()].concat();
        list.put(pid::RELIABILITY, &[&reliability.to_le_bytes(), &blocking[..]].concat());
        list.put_u32(pid::DURABILITY, self.qos.durability as u32);
        let (kind, depth) = match self.qos.history {
            History::KeepLast(depth) => (0_u32, i32::try_from(depth.max(1)).unwrap_or(i32::MAX)),
            History::KeepAll => (1, -1),
        };
        list.put(pid::HISTORY, &[kind.to_le_bytes(), depth.to_le_bytes()].concat());
    }
}

/// Whether a list of partitions is empty, or has the default one: it has no name.
fn has_default_partition(value: &mut Cursor<'_>) -> Option<bool> {
    let count = value.u32()?;
    let mut has = count == 0;
    // A list of more names than the parameter has bytes ends at its end.
    for _ in 0..count.min(64) {
        let name = value.text(usize::MAX)?;
        let padding = (4 - (name.len() + 1) % 4) % 4;
        has |= name.is_empty() || name == "*";
        if value.take(padding).is_none() {
            break;
        }
    }
    Some(has)
}

/// The first policy in which what a writer offers does not satisfy what a reader requests.
pub(crate) fn mismatch(offered: &EndpointQos, requested: &EndpointQos) -> Option<Mismatch> {
    let presentation = |qos: &EndpointQos| qos.presentation;
    let (offered_scope, offers_coherent, offers_ordered) = presentation(offered);
    let (scope, coherent, ordered) = presentation(requested);
    let is_presented =
        offered_scope >= scope && (offers_coherent || !coherent) && (offers_ordered || !ordered);
    let is_alive = offered.liveliness >= requested.liveliness
        && offered.liveliness_lease <= requested.liveliness_lease;
    let checks = [
        (offered.qos.durability >= requested.qos.durability, Mismatch::Durability),
        (offered.qos.reliability >= requested.qos.reliability, Mismatch::Reliability),
        (offered.deadline <= requested.deadline, Mismatch::Deadline),
        (is_alive, Mismatch::Liveliness),
        (offered.is_exclusive == requested.is_exclusive, Mismatch::Ownership),
        (!offered.is_in_partition && !requested.is_in_partition, Mismatch::Partition),
        (offered.orders_by_source || !requested.orders_by_source, Mismatch::DestinationOrder),
        (is_presented, Mismatch::Presentation),
    ];
    checks.into_iter().find(|(holds, _)| !holds).map(|(_, mismatch)| mismatch)
}
