//! `det_post eval`: detections against truth.

use std::path::{Path, PathBuf};

use super::interrupt::Interrupt;
use super::{ExitStatus, stdout};
use det_post_eval::recordings::{
    Classes, Drive, Evaluation, Filters, Sides, Terms, TopicPair, parse_pair, read_drives,
};
use det_post_ros::output_folder::{OutputFolder, Replaces, check_file, write_file};
use det_post_types::{Error, ErrorKind, Result};

/// Arguments of `det_post eval`.
#[derive(Debug, clap::Args)]
pub(super) struct EvalArguments {
    /// detections.jsonl of a replay, a folder that holds it, or a recording of detections; of
    /// several drives, which are measured as one, one each.
    #[arg(long, value_name = "BAG_OR_JSONL", num_args = 1.., required_unless_present = "drives")]
    detections: Vec<PathBuf>,
    /// A recording with topics of truth, as det_post simulate writes it; one for each of the
    /// detections, in their order.
    #[arg(long, value_name = "BAG", num_args = 1.., required_unless_present = "drives")]
    truth: Vec<PathBuf>,
    /// A list of drives in place of --detections and --truth: a JSON object a line with
    /// `detections` and `truth`, paths relative to the list.
    #[arg(long, value_name = "JSONL", conflicts_with_all = ["detections", "truth"])]
    drives: Option<PathBuf>,
    /// Writes every figure to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes tables, curves and the ten worst frames of every sensor as a page for browsers.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Folder for precision-recall curves and calibration plots.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder for boxes, masks and keypoints in images as files of COCO: a truth and a list of detections per camera.
    #[arg(long, value_name = "DIR")]
    coco: Option<PathBuf>,
    /// Says which topic of truth a topic of detections belongs to; else the frame of reference does.
    #[arg(long = "pair", value_name = "DETECTIONS=TRUTH", value_parser = parse_pair)]
    pairs: Vec<TopicPair>,
    /// Range from the sensor below which objects count, in metres.
    #[arg(long, value_name = "M", default_value_t = Filters::default().max_range_m, value_parser = parse_range)]
    max_range: f64,
    /// Points that an object in space must have to count.
    #[arg(long, value_name = "N", default_value_t = Filters::default().min_points)]
    min_points: u32,
    /// Pixels that an object around a rig of cameras must have in one image to count.
    #[arg(long, value_name = "N", default_value_t = Filters::default().min_pixels)]
    min_pixels: u32,
    /// Height that an object in an image must have to count, in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = Filters::default().min_height, value_parser = parse_height)]
    min_height: f64,
    /// Part of an object in an image, or around a rig of cameras, that must be seen for it to
    /// count.
    #[arg(long, value_name = "PART", default_value_t = Filters::default().min_visibility, value_parser = parse_part)]
    min_visibility: f64,
    /// Counts the objects of frames without detections as missed.
    #[arg(long)]
    count_missing: bool,
}

fn parse_range(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(range) if range > 0.0 && range <= 1000.0 => Ok(range),
        _ => Err("a range is a number above 0 and up to 1000".into()),
    }
}

fn parse_height(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(height) if (0.0..f64::INFINITY).contains(&height) => Ok(height),
        _ => Err("a height is a number of pixels from 0".into()),
    }
}

fn parse_part(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err("a part is a number from 0 to 1".into()),
    }
}

/// The drives that the command line names.
fn drives(arguments: &EvalArguments) -> Result<Vec<Drive>> {
    let EvalArguments { detections, truth, drives, .. } = arguments;
    if let Some(list) = drives {
        return read_drives(list);
    }
    if detections.len() != truth.len() {
        let message = format!(
            "{} --detections do not match {} --truth: give one each",
            detections.len(),
            truth.len()
        );
        return Err(Error::new(ErrorKind::Usage, "eval", message));
    }
    let sides = detections.iter().cloned().zip(truth.iter().cloned());
    let drive = |(detections, truth)| Drive { detections, truth, ..Drive::default() };
    Ok(sides.map(drive).collect())
}

/// Refuses files that could not be written, before a long run; one file for two contents; and
/// files that are read.
fn check_outputs(arguments: &EvalArguments, drives: &[Drive]) -> Result<()> {
    let refused = |message| Err(Error::new(ErrorKind::Usage, "eval", message));
    // The file itself may not be there yet.
    let full = |path: &Path| {
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        path.canonicalize().ok().or_else(|| Some(folder.join(path.file_name()?)))
    };
    let sides = drives.iter().flat_map(|drive| [&drive.detections, &drive.truth]);
    let read: Vec<&PathBuf> = sides.chain(&arguments.drives).collect();
    let outputs = [("--json", &arguments.json), ("--html", &arguments.html)];
    for (option, path) in outputs {
        let Some(path) = path else { continue };
        check_file(path)?;
        let Some(output) = full(path) else { continue };
        // A folder holds the files that are read.
        let is_read = |input: &&&PathBuf| {
            full(input).is_some_and(|input| output == input || is_of_recording(&input, &output))
        };
        if let Some(input) = read.iter().find(is_read) {
            return refused(format!(
                "{option} {}: it is read as part of {}; choose another name",
                path.display(),
                input.display()
            ));
        }
    }
    match (&arguments.json, &arguments.html) {
        (Some(json), Some(html)) if is_file(json) && full(json) == full(html) => {
            refused(format!("--json and --html name the same file, {}", json.display()))
        }
        _ => Ok(()),
    }
}

/// Whether a path is none of a device or a pipe.
fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |about| about.is_file())
}

/// Whether an output has the name of a file that is read of a folder: a recording's, or the
/// detections of a replay.
fn is_of_recording(folder: &Path, output: &Path) -> bool {
    const READ: [&str; 3] = ["jsonl", "mcap", "db3"];
    let is_read = output.extension().is_some_and(|of| READ.iter().any(|read| of == *read));
    // The report of a replay is read for the page.
    const NAMES: [&str; 2] = ["metadata.yaml", "report.json"];
    let is_named = output.file_name().is_some_and(|name| NAMES.iter().any(|read| name == *read));
    (is_read || is_named) && output.parent() == Some(folder)
}

/// Evaluates, prints the tables and writes the requested files.
pub(super) fn eval(arguments: &EvalArguments) -> Result<ExitStatus> {
    let interrupt = Interrupt::listen()?;
    let listed = drives(arguments)?;
    check_outputs(arguments, &listed)?;
    let mut classes = Classes::default();
    let read = |Drive { detections, truth, listed }: &Drive| {
        let sides = Sides::read(detections, truth, &mut classes, &interrupt.flag());
        sides.map_err(|error| if listed.is_empty() { error } else { error.within(listed) })
    };
    let drives: Vec<Sides> = listed.iter().map(read).collect::<Result<_>>()?;
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
                min_pixels: arguments.min_pixels,
                min_height: arguments.min_height,
                min_visibility: arguments.min_visibility,
            },
            count_missing: arguments.count_missing,
            keeps_coco: arguments.coco.is_some(),
            keeps_worst: arguments.html.is_some(),
        },
    )?;
    if interrupt.is_set() {
        return Ok(ExitStatus::Interrupted);
    }
    if let Some(path) = &arguments.json {
        write_file(path, &evaluation.to_json()?)?;
    }
    if let Some(path) = &arguments.html {
        let page = evaluation.to_html(&interrupt.flag())?;
        if interrupt.is_set() {
            return Ok(ExitStatus::Interrupted);
        }
        write_file(path, &page)?;
    }
    if let Some(folder) = &arguments.out {
        let mut folder = OutputFolder::open(folder, Replaces::These(&[]))?;
        evaluation.draw(&mut folder, "")?;
        folder.finish()?;
    }
    if let Some(folder) = &arguments.coco {
        let mut folder = OutputFolder::open(folder, Replaces::These(&[]))?;
        evaluation.write_coco(&mut folder)?;
        folder.finish()?;
    }
    stdout::print(&evaluation.to_table())?;
    let EvalArguments { json, html, out, coco, .. } = arguments;
    for path in [json, html, out, coco].into_iter().flatten() {
        tracing::info!("wrote {}", path.display());
    }
    Ok(if evaluation.is_damaged() { ExitStatus::Damaged } else { ExitStatus::Done })
}
