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
mod frames_in_flight;
mod in_order;
mod input;
mod key_frames;
mod lines;
mod options;
mod paced;
mod report;
mod slice;
mod threads;
mod topics;
mod transforms;
mod turns;
mod unpacked;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::config::{ChannelConfig, ChannelKind, Config, available_bytes, motions_of};
use crate::detectors::{FRAMES_PER_INSTANCE, MAX_FRAMES_IN_FLIGHT};
pub use crate::runtime::account::{BytesSummary, Reason, StageSummary};
pub use crate::runtime::input::InputTotals;
use crate::runtime::placement::place_on_gpus;
use calibrations::read_calibrations;
use channel::ReplayChannel;
use context::{Output, Reading, ReplayContext};
use det_post_ops::device::{FileBytes, MappedUploads, set_copy_threads};
use det_post_ros::bag::{BagReader, ReadOptions, TopicInfo};
use det_post_types::{Error, ErrorKind, Result, Stamp};
#[cfg(feature = "cli")]
pub(crate) use files::RESULTS;
pub use files::ReplayFiles;
pub use frame::{ReplayDetections, ReplayFrame};
pub use options::{Rate, ReplayOptions};
pub use report::{ChannelSummary, InputReport, ReadSummary, Report, SliceSummary};
use slice::Bounds;
pub use slice::{LogTime, Slice, warm_up};
use threads::Feed;
pub use threads::Threads;
use topics::{channels_in, no_input};
use transforms::TransformFeed;

/// A recording and the channels that process it.
///
/// ```
/// use std::path::PathBuf;
/// use std::sync::atomic::AtomicBool;
///
/// use det_post_sim::{Drive, Options, ImageFormat};
/// use det_post::{Config, Replay, ReplayOptions};
///
/// let folder = tempfile::tempdir()?;
/// let bag = folder.path().join("drive");
/// let drive = Drive::new(1, &Options::default())?;
/// let stop = AtomicBool::new(false);
/// det_post_sim::record(&drive, 0.3, ImageFormat::Raw, &bag, &stop, &mut |_, _| {})?;
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
    channels: Vec<ReplayChannel>,
    /// The threads of the channels, by number.
    thread_of: Vec<usize>,
    feed: Feed,
    /// The feeds of further threads.
    more_feeds: Vec<Feed>,
    bounds: Bounds,
    /// What is wrong with the recording where calibrations before a slice are read.
    damage: Vec<Error>,
    /// The most bytes of the recording that are registered for uploads at a time.
    mapped_bytes: usize,
    /// The most frames of a channel in flight.
    frames_in_flight: usize,
    options: ReplayOptions,
}

impl Replay {
    /// Opens a recording (a rosbag2 folder, an `.mcap` or a `.db3` file) and loads the
    /// networks of the enabled channels whose reference input it holds. An input that the
    /// recording lacks is a warning in the log.
    ///
    /// # Errors
    /// `Config` when no enabled channel has its reference input in the recording or a topic has
    /// another type than its channel takes, `Model` when a network cannot be loaded, `Io`
    /// or `DamagedBag` when the recording cannot be opened, or is damaged and has no input of any
    /// channel, `Argument` for a rate that is not above 0 or a number of frames in flight that
    /// is 0 or above [`MAX_FRAMES_IN_FLIGHT`], `Usage` for a slice that ends before it starts and
    /// a number of frames at a [`Rate::Factor`], `Interrupted` when the replay is stopped before it starts.
    pub fn open(bag: &Path, config: &Config, options: ReplayOptions) -> Result<Self> {
        if let Rate::Factor(factor) = options.rate
            && !(factor > 0.0 && factor.is_finite())
        {
            let message = format!("the rate is {factor}; it must be finite and above 0");
            return Err(Error::new(ErrorKind::Argument, "replay", message));
        }
        if let Some(num) = options.frames_in_flight
            && !(1..=MAX_FRAMES_IN_FLIGHT).contains(&num)
        {
            let message =
                format!("frames_in_flight is {num}; it must be from 1 to {MAX_FRAMES_IN_FLIGHT}");
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
        if options.max_frames.is_some() && options.rate != Rate::Max {
            let message =
                "a number of frames is for replays at full speed; at a factor, a slice is";
            return Err(Error::new(ErrorKind::Usage, "replay", message));
        }
        set_copy_threads(config.uploads.copy_threads);
        let read = ReadOptions { stop: Arc::clone(&options.stop), ..ReadOptions::default() };
        let mut reader = BagReader::open_with(bag, &read)?;
        let chosen = channels_in(config, reader.topics());
        if chosen.is_empty() {
            return Err(no_input(config, reader));
        }
        let mut channels = open_channels(chosen, reader.topics(), &options)?;
        let topics: Vec<&str> = channels.iter().flat_map(ReplayChannel::topics).collect();
        reader.select(&topics);
        let configs = channels.iter().map(ReplayChannel::config);
        let mut bounds = Bounds::new(&slice, reader.start_time(), configs)?;
        let mut damage = Vec::new();
        if let Some(start) = bounds.read.from {
            let (from, met) = key_frames::read_from(bag, &read, start, &channels)?;
            bounds.read.from = from.or(bounds.read.from);
            damage = met;
        }
        reader.limit(bounds.read);
        let frames_in_flight = match options.rate {
            Rate::Max => allow_in_flight(&mut channels, &reader, options.frames_in_flight),
            Rate::Factor(_) => 1,
        };
        if let Some(start) = bounds.read.from {
            damage.extend(read_calibrations(bag, &read, start, &channels)?);
        }
        // At a factor, the channels have threads anyway, and one reader.
        let threads = if options.rate == Rate::Max { options.threads } else { Threads::One };
        let mut thread_of = threads::divide(channels.iter().map(ReplayChannel::config), threads);
        let num_more = thread_of.iter().max().copied().unwrap_or_default();
        let readers = (0..num_more).map(|_| reader.reopen()).collect::<Option<Vec<_>>>();
        let readers = readers.unwrap_or_else(|| {
            thread_of.fill(0);
            vec![]
        });
        let open_feed = |(thread, reader)| {
            let mut all = channels.iter().zip(&thread_of);
            let is_wanted = all.any(|(channel, of)| *of == thread && channel.wants_transforms());
            let open = || open_transforms(bag, &read, &channels, bounds.read.from);
            Ok(Feed { reader, transforms: is_wanted.then(open).transpose()? })
        };
        let more_feeds = (1..).zip(readers).map(open_feed).collect::<Result<_>>()?;
        let feed = open_feed((0, reader))?;
        let (bag, mapped_bytes) = (bag.to_owned(), config.uploads.mapped_bytes);
        Ok(Self {
            bag,
            channels,
            thread_of,
            feed,
            more_feeds,
            bounds,
            damage,
            mapped_bytes,
            frames_in_flight,
            options,
        })
    }

    /// The configurations of the channels that run.
    pub fn channels(&self) -> impl Iterator<Item = &ChannelConfig> {
        self.channels.iter().map(ReplayChannel::config)
    }

    /// The log times of the first and the last message, as the recording declares them.
    pub fn span(&self) -> Option<(Stamp, Stamp)> {
        let (first, duration) = self.feed.reader.start_time().zip(self.feed.reader.duration())?;
        Some((first, slice::after(first, duration)))
    }

    /// Messages of the channels' inputs in the recording, where it says how many and all are
    /// read.
    pub fn num_messages(&self) -> Option<u64> {
        self.feed.reader.num_messages()
    }

    /// Replays the recording to its end, or until [`ReplayOptions::stop`] is set, and calls
    /// `on_frame` once per frame. A frame that cannot be processed is passed on with its
    /// error, and damage of the recording is read past; both are in the report. Frames that
    /// newer ones overtake are only in the report.
    ///
    /// The threads of the channels, at [`Rate::Max`] those of [`ReplayOptions::threads`], take
    /// turns in calling `on_frame`. At a [`Rate::Factor`], messages that cannot be decoded are in
    /// only the report, as dropped frames of a channel with one input.
    ///
    /// # Errors
    /// The first error of `on_frame`, and those of warming up the networks at a
    /// [`Rate::Factor`].
    pub fn run(
        self,
        mut on_frame: impl FnMut(&ReplayFrame<'_>) -> Result<()> + Send,
    ) -> Result<Report> {
        let Self { bag, mut channels, thread_of, feed, more_feeds, bounds, damage, .. } = self;
        let (mapped_bytes, options) = (self.mapped_bytes, self.options);
        let num_readers = 1 + more_feeds.len();
        let max_frames = options.max_frames.unwrap_or(u64::MAX);
        let output = Output::new(&mut on_frame, bounds, num_readers, max_frames);
        let context = ReplayContext::new(&output, 0, feed.transforms);
        let of_more = |(number, feed): (usize, Feed)| {
            (feed.reader, ReplayContext::new(&output, number, feed.transforms))
        };
        let (more_readers, more_contexts): (Vec<_>, Vec<_>) =
            (1..).zip(more_feeds).map(of_more).unzip();
        let mut reading = Reading::new(feed.reader, &context, &options.stop, true);
        let others = more_readers.into_iter().zip(&more_contexts);
        let others = others.map(|(reader, of)| Reading::new(reader, of, &options.stop, false));
        let mut others: Vec<Reading<'_>> = others.collect();
        let mut totals = None;
        match options.rate {
            Rate::Max => {
                let uploads = start_uploads(&reading.reader, &channels, mapped_bytes, num_readers);
                let num = self.frames_in_flight;
                let (first, others) = (&mut reading, &mut others[..]);
                let uploads = uploads.as_ref();
                threads::process(first, others, &mut channels, &thread_of, uploads, num)?;
                totals = uploads.map(MappedUploads::totals);
            }
            Rate::Factor(factor) => paced::process(&mut reading, &mut channels, factor)?,
        }
        reading.note_others(damage);
        reading.note_transforms();
        for mut other in others {
            other.note_transforms();
            reading.note_others(other.damage);
        }
        let Reading { reader, damage, .. } = reading;
        // Readers that were stopped have read different numbers.
        let more = more_contexts.iter().map(ReplayContext::num_messages_read);
        let mut read = ReadSummary {
            num_messages: more.fold(context.num_messages_read(), u64::max),
            num_lost: None,
            damage: damage.iter().map(Error::to_string).collect(),
            interrupted: options.stop.load(Ordering::Relaxed),
        };
        let mut contexts = [&context].into_iter().chain(&more_contexts);
        if !read.interrupted && !contexts.any(ReplayContext::has_all_frames) {
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

/// Allocates what the wanted number of frames in flight needs, or what pays for the recording, and
/// returns the number.
fn allow_in_flight(
    channels: &mut [ReplayChannel],
    reader: &BagReader,
    wanted: Option<usize>,
) -> usize {
    let topics = if reader.num_messages().is_some() { reader.topics() } else { &[] };
    let cameras = || channels.iter().filter_map(|channel| channel.gpu_camera(topics));
    let num = wanted.unwrap_or_else(|| {
        let num = frames_in_flight::choose(&cameras().collect::<Vec<_>>());
        if num > FRAMES_PER_INSTANCE {
            let instances = num.div_ceil(FRAMES_PER_INSTANCE);
            tracing::info!(
                "up to {num} frames of each camera in flight, with up to {instances} instances of its network"
            );
        }
        num
    });
    for channel in channels {
        channel.max_in_flight(num);
    }
    num
}

/// Starts to register the mapped files of a recording for channels that upload from them.
fn start_uploads(
    reader: &BagReader,
    channels: &[ReplayChannel],
    limit: usize,
    num_readers: usize,
) -> Option<MappedUploads> {
    let device = channels.iter().find_map(ReplayChannel::uploads_in_place)?;
    // Registered pages cannot be swapped out.
    let memory = available_bytes().and_then(|bytes| usize::try_from(bytes / 8).ok());
    let limit = memory.map_or(limit, |most| limit.min(most));
    let files = reader.mapped_files().into_iter();
    let files = files.map(|file| Arc::new(file) as FileBytes).collect();
    MappedUploads::start(device, files, limit, num_readers)
}

/// Opens the transforms of a recording, with those of the channels' files, for frames from
/// `start` on.
///
/// # Errors
/// Returns the errors of [`TransformFeed`].
fn open_transforms(
    bag: &Path,
    read: &ReadOptions,
    channels: &[ReplayChannel],
    start: Option<Stamp>,
) -> Result<TransformFeed> {
    let motions = motions_of(channels.iter().map(ReplayChannel::config));
    let mut feed = TransformFeed::open(bag, read, &motions)?;
    let kinds = channels.iter().map(|channel| &channel.config().kind);
    kinds.filter_map(ChannelKind::transforms_path).try_for_each(|path| feed.add_file(path))?;
    if let Some(start) = start {
        feed.skip_to(bag, read, start)?;
    }
    Ok(feed)
}

/// Opens channels whose reference input the recording holds.
///
/// # Errors
/// Returns the errors of opening a channel.
fn open_channels(
    mut chosen: Vec<ChannelConfig>,
    topics: &[TopicInfo],
    options: &ReplayOptions,
) -> Result<Vec<ReplayChannel>> {
    let _gpus = place_on_gpus(&mut chosen);
    let open = |(index, channel)| {
        ReplayChannel::open(index, channel, topics, Arc::clone(&options.factory))
    };
    chosen.iter().enumerate().map(open).collect()
}
