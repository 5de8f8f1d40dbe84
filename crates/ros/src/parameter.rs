//! ROS parameters: values, declarations, results of setting them.

use std::fmt;

/// The types of a parameter, with the numbers of
/// `rcl_interfaces/ParameterType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ParameterType {
    /// Declared, without a value.
    NotSet = 0,
    /// True or false.
    Flag = 1,
    /// 64-bit integer.
    Integer = 2,
    /// 64-bit float.
    Number = 3,
    /// UTF-8 text.
    Text = 4,
    /// Bytes.
    Bytes = 5,
    /// List of flags.
    Flags = 6,
    /// List of integers.
    Integers = 7,
    /// List of floats.
    Numbers = 8,
    /// List of texts.
    Texts = 9,
}

/// The value of a parameter: `rcl_interfaces/ParameterValue`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ParameterValue {
    /// No value: the parameter is unset or unknown.
    #[default]
    NotSet,
    /// True or false.
    Flag(bool),
    /// 64-bit integer.
    Integer(i64),
    /// 64-bit float.
    Number(f64),
    /// UTF-8 text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// List of flags.
    Flags(Vec<bool>),
    /// List of integers.
    Integers(Vec<i64>),
    /// List of floats.
    Numbers(Vec<f64>),
    /// List of texts.
    Texts(Vec<String>),
    /// A value of a type that ROS does not define, by the number of the type. A
    /// peer may send one; no parameter accepts it.
    Unknown(u8),
}

impl ParameterValue {
    /// Its type; `NotSet` where ROS defines none.
    pub fn parameter_type(&self) -> ParameterType {
        match self {
            Self::NotSet | Self::Unknown(_) => ParameterType::NotSet,
            Self::Flag(_) => ParameterType::Flag,
            Self::Integer(_) => ParameterType::Integer,
            Self::Number(_) => ParameterType::Number,
            Self::Text(_) => ParameterType::Text,
            Self::Bytes(_) => ParameterType::Bytes,
            Self::Flags(_) => ParameterType::Flags,
            Self::Integers(_) => ParameterType::Integers,
            Self::Numbers(_) => ParameterType::Numbers,
            Self::Texts(_) => ParameterType::Texts,
        }
    }
}

/// As messages show it: `0.5`, `car`, `["car", "truck"]`, `not set`.
impl fmt::Display for ParameterValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSet => f.write_str("not set"),
            Self::Flag(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            // With a point or an exponent, unlike an integer.
            Self::Number(value) => write!(f, "{value:?}"),
            Self::Text(value) => f.write_str(value),
            Self::Bytes(values) => write!(f, "{values:?}"),
            Self::Flags(values) => write!(f, "{values:?}"),
            Self::Integers(values) => write!(f, "{values:?}"),
            Self::Numbers(values) => write!(f, "{values:?}"),
            Self::Texts(values) => write!(f, "{values:?}"),
            Self::Unknown(number) => write!(f, "a value of type {number}"),
        }
    }
}

/// A parameter by name: `rcl_interfaces/Parameter`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameter {
    /// Dotted name, such as `camera.score_threshold`.
    pub name: String,
    /// Its value.
    pub value: ParameterValue,
}

/// Allowed values of a scalar, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParameterRange {
    /// `rcl_interfaces/IntegerRange` with a step of 1.
    Integer {
        /// Lowest.
        from: i64,
        /// Highest.
        to: i64,
    },
    /// `rcl_interfaces/FloatingPointRange` without a step (0).
    Number {
        /// Lowest.
        from: f64,
        /// Highest.
        to: f64,
    },
}

/// The declaration of a parameter: `rcl_interfaces/ParameterDescriptor`.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterDescriptor {
    /// Dotted name.
    pub name: String,
    /// Type it is declared with; a value set later may be of another type where
    /// `is_dynamically_typed`.
    pub parameter_type: ParameterType,
    /// Its description.
    pub description: String,
    /// The allowed values, in words.
    pub additional_constraints: String,
    /// Whether it is fixed when the node starts.
    pub is_read_only: bool,
    /// Whether values of several types are accepted: a list or a single value, an integer
    /// for a float, or a parameter that may be unset.
    pub is_dynamically_typed: bool,
    /// Range of a scalar.
    pub range: Option<ParameterRange>,
}

/// The result of setting a parameter; the text is the reason of a refusal:
/// `rcl_interfaces/SetParametersResult`.
pub type SetResult = Result<(), String>;
