//! Writes simulated frames as arrays for training, as the networks of the demo
//! take them: letterboxed pictures; points grouped into pillars, and means of
//! voxels, after past sweeps have joined. All by the operations that serve them.
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
//! | camera | `pictures` | [3, height, width] red, green, blue |
//! | camera | `boxes_2d` | class, left, top, right, bottom in the network's pixels, visibility |
//! | camera | `camera_frames` | number of boxes |
//!
//! Seeds from 9000 on are for evaluation and are refused.
#![allow(clippy::print_stdout, reason = "an example says what it did")]

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Parser, ValueEnum};
use det_post::config::{ChannelKind, Config, LidarConfig, YoloFacts};
use det_post::sim::{Drive, Options};
use pictures::export_pictures;
use scans::{Groupings, ScanExporter};

mod array;
mod pictures;
mod scans;

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
    /// The channels to export for.
    #[arg(long, default_value = "config/demo.param.yaml")]
    config: PathBuf,
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
    let config = Config::load(std::slice::from_ref(&arguments.config), &[])?;
    let mut lidar = None;
    let mut camera = None;
    for channel in &config.channels {
        match &channel.kind {
            ChannelKind::Lidar(config) => lidar = Some(config),
            ChannelKind::Camera(config) => camera = Some(&config.facts),
        }
    }
    let (Some(lidar), Some(camera)) = (lidar, camera) else {
        return Err("the configuration has not both a camera and a lidar".into());
    };

    let next = AtomicU64::new(arguments.seeds.start);
    let num_threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| -> Result<(), Failure> {
        let work = || export_seeds(&arguments, &next, lidar, camera);
        let threads: Vec<_> = (0..num_threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })?;
    println!("seeds {:?} are in {}", arguments.seeds, arguments.out.display());
    Ok(())
}

/// Writes one seed after the other until none is left.
fn export_seeds(
    arguments: &Arguments,
    next: &AtomicU64,
    lidar: &LidarConfig,
    camera: &YoloFacts,
) -> Result<(), Failure> {
    let has = |network| arguments.networks.contains(&network);
    let groupings = Groupings { pillars: has(Network::Pillar), voxels: has(Network::Voxel) };
    let has_scans = groupings.pillars || groupings.voxels;
    let mut scans = ScanExporter::new(lidar, groupings)?;
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= arguments.seeds.end {
            return Ok(());
        }
        let folder = arguments.out.join(format!("{seed:04}"));
        fs::create_dir_all(&folder)?;
        let options = Options { num_threads: 1, ..Options::default() };
        let drive = Drive::new(seed, &options)?;
        if has_scans {
            scans.export(&drive, arguments.frames, &folder)?;
        }
        if has(Network::Camera) {
            export_pictures(&drive, camera, arguments.frames, &folder)?;
        }
    }
}

fn class_index(names: &[String], name: &str) -> Result<f32, Failure> {
    let index = names.iter().position(|known| known == name);
    index.map(|index| index as f32).ok_or_else(|| format!("the head has no class {name}").into())
}
