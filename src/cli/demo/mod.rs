//! `det_post demo`: simulate, replay, eval, one after the other.

mod networks;
mod scenes;
mod surround;

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::interrupt::Interrupt;
use super::simulate::SimulateArguments;
use super::{ExitStatus, replay, simulate, stdout, tally};
use crate::config::{ChannelKind, Config};
use crate::replay::{Replay, ReplayFiles, ReplayOptions};
use det_post_eval::recordings::{Classes, Evaluation, Sides, Terms};
use det_post_ops::device::Device;
use det_post_ros::output_folder::{OutputFolder, Replaces};
use det_post_types::{DeviceChoice, Error, ErrorKind, Result};
use scenes::Scenes;
use surround::SurroundScene;

/// The results of a demo, beside its drive; those of an earlier one are
/// replaced.
const REPLACES: Replaces = Replaces::These(&[
    "demo.param.yaml",
    "detections.jsonl",
    "detections/",
    "eval.json",
    "figures/",
    "images/",
    "report.html",
    "report.json",
]);

/// Arguments of `det_post demo`.
#[derive(Debug, clap::Args)]
pub(super) struct DemoArguments {
    /// Folder for everything the demo makes.
    #[arg(short, long, value_name = "DIR", default_value = "demo")]
    out: PathBuf,
    /// Length of the drive in seconds.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Which drive; the networks were never trained on seeds from 9000 on.
    #[arg(long, default_value_t = 9000)]
    seed: u64,
    /// Run the voxel CenterPoint on the LiDAR, in the place of the pillar network.
    #[arg(long)]
    voxel: bool,
    /// Run the surround network on six cameras, in the place of one camera and a LiDAR.
    #[arg(long, conflicts_with = "voxel")]
    surround: bool,
    /// Run the camera network that also gives masks of instances, and evaluate and draw them.
    #[arg(long, conflicts_with_all = ["voxel", "surround"])]
    masks: bool,
    /// Folder of camera.onnx (with --masks camera_seg.onnx) and of lidar_encoder.onnx and lidar_head.onnx (with --voxel
    /// voxel_encoder.scn.onnx and voxel_dense.onnx; with --surround surround_backbone.onnx and
    /// surround_decoder.safetensors); else those that came with the program.
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
    /// Device of the networks: auto, cpu or cuda:N.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,
}

/// Simulates a drive, detects on it, evaluates the detections and draws them.
pub(super) fn demo(arguments: &DemoArguments) -> Result<ExitStatus> {
    let start = Instant::now();
    let interrupt = Interrupt::listen()?;
    let out = &arguments.out;
    let networks = match arguments {
        DemoArguments { surround: true, .. } => networks::SURROUND,
        DemoArguments { voxel: true, .. } => networks::VOXELS,
        DemoArguments { masks: true, .. } => networks::MASKS,
        _ => networks::PILLARS,
    };
    let mut overrides = networks.overrides(arguments.models.as_deref())?;
    overrides.push(format!("device:={}", arguments.device));
    // A device that is not there is an error before the drive is simulated.
    Device::open(arguments.device).map(|_| ())?;
    let mut folder = OutputFolder::open(out, REPLACES)?;
    let config = configuration(&mut folder, networks.parameters, &overrides)?;
    let bag = out.join("drive");

    tracing::info!("1 of 4: {} s of a simulated drive, with truth", arguments.seconds);
    let of_demo = match arguments.surround {
        true => SimulateArguments::of_surround_demo,
        false => SimulateArguments::of_demo,
    };
    let drive = of_demo(arguments.seed, arguments.seconds, &bag);
    let drive = SimulateArguments { masks: arguments.masks, ..drive };
    if simulate::record(&drive, &interrupt)? == ExitStatus::Interrupted {
        return interrupted(folder);
    }
    tracing::info!("2 of 4: the sensors through their networks");
    let options = ReplayOptions { stop: interrupt.flag(), ..ReplayOptions::default() };
    let replay = Replay::open(&bag, &config, options)?;
    let mut files = ReplayFiles::in_folder(folder, &replay, 0)?;
    let mut surround = SurroundScene::in_the_middle(arguments.seconds * drive.camera_rate);
    let (report, tally) = replay::run_with(replay, |frame| {
        files.write(frame)?;
        surround.see(frame)
    })?;
    let mut folder = files.close(&report)?;
    if report.is_interrupted() {
        return interrupted(folder);
    }
    let detections = folder.path_of("detections.jsonl");
    tracing::info!("3 of 4: detections against truth");
    let mut classes = Classes::default();
    // The colours of a class are those of its index.
    for name in config.channels.iter().flat_map(|channel| channel.kind.class_names()) {
        classes.index(name);
    }
    let mut sides = Sides::read(&detections, &bag, &mut classes, &interrupt.flag())?;
    sides.name_detections(&out.join("detections.jsonl"));
    if interrupt.is_set() {
        return interrupted(folder);
    }
    let evaluation = Evaluation::of(
        std::slice::from_ref(&sides),
        &classes,
        &Terms { keeps_worst: true, ..Terms::default() },
    )?;
    folder.write("eval.json", &evaluation.to_json()?)?;
    folder.write("report.html", &evaluation.to_html(&interrupt.flag())?)?;
    evaluation.draw(&mut folder, "figures/")?;
    tracing::info!("4 of 4: images");
    if arguments.surround {
        surround.draw(&sides, &mut folder, &interrupt)?;
    } else {
        draw(&config, &bag, (&sides, &classes), &mut folder, &interrupt)?;
    }
    if interrupt.is_set() {
        return interrupted(folder);
    }
    folder.finish()?;

    let seconds = start.elapsed().as_secs_f64();
    let directions = match arguments.surround {
        true => surround::directions(out, seconds),
        false => directions(out, seconds),
    };
    let found = tally.to_text(true);
    let (frames, accuracy) = (report.to_table(), evaluation.to_table());
    stdout::print(&format!("{accuracy}\n{frames}{found}\n{directions}"))?;
    if let Some(hint) = tally::faster(&report) {
        tracing::info!("{hint}");
    }
    Ok(ExitStatus::Done)
}

/// Keeps the partial results.
fn interrupted(folder: OutputFolder) -> Result<ExitStatus> {
    folder.keep_partial().map(|()| ExitStatus::Interrupted)
}

/// The configuration of the demo, which is also written to the folder as a parameter file with
/// every value.
fn configuration(
    folder: &mut OutputFolder,
    parameters: &str,
    overrides: &[String],
) -> Result<Config> {
    let path = folder.file("demo.param.yaml")?;
    let cannot_write = |e| {
        Error::new(ErrorKind::Io, "demo", format!("cannot write {}", path.display())).with_source(e)
    };
    std::fs::write(&path, parameters).map_err(cannot_write)?;
    let config = Config::load(std::slice::from_ref(&path), overrides)?;
    std::fs::write(&path, config.to_yaml()).map_err(cannot_write)?;
    Ok(config)
}

/// Draws the drive with truth and detections.
fn draw(
    config: &Config,
    bag: &Path,
    (sides, classes): (&Sides, &Classes),
    folder: &mut OutputFolder,
    interrupt: &Interrupt,
) -> Result<()> {
    let (mut image_topic, mut points) = ("", None);
    for channel in &config.channels {
        match &channel.kind {
            ChannelKind::Camera(_) => image_topic = &channel.inputs[0].topic,
            ChannelKind::Lidar(lidar) => {
                points = Some((&channel.inputs[0].topic, lidar.facts.grid.range()))
            }
            ChannelKind::Surround(_) => {}
        }
    }
    let Some((points_topic, range)) = points else { return Ok(()) };
    let scenes = Scenes { bag, image_topic, points_topic, range, sides, classes };
    scenes.draw(folder, interrupt)
}

/// The list of results, and further commands.
fn directions(out: &Path, seconds: f64) -> String {
    let out = out.display();
    let program = std::env::args_os().next().unwrap_or_else(|| "det_post".into());
    let program = program.display();
    format!(
        "in {seconds:.0} s, below {out}/
  report.html        accuracy, curves and the worst frames, for a browser
  images/            camera.png, birds_eye.png; from above: drive.gif, drive.png
  detections/        a recording of the detections; detections.jsonl: JSON lines
  drive/             the recording with ground truth: Foxglove, ros2 bag play
  report.json        frames, times, counts of limits; eval.json: accuracy
  figures/           precision over recall, calibration

next
  {program} replay {out}/drive --config {out}/demo.param.yaml \\
      -p lidar.densification.num_past_sweeps:=0 --out one_sweep
  {program} eval --detections one_sweep --truth {out}/drive
  {program} simulate --seed 9003 --actors 40 --out crowded
  {program} inspect {out}/drive
"
    )
}
