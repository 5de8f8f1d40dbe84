//! `det_post replay`: a recorded drive in, detections out.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::Outcome;
use super::channel::ReplayChannel;
use super::interrupt::Interrupt;
use super::outputs::Outputs;
use super::report::{ReadSummary, Report};
use super::transforms::TransformFeed;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::bag::{BagReader, TopicInfo};
use crate::types::{DeviceChoice, Stamp};

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
    /// Where the channels run: auto, cpu or cuda:N (overrides the parameter `device`).
    #[arg(long)]
    device: Option<String>,
    /// How fast to replay: max, or a factor of the recorded pace such as 1.0.
    #[arg(long, default_value = "max", value_parser = parse_rate)]
    rate: Rate,
    /// Draws the first N frames of every channel into pictures/ (needs --out).
    #[arg(long, value_name = "N", default_value_t = 0, requires = "out")]
    pictures: u64,
}

/// Pace of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rate {
    Max,
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

/// Replays a recording and finishes its outputs, whatever ends it.
#[expect(clippy::print_stdout, reason = "the table is the result of the command")]
pub(super) fn replay(arguments: &ReplayArguments) -> Result<Outcome> {
    let mut overrides = arguments.overrides.clone();
    overrides.extend(arguments.device.iter().map(|device| format!("device:={device}")));
    let config = Config::load(&arguments.config, &overrides)?;
    check_device(config.device)?;

    let mut reader = BagReader::open(&arguments.bag)?;
    let mut channels = open_channels(&config, reader.topics())?;
    let mut outputs = Outputs::create(arguments.out.as_deref(), arguments.pictures)?;
    for channel in &mut channels {
        channel.announce(&mut outputs)?;
    }
    let densifies = channels.iter().any(ReplayChannel::wants_transforms);
    let mut transforms = densifies.then(|| TransformFeed::open(&arguments.bag)).transpose()?;
    let inputs: Vec<&str> = channels.iter().map(ReplayChannel::input).collect();
    reader.select(&inputs);

    let interrupt = Interrupt::listen()?;
    let progress = progress_bar(&reader);
    let mut pace = Pace::new(arguments.rate);
    let mut read = ReadSummary::default();
    while !interrupt.is_set() {
        let message = match reader.next_message() {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(error) => {
                progress.suspend(|| tracing::error!("{error}"));
                read.damage.push(error.to_string());
                continue;
            }
        };
        read.num_messages += 1;
        pace.wait_for(message.log_time, &interrupt);
        if let Some(transforms) = &mut transforms {
            transforms.advance_to(message.log_time);
        }
        for channel in channels.iter_mut().filter(|channel| channel.takes(message.topic)) {
            progress.suspend(|| channel.process(&message, transforms.as_ref(), &mut outputs))?;
        }
        progress.inc(1);
    }
    progress.finish_and_clear();

    read.interrupted = interrupt.is_set();
    if !read.damage.is_empty() && !read.interrupted {
        read.num_lost = reader.num_messages().map(|n| n.saturating_sub(read.num_messages));
    }
    let mut report = Report::new(&arguments.bag, read);
    channels.iter().for_each(|channel| channel.add_to(&mut report));
    outputs.finish(&report)?;
    print!("{}", report.to_table());
    Ok(if report.is_damaged() { Outcome::DoneWithLoss } else { Outcome::Done })
}

/// Says where the frames run. The pipelines have no CUDA side yet, and nothing
/// falls back in secret: a GPU that is asked for is refused.
fn check_device(choice: DeviceChoice) -> Result<()> {
    match choice {
        DeviceChoice::Cpu | DeviceChoice::Auto => {
            tracing::info!("device {choice}: cpu, the pipelines have no CUDA side yet");
            Ok(())
        }
        DeviceChoice::Cuda(_) => Err(Error::new(
            ErrorKind::Device,
            "replay",
            format!("{choice} is asked for, the pipelines have no CUDA side yet; use cpu or auto"),
        )),
    }
}

/// One channel per configured one whose input the recording holds. A channel
/// without its input is named in the log; when none has its input, nothing can
/// be done.
fn open_channels(config: &Config, topics: &[TopicInfo]) -> Result<Vec<ReplayChannel>> {
    let mut channels = Vec::new();
    for channel in &config.channels {
        match topics.iter().position(|topic| topic.name == channel.input) {
            Some(topic) => {
                channels.push(ReplayChannel::open(channel, topic, &topics[topic].type_name)?)
            }
            None => tracing::warn!(
                "channel {}: the recording has no topic {}",
                channel.name,
                channel.input
            ),
        }
    }
    if channels.is_empty() {
        let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
        let inputs: Vec<&str> = config.channels.iter().map(|c| c.input.as_str()).collect();
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

/// Holds messages back so that they come at the recorded pace.
struct Pace {
    rate: Rate,
    start: Option<(Instant, Stamp)>,
}

impl Pace {
    /// The longest sleep between two looks at the interrupt.
    const NAP: Duration = Duration::from_millis(50);

    fn new(rate: Rate) -> Self {
        Self { rate, start: None }
    }

    fn wait_for(&mut self, log_time: Stamp, interrupt: &Interrupt) {
        let Rate::Factor(factor) = self.rate else { return };
        let (start, first) = *self.start.get_or_insert_with(|| (Instant::now(), log_time));
        let due_s = log_time.seconds_since(first) / factor;
        while !interrupt.is_set() {
            let ahead_s = due_s - start.elapsed().as_secs_f64();
            if ahead_s <= 0.0 {
                return;
            }
            std::thread::sleep(Duration::from_secs_f64(ahead_s).min(Self::NAP));
        }
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

    #[test]
    fn the_pace_follows_the_recording() {
        let mut pace = Pace::new(Rate::Factor(2.0));
        let interrupt = Interrupt::default();
        let start = Instant::now();
        for nanos in [5, 40_000_005, 20_000_000] {
            pace.wait_for(Stamp::from_nanos(nanos), &interrupt);
        }
        assert!(start.elapsed() >= Duration::from_millis(20), "{:?}", start.elapsed());
    }
}
