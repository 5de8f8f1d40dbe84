//! The services of a node and of a managed node, served through r2r.

use std::convert::Infallible;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use r2r::lifecycle_msgs::{msg as lifecycle, srv as lifecycle_srv};
use r2r::rcl_interfaces::{msg as rcl, srv};
use r2r::{ServiceRequest, WrappedServiceTypeSupport};

use super::error::error;
use super::parameters::{descriptor, parameter, set_result, type_number, value};
use crate::middleware::{Handler, MiddlewareEvent, Request, Response, ServiceKind, Watchers};
use crate::{LifecycleState, LifecycleTransition};
use det_post_types::Result;

/// A request on its way to the handler.
type Job = Box<dyn FnOnce(&Handler) + Send>;

/// How long a closing middleware waits for a response in progress.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(400);

/// The thread that responds to requests: a transition may take as long as loading
/// networks, while messages are delivered. It ends with the last sender.
#[derive(Clone)]
pub(super) struct Jobs {
    sender: Sender<Job>,
    watchers: Watchers,
}

/// The end of that thread.
pub(super) struct JobsEnd(mpsc::Receiver<Infallible>);

impl JobsEnd {
    /// Waits for it, after all senders are dropped, up to [`DRAIN_TIMEOUT`].
    pub(super) fn wait(&self) {
        if let Err(RecvTimeoutError::Timeout) = self.0.recv_timeout(DRAIN_TIMEOUT) {
            tracing::warn!("a response was not ready in time and is lost");
        }
    }
}

impl Jobs {
    /// Starts the thread. Its end closes the channel of the returned receiver.
    pub(super) fn start(handler: Handler, watchers: Watchers) -> Result<(Self, JobsEnd)> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let (ended, end) = mpsc::channel();
        std::thread::Builder::new()
            .name("ros2 services".into())
            .spawn(move || {
                let _ended: Sender<Infallible> = ended;
                jobs.iter().for_each(|job| job(&handler));
            })
            .map_err(|cause| error("cannot start the thread of services").with_source(cause))?;
        Ok((Self { sender, watchers }, JobsEnd(end)))
    }

    fn refused(&self, service: ServiceKind, reason: &str) {
        let (service, reason) = (service.name().into(), reason.to_owned());
        self.watchers.report(&MiddlewareEvent::Refused { service, reason });
    }
}

/// Serves the services whose types every supported ROS has. Each closure passes the
/// received requests on.
pub(super) fn serve_all(node: &mut r2r::Node, jobs: &Jobs) -> r2r::Result<Vec<Box<dyn FnMut()>>> {
    use ServiceKind as Kind;
    Ok(vec![
        serve::<srv::ListParameters::Service>(
            node,
            jobs,
            Kind::ListParameters,
            |request| Request::ListParameters { prefixes: request.prefixes, depth: request.depth },
            |response| match response {
                Response::Names { names, prefixes } => Some(srv::ListParameters::Response {
                    result: rcl::ListParametersResult { names, prefixes },
                }),
                _ => None,
            },
        )?,
        serve::<srv::GetParameters::Service>(
            node,
            jobs,
            Kind::GetParameters,
            |request| Request::GetParameters(request.names),
            |response| match response {
                Response::Values(values) => Some(srv::GetParameters::Response {
                    values: values.into_iter().map(value).collect(),
                }),
                _ => None,
            },
        )?,
        serve::<srv::GetParameterTypes::Service>(
            node,
            jobs,
            Kind::GetParameterTypes,
            |request| Request::GetParameterTypes(request.names),
            |response| match response {
                Response::Types(types) => Some(srv::GetParameterTypes::Response {
                    types: types.into_iter().map(type_number).collect(),
                }),
                _ => None,
            },
        )?,
        serve::<srv::DescribeParameters::Service>(
            node,
            jobs,
            Kind::DescribeParameters,
            |request| Request::DescribeParameters(request.names),
            |response| match response {
                Response::Descriptors(descriptors) => Some(srv::DescribeParameters::Response {
                    descriptors: descriptors.into_iter().map(descriptor).collect(),
                }),
                _ => None,
            },
        )?,
        serve::<srv::SetParameters::Service>(
            node,
            jobs,
            Kind::SetParameters,
            |request| {
                Request::SetParameters(request.parameters.into_iter().map(parameter).collect())
            },
            |response| match response {
                Response::SetResults(results) => Some(srv::SetParameters::Response {
                    results: results.into_iter().map(set_result).collect(),
                }),
                _ => None,
            },
        )?,
        serve::<srv::SetParametersAtomically::Service>(
            node,
            jobs,
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
        )?,
        serve::<lifecycle_srv::ChangeState::Service>(
            node,
            jobs,
            Kind::ChangeState,
            |request| Request::ChangeState {
                id: request.transition.id,
                label: request.transition.label,
            },
            |response| match response {
                Response::Changed(success) => {
                    Some(lifecycle_srv::ChangeState::Response { success })
                }
                _ => None,
            },
        )?,
        serve::<lifecycle_srv::GetState::Service>(
            node,
            jobs,
            Kind::GetState,
            |_| Request::GetState,
            |response| match response {
                Response::State(current) => {
                    Some(lifecycle_srv::GetState::Response { current_state: state(current) })
                }
                _ => None,
            },
        )?,
        serve::<lifecycle_srv::GetAvailableStates::Service>(
            node,
            jobs,
            Kind::GetAvailableStates,
            |_| Request::GetAvailableStates,
            |response| match response {
                Response::States(states) => Some(lifecycle_srv::GetAvailableStates::Response {
                    available_states: states.into_iter().map(state).collect(),
                }),
                _ => None,
            },
        )?,
        transitions(node, jobs, Kind::GetAvailableTransitions, Request::GetAvailableTransitions)?,
        transitions(node, jobs, Kind::GetTransitionGraph, Request::GetTransitionGraph)?,
    ])
}

/// The two services whose responses are transitions.
fn transitions(
    node: &mut r2r::Node,
    jobs: &Jobs,
    kind: ServiceKind,
    request: Request,
) -> r2r::Result<Box<dyn FnMut()>> {
    serve::<lifecycle_srv::GetAvailableTransitions::Service>(
        node,
        jobs,
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
    jobs: &Jobs,
    kind: ServiceKind,
    request_of: impl Fn(S::Request) -> Request + 'static,
    response_of: fn(Response) -> Option<S::Response>,
) -> r2r::Result<Box<dyn FnMut()>>
where
    S: WrappedServiceTypeSupport + 'static,
{
    serve_as::<S>(node, jobs, (kind, &format!("~/{}", kind.name())), request_of, response_of)
}

/// As [`serve`], under a separate name.
pub(super) fn serve_as<S>(
    node: &mut r2r::Node,
    jobs: &Jobs,
    (kind, service): (ServiceKind, &str),
    request_of: impl Fn(S::Request) -> Request + 'static,
    response_of: fn(Response) -> Option<S::Response>,
) -> r2r::Result<Box<dyn FnMut()>>
where
    S: WrappedServiceTypeSupport + 'static,
{
    let mut requests = node.create_service::<S>(service, r2r::QosProfile::services_default())?;
    let jobs = jobs.clone();
    Ok(Box::new(move || {
        while let Some(Some(request)) = requests.next().now_or_never() {
            pass_on(&jobs, kind, request, &request_of, response_of);
        }
    }))
}

fn pass_on<S>(
    jobs: &Jobs,
    kind: ServiceKind,
    request: ServiceRequest<S>,
    request_of: &impl Fn(S::Request) -> Request,
    response_of: fn(Response) -> Option<S::Response>,
) where
    S: WrappedServiceTypeSupport + 'static,
{
    let converted = request_of(request.message.clone());
    let reporter = jobs.clone();
    let job: Job = Box::new(move |handler| {
        let Some(response) = response_of(handler(converted)) else {
            return reporter.refused(kind, "the response is of another service");
        };
        if let Err(cause) = request.respond(response) {
            reporter.refused(kind, &format!("the response could not be sent: {cause}"));
        }
    });
    if jobs.sender.send(job).is_err() {
        jobs.refused(kind, "the thread of services has ended");
    }
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
