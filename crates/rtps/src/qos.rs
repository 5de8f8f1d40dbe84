//! Policies of a reader or writer.

/// Quality of service of a reader or writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qos {
    /// Whether lost samples are sent again.
    pub reliability: Reliability,
    /// Whether a late reader gets earlier samples.
    pub durability: Durability,
    /// How many samples are kept.
    pub history: History,
}

/// Whether lost samples are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reliability {
    /// They are not.
    BestEffort,
    /// They are, while the writer keeps them.
    Reliable,
}

/// Whether a reader that joins late gets earlier samples. The last two appear only in
/// announcements of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// It does not.
    Volatile,
    /// It gets what the writer's history holds.
    TransientLocal,
    /// A service keeps them.
    Transient,
    /// A disk keeps them.
    Persistent,
}

/// How many samples are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// The newest; 0 counts as 1.
    KeepLast(usize),
    /// All, up to the limits: a reliable writer refuses to write, a reliable reader lets
    /// its writers wait, a best-effort reader drops the newest.
    KeepAll,
}
