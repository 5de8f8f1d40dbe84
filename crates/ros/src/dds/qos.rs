//! Quality of service as DDS policies.

use det_post_rtps as rtps;

use crate::messages::type_hash;
use crate::middleware::{Durability, Qos, Reliability};

/// Messages that a reliable writer keeps for readers that have not confirmed
/// them; with more outstanding the oldest are lost to those readers. Half a minute of
/// detections at 30 Hz: longer than it takes to detect that a reader is gone.
pub(super) const MAX_UNCONFIRMED: usize = 1024;

/// The user data of an endpoint of messages of a type, in which other nodes read the
/// type's hash.
pub(super) fn user_data(type_name: &str) -> Vec<u8> {
    type_hash(type_name).map_or_else(Vec::new, |hash| format!("typehash={hash};").into_bytes())
}

/// The policies of an endpoint, which keeps the last messages.
pub(super) fn policies(qos: Qos) -> rtps::Qos {
    rtps::Qos {
        reliability: match qos.reliability {
            Reliability::BestEffort => rtps::Reliability::BestEffort,
            Reliability::Reliable => rtps::Reliability::Reliable,
        },
        durability: match qos.durability {
            Durability::Volatile => rtps::Durability::Volatile,
            Durability::TransientLocal => rtps::Durability::TransientLocal,
        },
        history: rtps::History::KeepLast(qos.depth.max(1)),
    }
}
