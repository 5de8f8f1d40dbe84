//! The life cycle of a managed node, as in `rclcpp_lifecycle`.
//!
//! A state machine without side effects: the caller passes the work of a change.
//! The machine checks whether the change is allowed, reports each transition, and
//! enters the state that follows from the result of the work. After a failure
//! that is the previous state; failures leave the node in a defined state, so
//! there is no error processing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use det_post_ros::LifecycleState::{
    self, Activating, Active, CleaningUp, Configuring, Deactivating, ErrorProcessing, Finalized,
    Inactive, ShuttingDown, Unconfigured,
};
use det_post_ros::LifecycleTransition;
use det_post_types::{Error, ErrorKind, Result};

/// Stage of the errors of changes that are refused.
pub const STAGE: &str = "lifecycle";

const SUCCESS: &str = "transition_success";
const FAILURE: &str = "transition_failure";
const ERROR: &str = "transition_error";

/// All transitions with number and label, those that can be requested first.
#[rustfmt::skip]
pub const TRANSITIONS: [LifecycleTransition; 25] = [
    transition(1, "configure", Unconfigured, Configuring),
    transition(2, "cleanup", Inactive, CleaningUp),
    transition(3, "activate", Inactive, Activating),
    transition(4, "deactivate", Active, Deactivating),
    transition(5, "shutdown", Unconfigured, ShuttingDown),
    transition(6, "shutdown", Inactive, ShuttingDown),
    transition(7, "shutdown", Active, ShuttingDown),
    transition(10, SUCCESS, Configuring, Inactive),
    transition(11, FAILURE, Configuring, Unconfigured),
    transition(12, ERROR, Configuring, ErrorProcessing),
    transition(20, SUCCESS, CleaningUp, Unconfigured),
    transition(21, FAILURE, CleaningUp, Inactive),
    transition(22, ERROR, CleaningUp, ErrorProcessing),
    transition(30, SUCCESS, Activating, Active),
    transition(31, FAILURE, Activating, Inactive),
    transition(32, ERROR, Activating, ErrorProcessing),
    transition(40, SUCCESS, Deactivating, Inactive),
    transition(41, FAILURE, Deactivating, Active),
    transition(42, ERROR, Deactivating, ErrorProcessing),
    transition(50, SUCCESS, ShuttingDown, Finalized),
    transition(51, FAILURE, ShuttingDown, Finalized),
    transition(52, ERROR, ShuttingDown, ErrorProcessing),
    transition(60, SUCCESS, ErrorProcessing, Unconfigured),
    transition(61, FAILURE, ErrorProcessing, Finalized),
    transition(62, ERROR, ErrorProcessing, Finalized),
];

/// Number of [`TRANSITIONS`] that can be requested.
const NUM_PUBLIC: usize = 7;

const fn transition(
    id: u8,
    label: &'static str,
    start: LifecycleState,
    goal: LifecycleState,
) -> LifecycleTransition {
    LifecycleTransition { id, label, start, goal }
}

/// The changes that can be requested of a managed node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Load and warm the networks.
    Configure,
    /// Drop the networks.
    Cleanup,
    /// Subscribe to the inputs.
    Activate,
    /// Unsubscribe from the inputs.
    Deactivate,
    /// End, from any primary state.
    Shutdown,
}

impl Change {
    /// The change of a request: by its label if there is one, else by its number.
    pub fn of_request(id: u8, label: &str) -> Option<Self> {
        let requested = TRANSITIONS[..NUM_PUBLIC].iter().find(|transition| {
            if label.is_empty() { transition.id == id } else { transition.label == label }
        })?;
        Some(match requested.goal {
            Configuring => Self::Configure,
            CleaningUp => Self::Cleanup,
            Activating => Self::Activate,
            Deactivating => Self::Deactivate,
            _ => Self::Shutdown,
        })
    }

    fn transition_state(self) -> LifecycleState {
        match self {
            Self::Configure => Configuring,
            Self::Cleanup => CleaningUp,
            Self::Activate => Activating,
            Self::Deactivate => Deactivating,
            Self::Shutdown => ShuttingDown,
        }
    }
}

/// The state of the node, shared between threads.
#[derive(Debug)]
pub struct Lifecycle {
    state: AtomicU8,
    /// Held during a change.
    changing: Mutex<()>,
}

impl Lifecycle {
    /// An unconfigured node.
    pub fn new() -> Self {
        Self { state: AtomicU8::new(Unconfigured.id()), changing: Mutex::new(()) }
    }

    /// The current state; during a change its transition state.
    pub fn state(&self) -> LifecycleState {
        let id = self.state.load(Ordering::Acquire);
        let state = LifecycleState::ALL.iter().find(|state| state.id() == id);
        state.copied().unwrap_or(LifecycleState::Unknown)
    }

    /// The transitions from the current state.
    pub fn available(&self) -> Vec<LifecycleTransition> {
        let state = self.state();
        TRANSITIONS.iter().filter(|transition| transition.start == state).copied().collect()
    }

    /// Performs a change: does its work and enters the state that follows from the
    /// result. `report` is called with both transitions.
    ///
    /// # Errors
    /// `Argument`, without an effect, when the change is not allowed in the current
    /// state or another is in progress; else the error of the work, after which the
    /// node is in its previous state (after `Shutdown`: finalized).
    pub fn change(
        &self,
        change: Change,
        work: impl FnOnce() -> Result<()>,
        mut report: impl FnMut(LifecycleTransition),
    ) -> Result<()> {
        let Ok(_changing) = self.changing.try_lock() else {
            return Err(self.refusal(change, "another change is in progress"));
        };
        let state = self.state();
        let mut public = TRANSITIONS[..NUM_PUBLIC].iter();
        let first = public.find(|t| t.start == state && t.goal == change.transition_state());
        let Some(first) = first else {
            return Err(self.refusal(change, "there is no such transition"));
        };
        self.step(first, &mut report);
        let result = work();
        let label = if result.is_ok() { SUCCESS } else { FAILURE };
        let mut steps = TRANSITIONS.iter();
        if let Some(last) = steps.find(|t| t.start == first.goal && t.label == label) {
            self.step(last, &mut report);
        }
        result
    }

    fn step(&self, step: &LifecycleTransition, report: &mut impl FnMut(LifecycleTransition)) {
        self.state.store(step.goal.id(), Ordering::Release);
        report(*step);
    }

    fn refusal(&self, change: Change, why: &str) -> Error {
        let state = self.state().label();
        let message = format!("cannot {change:?} while {state}: {why}");
        Error::new(ErrorKind::Argument, STAGE, message)
    }
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(states: &[Change]) -> Lifecycle {
        let lifecycle = Lifecycle::new();
        for change in states {
            lifecycle.change(*change, || Ok(()), |_| {}).unwrap();
        }
        lifecycle
    }

    #[test]
    fn every_path_between_primary_states() {
        use Change::{Activate, Cleanup, Configure, Deactivate, Shutdown};
        let states = [
            (&[][..], Unconfigured),
            (&[Configure], Inactive),
            (&[Configure, Activate], Active),
            (&[Shutdown], Finalized),
        ];
        let ways = [
            (Unconfigured, Configure, Inactive),
            (Inactive, Cleanup, Unconfigured),
            (Inactive, Activate, Active),
            (Active, Deactivate, Inactive),
            (Unconfigured, Shutdown, Finalized),
            (Inactive, Shutdown, Finalized),
            (Active, Shutdown, Finalized),
        ];
        for (path, state) in states {
            for change in [Configure, Cleanup, Activate, Deactivate, Shutdown] {
                let lifecycle = rest(path);
                assert_eq!(lifecycle.state(), state);
                let way = ways.iter().find(|way| way.0 == state && way.1 == change);
                let mut steps = Vec::new();
                let result = lifecycle.change(change, || Ok(()), |step| steps.push(step));
                assert_eq!(result.is_ok(), way.is_some(), "{state:?} {change:?}");
                assert_eq!(lifecycle.state(), way.map_or(state, |way| way.2));
                assert_eq!(steps.len(), if way.is_some() { 2 } else { 0 });
                assert!(steps.windows(2).all(|pair| pair[0].goal == pair[1].start));
            }
        }
    }

    #[test]
    fn a_failure_returns_to_the_previous_state() {
        let lifecycle = Lifecycle::new();
        let fail = || Err(Error::new(ErrorKind::Model, "test", "no such file"));
        let mut labels = Vec::new();
        let result = lifecycle.change(Change::Configure, fail, |step| labels.push(step.label));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Model);
        assert_eq!((lifecycle.state(), labels), (Unconfigured, vec!["configure", FAILURE]));
    }

    #[test]
    fn one_change_at_a_time_and_its_transition_state_is_visible() {
        let lifecycle = Lifecycle::new();
        let work = || {
            assert_eq!(lifecycle.state(), Configuring);
            assert!(lifecycle.change(Change::Shutdown, || Ok(()), |_| {}).is_err());
            Ok(())
        };
        lifecycle.change(Change::Configure, work, |_| {}).unwrap();
        assert_eq!(lifecycle.state(), Inactive);
    }

    #[test]
    fn requests_name_a_change_by_label_or_number() {
        for (id, label, change) in [
            (1, "", Some(Change::Configure)),
            (0, "activate", Some(Change::Activate)),
            (1, "shutdown", Some(Change::Shutdown)),
            (7, "", Some(Change::Shutdown)),
            (10, "", None),
            (0, "transition_success", None),
            (0, "", None),
        ] {
            assert_eq!(Change::of_request(id, label), change, "{id} {label:?}");
        }
        let labels: Vec<_> = rest(&[Change::Configure]).available().iter().map(|t| t.id).collect();
        assert_eq!(labels, [2, 3, 6]);
    }
}
