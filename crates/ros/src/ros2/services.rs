//! The services of a node and of a managed node, served through r2r.

use std::sync::Arc;

use futures::StreamExt;
use r2r::lifecycle_msgs::{msg as lifecycle, srv as lifecycle_srv};
use r2r::rcl_interfaces::{msg as rcl, srv};
use r2r::{ServiceRequest, WrappedServiceTypeSupport};
use tokio::sync::Mutex;
use tokio::task::{LocalSet, spawn_blocking};

use super::parameters::{descriptor, parameter, set_result, type_number, value};
use crate::middleware::{Handler, MiddlewareEvent, Request, Response, ServiceKind, Watchers};
use crate::{LifecycleState, LifecycleTransition};

/// Responds to requests, one after another, on a thread for blocking work: a transition may take as
/// long as loading networks, while messages are delivered.
#[derive(Clone)]
pub(super) struct Responder {
    handler: Arc<Handler>,
    /// Held until a response is sent.
    turn: Arc<Mutex<()>>,
    watchers: Watchers,
}

impl Responder {
    /// A responder by `handler`.
    pub(super) fn new(handler: Handler, watchers: Watchers) -> Self {
        Self { handler: Arc::new(handler), turn: Arc::default(), watchers }
    }

    /// Waits for the responses to the requests that have arrived.
    pub(super) async fn finish(&self) {
        drop(self.turn.lock().await);
    }

    /// Whether a response is in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.turn.try_lock().is_err()
    }

    /// Responds to a request.
    async fn respond<S>(
        &self,
        kind: ServiceKind,
        request: ServiceRequest<S>,
        converted: Request,
        response_of: fn(Response) -> Option<S::Response>,
    ) where
        S: WrappedServiceTypeSupport + 'static,
    {
        let _turn = self.turn.lock().await;
        let handler = Arc::clone(&self.handler);
        let Ok(response) = spawn_blocking(move || handler(converted)).await else {
            return self.refused(kind, "the handler of requests panicked");
        };
        let Some(response) = response_of(response) else {
            return self.refused(kind, "the response is of another service");
        };
        if let Err(cause) = request.respond(response) {
            self.refused(kind, &format!("the response could not be sent: {cause}"));
        }
    }

    fn refused(&self, service: ServiceKind, reason: &str) {
        let (service, reason) = (service.name().into(), reason.to_owned());
        self.watchers.report(&MiddlewareEvent::Refused { service, reason });
    }
}

/// Serves the services whose types every supported ROS has.
pub(super) fn serve_all(
    node: &mut r2r::Node,
    tasks: &LocalSet,
    responder: &Responder,
) -> r2r::Result<()> {
    use ServiceKind as Kind;
    serve::<srv::ListParameters::Service>(
        node,
        tasks,
        responder,
        Kind::ListParameters,
        |request| Request::ListParameters { prefixes: request.prefixes, depth: request.depth },
        |response| match response {
            Response::Names { names, prefixes } => Some(srv::ListParameters::Response {
                result: rcl::ListParametersResult { names, prefixes },
            }),
            _ => None,
        },
    )?;
    serve::<srv::GetParameters::Service>(
        node,
        tasks,
        responder,
        Kind::GetParameters,
        |request| Request::GetParameters(request.names),
        |response| match response {
            Response::Values(values) => Some(srv::GetParameters::Response {
                values: values.into_iter().map(value).collect(),
            }),
            _ => None,
        },
    )?;
    serve::<srv::GetParameterTypes::Service>(
        node,
        tasks,
        responder,
        Kind::GetParameterTypes,
        |request| Request::GetParameterTypes(request.names),
        |response| match response {
            Response::Types(types) => Some(srv::GetParameterTypes::Response {
                types: types.into_iter().map(type_number).collect(),
            }),
            _ => None,
        },
    )?;
    serve::<srv::DescribeParameters::Service>(
        node,
        tasks,
        responder,
        Kind::DescribeParameters,
        |request| Request::DescribeParameters(request.names),
        |response| match response {
            Response::Descriptors(descriptors) => Some(srv::DescribeParameters::Response {
                descriptors: descriptors.into_iter().map(descriptor).collect(),
            }),
            _ => None,
        },
    )?;
    serve::<srv::SetParameters::Service>(
        node,
        tasks,
        responder,
        Kind::SetParameters,
        |request| Request::SetParameters(request.parameters.into_iter().map(parameter).collect()),
        |response| match response {
            Response::SetResults(results) => Some(srv::SetParameters::Response {
                results: results.into_iter().map(set_result).collect(),
            }),
            _ => None,
        },
    )?;
    serve::<srv::SetParametersAtomically::Service>(
        node,
        tasks,
        responder,
        Kind::SetParametersAtomically,
        |request| {
            let parameters = request.parameters.into_iter().map(parameter).collect();
            Request::SetParametersAtomically(parameters)
        },
        |response| match response {
            Response::SetResult(result) => {
                Some(srv::SetParametersAtomically::Response { result: set_result(result) })
            }
            _ => None,
        },
    )?;
    serve::<lifecycle_srv::ChangeState::Service>(
        node,
        tasks,
        responder,
        Kind::ChangeState,
        |request| Request::ChangeState {
            id: request.transition.id,
            label: request.transition.label,
        },
        |response| match response {
            Response::Changed(success) => Some(lifecycle_srv::ChangeState::Response { success }),
            _ => None,
        },
    )?;
    serve::<lifecycle_srv::GetState::Service>(
        node,
        tasks,
        responder,
        Kind::GetState,
        |_| Request::GetState,
        |response| match response {
            Response::State(current) => {
                Some(lifecycle_srv::GetState::Response { current_state: state(current) })
            }
            _ => None,
        },
    )?;
    serve::<lifecycle_srv::GetAvailableStates::Service>(
        node,
        tasks,
        responder,
        Kind::GetAvailableStates,
        |_| Request::GetAvailableStates,
        |response| match response {
            Response::States(states) => Some(lifecycle_srv::GetAvailableStates::Response {
                available_states: states.into_iter().map(state).collect(),
            }),
            _ => None,
        },
    )?;
    transitions(
        node,
        tasks,
        responder,
        Kind::GetAvailableTransitions,
        Request::GetAvailableTransitions,
    )?;
    transitions(node, tasks, responder, Kind::GetTransitionGraph, Request::GetTransitionGraph)
}

/// The two services whose responses are transitions.
fn transitions(
    node: &mut r2r::Node,
    tasks: &LocalSet,
    responder: &Responder,
    kind: ServiceKind,
    request: Request,
) -> r2r::Result<()> {
    serve::<lifecycle_srv::GetAvailableTransitions::Service>(
        node,
        tasks,
        responder,
        kind,
        move |_| request.clone(),
        |response| match response {
            Response::Transitions(transitions) => {
                Some(lifecycle_srv::GetAvailableTransitions::Response {
                    available_transitions: transitions.into_iter().map(transition).collect(),
                })
            }
            _ => None,
        },
    )
}

/// Serves one service. `request_of` and `response_of` convert from and to its
/// types.
pub(super) fn serve<S>(
    node: &mut r2r::Node,
    tasks: &LocalSet,
    responder: &Responder,
    kind: ServiceKind,
    request_of: impl Fn(S::Request) -> Request + 'static,
    response_of: fn(Response) -> Option<S::Response>,
) -> r2r::Result<()>
where
    S: WrappedServiceTypeSupport + 'static,
{
    let name = format!("~/{}", kind.name());
    serve_as::<S>(node, tasks, responder, (kind, &name), request_of, response_of)
}

/// As [`serve`], under a separate name.
pub(super) fn serve_as<S>(
    node: &mut r2r::Node,
    tasks: &LocalSet,
    responder: &Responder,
    (kind, service): (ServiceKind, &str),
    request_of: impl Fn(S::Request) -> Request + 'static,
    response_of: fn(Response) -> Option<S::Response>,
) -> r2r::Result<()>
where
    S: WrappedServiceTypeSupport + 'static,
{
    let mut requests = node.create_service::<S>(service, r2r::QosProfile::services_default())?;
    let responder = responder.clone();
    tasks.spawn_local(async move {
        while let Some(request) = requests.next().await {
            let converted = request_of(request.message.clone());
            responder.respond(kind, request, converted, response_of).await;
        }
    });
    Ok(())
}

fn state(state: LifecycleState) -> lifecycle::State {
    lifecycle::State { id: state.id(), label: state.label().into() }
}

fn transition(transition: LifecycleTransition) -> lifecycle::TransitionDescription {
    lifecycle::TransitionDescription {
        transition: lifecycle::Transition { id: transition.id, label: transition.label.into() },
        start_state: state(transition.start),
        goal_state: state(transition.goal),
    }
}
