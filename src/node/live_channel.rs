//! A channel in the live graph: its input, its thread, its outputs.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::calibration::{CalibrationHealth, CalibrationWatch};
use super::clock::NodeClock;
use super::diagnostics::{ChannelHealth, Told};
use super::outputs::ChannelOutputs;
use super::transforms::LiveTransforms;
use super::worker::{ChannelState, FrameWindow, Worker, lock};
use crate::config::{ChannelConfig, ChannelKind, InputConfig};
use crate::detectors::DetectorInfo;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::channel::Channel;
use crate::runtime::serving::Serving;
use crate::runtime::slot::{Offered, SlotCloser, SlotWriter, slot};
use crate::transport::door::{Door, InputKind, Receiver, Subscription};
use crate::transport::messages::DiagnosticStatus;
use crate::types::Header;

/// A channel whose networks are loaded and whose outputs are announced.
pub(super) struct LiveChannel {
    config: ChannelConfig,
    /// Full name of the topic of its input, once it takes any.
    topic: String,
    /// Likewise of its CameraInfo, where that is asked for.
    camera_info: Option<String>,
    kind: InputKind,
    wants_transforms: bool,
    state: Arc<ChannelState>,
    stage: Stage,
    /// Memory for looking at the frames.
    window: FrameWindow,
    num_failures_seen: u64,
    num_missing_seen: u64,
}

enum Stage {
    Idle(Box<Worker>),
    Running(Running),
    /// Its thread did not come back.
    Lost,
}

struct Running {
    inputs: Inputs,
    closer: SlotCloser,
    thread: JoinHandle<Box<Worker>>,
}

/// The topics that a channel takes.
struct Inputs {
    sensor: Box<dyn Subscription>,
    camera_info: Option<Box<dyn Subscription>>,
}

impl LiveChannel {
    /// Loads and warms the networks, announces the outputs.
    ///
    /// # Errors
    /// `Model` when a network cannot be loaded or does not fit, `Door` when the
    /// graph refuses.
    pub(super) fn open(
        config: &ChannelConfig,
        open_outputs: impl FnOnce(&Channel) -> Result<ChannelOutputs>,
    ) -> Result<Self> {
        let start = Instant::now();
        tracing::info!("channel {}: loading {}", config.name, model_of(&config.kind));
        let mut channel = Channel::open(config)?;
        if let Some(DetectorInfo { engine_name, device_name, .. }) = channel.detector_info() {
            tracing::info!("channel {}: {engine_name} on {device_name}, warming up", config.name);
        }
        channel.warm_up()?;
        tracing::info!("channel {}: ready after {:.1?}", config.name, start.elapsed());
        let outputs = open_outputs(&channel)?;
        let now = Instant::now();
        let input = first_input(config)?;
        let calibration = input.camera_info.as_ref().map(|_| CalibrationWatch::new(now));
        Ok(Self {
            config: config.clone(),
            topic: input.topic.clone(),
            camera_info: input.camera_info.clone(),
            kind: channel.live_input_kind(0),
            wants_transforms: channel.wants_transforms(),
            state: Arc::new(ChannelState::new(now, Serving::of(&channel), calibration)),
            num_failures_seen: 0,
            num_missing_seen: 0,
            stage: Stage::Idle(Box::new(Worker { channel, outputs })),
            window: FrameWindow::new(),
        })
    }

    /// Full name of the topic of its input.
    pub(super) fn topic(&self) -> &str {
        &self.topic
    }

    /// Whether its frames want to know where the sensor stood.
    pub(super) fn wants_transforms(&self) -> bool {
        self.wants_transforms
    }

    /// Takes over what may change, between frames.
    pub(super) fn reconfigure(&mut self, config: &ChannelConfig) {
        if self.config != *config {
            self.config = config.clone();
            self.state.reconfigure(config);
        }
    }

    /// Publishes the labels, starts the thread, then takes inputs.
    ///
    /// # Errors
    /// `Door` when the graph refuses, `Io` when there is no thread.
    pub(super) fn start(
        &mut self,
        door: &mut dyn Door,
        clock: &Arc<NodeClock>,
        transforms: &Arc<LiveTransforms>,
    ) -> Result<()> {
        let mut worker = match std::mem::replace(&mut self.stage, Stage::Lost) {
            Stage::Idle(worker) => worker,
            other => {
                self.stage = other;
                let message = format!("{}: is not idle", self.config.name);
                return Err(Error::new(ErrorKind::Argument, "channel", message));
            }
        };
        worker.take_pending(&self.state, clock);
        let labelled = worker.outputs.publish_labels(&self.config, clock.now().unwrap_or_default());
        if let Err(error) = labelled {
            self.stage = Stage::Idle(worker);
            return Err(error);
        }
        lock(&self.state.input).reopen(Instant::now());
        if let Some(calibration) = &self.state.calibration {
            lock(calibration).input.reopen(Instant::now());
        }
        let (writer, reader, closer) = slot(|| worker.channel.payload_memory());
        let (state, clock) = (Arc::clone(&self.state), Arc::clone(clock));
        let transforms = Arc::clone(transforms);
        let thread = std::thread::Builder::new()
            .name(self.config.name.clone())
            .spawn(move || worker.run(reader, &state, &clock, &transforms))
            .map_err(|e| Error::new(ErrorKind::Io, "channel", "no thread").with_source(e))?;
        match self.subscribe(door, writer) {
            Ok(inputs) => {
                self.stage = Stage::Running(Running { inputs, closer, thread });
                Ok(())
            }
            Err(error) => {
                closer.close();
                self.stage = thread.join().map_or(Stage::Lost, Stage::Idle);
                Err(error)
            }
        }
    }

    /// Takes inputs, and CameraInfo where that is asked for.
    fn subscribe(&mut self, door: &mut dyn Door, writer: SlotWriter) -> Result<Inputs> {
        let (input, live) = (first_input(&self.config)?, &self.config.live);
        self.topic = door.resolve(&input.topic);
        let receiver = receiver(&self.config, writer, Arc::clone(&self.state));
        let sensor = door.subscribe(&input.topic, self.kind, live.qos, receiver)?;
        let Some(topic) = &input.camera_info else {
            return Ok(Inputs { sensor, camera_info: None });
        };
        self.camera_info = Some(door.resolve(topic));
        let receiver = camera_info_receiver(&self.config.name, Arc::clone(&self.state));
        let camera_info = door.subscribe(topic, InputKind::CameraInfo, live.qos, receiver)?;
        Ok(Inputs { sensor, camera_info: Some(camera_info) })
    }

    /// Takes no more inputs and lets the frame in flight finish.
    pub(super) fn begin_stop(&mut self) {
        if let Stage::Running(running) = &self.stage {
            let was_waiting = running.closer.close();
            lock(&self.state.input).note_abandoned(u64::from(was_waiting));
        }
    }

    /// Waits for the frame in flight, at most until `deadline`.
    ///
    /// # Errors
    /// `Argument` when it did not finish: the channel is lost.
    pub(super) fn finish_stop(&mut self, deadline: Instant) -> Result<()> {
        let Running { inputs, thread, .. } = match std::mem::replace(&mut self.stage, Stage::Lost) {
            Stage::Running(running) => running,
            other => {
                self.stage = other;
                return Ok(());
            }
        };
        drop(inputs);
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let lost = |why| {
            let message = format!("{}: {why}", self.config.name);
            Err(Error::new(ErrorKind::Argument, "channel", message))
        };
        if !thread.is_finished() {
            return lost("the frame in flight did not finish in time");
        }
        let Ok(mut worker) = thread.join() else { return lost("its thread panicked") };
        worker.outputs.remove_markers(&Header::default())?;
        self.stage = Stage::Idle(worker);
        Ok(())
    }

    /// What there is to say of its health since the last look; `told` is what the
    /// door told of a topic.
    pub(super) fn look<'t>(
        &mut self,
        node: &str,
        told: impl Fn(&str) -> Told<'t>,
    ) -> Vec<DiagnosticStatus> {
        let now = Instant::now();
        let input = lock(&self.state.input).look(now);
        let frames = self.state.look(&mut self.window);
        let running = match &self.stage {
            Stage::Running(running) => Some(running),
            Stage::Idle(_) | Stage::Lost => None,
        };
        let num_failures = frames.serving.num_failures;
        let num_failures_now = num_failures - self.num_failures_seen;
        self.num_failures_seen = num_failures;
        let of_input = told(&self.topic);
        let num_missing_now = of_input.num_missing - self.num_missing_seen;
        self.num_missing_seen = of_input.num_missing;
        let calibration = self.state.calibration.as_ref().map(|watch| lock(watch).look(now));
        let calibration = calibration.as_ref().zip(self.camera_info.as_deref());
        let calibration = calibration.map(|(summary, topic)| CalibrationHealth {
            topic,
            num_publishers: running
                .and_then(|running| running.inputs.camera_info.as_ref())
                .map(|subscription| subscription.num_publishers()),
            told: told(topic),
            summary,
        });
        let ended = running.is_some_and(|running| running.thread.is_finished());
        ChannelHealth {
            node,
            config: &self.config,
            num_failures_now,
            num_missing_now,
            is_active: running.is_some(),
            is_dead: ended || matches!(self.stage, Stage::Lost),
            topic: &self.config.inputs[0].topic,
            num_publishers: running.map_or(0, |running| running.inputs.sensor.num_publishers()),
            told: of_input,
            calibration,
            input: &input,
            window: &self.window,
            frames: &frames,
        }
        .statuses(now)
    }
}

fn first_input(config: &ChannelConfig) -> Result<&InputConfig> {
    config.inputs.first().ok_or_else(|| {
        Error::new(ErrorKind::Config, "channel", format!("{} has no input", config.name))
    })
}

/// Holds the newest CameraInfo beside the pictures.
fn camera_info_receiver(name: &str, state: Arc<ChannelState>) -> Receiver {
    let name = format!("{name}.camera_info");
    Box::new(move |received| {
        let Some(watch) = &state.calibration else { return };
        let text = received.as_ref().err().map(ToString::to_string);
        let times = lock(watch).take(Instant::now(), received);
        log_refused(&name, times, text);
    })
}

/// Copies every message into the slot and counts it.
fn receiver(config: &ChannelConfig, mut slot: SlotWriter, state: Arc<ChannelState>) -> Receiver {
    let name = config.name.clone();
    let max_payload_bytes = config.live.max_payload_bytes;
    Box::new(move |received| {
        let offered = received.and_then(|message| slot.offer(&message, max_payload_bytes));
        if matches!(offered, Ok(Offered::Closed)) {
            return;
        }
        let text = offered.as_ref().err().map(ToString::to_string);
        let times = lock(&state.input).note(Instant::now(), offered);
        log_refused(&name, times, text);
    })
}

/// The first message that is refused for a reason is a warning.
fn log_refused(name: &str, times: u64, error: Option<String>) {
    match (times, error) {
        (1, Some(error)) => tracing::warn!("channel {name}: message refused: {error}"),
        (_, Some(error)) => tracing::debug!("channel {name}: message refused: {error}"),
        (_, None) => {}
    }
}

fn model_of(kind: &ChannelKind) -> String {
    match kind {
        ChannelKind::Camera(camera) => camera.model_path.display().to_string(),
        ChannelKind::Lidar(lidar) => {
            format!("{} and {}", lidar.encoder_path.display(), lidar.model_path.display())
        }
    }
}
