//! One channel of a replay: messages of its inputs in, detections out.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::input::ReplayInput;
use super::outputs::{OutputChannel, Outputs};
use super::report::{ChannelNames, InputReport, Report};
use super::transforms::TransformFeed;
use crate::config::{ChannelConfig, InputConfig};
use crate::detectors::{FrameInput, FrameSet, MAX_INPUTS};
use crate::device::PayloadMemory;
use crate::draw;
use crate::error::{Error, Result};
use crate::runtime::Factory;
use crate::runtime::account::Account;
use crate::runtime::assembler::{Assembler, Sequence, SharedMessage, fill};
use crate::runtime::channel::{Channel, frame_input};
use crate::runtime::message_buffer::MessageBuffer;
use crate::runtime::slot::Loss;
use crate::transport::bag::{BagMessage, TopicInfo, check_log_time};
use crate::transport::door::{Received, deliver};
use crate::types::{CameraCalibration, Stamp};

/// What the channels of a replay share. At full speed nobody else holds its
/// locks; at a pace they are held to look up and to write, never to work.
pub(super) struct Around {
    pub(super) outputs: Mutex<Outputs>,
    pub(super) transforms: Option<Mutex<TransformFeed>>,
}

impl Around {
    /// Takes in the transforms up to `log_time`.
    pub(super) fn advance_to(&self, log_time: Stamp) {
        if let Some(feed) = &self.transforms {
            lock(feed).advance_to(log_time);
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A channel and where its messages come from and go to.
pub(super) struct ReplayChannel {
    channel: Channel,
    inputs: Vec<ReplayInput>,
    /// Where messages of several inputs become frames.
    frames: Option<Frames>,
    output: usize,
    account: Account,
}

struct Frames {
    assembler: Assembler,
    /// Of each input the buffer that is filled next.
    buffers: Vec<SharedMessage>,
    chosen: Vec<Option<SharedMessage>>,
}

impl ReplayChannel {
    /// Loads the networks of a channel, whose inputs are topics of the
    /// recording.
    ///
    /// # Errors
    /// `Config` when the channel cannot take the type of a topic, `Model` when a
    /// network cannot be loaded or does not fit.
    pub(super) fn open(
        config: &ChannelConfig,
        topics: &[TopicInfo],
        factory: Factory,
    ) -> Result<Self> {
        let channel = Channel::with_factory(config, factory)?;
        let mut inputs = Vec::new();
        for (index, input) in config.inputs.iter().enumerate() {
            inputs.push(ReplayInput::find(&channel, index, input, topics)?);
        }
        let frames = (inputs.len() > 1).then(|| {
            let memory = || channel.payload_memory();
            let (assembler, buffers) = Assembler::new(&config.inputs, &config.sync, memory);
            Frames { assembler, buffers, chosen: Vec::with_capacity(inputs.len()) }
        });
        Ok(Self { channel, inputs, frames, output: 0, account: Account::new() })
    }

    /// Announces the channel's outputs.
    ///
    /// # Errors
    /// `Io` when they cannot be written.
    pub(super) fn announce(&mut self, outputs: &mut Outputs) -> Result<()> {
        let config = self.channel.config();
        self.output = outputs.add_channel(OutputChannel {
            name: config.name.clone(),
            topic: config.output.clone(),
            output_type: self.channel.output_type(),
            class_names: config.kind.class_names().to_vec(),
            class_ids: config.class_ids.clone(),
            score_threshold: config.kind.lowest_score_threshold(),
        })?;
        Ok(())
    }

    /// Its configuration.
    pub(super) fn config(&self) -> &ChannelConfig {
        self.channel.config()
    }

    /// The topics that it reads.
    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        let calibrations = self.inputs.iter().filter_map(|input| input.calibration.as_ref());
        let inputs = self.channel.config().inputs.iter().map(|input| input.topic.as_str());
        inputs.chain(calibrations.map(|topic| topic.name.as_str()))
    }

    /// Whether a message is to be given to [`Self::process`]: every message of
    /// the recording moves the time of frames of several inputs.
    pub(super) fn concerns(&self, message: &BagMessage<'_>) -> bool {
        let topic = Some(message.topic);
        self.frames.is_some()
            || self.inputs.iter().any(|input| {
                let calibration = input.calibration.as_ref().map(|topic| topic.number);
                input.topic == topic || calibration == topic
            })
    }

    /// The newest calibrations of the cameras whose detector asks for them.
    fn calibrations(&self) -> [Option<Arc<CameraCalibration>>; MAX_INPUTS] {
        std::array::from_fn(|index| self.inputs.get(index)?.calibration())
    }

    /// Its inputs, in the order of the configuration.
    pub(super) fn inputs_mut(&mut self) -> &mut [ReplayInput] {
        &mut self.inputs
    }

    /// Runs the networks once, so that the first frame finds them warm.
    ///
    /// # Errors
    /// Those of the detector.
    pub(super) fn warm_up(&mut self) -> Result<()> {
        self.channel.warm_up()
    }

    /// Whether its frames want to know where the sensor stood.
    pub(super) fn wants_transforms(&self) -> bool {
        self.channel.wants_transforms()
    }

    /// Takes a message of the recording, if it is of one of the inputs, and
    /// serves the frames that it completes or that are due by its log time. A
    /// message or frame that cannot be served is dropped, counted and named in
    /// the log.
    ///
    /// # Errors
    /// `Io` when an output cannot be written; nothing else ends the replay.
    pub(super) fn process(&mut self, message: &BagMessage<'_>, around: &Around) -> Result<()> {
        let topic = Some(message.topic);
        let input = self.inputs.iter().position(|input| input.topic == topic);
        if let Err(error) = check_log_time(message.log_time) {
            input.into_iter().for_each(|input| self.refuse(input, &error));
            return Ok(());
        }
        self.advance_to(message.log_time, around)?;
        self.inputs.iter().filter_map(|input| input.calibration.as_ref()).for_each(|topic| {
            topic.take(message);
        });
        let Some(input) = input else { return Ok(()) };
        let mut written = Ok(());
        deliver(self.inputs[input].kind, message.data, &mut |received| {
            written = match received {
                Ok(received) if self.frames.is_some() => {
                    self.take(input, &received, message.log_time);
                    self.advance_to(message.log_time, around)
                }
                Ok(received) => {
                    let calibrations = self.calibrations();
                    let calibration = calibrations[0].as_deref();
                    let input = frame_input(&received);
                    let input = input.map(|input| FrameInput { calibration, ..input });
                    self.serve(&mut [input], &|| message.log_time, around)
                }
                Err(error) => {
                    self.refuse(input, &error);
                    Ok(())
                }
            };
        });
        written
    }

    /// Serves the frames of several inputs that still wait: the recording is at
    /// its end.
    ///
    /// # Errors
    /// As [`Self::process`].
    pub(super) fn finish(&mut self, around: &Around) -> Result<()> {
        self.advance_to(Stamp::from_nanos(i64::MAX), around)
    }

    /// Keeps a message for the frames of several inputs.
    fn take(&mut self, input: usize, received: &Received<'_>, log_time: Stamp) {
        let Some(Frames { assembler, buffers, .. }) = &mut self.frames else { return };
        let buffer = &mut buffers[input];
        let taken = fill(buffer, received, usize::MAX)
            .and_then(|()| assembler.arrive(log_time, input, buffer))
            .and_then(|()| assembler.exchange(input, buffer));
        match taken {
            Ok(()) => self.inputs[input].totals.num_received += 1,
            Err(error) => self.refuse(input, &error),
        }
    }

    /// Serves the frames of several inputs that close by `log_time`.
    fn advance_to(&mut self, log_time: Stamp, around: &Around) -> Result<()> {
        let Some(mut frames) = self.frames.take() else { return Ok(()) };
        let mut written = Ok(());
        while let Some((at, usable)) = frames.assembler.close(log_time, &mut frames.chosen) {
            self.channel.set_sequence(frames.assembler.take_sequence());
            match usable {
                Ok(()) => written = self.serve_messages(&frames.chosen, &|| at, around),
                Err(error) => self.drop_frames(&error, 1),
            }
            frames.chosen.clear();
            if written.is_err() {
                break;
            }
        }
        for (index, input) in self.inputs.iter_mut().enumerate() {
            input.totals.add_loss(Loss::Unused, frames.assembler.take_unused(index));
        }
        self.frames = Some(frames);
        written
    }

    /// Detects objects in the messages of a frame and writes them.
    ///
    /// # Errors
    /// As [`Self::process`].
    pub(super) fn serve_messages(
        &mut self,
        messages: &[Option<SharedMessage>],
        log_time: &dyn Fn() -> Stamp,
        around: &Around,
    ) -> Result<()> {
        let mut views = [const { None }; MAX_INPUTS];
        for (view, message) in views.iter_mut().zip(messages) {
            match message.as_deref().map(MessageBuffer::view).transpose() {
                Ok(message) => *view = message,
                Err(error) => {
                    self.drop_frames(&error, 1);
                    return Ok(());
                }
            }
        }
        let calibrations = self.calibrations();
        let mut inputs = [const { None }; MAX_INPUTS];
        for ((input, view), calibration) in inputs.iter_mut().zip(&views).zip(&calibrations) {
            *input = view.as_ref().map(|view| view.input_with(calibration.as_deref()));
        }
        self.serve(&mut inputs[..messages.len()], log_time, around)
    }

    /// Detects objects in a frame and writes them; `log_time` says, once they
    /// are found, at what time they are recorded.
    fn serve(
        &mut self,
        inputs: &mut [Option<FrameInput<'_>>],
        log_time: &dyn Fn() -> Stamp,
        around: &Around,
    ) -> Result<()> {
        let feed = around.transforms.as_ref();
        let lookup = feed.map(|feed| |to: &str, from: &str, at| lock(feed).lookup(to, from, at));
        let lookup = lookup.as_ref().map(|lookup| lookup as _);
        let served = match self.channel.process(inputs, lookup) {
            Ok(served) => served,
            Err(error) => {
                self.drop_frames(&error, 1);
                return Ok(());
            }
        };
        let number = self.account.frames_in();
        self.account.add_served(served.report, served.detections.len());
        self.account.add_stamp(served.order);
        let degraded = served.degraded.as_ref();
        let is_first = degraded.is_some_and(|error| self.account.add_degraded(error) == 1);
        if let Some(error) = degraded.filter(|_| is_first) {
            tracing::warn!("channel {}: sweep served alone: {error}", served.config.name);
        }
        let mut outputs = lock(&around.outputs);
        outputs.write(self.output, &served.header, log_time(), served.detections)?;
        if outputs.wants_picture(number) {
            let frame = FrameSet { stamp: served.header.stamp, inputs };
            let reference = served.config.sync.reference;
            let canvas = draw::draw(&frame, reference, served.detections, served.config)?;
            outputs.save_picture(&served.config.name, number, served.header.stamp, &canvas)?;
        }
        Ok(())
    }

    /// Memory for messages to be served from.
    pub(super) fn payload_memory(&self) -> PayloadMemory {
        self.channel.payload_memory()
    }

    /// How the next frame stands to the ones before.
    pub(super) fn set_sequence(&mut self, sequence: Sequence) {
        self.channel.set_sequence(sequence);
    }

    /// The account of its frames.
    pub(super) fn account_mut(&mut self) -> &mut Account {
        &mut self.account
    }

    /// Counts a message that is none. With one input it is a frame.
    fn refuse(&mut self, input: usize, error: &Error) {
        if self.frames.is_none() {
            return self.drop_frames(error, 1);
        }
        let ChannelConfig { name, inputs, .. } = self.channel.config();
        let topic = &inputs[input].topic;
        match self.inputs[input].totals.add_refused(error) {
            1 => tracing::warn!("channel {name}: message of {topic} refused: {error}"),
            count => {
                tracing::debug!("channel {name}: message of {topic} refused ({count}): {error}")
            }
        }
    }

    /// Counts frames that are not served; the first of a reason is a warning.
    pub(super) fn drop_frames(&mut self, error: &Error, num: u64) {
        let name = &self.channel.config().name;
        match self.account.add_dropped(error, num) {
            1 => tracing::warn!("channel {name}: frame dropped: {error}"),
            count => tracing::debug!("channel {name}: frame dropped ({count}): {error}"),
        }
    }

    /// Adds the channel's account to the report of the replay.
    pub(super) fn add_to(&self, report: &mut Report) {
        let ChannelConfig { name, inputs, output, .. } = self.channel.config();
        let info = self.channel.detector_info();
        let names = ChannelNames {
            input: inputs.iter().map(|input| input.topic.as_str()).collect::<Vec<_>>().join(", "),
            output: output.clone(),
            device: info.map_or("none", |info| &info.device_name).to_owned(),
            engine: info.map_or("none", |info| &info.engine_name).to_owned(),
        };
        let of_input = |(input, config): (&ReplayInput, &InputConfig)| InputReport {
            topic: config.topic.clone(),
            totals: input.totals.clone(),
        };
        let several = self.inputs.iter().zip(inputs).filter(|_| self.inputs.len() > 1);
        report.add_channel(name, names, several.map(of_input).collect(), &self.account);
    }
}
