//! A point cloud in, 3D detections out.

use nalgebra::Isometry3;

use super::Processed;
use crate::config::LidarConfig;
use crate::error::Result;
use crate::heads::{LidarHead, PillarEncoder};
use crate::infer::{self, Engine};
use crate::ops::densify::{Sweeps, densify};
use crate::ops::gather::gather_3d;
use crate::ops::nms::{self, suppress_3d};
use crate::ops::pillar_features::pillar_features;
use crate::ops::scatter::scatter;
use crate::ops::select::select;
use crate::ops::unpack::{UnpackParams, unpack};
use crate::ops::voxelize::{self, VoxelizeParams, Voxels, voxelize};
use crate::types::{
    Candidates, CloudView, Count, Detection3d, FrameReport, Kept, Nms3d, Object3d, PointChannel,
    Points, Stage, Stamp, Tensor,
};

/// One sweep, as a lidar channel takes it.
#[derive(Clone, Copy, Debug)]
pub struct LidarFrame<'a> {
    /// The points as they lie in the message.
    pub cloud: &'a CloudView<'a>,
    /// Acquisition time of the sweep.
    pub stamp: Stamp,
    /// Where the sensor stood in the world at that time. Without it the sweep
    /// is processed alone: past sweeps cannot join, which is counted.
    pub world_from_sensor: Option<&'a Isometry3<f64>>,
}

/// Everything one lidar channel needs for its frames.
pub struct LidarPipeline {
    encoder: PillarEncoder,
    engine: Box<dyn Engine>,
    head: LidarHead,
    unpack: UnpackParams,
    points: Points,
    densification: Option<Densification>,
    voxelize: VoxelizeParams,
    voxelization: voxelize::Workspace,
    voxels: Voxels,
    center_offset_z: bool,
    features: Tensor,
    map: Tensor,
    candidates: Candidates<Object3d>,
    pre_nms_top_k: usize,
    nms: Nms3d,
    suppression: nms::Workspace,
    keep: Vec<Kept>,
    max_detections: usize,
    detections: Vec<Detection3d>,
    report: FrameReport,
}

impl LidarPipeline {
    /// Loads both networks and takes all memory the configuration bounds.
    ///
    /// # Errors
    /// `Model` when a network cannot be loaded or does not fit its head.
    pub fn new(config: &LidarConfig) -> Result<Self> {
        let encoder = infer::load(&config.encoder_path, &config.engine)?;
        let engine = infer::load(&config.model_path, &config.engine)?;
        Self::with_engines(config, encoder, engine)
    }

    /// As [`LidarPipeline::new`], with networks that are loaded already.
    ///
    /// # Errors
    /// `Model` when a network does not fit the head.
    pub fn with_engines(
        config: &LidarConfig,
        encoder: Box<dyn Engine>,
        engine: Box<dyn Engine>,
    ) -> Result<Self> {
        let facts = &config.facts;
        let encoder = PillarEncoder::new(facts, encoder)?;
        let head = LidarHead::new(config, engine.as_ref())?;
        let num_channels = facts.num_point_channels();
        let densification = Densification::new(config);
        let voxelize = VoxelizeParams {
            grid: facts.grid,
            max_points_per_voxel: facts.max_points_per_voxel,
            voxel_capacity: facts.voxel_capacity,
        };
        Ok(Self {
            features: encoder.input()?,
            map: head.input(facts, engine.as_ref())?,
            encoder,
            engine,
            head,
            unpack: UnpackParams {
                channels: facts.point_channels.clone(),
                intensity_scale: facts.intensity_scale,
                // A point outside today may be inside after the vehicle moved.
                range: densification.is_none().then(|| facts.grid.range()),
            },
            points: Points::with_capacity(num_channels, config.point_capacity),
            densification,
            voxelize,
            voxelization: voxelize::Workspace::new(&facts.grid, config.point_capacity),
            voxels: Voxels::new(&voxelize),
            center_offset_z: facts.center_offset_z,
            candidates: Candidates::with_capacity(config.candidate_capacity),
            pre_nms_top_k: config.pre_nms_top_k,
            nms: config.nms.clone(),
            suppression: nms::Workspace::with_capacity(config.pre_nms_top_k),
            keep: Vec::with_capacity(config.pre_nms_top_k),
            max_detections: config.max_detections,
            detections: Vec::with_capacity(config.max_detections),
            report: FrameReport::new(),
        })
    }

    /// Takes over the thresholds, the suppression and the limits of `config`
    /// for the frames to come; the rest of it was fixed with the pipeline.
    ///
    /// # Errors
    /// None on the CPU.
    pub fn reconfigure(&mut self, config: &LidarConfig) -> Result<()> {
        self.head.reconfigure(config);
        if config.pre_nms_top_k > self.pre_nms_top_k {
            self.suppression = nms::Workspace::with_capacity(config.pre_nms_top_k);
        }
        self.pre_nms_top_k = config.pre_nms_top_k;
        self.nms = config.nms.clone();
        self.max_detections = config.max_detections;
        if let Some(densification) = &mut self.densification {
            densification.max_age_s = f64::from(config.densification.max_sweep_age_s);
        }
        Ok(())
    }

    /// Forgets past sweeps: for a clock that starts over.
    pub fn forget_sweeps(&mut self) {
        if let Some(densification) = &mut self.densification {
            densification.sweeps.clear();
        }
    }

    /// Names and versions of the engines that run the networks.
    pub fn engine_name(&self) -> &str {
        self.engine.name()
    }

    /// Whether past sweeps join, so that frames want a transform.
    pub fn densifies(&self) -> bool {
        self.densification.is_some()
    }

    /// Detects objects in a sweep: boxes in the cloud's frame. Without a usable
    /// point, those of past sweeps included, no network runs and there are no
    /// detections.
    ///
    /// # Errors
    /// `PointField` when a needed field is missing or unusable, `Inference`
    /// when a network fails. The frame is dropped, the pipeline stays usable.
    pub fn process(&mut self, frame: &LidarFrame<'_>) -> Result<Processed<'_, Detection3d>> {
        let Self { encoder, engine, head, points, voxels, features, map, report, .. } = self;
        *report = FrameReport::new();
        let start = std::time::Instant::now();
        self.candidates.clear();

        let unpacked = report.time(Stage::Unpack, || unpack(frame.cloud, &self.unpack, points))?;
        report.add_count(Count::PointsNotFinite, unpacked.num_not_finite);
        report.add_count(Count::PointsOutOfRange, unpacked.num_out_of_range);
        report.add_count(Count::PointsOverCapacity, unpacked.num_over_capacity);

        let points = match &mut self.densification {
            Some(densification) => densification.join(points, frame, report)?,
            None => points,
        };

        let grouped = report.time(Stage::Voxelize, || {
            voxelize(points, &self.voxelize, &mut self.voxelization, voxels)
        })?;
        report.add_count(Count::PointsOutOfRange, grouped.num_out_of_range);
        report.add_count(Count::PointsOverVoxel, grouped.num_points_over_voxel);
        report.add_count(Count::PointsOverVoxelCapacity, grouped.num_points_over_voxel_capacity);
        report.add_count(Count::VoxelsOverCapacity, grouped.num_voxels_over_capacity);

        if grouped.num_voxels > 0 {
            let grid = &self.voxelize.grid;
            report.time(Stage::PillarFeatures, || {
                pillar_features(points, voxels, grid, self.center_offset_z, features)
            })?;
            report.time(Stage::Encode, || encoder.run(features, grouped.num_voxels))?;
            report.time(Stage::Scatter, || scatter(&encoder.output()?, voxels, grid, map))?;
            report.time(Stage::Infer, || engine.run(&[map.view()]))?;
            report.time(Stage::Decode, || head.decode(engine.as_ref(), &mut self.candidates))?;
        }
        let cut = report.time(Stage::Select, || select(&mut self.candidates, self.pre_nms_top_k));
        report.time(Stage::Suppress, || {
            let candidates = self.candidates.as_slice();
            suppress_3d(candidates, &self.nms, &mut self.suppression, &mut self.keep)
        })?;
        let num_over_limit = report.time(Stage::Gather, || {
            let candidates = self.candidates.as_slice();
            gather_3d(candidates, &self.keep, self.max_detections, &mut self.detections)
        });

        report.add_count(Count::CandidatesOverCapacity, cut.num_over_capacity);
        report.add_count(Count::CandidatesOverTopK, cut.num_over_top_k);
        report.add_count(Count::DetectionsOverLimit, num_over_limit);
        report.add_duration(Stage::Total, start.elapsed());
        Ok(Processed { detections: &self.detections, report })
    }
}

/// Past sweeps and the memory in which they join the current one.
struct Densification {
    sweeps: Sweeps,
    merged: Points,
    time_lag_channel: Option<usize>,
    max_age_s: f64,
}

impl Densification {
    /// `None` when the configuration wants no past sweeps.
    fn new(config: &LidarConfig) -> Option<Self> {
        if config.densification.num_past_sweeps == 0 {
            return None;
        }
        let num_channels = config.facts.num_point_channels();
        let time_lag = config.facts.point_channels.iter().position(|c| *c == PointChannel::TimeLag);
        Some(Self {
            sweeps: Sweeps::new(
                config.densification.num_past_sweeps,
                num_channels,
                config.point_capacity,
            ),
            merged: Points::with_capacity(num_channels, config.point_capacity),
            time_lag_channel: time_lag.map(|channel| 3 + channel),
            max_age_s: f64::from(config.densification.max_sweep_age_s),
        })
    }

    /// The current sweep with the past ones moved into its frame; the current
    /// one alone when its transform is missing. Remembers it for the next.
    fn join<'a>(
        &'a mut self,
        current: &'a Points,
        frame: &LidarFrame<'_>,
        report: &mut FrameReport,
    ) -> Result<&'a Points> {
        let Some(world_from_sensor) = frame.world_from_sensor else {
            report.add_count(Count::SweepsDropped, self.sweeps.len());
            return Ok(current);
        };
        let joined = report.time(Stage::Densify, || {
            let joined = densify(
                current,
                frame.stamp,
                world_from_sensor,
                &self.sweeps,
                self.time_lag_channel,
                self.max_age_s,
                &mut self.merged,
            );
            self.sweeps.push(current, frame.stamp, world_from_sensor);
            joined
        })?;
        report.add_count(Count::SweepsDropped, joined.num_sweeps_dropped);
        report.add_count(Count::PointsOverCapacity, joined.num_points_over_capacity);
        report.add_count(Count::PointsNotFinite, joined.num_points_not_finite);
        Ok(&self.merged)
    }
}
