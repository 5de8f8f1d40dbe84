//! Events of a node: `rcl_interfaces/ParameterEvent` and
//! `lifecycle_msgs/TransitionEvent`.

use super::field::{Field, write_all};
use crate::cdr::Writer;
use crate::{LifecycleState, LifecycleTransition, Parameter};
use det_post_types::{Result, Stamp};

/// `rcl_interfaces/ParameterEvent`: parameters of a node that changed.
#[derive(Clone, Copy, Debug)]
pub struct ParameterEvent<'a> {
    /// The time.
    pub stamp: Stamp,
    /// Full name of the node.
    pub node: &'a str,
    /// Parameters that were declared.
    pub new_parameters: &'a [Parameter],
    /// Parameters that were set to other values.
    pub changed_parameters: &'a [Parameter],
}

impl ParameterEvent<'_> {
    /// The ROS name.
    pub const TYPE: &'static str = "rcl_interfaces/msg/ParameterEvent";

    /// Encodes the message into `bytes`, replacing the content.
    ///
    /// # Errors
    /// `Message` when it exceeds 4 GiB.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        self.stamp.write(&mut writer);
        writer.str(self.node);
        write_all(&mut writer, self.new_parameters);
        write_all(&mut writer, self.changed_parameters);
        writer.sequence_len(0);
        writer.finish(Self::TYPE)
    }
}

/// `lifecycle_msgs/TransitionEvent`: a managed node changed its state.
#[derive(Clone, Copy, Debug)]
pub struct TransitionEvent {
    /// The time.
    pub stamp: Stamp,
    /// The transition.
    pub transition: LifecycleTransition,
}

impl TransitionEvent {
    /// The ROS name.
    pub const TYPE: &'static str = "lifecycle_msgs/msg/TransitionEvent";

    /// Encodes the message into `bytes`, replacing the content.
    ///
    /// # Errors
    /// `Message` when it exceeds 4 GiB.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        writer.u64(u64::try_from(self.stamp.nanos()).unwrap_or_default());
        writer.u8(self.transition.id);
        writer.str(self.transition.label);
        write_state(&mut writer, self.transition.start);
        write_state(&mut writer, self.transition.goal);
        writer.finish(Self::TYPE)
    }
}

/// Writes a `lifecycle_msgs/State`.
pub(super) fn write_state(writer: &mut Writer<'_>, state: LifecycleState) {
    writer.u8(state.id());
    writer.str(state.label());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ParameterValue;
    use crate::cdr::Reader;

    #[test]
    fn a_parameter_value_has_a_field_for_every_type() {
        let mut bytes = Vec::new();
        let parameter =
            Parameter { name: "a.b".into(), value: ParameterValue::Numbers(vec![0.5, 2.0]) };
        ParameterEvent {
            stamp: Stamp::from_ros(3, 4),
            node: "/n",
            new_parameters: &[],
            changed_parameters: std::slice::from_ref(&parameter),
        }
        .encode(&mut bytes)
        .unwrap();
        let mut reader = Reader::new("test", &bytes).unwrap();
        assert_eq!((reader.i32().unwrap(), reader.u32().unwrap()), (3, 4));
        assert_eq!(reader.str().unwrap(), "/n");
        assert_eq!(reader.sequence_len(1).unwrap(), 0);
        assert_eq!(reader.sequence_len(1).unwrap(), 1);
        assert_eq!((reader.str().unwrap(), reader.u8().unwrap()), ("a.b", 8));
        assert!(!reader.bool().unwrap());
        assert_eq!(reader.i64().unwrap(), 0);
        assert_eq!(reader.f64().unwrap().to_bits(), 0);
        assert_eq!((reader.str().unwrap(), reader.bytes().unwrap()), ("", &[][..]));
        assert_eq!(reader.sequence_len(1).unwrap(), 0);
        assert_eq!(reader.sequence_len(8).unwrap(), 0);
        assert_eq!(reader.sequence_len(8).unwrap(), 2);
        assert_eq!(reader.f64_array().unwrap().map(f64::to_bits), [0.5, 2.0_f64].map(f64::to_bits));
        assert_eq!(reader.sequence_len(4).unwrap(), 0);
        assert_eq!(reader.sequence_len(1).unwrap(), 0);
    }

    #[test]
    fn a_transition_names_both_ends() {
        let mut bytes = Vec::new();
        let transition = LifecycleTransition {
            id: 3,
            label: "activate",
            start: LifecycleState::Inactive,
            goal: LifecycleState::Activating,
        };
        TransitionEvent { stamp: Stamp::from_nanos(7), transition }.encode(&mut bytes).unwrap();
        let mut reader = Reader::new("test", &bytes).unwrap();
        assert_eq!(reader.u64().unwrap(), 7);
        assert_eq!((reader.u8().unwrap(), reader.str().unwrap()), (3, "activate"));
        assert_eq!((reader.u8().unwrap(), reader.str().unwrap()), (2, "inactive"));
        assert_eq!((reader.u8().unwrap(), reader.str().unwrap()), (13, "activating"));
    }
}
