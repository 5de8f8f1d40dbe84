//! A middleware within the process.
//!
//! [`MemoryMiddleware`] is the node's side; [`MemoryGraph`] is the side of its
//! peers. Messages are delivered on the caller's thread: they have arrived when
//! [`MemoryGraph::send`] returns.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use det_post::{Error, ErrorKind, Result};
use det_post_ros::SetResult;
use det_post_ros::middleware::{
    Handler, InputKind, MessageBuffers, Middleware, MiddlewareEvent, MiddlewareOptions, Publisher,
    Qos, Receiver, Request, Response, ServiceKind, Subscription, Watcher, deliver,
};

/// The node's side of a graph in memory.
pub struct MemoryMiddleware {
    options: MiddlewareOptions,
    graph: MemoryGraph,
}

/// The peers' side of a graph in memory. Clones share the graph.
#[derive(Clone, Default)]
pub struct MemoryGraph(Arc<Shared>);

#[derive(Default)]
struct Shared {
    inputs: Mutex<Vec<Arc<Input>>>,
    outputs: Mutex<BTreeMap<String, Output>>,
    handler: Mutex<Option<Arc<Handler>>>,
    /// By the name of the service.
    named: Mutex<BTreeMap<String, Arc<Handler>>>,
    watchers: Mutex<Vec<Watcher>>,
}

struct Input {
    topic: String,
    kind: InputKind,
    qos: Qos,
    num_publishers: Mutex<usize>,
    receiver: Mutex<Receiver>,
    /// Whether the node offers memory in which messages may be put together.
    offers_memory: bool,
}

#[derive(Default)]
struct Output {
    type_name: &'static str,
    qos: Option<Qos>,
    num_subscribers: usize,
    messages: Vec<Vec<u8>>,
}

impl MemoryMiddleware {
    /// Both sides of a new graph.
    pub fn open(options: MiddlewareOptions) -> (Self, MemoryGraph) {
        let graph = MemoryGraph::default();
        (Self { options, graph: graph.clone() }, graph)
    }

    fn add(
        &self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
        offers_memory: bool,
    ) -> Box<dyn Subscription> {
        let input = Arc::new(Input {
            topic: self.resolve(topic),
            kind,
            qos,
            num_publishers: Mutex::new(1),
            receiver: Mutex::new(receiver),
            offers_memory,
        });
        lock(&self.graph.0.inputs).push(Arc::clone(&input));
        Box::new(MemorySubscription { graph: self.graph.clone(), input })
    }
}

impl MemoryGraph {
    /// Delivers a whole CDR message to the subscriptions of `topic` and returns
    /// their number.
    pub fn send(&self, topic: &str, cdr: &[u8]) -> usize {
        let inputs: Vec<_> =
            lock(&self.0.inputs).iter().filter(|i| i.topic == topic).cloned().collect();
        for input in &inputs {
            deliver(input.kind, cdr, &mut *lock(&input.receiver));
        }
        inputs.len()
    }

    /// Calls a service of the node; `None` when it serves none.
    pub fn call(&self, request: Request) -> Option<Response> {
        let handler = lock(&self.0.handler).clone()?;
        Some(handler(request))
    }

    /// Asks the service of a separate name; `None` when the node serves none.
    pub fn ask_named(&self, name: &str, request: Request) -> Option<Response> {
        let handler = lock(&self.0.named).get(name).cloned()?;
        Some(handler(request))
    }

    /// Calls the switch of a name; `None` when the node serves none.
    pub fn switch(&self, name: &str, on: bool) -> Option<SetResult> {
        match self.ask_named(name, Request::SetSwitch(on))? {
            Response::SetResult(result) => Some(result),
            _ => None,
        }
    }

    /// Sets the number of matched publishers of a subscribed topic.
    pub fn set_publishers(&self, topic: &str, count: usize) {
        for input in lock(&self.0.inputs).iter().filter(|input| input.topic == topic) {
            *lock(&input.num_publishers) = count;
        }
    }

    /// Sets the number of matched subscribers of a topic.
    pub fn set_subscribers(&self, topic: &str, count: usize) {
        lock(&self.0.outputs).entry(topic.to_owned()).or_default().num_subscribers = count;
    }

    /// Takes the messages that were published on a topic since the last call.
    pub fn take(&self, topic: &str) -> Vec<Vec<u8>> {
        let mut outputs = lock(&self.0.outputs);
        outputs
            .get_mut(topic)
            .map(|output| std::mem::take(&mut output.messages))
            .unwrap_or_default()
    }

    /// Topics that the node subscribes to now.
    pub fn inputs(&self) -> Vec<(String, InputKind, Qos)> {
        lock(&self.0.inputs)
            .iter()
            .map(|input| (input.topic.clone(), input.kind, input.qos))
            .collect()
    }

    /// Whether the node offers memory for the messages of a topic.
    pub fn offers_memory(&self, topic: &str) -> bool {
        lock(&self.0.inputs).iter().any(|input| input.topic == topic && input.offers_memory)
    }

    /// Topics that the node has advertised, with their types.
    pub fn outputs(&self) -> Vec<(String, &'static str, Qos)> {
        let outputs = lock(&self.0.outputs);
        let announced = |(topic, output): (&String, &Output)| {
            Some((topic.clone(), output.type_name, output.qos?))
        };
        outputs.iter().filter_map(announced).collect()
    }

    /// Reports an event to the node.
    pub fn report(&self, event: &MiddlewareEvent) {
        lock(&self.0.watchers).iter().for_each(|watcher| watcher(event.clone()));
    }
}

impl Middleware for MemoryMiddleware {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn resolve(&self, topic: &str) -> String {
        self.options.remaps.resolve(&self.options.node, topic)
    }

    fn subscribe(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
    ) -> Result<Box<dyn Subscription>> {
        Ok(self.add(topic, kind, qos, receiver, false))
    }

    fn subscribe_into(
        &mut self,
        topic: &str,
        kind: InputKind,
        qos: Qos,
        receiver: Receiver,
        _: Box<dyn MessageBuffers>,
    ) -> Result<Box<dyn Subscription>> {
        Ok(self.add(topic, kind, qos, receiver, true))
    }

    fn advertise(
        &mut self,
        topic: &str,
        type_name: &'static str,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>> {
        let topic = self.resolve(topic);
        let mut outputs = lock(&self.graph.0.outputs);
        let output = outputs.entry(topic.clone()).or_default();
        output.type_name = type_name;
        output.qos = Some(qos);
        Ok(Box::new(MemoryPublisher { graph: self.graph.clone(), topic }))
    }

    fn serve(&mut self, handler: Handler) -> Result<()> {
        match lock(&self.graph.0.handler).replace(Arc::new(handler)) {
            None => Ok(()),
            Some(_) => {
                Err(Error::new(ErrorKind::Middleware, "memory", "services are served already"))
            }
        }
    }

    fn serve_named(&mut self, _: ServiceKind, name: &str, handler: Handler) -> Result<()> {
        let name = self.options.remaps.resolve_service(&self.options.node, name);
        lock(&self.graph.0.named).insert(name, Arc::new(handler));
        Ok(())
    }

    fn watch(&mut self, watcher: Watcher) {
        lock(&self.graph.0.watchers).push(watcher);
    }
}

struct MemorySubscription {
    graph: MemoryGraph,
    input: Arc<Input>,
}

impl Subscription for MemorySubscription {
    fn num_publishers(&self) -> usize {
        *lock(&self.input.num_publishers)
    }
}

impl Drop for MemorySubscription {
    fn drop(&mut self) {
        lock(&self.graph.0.inputs).retain(|input| !Arc::ptr_eq(input, &self.input));
    }
}

struct MemoryPublisher {
    graph: MemoryGraph,
    topic: String,
}

impl Publisher for MemoryPublisher {
    fn publish(&mut self, cdr: &[u8]) -> Result<()> {
        if let Some(output) = lock(&self.graph.0.outputs).get_mut(&self.topic) {
            output.messages.push(cdr.to_owned());
        }
        Ok(())
    }

    fn num_subscribers(&self) -> usize {
        lock(&self.graph.0.outputs).get(&self.topic).map_or(0, |output| output.num_subscribers)
    }
}

/// Locks a mutex whose value a panic leaves whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
