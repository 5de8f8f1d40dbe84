//! Writes simulated frames as arrays for training, as the networks of the demo
//! will see them: letterboxed pictures, and points grouped into pillars after
//! past sweeps have joined, both by the operations that serve them.
//!
//! One folder a seed, NumPy files, rows of all frames one after the other:
//!
//! | file | rows |
//! |---|---|
//! | `points` | x, y, z, intensity, time lag; pillar by pillar |
//! | `voxels` | column, row, number of points of each pillar |
//! | `boxes_3d` | class, x, y, z, length, width, height, yaw, vx, vy, points, visibility |
//! | `lidar_frames` | number of pillars, number of boxes |
//! | `features` | the encoder's input for the first pillars of the first frame, to check the trainer's own |
//! | `pictures` | [3, height, width] red, green, blue |
//! | `boxes_2d` | class, left, top, right, bottom in the network's pixels, visibility |
//! | `camera_frames` | number of boxes |
//!
//! Seeds from 9000 on are for evaluation and are refused.
#![allow(clippy::print_stdout, reason = "an example says what it did")]

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use det_post::config::{ChannelKind, Config, EncoderFacts, LidarConfig, YoloFacts};
use det_post::ops::densify::{Sweeps, densify};
use det_post::ops::letterbox::{self, LetterboxParams, letterbox};
use det_post::ops::pillar_features::pillar_features;
use det_post::ops::voxelize::{self, VoxelizeParams, Voxels, voxelize};
use det_post::sim::{Drive, Options, Picture, Scan};
use det_post::types::{
    ElementType, Encoding, ImageView, Normalization, Points, Size, Tensor, TensorValues,
};
use nalgebra::{Isometry3, Translation3, UnitQuaternion};

/// Seeds from here on are never trained on.
const FIRST_EVALUATION_SEED: u64 = 9000;
/// Frames of the first seconds of a drive lie close together; these do not.
const SCANS_BETWEEN_FRAMES: u64 = 37;
const NUM_CHECKED_PILLARS: usize = 64;

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
        let work = || -> Result<(), Failure> {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= arguments.seeds.end {
                    return Ok(());
                }
                let folder = arguments.out.join(format!("{seed:04}"));
                fs::create_dir_all(&folder)?;
                let options = Options { num_threads: 1, ..Options::default() };
                let drive = Drive::new(seed, &options)?;
                export_scans(&drive, lidar, arguments.frames, &folder)?;
                export_pictures(&drive, camera, arguments.frames, &folder)?;
            }
        };
        let threads: Vec<_> = (0..num_threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked")??;
        }
        Ok(())
    })?;
    println!("seeds {:?} are in {}", arguments.seeds, arguments.out.display());
    Ok(())
}

fn export_scans(
    drive: &Drive,
    config: &LidarConfig,
    num_frames: u64,
    folder: &Path,
) -> Result<(), Failure> {
    let facts = &config.facts;
    let num_past = config.densification.num_past_sweeps;
    let params = VoxelizeParams {
        grid: facts.grid,
        max_points_per_voxel: facts.max_points_per_voxel,
        voxel_capacity: facts.voxel_capacity,
    };
    let mut workspace = voxelize::Workspace::new(&facts.grid, config.point_capacity);
    let mut voxels = Voxels::new(&params);
    let mut sweeps = Sweeps::new(num_past, 5, config.point_capacity);
    let mut merged = Points::with_capacity(5, config.point_capacity);
    let mut current = Points::with_capacity(5, config.point_capacity);
    let mut scan = Scan::default();

    let mut points = Array::new(folder, "points", &[5])?;
    let mut cells = Array::new(folder, "voxels", &[3])?;
    let mut boxes = Array::new(folder, "boxes_3d", &[12])?;
    let mut frames = Array::new(folder, "lidar_frames", &[2])?;
    for frame in 0..num_frames {
        let last = num_past as u64 + frame * SCANS_BETWEEN_FRAMES;
        sweeps.clear();
        for index in last - num_past as u64..=last {
            drive.cloud(0, index, &mut scan);
            current.clear();
            for point in &scan.points {
                let [x, y, z] = point.position;
                current.push(&[x, y, z, point.intensity * facts.intensity_scale, 0.0]);
            }
            let stamp = drive.rig().scan_stamp(index);
            let place = world_from_sensor(drive, index);
            if index < last {
                sweeps.push(&current, stamp, &place);
            } else {
                let max_age_s = f64::from(config.densification.max_sweep_age_s);
                densify(&current, stamp, &place, &sweeps, Some(4), max_age_s, &mut merged)?;
            }
        }
        voxelize(&merged, &params, &mut workspace, &mut voxels)?;
        for voxel in 0..voxels.len() {
            let members = voxels.points_of(voxel);
            for &member in members {
                points.push(&merged.values()[member as usize * 5..][..5])?;
            }
            let [x, y, _] = voxels.coordinates()[voxel];
            cells.push(&[x as i32, y as i32, members.len() as i32])?;
        }
        for object in &scan.truth {
            let class = class_index(&facts.class_names, object.class_name)?;
            let (b, v) = (&object.bbox, object.velocity_mps);
            let [x, y, z] = b.center;
            let num_points = object.num_points as f32;
            boxes.push(&[
                class,
                x,
                y,
                z,
                b.length_m,
                b.width_m,
                b.height_m,
                b.yaw_rad,
                v[0],
                v[1],
                num_points,
                object.visibility,
            ])?;
        }
        frames.push(&[voxels.len() as i32, scan.truth.len() as i32])?;
        if frame == 0 {
            export_features(&merged, &voxels, config, folder)?;
        }
    }
    points.finish()?;
    cells.finish()?;
    boxes.finish()?;
    frames.finish()
}

/// What the encoder is given for the first pillars.
fn export_features(
    points: &Points,
    voxels: &Voxels,
    config: &LidarConfig,
    folder: &Path,
) -> Result<(), Failure> {
    let facts = &config.facts;
    let EncoderFacts::Pillars(pillars) = &facts.encoder else {
        return Err("the head's encoder does not take pillars".into());
    };
    let [num_points, num_features] = [facts.max_points_per_voxel, facts.num_features()];
    let shape = [voxels.len(), num_points, num_features];
    let mut features = Tensor::zeros(ElementType::F32, &shape)?;
    pillar_features(points, voxels, &facts.grid, pillars.center_offset_z, &mut features)?;
    let mut rows = Array::new(folder, "features", &[num_points, num_features])?;
    if let TensorValues::F32(values) = features.view().values() {
        let row_len = num_points * num_features;
        for row in values.chunks_exact(row_len).take(NUM_CHECKED_PILLARS) {
            rows.push(row)?;
        }
    }
    rows.finish()
}

fn export_pictures(
    drive: &Drive,
    facts: &YoloFacts,
    num_frames: u64,
    folder: &Path,
) -> Result<(), Failure> {
    let Some(Size { width, height }) = facts.input_size else {
        return Err("the head file of the camera does not say its input_size".into());
    };
    let (columns, rows) = (width as usize, height as usize);
    // Levels of 0 to 255 are what a byte can hold; the trainer normalises.
    let params = LetterboxParams {
        placement: facts.placement,
        channel_order: facts.channel_order,
        normalization: Normalization::from_mean_std([0.0; 3], [1.0; 3]),
        pad_value: facts.pad_value,
    };
    let mut workspace = letterbox::Workspace::new();
    let mut input = Tensor::zeros(ElementType::F32, &[1, 3, rows, columns])?;
    let mut picture = Picture::default();
    let mut levels = Vec::with_capacity(3 * rows * columns);

    let mut pictures = Array::new(folder, "pictures", &[3, rows, columns])?;
    let mut boxes = Array::new(folder, "boxes_2d", &[6])?;
    let mut frames = Array::new(folder, "camera_frames", &[])?;
    for frame in 0..num_frames {
        // Exposures of both sensors at other times than the scans.
        drive.picture(0, frame * SCANS_BETWEEN_FRAMES + 11, &mut picture);
        let step = 3 * picture.size.width as usize;
        let image = ImageView::new(picture.size, step, Encoding::Rgb8, false, &picture.rgb)?;
        let placed = letterbox(&image, &params, &mut workspace, &mut input)?;
        levels.clear();
        if let TensorValues::F32(values) = input.view().values() {
            levels.extend(values.iter().map(|value| value.round() as u8));
        }
        pictures.push(&levels)?;
        let network_from_source = placed.network_from_source();
        for object in &picture.truth {
            let class = class_index(&facts.class_names, object.class_name)?;
            let b = network_from_source.apply(object.bbox);
            boxes.push(&[class, b.x1, b.y1, b.x2, b.y2, object.visibility])?;
        }
        frames.push(&[picture.truth.len() as i32])?;
    }
    pictures.finish()?;
    boxes.finish()?;
    frames.finish()
}

fn world_from_sensor(drive: &Drive, index: u64) -> Isometry3<f64> {
    let ego = drive.ego(drive.rig().scan_stamp(index));
    let mount = &drive.rig().lidars[0];
    let pose = |position: [f64; 3], yaw_rad| {
        let turn = UnitQuaternion::from_euler_angles(0.0, 0.0, yaw_rad);
        Isometry3::from_parts(Translation3::from(position), turn)
    };
    pose(ego.position_m, ego.yaw_rad) * pose(mount.position_m, mount.yaw_rad)
}

fn class_index(names: &[String], name: &str) -> Result<f32, Failure> {
    let index = names.iter().position(|known| known == name);
    index.map(|index| index as f32).ok_or_else(|| format!("the head has no class {name}").into())
}

/// A value of a NumPy file.
trait Element: Copy {
    const DESCRIPTION: &'static str;
    fn write(self, bytes: &mut Vec<u8>);
}

impl Element for f32 {
    const DESCRIPTION: &'static str = "<f4";
    fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Element for i32 {
    const DESCRIPTION: &'static str = "<i4";
    fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Element for u8 {
    const DESCRIPTION: &'static str = "|u1";
    fn write(self, bytes: &mut Vec<u8>) {
        bytes.push(self);
    }
}

/// A NumPy file that grows by rows of one shape.
struct Array<T> {
    path: PathBuf,
    row_shape: Vec<usize>,
    num_rows: usize,
    bytes: Vec<u8>,
    element: std::marker::PhantomData<T>,
}

impl<T: Element> Array<T> {
    fn new(folder: &Path, name: &str, row_shape: &[usize]) -> Result<Self, Failure> {
        let path = folder.join(format!("{name}.npy"));
        let row_shape = row_shape.to_vec();
        Ok(Self {
            path,
            row_shape,
            num_rows: 0,
            bytes: Vec::new(),
            element: std::marker::PhantomData,
        })
    }

    fn push(&mut self, row: &[T]) -> Result<(), Failure> {
        let expected: usize = self.row_shape.iter().product();
        if row.len() != expected {
            return Err(
                format!("{}: a row of {}, not {expected}", self.path.display(), row.len()).into()
            );
        }
        self.num_rows += 1;
        row.iter().for_each(|value| value.write(&mut self.bytes));
        Ok(())
    }

    /// Writes the file: magic, version 1.0, length of the header, the header
    /// padded so that the values start at a multiple of 64 bytes.
    fn finish(self) -> Result<(), Failure> {
        let shape: Vec<String> =
            [self.num_rows].iter().chain(&self.row_shape).map(usize::to_string).collect();
        let mut header = format!(
            "{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}",
            T::DESCRIPTION,
            shape.join(", ")
        );
        let len = (10 + header.len() + 1).next_multiple_of(64) - 10;
        header += &" ".repeat(len - header.len() - 1);
        header += "\n";
        let mut file = BufWriter::new(File::create(&self.path)?);
        file.write_all(b"\x93NUMPY\x01\x00")?;
        file.write_all(&(len as u16).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        file.write_all(&self.bytes)?;
        Ok(file.flush()?)
    }
}
