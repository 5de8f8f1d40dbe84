//! A middleware to nowhere but this process: for tests, and to serve a node from
//! memory.
//!
//! [`MemoryMiddleware`] is what a node is given; [`MemoryGraph`] is the rest of the
//! graph, in the hands of who drives it. Messages are delivered on the caller's
//! thread, so that a test knows when they have arrived.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::middleware::{
    Handler, InputKind, Middleware, MiddlewareEvent, MiddlewareOptions, Publisher, Qos, Receiver,
    Request, Response, Subscription, Watcher, Watchers, deliver,
};
use crate::error::{Error, ErrorKind, Result};

/// A node's end of a graph in memory.
pub struct MemoryMiddleware {
    options: MiddlewareOptions,
    graph: MemoryGraph,
}

/// The graph as the node's peers see it. Clones see the same graph.
#[derive(Clone, Default)]
pub struct MemoryGraph(Arc<Shared>);

#[derive(Default)]
struct Shared {
    inputs: Mutex<Vec<Arc<Input>>>,
    outputs: Mutex<BTreeMap<String, Output>>,
    handler: Mutex<Option<Arc<Handler>>>,
    watchers: Watchers,
}

struct Input {
    topic: String,
    kind: InputKind,
    qos: Qos,
    num_publishers: Mutex<usize>,
    receiver: Mutex<Receiver>,
}

#[derive(Default)]
struct Output {
    type_name: &'static str,
    qos: Option<Qos>,
    num_subscribers: usize,
    messages: Vec<Vec<u8>>,
}

impl MemoryMiddleware {
    /// A node's middleware, and the graph it leads to.
    pub fn open(options: MiddlewareOptions) -> (Self, MemoryGraph) {
        let graph = MemoryGraph::default();
        (Self { options, graph: graph.clone() }, graph)
    }
}

impl MemoryGraph {
    /// Delivers a whole CDR message to everyone who takes `topic`, and tells
    /// how many that were.
    pub fn send(&self, topic: &str, cdr: &[u8]) -> usize {
        let inputs: Vec<_> =
            held(&self.0.inputs).iter().filter(|i| i.topic == topic).cloned().collect();
        for input in &inputs {
            deliver(input.kind, cdr, &mut *held(&input.receiver));
        }
        inputs.len()
    }

    /// Asks a service of the node; `None` when it serves none.
    pub fn call(&self, request: Request) -> Option<Response> {
        let handler = held(&self.0.handler).clone()?;
        Some(handler(request))
    }

    /// Sets how many publishers are seen on a topic that is subscribed to.
    pub fn set_publishers(&self, topic: &str, count: usize) {
        for input in held(&self.0.inputs).iter().filter(|input| input.topic == topic) {
            *held(&input.num_publishers) = count;
        }
    }

    /// Sets how many subscribers are seen on a topic.
    pub fn set_subscribers(&self, topic: &str, count: usize) {
        held(&self.0.outputs).entry(topic.to_owned()).or_default().num_subscribers = count;
    }

    /// Takes what was published on a topic since the last call.
    pub fn take(&self, topic: &str) -> Vec<Vec<u8>> {
        let mut outputs = held(&self.0.outputs);
        outputs
            .get_mut(topic)
            .map(|output| std::mem::take(&mut output.messages))
            .unwrap_or_default()
    }

    /// Topics subscribed to now, with what the node takes them for.
    pub fn inputs(&self) -> Vec<(String, InputKind, Qos)> {
        held(&self.0.inputs)
            .iter()
            .map(|input| (input.topic.clone(), input.kind, input.qos))
            .collect()
    }

    /// Topics announced so far, with their types.
    pub fn outputs(&self) -> Vec<(String, &'static str, Qos)> {
        let outputs = held(&self.0.outputs);
        let announced = |(topic, output): (&String, &Output)| {
            Some((topic.clone(), output.type_name, output.qos?))
        };
        outputs.iter().filter_map(announced).collect()
    }

    /// Tells the node of an event.
    pub fn tell(&self, event: &MiddlewareEvent) {
        self.0.watchers.report(event);
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
        let input = Arc::new(Input {
            topic: self.resolve(topic),
            kind,
            qos,
            num_publishers: Mutex::new(1),
            receiver: Mutex::new(receiver),
        });
        held(&self.graph.0.inputs).push(Arc::clone(&input));
        Ok(Box::new(MemorySubscription { graph: self.graph.clone(), input }))
    }

    fn advertise(
        &mut self,
        topic: &str,
        type_name: &'static str,
        qos: Qos,
    ) -> Result<Box<dyn Publisher>> {
        let topic = self.resolve(topic);
        let mut outputs = held(&self.graph.0.outputs);
        let output = outputs.entry(topic.clone()).or_default();
        output.type_name = type_name;
        output.qos = Some(qos);
        Ok(Box::new(MemoryPublisher { graph: self.graph.clone(), topic }))
    }

    fn serve(&mut self, handler: Handler) -> Result<()> {
        match held(&self.graph.0.handler).replace(Arc::new(handler)) {
            None => Ok(()),
            Some(_) => {
                Err(Error::new(ErrorKind::Middleware, "memory", "services are served already"))
            }
        }
    }

    fn watch(&mut self, watcher: Watcher) {
        self.graph.0.watchers.add(watcher);
    }
}

struct MemorySubscription {
    graph: MemoryGraph,
    input: Arc<Input>,
}

impl Subscription for MemorySubscription {
    fn num_publishers(&self) -> usize {
        *held(&self.input.num_publishers)
    }
}

impl Drop for MemorySubscription {
    fn drop(&mut self) {
        held(&self.graph.0.inputs).retain(|input| !Arc::ptr_eq(input, &self.input));
    }
}

struct MemoryPublisher {
    graph: MemoryGraph,
    topic: String,
}

impl Publisher for MemoryPublisher {
    fn publish(&mut self, cdr: &[u8]) -> Result<()> {
        if let Some(output) = held(&self.graph.0.outputs).get_mut(&self.topic) {
            output.messages.push(cdr.to_owned());
        }
        Ok(())
    }

    fn num_subscribers(&self) -> usize {
        held(&self.graph.0.outputs).get(&self.topic).map_or(0, |output| output.num_subscribers)
    }
}

/// Locks for good: nothing here can be left half done by a panic.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
