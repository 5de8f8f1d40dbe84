//! A lidar's frames on the CPU.

use super::LidarFrame;
use crate::config::LidarConfig;
use crate::detectors::pillars::{LidarHead, PillarEncoder};
use crate::error::Result;
use crate::infer::Engine;
use crate::ops::densify::{Sweeps, densify};
use crate::ops::gather::gather_3d;
use crate::ops::nms::{self, suppress_3d};
use crate::ops::pillar_features::pillar_features;
use crate::ops::scatter::scatter;
use crate::ops::select::select;
use crate::ops::unpack::{UnpackParams, unpack};
use crate::ops::voxelize::{self, VoxelizeParams, Voxels, voxelize};
use crate::types::{
    Candidates, Count, Detection3d, FrameReport, Kept, Nms3d, Object3d, Points, Stage, Tensor,
};

pub(super) struct Frames {
    encoder: Box<dyn Engine>,
    pillars: PillarEncoder,
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
}

impl Frames {
    pub(super) fn new(
        config: &LidarConfig,
        encoder: Box<dyn Engine>,
        engine: Box<dyn Engine>,
    ) -> Result<Self> {
        let facts = &config.facts;
        let pillars = PillarEncoder::new(facts, encoder.inputs(), encoder.outputs())?;
        let head = LidarHead::new(config, engine.inputs(), engine.outputs())?;
        let num_channels = facts.num_point_channels();
        let voxelize = super::voxelize_params(facts);
        Ok(Self {
            features: pillars.input()?,
            map: head.input(facts, engine.inputs())?,
            encoder,
            pillars,
            engine,
            head,
            unpack: super::unpack_params(config),
            points: Points::with_capacity(num_channels, config.point_capacity),
            densification: Densification::new(config),
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
        })
    }

    pub(super) fn engine_name(&self) -> &str {
        self.engine.name()
    }

    pub(super) fn reconfigure(&mut self, config: &LidarConfig) {
        self.head.reconfigure(config);
        if config.pre_nms_top_k > self.pre_nms_top_k {
            self.suppression = nms::Workspace::with_capacity(config.pre_nms_top_k);
            self.keep = Vec::with_capacity(config.pre_nms_top_k);
        }
        self.pre_nms_top_k = config.pre_nms_top_k;
        self.nms.clone_from(&config.nms);
        self.max_detections = config.max_detections;
        if let Some(densification) = &mut self.densification {
            densification.max_age_s = f64::from(config.densification.max_sweep_age_s);
        }
    }

    pub(super) fn forget_sweeps(&mut self) {
        if let Some(densification) = &mut self.densification {
            densification.sweeps.clear();
        }
    }

    /// The story of a frame.
    pub(super) fn process(
        &mut self,
        frame: &LidarFrame<'_>,
        report: &mut FrameReport,
        detections: &mut Vec<Detection3d>,
    ) -> Result<()> {
        let Self { encoder, pillars, engine, head, points, voxels, features, map, .. } = self;
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
            report.time(Stage::Encode, || {
                pillars.run(encoder.as_mut(), features, grouped.num_voxels)
            })?;
            report.time(Stage::Scatter, || {
                scatter(&pillars.output(encoder.as_ref())?, voxels, grid, map)
            })?;
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
            gather_3d(candidates, &self.keep, self.max_detections, detections)
        });

        report.add_count(Count::CandidatesOverCapacity, cut.num_over_capacity);
        report.add_count(Count::CandidatesOverTopK, cut.num_over_top_k);
        report.add_count(Count::DetectionsOverLimit, num_over_limit);
        Ok(())
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
        Some(Self {
            sweeps: Sweeps::new(
                config.densification.num_past_sweeps,
                num_channels,
                config.point_capacity,
            ),
            merged: Points::with_capacity(num_channels, config.point_capacity),
            time_lag_channel: super::time_lag_channel(&config.facts),
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
