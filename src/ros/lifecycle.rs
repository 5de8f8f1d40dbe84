//! States and transitions of a managed node, with the numbers of
//! `lifecycle_msgs`.

/// A state: `lifecycle_msgs/State`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LifecycleState {
    /// Unknown; never a state of this node.
    Unknown = 0,
    /// Nothing is loaded.
    Unconfigured = 1,
    /// Networks are loaded and warm; no input is subscribed.
    Inactive = 2,
    /// Inputs are subscribed.
    Active = 3,
    /// The node has ended.
    Finalized = 4,
    /// Transition from `Unconfigured` to `Inactive`.
    Configuring = 10,
    /// Transition from `Inactive` to `Unconfigured`.
    CleaningUp = 11,
    /// Transition to `Finalized`.
    ShuttingDown = 12,
    /// Transition from `Inactive` to `Active`.
    Activating = 13,
    /// Transition from `Active` to `Inactive`.
    Deactivating = 14,
    /// After a failed transition, before `Unconfigured` or `Finalized`.
    ErrorProcessing = 15,
}

impl LifecycleState {
    /// Every state of `get_available_states`.
    pub const ALL: [Self; 11] = [
        Self::Unknown,
        Self::Unconfigured,
        Self::Inactive,
        Self::Active,
        Self::Finalized,
        Self::Configuring,
        Self::CleaningUp,
        Self::ShuttingDown,
        Self::Activating,
        Self::Deactivating,
        Self::ErrorProcessing,
    ];

    /// Number in `lifecycle_msgs/State`.
    pub fn id(self) -> u8 {
        self as u8
    }

    /// Name, as `ros2 lifecycle get` prints it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Unconfigured => "unconfigured",
            Self::Inactive => "inactive",
            Self::Active => "active",
            Self::Finalized => "finalized",
            Self::Configuring => "configuring",
            Self::CleaningUp => "cleaningup",
            Self::ShuttingDown => "shuttingdown",
            Self::Activating => "activating",
            Self::Deactivating => "deactivating",
            Self::ErrorProcessing => "errorprocessing",
        }
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
