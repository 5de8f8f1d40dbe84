//! Data of ROS 2, independent of any client library: names and remaps, quality of
//! service, parameter values, states and transitions of a managed node, descriptions of
//! types.

mod lifecycle;
mod log;
mod names;
mod parameter;
mod qos;
mod remap;
mod type_description;

pub use lifecycle::{LifecycleState, LifecycleTransition};
pub use log::{LogLevel, LoggerLevel};
pub use names::NodeName;
pub use parameter::{
    Parameter, ParameterDescriptor, ParameterRange, ParameterType, ParameterValue, SetResult,
};
pub use qos::{Direction, Durability, Qos, Reliability};
pub use remap::Remaps;
#[cfg(feature = "cli")]
pub(crate) use remap::{is_namespace, is_parameter, split_node};
pub use type_description::{
    Field, FieldType, IndividualTypeDescription, ParseTypeHashError, TypeDescription, TypeHash,
    TypeSource,
};
