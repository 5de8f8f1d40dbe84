//! `det_post replay`: a recorded drive in, detections out.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};

use super::channel::{Around, ReplayChannel};
use super::interrupt::Interrupt;
use super::output_folder::OutputFolder;
use super::outputs::{self, Outputs};
use super::report::{ReadSummary, Report};
use super::transforms::TransformFeed;
use super::{ExitStatus, paced, stdout};
use crate::config::{Config, InputConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::{Factory, open_detector};
use crate::transport::bag::{BagMessage, BagReader, ReadOptions, TopicInfo};
use crate::types::DeviceChoice;

/// Arguments of `det_post replay`.
#[derive(Debug, clap::Args)]
pub(super) struct ReplayArguments {
    /// A rosbag2 directory, an .mcap file or a .db3 file.
    bag: PathBuf,
    /// ROS 2 parameter files; later ones win.
    #[arg(short, long, value_name = "YAML", num_args = 1..)]
    config: Vec<PathBuf>,
    /// Overrides one parameter, as ROS does: -p camera.score_threshold:=0.4
    #[arg(short = 'p', long = "param", value_name = "KEY:=VALUE")]
    overrides: Vec<String>,
    /// Folder for detections.jsonl, detections/ (a recording), report.json and pictures/.
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where all channels run: auto, cpu or cuda:N (overrides every parameter `device`).
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// How fast to replay: max, which serves every message, or a factor of the recorded pace such
    /// as 1.0, at which channels serve the newest and drop what they are too slow for.
    #[arg(long, default_value = "max", value_parser = parse_rate)]
    rate: Rate,
    /// Draws the first N frames of every channel into pictures/ (needs --out).
    #[arg(long, value_name = "N", default_value_t = 0, requires = "out")]
    pictures: u64,
}

/// Pace of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rate {
    /// As fast as it goes; every message is waited for.
    Max,
    /// A factor of the recorded pace.
    Factor(f64),
}

fn parse_rate(text: &str) -> std::result::Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    match text.parse() {
        Ok(factor) if factor > 0.0 && f64::is_finite(factor) => Ok(Rate::Factor(factor)),
        _ => Err("a rate is `max` or a number above 0".into()),
    }
}

/// What is replayed, through what, to where.
pub(super) struct ReplayRequest<'a> {
    pub(super) bag: &'a Path,
    pub(super) config: &'a Config,
    pub(super) rate: Rate,
    pub(super) num_pictures: u64,
    pub(super) factory: Factory,
}

/// Replays as the command line says and prints the report.
pub(super) fn replay(arguments: &ReplayArguments) -> Result<ExitStatus> {
    let interrupt = Interrupt::listen()?;
    let mut config = Config::load(&arguments.config, &arguments.overrides)?;
    if let Some(device) = arguments.device {
        config.channels.iter_mut().for_each(|channel| channel.device = device);
    }

    let request = ReplayRequest {
        bag: &arguments.bag,
        config: &config,
        rate: arguments.rate,
        num_pictures: arguments.pictures,
        factory: Arc::new(open_detector),
    };
    let open = || match &arguments.out {
        Some(out) => OutputFolder::open(out, outputs::REPLACES).map(Some),
        None => Ok(None),
    };
    let (report, folder) = run(&request, open, &interrupt)?;
    let is_interrupted = report.is_interrupted();
    match folder {
        Some(folder) if is_interrupted => folder.keep_partial()?,
        Some(folder) => folder.finish()?,
        None => {}
    }
    stdout::print(&report.to_table())?;
    Ok(match (is_interrupted, report.is_damaged()) {
        (true, _) => ExitStatus::Interrupted,
        (false, true) => ExitStatus::Damaged,
        (false, false) => ExitStatus::Done,
    })
}

/// Replays a whole recording at full speed through channels whose detectors
/// `factory` makes, into the folder `out`.
///
/// # Errors
/// Those of `det_post replay`.
pub fn replay_with(config: &Config, bag: &Path, out: &Path, factory: Factory) -> Result<()> {
    let request = ReplayRequest { bag, config, rate: Rate::Max, num_pictures: 0, factory };
    let open = || OutputFolder::open(out, outputs::REPLACES).map(Some);
    let (_, folder) = run(&request, open, &Interrupt::default())?;
    folder.map_or(Ok(()), OutputFolder::finish)
}

/// Replays a recording to its end or until it is interrupted. The folder for
/// its outputs is opened once nothing else can refuse the replay; it is given
/// back with all of them in it, to be finished.
///
/// # Errors
/// `Config` when nothing can be done with the recording, `Model`, and `Io` or
/// `DamagedBag` when it cannot be opened; damage inside it is in the report.
pub(super) fn run(
    request: &ReplayRequest<'_>,
    open_folder: impl FnOnce() -> Result<Option<OutputFolder>>,
    interrupt: &Interrupt,
) -> Result<(Report, Option<OutputFolder>)> {
    let options = ReadOptions { stop: interrupt.flag(), ..ReadOptions::default() };
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
    let mut reading = Reading { reader, progress, interrupt, read: ReadSummary::default() };
    match request.rate {
        Rate::Max => serve_all(&mut reading, &mut channels, &around)?,
        Rate::Factor(factor) => paced::serve(&mut reading, &mut channels, &around, factor)?,
    }
    let Reading { reader, progress, mut read, .. } = reading;
    progress.finish_and_clear();
    read.interrupted = interrupt.is_set();
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
pub(super) struct Reading<'a> {
    reader: BagReader,
    progress: ProgressBar,
    pub(super) interrupt: &'a Interrupt,
    read: ReadSummary,
}

impl Reading<'_> {
    /// Hands over message by message, until the end or until the user stops.
    /// Damage is noted and read past.
    ///
    /// # Errors
    /// The first of `work`.
    pub(super) fn each(
        &mut self,
        work: &mut dyn FnMut(&BagMessage<'_>) -> Result<()>,
    ) -> Result<()> {
        while !self.interrupt.is_set() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_max_or_above_zero() {
        assert_eq!(parse_rate("max"), Ok(Rate::Max));
        assert_eq!(parse_rate("0.5"), Ok(Rate::Factor(0.5)));
        for wrong in ["0", "-1", "nan", "inf", "fast", ""] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }
}
