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
use self::pair::{TopicPair, describe, pair, parse_pair, pool};
pub(super) use self::streams::{Classes, Stream};
use self::truth::Truth;
use super::interrupt::Interrupt;
use super::{ExitStatus, stdout};
use crate::error::{Error, ErrorKind, Result};
use crate::output_folder::{OutputFolder, Replaces, write_file};

/// Arguments of `det_post eval`.
#[derive(Debug, clap::Args)]
pub(super) struct EvalArguments {
    /// detections.jsonl of a replay, a folder that holds it, or a recording of detections; of
    /// several drives, which are measured as one, one each.
    #[arg(long, value_name = "BAG_OR_JSONL", num_args = 1.., required = true)]
    detections: Vec<PathBuf>,
    /// A recording with topics of truth, as det_post simulate writes it; one for each of the
    /// detections, in their order.
    #[arg(long, value_name = "BAG", num_args = 1.., required = true)]
    truth: Vec<PathBuf>,
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

/// Detections and truth of one drive, read into memory.
pub(super) struct Sides {
    names: DriveNames,
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

/// Where the two sides of a drive were read from.
#[derive(Clone, Serialize)]
struct DriveNames {
    detections: String,
    truth: String,
}

/// The figures of all sensors; also the file that `--json` names.
#[derive(Serialize)]
pub(super) struct Evaluation {
    drives: Vec<DriveNames>,
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
pub(super) fn eval(arguments: &EvalArguments) -> Result<ExitStatus> {
    let interrupt = Interrupt::listen()?;
    let EvalArguments { detections, truth, .. } = arguments;
    if detections.len() != truth.len() {
        let message =
            format!("{} --detections for {} --truth: one each", detections.len(), truth.len());
        return Err(Error::new(ErrorKind::Argument, "eval", message));
    }
    let mut classes = Classes::default();
    let both = detections.iter().zip(truth);
    let drives: Vec<Sides> = both
        .map(|(found, truth)| Sides::read(found, truth, &mut classes, &interrupt))
        .collect::<Result<_>>()?;
    if interrupt.is_set() {
        return Ok(ExitStatus::Interrupted);
    }
    let evaluation = Evaluation::of(
        &drives,
        &classes,
        &Terms {
            pairs: &arguments.pairs,
            filters: Filters {
                max_range_m: arguments.max_range,
                min_points: arguments.min_points,
                min_height: arguments.min_height,
                min_visibility: arguments.min_visibility,
            },
            count_missing: arguments.count_missing,
        },
    )?;
    if interrupt.is_set() {
        return Ok(ExitStatus::Interrupted);
    }
    if let Some(path) = &arguments.json {
        write_file(path, &evaluation.to_json()?)?;
    }
    if let Some(folder) = &arguments.out {
        let mut folder = OutputFolder::open(folder, Replaces::These(&[]))?;
        evaluation.draw(&mut folder, "")?;
        folder.finish()?;
    }
    stdout::print(&evaluation.to_table())?;
    Ok(match evaluation.damage.is_empty() {
        true => ExitStatus::Done,
        false => ExitStatus::Damaged,
    })
}

impl Sides {
    /// Reads both sides, up to where the user stops it.
    ///
    /// # Errors
    /// `Io`, `Message` or `DamagedBag` when one cannot be read, `Argument` when
    /// there is no truth.
    pub(super) fn read(
        detections: &Path,
        truth: &Path,
        classes: &mut Classes,
        interrupt: &Interrupt,
    ) -> Result<Self> {
        let [found_in, truth_in] = [detections, truth].map(|path| path.display().to_string());
        let truth = truth::read(truth, classes, interrupt)?;
        let detections = detections::read(detections, classes, interrupt)?;
        Ok(Self { names: DriveNames { detections: found_in, truth: truth_in }, detections, truth })
    }

    /// Says where the detections will be once they are complete.
    pub(super) fn name_detections(&mut self, path: &Path) {
        self.names.detections = path.display().to_string();
    }

    fn nothing_in_common(&self) -> Error {
        let Self { names, detections, truth } = self;
        let [found, there] = [
            [describe(&detections.lidars), describe(&detections.cameras)].join(" "),
            [describe(&truth.lidars), describe(&truth.cameras)].join(" "),
        ];
        let message = format!(
            "no detections of {} ({found}) belong to truth of {} ({there}); see --pair",
            names.detections, names.truth
        );
        Error::new(ErrorKind::Argument, "eval", message)
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
    /// Compares the sides of each drive. Topics of the same names are one
    /// sensor, whose frames of all drives are measured together.
    ///
    /// # Errors
    /// `Argument` when the sides of a drive have nothing in common.
    pub(super) fn of(drives: &[Sides], classes: &Classes, terms: &Terms<'_>) -> Result<Self> {
        let Terms { pairs, filters, count_missing } = terms;
        let (mut lidars, mut cameras) = (Vec::new(), Vec::new());
        for drive in drives {
            let Sides { detections, truth, .. } = drive;
            check_pairs(pairs, detections, truth)?;
            let of_lidars = pair(&detections.lidars, &truth.lidars, pairs, *count_missing)?;
            let of_cameras = pair(&detections.cameras, &truth.cameras, pairs, *count_missing)?;
            if of_lidars.is_empty() && of_cameras.is_empty() {
                return Err(drive.nothing_in_common());
            }
            pool(&mut lidars, of_lidars);
            pool(&mut cameras, of_cameras);
        }
        let names = classes.by_name();
        let lidars = lidars.iter().map(|paired| SensorFigures::of_lidar(paired, &names, filters));
        let cameras =
            cameras.iter().map(|paired| SensorFigures::of_camera(paired, &names, filters));
        let left_out = |of: fn(&Sides) -> usize| drives.iter().map(of).sum();
        let damage = drives.iter().flat_map(|d| d.truth.damage.iter().chain(&d.detections.damage));
        Ok(Self {
            drives: drives.iter().map(|drive| drive.names.clone()).collect(),
            filters: *filters,
            sensors: lidars.chain(cameras).collect(),
            num_repeated_frames: left_out(|d| d.detections.num_repeated + d.truth.num_repeated),
            num_incomplete_frames: left_out(|d| d.truth.num_incomplete),
            damage: damage.cloned().collect(),
        })
    }

    /// Every figure as JSON.
    ///
    /// # Errors
    /// `Io` when a figure has no form in JSON.
    pub(super) fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n").map_err(|e| {
            Error::new(ErrorKind::Io, "eval", "the figures have no form in JSON").with_source(e)
        })
    }
}
