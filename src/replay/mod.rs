//! A recording in, detections out: what the node does, as one call without a graph.
//!
//! [`Replay`] runs every configured channel whose inputs are topics of the recording and
//! passes each frame to a closure. [`ReplayFiles`] writes frames to a folder, as
//! `det_post replay --out` does. The same recording and configuration give the same
//! detections on the same device, byte for byte.

mod channel;
mod files;
mod input;
mod paced;
mod report;
mod transforms;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::{ChannelConfig, Config, InputConfig};
use crate::detectors::FrameSet;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::{Factory, open_detector};
use crate::transport::bag::{BagMessage, BagReader, ReadOptions, TopicInfo};
use crate::types::{Detections, FrameReport, Header, Stamp};
use channel::ReplayChannel;
pub use files::ReplayFiles;
pub use report::{ChannelSummary, InputReport, ReadSummary, Report};
use transforms::TransformFeed;

/// Pace of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Rate {
    /// As fast as the channels process: every message is processed, in the order of the
    /// recording.
    #[default]
    Max,
    /// A multiple of the recorded pace, above 0. Channels run in threads and process the
    /// newest message, as live ones do; messages that a newer one overtakes are counted.
    Factor(f64),
}

/// How a recording is replayed.
#[derive(Clone)]
pub struct ReplayOptions {
    /// The pace.
    pub rate: Rate,
    /// Set it to end the replay after the frame in progress.
    pub stop: Arc<AtomicBool>,
    /// Builds the detector of a channel.
    pub factory: Factory,
}

impl Default for ReplayOptions {
    /// Full speed, nothing that stops it, and the detectors that the configuration names.
    fn default() -> Self {
        Self { rate: Rate::default(), stop: Arc::default(), factory: Arc::new(open_detector) }
    }
}

/// One frame of a replay.
pub struct ReplayFrame<'a> {
    /// Index of its channel in [`Replay::channels`].
    pub channel: usize,
    /// Configuration of its channel.
    pub config: &'a ChannelConfig,
    /// Number of the frame in its channel, from 0; dropped frames count.
    pub number: u64,
    /// Messages of all channels read so far.
    pub num_messages_read: u64,
    /// The detections, or why the frame is dropped.
    pub result: std::result::Result<ReplayDetections<'a>, &'a Error>,
}

/// The detections of a frame and what they were found in.
pub struct ReplayDetections<'a> {
    /// Stamp and coordinate frame of the reference input.
    pub header: Header<'a>,
    /// Detections in the total order: score descending, then class, then source index.
    pub detections: Detections<'a>,
    /// Durations, losses and moved bytes of the frame.
    pub report: &'a FrameReport,
    /// Why the pose of a sensor is unknown; the frame was processed without it.
    pub degraded: Option<&'a Error>,
    /// The inputs of the frame.
    pub inputs: FrameSet<'a>,
    /// Time of the detections on the clock of the recording: the log time of the message
    /// that completes the frame or, at a [`Rate::Factor`], the time at which they are found.
    pub log_time: Stamp,
}

/// A recording and the channels that process it.
pub struct Replay {
    bag: PathBuf,
    reader: BagReader,
    channels: Vec<ReplayChannel>,
    transforms: Option<TransformFeed>,
    options: ReplayOptions,
}

impl Replay {
    /// Opens a recording (a rosbag2 folder, an `.mcap` or a `.db3` file) and loads the
    /// networks of the channels whose reference input it holds. An input that the
    /// recording lacks is a warning in the log.
    ///
    /// # Errors
    /// `Config` when no channel has its reference input in the recording or a topic has
    /// another type than its channel takes, `Model` when a network cannot be loaded, `Io`
    /// or `DamagedBag` when the recording cannot be opened, `Argument` for a rate that is
    /// not above 0, `Interrupted` when the replay is stopped before it starts.
    pub fn open(bag: &Path, config: &Config, options: ReplayOptions) -> Result<Self> {
        if let Rate::Factor(factor) = options.rate
            && !(factor > 0.0 && factor.is_finite())
        {
            let message = format!("the rate is {factor}; it must be finite and above 0");
            return Err(Error::new(ErrorKind::Argument, "replay", message));
        }
        let read = ReadOptions { stop: Arc::clone(&options.stop), ..ReadOptions::default() };
        let mut reader = BagReader::open_with(bag, &read)?;
        let channels = open_channels(config, reader.topics(), &options.factory)?;
        let wants_transforms = channels.iter().any(ReplayChannel::wants_transforms);
        let transforms = wants_transforms.then(|| TransformFeed::open(bag, &read)).transpose()?;
        let topics: Vec<&str> = channels.iter().flat_map(ReplayChannel::topics).collect();
        reader.select(&topics);
        Ok(Self { bag: bag.to_owned(), reader, channels, transforms, options })
    }

    /// The configurations of the channels that run.
    pub fn channels(&self) -> impl Iterator<Item = &ChannelConfig> {
        self.channels.iter().map(ReplayChannel::config)
    }

    /// Messages of the channels' inputs in the recording, where it says how many.
    pub fn num_messages(&self) -> Option<u64> {
        self.reader.num_messages()
    }

    /// Replays the recording to its end, or until [`ReplayOptions::stop`] is set, and calls
    /// `on_frame` once per frame. A frame that cannot be processed is passed on with its
    /// error, and damage of the recording is read past; both are in the report. Frames that
    /// newer ones overtake are in the report alone.
    ///
    /// At a [`Rate::Factor`] the threads of the channels take turns in calling `on_frame`.
    ///
    /// # Errors
    /// The first error of `on_frame`, and those of warming up the networks at a
    /// [`Rate::Factor`].
    pub fn run(
        self,
        mut on_frame: impl FnMut(&ReplayFrame<'_>) -> Result<()> + Send,
    ) -> Result<Report> {
        let Self { bag, reader, mut channels, transforms, options } = self;
        let context = ReplayContext {
            on_frame: Mutex::new(&mut on_frame),
            transforms: transforms.map(Mutex::new),
            num_messages_read: AtomicU64::new(0),
        };
        let mut reading =
            Reading { reader, context: &context, stop: &options.stop, damage: Vec::new() };
        match options.rate {
            Rate::Max => process_all(&mut reading, &mut channels)?,
            Rate::Factor(factor) => paced::process(&mut reading, &mut channels, factor)?,
        }
        let Reading { reader, damage, .. } = reading;
        let mut read = ReadSummary {
            num_messages: context.num_messages_read(),
            num_lost: None,
            damage,
            interrupted: options.stop.load(Ordering::Relaxed),
        };
        if !read.damage.is_empty() && !read.interrupted {
            read.num_lost = reader.num_messages().map(|n| n.saturating_sub(read.num_messages));
        }
        let mut report = Report::new(&bag, read);
        channels.iter().for_each(|channel| channel.add_to(&mut report));
        Ok(report)
    }
}

/// The closure that receives the frames.
type OnFrame<'a> = dyn FnMut(&ReplayFrame<'_>) -> Result<()> + Send + 'a;

/// What the channels of a replay share. Locks are held to look up a transform and to pass
/// a frame on, not while a frame is processed.
struct ReplayContext<'a> {
    on_frame: Mutex<&'a mut OnFrame<'a>>,
    transforms: Option<Mutex<TransformFeed>>,
    num_messages_read: AtomicU64,
}

impl ReplayContext<'_> {
    /// Reads the transforms up to `log_time`.
    fn advance_to(&self, log_time: Stamp) {
        if let Some(feed) = &self.transforms {
            lock(feed).advance_to(log_time);
        }
    }

    fn num_messages_read(&self) -> u64 {
        self.num_messages_read.load(Ordering::Relaxed)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A recording that is being read.
struct Reading<'a> {
    reader: BagReader,
    context: &'a ReplayContext<'a>,
    stop: &'a AtomicBool,
    /// What is wrong with the recording.
    damage: Vec<String>,
}

impl Reading<'_> {
    /// Whether the replay is to end.
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Passes message by message to `work`, until the end or a request to stop. Damage is
    /// noted and read past.
    ///
    /// # Errors
    /// The first of `work`.
    fn each(&mut self, work: &mut dyn FnMut(&BagMessage<'_>) -> Result<()>) -> Result<()> {
        while !self.is_stopped() {
            match self.reader.next_message() {
                Ok(Some(message)) => {
                    self.context.num_messages_read.fetch_add(1, Ordering::Relaxed);
                    work(&message)?;
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::error!("{error}");
                    self.damage.push(error.to_string());
                }
            }
        }
        Ok(())
    }
}

/// Processes every message, one after the other.
fn process_all(reading: &mut Reading<'_>, channels: &mut [ReplayChannel]) -> Result<()> {
    let context = reading.context;
    reading.each(&mut |message| {
        context.advance_to(message.log_time);
        let mut channels = channels.iter_mut().filter(|channel| channel.concerns(message));
        channels.try_for_each(|channel| channel.process(message, context))
    })?;
    channels.iter_mut().try_for_each(|channel| channel.finish(context))
}

/// Opens the configured channels whose reference input the recording holds.
///
/// # Errors
/// `Config` when there is none, and those of opening a channel.
fn open_channels(
    config: &Config,
    topics: &[TopicInfo],
    factory: &Factory,
) -> Result<Vec<ReplayChannel>> {
    let mut channels = Vec::new();
    for channel in &config.channels {
        let is_there = |input: &InputConfig| topics.iter().any(|topic| topic.name == input.topic);
        for input in channel.inputs.iter().filter(|input| !is_there(input)) {
            tracing::warn!("channel {}: the recording has no topic {}", channel.name, input.topic);
        }
        if channel.inputs.get(channel.sync.reference).is_some_and(is_there) {
            let index = channels.len();
            channels.push(ReplayChannel::open(index, channel, topics, Arc::clone(factory))?);
        }
    }
    if channels.is_empty() {
        let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
        let inputs = config.channels.iter().flat_map(|channel| &channel.inputs);
        let inputs: Vec<&str> = inputs.map(|input| input.topic.as_str()).collect();
        return Err(Error::new(
            ErrorKind::Config,
            "replay",
            format!(
                "no channel has its input ({}) in the recording; its topics are {}",
                inputs.join(" "),
                names.join(" ")
            ),
        ));
    }
    Ok(channels)
}
