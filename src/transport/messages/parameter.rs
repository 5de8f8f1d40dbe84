//! The messages of `rcl_interfaces` that say what a parameter is.

use crate::error::Result;
use crate::transport::cdr::{Reader, Writer};
use crate::types::{
    Parameter, ParameterDescriptor, ParameterRange, ParameterValue, SetResult, Stamp,
};

/// Bytes of the shortest `Parameter`: an empty name, and a value whose ten
/// fields are all there.
pub(super) const MIN_PARAMETER_SIZE: usize = 4 + 1 + 1 + 8 + 8 + 6 * 4;

/// Reads an `rcl_interfaces/Parameter`.
///
/// # Errors
/// `Message` when the bytes are no parameter, or its type has no number in
/// `ParameterType`.
pub fn read_parameter(reader: &mut Reader<'_>) -> Result<Parameter> {
    Ok(Parameter { name: reader.str()?.to_owned(), value: read_value(reader)? })
}

fn read_value(reader: &mut Reader<'_>) -> Result<ParameterValue> {
    let number = reader.u8()?;
    let flag = reader.bool()?;
    let integer = reader.i64()?;
    let float = reader.f64()?;
    let text = reader.str()?;
    let bytes = reader.bytes()?;
    let flags = read_list(reader, 1, Reader::bool)?;
    let integers = read_list(reader, 8, Reader::i64)?;
    let numbers = read_list(reader, 8, Reader::f64)?;
    let texts = read_texts(reader)?;
    Ok(match number {
        0 => ParameterValue::NotSet,
        1 => ParameterValue::Flag(flag),
        2 => ParameterValue::Integer(integer),
        3 => ParameterValue::Number(float),
        4 => ParameterValue::Text(text.to_owned()),
        5 => ParameterValue::Bytes(bytes.to_owned()),
        6 => ParameterValue::Flags(flags),
        7 => ParameterValue::Integers(integers),
        8 => ParameterValue::Numbers(numbers),
        9 => ParameterValue::Texts(texts),
        other => {
            return Err(
                reader.error(format!("type of a parameter is {other}; 0 to 9 are possible"))
            );
        }
    })
}

/// Reads a sequence of elements that take at least `min_size` bytes each.
pub(super) fn read_list<'a, T>(
    reader: &mut Reader<'a>,
    min_size: usize,
    read: impl Fn(&mut Reader<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    let len = reader.sequence_len(min_size)?;
    (0..len).map(|_| read(reader)).collect()
}

/// Reads a sequence of strings.
pub(super) fn read_texts(reader: &mut Reader<'_>) -> Result<Vec<String>> {
    read_list(reader, 4, |reader| reader.str().map(str::to_owned))
}

/// Writes a sequence of strings.
pub(super) fn write_texts(writer: &mut Writer<'_>, texts: &[String]) {
    writer.sequence_len(texts.len());
    texts.iter().for_each(|text| writer.str(text));
}

/// Writes an `rcl_interfaces/Parameter`.
pub fn write_parameter(writer: &mut Writer<'_>, parameter: &Parameter) {
    writer.str(&parameter.name);
    write_value(writer, &parameter.value);
}

/// Writes an `rcl_interfaces/ParameterValue`.
pub(super) fn write_value(writer: &mut Writer<'_>, value: &ParameterValue) {
    use ParameterValue as V;
    writer.u8(value.parameter_type() as u8);
    writer.bool(matches!(value, V::Flag(true)));
    writer.i64(if let V::Integer(value) = value { *value } else { 0 });
    writer.f64(if let V::Number(value) = value { *value } else { 0.0 });
    writer.str(if let V::Text(value) = value { value } else { "" });
    writer.bytes(if let V::Bytes(value) = value { value } else { &[] });
    let flags: &[bool] = if let V::Flags(value) = value { value } else { &[] };
    writer.sequence_len(flags.len());
    flags.iter().for_each(|flag| writer.bool(*flag));
    let integers: &[i64] = if let V::Integers(value) = value { value } else { &[] };
    writer.sequence_len(integers.len());
    integers.iter().for_each(|integer| writer.i64(*integer));
    let numbers: &[f64] = if let V::Numbers(value) = value { value } else { &[] };
    writer.sequence_len(numbers.len());
    writer.f64_array(numbers);
    write_texts(writer, if let V::Texts(value) = value { value } else { &[] });
}

/// Writes an `rcl_interfaces/ParameterDescriptor`.
pub(super) fn write_descriptor(writer: &mut Writer<'_>, descriptor: &ParameterDescriptor) {
    writer.str(&descriptor.name);
    writer.u8(descriptor.parameter_type as u8);
    writer.str(&descriptor.description);
    writer.str(&descriptor.additional_constraints);
    writer.bool(descriptor.is_read_only);
    writer.bool(descriptor.is_dynamically_typed);
    let (number, integer) = match descriptor.range {
        Some(ParameterRange::Number { from, to }) => (Some([from, to]), None),
        Some(ParameterRange::Integer { from, to }) => (None, Some([from, to])),
        None => (None, None),
    };
    writer.sequence_len(usize::from(number.is_some()));
    if let Some([from, to]) = number {
        writer.f64_array(&[from, to, 0.0]);
    }
    writer.sequence_len(usize::from(integer.is_some()));
    if let Some([from, to]) = integer {
        writer.i64(from);
        writer.i64(to);
        writer.u64(1);
    }
}

/// Writes an `rcl_interfaces/SetParametersResult`.
pub(super) fn write_set_result(writer: &mut Writer<'_>, result: &SetResult) {
    writer.bool(result.is_ok());
    writer.str(result.as_ref().err().map_or("", String::as_str));
}

/// `rcl_interfaces/ParameterEvent`: what has changed in a node's parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct ParameterEvent<'a> {
    /// When it changed.
    pub stamp: Stamp,
    /// Full name of the node.
    pub node: &'a str,
    /// Declared since.
    pub new: &'a [Parameter],
    /// With another value since.
    pub changed: &'a [Parameter],
    /// Gone since.
    pub deleted: &'a [Parameter],
}

impl ParameterEvent<'_> {
    /// The ROS name.
    pub const TYPE: &'static str = "rcl_interfaces/msg/ParameterEvent";

    /// Writes the message to `bytes`, replacing what is there.
    ///
    /// # Errors
    /// `Message` when it would have 4 GiB or more.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        let (sec, nanosec) = self.stamp.to_ros();
        writer.i32(sec);
        writer.u32(nanosec);
        writer.str(self.node);
        for parameters in [self.new, self.changed, self.deleted] {
            writer.sequence_len(parameters.len());
            parameters.iter().for_each(|parameter| write_parameter(&mut writer, parameter));
        }
        writer.finish(Self::TYPE)
    }
}
