//! Writes simulated frames as arrays for training, as the networks of the demo
//! take them: letterboxed images; points grouped into pillars, and means of
//! voxels, after past sweeps have joined; the images of all cameras of a rig. All by
//! the operations that serve them.
//!
//! One folder a seed, NumPy files, rows of all frames one after the other:
//!
//! | network | file | rows |
//! |---|---|---|
//! | pillar, voxel | `boxes_3d` | class, x, y, z, length, width, height, yaw, vx, vy, points, visibility |
//! | pillar, voxel | `lidar_frames` | number of pillars, of boxes, of voxels |
//! | pillar | `points` | x, y, z, intensity, time lag; pillar by pillar |
//! | pillar | `pillars` | column, row, number of points of each pillar |
//! | pillar | `features` | the encoder's input for the first pillars of the first frame, to check the trainer's own |
//! | voxel | `voxel_cells` | x, y, z index of each voxel |
//! | voxel | `voxel_means` | mean x, y, z, intensity, time lag of each voxel |
//! | camera | `images` | [3, height, width] red, green, blue |
//! | camera | `boxes_2d` | class, left, top, right, bottom in the network's pixels, visibility |
//! | camera | `camera_frames` | number of boxes |
//! | camera | `instances` | [height, width] the visible object: its place among the boxes of the frame, from 1 on, or 0 |
//! | surround | `rig_images` | [cameras, height, width, 3] red, green, blue |
//! | surround | `rig_boxes` | class, x, y, z, length, width, height, yaw, vx, vy, pixels, visibility in `base_link` |
//! | surround | `rig_frames` | number of boxes, place in its clip of consecutive frames |
//! | surround | `rig_poses` | x, y, yaw of `base_link` in the map, seconds |
//! | surround | `rig_matrices` | [3, 4] per camera, `base_link` to (u z, v z, z) in the network's pixels |
//!
//! Seeds from 9000 on are for evaluation and are refused.
#![allow(clippy::print_stdout, reason = "an example says what it did")]

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Parser, ValueEnum};
use det_post::config::{ChannelKind, Config, EncoderFacts, LidarConfig, SurroundConfig, YoloFacts};
use det_post_sim::{Drive, Options};
use images::export_images;
use scans::ScanExporter;
use surround::{drive_options, export_surround};

mod array;
mod images;
mod scans;
mod surround;

/// Seeds from here on are never trained on.
const FIRST_EVALUATION_SEED: u64 = 9000;
/// Frames of the first seconds of a drive lie close together; these do not.
const SCANS_BETWEEN_FRAMES: u64 = 37;

/// A network of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Network {
    Pillar,
    Voxel,
    Camera,
    Surround,
}

#[derive(Parser)]
#[command(about = "Writes simulated frames as arrays for training")]
struct Arguments {
    /// The folder to write to.
    out: PathBuf,
    /// Seeds, the last one excluded.
    #[arg(long, value_name = "FIRST..END", default_value = "0..400", value_parser = parse_seeds)]
    seeds: Range<u64>,
    /// Frames of each sensor a seed.
    #[arg(long, default_value_t = 10)]
    frames: u64,
    /// The networks to write arrays for.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "pillar,voxel,camera")]
    networks: Vec<Network>,
    /// Parameter files of the channels with the networks, each read by itself.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "config/demo.param.yaml,config/demo_voxel.param.yaml,\
                         config/demo_surround_3d.param.yaml"
    )]
    config: Vec<PathBuf>,
}

fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let parsed =
        text.split_once("..").and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    match parsed {
        Some(seeds) if seeds.end <= FIRST_EVALUATION_SEED => Ok(seeds),
        Some(_) => Err(format!("seeds from {FIRST_EVALUATION_SEED} on are for evaluation")),
        None => Err("seeds are written FIRST..END".into()),
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let channels = Channels::load(&arguments)?;
    let next = AtomicU64::new(arguments.seeds.start);
    let num_threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| -> Result<(), Failure> {
        let work = || export_seeds(&arguments, &next, &channels);
        let threads: Vec<_> = (0..num_threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })?;
    println!("seeds {:?} are in {}", arguments.seeds, arguments.out.display());
    Ok(())
}

/// The channels of the networks that are exported for.
#[derive(Default)]
struct Channels {
    pillar: Option<Box<LidarConfig>>,
    voxel: Option<Box<LidarConfig>>,
    camera: Option<YoloFacts>,
    surround: Option<Box<SurroundConfig>>,
}

impl Channels {
    fn load(arguments: &Arguments) -> Result<Self, Failure> {
        let mut channels = Self::default();
        for file in &arguments.config {
            for channel in Config::load(std::slice::from_ref(file), &[])?.channels {
                match channel.kind {
                    ChannelKind::Camera(config) => channels.camera = Some(config.facts),
                    ChannelKind::Lidar(config) => match config.facts.encoder {
                        EncoderFacts::Pillars(_) => channels.pillar = Some(config),
                        EncoderFacts::Voxels(_) => channels.voxel = Some(config),
                        // Networks that are not trained here.
                        EncoderFacts::Sites(_) | EncoderFacts::None(_) => {}
                    },
                    ChannelKind::Surround(config) => channels.surround = Some(config),
                }
            }
        }
        channels.pillar = select(channels.pillar, Network::Pillar, arguments)?;
        channels.voxel = select(channels.voxel, Network::Voxel, arguments)?;
        channels.camera = select(channels.camera, Network::Camera, arguments)?;
        channels.surround = select(channels.surround, Network::Surround, arguments)?;
        Ok(channels)
    }
}

/// A channel, if its network is asked for.
fn select<T>(
    channel: Option<T>,
    network: Network,
    arguments: &Arguments,
) -> Result<Option<T>, Failure> {
    if !arguments.networks.contains(&network) {
        return Ok(None);
    }
    channel.map(Some).ok_or_else(|| format!("no channel has a {network:?} network").into())
}

/// Writes one seed after the other until none is left.
fn export_seeds(
    arguments: &Arguments,
    next: &AtomicU64,
    channels: &Channels,
) -> Result<(), Failure> {
    let mut scans = ScanExporter::new(channels.pillar.as_deref(), channels.voxel.as_deref())?;
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= arguments.seeds.end {
            return Ok(());
        }
        let folder = arguments.out.join(format!("{seed:04}"));
        fs::create_dir_all(&folder)?;
        let options = Options { num_threads: 1, ..Options::default() };
        let drive = Drive::new(seed, &options)?;
        if let Some(scans) = &mut scans {
            scans.export(&drive, arguments.frames, &folder)?;
        }
        if let Some(camera) = &channels.camera {
            export_images(&drive, camera, arguments.frames, &folder)?;
        }
        if let Some(config) = &channels.surround {
            let drive = Drive::new(seed, &drive_options(config))?;
            export_surround(&drive, seed, config, arguments.frames, &folder)?;
        }
    }
}

fn class_index(names: &[String], name: &str) -> Result<f32, Failure> {
    let index = names.iter().position(|known| known == name);
    index.map(|index| index as f32).ok_or_else(|| format!("the head has no class {name}").into())
}
