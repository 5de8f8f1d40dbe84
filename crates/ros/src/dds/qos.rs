//! Quality of service as DDS policies.

use rustdds::dds::qos::QosPolicyId;
use rustdds::policy::ResourceLimits;
use rustdds::policy::{Durability as DdsDurability, History, Reliability as DdsReliability};
use rustdds::{Duration, QosPolicies, QosPolicyBuilder};

use crate::messages::type_hash;
use crate::middleware::{Durability, Qos, Reliability};

/// Messages that a reliable writer keeps for readers that have not confirmed
/// them; with more outstanding it refuses the next. Half a minute of detections
/// at 30 Hz: longer than it takes to detect that a reader is gone.
const MAX_UNCONFIRMED: i32 = 1024;

/// The policies of an endpoint of messages of a type, whose hash other nodes read in
/// its user data.
pub(super) fn with_type(policies: QosPolicies, type_name: &str) -> QosPolicies {
    match type_hash(type_name) {
        Some(hash) => policies.with_user_data(format!("typehash={hash};").into_bytes()),
        None => policies,
    }
}

/// Policies of a reader. It keeps at most `depth` messages.
pub(super) fn of_reader(qos: Qos) -> QosPolicies {
    let depth = depth(qos);
    policies(qos).resource_limits(at_most(depth)).build()
}

/// Policies of a writer. A write never waits.
pub(super) fn of_writer(qos: Qos) -> QosPolicies {
    let depth = depth(qos);
    policies(qos).resource_limits(at_most(depth.max(MAX_UNCONFIRMED))).build()
}

fn policies(qos: Qos) -> QosPolicyBuilder {
    QosPolicyBuilder::new()
        .reliability(match qos.reliability {
            Reliability::BestEffort => DdsReliability::BestEffort,
            Reliability::Reliable => DdsReliability::Reliable { max_blocking_time: Duration::ZERO },
        })
        .durability(match qos.durability {
            Durability::Volatile => DdsDurability::Volatile,
            Durability::TransientLocal => DdsDurability::TransientLocal,
        })
        .history(History::KeepLast { depth: depth(qos) })
}

fn depth(qos: Qos) -> i32 {
    i32::try_from(qos.depth).unwrap_or(i32::MAX).max(1)
}

fn at_most(max_samples: i32) -> ResourceLimits {
    ResourceLimits { max_samples, max_instances: 1, max_samples_per_instance: max_samples }
}

/// ROS's name of the first policy in which `offered` does not satisfy
/// `requested`; `None` when all do.
pub(super) fn mismatch(offered: &QosPolicies, requested: &QosPolicies) -> Option<String> {
    let policy = offered.compliance_failure_wrt(requested)?;
    Some(match policy {
        QosPolicyId::Durability => "durability".to_owned(),
        QosPolicyId::Reliability => "reliability".to_owned(),
        QosPolicyId::Deadline => "deadline".to_owned(),
        QosPolicyId::Liveliness => "liveliness".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_that_differs_is_named() {
        let latched = Qos::LATCHED;
        let cases = [
            (Qos::DEFAULT, Qos::DEFAULT, None),
            (Qos::DEFAULT, Qos::SENSOR_DATA, None),
            (latched, Qos::DEFAULT, None),
            (Qos::SENSOR_DATA, Qos::DEFAULT, Some("reliability")),
            (Qos::DEFAULT, latched, Some("durability")),
        ];
        for (offered, requested, expected) in cases {
            let found = mismatch(&of_writer(offered), &of_reader(requested));
            assert_eq!(found.as_deref(), expected, "{offered:?} {requested:?}");
        }
    }

    #[test]
    fn a_reader_keeps_its_depth_and_no_more() {
        for (depth, kept) in [(0, 1), (1, 1), (5, 5), (usize::MAX, i32::MAX)] {
            let policies = of_reader(Qos { depth, ..Qos::SENSOR_DATA });
            assert_eq!(policies.history(), Some(History::KeepLast { depth: kept }));
            assert_eq!(policies.resource_limits().map(|limits| limits.max_samples), Some(kept));
        }
    }
}
