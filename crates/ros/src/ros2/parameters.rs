//! Parameters as r2r has them, and as the node has them.

use r2r::rcl_interfaces::msg;

use crate::{
    Parameter, ParameterDescriptor, ParameterRange, ParameterType, ParameterValue, SetResult,
};

/// A parameter of a request.
pub(super) fn parameter(parameter: msg::Parameter) -> Parameter {
    let value = parameter.value;
    let value = match value.type_ {
        1 => ParameterValue::Flag(value.bool_value),
        2 => ParameterValue::Integer(value.integer_value),
        3 => ParameterValue::Number(value.double_value),
        4 => ParameterValue::Text(value.string_value),
        5 => ParameterValue::Bytes(value.byte_array_value),
        6 => ParameterValue::Flags(value.bool_array_value),
        7 => ParameterValue::Integers(value.integer_array_value),
        8 => ParameterValue::Numbers(value.double_array_value),
        9 => ParameterValue::Texts(value.string_array_value),
        0 => ParameterValue::NotSet,
        unknown => ParameterValue::Unknown(unknown),
    };
    Parameter { name: parameter.name, value }
}

pub(super) fn value(value: ParameterValue) -> msg::ParameterValue {
    let mut message =
        msg::ParameterValue { type_: value.parameter_type() as u8, ..Default::default() };
    match value {
        ParameterValue::NotSet | ParameterValue::Unknown(_) => {}
        ParameterValue::Flag(value) => message.bool_value = value,
        ParameterValue::Integer(value) => message.integer_value = value,
        ParameterValue::Number(value) => message.double_value = value,
        ParameterValue::Text(value) => message.string_value = value,
        ParameterValue::Bytes(value) => message.byte_array_value = value,
        ParameterValue::Flags(value) => message.bool_array_value = value,
        ParameterValue::Integers(value) => message.integer_array_value = value,
        ParameterValue::Numbers(value) => message.double_array_value = value,
        ParameterValue::Texts(value) => message.string_array_value = value,
    }
    message
}

pub(super) fn type_number(parameter_type: ParameterType) -> u8 {
    parameter_type as u8
}

pub(super) fn descriptor(descriptor: ParameterDescriptor) -> msg::ParameterDescriptor {
    let mut message = msg::ParameterDescriptor {
        name: descriptor.name,
        type_: descriptor.parameter_type as u8,
        description: descriptor.description,
        additional_constraints: descriptor.additional_constraints,
        read_only: descriptor.is_read_only,
        dynamic_typing: descriptor.is_dynamically_typed,
        ..Default::default()
    };
    match descriptor.range {
        Some(ParameterRange::Integer { from, to }) => {
            let (from_value, to_value) = (from, to);
            message.integer_range = vec![msg::IntegerRange { from_value, to_value, step: 1 }];
        }
        Some(ParameterRange::Number { from, to }) => {
            let (from_value, to_value) = (from, to);
            let range = msg::FloatingPointRange { from_value, to_value, step: 0.0 };
            message.floating_point_range = vec![range];
        }
        None => {}
    }
    message
}

pub(super) fn set_result(result: SetResult) -> msg::SetParametersResult {
    msg::SetParametersResult {
        successful: result.is_ok(),
        reason: result.err().unwrap_or_default(),
    }
}
