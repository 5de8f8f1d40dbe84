//! A recording in, detections out.

mod channel;
mod input;
mod outputs;
mod paced;
mod report;
mod transforms;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};

use crate::config::{Config, InputConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::output_folder::OutputFolder;
use crate::runtime::Factory;
use crate::transport::bag::{BagMessage, BagReader, ReadOptions, TopicInfo};
use channel::{Around, ReplayChannel};
use outputs::Outputs;
pub(crate) use outputs::REPLACES;
use report::ReadSummary;
pub(crate) use report::Report;
use transforms::TransformFeed;

/// Pace of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rate {
    /// As fast as it goes; every message is waited for.
    Max,
    /// A factor of the recorded pace.
    Factor(f64),
}

/// What is replayed, through what, to where.
pub(crate) struct ReplayRequest<'a> {
    pub(crate) bag: &'a Path,
    pub(crate) config: &'a Config,
    pub(crate) rate: Rate,
    pub(crate) num_pictures: u64,
    pub(crate) factory: Factory,
}

/// Replays a whole recording at full speed through channels whose detectors
/// `factory` makes, into the folder `out`.
///
/// # Errors
/// Those of `det_post replay`.
pub fn replay_with(config: &Config, bag: &Path, out: &Path, factory: Factory) -> Result<()> {
    let request = ReplayRequest { bag, config, rate: Rate::Max, num_pictures: 0, factory };
    let open = || OutputFolder::open(out, REPLACES).map(Some);
    let (_, folder) = run(&request, open, &Arc::default())?;
    folder.map_or(Ok(()), OutputFolder::finish)
}

/// Replays a recording to its end or until it is interrupted. The folder for
/// its outputs is opened once nothing else can refuse the replay; it is given
/// back with all of them in it, to be finished.
///
/// # Errors
/// `Config` when nothing can be done with the recording, `Model`, and `Io` or
/// `DamagedBag` when it cannot be opened; damage inside it is in the report.
pub(crate) fn run(
    request: &ReplayRequest<'_>,
    open_folder: impl FnOnce() -> Result<Option<OutputFolder>>,
    stop: &Arc<AtomicBool>,
) -> Result<(Report, Option<OutputFolder>)> {
    let options = ReadOptions { stop: Arc::clone(stop), ..ReadOptions::default() };
    let mut reader = BagReader::open_with(request.bag, &options)?;
    let mut channels = open_channels(request.config, reader.topics(), &request.factory)?;
    let mut outputs = Outputs::create(open_folder()?, request.num_pictures)?;
    for channel in &mut channels {
        channel.announce(&mut outputs)?;
    }
    let densifies = channels.iter().any(ReplayChannel::wants_transforms);
    let transforms = densifies.then(|| TransformFeed::open(request.bag, &options)).transpose()?;
    let around = Around { outputs: Mutex::new(outputs), transforms: transforms.map(Mutex::new) };
    let topics: Vec<&str> = channels.iter().flat_map(ReplayChannel::topics).collect();
    reader.select(&topics);

    let progress = progress_bar(&reader);
    let mut reading = Reading { reader, progress, stop, read: ReadSummary::default() };
    match request.rate {
        Rate::Max => serve_all(&mut reading, &mut channels, &around)?,
        Rate::Factor(factor) => paced::serve(&mut reading, &mut channels, &around, factor)?,
    }
    let Reading { reader, progress, mut read, .. } = reading;
    progress.finish_and_clear();
    read.interrupted = stop.load(Ordering::Relaxed);
    if !read.damage.is_empty() && !read.interrupted {
        read.num_lost = reader.num_messages().map(|n| n.saturating_sub(read.num_messages));
    }
    let mut report = Report::new(request.bag, read);
    channels.iter().for_each(|channel| channel.add_to(&mut report));
    let outputs = around.outputs.into_inner().unwrap_or_else(PoisonError::into_inner);
    let folder = outputs.close(&report)?;
    Ok((report, folder))
}

/// Serves every message, one after the other.
fn serve_all(
    reading: &mut Reading<'_>,
    channels: &mut [ReplayChannel],
    around: &Around,
) -> Result<()> {
    let progress = reading.progress.clone();
    reading.each(&mut |message| {
        around.advance_to(message.log_time);
        for channel in channels.iter_mut().filter(|channel| channel.concerns(message)) {
            progress.suspend(|| channel.process(message, around))?;
        }
        Ok(())
    })?;
    channels.iter_mut().try_for_each(|channel| channel.finish(around))
}

/// A recording that is being read.
pub(crate) struct Reading<'a> {
    reader: BagReader,
    progress: ProgressBar,
    stop: &'a AtomicBool,
    read: ReadSummary,
}

impl Reading<'_> {
    /// Whether a request to stop has come.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Hands over message by message, until the end or until the user stops.
    /// Damage is noted and read past.
    ///
    /// # Errors
    /// The first of `work`.
    pub(crate) fn each(
        &mut self,
        work: &mut dyn FnMut(&BagMessage<'_>) -> Result<()>,
    ) -> Result<()> {
        while !self.is_stopped() {
            match self.reader.next_message() {
                Ok(Some(message)) => {
                    self.read.num_messages += 1;
                    work(&message)?;
                    self.progress.inc(1);
                }
                Ok(None) => break,
                Err(error) => {
                    self.progress.suspend(|| tracing::error!("{error}"));
                    self.read.damage.push(error.to_string());
                }
            }
        }
        Ok(())
    }
}

/// One channel per configured one whose reference input the recording holds. A
/// topic that the recording does not have is named in the log; when no channel
/// can run, nothing can be done.
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
            channels.push(ReplayChannel::open(channel, topics, Arc::clone(factory))?);
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

/// A bar on the terminal; nothing when stderr is not one.
fn progress_bar(reader: &BagReader) -> ProgressBar {
    let template = "{bar:40} {pos}/{len} messages, {per_sec}, {eta} left";
    match (reader.num_messages(), ProgressStyle::with_template(template)) {
        (Some(num_messages), Ok(style)) => ProgressBar::new(num_messages).with_style(style),
        _ => ProgressBar::new_spinner(),
    }
}
