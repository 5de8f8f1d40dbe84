//! States and transitions of a managed node, with the numbers of
//! `lifecycle_msgs`.

use det_post_types::named;

named! {
    /// A state: `lifecycle_msgs/State`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    pub enum LifecycleState {
        /// Unknown; never a state of this node.
        Unknown = 0 => "unknown",
        /// Nothing is loaded.
        Unconfigured = 1 => "unconfigured",
        /// Networks are loaded and warm; no input is subscribed.
        Inactive = 2 => "inactive",
        /// Inputs are subscribed.
        Active = 3 => "active",
        /// The node has ended.
        Finalized = 4 => "finalized",
        /// Transition from `Unconfigured` to `Inactive`.
        Configuring = 10 => "configuring",
        /// Transition from `Inactive` to `Unconfigured`.
        CleaningUp = 11 => "cleaningup",
        /// Transition to `Finalized`.
        ShuttingDown = 12 => "shuttingdown",
        /// Transition from `Inactive` to `Active`.
        Activating = 13 => "activating",
        /// Transition from `Active` to `Inactive`.
        Deactivating = 14 => "deactivating",
        /// After a failed transition, before `Unconfigured` or `Finalized`.
        ErrorProcessing = 15 => "errorprocessing",
    }
    /// Name, as `ros2 lifecycle get` prints it.
    pub fn label;
}

impl LifecycleState {
    /// Number in `lifecycle_msgs/State`.
    pub fn id(self) -> u8 {
        self as u8
    }
}

/// A transition with its start and goal: `lifecycle_msgs/TransitionDescription`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecycleTransition {
    /// Number in `lifecycle_msgs/Transition`.
    pub id: u8,
    /// Name, as `ros2 lifecycle set` takes it.
    pub label: &'static str,
    /// State in which it starts.
    pub start: LifecycleState,
    /// State to which it leads.
    pub goal: LifecycleState,
}
