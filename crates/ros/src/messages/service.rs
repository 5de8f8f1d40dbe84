//! The requests and responses of the services that every ROS node or managed
//! node has: those of `rcl_interfaces`, `lifecycle_msgs` and
//! `type_description_interfaces`; `std_srvs/SetBool`, and `yolo_msgs/SetClasses` of 4.x.
//!
//! What precedes them on the wire is up to the middleware.

use super::field::{Field, write_all};
use super::node_event::write_state;
use crate::cdr::{Reader, Writer};
use crate::middleware::{DescribedType, Request, Response, ServiceKind};
use crate::{
    IndividualTypeDescription, LifecycleTransition, LoggerLevel, Parameter, ParameterDescriptor,
    ParameterRange, ParameterValue, SetResult,
};
use det_post_types::Result;

/// Reads the request of a service. `reader` is at its first field.
///
/// # Errors
/// `Message` when the bytes are not such a request.
pub fn read_request(kind: ServiceKind, reader: &mut Reader<'_>) -> Result<Request> {
    Ok(match kind {
        ServiceKind::ListParameters => {
            Request::ListParameters { prefixes: Field::read(reader)?, depth: reader.u64()? }
        }
        ServiceKind::GetParameters => Request::GetParameters(Field::read(reader)?),
        ServiceKind::GetParameterTypes => Request::GetParameterTypes(Field::read(reader)?),
        ServiceKind::DescribeParameters => Request::DescribeParameters(Field::read(reader)?),
        ServiceKind::SetParameters => Request::SetParameters(Field::read(reader)?),
        ServiceKind::SetParametersAtomically => {
            Request::SetParametersAtomically(Field::read(reader)?)
        }
        ServiceKind::ChangeState => {
            Request::ChangeState { id: reader.u8()?, label: Field::read(reader)? }
        }
        ServiceKind::GetState => read_nothing(reader, Request::GetState)?,
        ServiceKind::GetAvailableStates => read_nothing(reader, Request::GetAvailableStates)?,
        ServiceKind::GetAvailableTransitions => {
            read_nothing(reader, Request::GetAvailableTransitions)?
        }
        ServiceKind::GetTransitionGraph => read_nothing(reader, Request::GetTransitionGraph)?,
        ServiceKind::GetLoggerLevels => Request::GetLoggerLevels(Field::read(reader)?),
        ServiceKind::SetLoggerLevels => Request::SetLoggerLevels(Field::read(reader)?),
        ServiceKind::GetTypeDescription => {
            let _type_name = reader.str()?;
            let type_hash = reader.str()?.to_owned();
            Request::GetTypeDescription { type_hash, with_sources: reader.bool()? }
        }
        ServiceKind::SetSwitch => Request::SetSwitch(reader.bool()?),
        ServiceKind::SetClasses => Request::SetClasses(Field::read(reader)?),
    })
}

/// A request without fields has one byte: IDL has no empty structures.
fn read_nothing(reader: &mut Reader<'_>, request: Request) -> Result<Request> {
    reader.u8()?;
    Ok(request)
}

impl Field<'_> for Parameter {
    const MIN_SIZE: usize = String::MIN_SIZE + ParameterValue::MIN_SIZE;

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { name: Field::read(reader)?, value: Field::read(reader)? })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        self.name.write(writer);
        self.value.write(writer);
    }
}

impl Field<'_> for LoggerLevel {
    const MIN_SIZE: usize = String::MIN_SIZE + u32::MIN_SIZE;

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { name: Field::read(reader)?, level: reader.u32()? })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        self.name.write(writer);
        writer.u32(self.level);
    }
}

/// `rcl_interfaces/ParameterValue`: the number of its type and a field for every type, of
/// which one is used.
impl Field<'_> for ParameterValue {
    const MIN_SIZE: usize = 1 + 1 + 8 + 8 + 6 * 4;

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let number = reader.u8()?;
        let flag = reader.bool()?;
        let integer = reader.i64()?;
        let float = reader.f64()?;
        let text = reader.str()?;
        let bytes = reader.bytes()?;
        let flags = Field::read(reader)?;
        let integers = Field::read(reader)?;
        let numbers = Field::read(reader)?;
        let texts = Field::read(reader)?;
        Ok(match number {
            0 => Self::NotSet,
            1 => Self::Flag(flag),
            2 => Self::Integer(integer),
            3 => Self::Number(float),
            4 => Self::Text(text.to_owned()),
            5 => Self::Bytes(bytes.to_owned()),
            6 => Self::Flags(flags),
            7 => Self::Integers(integers),
            8 => Self::Numbers(numbers),
            9 => Self::Texts(texts),
            unknown => Self::Unknown(unknown),
        })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.u8(self.parameter_type() as u8);
        writer.bool(if let Self::Flag(flag) = self { *flag } else { false });
        writer.i64(if let Self::Integer(integer) = self { *integer } else { 0 });
        writer.f64(if let Self::Number(number) = self { *number } else { 0.0 });
        writer.str(if let Self::Text(text) = self { text } else { "" });
        writer.bytes(if let Self::Bytes(bytes) = self { bytes } else { &[] });
        write_all(writer, if let Self::Flags(flags) = self { flags } else { &[] });
        write_all(writer, if let Self::Integers(integers) = self { integers } else { &[] });
        write_all(writer, if let Self::Numbers(numbers) = self { numbers } else { &[] });
        write_all(writer, if let Self::Texts(texts) = self { texts } else { &[] });
    }
}

/// Appends a response.
pub fn write_response(response: &Response, writer: &mut Writer<'_>) {
    match response {
        Response::Names { names, prefixes } => {
            names.write(writer);
            prefixes.write(writer);
        }
        Response::Values(values) => values.write(writer),
        Response::Types(types) => writer.sequence(types, |writer, &of| writer.u8(of as u8)),
        Response::Descriptors(descriptors) => writer.sequence(descriptors, write_descriptor),
        Response::SetResults(results) => writer.sequence(results, write_set_result),
        // SetParametersResult, and the response of SetBool.
        Response::SetResult(result) => write_set_result(writer, result),
        Response::Changed(reached) => writer.bool(*reached),
        Response::State(state) => write_state(writer, *state),
        Response::States(states) => {
            writer.sequence(states, |writer, state| write_state(writer, *state));
        }
        Response::LoggerLevels(levels) => levels.write(writer),
        Response::Transitions(transitions) => writer.sequence(transitions, write_transition),
        Response::TypeDescription(described) => write_type_description(writer, described),
        // IDL has no empty structures.
        Response::Nothing => writer.u8(0),
    }
}

/// Writes a `GetTypeDescription` response; a refused one has an empty description.
fn write_type_description(
    writer: &mut Writer<'_>,
    described: &std::result::Result<DescribedType, String>,
) {
    writer.bool(described.is_ok());
    writer.str(described.as_ref().err().map_or("", String::as_str));
    match described {
        Ok(DescribedType { description, sources }) => {
            write_individual(writer, &description.main);
            writer.sequence(&description.referenced, write_individual);
            writer.sequence(sources, |writer, source| {
                writer.str(&source.type_name);
                writer.str(source.encoding);
                writer.str(source.contents);
            });
        }
        Err(_) => {
            writer.str("");
            (0..3).for_each(|_| writer.sequence_len(0));
        }
    }
    // Extra information.
    writer.sequence_len(0);
}

fn write_individual(writer: &mut Writer<'_>, one: &IndividualTypeDescription) {
    writer.str(&one.type_name);
    writer.sequence(&one.fields, |writer, field| {
        writer.str(&field.name);
        writer.u8(field.field_type.type_id);
        writer.u64(field.field_type.capacity);
        writer.u64(field.field_type.string_capacity);
        writer.str(&field.field_type.nested_type_name);
        // Default value.
        writer.str("");
    });
}

/// Writes an `rcl_interfaces/ParameterDescriptor`.
fn write_descriptor(writer: &mut Writer<'_>, descriptor: &ParameterDescriptor) {
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
fn write_set_result(writer: &mut Writer<'_>, result: &SetResult) {
    writer.bool(result.is_ok());
    writer.str(result.as_ref().err().map_or("", String::as_str));
}

fn write_transition(writer: &mut Writer<'_>, transition: &LifecycleTransition) {
    writer.u8(transition.id);
    writer.str(transition.label);
    write_state(writer, transition.start);
    write_state(writer, transition.goal);
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::ErrorKind;

    fn request(kind: ServiceKind, write: impl Fn(&mut Writer<'_>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        write(&mut writer);
        writer.finish(kind.type_name()).unwrap();
        bytes
    }

    fn read(kind: ServiceKind, bytes: &[u8]) -> Result<Request> {
        read_request(kind, &mut Reader::new(kind.type_name(), bytes)?)
    }

    /// A request of every service.
    fn requests() -> Vec<(Vec<u8>, Request)> {
        let texts = || vec!["camera".to_owned(), String::new()];
        let value = ParameterValue::Texts(texts());
        let parameters = || {
            let flag = ParameterValue::Flag(true);
            vec![
                Parameter { name: "a".to_owned(), value: flag },
                Parameter { name: "b.c".to_owned(), value: value.clone() },
            ]
        };
        let all = [
            Request::ListParameters { prefixes: texts(), depth: 1 << 40 },
            Request::GetParameters(texts()),
            Request::GetParameterTypes(texts()),
            Request::DescribeParameters(Vec::new()),
            Request::SetParameters(parameters()),
            Request::SetParametersAtomically(parameters()),
            Request::ChangeState { id: 3, label: "activate".to_owned() },
            Request::GetState,
            Request::GetAvailableStates,
            Request::GetAvailableTransitions,
            Request::GetTransitionGraph,
            Request::GetLoggerLevels(texts()),
            Request::SetLoggerLevels(vec![LoggerLevel { name: "front.eyes".into(), level: 10 }]),
            Request::GetTypeDescription { type_hash: "RIHS01_00".into(), with_sources: true },
            Request::SetSwitch(true),
            Request::SetClasses(texts()),
        ];
        all.map(|sent| (request(sent.kind(), |writer| write(&sent, writer)), sent)).into()
    }

    fn write(request: &Request, writer: &mut Writer<'_>) {
        match request {
            Request::ListParameters { prefixes, depth } => {
                prefixes.write(writer);
                writer.u64(*depth);
            }
            Request::GetParameters(names)
            | Request::GetParameterTypes(names)
            | Request::DescribeParameters(names)
            | Request::GetLoggerLevels(names)
            | Request::SetClasses(names) => names.write(writer),
            Request::SetSwitch(on) => writer.bool(*on),
            Request::SetLoggerLevels(levels) => levels.write(writer),
            Request::SetParameters(parameters) | Request::SetParametersAtomically(parameters) => {
                parameters.write(writer);
            }
            Request::ChangeState { id, label } => {
                writer.u8(*id);
                writer.str(label);
            }
            Request::GetTypeDescription { type_hash, with_sources } => {
                writer.str("sensor_msgs/msg/Image");
                writer.str(type_hash);
                writer.bool(*with_sources);
            }
            Request::GetState
            | Request::GetAvailableStates
            | Request::GetAvailableTransitions
            | Request::GetTransitionGraph => writer.u8(0),
        }
    }

    #[test]
    fn requests_are_read() {
        for (bytes, sent) in requests() {
            assert_eq!(read(sent.kind(), &bytes).unwrap(), sent);
            // Truncated by more than the padding.
            let error = read(sent.kind(), &bytes[..bytes.len() - 4]).unwrap_err();
            assert_eq!(
                (error.kind(), error.stage()),
                (ErrorKind::Message, sent.kind().type_name())
            );
        }
    }

    #[test]
    fn an_unknown_type_of_parameter_reaches_the_node() {
        let kind = ServiceKind::SetParameters;
        for (number, value) in [
            (9, ParameterValue::Texts(Vec::new())),
            (10, ParameterValue::Unknown(10)),
            (255, ParameterValue::Unknown(255)),
        ] {
            let bytes = request(kind, |writer| {
                writer.sequence_len(1);
                writer.str("a");
                writer.u8(number);
                writer.bool(false);
                writer.i64(0);
                writer.f64(0.0);
                (0..6).for_each(|_| writer.sequence_len(0));
            });
            let parameter = Parameter { name: "a".to_owned(), value };
            assert_eq!(read(kind, &bytes).unwrap(), Request::SetParameters(vec![parameter]));
        }
    }

    #[test]
    fn wrong_lengths_are_harmless() {
        for (bytes, sent) in requests() {
            for at in (4..bytes.len()).step_by(4) {
                for length in [u32::MAX, 1 << 31, 1 << 16, 0] {
                    let mut bytes = bytes.clone();
                    bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
                    // Any result, but no panic.
                    let _ = read(sent.kind(), &bytes);
                }
            }
        }
    }
}
