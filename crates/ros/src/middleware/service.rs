//! The services of ROS nodes and managed nodes.

use crate::{
    LifecycleState, LifecycleTransition, LoggerLevel, Parameter, ParameterDescriptor,
    ParameterType, ParameterValue, SetResult, TypeDescription, TypeSource,
};
use det_post_types::named;

named! {
    /// The services of every node, and those that have separate names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ServiceKind {
        /// `list_parameters`.
        ListParameters => "list_parameters",
        /// `get_parameters`.
        GetParameters => "get_parameters",
        /// `get_parameter_types`.
        GetParameterTypes => "get_parameter_types",
        /// `describe_parameters`.
        DescribeParameters => "describe_parameters",
        /// `set_parameters`.
        SetParameters => "set_parameters",
        /// `set_parameters_atomically`.
        SetParametersAtomically => "set_parameters_atomically",
        /// `change_state`.
        ChangeState => "change_state",
        /// `get_state`.
        GetState => "get_state",
        /// `get_available_states`.
        GetAvailableStates => "get_available_states",
        /// `get_available_transitions`.
        GetAvailableTransitions => "get_available_transitions",
        /// `get_transition_graph`.
        GetTransitionGraph => "get_transition_graph",
        /// `get_logger_levels`.
        GetLoggerLevels => "get_logger_levels",
        /// `set_logger_levels`.
        SetLoggerLevels => "set_logger_levels",
        /// `get_type_description`.
        GetTypeDescription => "get_type_description",
        /// A switch, which has a separate name.
        SetSwitch => "set_switch",
        /// The classes that a network finds, which have a separate name.
        SetClasses => "set_classes",
    }
    /// Its name relative to the node: the service is `~/NAME`.
    pub fn name;
}

impl ServiceKind {
    /// The services of every node.
    pub fn of_nodes() -> impl Iterator<Item = Self> {
        let has_separate_name = |kind: &Self| matches!(kind, Self::SetSwitch | Self::SetClasses);
        Self::ALL.into_iter().filter(move |kind| !has_separate_name(kind))
    }

    /// The ROS type.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::ListParameters => "rcl_interfaces/srv/ListParameters",
            Self::GetParameters => "rcl_interfaces/srv/GetParameters",
            Self::GetParameterTypes => "rcl_interfaces/srv/GetParameterTypes",
            Self::DescribeParameters => "rcl_interfaces/srv/DescribeParameters",
            Self::SetParameters => "rcl_interfaces/srv/SetParameters",
            Self::SetParametersAtomically => "rcl_interfaces/srv/SetParametersAtomically",
            Self::ChangeState => "lifecycle_msgs/srv/ChangeState",
            Self::GetState => "lifecycle_msgs/srv/GetState",
            Self::GetAvailableStates => "lifecycle_msgs/srv/GetAvailableStates",
            Self::GetAvailableTransitions | Self::GetTransitionGraph => {
                "lifecycle_msgs/srv/GetAvailableTransitions"
            }
            Self::GetLoggerLevels => "rcl_interfaces/srv/GetLoggerLevels",
            Self::SetLoggerLevels => "rcl_interfaces/srv/SetLoggerLevels",
            Self::GetTypeDescription => "type_description_interfaces/srv/GetTypeDescription",
            Self::SetSwitch => "std_srvs/srv/SetBool",
            Self::SetClasses => "yolo_msgs/srv/SetClasses",
        }
    }
}

/// A request to a service of the node.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Names of parameters below any of `prefixes` (all when there are none),
    /// at most `depth` dots deep below a prefix (0: any depth).
    ListParameters {
        /// Prefixes without their dot.
        prefixes: Vec<String>,
        /// Levels.
        depth: u64,
    },
    /// Values by name.
    GetParameters(Vec<String>),
    /// Types by name.
    GetParameterTypes(Vec<String>),
    /// Descriptors by name.
    DescribeParameters(Vec<String>),
    /// Sets parameters one after another, each with its own result.
    SetParameters(Vec<Parameter>),
    /// Sets all or nothing.
    SetParametersAtomically(Vec<Parameter>),
    /// Starts a transition, by its label if there is one, else by its number.
    ChangeState {
        /// Number in `lifecycle_msgs/Transition`.
        id: u8,
        /// Name of the transition, or empty.
        label: String,
    },
    /// The current state.
    GetState,
    /// Every state.
    GetAvailableStates,
    /// The transitions that may start now.
    GetAvailableTransitions,
    /// Every transition.
    GetTransitionGraph,
    /// Levels of loggers by name.
    GetLoggerLevels(Vec<String>),
    /// Sets levels of loggers, each with a separate result.
    SetLoggerLevels(Vec<LoggerLevel>),
    /// The description of a type.
    GetTypeDescription {
        /// Its hash, such as `RIHS01_…`. The name of the type is not used, as in rcl.
        type_hash: String,
        /// Whether the texts of the definitions are wanted, too.
        with_sources: bool,
    },
    /// Turns a switch on or off.
    SetSwitch(bool),
    /// Sets the names of the classes that are found.
    SetClasses(Vec<String>),
}

impl Request {
    /// Its service.
    pub fn kind(&self) -> ServiceKind {
        match self {
            Self::ListParameters { .. } => ServiceKind::ListParameters,
            Self::GetParameters(_) => ServiceKind::GetParameters,
            Self::GetParameterTypes(_) => ServiceKind::GetParameterTypes,
            Self::DescribeParameters(_) => ServiceKind::DescribeParameters,
            Self::SetParameters(_) => ServiceKind::SetParameters,
            Self::SetParametersAtomically(_) => ServiceKind::SetParametersAtomically,
            Self::ChangeState { .. } => ServiceKind::ChangeState,
            Self::GetState => ServiceKind::GetState,
            Self::GetAvailableStates => ServiceKind::GetAvailableStates,
            Self::GetAvailableTransitions => ServiceKind::GetAvailableTransitions,
            Self::GetTransitionGraph => ServiceKind::GetTransitionGraph,
            Self::GetLoggerLevels(_) => ServiceKind::GetLoggerLevels,
            Self::SetLoggerLevels(_) => ServiceKind::SetLoggerLevels,
            Self::GetTypeDescription { .. } => ServiceKind::GetTypeDescription,
            Self::SetSwitch(_) => ServiceKind::SetSwitch,
            Self::SetClasses(_) => ServiceKind::SetClasses,
        }
    }
}

/// The response to a request, by its kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// To `ListParameters`: names and their prefixes.
    Names {
        /// Full names.
        names: Vec<String>,
        /// Prefixes without their dot.
        prefixes: Vec<String>,
    },
    /// To `GetParameters`: one value per name; empty when a name is unknown, as in
    /// rclcpp.
    Values(Vec<ParameterValue>),
    /// To `GetParameterTypes`: one type per name; empty when a name is
    /// unknown.
    Types(Vec<ParameterType>),
    /// To `DescribeParameters`: one descriptor per name; empty when a name is
    /// unknown.
    Descriptors(Vec<ParameterDescriptor>),
    /// To `SetParameters` and `SetLoggerLevels`: one result per parameter or level.
    SetResults(Vec<SetResult>),
    /// To `SetParametersAtomically` and `SetSwitch`.
    SetResult(SetResult),
    /// To `ChangeState`: whether the goal was reached.
    Changed(bool),
    /// To `GetState`.
    State(LifecycleState),
    /// To `GetAvailableStates`.
    States(Vec<LifecycleState>),
    /// To `GetAvailableTransitions` and `GetTransitionGraph`.
    Transitions(Vec<LifecycleTransition>),
    /// To `GetLoggerLevels`: one level per name.
    LoggerLevels(Vec<LoggerLevel>),
    /// To `GetTypeDescription`: the type, or why it is not described.
    TypeDescription(Result<DescribedType, String>),
    /// To `SetClasses`, whose response has no fields.
    Nothing,
}

/// The description of a type.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedType {
    /// The type and those that it contains.
    pub description: TypeDescription,
    /// Their definitions; none unless they were requested.
    pub sources: Vec<TypeSource>,
}
