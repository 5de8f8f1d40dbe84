//! The bond that Nav2's lifecycle manager asks for (its `bond_timeout` above 0):
//! heartbeats in both directions, so that each side notices the end of the other.
//!
//! A manager that has activated a node publishes heartbeats under the node's name
//! on `bond` and expects the node's on the same topic. The protocol is that of
//! bondcpp: a side that ends says so with `active` false, and the other confirms.
//! Unlike Nav2's nodes, this one publishes nothing until a manager asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use det_post_ros::NodeName;
use det_post_ros::messages::BondStatus;
use det_post_ros::middleware::{InputKind, Middleware, Publisher, Qos, Received, Subscription};
use det_post_types::{Error, ErrorKind, Header, Result, Stamp};

/// Topic of the heartbeats, in the namespace of the node.
pub(super) const BOND_TOPIC: &str = "bond";

/// Quality of service of bondcpp.
pub(super) const BOND_OUT_QOS: Qos = Qos { depth: 5, ..Qos::DEFAULT };
pub(super) const BOND_IN_QOS: Qos = Qos { depth: 30, ..Qos::DEFAULT };

/// Time between heartbeats of this node, as in Nav2.
const PERIOD: Duration = Duration::from_millis(100);

/// Time without heartbeats of the manager that breaks the bond, where the manager
/// names none, as in bondcpp.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(4);

/// Longest time that a manager may name.
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);

/// Heartbeats that wait for the thread; more of them say nothing new.
const MAX_WAITING: usize = 16;

/// A heartbeat of another side of this node's bond.
#[derive(Clone, Debug)]
struct Heartbeat {
    instance: String,
    is_alive: bool,
    timeout: Duration,
}

/// What happens to the thread of a bond.
enum Event {
    Heard(Heartbeat),
    /// The node is no longer active.
    End,
}

/// What follows from an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Formed,
    /// The manager ended the bond, which is confirmed.
    Ended,
    /// The manager is silent.
    Broken,
}

/// The bond of the node: the manager, if one asked, and until when it is believed
/// to be alive. A state machine without a clock.
#[derive(Debug, Default)]
struct Bond {
    manager: Option<(Heartbeat, Instant)>,
}

impl Bond {
    fn note(&mut self, heartbeat: Heartbeat, now: Instant) -> Option<Change> {
        match &self.manager {
            None if heartbeat.is_alive => {
                let until = now + heartbeat.timeout;
                self.manager = Some((heartbeat, until));
                Some(Change::Formed)
            }
            Some((known, _)) if known.instance == heartbeat.instance => {
                if heartbeat.is_alive {
                    let until = now + heartbeat.timeout;
                    self.manager = Some((heartbeat, until));
                    return None;
                }
                self.manager = None;
                Some(Change::Ended)
            }
            // A bond has two sides: a third one waits until the other is gone.
            _ => None,
        }
    }

    fn check(&mut self, now: Instant) -> Option<Change> {
        let is_silent = self.manager.as_ref().is_some_and(|(_, until)| now >= *until);
        if is_silent {
            self.manager = None;
        }
        is_silent.then_some(Change::Broken)
    }
}

/// Keeps the bond of an active node until it is dropped.
pub(super) struct BondKeeper {
    events: SyncSender<Event>,
    thread: Option<JoinHandle<()>>,
    _subscription: Box<dyn Subscription>,
}

impl BondKeeper {
    /// Waits for a manager.
    ///
    /// # Errors
    /// `Middleware` when the graph refuses or does not know the type, `Io` when there is
    /// no thread.
    pub(super) fn start(node: &NodeName, middleware: &mut dyn Middleware) -> Result<Self> {
        let publisher = middleware.advertise(BOND_TOPIC, BondStatus::TYPE, BOND_OUT_QOS)?;
        let (events, received) = sync_channel(MAX_WAITING);
        let side = Side { publisher, id: node.name().to_owned(), instance: unique_name() };
        let (name, full_name, own) = (side.id.clone(), node.full(), side.instance.clone());
        let heard = events.clone();
        let receiver = Box::new(move |message: Result<Received<'_>>| {
            let Ok(Received::Bond(status)) = message else { return };
            let is_of_node = status.id == name || status.id == full_name;
            if is_of_node && status.instance_id != own {
                let _ = heard.try_send(Event::Heard(heartbeat_of(&status)));
            }
        });
        let subscription =
            middleware.subscribe(BOND_TOPIC, InputKind::Bond, BOND_IN_QOS, receiver)?;
        let thread = std::thread::Builder::new()
            .name("bond".into())
            .spawn(move || keep(&received, side))
            .map_err(|e| Error::new(ErrorKind::Io, "bond", "no thread").with_source(e))?;
        Ok(Self { events, thread: Some(thread), _subscription: subscription })
    }
}

impl Drop for BondKeeper {
    fn drop(&mut self) {
        // The thread takes events until this one.
        let _ = self.events.send(Event::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn heartbeat_of(status: &BondStatus<'_>) -> Heartbeat {
    let timeout = Duration::try_from_secs_f32(status.heartbeat_timeout_s).unwrap_or_default();
    Heartbeat {
        instance: status.instance_id.to_owned(),
        is_alive: status.active,
        timeout: if timeout.is_zero() { DEFAULT_TIMEOUT } else { timeout.min(MAX_TIMEOUT) },
    }
}

/// This side of the bond.
struct Side {
    publisher: Box<dyn Publisher>,
    id: String,
    instance: String,
}

impl Side {
    fn publish(&mut self, active: bool, timeout: Duration) {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let stamp = Stamp::from_nanos(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX));
        let status = BondStatus {
            header: Header { stamp, frame_id: "" },
            id: &self.id,
            instance_id: &self.instance,
            active,
            heartbeat_timeout_s: timeout.as_secs_f32(),
            heartbeat_period_s: PERIOD.as_secs_f32(),
        };
        let mut bytes = Vec::new();
        if let Err(error) = status.encode(&mut bytes).and_then(|()| self.publisher.publish(&bytes))
        {
            tracing::warn!("bond: {error}");
        }
    }
}

/// Publishes heartbeats while there is a manager, until the node is no longer
/// active.
fn keep(events: &Receiver<Event>, mut side: Side) {
    let mut bond = Bond::default();
    let mut next = Instant::now();
    loop {
        let event = match &bond.manager {
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => events.recv_timeout(next.saturating_duration_since(Instant::now())),
        };
        let now = Instant::now();
        let change = match event {
            Ok(Event::Heard(heartbeat)) => bond.note(heartbeat, now),
            Err(RecvTimeoutError::Timeout) => None,
            Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => break,
        };
        let change = change.or_else(|| bond.check(now));
        match change {
            None => {}
            Some(Change::Formed) => {
                tracing::info!("bond: a lifecycle manager watches this node");
                next = now;
            }
            Some(Change::Ended) => {
                tracing::info!("bond: the lifecycle manager ended it");
                side.publish(false, DEFAULT_TIMEOUT);
            }
            Some(Change::Broken) => {
                tracing::warn!("bond: the lifecycle manager sends no heartbeat");
                side.publish(false, DEFAULT_TIMEOUT);
            }
        }
        if let Some((manager, _)) = &bond.manager
            && now >= next
        {
            side.publish(true, manager.timeout);
            next = now + PERIOD;
        }
    }
    if let Some((manager, _)) = &bond.manager {
        side.publish(false, manager.timeout);
    }
}

/// A name that no other side has.
fn unique_name() -> String {
    static NUM_MADE: AtomicU64 = AtomicU64::new(0);
    let number = NUM_MADE.fetch_add(1, Ordering::Relaxed);
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}-{number:x}", std::process::id(), since_epoch.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heartbeat(instance: &str, is_alive: bool) -> Heartbeat {
        Heartbeat { instance: instance.into(), is_alive, timeout: Duration::from_secs(2) }
    }

    #[test]
    fn a_bond_is_formed_kept_ended_and_broken() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut bond = Bond::default();
        assert_eq!(bond.note(heartbeat("a", false), at(0)), None, "no bond to end");
        assert_eq!(bond.note(heartbeat("a", true), at(0)), Some(Change::Formed));
        assert_eq!(bond.check(at(1)), None);
        assert_eq!(bond.note(heartbeat("a", true), at(1)), None);
        // A second manager neither takes nor ends the bond of the first.
        assert_eq!(bond.note(heartbeat("b", true), at(1)), None);
        assert_eq!(bond.note(heartbeat("b", false), at(1)), None);
        assert_eq!(bond.check(at(2)), None, "the heartbeat at 1 s holds to 3 s");
        assert_eq!(bond.check(at(3)), Some(Change::Broken));
        assert_eq!(bond.check(at(4)), None, "broken once");
        assert_eq!(bond.note(heartbeat("b", true), at(4)), Some(Change::Formed));
        assert_eq!(bond.note(heartbeat("b", false), at(5)), Some(Change::Ended));
        assert!(bond.manager.is_none());
    }

    #[test]
    fn a_timeout_of_the_manager_is_used_where_it_makes_sense() {
        let timeout = |heartbeat_timeout_s| {
            let status = BondStatus {
                header: Header::default(),
                id: "det_post",
                instance_id: "a",
                active: true,
                heartbeat_timeout_s,
                heartbeat_period_s: 0.1,
            };
            heartbeat_of(&status).timeout
        };
        assert_eq!(timeout(1.5), Duration::from_millis(1500));
        for senseless in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(timeout(senseless), DEFAULT_TIMEOUT, "{senseless}");
        }
        assert_eq!(timeout(1e9), MAX_TIMEOUT);
    }
}
