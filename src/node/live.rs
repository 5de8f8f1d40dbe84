//! The live node: channels in a ROS graph, with parameters, a life cycle and
//! diagnostics.
//!
//! Threads: those of the door deliver messages and ask services, one per
//! channel works on frames, one speaks of the node's health. Nothing waits for
//! a channel but a change of state.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::clock::NodeClock;
use super::diagnostics::Verdict;
use super::lifecycle::{self, Change, Lifecycle, TRANSITIONS};
use super::live_channel::LiveChannel;
use super::outputs::ChannelOutputs;
use super::parameters::{ParameterServer, declared};
use super::transforms::LiveTransforms;
use super::worker::lock;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::door::{
    Door, DoorEvent, InputKind, Publisher, Qos, Received, Reliability, Request, Response,
    Subscription,
};
use crate::transport::messages::{
    DiagnosticArray, DiagnosticLevel, DiagnosticStatus, ParameterEvent, TransitionEvent,
};
use crate::types::{Header, LifecycleState, LifecycleTransition, Parameter};

/// Where diagnostics go.
pub const DIAGNOSTICS_TOPIC: &str = "/diagnostics";
/// Where changes of parameters are told.
pub const PARAMETER_EVENTS_TOPIC: &str = "/parameter_events";
/// Where changes of state are told.
pub const TRANSITION_EVENT_TOPIC: &str = "~/transition_event";

/// Transforms as tf2 listens to them.
const TF_QOS: Qos = Qos { depth: 100, ..Qos::DEFAULT };
const TF_STATIC_QOS: Qos = Qos { depth: 100, ..Qos::LATCHED };
const CLOCK_QOS: Qos = Qos { reliability: Reliability::BestEffort, depth: 1, ..Qos::DEFAULT };
const PARAMETER_EVENTS_QOS: Qos = Qos { depth: 1000, ..Qos::DEFAULT };

/// How long a deactivation waits for the frame in flight.
const FRAME_PATIENCE: Duration = Duration::from_secs(60);

/// The most topics of which the last event is kept.
const MAX_EVENTS: usize = 64;

/// A node in a ROS graph. Dropping it leaves the graph.
pub struct LiveNode {
    shared: Arc<Shared>,
    health: Option<JoinHandle<()>>,
}

struct Shared {
    name: String,
    door_name: &'static str,
    parameters: ParameterServer,
    lifecycle: Lifecycle,
    clock: Arc<NodeClock>,
    transforms: Arc<LiveTransforms>,
    channels: Mutex<Vec<LiveChannel>>,
    /// Subscriptions of the node: transforms while it is active.
    transform_inputs: Mutex<Vec<Box<dyn Subscription>>>,
    clock_input: Mutex<Option<Box<dyn Subscription>>>,
    transition_events: Mutex<Box<dyn Publisher>>,
    parameter_events: Mutex<Box<dyn Publisher>>,
    graph: Mutex<Graph>,
    ends: Mutex<bool>,
    ended: Condvar,
    /// Last, so that the endpoints are gone when it leaves the graph.
    door: Mutex<Box<dyn Door>>,
}

/// What the door told of the graph.
#[derive(Default)]
struct Graph {
    /// The last event of a topic that stands in the way of messages.
    events: BTreeMap<String, String>,
    /// Why the last change of state failed.
    failure: Option<String>,
    /// Parts of the door that are lost.
    lost_parts: Vec<String>,
    num_refused_requests: u64,
}

impl LiveNode {
    /// Joins the graph: parameters and services are there, nothing is loaded.
    ///
    /// # Errors
    /// `Door` when the graph refuses, `Io` when there is no thread.
    pub fn open(config: Config, mut door: Box<dyn Door>) -> Result<Self> {
        let period = config.diagnostics_period;
        let diagnostics = door.advertise(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, Qos::DEFAULT)?;
        let transition_events =
            door.advertise(TRANSITION_EVENT_TOPIC, TransitionEvent::TYPE, Qos::DEFAULT)?;
        let parameter_events =
            door.advertise(PARAMETER_EVENTS_TOPIC, ParameterEvent::TYPE, PARAMETER_EVENTS_QOS)?;
        let initial = declared(&config);
        let shared = Arc::new(Shared {
            name: config.node.full(),
            door_name: door.name(),
            door: Mutex::new(door),
            clock: Arc::new(NodeClock::new(config.use_sim_time)),
            parameters: ParameterServer::new(config),
            lifecycle: Lifecycle::new(),
            transforms: Arc::new(LiveTransforms::default()),
            channels: Mutex::new(Vec::new()),
            transform_inputs: Mutex::new(Vec::new()),
            clock_input: Mutex::new(None),
            transition_events: Mutex::new(transition_events),
            parameter_events: Mutex::new(parameter_events),
            graph: Mutex::new(Graph::default()),
            ends: Mutex::new(false),
            ended: Condvar::new(),
        });
        shared.attach()?;
        shared.tell_parameters(&initial, &[]);
        let of_thread = Arc::clone(&shared);
        let health = std::thread::Builder::new()
            .name("diagnostics".into())
            .spawn(move || of_thread.speak_of_health(diagnostics, period))
            .map_err(|e| Error::new(ErrorKind::Io, "node", "no thread").with_source(e))?;
        Ok(Self { shared, health: Some(health) })
    }

    /// Makes a change of state and waits for it.
    ///
    /// # Errors
    /// `Argument` when there is no such way from here; why the change failed
    /// else.
    pub fn change(&self, change: Change) -> Result<()> {
        self.shared.change(change, FRAME_PATIENCE)
    }

    /// The state now.
    pub fn state(&self) -> LifecycleState {
        self.shared.lifecycle.state()
    }

    /// Shuts down; the frame in flight has `patience` to finish.
    ///
    /// # Errors
    /// `Argument` when it did not, or another change is under way.
    pub fn shut_down(&self, patience: Duration) -> Result<()> {
        match self.state() {
            LifecycleState::Finalized => Ok(()),
            _ => self.shared.change(Change::Shutdown, patience),
        }
    }
}

impl Drop for LiveNode {
    fn drop(&mut self) {
        *lock(&self.shared.ends) = true;
        self.shared.ended.notify_all();
        if let Some(health) = self.health.take() {
            // It ends at once, unless it panicked; then there is nothing to save.
            let _ = health.join();
        }
        // A request that is being answered holds the node: the door must not
        // be left by its own thread.
        let deadline = Instant::now() + Duration::from_secs(1);
        while Arc::strong_count(&self.shared) > 1 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Shared {
    /// Hands services, events and time over to this node. The door keeps weak
    /// hands only.
    fn attach(self: &Arc<Self>) -> Result<()> {
        let mut door = lock(&self.door);
        let node: Weak<Self> = Arc::downgrade(self);
        let events = Weak::clone(&node);
        door.watch(Box::new(move |event| {
            if let Some(node) = events.upgrade() {
                node.note_event(event);
            }
        }));
        if self.clock.is_simulated() {
            let clock = Arc::clone(&self.clock);
            let receiver = Box::new(move |received: Result<Received<'_>>| {
                if let Ok(Received::Clock(now)) = received {
                    clock.set(now);
                }
            });
            let input = door.subscribe("/clock", InputKind::Clock, CLOCK_QOS, receiver)?;
            *lock(&self.clock_input) = Some(input);
        }
        door.serve(Box::new(move |request| match node.upgrade() {
            Some(node) => node.answer(&request),
            None => refusal(&request),
        }))
    }

    fn answer(&self, request: &Request) -> Response {
        let apply = |config: &Config, changes: &[Parameter]| {
            self.reconfigure(config);
            self.tell_parameters(&[], changes);
        };
        if let Some(response) = self.parameters.answer(request, apply) {
            return response;
        }
        match request {
            Request::ChangeState { id, label } => {
                let result = match Change::of_request(*id, label) {
                    Some(change) => self.change(change, FRAME_PATIENCE),
                    None => Err(Error::new(
                        ErrorKind::Argument,
                        "lifecycle",
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
            _ => Response::Transitions(TRANSITIONS.to_vec()),
        }
    }

    fn change(&self, change: Change, patience: Duration) -> Result<()> {
        let work = || match change {
            Change::Configure => self.configure(),
            Change::Activate => self.activate(),
            Change::Deactivate => self.deactivate(patience),
            Change::Cleanup => {
                lock(&self.channels).clear();
                Ok(())
            }
            Change::Shutdown => {
                let stopped = self.deactivate(patience);
                lock(&self.channels).clear();
                stopped
            }
        };
        let result = self.lifecycle.change(change, work, |step| self.tell_transition(step));
        match &result {
            Ok(()) => lock(&self.graph).failure = None,
            // A change that never began leaves things as they are.
            Err(error) if error.stage() == lifecycle::STAGE => {}
            Err(error) => lock(&self.graph).failure = Some(error.to_string()),
        }
        result
    }

    /// Loads everything; what is loaded already goes when something fails.
    fn configure(&self) -> Result<()> {
        let config = self.parameters.config();
        let mut channels = Vec::with_capacity(config.channels.len());
        for channel in &config.channels {
            let open_outputs =
                |channel: &_| ChannelOutputs::open(channel, lock(&self.door).as_mut());
            channels.push(LiveChannel::open(channel, open_outputs)?);
        }
        *lock(&self.channels) = channels;
        // What was set while the networks were loading.
        self.parameters.visit(|config| self.reconfigure(config));
        Ok(())
    }

    fn activate(&self) -> Result<()> {
        let mut door = lock(&self.door);
        let mut channels = lock(&self.channels);
        if channels.iter().any(LiveChannel::wants_transforms) {
            let mut inputs = lock(&self.transform_inputs);
            inputs.push(self.listen(door.as_mut(), "/tf", TF_QOS, false)?);
            inputs.push(self.listen(door.as_mut(), "/tf_static", TF_STATIC_QOS, true)?);
        }
        for index in 0..channels.len() {
            let started = channels[index].start(door.as_mut(), &self.clock, &self.transforms);
            if let Err(error) = started {
                self.stop_all(&mut channels[..index], Instant::now() + FRAME_PATIENCE)?;
                return Err(error);
            }
            let topic = channels[index].topic();
            tracing::info!("taking {topic} from {}", self.door_name);
        }
        Ok(())
    }

    fn deactivate(&self, patience: Duration) -> Result<()> {
        self.stop_all(&mut lock(&self.channels), Instant::now() + patience)
    }

    /// Stops channels side by side. All are tried; the first error is told.
    fn stop_all(&self, channels: &mut [LiveChannel], deadline: Instant) -> Result<()> {
        lock(&self.transform_inputs).clear();
        channels.iter_mut().for_each(LiveChannel::begin_stop);
        let results: Vec<_> =
            channels.iter_mut().map(|channel| channel.finish_stop(deadline)).collect();
        results.into_iter().collect()
    }

    fn listen(
        &self,
        door: &mut dyn Door,
        topic: &str,
        qos: Qos,
        is_static: bool,
    ) -> Result<Box<dyn Subscription>> {
        let transforms = Arc::clone(&self.transforms);
        let receiver = Box::new(move |received: Result<Received<'_>>| match received {
            Ok(Received::Transform { transform, is_static }) => {
                transforms.insert(&transform, is_static);
            }
            Ok(_) => {}
            Err(error) => transforms.refuse(&error),
        });
        door.subscribe(topic, InputKind::Transforms { is_static }, qos, receiver)
    }

    fn reconfigure(&self, config: &Config) {
        let mut channels = lock(&self.channels);
        for (channel, config) in channels.iter_mut().zip(&config.channels) {
            channel.reconfigure(config);
        }
    }

    fn note_event(&self, event: DoorEvent) {
        let mut graph = lock(&self.graph);
        match event {
            DoorEvent::IncompatibleQos { topic, policy } => {
                graph.note(topic, format!("a peer has another {policy}"));
            }
            DoorEvent::IncompatibleType { topic, found } => {
                graph.note(topic, format!("a peer has type {found}"));
            }
            DoorEvent::PeerFound { topic } => {
                tracing::debug!("{topic}: a peer joined");
                graph.events.remove(&topic);
            }
            DoorEvent::PeerGone { topic } => tracing::info!("{topic}: a peer left"),
            DoorEvent::Lost { topic, count } => {
                drop(graph);
                self.note_lost(&topic, count);
            }
            DoorEvent::Refused { service, reason } => {
                graph.num_refused_requests += 1;
                tracing::warn!("{service}: a request is refused: {reason}");
            }
            DoorEvent::Failed { reason } => {
                tracing::error!("{}: {reason}", self.door_name);
                if graph.lost_parts.len() < MAX_EVENTS {
                    graph.lost_parts.push(reason);
                }
            }
        }
    }

    /// Counts messages that the door lost; those of other topics than a
    /// channel's are its own.
    fn note_lost(&self, topic: &str, count: u64) {
        // Held for long only while a channel stops, when nothing arrives.
        let Ok(channels) = self.channels.try_lock() else { return };
        for channel in channels.iter().filter(|channel| channel.topic() == topic) {
            lock(&channel.state().input).note_lost(count);
        }
    }

    fn tell_transition(&self, transition: LifecycleTransition) {
        tracing::info!("{} -> {}", transition.start.label(), transition.goal.label());
        let stamp = self.clock.now().unwrap_or_default();
        let mut bytes = Vec::new();
        let told = TransitionEvent { stamp, transition }
            .encode(&mut bytes)
            .and_then(|()| lock(&self.transition_events).publish(&bytes));
        if let Err(error) = told {
            tracing::warn!("transition event: {error}");
        }
    }

    fn tell_parameters(&self, new_parameters: &[Parameter], changed_parameters: &[Parameter]) {
        let stamp = self.clock.now().unwrap_or_default();
        let mut bytes = Vec::new();
        let told = ParameterEvent { stamp, node: &self.name, new_parameters, changed_parameters }
            .encode(&mut bytes)
            .and_then(|()| lock(&self.parameter_events).publish(&bytes));
        if let Err(error) = told {
            tracing::warn!("parameter event: {error}");
        }
    }

    /// Publishes diagnostics until the node ends.
    fn speak_of_health(&self, mut publisher: Box<dyn Publisher>, period: Duration) {
        let mut bytes = Vec::new();
        loop {
            let ends = lock(&self.ends);
            let (ends, _) = self
                .ended
                .wait_timeout_while(ends, period, |ends| !*ends)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if *ends {
                return;
            }
            drop(ends);
            let status = self.look();
            let header = Header { stamp: self.clock.now().unwrap_or_default(), frame_id: "" };
            let told = DiagnosticArray { header, status: &status }
                .encode(&mut bytes)
                .and_then(|()| publisher.publish(&bytes));
            if let Err(error) = told {
                tracing::warn!("diagnostics: {error}");
            }
        }
    }

    fn look(&self) -> Vec<DiagnosticStatus> {
        let node = self.name.trim_start_matches('/');
        let mut statuses = vec![self.look_at_node(node)];
        // Taken while channels start or stop: then the node's status says so.
        if let Ok(mut channels) = self.channels.try_lock() {
            let events = lock(&self.graph).events.clone();
            for channel in channels.iter_mut() {
                statuses.extend(channel.look(node, &events));
            }
        }
        statuses
    }

    fn look_at_node(&self, node: &str) -> DiagnosticStatus {
        let config = self.parameters.config();
        let mut status = Verdict::new(format!("{node}: node"), self.door_name);
        let state = self.lifecycle.state();
        let graph = lock(&self.graph);
        for part in &graph.lost_parts {
            status.note(DiagnosticLevel::Error, &format!("a part of the door is lost: {part}"));
        }
        if let Some(failure) = &graph.failure {
            status.note(DiagnosticLevel::Error, failure);
        }
        for (topic, event) in &graph.events {
            status.note(DiagnosticLevel::Warn, &format!("{topic}: {event}"));
        }
        if state != LifecycleState::Active {
            status.note(DiagnosticLevel::Warn, &format!("the node is {}", state.label()));
        }
        if self.clock.is_simulated() && self.clock.now().is_none() {
            status.note(DiagnosticLevel::Warn, "use_sim_time, and no /clock yet");
        }
        let transforms = self.transforms.account();
        if let Some(refused) = &transforms.refused {
            let message = format!("{} transforms left out: {}", refused.count, refused.first);
            status.note(DiagnosticLevel::Warn, &message);
        }
        status.otherwise(state.label().into());
        status.value("state", state.label());
        status.value("door", self.door_name);
        status.value("device", config.device.to_string());
        status.value("channels", config.channels.len().to_string());
        status.value("refused_requests", graph.num_refused_requests.to_string());
        status.value("transforms", transforms.num_taken.to_string());
        let lost = transforms.losses;
        status.value("transform_samples_dropped", lost.num_samples_dropped.to_string());
        status.value("transforms_refused_for_room", lost.num_transforms_refused.to_string());
        status.value("clock_jumps", self.clock.num_jumps().to_string());
        status.into_inner()
    }
}

impl Graph {
    fn note(&mut self, topic: String, event: String) {
        let is_known = self.events.get(&topic) == Some(&event);
        if !is_known {
            tracing::warn!("{topic}: {event}: nothing flows between the two");
        }
        if self.events.len() < MAX_EVENTS || self.events.contains_key(&topic) {
            self.events.insert(topic, event);
        }
    }
}

/// The answer of a node that is gone.
fn refusal(request: &Request) -> Response {
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
    }
}
