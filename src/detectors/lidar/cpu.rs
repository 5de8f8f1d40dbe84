//! 3D detection from point clouds on the CPU.

use nalgebra::Isometry3;

use super::{LidarHead, lidar_of, placing, with_empty_frame};
use crate::config::{ChannelConfig, LidarConfig};
use crate::detectors::in_flight::SingleFrame;
use crate::detectors::postprocess_3d::Postprocess3d;
use crate::detectors::{Detector, DetectorInfo, FrameSet};
use det_post_infer::{Engine, ExpectedDim};
use det_post_ops::cloud::densify::{Sweeps, densify};
use det_post_ops::cloud::unpack::{UnpackParams, append};
use det_post_ops::cloud::voxelize::{self, VoxelizeParams, Voxels, voxelize};
use det_post_ops::device::Device;
use det_post_types::{
    Candidates, Count, Detections, Error, FrameReport, Object3d, Points, Result, Stage, Stamp,
    Tensor,
};

/// The timed stages before the encoder, and those after it, in order.
const STAGES_BEFORE: [Stage; 3] = [Stage::Unpack, Stage::Densify, Stage::Voxelize];
const STAGES_AFTER: [Stage; 5] =
    [Stage::Infer, Stage::Decode, Stage::Select, Stage::Suppress, Stage::Gather];

/// From the voxels of a frame to the input of the network, a map seen from above.
pub trait MapEncoder: Send {
    /// The timed stages, in order.
    const STAGES: &'static [Stage];

    /// The shape of the map, `[1, C, rows, columns]`; a dimension that the encoder leaves
    /// open is that of the network's input.
    fn map_dims(&self) -> [ExpectedDim; 4];

    /// Writes all of `map`. Adds durations and counters to `report`. A frame without voxels
    /// has no detections: the map is not used then, and may be left as it is.
    ///
    /// # Errors
    /// The reason why the frame is dropped.
    fn encode(
        &mut self,
        points: &Points,
        voxels: &Voxels,
        map: &mut Tensor,
        report: &mut FrameReport,
    ) -> Result<()>;
}

/// From the voxels of a frame to the outputs of the network.
pub trait NetworkInput: Send {
    /// The timed stages before the network runs, in order.
    const STAGES: &'static [Stage];

    /// Takes the inputs of a frame behind its clouds.
    ///
    /// # Errors
    /// The reason why the frame is dropped.
    fn receive(&mut self, others: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        let _ = (others, report);
        Ok(())
    }

    /// Writes the inputs of the network, of a frame that may have no voxels. Adds durations and
    /// counters to `report`.
    ///
    /// # Errors
    /// The reason why the frame is dropped.
    fn write(&mut self, points: &Points, voxels: &Voxels, report: &mut FrameReport) -> Result<()>;

    /// Runs the network on the inputs that were written, of a frame with voxels.
    ///
    /// # Errors
    /// As [`Engine::run`].
    fn run(&self, engine: &mut dyn Engine) -> Result<()>;

    /// Decodes the outputs of the network, of a frame with voxels.
    ///
    /// # Errors
    /// As [`LidarHead::decode`].
    fn decode(
        &self,
        engine: &dyn Engine,
        head: &LidarHead,
        candidates: &mut Candidates<Object3d>,
    ) -> Result<()> {
        head.decode(engine, candidates)
    }
}

/// The input of a network behind an encoder: a map seen from above.
pub struct MapInput<E> {
    encoder: E,
    map: Tensor,
}

impl<E: MapEncoder> NetworkInput for MapInput<E> {
    const STAGES: &'static [Stage] = E::STAGES;

    fn write(&mut self, points: &Points, voxels: &Voxels, report: &mut FrameReport) -> Result<()> {
        self.encoder.encode(points, voxels, &mut self.map, report)
    }

    fn run(&self, engine: &mut dyn Engine) -> Result<()> {
        engine.run(&[self.map.view()])
    }
}

/// Detects objects in point clouds on the CPU.
pub struct CpuDetector<N> {
    info: DetectorInfo,
    config: LidarConfig,
    unpack: UnpackParams,
    points: Points,
    densification: Option<Densification>,
    voxelize: VoxelizeParams,
    voxelization: voxelize::Workspace,
    voxels: Voxels,
    input: N,
    engine: Box<dyn Engine>,
    head: LidarHead,
    postprocess: Postprocess3d,
    in_flight: SingleFrame,
}

impl<E: MapEncoder> CpuDetector<MapInput<E>> {
    /// A detector with an encoder and a loaded network.
    ///
    /// # Errors
    /// `Model` when the network does not fit the encoder or the head; `Config` when the capacities do
    /// not fit into the address space.
    pub fn with_encoder(config: &LidarConfig, encoder: E, engine: Box<dyn Engine>) -> Result<Self> {
        config.check_memory()?;
        let dims = encoder.map_dims();
        let head = LidarHead::new(config, &dims, engine.inputs(), engine.outputs())?;
        let map = LidarHead::input(&dims, engine.inputs())?;
        Self::with_input(config, MapInput { encoder, map }, head, engine)
    }
}

impl<N: NetworkInput> CpuDetector<N> {
    /// A detector with a loaded network that fits its input and its head.
    ///
    /// # Errors
    /// `Config` when the capacities do not fit into the address space.
    pub fn with_input(
        config: &LidarConfig,
        input: N,
        head: LidarHead,
        engine: Box<dyn Engine>,
    ) -> Result<Self> {
        config.check_memory()?;
        let facts = &config.facts;
        let num_channels = facts.num_point_channels();
        let voxelize = super::voxelize_params(config);
        let stages = [&STAGES_BEFORE, N::STAGES, &STAGES_AFTER].concat();
        Ok(Self {
            info: super::info(config, &Device::Cpu, engine.name(), &stages),
            config: config.clone(),
            unpack: super::unpack_params(config),
            points: Points::with_capacity(num_channels, config.point_capacity),
            densification: Densification::new(config),
            voxelize,
            voxelization: voxelize::Workspace::new(&facts.grid, config.point_capacity),
            voxels: Voxels::new(&voxelize),
            input,
            engine,
            head,
            postprocess: Postprocess3d::new(
                config.candidate_capacity,
                config.pre_nms_top_k,
                &config.nms,
                config.max_detections,
            ),
            in_flight: SingleFrame::none(),
        })
    }
}

impl<N: NetworkInput> Detector for CpuDetector<N> {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn num_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.in_flight.check_free()?;
        let Self { points, voxels, input, engine, head, postprocess, .. } = self;
        let (frame, others) = &frame.split_at(self.config.clouds.num_inputs);
        let pose = placing::pose_of(frame, &self.config.clouds)?;
        postprocess.candidates.clear();

        report.time(Stage::Unpack, || points.clear());
        for index in placing::present(frame)? {
            let cloud = frame.cloud(index)?;
            let placement = placing::placement(frame, index, &self.config.clouds)?;
            let counts =
                report.time(Stage::Unpack, || append(cloud, &self.unpack, &placement, points));
            let mut counts = counts.map_err(|error| placing::of_input(frame, index, error))?;
            counts.num_without_time += placing::num_without_time(frame, index, &self.config.clouds);
            placing::add_counts(report, &counts);
            if frame.inputs.len() > 1 {
                report.set_cloud(index, counts);
            }
        }

        let points = match &mut self.densification {
            Some(densification) => densification.merge(points, frame.stamp, pose, report)?,
            None => points,
        };

        let grouped = report.time(Stage::Voxelize, || {
            voxelize(points, &self.voxelize, &mut self.voxelization, voxels)
        })?;
        report.add_count(Count::PointsOutOfRange, grouped.num_out_of_range);
        report.add_count(Count::PointsOverVoxel, grouped.num_points_over_voxel);
        report.add_count(Count::PointsOverVoxelCapacity, grouped.num_points_over_voxel_capacity);
        report.add_count(Count::VoxelsOverCapacity, grouped.num_voxels_over_capacity);

        input.receive(others, report)?;
        input.write(points, voxels, report)?;
        if grouped.num_voxels > 0 {
            report.time(Stage::Infer, || input.run(engine.as_mut()))?;
            report.time(Stage::Decode, || {
                input.decode(engine.as_ref(), head, &mut postprocess.candidates)
            })?;
        }
        self.in_flight.mark_submitted(());
        Ok(())
    }

    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>> {
        self.in_flight.end()?;
        Ok(Detections::Boxes3d(self.postprocess.run(report)?))
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        let config = lidar_of(config)?;
        self.head.reconfigure(config);
        self.postprocess.set(config.pre_nms_top_k, &config.nms, config.max_detections);
        if let Some(densification) = &mut self.densification {
            densification.max_age_s = f64::from(config.densification.max_sweep_age_s);
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        if let Some(densification) = &mut self.densification {
            densification.sweeps.clear();
        }
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        let config = self.config.clone();
        with_empty_frame(&config, |frame| self.detect(frame, &mut FrameReport::new()).map(drop))?;
        self.reset()
    }
}

/// Past sweeps, and the memory for merging them.
struct Densification {
    sweeps: Sweeps,
    merged: Points,
    time_lag_channel: Option<usize>,
    max_age_s: f64,
}

impl Densification {
    /// `None` if the configuration has no past sweeps.
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

    /// Merges past sweeps with the current one, and keeps the current one for the next
    /// frames. Returns only the current one if its pose is unknown.
    fn merge<'a>(
        &'a mut self,
        current: &'a Points,
        stamp: Stamp,
        world_from_sensor: Option<&Isometry3<f64>>,
        report: &mut FrameReport,
    ) -> Result<&'a Points> {
        let Some(world_from_sensor) = world_from_sensor else {
            report.add_count(Count::SweepsDropped, self.sweeps.len());
            return Ok(current);
        };
        let counts = report.time(Stage::Densify, || {
            let counts = densify(
                current,
                stamp,
                world_from_sensor,
                &self.sweeps,
                self.time_lag_channel,
                self.max_age_s,
                &mut self.merged,
            )?;
            self.sweeps.push(current, stamp, world_from_sensor);
            Ok::<_, Error>(counts)
        })?;
        report.add_count(Count::SweepsDropped, counts.num_sweeps_dropped);
        report.add_count(Count::PointsOverCapacity, counts.num_points_over_capacity);
        report.add_count(Count::PointsNotFinite, counts.num_points_not_finite);
        Ok(&self.merged)
    }
}
