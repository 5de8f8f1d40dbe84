//! Severities and loggers of ROS.

/// A severity, with the numbers of `rcl_interfaces/Log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LogLevel {
    /// For developers.
    Debug = 10,
    /// Progress.
    Info = 20,
    /// A warning.
    Warn = 30,
    /// An error.
    Error = 40,
    /// The process ends.
    Fatal = 50,
}

impl LogLevel {
    /// Every severity, the lowest first.
    pub const ALL: [Self; 5] = [Self::Debug, Self::Info, Self::Warn, Self::Error, Self::Fatal];

    /// The severity of a number; `None` for any other number.
    pub fn of_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|level| u32::from(*level as u8) == number)
    }
}

/// A logger and its level: `rcl_interfaces/LoggerLevel`. The number 0 stands for
/// a logger without a level of its own; peers may send any number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoggerLevel {
    /// Name of the logger, such as `front.det_post`; empty: the root.
    pub name: String,
    /// Number of the level.
    pub level: u32,
}
