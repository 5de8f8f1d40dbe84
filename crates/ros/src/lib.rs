//! ROS 2 without ROS: recordings, messages as CDR, middlewares, ground truth as messages,
//! calibration files, the buffer of transforms, parameter files, and data of ROS 2: names and
//! remaps, quality of service, parameter values, states of a managed node, descriptions of
//! types. Independent of operations, heads and networks.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod bag;
pub mod calibration_files;
pub mod cdr;
#[cfg(feature = "dds")]
pub mod dds;
pub mod messages;
pub mod middleware;
pub mod output_folder;
pub mod packed_cloud;
#[cfg(feature = "ros2")]
pub mod ros2;
#[cfg(any(feature = "dds", feature = "ros2"))]
mod socket_buffers;
pub mod tf;
pub mod truth;
pub mod video;
pub mod yaml;

mod lifecycle;
mod log;
mod names;
mod output;
mod parameter;
mod qos;
mod remap;
mod type_description;

pub use lifecycle::{LifecycleState, LifecycleTransition};
pub use log::{LogLevel, LoggerLevel};
pub use names::{NodeName, is_topic};
pub use output::{AreaRemap, DebugTimesType, ObjectFormat, ObjectLabel, OutputFormat, OutputType};
pub use parameter::{
    Parameter, ParameterDescriptor, ParameterRange, ParameterType, ParameterValue, SetResult,
};
pub use qos::{Direction, Durability, Qos, Reliability};
pub use remap::{Remaps, is_namespace, is_parameter, split_node};
pub use type_description::{
    Field, FieldType, IndividualTypeDescription, ParseTypeHashError, TypeDescription, TypeHash,
    TypeSource,
};
