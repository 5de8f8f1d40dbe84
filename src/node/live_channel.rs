//! A channel in the live graph: its inputs, its thread, its outputs.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::calibration::{CalibrationSummary, CalibrationWatch};
use super::channel_state::{ChannelState, InputState, lock};
use super::clock::NodeClock;
use super::diagnostics::ChannelHealth;
use super::frame_window::{FrameSummary, FrameWindow};
use super::live_input::{InputSlot, LiveInput};
use super::outputs::ChannelOutputs;
use super::publisher::OutputGate;
use super::status::TopicStatus;
use super::transforms::LiveTransforms;
use super::worker::Worker;
use crate::config::{ChannelConfig, ChannelKind};
use crate::detectors::DetectorInfo;
use crate::runtime::Factory;
use crate::runtime::account::Account;
use crate::runtime::arrivals::NUM_ARRIVING;
use crate::runtime::channel::Channel;
use crate::runtime::input::{InputSummary, InputTotals};
use crate::runtime::metrics::ChannelMetrics;
use crate::runtime::serving::Serving;
use crate::runtime::slot::{LossCounter, SlotCloser, SlotOptions, slot};
use det_post_ros::messages::DiagnosticStatus;
use det_post_ros::middleware::Middleware;
use det_post_types::{Error, ErrorKind, Header, Result};

/// The messages of an input, and its calibrations, since the last call.
type InputSummaries = (InputSummary, Option<CalibrationSummary>);

/// How long after its start a channel names the topics that nothing publishes.
const PUBLISHERS_PATIENCE: Duration = Duration::from_secs(5);

/// A channel with its networks loaded and its outputs advertised.
pub(super) struct LiveChannel {
    config: ChannelConfig,
    inputs: Vec<LiveInput>,
    wants_transforms: bool,
    /// Whether its network has its own suppression, with its score threshold.
    suppresses_itself: bool,
    state: Arc<ChannelState>,
    thread: ThreadState,
    /// Names and types.
    detection_topics: String,
    gate: OutputGate,
    /// Reused memory of summaries.
    window: FrameWindow,
    /// Totals of the frames and, of each input, of its messages, as of the last summary.
    totals: Account,
    input_totals: Vec<InputTotals>,
    num_failures_seen: u64,
    /// When topics that nothing publishes are named, once after each start.
    publishers_due: Option<Instant>,
}

enum ThreadState {
    Idle(Box<Worker>),
    Running(ChannelThread),
    /// Its thread did not end.
    Lost,
}

struct ChannelThread {
    closer: SlotCloser,
    thread: JoinHandle<Box<Worker>>,
}

impl LiveChannel {
    /// Loads and warms up the networks, and advertises the outputs.
    ///
    /// # Errors
    /// `Model` when a network cannot be loaded or does not fit, `Middleware` when the
    /// graph refuses.
    pub(super) fn open(
        config: &ChannelConfig,
        factory: Factory,
        open_outputs: impl FnOnce(&Channel) -> Result<ChannelOutputs>,
    ) -> Result<Self> {
        let start = Instant::now();
        tracing::info!("channel {}: loading {}", config.name, model_of(&config.kind));
        let mut channel = Channel::with_factory(config, factory)?;
        if let Some(DetectorInfo { engine_name, device_name, .. }) = channel.detector_info() {
            tracing::info!("channel {}: {engine_name} on {device_name}, warming up", config.name);
        }
        channel.warm_up()?;
        tracing::info!("channel {}: ready after {:.1?}", config.name, start.elapsed());
        let outputs = open_outputs(&channel)?;
        let now = Instant::now();
        let live_input =
            |(index, input)| LiveInput::new(input, index, channel.live_input_kind(index));
        let inputs = config.inputs.iter().enumerate().map(live_input).collect();
        let states = config.inputs.iter().map(|input| {
            let calibration = input.camera_info.as_ref().map(|_| CalibrationWatch::new(now));
            InputState::new(now, calibration)
        });
        Ok(Self {
            config: config.clone(),
            inputs,
            wants_transforms: channel.wants_transforms(),
            suppresses_itself: channel
                .detector_info()
                .is_some_and(|info| info.score_threshold.is_some()),
            state: Arc::new(ChannelState::new(states.collect(), Serving::of(&channel))),
            num_failures_seen: 0,
            publishers_due: None,
            gate: outputs.gate(),
            detection_topics: outputs.detection_topics().join(", "),
            thread: ThreadState::Idle(Box::new(Worker::new(channel, outputs))),
            window: FrameWindow::new(),
            totals: Account::new(),
            input_totals: vec![InputTotals::default(); config.inputs.len()],
        })
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.config.name
    }

    /// Full names of the topics of its inputs.
    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        self.inputs.iter().map(LiveInput::topic)
    }

    /// What it is subscribed to and what it publishes.
    pub(super) fn route(&self, middleware: &str) -> String {
        let inputs: Vec<&str> = self.topics().collect();
        let (name, inputs) = (&self.config.name, inputs.join(" "));
        let detections = &self.detection_topics;
        format!(
            "channel {name}: subscribed to {inputs} through {middleware}, publishes {detections}"
        )
    }

    /// Its configuration.
    pub(super) fn config(&self) -> &ChannelConfig {
        &self.config
    }

    /// Whether it needs transforms or the motion of the vehicle.
    pub(super) fn wants_transforms(&self) -> bool {
        self.wants_transforms
    }

    /// Checks that live parameters that change have an effect.
    ///
    /// # Errors
    /// Which of them have none, and why.
    pub(super) fn check(&self, config: &ChannelConfig) -> std::result::Result<(), String> {
        let (ChannelKind::Camera(before), ChannelKind::Camera(after)) =
            (&self.config.kind, &config.kind)
        else {
            return Ok(());
        };
        let is_same = before.score_threshold == after.score_threshold && before.nms == after.nms;
        if is_same || !self.suppresses_itself {
            return Ok(());
        }
        let name = &config.name;
        Err(format!(
            "{name}.score_threshold and {name}.nms.* have no effect: the network ends in \
             EfficientNMS_TRT, whose attributes hold"
        ))
    }

    /// Applies live parameters between frames. The device remains that of its placement.
    pub(super) fn reconfigure(&mut self, config: &ChannelConfig) {
        let mut config = config.clone();
        config.device = self.config.device;
        if self.config != config {
            self.state.reconfigure(&config);
            self.config = config;
        }
    }

    /// Publishes the labels, starts the thread, then subscribes to the inputs.
    ///
    /// # Errors
    /// `Middleware` when the graph refuses, `Io` when there is no thread.
    pub(super) fn start(
        &mut self,
        middleware: &mut dyn Middleware,
        clock: &Arc<NodeClock>,
        transforms: &Arc<LiveTransforms>,
    ) -> Result<()> {
        let mut worker = match std::mem::replace(&mut self.thread, ThreadState::Lost) {
            ThreadState::Idle(worker) => worker,
            other => {
                self.thread = other;
                let message = format!("{}: is not idle", self.config.name);
                return Err(Error::new(ErrorKind::Argument, "channel", message));
            }
        };
        worker.apply_pending(&self.state, clock);
        let now = clock.now().unwrap_or_default();
        let labelled = worker.outputs.publish_labels(worker.channel.config(), now);
        if let Err(error) = labelled {
            self.thread = ThreadState::Idle(worker);
            return Err(error);
        }
        self.state.inputs.iter().for_each(|input| input.reopen(Instant::now()));
        let ChannelConfig { inputs, sync, .. } = &self.config;
        let announces = worker.channel.prepares();
        let options = SlotOptions { inputs, sync, rate: 1.0, announces };
        let memory = || worker.channel.payload_memory();
        let (writers, reader, closer) = slot(options, memory, self.loss_counter());
        let arriving = || (0..NUM_ARRIVING).map(|_| memory()).collect();
        let slots = writers.into_iter().map(|writer| InputSlot {
            writer,
            memory: arriving(),
            decoded: memory(),
            video: worker.channel.video_place(),
        });
        let slots: Vec<_> = slots.collect();
        let (state, clock) = (Arc::clone(&self.state), Arc::clone(clock));
        let transforms = Arc::clone(transforms);
        let thread = std::thread::Builder::new()
            .name(self.config.name.clone())
            .spawn(move || worker.run(reader, &state, &clock, &transforms))
            .map_err(|e| Error::new(ErrorKind::Io, "channel", "no thread").with_source(e))?;
        match self.subscribe(middleware, slots) {
            Ok(()) => {
                self.thread = ThreadState::Running(ChannelThread { closer, thread });
                self.publishers_due = Some(Instant::now() + PUBLISHERS_PATIENCE);
                Ok(())
            }
            Err(error) => {
                self.inputs.iter_mut().for_each(LiveInput::unsubscribe);
                closer.close();
                self.thread = thread.join().map_or(ThreadState::Lost, ThreadState::Idle);
                Err(error)
            }
        }
    }

    /// Topics that nothing publishes, with their types, when it is time to name them.
    pub(super) fn take_without_publisher(&mut self, now: Instant) -> Vec<(String, &'static str)> {
        let is_running = matches!(self.thread, ThreadState::Running(_));
        if !is_running || self.publishers_due.take_if(|due| now >= *due).is_none() {
            return Vec::new();
        }
        let silent = self.inputs.iter().flat_map(LiveInput::without_publisher);
        silent.map(|(topic, type_name)| (topic.to_owned(), type_name)).collect()
    }

    /// Counts messages that are lost after they were received.
    fn loss_counter(&self) -> LossCounter {
        let state = Arc::clone(&self.state);
        Arc::new(move |input, loss, num| lock(&state.inputs[input].account).note_loss(loss, num))
    }

    fn subscribe(&mut self, middleware: &mut dyn Middleware, slots: Vec<InputSlot>) -> Result<()> {
        for (input, slot) in self.inputs.iter_mut().zip(slots) {
            input.subscribe(middleware, &self.config, slot, &self.state)?;
        }
        Ok(())
    }

    /// Stops accepting messages. The frame in flight is finished.
    pub(super) fn begin_stop(&mut self) {
        if let ThreadState::Running(running) = &self.thread {
            running.closer.close();
        }
    }

    /// Waits for the frame in flight, at most until `deadline`.
    ///
    /// # Errors
    /// `Argument` when it did not finish: the channel is lost, and publishes
    /// nothing any more.
    pub(super) fn finish_stop(&mut self, deadline: Instant) -> Result<()> {
        let ChannelThread { thread, .. } =
            match std::mem::replace(&mut self.thread, ThreadState::Lost) {
                ThreadState::Running(running) => running,
                other => {
                    self.thread = other;
                    return Ok(());
                }
            };
        self.inputs.iter_mut().for_each(LiveInput::unsubscribe);
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let lost = |why| {
            self.gate.close();
            let message = format!("{}: {why}", self.config.name);
            Err(Error::new(ErrorKind::Argument, "channel", message))
        };
        if !thread.is_finished() {
            return lost("the frame in flight did not finish in time");
        }
        let Ok(mut worker) = thread.join() else { return lost("its thread panicked") };
        let removed = worker.outputs.remove_markers(&Header::default());
        self.thread = ThreadState::Idle(worker);
        removed
    }

    /// The status of the time per frame, as Autoware's nodes publish it.
    pub(super) fn processing_time_status(&self, node: &str) -> Option<DiagnosticStatus> {
        let limits = self.config.live.processing_time?;
        Some(self.state.processing_times().status(node, limits, Instant::now()))
    }

    /// Adds what happened since the last call to the totals.
    pub(super) fn sum_up(&mut self, now: Instant) -> (Vec<InputSummaries>, FrameSummary) {
        let summaries: Vec<InputSummaries> =
            self.state.inputs.iter().map(|input| input.summaries(now)).collect();
        let frames = self.state.summary(&mut self.window);
        self.totals.merge(&self.window.account);
        for (totals, (summary, _)) in self.input_totals.iter_mut().zip(&summaries) {
            totals.clone_from(&summary.totals);
        }
        (summaries, frames)
    }

    /// Totals up to the last call of [`Self::sum_up`].
    pub(super) fn metrics(&self) -> ChannelMetrics<'_> {
        let topics = self.config.inputs.iter().map(|input| input.topic.as_str());
        let inputs = topics.zip(&self.input_totals).collect();
        ChannelMetrics { name: &self.config.name, account: &self.totals, inputs }
    }

    /// The statuses since the last call. `topic_status` is the status of a topic.
    pub(super) fn statuses<'t>(
        &mut self,
        node: &str,
        topic_status: impl Fn(&str) -> TopicStatus<'t>,
    ) -> Vec<DiagnosticStatus> {
        let now = Instant::now();
        let (summaries, frames) = self.sum_up(now);
        let running = match &self.thread {
            ThreadState::Running(running) => Some(running),
            ThreadState::Idle(_) | ThreadState::Lost => None,
        };
        let num_failures = frames.serving.num_failures;
        let num_failures_now = num_failures - self.num_failures_seen;
        self.num_failures_seen = num_failures;
        let inputs = self.inputs.iter().zip(&summaries);
        let ended = running.is_some_and(|running| running.thread.is_finished());
        ChannelHealth {
            node,
            config: &self.config,
            num_failures_now,
            is_active: running.is_some(),
            is_dead: ended || matches!(self.thread, ThreadState::Lost),
            inputs: inputs
                .map(|(input, (summary, calibration))| {
                    input.health(summary, calibration.as_ref(), &topic_status)
                })
                .collect(),
            window: &self.window,
            frames: &frames,
        }
        .statuses(now)
    }
}

fn model_of(kind: &ChannelKind) -> String {
    match kind {
        ChannelKind::Camera(camera) => match camera.model_paths().next() {
            Some((_, path)) => path.display().to_string(),
            None => "no network".to_owned(),
        },
        ChannelKind::Lidar(lidar) => {
            let paths = lidar.model_paths().map(|(_, path)| path.display().to_string());
            paths.collect::<Vec<_>>().join(" and ")
        }
        ChannelKind::Surround(surround) => {
            let paths = surround.model_paths().map(|(_, path)| path.display().to_string());
            paths.collect::<Vec<_>>().join(", ")
        }
    }
}
