//! The requests and responses of the services that every ROS node or managed
//! node has: those of `rcl_interfaces` and `lifecycle_msgs`.
//!
//! Both stand without a header of their own here: what goes before them on the
//! wire is the middleware's.

use super::parameter::{
    MIN_PARAMETER_SIZE, read_list, read_parameter, read_texts, write_descriptor, write_set_result,
    write_texts, write_value,
};
use crate::error::Result;
use crate::transport::cdr::{Reader, Writer};
use crate::transport::door::{Request, Response, ServiceKind};
use crate::types::{LifecycleState, LifecycleTransition};

/// Reads the request of a service. `reader` is at its first field.
///
/// # Errors
/// `Message` when the bytes are no such request.
pub fn read_request(kind: ServiceKind, reader: &mut Reader<'_>) -> Result<Request> {
    let parameters =
        |reader: &mut Reader<'_>| read_list(reader, MIN_PARAMETER_SIZE, read_parameter);
    Ok(match kind {
        ServiceKind::ListParameters => {
            Request::ListParameters { prefixes: read_texts(reader)?, depth: reader.u64()? }
        }
        ServiceKind::GetParameters => Request::GetParameters(read_texts(reader)?),
        ServiceKind::GetParameterTypes => Request::GetParameterTypes(read_texts(reader)?),
        ServiceKind::DescribeParameters => Request::DescribeParameters(read_texts(reader)?),
        ServiceKind::SetParameters => Request::SetParameters(parameters(reader)?),
        ServiceKind::SetParametersAtomically => {
            Request::SetParametersAtomically(parameters(reader)?)
        }
        ServiceKind::ChangeState => {
            Request::ChangeState { id: reader.u8()?, label: reader.str()?.to_owned() }
        }
        ServiceKind::GetState => read_nothing(reader, Request::GetState)?,
        ServiceKind::GetAvailableStates => read_nothing(reader, Request::GetAvailableStates)?,
        ServiceKind::GetAvailableTransitions => {
            read_nothing(reader, Request::GetAvailableTransitions)?
        }
        ServiceKind::GetTransitionGraph => read_nothing(reader, Request::GetTransitionGraph)?,
    })
}

/// A request without fields has one byte: IDL knows no empty structures.
fn read_nothing(reader: &mut Reader<'_>, request: Request) -> Result<Request> {
    reader.u8()?;
    Ok(request)
}

/// Writes a response. Fields follow what `writer` has so far.
pub fn write_response(response: &Response, writer: &mut Writer<'_>) {
    match response {
        Response::Names { names, prefixes } => {
            write_texts(writer, names);
            write_texts(writer, prefixes);
        }
        Response::Values(values) => {
            writer.sequence_len(values.len());
            values.iter().for_each(|value| write_value(writer, value));
        }
        Response::Types(types) => {
            writer.sequence_len(types.len());
            types.iter().for_each(|parameter_type| writer.u8(*parameter_type as u8));
        }
        Response::Descriptors(descriptors) => {
            writer.sequence_len(descriptors.len());
            descriptors.iter().for_each(|descriptor| write_descriptor(writer, descriptor));
        }
        Response::SetResults(results) => {
            writer.sequence_len(results.len());
            results.iter().for_each(|result| write_set_result(writer, result));
        }
        Response::SetResult(result) => write_set_result(writer, result),
        Response::Changed(reached) => writer.bool(*reached),
        Response::State(state) => write_state(writer, *state),
        Response::States(states) => {
            writer.sequence_len(states.len());
            states.iter().for_each(|state| write_state(writer, *state));
        }
        Response::Transitions(transitions) => {
            writer.sequence_len(transitions.len());
            transitions.iter().for_each(|transition| write_transition(writer, transition));
        }
    }
}

fn write_state(writer: &mut Writer<'_>, state: LifecycleState) {
    writer.u8(state.id());
    writer.str(state.label());
}

fn write_transition(writer: &mut Writer<'_>, transition: &LifecycleTransition) {
    writer.u8(transition.id);
    writer.str(transition.label);
    write_state(writer, transition.start);
    write_state(writer, transition.goal);
}
