//! `rosgraph_msgs/Clock`.

use super::field::{message, record};
use det_post_types::Stamp;

record! {
    /// `rosgraph_msgs/Clock`: simulated or replayed time.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Clock {
        /// The time.
        pub clock: Stamp,
    }
}

message!(Clock: "rosgraph_msgs/msg/Clock");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_round_trips() {
        let message = Clock { clock: Stamp::from_ros(1_700_000_000, 999_999_999) };
        let mut bytes = Vec::new();
        message.encode(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 12);
        assert_eq!(Clock::decode(&bytes).unwrap(), message);
        assert!(Clock::decode(&bytes[..11]).is_err());
    }
}
