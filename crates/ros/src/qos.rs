//! Quality of service of a topic.

use std::fmt;

use det_post_types::named;

/// Quality of service, on which publisher and subscriber must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Qos {
    /// Whether lost messages are sent again.
    pub reliability: Reliability,
    /// Whether late subscribers receive messages that were published before.
    pub durability: Durability,
    /// Messages kept for a slow reader (history: keep last).
    pub depth: usize,
}

impl Qos {
    /// The profile of ROS for sensor data: best effort, volatile, the last 5.
    pub const SENSOR_DATA: Self =
        Self { reliability: Reliability::BestEffort, durability: Durability::Volatile, depth: 5 };
    /// The default profile of ROS: reliable, volatile, the last 10.
    pub const DEFAULT: Self =
        Self { reliability: Reliability::Reliable, durability: Durability::Volatile, depth: 10 };
    /// For messages that are published once (`/tf_static`, labels): reliable,
    /// transient local.
    /// The depth of a subscription should be raised where there are several
    /// publishers.
    pub const LATCHED: Self = Self {
        reliability: Reliability::Reliable,
        durability: Durability::TransientLocal,
        depth: 1,
    };
}

named! {
    /// Whether a node publishes or subscribes to a topic.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Direction {
        /// The node publishes.
        Publisher => "publisher",
        /// The node subscribes.
        Subscription => "subscription",
    }
    /// The name in ROS's parameters.
    pub fn name;
}

named! {
    /// Whether lost messages are sent again.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Reliability {
        /// Lost messages are not sent again.
        BestEffort => "best_effort",
        /// Lost messages are sent again.
        Reliable => "reliable",
    }
    /// The name in ROS's parameters.
    pub fn name;
}

named! {
    /// Whether late subscribers receive messages that were published before.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Durability {
        /// Late subscribers receive new messages only.
        Volatile => "volatile",
        /// The publisher sends late subscribers the last `depth` messages.
        TransientLocal => "transient_local",
    }
    /// The name in ROS's parameters.
    pub fn name;
}

impl fmt::Display for Qos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reliability = match self.reliability {
            Reliability::BestEffort => "best effort",
            Reliability::Reliable => "reliable",
        };
        let durability = match self.durability {
            Durability::Volatile => "volatile",
            Durability::TransientLocal => "transient local",
        };
        write!(f, "{reliability}, {durability}, last {}", self.depth)
    }
}
