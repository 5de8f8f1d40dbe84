//! Cameras and LiDAR on a GPU: images, points and maps stay there.

use super::geometry::Geometry;
use super::{Branch, RESIZE, map_places};
use crate::config::LidarConfig;
use crate::detectors::FrameSet;
use crate::detectors::frame_stream::{FrameInProgress, add_copies};
use crate::detectors::lidar::{self, DeviceMapEncoder, EncoderIo, LidarHead};
use crate::detectors::surround::{Cameras, CudaImages};
use crate::detectors::voxels::DeviceVoxelMap;
use det_post_infer::device::{DeviceEngine, fixed_shape};
use det_post_infer::sparse::Plan;
use det_post_ops::cloud::DevicePoints;
use det_post_ops::device::cuda::{DeviceBuffer, Stream};
use det_post_ops::image::resample::SampleMap;
use det_post_ops::image::resample::cuda::DeviceMap;
use det_post_ops::view::bev_pool::cuda::Workspace as Pool;
use det_post_ops::view::depth_image::cuda::Workspace as DepthImages;
use det_post_types::{Error, ErrorKind, FrameReport, JpegOptions, Result, Stage, TensorSpec};

/// Detects objects in a cloud and images on a GPU.
pub type CudaDetector = lidar::CudaDetector<DeviceFusedInput>;

impl CudaDetector {
    /// Loads the networks of a channel with an encoder for `stream`, on which the frames run.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(
        config: &LidarConfig,
        plan: Plan,
        branch: &Branch<'_>,
        stream: &Stream,
    ) -> Result<Self> {
        let options = &config.engine;
        let mut engine = DeviceEngine::load(&config.model_path, options, stream, fixed_shape)?;
        let head = LidarHead::of_outputs(config, engine.outputs())?;
        head.stage(&mut engine)?;
        let places = map_places(engine.inputs())?;
        Self::with_head(config, stream, head, engine, |points, engine, counters| {
            let [of_points, of_cameras] = places;
            let layout = engine.input_layout(of_points);
            let map = engine.input(of_points)?;
            let ends = EncoderIo { points, map, layout, counters };
            let encoder = DeviceVoxelMap::new(config, plan, ends)?;
            let branch = DeviceCameraMap::load(config, branch, stream)?;
            Ok(DeviceFusedInput { encoder, branch, of_cameras })
        })
    }
}

/// The maps of the points and of the cameras.
pub struct DeviceFusedInput {
    encoder: DeviceVoxelMap,
    branch: DeviceCameraMap,
    /// The place of the map of the cameras among the inputs of the network behind the maps.
    of_cameras: usize,
}

/// From images to the map of the cameras.
struct DeviceCameraMap {
    stream: Stream,
    cameras: Cameras<DeviceMap>,
    images: CudaImages,
    backbone: DeviceEngine,
    network: DeviceEngine,
    geometry: Geometry,
    /// Where the network takes them.
    depth_images: Option<DepthImages>,
    pool: Pool,
}

impl DeviceCameraMap {
    fn load(config: &LidarConfig, branch: &Branch<'_>, stream: &Stream) -> Result<Self> {
        let cameras = branch.config;
        let shape = branch.images_shape();
        let of_images = |_: &TensorSpec| Ok(shape.to_vec());
        let backbone = &cameras.image_backbone_path;
        let mut backbone =
            DeviceEngine::load(backbone, &branch.backbone_options(), stream, of_images)?;
        branch.check_backbone(backbone.inputs(), backbone.outputs())?;
        check_shape(backbone.input(0)?.shape(), &shape)?;
        check_shape(backbone.output(0)?.shape(), &branch.features_shape())?;
        let network =
            DeviceEngine::load(&config.model_path, &branch.camera_options(), stream, fixed_shape)?;
        let geometry = Geometry::new(branch, config.facts.grid.range());
        let pool = Pool::new(stream, &geometry.first_table()?, branch.network.num_channels)?;
        let num_cameras = cameras.facts.num_cameras;
        let takes_depth_images = branch.network.takes_depth_images;
        Ok(Self {
            stream: stream.clone(),
            cameras: Cameras::with_params(branch.cameras(), num_cameras),
            images: CudaImages::new(
                stream,
                num_cameras,
                &JpegOptions::default(),
                branch.resample(),
            )?,
            backbone,
            network,
            geometry,
            depth_images: takes_depth_images.then(|| DepthImages::new(stream)).transpose()?,
            pool,
        })
    }

    /// Queues the images of a frame and their backbone, and takes what follows from their calibrations.
    fn receive<'env>(
        &mut self,
        frame: &FrameSet<'env>,
        running: &mut FrameInProgress<'_, 'env>,
    ) -> Result<()> {
        let Self { stream, cameras, images, backbone, geometry, pool, .. } = self;
        cameras.update(frame, |view, before| {
            DeviceMap::replacing(before, stream, &SampleMap::of_view(view, RESIZE)?)
        })?;
        if let Some(table) = geometry.update(cameras.matrices())? {
            pool.set_table(&table)?;
        }
        images.enqueue(frame, cameras, running, backbone.input(0)?)?;
        backbone.enqueue()
    }

    /// Queues the map of the cameras, which is written to an input of the network behind it.
    fn enqueue(
        &mut self,
        points: &DevicePoints,
        (engine, place): (&mut DeviceEngine, usize),
    ) -> Result<()> {
        let Self { backbone, network, geometry, depth_images, pool, .. } = self;
        network.input(0)?.enqueue_copy(backbone.output(0)?)?;
        if let Some(depth_images) = depth_images {
            depth_images.enqueue(points, geometry.depth_images(), network.input(1)?)?;
        }
        network.enqueue()?;
        pool.enqueue_present(geometry.is_present())?;
        pool.enqueue(network.output(0)?, network.output(1)?, engine.input(place)?)
    }
}

/// Refuses tensors of another shape.
fn check_shape(found: &[usize], expected: &[usize]) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let message = format!("the backbone has a tensor of {found:?}: {expected:?} is required");
    Err(Error::new(ErrorKind::Model, super::STAGE, message))
}

impl DeviceMapEncoder for DeviceFusedInput {
    const STAGES: &'static [Stage] = &[Stage::Letterbox, Stage::Encode];
    const HOST_STAGES: &'static [Stage] = &[Stage::Decompress];
    // One copy of each network's inputs and outputs.
    const CAN_PIPELINE: bool = false;

    fn receive<'env>(
        &mut self,
        others: &FrameSet<'env>,
        running: &mut FrameInProgress<'_, 'env>,
    ) -> Result<()> {
        self.branch.receive(others, running)
    }

    fn enqueue(&mut self, running: &mut FrameInProgress<'_, '_>) -> Result<()> {
        self.encoder.enqueue(running)
    }

    fn enqueue_network(&mut self, engine: &mut DeviceEngine, points: &DevicePoints) -> Result<()> {
        self.branch.enqueue(points, (engine, self.of_cameras))?;
        engine.enqueue()
    }

    fn num_voxels(&self) -> &DeviceBuffer<u32> {
        self.encoder.num_voxels()
    }

    fn add_to_report(&mut self, report: &mut FrameReport) {
        self.encoder.add_to_report(report);
        add_copies(report, Stage::Encode, &self.branch.backbone);
        add_copies(report, Stage::Infer, &self.branch.network);
    }
}
