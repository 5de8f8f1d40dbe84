//! The services of the live node.

use super::{FRAME_TIMEOUT, Shared};
use crate::config::Config;
use crate::error::{Error, ErrorKind};
use crate::node::lifecycle::{Change, STAGE, TRANSITIONS};
use crate::ros::{LifecycleState, Parameter};
use crate::transport::middleware::{Request, Response};

impl Shared {
    pub(super) fn answer(&self, request: &Request) -> Response {
        let apply = |config: &Config, changes: &[Parameter]| {
            self.reconfigure(config);
            self.publish_parameter_event(&[], changes);
        };
        if let Some(response) = self.parameters.answer(request, apply) {
            return response;
        }
        match request {
            Request::ChangeState { id, label } => {
                let result = match Change::of_request(*id, label) {
                    Some(change) => self.change(change, FRAME_TIMEOUT),
                    None => Err(Error::new(
                        ErrorKind::Argument,
                        STAGE,
                        format!("there is no transition {id} {label:?}"),
                    )),
                };
                if let Err(error) = &result {
                    tracing::error!("{error}");
                }
                Response::Changed(result.is_ok())
            }
            Request::GetState => Response::State(self.lifecycle.state()),
            Request::GetAvailableStates => Response::States(LifecycleState::ALL.to_vec()),
            Request::GetAvailableTransitions => Response::Transitions(self.lifecycle.available()),
            Request::GetLoggerLevels(names) => Response::LoggerLevels(self.loggers.levels(names)),
            Request::SetLoggerLevels(levels) => Response::SetResults(self.loggers.set(levels)),
            _ => Response::Transitions(TRANSITIONS.to_vec()),
        }
    }
}

/// The response of a node that no longer exists.
pub(super) fn refusal(request: &Request) -> Response {
    let gone = || Err("the node is gone".to_owned());
    match request {
        Request::ListParameters { .. } => Response::Names { names: vec![], prefixes: vec![] },
        Request::GetParameters(_) => Response::Values(Vec::new()),
        Request::GetParameterTypes(_) => Response::Types(Vec::new()),
        Request::DescribeParameters(_) => Response::Descriptors(Vec::new()),
        Request::SetParameters(all) => Response::SetResults(all.iter().map(|_| gone()).collect()),
        Request::SetParametersAtomically(_) => Response::SetResult(gone()),
        Request::ChangeState { .. } => Response::Changed(false),
        Request::GetState => Response::State(LifecycleState::Finalized),
        Request::GetAvailableStates => Response::States(LifecycleState::ALL.to_vec()),
        Request::GetAvailableTransitions => Response::Transitions(Vec::new()),
        Request::GetTransitionGraph => Response::Transitions(TRANSITIONS.to_vec()),
        Request::GetLoggerLevels(_) => Response::LoggerLevels(Vec::new()),
        Request::SetLoggerLevels(all) => Response::SetResults(all.iter().map(|_| gone()).collect()),
    }
}
