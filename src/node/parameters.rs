//! The parameter services of a live node.

use std::sync::Mutex;

use super::channel_state::lock;
use crate::config::{Config, DeclaredParameter};
use det_post_ros::middleware::{Request, Response};
use det_post_ros::{Parameter, ParameterType, SetResult};

/// The parameters as they hold now.
pub struct ParameterServer {
    config: Mutex<Config>,
    /// Read-only parameters beside those of the configuration.
    fixed: Vec<DeclaredParameter>,
}

impl ParameterServer {
    /// Serves the parameters of a configuration, and `fixed` ones that are
    /// read-only.
    pub fn new(config: Config, fixed: Vec<DeclaredParameter>) -> Self {
        Self { config: Mutex::new(config), fixed }
    }

    /// All parameters with their values, as the first `ParameterEvent` has them.
    pub fn declared(&self) -> Vec<Parameter> {
        self.parameters().into_iter().map(into_parameter).collect()
    }

    /// The configuration as it holds now.
    pub fn config(&self) -> Config {
        lock(&self.config).clone()
    }

    /// Shows the configuration as it holds now; no parameter changes meanwhile.
    pub fn visit(&self, look: impl FnOnce(&Config)) {
        look(&lock(&self.config));
    }

    /// Answers a request about parameters; `None` for any other.
    ///
    /// `apply` receives every new configuration, with what changed, before
    /// the answer goes out, or refuses it with a reason. One change at a time.
    pub fn answer(
        &self,
        request: &Request,
        mut apply: impl FnMut(&Config, &[Parameter]) -> SetResult,
    ) -> Option<Response> {
        Some(match request {
            Request::ListParameters { prefixes, depth } => {
                list(&self.parameters(), prefixes, *depth)
            }
            Request::GetParameters(names) => {
                Response::Values(self.find_all(names, |p| p.value.clone()))
            }
            Request::GetParameterTypes(names) => {
                let type_of = |p: &DeclaredParameter| p.value.parameter_type();
                Response::Types(self.find_all::<ParameterType>(names, type_of))
            }
            Request::DescribeParameters(names) => {
                Response::Descriptors(self.find_all(names, |p| p.descriptor.clone()))
            }
            Request::SetParameters(parameters) => Response::SetResults(
                parameters
                    .iter()
                    .map(|parameter| self.set(std::slice::from_ref(parameter), &mut apply))
                    .collect(),
            ),
            Request::SetParametersAtomically(parameters) => {
                Response::SetResult(self.set(parameters, &mut apply))
            }
            Request::ChangeState { .. }
            | Request::GetState
            | Request::GetAvailableStates
            | Request::GetAvailableTransitions
            | Request::GetTransitionGraph
            | Request::GetLoggerLevels(_)
            | Request::SetLoggerLevels(_)
            | Request::GetTypeDescription { .. }
            | Request::SetSwitch(_)
            | Request::SetClasses(_) => return None,
        })
    }

    fn parameters(&self) -> Vec<DeclaredParameter> {
        let mut parameters = lock(&self.config).parameters();
        parameters.extend(self.fixed.iter().cloned());
        parameters.sort_by(|a, b| a.descriptor.name.cmp(&b.descriptor.name));
        parameters
    }

    /// What is known of every name; nothing when a name is not known, as
    /// rclcpp has it.
    fn find_all<T>(&self, names: &[String], read: impl Fn(&DeclaredParameter) -> T) -> Vec<T> {
        let parameters = self.parameters();
        let find = |name: &String| {
            let position = parameters.binary_search_by(|p| p.descriptor.name.cmp(name)).ok()?;
            Some(read(&parameters[position]))
        };
        names.iter().map(find).collect::<Option<_>>().unwrap_or_default()
    }

    /// Sets all or none.
    fn set(
        &self,
        parameters: &[Parameter],
        apply: &mut impl FnMut(&Config, &[Parameter]) -> SetResult,
    ) -> SetResult {
        let find = |parameter: &Parameter| {
            self.fixed.iter().find(|fixed| fixed.descriptor.name == parameter.name)
        };
        let is_changed = |parameter: &&Parameter| {
            find(parameter).is_some_and(|fixed| !fixed.holds(&parameter.value))
        };
        if let Some(Parameter { name, .. }) = parameters.iter().find(is_changed) {
            return Err(format!("{name}: is read-only: fixed when the node starts"));
        }
        let of_config = parameters.iter().filter(|parameter| find(parameter).is_none());
        let parameters = &of_config.cloned().collect::<Vec<_>>()[..];
        let mut config = lock(&self.config);
        let refuse = |reason: &str| {
            tracing::warn!("parameters are not set: {reason}");
            reason.to_owned()
        };
        let changed = config.with_parameters(parameters).map_err(|e| refuse(e.message()))?;
        let before = config.parameters();
        let differs = |new: &DeclaredParameter| {
            !before.iter().any(|p| p.descriptor.name == new.descriptor.name && p.value == new.value)
        };
        let changes: Vec<Parameter> =
            changed.parameters().into_iter().filter(differs).map(into_parameter).collect();
        apply(&changed, &changes).map_err(|reason| refuse(&reason))?;
        for Parameter { name, value } in &changes {
            tracing::info!("parameter {name} is now {value}");
        }
        *config = changed;
        Ok(())
    }
}

fn into_parameter(declared: DeclaredParameter) -> Parameter {
    Parameter { name: declared.descriptor.name, value: declared.value }
}

/// Names below any of the prefixes, and the prefixes of those names.
fn list(parameters: &[DeclaredParameter], prefixes: &[String], depth: u64) -> Response {
    let num_dots = |text: &str| text.matches('.').count() as u64;
    let is_wanted = |name: &str| {
        if prefixes.is_empty() {
            return depth == 0 || num_dots(name) < depth;
        }
        prefixes.iter().any(|prefix| {
            name == prefix
                || name
                    .strip_prefix(prefix.as_str())
                    .and_then(|rest| rest.strip_prefix('.'))
                    .is_some_and(|rest| depth == 0 || num_dots(rest) < depth)
        })
    };
    let names: Vec<String> = parameters
        .iter()
        .map(|parameter| &parameter.descriptor.name)
        .filter(|name| is_wanted(name))
        .cloned()
        .collect();
    let mut found: Vec<String> = names
        .iter()
        .filter_map(|name| name.rsplit_once('.').map(|(prefix, _)| prefix.to_owned()))
        .collect();
    found.sort_unstable();
    found.dedup();
    Response::Names { names, prefixes: found }
}
