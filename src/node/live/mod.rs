//! The live node: channels in a ROS graph, with parameters, a life cycle and
//! diagnostics.
//!
//! Threads: those of the middleware deliver messages and ask services, one per
//! channel works on frames, one speaks of the node's health. Nothing waits for
//! a channel but a change of state.

mod graph;
mod health;
mod services;

use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::clock::NodeClock;
use super::lifecycle::{self, Change, Lifecycle};
use super::live_channel::LiveChannel;
use super::outputs::ChannelOutputs;
use super::parameters::{ParameterServer, declared};
use super::transforms::LiveTransforms;
use super::worker::lock;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::ros::{LifecycleState, LifecycleTransition, Parameter};
use crate::runtime::{Factory, open_detector};
use crate::transport::messages::{DiagnosticArray, ParameterEvent, TransitionEvent};
use crate::transport::middleware::{
    InputKind, Middleware, Publisher, Qos, Received, Reliability, Subscription,
};
use graph::Graph;

/// Where diagnostics go.
pub const DIAGNOSTICS_TOPIC: &str = "/diagnostics";
/// Where changes of parameters are told.
pub const PARAMETER_EVENTS_TOPIC: &str = "/parameter_events";
/// Where changes of state are told.
pub const TRANSITION_EVENT_TOPIC: &str = "~/transition_event";

/// Transforms as tf2 listens to them.
pub(super) const TF_QOS: Qos = Qos { depth: 100, ..Qos::DEFAULT };
pub(super) const TF_STATIC_QOS: Qos = Qos { depth: 100, ..Qos::LATCHED };
pub(super) const CLOCK_QOS: Qos =
    Qos { reliability: Reliability::BestEffort, depth: 1, ..Qos::DEFAULT };
pub(super) const PARAMETER_EVENTS_QOS: Qos = Qos { depth: 1000, ..Qos::DEFAULT };

/// How long a deactivation waits for the frame in flight.
const FRAME_PATIENCE: Duration = Duration::from_secs(60);

/// A node in a ROS graph. Dropping it leaves the graph.
pub struct LiveNode {
    shared: Arc<Shared>,
    health: Option<JoinHandle<()>>,
}

struct Shared {
    name: String,
    middleware_name: &'static str,
    counts_losses: bool,
    parameters: ParameterServer,
    factory: Factory,
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
    middleware: Mutex<Box<dyn Middleware>>,
}

impl LiveNode {
    /// Joins the graph: parameters and services are there, nothing is loaded.
    ///
    /// # Errors
    /// `Middleware` when the graph refuses, `Io` when there is no thread.
    pub fn open(config: Config, middleware: Box<dyn Middleware>) -> Result<Self> {
        Self::with_factory(config, middleware, Arc::new(open_detector))
    }

    /// As [`LiveNode::open`], with another way to make the detectors of its
    /// channels.
    ///
    /// # Errors
    /// As [`LiveNode::open`].
    pub fn with_factory(
        config: Config,
        mut middleware: Box<dyn Middleware>,
        factory: Factory,
    ) -> Result<Self> {
        let period = config.diagnostics_period;
        let diagnostics =
            middleware.advertise(DIAGNOSTICS_TOPIC, DiagnosticArray::TYPE, Qos::DEFAULT)?;
        let transition_events =
            middleware.advertise(TRANSITION_EVENT_TOPIC, TransitionEvent::TYPE, Qos::DEFAULT)?;
        let parameter_events = middleware.advertise(
            PARAMETER_EVENTS_TOPIC,
            ParameterEvent::TYPE,
            PARAMETER_EVENTS_QOS,
        )?;
        let initial = declared(&config);
        let shared = Arc::new(Shared {
            name: config.node.full(),
            middleware_name: middleware.name(),
            counts_losses: middleware.counts_losses(),
            middleware: Mutex::new(middleware),
            clock: Arc::new(NodeClock::new(config.use_sim_time)),
            parameters: ParameterServer::new(config),
            factory,
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
        // A node that was not shut down is all the same; one that is busy
        // changing its state goes as it is.
        let _ = self.shut_down(Duration::from_secs(1));
        *lock(&self.shared.ends) = true;
        self.shared.ended.notify_all();
        if let Some(health) = self.health.take() {
            // It ends at once, unless it panicked; then there is nothing to save.
            let _ = health.join();
        }
        // A request that is being answered holds the node: the middleware must not
        // be left by its own thread.
        let deadline = Instant::now() + Duration::from_secs(1);
        while Arc::strong_count(&self.shared) > 1 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Shared {
    /// Hands services, events and time over to this node. The middleware keeps weak
    /// hands only.
    fn attach(self: &Arc<Self>) -> Result<()> {
        let mut middleware = lock(&self.middleware);
        let node: Weak<Self> = Arc::downgrade(self);
        let events = Weak::clone(&node);
        middleware.watch(Box::new(move |event| {
            if let Some(node) = events.upgrade() {
                lock(&node.graph).note(event, node.middleware_name);
            }
        }));
        if self.clock.is_simulated() {
            let clock = Arc::clone(&self.clock);
            let receiver = Box::new(move |received: Result<Received<'_>>| {
                let Ok(Received::Clock(now)) = received else { return };
                match clock.set(now) {
                    None => {}
                    Some(1) => tracing::warn!("/clock goes back to {now}"),
                    Some(times) => tracing::debug!("/clock goes back to {now}, time {times}"),
                }
            });
            let input = middleware.subscribe("/clock", InputKind::Clock, CLOCK_QOS, receiver)?;
            *lock(&self.clock_input) = Some(input);
        }
        middleware.serve(Box::new(move |request| match node.upgrade() {
            Some(node) => node.answer(&request),
            None => services::refusal(&request),
        }))
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
                |channel: &_| ChannelOutputs::open(channel, lock(&self.middleware).as_mut());
            let factory = Arc::clone(&self.factory);
            channels.push(LiveChannel::open(channel, factory, open_outputs)?);
        }
        *lock(&self.channels) = channels;
        // What was set while the networks were loading.
        self.parameters.visit(|config| self.reconfigure(config));
        Ok(())
    }

    fn activate(&self) -> Result<()> {
        let mut middleware = lock(&self.middleware);
        let mut channels = lock(&self.channels);
        let started = self.start_all(middleware.as_mut(), &mut channels);
        if started.is_err() {
            self.stop_all(&mut channels, Instant::now() + FRAME_PATIENCE)?;
        }
        started
    }

    fn start_all(
        &self,
        middleware: &mut dyn Middleware,
        channels: &mut [LiveChannel],
    ) -> Result<()> {
        if channels.iter().any(LiveChannel::wants_transforms) {
            let mut inputs = lock(&self.transform_inputs);
            inputs.push(self.listen(middleware, "/tf", TF_QOS, false)?);
            inputs.push(self.listen(middleware, "/tf_static", TF_STATIC_QOS, true)?);
        }
        for channel in channels {
            channel.start(middleware, &self.clock, &self.transforms)?;
            for topic in channel.topics() {
                tracing::info!("taking {topic} from {}", self.middleware_name);
            }
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
        middleware: &mut dyn Middleware,
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
        middleware.subscribe(topic, InputKind::Transforms { is_static }, qos, receiver)
    }

    fn reconfigure(&self, config: &Config) {
        let mut channels = lock(&self.channels);
        for (channel, config) in channels.iter_mut().zip(&config.channels) {
            channel.reconfigure(config);
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
}
