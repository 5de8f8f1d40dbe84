//! A recording in, detections out: what the node does, as one call without a graph.
//!
//! [`Replay`] runs every configured channel whose inputs are topics of the recording and
//! passes each frame to a closure. [`ReplayFiles`] writes frames to a folder, as
//! `det_post replay --out` does. The same recording and configuration give the same
//! detections on the same device, byte for byte.

mod calibrations;
mod channel;
mod context;
mod files;
mod frame;
mod in_order;
mod input;
mod paced;
mod report;
mod slice;
mod transforms;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::config::{ChannelConfig, ChannelKind, Config, InputConfig, available_bytes};
use crate::device::{FileBytes, MappedUploads, set_copy_threads};
use crate::error::{Error, ErrorKind, Result};
pub use crate::runtime::account::{BytesSummary, Reason, StageSummary};
use crate::runtime::batches::share_networks;
pub use crate::runtime::input::InputTotals;
use crate::runtime::placement::place_on_gpus;
use crate::runtime::{Factory, open_detector};
use crate::transport::bag::{BagReader, ReadOptions, TopicInfo};
use calibrations::read_calibrations;
use channel::ReplayChannel;
use context::{Reading, ReplayContext, lock};
pub use files::ReplayFiles;
pub use frame::{ReplayDetections, ReplayFrame};
use in_order::InOrder;
pub use report::{ChannelSummary, InputReport, ReadSummary, Report, SliceSummary};
use slice::Bounds;
pub use slice::{LogTime, Slice, warm_up};
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
    /// The most frames of a channel in progress at once at [`Rate::Max`]: 1 or 2. With 2, a
    /// channel of one camera or one pillar network on a GPU uploads a frame while its network
    /// runs on the frame before. Detections, their order and what is dropped are the same;
    /// frames that overlap are passed on without their inputs.
    pub frames_in_flight: usize,
    /// Whether cameras with `batch_with` share the runs of their network. At [`Rate::Max`] their
    /// frames are passed on without their inputs.
    pub shares_batches: bool,
    /// Builds the detector of a channel that shares no network.
    pub factory: Factory,
    /// The part of the recording that is replayed. At a [`Rate::Factor`] it begins as a node
    /// that is started then, without a warm-up.
    pub slice: Slice,
}

impl Default for ReplayOptions {
    /// The whole recording at full speed, one frame after another, nothing that stops it, and
    /// the detectors that the configuration names.
    fn default() -> Self {
        Self {
            rate: Rate::default(),
            stop: Arc::default(),
            frames_in_flight: 1,
            shares_batches: true,
            factory: Arc::new(open_detector),
            slice: Slice::default(),
        }
    }
}

/// A recording and the channels that process it.
///
/// ```
/// use std::path::PathBuf;
/// use std::sync::atomic::AtomicBool;
///
/// use det_post::sim::{self, Drive, Options, PictureFormat};
/// use det_post::{Config, Replay, ReplayOptions};
///
/// let folder = tempfile::tempdir()?;
/// let bag = folder.path().join("drive");
/// let drive = Drive::new(1, &Options::default())?;
/// sim::record(&drive, 0.3, PictureFormat::Raw, &bag, &AtomicBool::new(false), &mut |_, _| {})?;
///
/// let config = Config::load(&[PathBuf::from("config/demo.param.yaml")], &[])?;
/// let replay = Replay::open(&bag, &config, ReplayOptions::default())?;
/// let mut num_detections = 0;
/// let report = replay.run(|frame| {
///     match &frame.result {
///         Ok(found) => num_detections += found.detections.len() as u64,
///         Err(error) => eprintln!("{}: frame dropped: {error}", frame.config.name),
///     }
///     Ok(())
/// })?;
/// let channels = report.channels.values();
/// assert_eq!(channels.map(|channel| channel.detections).sum::<u64>(), num_detections);
/// assert!(num_detections > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Replay {
    bag: PathBuf,
    reader: BagReader,
    channels: Vec<ReplayChannel>,
    transforms: Option<TransformFeed>,
    bounds: Bounds,
    /// What is wrong with the recording where calibrations before a slice are read.
    damage: Vec<Error>,
    /// The most bytes of the recording that are registered for uploads at a time.
    mapped_bytes: usize,
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
    /// or `DamagedBag` when the recording cannot be opened, or is damaged and has no input of any
    /// channel, `Argument` for a rate that is not above 0 or a number of frames in flight that
    /// is not 1 or 2, `Usage` for a slice that ends before it starts, `Interrupted` when the
    /// replay is stopped before it starts.
    pub fn open(bag: &Path, config: &Config, options: ReplayOptions) -> Result<Self> {
        if let Rate::Factor(factor) = options.rate
            && !(factor > 0.0 && factor.is_finite())
        {
            let message = format!("the rate is {factor}; it must be finite and above 0");
            return Err(Error::new(ErrorKind::Argument, "replay", message));
        }
        if !(1..=2).contains(&options.frames_in_flight) {
            let num = options.frames_in_flight;
            let message = format!("frames_in_flight is {num}; it must be 1 or 2");
            return Err(Error::new(ErrorKind::Argument, "replay", message));
        }
        let mut slice = options.slice;
        if let Rate::Factor(_) = options.rate {
            if slice.warm_up.is_some_and(|warm_up| !warm_up.is_zero()) {
                let message = "a warm-up is for replays at full speed";
                return Err(Error::new(ErrorKind::Usage, "replay", message));
            }
            slice.warm_up = Some(Duration::ZERO);
        }
        set_copy_threads(config.uploads.copy_threads);
        let read = ReadOptions { stop: Arc::clone(&options.stop), ..ReadOptions::default() };
        let mut reader = BagReader::open_with(bag, &read)?;
        let chosen = channels_in(config, reader.topics());
        if chosen.is_empty() {
            return Err(no_input(config, reader));
        }
        let mut channels = open_channels(chosen, reader.topics(), &options)?;
        if options.rate == Rate::Max {
            // Allocates what frames in flight need before the first frame.
            for channel in &mut channels {
                channel.overlaps(options.frames_in_flight);
            }
        }
        let wants_transforms = channels.iter().any(ReplayChannel::wants_transforms);
        let mut transforms =
            wants_transforms.then(|| TransformFeed::open(bag, &read)).transpose()?;
        if let Some(feed) = &mut transforms {
            let kinds = channels.iter().map(|channel| &channel.config().kind);
            kinds
                .filter_map(ChannelKind::transforms_path)
                .try_for_each(|path| feed.add_file(path))?;
        }
        let topics: Vec<&str> = channels.iter().flat_map(ReplayChannel::topics).collect();
        reader.select(&topics);
        let configs = channels.iter().map(ReplayChannel::config);
        let bounds = Bounds::new(&slice, reader.start_time(), configs)?;
        reader.limit(bounds.read);
        let mut damage = Vec::new();
        if let Some(start) = bounds.read.from {
            damage = read_calibrations(bag, &read, start, &channels)?;
            if let Some(feed) = &mut transforms {
                feed.skip_to(bag, &read, start)?;
            }
        }
        let mapped_bytes = config.uploads.mapped_bytes;
        let bag = bag.to_owned();
        Ok(Self { bag, reader, channels, transforms, bounds, damage, mapped_bytes, options })
    }

    /// The configurations of the channels that run.
    pub fn channels(&self) -> impl Iterator<Item = &ChannelConfig> {
        self.channels.iter().map(ReplayChannel::config)
    }

    /// Messages of the channels' inputs in the recording, where it says how many and all are
    /// read.
    pub fn num_messages(&self) -> Option<u64> {
        self.reader.num_messages()
    }

    /// Replays the recording to its end, or until [`ReplayOptions::stop`] is set, and calls
    /// `on_frame` once per frame. A frame that cannot be processed is passed on with its
    /// error, and damage of the recording is read past; both are in the report. Frames that
    /// newer ones overtake are in the report alone.
    ///
    /// At a [`Rate::Factor`] the threads of the channels take turns in calling `on_frame`, and
    /// messages that cannot be decoded are in the report alone, as dropped frames of a channel
    /// with one input.
    ///
    /// # Errors
    /// The first error of `on_frame`, and those of warming up the networks at a
    /// [`Rate::Factor`].
    pub fn run(
        self,
        mut on_frame: impl FnMut(&ReplayFrame<'_>) -> Result<()> + Send,
    ) -> Result<Report> {
        let Self { bag, reader, mut channels, transforms, bounds, damage, mapped_bytes, options } =
            self;
        let context = ReplayContext {
            on_frame: Mutex::new(&mut on_frame),
            transforms: transforms.map(Mutex::new),
            num_messages_read: AtomicU64::new(0),
            owned: bounds.owned,
        };
        let mut reading =
            Reading { reader, context: &context, stop: &options.stop, damage: Vec::new() };
        let mut totals = None;
        match options.rate {
            Rate::Max => {
                let uploads = start_uploads(&reading.reader, &channels, mapped_bytes);
                let num = options.frames_in_flight;
                let mut in_order = InOrder::new(&mut channels, uploads.as_ref(), &context, num);
                reading.each(&mut |message| in_order.process(message))?;
                in_order.finish()?;
                totals = uploads.as_ref().map(MappedUploads::totals);
            }
            Rate::Factor(factor) => paced::process(&mut reading, &mut channels, factor)?,
        }
        reading.note_others(damage);
        reading.note_others(context.transforms.iter().flat_map(|feed| lock(feed).take_damage()));
        let Reading { reader, damage, .. } = reading;
        let mut read = ReadSummary {
            num_messages: context.num_messages_read(),
            num_lost: None,
            damage: damage.iter().map(Error::to_string).collect(),
            interrupted: options.stop.load(Ordering::Relaxed),
        };
        if !read.interrupted {
            let num_lost = reader.num_messages().map(|n| n.saturating_sub(read.num_messages));
            let is_damaged = !read.damage.is_empty();
            read.num_lost = num_lost.filter(|num| is_damaged || *num > 0);
            if let (false, Some(num)) = (is_damaged, read.num_lost) {
                tracing::warn!(
                    "the recording declares {num} messages of the channels that were not found; \
                     the index of an MCAP file may leave them out"
                );
            }
        }
        let mut report = Report::new(&bag, read);
        report.slice = SliceSummary::of(&bounds);
        report.uploads = totals;
        channels.iter().for_each(|channel| channel.add_to(&mut report));
        Ok(report)
    }
}

/// Starts to register the mapped files of a recording for channels that upload from them.
fn start_uploads(
    reader: &BagReader,
    channels: &[ReplayChannel],
    limit: usize,
) -> Option<MappedUploads> {
    let device = channels.iter().find_map(ReplayChannel::uploads_in_place)?;
    // Registered pages cannot be swapped out.
    let memory = available_bytes().and_then(|bytes| usize::try_from(bytes / 8).ok());
    let limit = memory.map_or(limit, |most| limit.min(most));
    let files = reader.mapped_files().into_iter();
    let files = files.map(|file| Arc::new(file) as FileBytes).collect();
    MappedUploads::start(device, files, limit)
}

/// The configured channels whose reference input the recording holds.
fn channels_in(config: &Config, topics: &[TopicInfo]) -> Vec<ChannelConfig> {
    let mut chosen = Vec::new();
    for channel in &config.channels {
        let is_there = |input: &InputConfig| topics.iter().any(|topic| topic.name == input.topic);
        for input in channel.inputs.iter().filter(|input| !is_there(input)) {
            tracing::warn!("channel {}: the recording has no topic {}", channel.name, input.topic);
        }
        if channel.inputs.get(channel.sync.reference).is_some_and(is_there) {
            chosen.push(channel.clone());
        }
    }
    chosen
}

/// The error of a recording without an input of any channel: its damage, where it has any that
/// can have taken the topics, else `Config`.
fn no_input(config: &Config, mut reader: BagReader) -> Error {
    let names: Vec<&str> = reader.topics().iter().map(|topic| topic.name.as_str()).collect();
    let inputs = config.channels.iter().flat_map(|channel| &channel.inputs);
    let inputs: Vec<&str> = inputs.map(|input| input.topic.as_str()).collect();
    let message = format!(
        "no channel has its input ({}) in the recording; its topics are {}",
        inputs.join(" "),
        if names.is_empty() { "none".to_owned() } else { names.join(" ") },
    );
    // Skips the chunks of an index. Files without one, as those that are cut, are read.
    reader.select(&[]);
    match reader.next_message() {
        Err(damage) => Error::new(damage.kind(), "replay", message).with_source(damage),
        Ok(_) => Error::new(ErrorKind::Config, "replay", message),
    }
}

/// Opens channels whose reference input the recording holds.
///
/// # Errors
/// Those of opening a channel.
fn open_channels(
    mut chosen: Vec<ChannelConfig>,
    topics: &[TopicInfo],
    options: &ReplayOptions,
) -> Result<Vec<ReplayChannel>> {
    place_on_gpus(&mut chosen);
    let factory = match options.shares_batches {
        true => share_networks(&chosen, &options.factory),
        false => Arc::clone(&options.factory),
    };
    let open = |(index, channel)| ReplayChannel::open(index, channel, topics, Arc::clone(&factory));
    chosen.iter().enumerate().map(open).collect()
}
