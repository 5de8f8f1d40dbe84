//! Scans as the LiDAR networks take them, and their truth.

use std::path::Path;

use det_post::config::{EncoderFacts, LidarConfig};
use det_post_ops::cloud::densify::{Sweeps, densify};
use det_post_ops::cloud::pillar_features::pillar_features;
use det_post_ops::cloud::voxelize::{self, VoxelizeParams, Voxels, voxelize};
use det_post_ops::sparse::voxel_mean::voxel_mean;
use det_post_sim::{Drive, Scan};
use det_post_types::{ElementType, Evidence, Points, Tensor, TensorValues};
use nalgebra::{Isometry3, Translation3, UnitQuaternion};

use crate::array::Array;
use crate::{Failure, SCANS_BETWEEN_FRAMES, class_index};

/// Pillars of the first frame whose features are written.
const NUM_CHECKED_PILLARS: usize = 64;
/// x, y, z, intensity, time lag.
const NUM_CHANNELS: usize = 5;

/// Points grouped on a grid, and the memory for it.
struct Grouping {
    params: VoxelizeParams,
    workspace: voxelize::Workspace,
    voxels: Voxels,
}

impl Grouping {
    fn new(config: &LidarConfig) -> Self {
        let facts = &config.facts;
        let params = VoxelizeParams {
            grid: facts.grid,
            max_points_per_voxel: facts.max_points_per_voxel,
            voxel_capacity: config.voxel_capacity,
        };
        let workspace = voxelize::Workspace::new(&params.grid, config.point_capacity);
        let voxels = Voxels::new(&params);
        Self { params, workspace, voxels }
    }

    fn run(&mut self, points: &Points) -> Result<&Voxels, Failure> {
        voxelize(points, &self.params, &mut self.workspace, &mut self.voxels)?;
        Ok(&self.voxels)
    }
}

/// Writes scans, with memory that is kept from drive to drive.
pub struct ScanExporter<'a> {
    config: &'a LidarConfig,
    pillars: Option<(Grouping, &'a LidarConfig)>,
    voxels: Option<(Grouping, Tensor)>,
    sweeps: Sweeps,
    current: Points,
    merged: Points,
    scan: Scan,
}

impl<'a> ScanExporter<'a> {
    /// For the channels of a pillar and of a voxel network; `None` without either.
    pub fn new(
        pillar: Option<&'a LidarConfig>,
        voxel: Option<&'a LidarConfig>,
    ) -> Result<Option<Self>, Failure> {
        let Some(config) = pillar.or(voxel) else { return Ok(None) };
        if let (Some(a), Some(b)) = (pillar, voxel) {
            let inputs = |c: &LidarConfig| {
                let channels = c.facts.point_channels.clone();
                (c.densification.clone(), c.facts.class_names.clone(), channels)
            };
            if inputs(a) != inputs(b) || a.facts.intensity_scale != b.facts.intensity_scale {
                return Err("the LiDAR networks take different points".into());
            }
        }
        let voxels = voxel.map(|config| {
            let means = Tensor::zeros(ElementType::F32, &[config.voxel_capacity, NUM_CHANNELS]);
            means.map(|means| (Grouping::new(config), means))
        });
        let capacity = config.point_capacity;
        Ok(Some(Self {
            config,
            pillars: pillar.map(|config| (Grouping::new(config), config)),
            voxels: voxels.transpose()?,
            sweeps: Sweeps::new(config.densification.num_past_sweeps, NUM_CHANNELS, capacity),
            current: Points::with_capacity(NUM_CHANNELS, capacity),
            merged: Points::with_capacity(NUM_CHANNELS, capacity),
            scan: Scan::default(),
        }))
    }

    /// Writes `num_frames` scans of a drive, joined with their past sweeps.
    pub fn export(&mut self, drive: &Drive, num_frames: u64, folder: &Path) -> Result<(), Failure> {
        let mut arrays = Arrays::new(folder);
        for frame in 0..num_frames {
            self.join(drive, frame)?;
            let mut num_rows = [0; 3];
            if let Some((grouping, config)) = &mut self.pillars {
                let pillars = grouping.run(&self.merged)?;
                num_rows[0] = pillars.len() as i32;
                arrays.push_pillars(&self.merged, pillars)?;
                if frame == 0 {
                    export_features(&self.merged, pillars, config, folder)?;
                }
            }
            num_rows[1] = self.scan.truth.len() as i32;
            arrays.push_boxes(&self.scan, &self.config.facts.class_names)?;
            if let Some((grouping, means)) = &mut self.voxels {
                let voxels = grouping.run(&self.merged)?;
                num_rows[2] = voxels.len() as i32;
                voxel_mean(&self.merged, voxels, &[], means)?;
                arrays.push_voxels(voxels, means)?;
            }
            arrays.frames.push(&num_rows)?;
        }
        arrays.finish(self.pillars.is_some(), self.voxels.is_some())
    }

    /// Renders the scans of a frame, and joins the past ones with the current one.
    fn join(&mut self, drive: &Drive, frame: u64) -> Result<(), Failure> {
        let densification = &self.config.densification;
        let num_past = densification.num_past_sweeps as u64;
        let last = num_past + frame * SCANS_BETWEEN_FRAMES;
        self.sweeps.clear();
        for index in last - num_past..=last {
            drive.cloud(0, index, &mut self.scan);
            self.current.clear();
            for point in &self.scan.points {
                let [x, y, z] = point.position;
                let intensity = point.intensity * self.config.facts.intensity_scale;
                self.current.push(&[x, y, z, intensity, 0.0]);
            }
            let stamp = drive.rig().scan_stamp(index);
            let place = world_from_sensor(drive, index);
            if index < last {
                self.sweeps.push(&self.current, stamp, &place);
            } else {
                let max_age_s = f64::from(densification.max_sweep_age_s);
                let (current, sweeps) = (&self.current, &self.sweeps);
                densify(current, stamp, &place, sweeps, Some(4), max_age_s, &mut self.merged)?;
            }
        }
        Ok(())
    }
}

/// The arrays of a drive's scans.
struct Arrays {
    points: Array<f32>,
    pillars: Array<i32>,
    cells: Array<i16>,
    means: Array<f32>,
    boxes: Array<f32>,
    frames: Array<i32>,
}

impl Arrays {
    fn new(folder: &Path) -> Self {
        Self {
            points: Array::new(folder, "points", &[NUM_CHANNELS]),
            pillars: Array::new(folder, "pillars", &[3]),
            cells: Array::new(folder, "voxel_cells", &[3]),
            means: Array::new(folder, "voxel_means", &[NUM_CHANNELS]),
            boxes: Array::new(folder, "boxes_3d", &[12]),
            frames: Array::new(folder, "lidar_frames", &[3]),
        }
    }

    fn push_pillars(&mut self, points: &Points, pillars: &Voxels) -> Result<(), Failure> {
        for (pillar, [x, y, _]) in pillars.coordinates().iter().enumerate() {
            let members = pillars.points_of(pillar);
            for &member in members {
                let row = member as usize * NUM_CHANNELS;
                self.points.push(&points.values()[row..][..NUM_CHANNELS])?;
            }
            self.pillars.push(&[*x as i32, *y as i32, members.len() as i32])?;
        }
        Ok(())
    }

    fn push_voxels(&mut self, voxels: &Voxels, means: &Tensor) -> Result<(), Failure> {
        let TensorValues::F32(means) = means.view().values() else {
            return Err("the means of voxels are not f32".into());
        };
        for (cell, mean) in voxels.coordinates().iter().zip(means.chunks_exact(NUM_CHANNELS)) {
            self.cells.push(&cell.map(|index| index as i16))?;
            self.means.push(mean)?;
        }
        Ok(())
    }

    fn push_boxes(&mut self, scan: &Scan, class_names: &[String]) -> Result<(), Failure> {
        for object in &scan.truth {
            let class = class_index(class_names, object.class_name)?;
            let (b, [vx, vy]) = (&object.bbox, object.velocity_mps);
            let [x, y, z] = b.center;
            let size = [b.length_m, b.width_m, b.height_m];
            let [length, width, height] = size;
            let Evidence::Points(num_points) = object.evidence else {
                return Err("the truth of a scan has no points".into());
            };
            let (num_points, visibility) = (num_points as f32, object.visibility);
            self.boxes.push(&[
                class, x, y, z, length, width, height, b.yaw_rad, vx, vy, num_points, visibility,
            ])?;
        }
        Ok(())
    }

    fn finish(self, has_pillars: bool, has_voxels: bool) -> Result<(), Failure> {
        if has_pillars {
            self.points.finish()?;
            self.pillars.finish()?;
        }
        if has_voxels {
            self.cells.finish()?;
            self.means.finish()?;
        }
        self.boxes.finish()?;
        self.frames.finish()
    }
}

/// What the encoder is given for the first pillars.
fn export_features(
    points: &Points,
    pillars: &Voxels,
    config: &LidarConfig,
    folder: &Path,
) -> Result<(), Failure> {
    let facts = &config.facts;
    let EncoderFacts::Pillars(of_encoder) = &facts.encoder else {
        return Err("the encoder of the head does not take pillars".into());
    };
    let [num_points, num_features] = [facts.max_points_per_voxel, facts.num_features()];
    let shape = [pillars.len(), num_points, num_features];
    let mut features = Tensor::zeros(ElementType::F32, &shape)?;
    pillar_features(points, pillars, &facts.grid, of_encoder.center_offset_z, &mut features)?;
    let mut rows = Array::new(folder, "features", &[num_points, num_features]);
    if let TensorValues::F32(values) = features.view().values() {
        let row_len = num_points * num_features;
        for row in values.chunks_exact(row_len).take(NUM_CHECKED_PILLARS) {
            rows.push(row)?;
        }
    }
    rows.finish()
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
