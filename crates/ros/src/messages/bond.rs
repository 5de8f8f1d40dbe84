//! `bond/Status`.

use super::field::{message, record};
use det_post_types::Header;

record! {
    /// `bond/Status`: a heartbeat of one of the two sides of a bond.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct BondStatus<'a> {
        /// When; the frame is not used.
        pub header: Header<'a>,
        /// Name of the bond, which both sides share.
        pub id: &'a str,
        /// Name of the side, unique.
        pub instance_id: &'a str,
        /// Whether the side is alive.
        pub active: bool,
        /// After how long without a heartbeat the side breaks the bond, in seconds.
        pub heartbeat_timeout_s: f32,
        /// Time from one of its heartbeats to the next, in seconds.
        pub heartbeat_period_s: f32,
    }
}

message!(BondStatus<'a>: "bond/msg/Status");

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Stamp;

    #[test]
    fn a_heartbeat_round_trips() {
        let status = BondStatus {
            header: Header { stamp: Stamp::from_ros(5, 6), frame_id: "" },
            id: "det_post",
            instance_id: "d2c1",
            active: true,
            heartbeat_timeout_s: 4.0,
            heartbeat_period_s: 0.1,
        };
        let mut bytes = Vec::new();
        status.encode(&mut bytes).unwrap();
        assert_eq!(BondStatus::decode(&bytes).unwrap(), status);
        assert!(BondStatus::decode(&bytes[..bytes.len() - 4]).is_err());
    }
}
