//! `det_post eval`: detections against truth.

mod detections;
mod figures;
mod pair;
mod plots;
mod streams;
mod table;
mod truth;

use std::path::{Path, PathBuf};

use serde::Serialize;

use self::detections::Detections;
pub(super) use self::figures::Filters;
use self::figures::SensorFigures;
use self::pair::{TopicPair, describe, pair, parse_pair};
use self::streams::Classes;
pub(super) use self::streams::Stream;
use self::truth::Truth;
use super::Outcome;
use crate::error::{Error, ErrorKind, Result};

/// Arguments of `det_post eval`.
#[derive(Debug, clap::Args)]
pub(super) struct EvalArguments {
    /// detections.jsonl of a replay, a folder that holds it, or a recording of detections.
    #[arg(long, value_name = "BAG_OR_JSONL")]
    detections: PathBuf,
    /// A recording with topics of truth, as det_post simulate writes it.
    #[arg(long, value_name = "BAG")]
    truth: PathBuf,
    /// Writes every figure to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder for precision-recall curves and calibration plots.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Says which topic of truth a topic of detections belongs to; else the frame of reference does.
    #[arg(long = "pair", value_name = "DETECTIONS=TRUTH", value_parser = parse_pair)]
    pairs: Vec<TopicPair>,
    /// Range from the sensor below which objects count, in metres.
    #[arg(long, value_name = "M", default_value_t = Filters::default().max_range_m, value_parser = parse_range)]
    max_range: f64,
    /// Points that an object in space must have to count.
    #[arg(long, value_name = "N", default_value_t = Filters::default().min_points)]
    min_points: u32,
    /// Height that an object in a picture must have to count, in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = Filters::default().min_height)]
    min_height: f64,
    /// Part of an object in a picture that must be seen for it to count.
    #[arg(long, value_name = "PART", default_value_t = Filters::default().min_visibility)]
    min_visibility: f64,
    /// Counts the objects of frames without detections as missed.
    #[arg(long)]
    count_missing: bool,
}

/// Detections and truth, read into memory.
pub(super) struct Sides {
    names: [String; 2],
    pub(super) classes: Classes,
    pub(super) detections: Detections,
    pub(super) truth: Truth,
}

/// How detections and truth are compared.
#[derive(Default)]
pub(super) struct Terms<'a> {
    pub(super) pairs: &'a [TopicPair],
    pub(super) filters: Filters,
    pub(super) count_missing: bool,
}

/// The figures of all sensors; also the file that `--json` names.
#[derive(Serialize)]
pub(super) struct Evaluation {
    detections: String,
    truth: String,
    filters: Filters,
    sensors: Vec<SensorFigures>,
    num_repeated_frames: usize,
    num_incomplete_frames: usize,
    /// What is wrong with the recordings.
    damage: Vec<String>,
}

fn parse_range(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(range) if range > 0.0 && range <= 1000.0 => Ok(range),
        _ => Err("a range is a number above 0 and up to 1000".into()),
    }
}

/// Evaluates and writes what was asked for.
#[expect(clippy::print_stdout, reason = "the tables are the result of the command")]
pub(super) fn eval(arguments: &EvalArguments) -> Result<Outcome> {
    let sides = Sides::read(&arguments.detections, &arguments.truth)?;
    let evaluation = sides.evaluate(&Terms {
        pairs: &arguments.pairs,
        filters: Filters {
            max_range_m: arguments.max_range,
            min_points: arguments.min_points,
            min_height: arguments.min_height,
            min_visibility: arguments.min_visibility,
        },
        count_missing: arguments.count_missing,
    })?;
    if let Some(path) = &arguments.json {
        evaluation.write_json(path)?;
    }
    if let Some(folder) = &arguments.out {
        evaluation.draw(folder)?;
    }
    print!("{}", evaluation.to_table());
    Ok(match evaluation.damage.is_empty() {
        true => Outcome::Done,
        false => Outcome::DoneWithLoss,
    })
}

impl Sides {
    /// Reads both sides.
    ///
    /// # Errors
    /// `Io`, `Message` or `DamagedBag` when one cannot be read, `Argument` when
    /// there is no truth.
    pub(super) fn read(detections: &Path, truth: &Path) -> Result<Self> {
        let names = [detections, truth].map(|path| path.display().to_string());
        let mut classes = Classes::default();
        let truth = truth::read(truth, &mut classes)?;
        let detections = detections::read(detections, &mut classes)?;
        Ok(Self { names, classes, detections, truth })
    }

    /// Compares them.
    ///
    /// # Errors
    /// `Argument` when they have nothing in common.
    pub(super) fn evaluate(&self, terms: &Terms<'_>) -> Result<Evaluation> {
        let Self { names: [found_in, truth_in], classes, detections, truth } = self;
        let Terms { pairs, filters, count_missing } = terms;
        check_pairs(pairs, detections, truth)?;
        let lidars = pair(&detections.lidars, &truth.lidars, pairs, *count_missing)?;
        let cameras = pair(&detections.cameras, &truth.cameras, pairs, *count_missing)?;
        if lidars.is_empty() && cameras.is_empty() {
            let [found, there] = [
                [describe(&detections.lidars), describe(&detections.cameras)].join(" "),
                [describe(&truth.lidars), describe(&truth.cameras)].join(" "),
            ];
            let message = format!("no detections ({found}) belong to truth ({there}); see --pair");
            return Err(Error::new(ErrorKind::Argument, "eval", message));
        }
        let names = classes.by_name();
        let lidars = lidars.iter().map(|paired| SensorFigures::of_lidar(paired, &names, filters));
        let cameras =
            cameras.iter().map(|paired| SensorFigures::of_camera(paired, &names, filters));
        Ok(Evaluation {
            detections: found_in.clone(),
            truth: truth_in.clone(),
            filters: *filters,
            sensors: lidars.chain(cameras).collect(),
            num_repeated_frames: detections.num_repeated + truth.num_repeated,
            num_incomplete_frames: truth.num_incomplete,
            damage: [&truth.damage[..], &detections.damage].concat(),
        })
    }
}

/// Refuses a pair whose topics are not there or of different sensors.
fn check_pairs(pairs: &[TopicPair], detections: &Detections, truth: &Truth) -> Result<()> {
    fn has<T>(streams: &[Stream<T>], topic: &str) -> bool {
        streams.iter().any(|stream| stream.topic == topic)
    }
    for pair in pairs {
        let of_lidars =
            has(&detections.lidars, &pair.detections) && has(&truth.lidars, &pair.truth);
        let of_cameras =
            has(&detections.cameras, &pair.detections) && has(&truth.cameras, &pair.truth);
        if !of_lidars && !of_cameras {
            let message = format!(
                "--pair {}={}: no such topics of one kind; there are detections {} {} and truth {} {}",
                pair.detections,
                pair.truth,
                describe(&detections.lidars),
                describe(&detections.cameras),
                describe(&truth.lidars),
                describe(&truth.cameras)
            );
            return Err(Error::new(ErrorKind::Argument, "eval", message));
        }
    }
    Ok(())
}

impl Evaluation {
    /// Writes every figure as JSON.
    ///
    /// # Errors
    /// `Io` when the file cannot be written.
    pub(super) fn write_json(&self, path: &Path) -> Result<()> {
        let cannot =
            || Error::new(ErrorKind::Io, "eval", format!("cannot write {}", path.display()));
        let json = serde_json::to_string_pretty(self).map_err(|e| cannot().with_source(e))?;
        std::fs::write(path, json + "\n").map_err(|e| cannot().with_source(e))
    }
}
