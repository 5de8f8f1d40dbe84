//! A ROS graph of the caller: a middleware whose functions are the caller's.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

use det_post::{Error, ErrorKind, Result};
use det_post_ros::middleware::{
    Handler, InputKind, Middleware, Publisher, Receiver, ServiceKind, StampGaps, Subscription,
    Watcher,
};
use det_post_ros::{Durability, Qos as RosQos, Reliability};

use super::call::{Address, Const, ConstText, Out};
use super::endpoints::{Endpoints, Input, lock};
use super::gate::Gate;
use super::status::{self, Failure, Status};

const STAGE: &str = "graph";
/// Longest full name of a topic.
const MAX_NAME_BYTES: usize = 1024;

/// Quality of service of a topic: the last `depth` messages are kept.
#[repr(C)]
pub struct Qos {
    /// Messages that are kept for a slow reader.
    pub depth: usize,
    /// 1 reliable, 0 best effort.
    pub is_reliable: u32,
    /// 1 transient local, 0 volatile.
    pub is_transient_local: u32,
}

/// The ROS graph of a node in the process of the caller: functions that create and use its
/// subscriptions and publishers, which have numbers. They are called from any thread, also
/// within `det_post_node_open`, `_change` and `_close`, and must not call functions of the
/// same node. None may be null but `serve_switch`. A function that fails returns a status
/// other than `DET_POST_OK`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Graph {
    /// First argument of every function.
    pub context: Address,
    /// Writes the full name of a topic, expanded and remapped, with a 0 behind it, to at most
    /// `capacity` bytes, and returns its length.
    pub resolve: Option<
        extern "C" fn(context: Address, topic: ConstText, name: Out<u8>, capacity: usize) -> usize,
    >,
    /// Subscribes to a topic of messages of `type_name`, such as `sensor_msgs/msg/Image`. Its
    /// messages are given to `det_post_node_deliver` or `det_post_node_deliver_message`.
    pub subscribe: Option<
        extern "C" fn(
            context: Address,
            subscription: u64,
            topic: ConstText,
            type_name: ConstText,
            qos: Qos,
        ) -> Status,
    >,
    /// Ends a subscription.
    pub unsubscribe: Option<extern "C" fn(context: Address, subscription: u64)>,
    /// Number of publishers on the topic of a subscription.
    pub num_publishers: Option<extern "C" fn(context: Address, subscription: u64) -> usize>,
    /// Advertises a topic of messages of `type_name`.
    pub advertise: Option<
        extern "C" fn(
            context: Address,
            publisher: u64,
            topic: ConstText,
            type_name: ConstText,
            qos: Qos,
        ) -> Status,
    >,
    /// Ends a publisher; at the latest when the node is closed.
    pub unadvertise: Option<extern "C" fn(context: Address, publisher: u64)>,
    /// Number of subscribers on the topic of a publisher; called once per frame.
    pub num_subscribers: Option<extern "C" fn(context: Address, publisher: u64) -> usize>,
    /// Publishes a message: CDR in little endian, with its encapsulation header.
    pub publish: Option<
        extern "C" fn(
            context: Address,
            publisher: u64,
            message: Const<u8>,
            num_bytes: usize,
        ) -> Status,
    >,
    /// Serves `std_srvs/srv/SetBool` under a name until the node is closed; a request is given
    /// to `det_post_node_set_switch`. `NULL`: a configuration with such a service is refused.
    pub serve_switch:
        Option<extern "C" fn(context: Address, switch_number: u64, name: ConstText) -> Status>,
    /// For later versions; 0.
    pub reserved: [u64; 3],
}

type Create = extern "C" fn(Address, u64, ConstText, ConstText, Qos) -> Status;
type Count = extern "C" fn(Address, u64) -> usize;
type End = extern "C" fn(Address, u64);

/// A [`Graph`] without nulls where none may be.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    context: Address,
    resolve: extern "C" fn(Address, ConstText, Out<u8>, usize) -> usize,
    subscribe: Create,
    unsubscribe: End,
    num_publishers: Count,
    advertise: Create,
    unadvertise: End,
    num_subscribers: Count,
    publish: extern "C" fn(Address, u64, Const<u8>, usize) -> Status,
    serve_switch: Option<extern "C" fn(Address, u64, ConstText) -> Status>,
}

impl Graph {
    /// The functions.
    pub(super) fn functions(&self) -> std::result::Result<Functions, Failure> {
        if self.reserved != [0; 3] {
            return Err(Failure::argument("graph.reserved is not 0"));
        }
        fn given<F>(function: Option<F>, name: &str) -> std::result::Result<F, Failure> {
            function.ok_or_else(|| Failure::null(name))
        }
        Ok(Functions {
            context: self.context,
            resolve: given(self.resolve, "graph.resolve")?,
            subscribe: given(self.subscribe, "graph.subscribe")?,
            unsubscribe: given(self.unsubscribe, "graph.unsubscribe")?,
            num_publishers: given(self.num_publishers, "graph.num_publishers")?,
            advertise: given(self.advertise, "graph.advertise")?,
            unadvertise: given(self.unadvertise, "graph.unadvertise")?,
            num_subscribers: given(self.num_subscribers, "graph.num_subscribers")?,
            publish: given(self.publish, "graph.publish")?,
            serve_switch: self.serve_switch,
        })
    }
}

/// The functions of a graph until it is closed. Threads that outlive their node, such as one
/// with a frame that does not end, hold publishers, and end them when nothing may be called any
/// more.
pub(super) struct OpenGraph {
    gate: Gate<Functions>,
    /// Publishers that have not ended.
    publishers: Mutex<BTreeSet<u64>>,
}

impl OpenGraph {
    pub(super) fn new(functions: Functions) -> Arc<Self> {
        Arc::new(Self { gate: Gate::new(functions), publishers: Mutex::default() })
    }

    /// Calls a function that makes something.
    fn create(&self, call: impl FnOnce(&Functions) -> Status) -> Status {
        self.gate.call(call).unwrap_or(status::HANDLE)
    }

    fn unadvertise(&self, publisher: u64) {
        self.gate.call(|functions| {
            if lock(&self.publishers).remove(&publisher) {
                (functions.unadvertise)(functions.context, publisher);
            }
        });
    }
}

/// Closes a graph when it is dropped: waits for calls in progress and ends the publishers that
/// other threads still hold. No function is called afterwards.
pub(super) struct ClosesGraph(pub(super) Arc<OpenGraph>);

impl Drop for ClosesGraph {
    fn drop(&mut self) {
        let Functions { context, unadvertise, .. } = *self.0.gate.close();
        for publisher in std::mem::take(&mut *lock(&self.0.publishers)) {
            unadvertise(context, publisher);
        }
    }
}

fn refused(what: &str, topic: &str, status: Status) -> Error {
    let name = status::name(status).trim_end_matches('\0');
    Error::new(ErrorKind::Middleware, STAGE, format!("the graph refuses to {what} {topic}: {name}"))
}

fn text(text: &str) -> CString {
    // Names of topics and types have no 0.
    CString::new(text).unwrap_or_default()
}

/// The middleware over the functions of the caller.
pub(super) struct GraphMiddleware {
    graph: Arc<OpenGraph>,
    endpoints: Arc<Endpoints>,
    num_endpoints: u64,
}

impl GraphMiddleware {
    pub(super) fn new(graph: Arc<OpenGraph>, endpoints: Arc<Endpoints>) -> Self {
        Self { graph, endpoints, num_endpoints: 0 }
    }

    fn number(&mut self) -> u64 {
        self.num_endpoints += 1;
        self.num_endpoints
    }
}

/// Calls `subscribe` or `advertise`.
fn create(
    (create, context): (Create, Address),
    number: u64,
    (topic, type_name): (&str, &str),
    qos: RosQos,
) -> Status {
    let qos = Qos {
        depth: qos.depth,
        is_reliable: u32::from(qos.reliability == Reliability::Reliable),
        is_transient_local: u32::from(qos.durability == Durability::TransientLocal),
    };
    let (topic, type_name) = (text(topic), text(type_name));
    create(context, number, ConstText::of(&topic), ConstText::of(&type_name), qos)
}

impl Middleware for GraphMiddleware {
    fn name(&self) -> &'static str {
        "component"
    }

    fn resolve(&self, topic: &str) -> String {
        let mut name = [0_u8; MAX_NAME_BYTES];
        let (topic, capacity) = (text(topic), name.len());
        let len = self.graph.gate.call(|Functions { context, resolve, .. }| {
            resolve(*context, ConstText::of(&topic), Out::of(&mut name), capacity)
        });
        let len = len.unwrap_or_default().min(MAX_NAME_BYTES - 1);
        String::from_utf8_lossy(&name[..len]).into_owned()
    }

    fn subscribe(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: RosQos,
        receiver: Receiver,
    ) -> Result<Box<dyn Subscription>> {
        let number = self.number();
        let input =
            Input { kind, topic: self.resolve(topic), receiver, gaps: StampGaps::default() };
        lock(&self.endpoints.receivers).insert(number, Arc::new(Mutex::new(input)));
        // From here on it is ended when it is dropped.
        let (graph, endpoints) = (Arc::clone(&self.graph), Arc::clone(&self.endpoints));
        let subscription = GraphSubscription { graph, number, endpoints };
        let created = self.graph.create(|functions| {
            let subscribe = (functions.subscribe, functions.context);
            create(subscribe, number, (topic, kind.type_name()), qos)
        });
        match created {
            status::OK => Ok(Box::new(subscription)),
            status => Err(refused("subscribe to", topic, status)),
        }
    }

    fn advertise(
        &mut self,
        topic: &str,
        type_name: &'static str,
        qos: RosQos,
    ) -> Result<Box<dyn Publisher>> {
        let (number, graph, topic) = (self.number(), Arc::clone(&self.graph), topic.to_owned());
        let created = self.graph.create(|functions| {
            let advertise = (functions.advertise, functions.context);
            let status = create(advertise, number, (&topic, type_name), qos);
            if status == status::OK {
                lock(&self.graph.publishers).insert(number);
            }
            status
        });
        match created {
            status::OK => Ok(Box::new(GraphPublisher { graph, number, topic })),
            status => Err(refused("advertise", &topic, status)),
        }
    }

    fn serve(&mut self, handler: Handler) -> Result<()> {
        // The caller has services of its own, which ask this handler.
        self.endpoints
            .handler
            .set(handler)
            .map_err(|_| Error::new(ErrorKind::Middleware, STAGE, "services are served already"))
    }

    fn serve_named(&mut self, kind: ServiceKind, name: &str, handler: Handler) -> Result<()> {
        if kind != ServiceKind::SetSwitch {
            let of = kind.type_name();
            tracing::warn!(
                "{name}: a component does not serve {of}; set the parameter in its place"
            );
            return Ok(());
        }
        let serve_switch = self.graph.gate.call(|functions| functions.serve_switch).flatten();
        let serve_switch = serve_switch.ok_or_else(|| {
            let message = format!("{name}: graph.serve_switch is null");
            Error::new(ErrorKind::Middleware, STAGE, message)
        })?;
        let number = self.number();
        lock(&self.endpoints.switches).insert(number, Arc::new(handler));
        let full_name = text(name);
        let created = self
            .graph
            .create(|functions| serve_switch(functions.context, number, ConstText::of(&full_name)));
        match created {
            status::OK => Ok(()),
            status => Err(refused("serve", name, status)),
        }
    }

    fn watch(&mut self, watcher: Watcher) {
        *lock(&self.endpoints.watcher) = Some(watcher);
    }

    fn counts_losses(&self) -> bool {
        false
    }
}

struct GraphSubscription {
    graph: Arc<OpenGraph>,
    number: u64,
    endpoints: Arc<Endpoints>,
}

impl Subscription for GraphSubscription {
    fn num_publishers(&self) -> usize {
        let count =
            |functions: &Functions| (functions.num_publishers)(functions.context, self.number);
        self.graph.gate.call(count).unwrap_or_default()
    }
}

impl Drop for GraphSubscription {
    fn drop(&mut self) {
        lock(&self.endpoints.receivers).remove(&self.number);
        self.graph.gate.call(|functions| (functions.unsubscribe)(functions.context, self.number));
    }
}

struct GraphPublisher {
    graph: Arc<OpenGraph>,
    number: u64,
    topic: String,
}

impl Publisher for GraphPublisher {
    fn publish(&mut self, cdr: &[u8]) -> Result<()> {
        let published = self.graph.gate.call(|Functions { context, publish, .. }| {
            publish(*context, self.number, Const::of(cdr), cdr.len())
        });
        // Once the graph is closed, nothing is published.
        match published.unwrap_or(status::OK) {
            status::OK => Ok(()),
            status => Err(refused("publish on", &self.topic, status)),
        }
    }

    fn num_subscribers(&self) -> usize {
        let count =
            |functions: &Functions| (functions.num_subscribers)(functions.context, self.number);
        self.graph.gate.call(count).unwrap_or_default()
    }
}

impl Drop for GraphPublisher {
    fn drop(&mut self) {
        self.graph.unadvertise(self.number);
    }
}
