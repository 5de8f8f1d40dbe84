//! The services of the live node.

use std::sync::Arc;

use super::{FRAME_TIMEOUT, Shared, lock};
use crate::config::{ChannelKind, Config};
use crate::node::lifecycle::{Change, STAGE, TRANSITIONS};
use det_post_ros::messages::find_type;
use det_post_ros::middleware::{DescribedType, Middleware, Request, Response, ServiceKind};
use det_post_ros::{
    LifecycleState, Parameter, ParameterValue, ParseTypeHashError, SetResult, TypeHash,
};
use det_post_types::{Error, ErrorKind};

impl Shared {
    pub(super) fn answer(&self, request: &Request) -> Response {
        let apply = |config: &Config, changes: &[Parameter]| {
            let channels = lock(&self.channels);
            let mut pairs = channels.iter().zip(&config.channels);
            pairs.try_for_each(|(channel, config)| channel.check(config))?;
            drop(channels);
            self.reconfigure(config);
            self.publish_parameter_event(&[], changes);
            Ok(())
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
            Request::GetTypeDescription { type_hash, with_sources } => {
                Response::TypeDescription(describe(type_hash, *with_sources))
            }
            _ => Response::Transitions(TRANSITIONS.to_vec()),
        }
    }
}

impl Shared {
    /// Passes a configuration that is checked to the threads of the channels, which take it between two
    /// frames.
    pub(super) fn reconfigure(&self, config: &Config) {
        let mut channels = lock(&self.channels);
        for (channel, config) in channels.iter_mut().zip(&config.channels) {
            channel.reconfigure(config);
        }
    }

    /// Serves the services of channels.
    pub(super) fn serve_named(
        self: &Arc<Self>,
        middleware: &mut dyn Middleware,
    ) -> det_post_types::Result<()> {
        let config = self.parameters.config();
        for channel in &config.channels {
            if let Some(service) = &channel.live.enable_service {
                let name = config.parameter_name(&channel.name, "enabled");
                let node = Arc::downgrade(self);
                let handler = move |request| match (node.upgrade(), request) {
                    (Some(node), Request::SetSwitch(on)) => {
                        Response::SetResult(node.set(&name, ParameterValue::Flag(on)))
                    }
                    (_, request) => refusal(&request),
                };
                middleware.serve_named(ServiceKind::SetSwitch, service, Box::new(handler))?;
            }
            let ChannelKind::Camera(camera) = &channel.kind else { continue };
            if let Some(service) = &camera.classes_service {
                let name = config.parameter_name(&channel.name, "classes");
                let (node, of) = (Arc::downgrade(self), service.clone());
                let handler = move |request| match (node.upgrade(), request) {
                    (Some(node), Request::SetClasses(classes)) => {
                        node.set_classes(&of, &name, classes)
                    }
                    (_, request) => refusal(&request),
                };
                middleware.serve_named(ServiceKind::SetClasses, service, Box::new(handler))?;
            }
        }
        Ok(())
    }

    /// Sets a parameter, as its service does.
    fn set(&self, name: &str, value: ParameterValue) -> SetResult {
        let parameter = Parameter { name: name.to_owned(), value };
        match self.answer(&Request::SetParametersAtomically(vec![parameter])) {
            Response::SetResult(result) => result,
            other => Err(format!("{other:?}")),
        }
    }

    /// Sets the classes of a channel, all or none. The response has no place for a reason.
    fn set_classes(&self, service: &str, name: &str, classes: Vec<String>) -> Response {
        if let Err(reason) = self.set(name, ParameterValue::Texts(classes)) {
            lock(&self.graph).num_refused_requests += 1;
            tracing::error!("{service}: the classes stay as they are: {reason}");
        }
        Response::Nothing
    }
}

/// Describes the type of a hash; an error has rcl's words.
fn describe(type_hash: &str, with_sources: bool) -> Result<DescribedType, String> {
    let hash: TypeHash =
        type_hash.parse().map_err(|error: ParseTypeHashError| error.to_string())?;
    let known = find_type(hash).ok_or("Type not currently in use by this node")?;
    let sources = if with_sources { known.sources() } else { Vec::new() };
    Ok(DescribedType { description: known.description.clone(), sources })
}

/// The response of a node that no longer exists.
pub(super) fn refusal(request: &Request) -> Response {
    let gone = || Err("the node has ended".to_owned());
    match request {
        Request::ListParameters { .. } => Response::Names { names: vec![], prefixes: vec![] },
        Request::GetParameters(_) => Response::Values(Vec::new()),
        Request::GetParameterTypes(_) => Response::Types(Vec::new()),
        Request::DescribeParameters(_) => Response::Descriptors(Vec::new()),
        Request::SetParameters(all) => Response::SetResults(all.iter().map(|_| gone()).collect()),
        Request::SetParametersAtomically(_) | Request::SetSwitch(_) => Response::SetResult(gone()),
        Request::SetClasses(_) => Response::Nothing,
        Request::ChangeState { .. } => Response::Changed(false),
        Request::GetState => Response::State(LifecycleState::Finalized),
        Request::GetAvailableStates => Response::States(LifecycleState::ALL.to_vec()),
        Request::GetAvailableTransitions => Response::Transitions(Vec::new()),
        Request::GetTransitionGraph => Response::Transitions(TRANSITIONS.to_vec()),
        Request::GetLoggerLevels(_) => Response::LoggerLevels(Vec::new()),
        Request::SetLoggerLevels(all) => Response::SetResults(all.iter().map(|_| gone()).collect()),
        Request::GetTypeDescription { .. } => {
            Response::TypeDescription(Err("the node has ended".to_owned()))
        }
    }
}
