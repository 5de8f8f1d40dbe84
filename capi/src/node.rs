//! The live node in the process of the caller.

use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use det_post::config::Config;
use det_post::node::{Change, LiveNode};
use det_post_ros::middleware::{InputKind, Received, Request, Response, deliver};
use det_post_ros::{ParameterDescriptor, ParameterValue};
use det_post_types::ImagePayload;

use super::call::{Call, Const, ConstText, In, Out, Text, run, run_shared};
use super::configuration::Configuration;
use super::endpoints::Endpoints;
use super::frame::{INPUT_TENSORS, Input, View};
use super::graph::{ClosesGraph, Graph, GraphMiddleware, OpenGraph};
use super::handles::Handles;
use super::status::{Failure, Status};
use super::tensors::TensorMemory;

/// A live node: all channels of a configuration, with life cycle and diagnostics, in the ROS
/// graph of the caller. It behaves as the program `det_post run` does.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Node {
    /// Its number; 0 is never a node.
    pub id: u64,
}

/// A parameter of a node, as `rcl_interfaces` describes it.
#[repr(C)]
pub struct Parameter {
    /// Name.
    pub name: ConstText,
    /// What it means, with its unit.
    pub description: ConstText,
    /// Its allowed values.
    pub allowed: ConstText,
    /// 1 if it is fixed when the node is opened, else 0.
    pub is_read_only: u32,
    /// Type of the value, by its number in `rcl_interfaces/msg/ParameterType`: 0 not set, 1
    /// `flag`, 2 `integer`, 3 `number`, 4 `text`, 8 `numbers`, 9 `texts`.
    pub value_type: u32,
    /// 0 or 1.
    pub flag: u32,
    /// An integer.
    pub integer: i64,
    /// A floating-point number.
    pub number: f64,
    /// A text.
    pub text: ConstText,
    /// Floating-point numbers.
    pub numbers: Const<f64>,
    /// Texts.
    pub texts: Const<ConstText>,
    /// Number of `numbers` or `texts`.
    pub num_values: usize,
}

/// The object of a [`Node`].
struct Opened {
    config: Config,
    endpoints: Arc<Endpoints>,
    tensors: Mutex<TensorMemory>,
    parameters: Mutex<Described>,
    live: LiveNode,
    /// After the node, which still uses it when it is dropped.
    _graph: ClosesGraph,
}

/// The memory of parameters.
#[derive(Default)]
struct Described {
    public: Vec<Parameter>,
    lists: Vec<Vec<ConstText>>,
    numbers: Vec<Vec<f64>>,
    texts: Vec<CString>,
}

static NODES: Handles<Arc<Opened>> = Handles::new("node", 4);

/// Between two looks whether calls of other threads have ended.
const CALL_POLL: Duration = Duration::from_millis(1);

impl Described {
    fn text(&mut self, text: &str) -> ConstText {
        // A 0 in a text ends it for C.
        let text = CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default();
        let pointer = ConstText::of(&text);
        self.texts.push(text);
        pointer
    }

    fn add(&mut self, descriptor: &ParameterDescriptor, value: &ParameterValue) {
        let mut parameter = Parameter {
            name: self.text(&descriptor.name),
            description: self.text(&descriptor.description),
            allowed: self.text(&descriptor.additional_constraints),
            is_read_only: u32::from(descriptor.is_read_only),
            value_type: value.parameter_type() as u32,
            flag: 0,
            integer: 0,
            number: 0.0,
            text: ConstText::NULL,
            numbers: Const::NULL,
            texts: Const::NULL,
            num_values: 0,
        };
        match value {
            ParameterValue::Flag(flag) => parameter.flag = u32::from(*flag),
            ParameterValue::Integer(integer) => parameter.integer = *integer,
            ParameterValue::Number(number) => parameter.number = *number,
            ParameterValue::Text(text) => parameter.text = self.text(text),
            ParameterValue::Numbers(numbers) => {
                parameter.num_values = numbers.len();
                let kept = numbers.clone();
                parameter.numbers = Const::of(&kept);
                self.numbers.push(kept);
            }
            ParameterValue::Texts(texts) => {
                let kept: Vec<_> = texts.iter().map(|text| self.text(text)).collect();
                parameter.num_values = kept.len();
                parameter.texts = Const::of(&kept);
                self.lists.push(kept);
            }
            // No parameter has one of the other types.
            _ => {}
        }
        self.public.push(parameter);
    }
}

impl Opened {
    fn open(call: &Call, from: &Configuration, graph: &Graph) -> Result<Self, Failure> {
        let config = from.read_node(call)?;
        let endpoints = Arc::new(Endpoints::default());
        let graph = ClosesGraph(OpenGraph::new(graph.functions()?));
        let middleware = GraphMiddleware::new(Arc::clone(&graph.0), Arc::clone(&endpoints));
        let factory = from.factory(call)?;
        let live = LiveNode::with_factory(config.clone(), Box::new(middleware), factory)?;
        Ok(Self {
            config,
            endpoints,
            tensors: Mutex::default(),
            parameters: Mutex::default(),
            live,
            _graph: graph,
        })
    }

    fn answer(&self, request: Request) -> Result<Response, Failure> {
        let name = request.kind().name();
        self.endpoints
            .answer(request)
            .ok_or_else(|| Failure::argument(format!("{name}: no answer")))
    }

    fn describe(&self) -> Result<Described, Failure> {
        let mut described = Described::default();
        let all = Request::ListParameters { prefixes: Vec::new(), depth: 0 };
        if let Response::Names { names, .. } = self.answer(all)?
            && let Response::Descriptors(descriptors) =
                self.answer(Request::DescribeParameters(names.clone()))?
            && let Response::Values(values) = self.answer(Request::GetParameters(names))?
        {
            for (descriptor, value) in descriptors.iter().zip(&values) {
                described.add(descriptor, value);
            }
        }
        Ok(described)
    }

    /// Delivers data of a sensor by pointer.
    fn deliver(&self, call: &Call, subscription: u64, input: &Input) -> Result<(), Failure> {
        // Only tensors are copied; images and clouds of several threads do not wait for each other.
        let (mut held, mut unused);
        let memory = if input.kind == INPUT_TENSORS {
            held = self.tensors.lock().unwrap_or_else(PoisonError::into_inner);
            &mut *held
        } else {
            unused = TensorMemory::default();
            &mut unused
        };
        let view = input.view_alone(call, memory);
        let message = view.and_then(|view| Ok((input.header(call)?, view)));
        let (header, view) = match message {
            Ok((header, Some(view))) => (header, view),
            Ok((_, None)) => return Err(Failure::argument("input.kind is DET_POST_INPUT_NONE")),
            // As a message that does not decode: counted among the refused ones.
            Err(failure) => {
                let error = failure.into_error()?;
                self.endpoints.deliver(subscription, |_, receiver| receiver(Err(error)));
                return Ok(());
            }
        };
        let image = |payload| Received::Image { header, payload };
        let (kind, received) = match &view {
            View::Image(payload @ ImagePayload::Raw(_)) => (InputKind::Image, image(*payload)),
            View::Image(payload @ ImagePayload::Compressed(_)) => {
                (InputKind::CompressedImage, image(*payload))
            }
            View::Cloud(view) => (InputKind::PointCloud2, Received::Cloud { header, view }),
            View::Tensors(tensors) => {
                (InputKind::TensorList, Received::Tensors { header, tensors })
            }
            View::Image(_) | View::CloudOnDevice(_) => {
                return Err(Failure::argument("message.is_on_device: a node reads host memory"));
            }
        };
        let mut wanted = kind;
        self.endpoints.deliver(subscription, |of_subscription, receiver| {
            wanted = of_subscription;
            if wanted == kind {
                receiver(Ok(received));
            }
        });
        if wanted == kind {
            return Ok(());
        }
        let (wanted, found) = (wanted.type_name(), kind.type_name());
        Err(Failure::argument(format!("subscription {subscription} is for {wanted}, not {found}")))
    }
}

/// Opens a live node in the graph of the caller, as `det_post run` opens one: parameters and
/// diagnostics, no network. `configuration.channel` is not read. Close it with
/// `det_post_node_close`.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_node_open(
    configuration: In<Configuration>,
    graph: In<Graph>,
    node: Out<Node>,
) -> Status {
    run(0, |call| {
        call.check_out(node, "node")?;
        let graph = call.one(graph, "graph")?;
        let opened = Opened::open(call, call.one(configuration, "configuration")?, graph)?;
        call.write(node, Node { id: NODES.open(Arc::new(opened)) }, "node")
    })
}

/// Shuts a node down and closes it: no function of its graph is called afterwards. Calls of
/// other threads on it end first, and are waited for; later ones fail with
/// `DET_POST_ERROR_HANDLE`. A frame that takes longer than 1 s ends unpublished, in a thread
/// that is not waited for.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_node_close(node: Node) -> Status {
    run_shared(node.id, |_| {
        let mut opened = NODES.take(node.id)?;
        while let Err(in_use) = Arc::try_unwrap(opened) {
            opened = in_use;
            std::thread::sleep(CALL_POLL);
        }
        Ok(())
    })
}

/// Changes the state of a node and waits for the result. `transition` is the number of
/// `lifecycle_msgs/msg/Transition`: 1 configure, 2 cleanup, 3 activate, 4 deactivate, 5
/// shutdown.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_node_change(node: Node, transition: u32) -> Status {
    run_shared(node.id, |_| {
        let change = u8::try_from(transition).ok().and_then(|id| Change::of_request(id, ""));
        let change = change
            .ok_or_else(|| Failure::argument(format!("there is no transition {transition}")))?;
        Ok(NODES.shared(node.id)?.live.change(change)?)
    })
}

/// Delivers a message of a subscription by pointer: an image, a point cloud or tensors in host
/// memory. It is copied once. A message whose sizes contradict each other, or with a text that
/// is not UTF-8, is counted as refused, as in the program; one for a subscription that has ended
/// is dropped.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_node_deliver(
    node: Node,
    subscription: u64,
    message: In<Input>,
) -> Status {
    run_shared(node.id, |call| {
        let message = call.one(message, "message")?;
        NODES.shared(node.id)?.deliver(call, subscription, message)
    })
}

/// Delivers a message of any subscription as CDR with its encapsulation header.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_node_deliver_message(
    node: Node,
    subscription: u64,
    message: In<u8>,
    num_bytes: usize,
) -> Status {
    run_shared(node.id, |call| {
        let cdr = call.slice(message, num_bytes, "message")?;
        let opened = NODES.shared(node.id)?;
        opened.endpoints.deliver(subscription, |kind, receiver| deliver(kind, cdr, receiver));
        Ok(())
    })
}

/// The parameters of a node by name, with their present values. `parameters` points to memory
/// of the node, valid until the next `det_post_node_parameters`, or until the node is closed.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_node_parameters(
    node: Node,
    parameters: Out<Const<Parameter>>,
    num_parameters: Out<usize>,
) -> Status {
    run_shared(node.id, |call| {
        call.check_out(parameters, "parameters")?;
        let opened = NODES.shared(node.id)?;
        let mut kept = opened.parameters.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = opened.describe()?;
        call.write(num_parameters, kept.public.len(), "num_parameters")?;
        call.write(parameters, Const::of(&kept.public), "parameters")
    })
}

/// Sets parameters by assignments `key:=value`, all or none, as `set_parameters_atomically`
/// does.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_node_set_parameters(
    node: Node,
    overrides: In<Text>,
    num_overrides: usize,
) -> Status {
    run_shared(node.id, |call| {
        let texts = call.slice(overrides, num_overrides, "overrides")?.iter();
        let overrides = texts.map(|&text| call.text(text, "overrides").map(str::to_owned));
        let overrides = overrides.collect::<Result<Vec<_>, _>>()?;
        let opened = NODES.shared(node.id)?;
        let parameters = opened.config.assignments(&overrides)?;
        match opened.answer(Request::SetParametersAtomically(parameters))? {
            Response::SetResult(Err(reason)) => Err(Failure::config(reason)),
            _ => Ok(()),
        }
    })
}

/// Sets a switch of `serve_switch` on (1) or off (0). A switch that refuses is
/// `DET_POST_ERROR_CONFIG`, with its message.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_node_set_switch(node: Node, switch_number: u64, is_on: u32) -> Status {
    run_shared(node.id, |_| {
        if is_on > 1 {
            return Err(Failure::argument(format!("is_on is {is_on}; allowed: 0, 1")));
        }
        let opened = NODES.shared(node.id)?;
        let result = opened.endpoints.set_switch(switch_number, is_on == 1);
        let missing = || Failure::argument(format!("there is no switch {switch_number}"));
        result.ok_or_else(missing)?.map_err(Failure::config)
    })
}
