//! Cameras and LiDAR on a GPU: images, points and maps stay there.

use std::path::Path;

use super::files::{self, Files, Places};
use super::geometry::Geometry;
use super::{Branch, map_places};
use crate::config::LidarConfig;
use crate::detectors::FrameSet;
use crate::detectors::frame_stream::{FrameInProgress, add_copies};
use crate::detectors::lidar::{self, DeviceMapEncoder, EncoderIo, LidarHead};
use crate::detectors::surround::{Cameras, CudaImages};
use crate::detectors::voxels::DeviceVoxelMap;
use det_post_infer::device::{DeviceEngine, fixed_shape};
use det_post_infer::sparse::Plan;
use det_post_ops::cloud::DevicePoints;
use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, Stream};
use det_post_ops::image::resample::SampleMap;
use det_post_ops::image::resample::cuda::DeviceMap;
use det_post_ops::view::bev_pool::cuda::Workspace as Pool;
use det_post_ops::view::depth_image::cuda::Workspace as DepthImages;
use det_post_types::{
    ElementType, Error, ErrorKind, FrameReport, JpegOptions, NetworkPart, Resize, Result, Stage,
    TensorSpec,
};

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
        let options = branch.head_options();
        let mut engine = DeviceEngine::load(&config.model_path, &options, stream, fixed_shape)?;
        let head = LidarHead::of_outputs(config, engine.outputs())?;
        head.stage(&mut engine)?;
        let mut behind = BehindMaps::load(branch, &engine, stream)?;
        Self::with_head(config, stream, head, engine, |points, engine, counters| {
            let (reader, of_points) = match &mut behind {
                BehindMaps::Head([of_points, _]) => (engine, *of_points),
                BehindMaps::Fuser(fuser) => (&mut fuser.engine, fuser.places[0]),
            };
            let layout = reader.input_layout(of_points);
            let map = reader.input(of_points)?;
            let ends = EncoderIo { points, map, layout, counters };
            let encoder = DeviceVoxelMap::new(config, plan, ends)?;
            let branch = DeviceCameraMap::load(config, branch, stream)?;
            Ok(DeviceFusedInput { encoder, branch, behind })
        })
    }
}

/// The maps of the points and of the cameras.
pub struct DeviceFusedInput {
    encoder: DeviceVoxelMap,
    branch: DeviceCameraMap,
    behind: BehindMaps,
}

/// What reads the two maps.
enum BehindMaps {
    /// The network that gives the proposals: the places of the maps of points and cameras among its inputs.
    Head([usize; 2]),
    /// Networks in front of it.
    Fuser(Box<Fuser>),
}

/// From the two maps to the input of the head.
struct Fuser {
    transform: DeviceEngine,
    engine: DeviceEngine,
    /// Of the maps of points and cameras among the inputs of `engine`.
    places: [usize; 2],
}

impl BehindMaps {
    fn load(branch: &Branch<'_>, head: &DeviceEngine, stream: &Stream) -> Result<Self> {
        let Some(files) = &branch.files else { return map_places(head.inputs()).map(Self::Head) };
        let options = branch.options(NetworkPart::Whole);
        let load = |path: &Path| DeviceEngine::load(path, &options, stream, fixed_shape);
        let transform = load(&files.paths.camera_transform_path)?;
        let engine = load(&files.paths.fuser_path)?;
        let places = files::places_of_maps(engine.inputs())?;
        Ok(Self::Fuser(Box::new(Fuser { transform, engine, places })))
    }
}

/// From images to the map of the cameras.
struct DeviceCameraMap {
    stream: Stream,
    cameras: Cameras<DeviceMap>,
    resize: Resize,
    images: CudaImages,
    networks: CameraNetworks,
    geometry: Geometry,
    /// Where the network takes them.
    depth_images: Option<DepthImages>,
    pool: Pool,
}

/// From images, and images of depths, to depths and features of pixels.
enum CameraNetworks {
    /// By the features of images.
    Two { backbone: Box<DeviceEngine>, network: Box<DeviceEngine> },
    /// At once.
    One(Box<OneNetwork>),
}

/// A network of images and images of depths, whose inputs may have a dimension more than these.
struct OneNetwork {
    network: DeviceEngine,
    places: Places,
    images: DeviceTensor,
    depth_images: DeviceTensor,
}

impl CameraNetworks {
    fn load(config: &LidarConfig, branch: &Branch<'_>, stream: &Stream) -> Result<Self> {
        if let Some(files) = &branch.files {
            let one = OneNetwork::load(files, branch, stream)?;
            return Ok(Self::One(Box::new(one)));
        }
        let shape = branch.images_shape();
        let of_images = |_: &TensorSpec| Ok(shape.to_vec());
        let backbone = &branch.config.image_backbone_path;
        let mut backbone =
            DeviceEngine::load(backbone, &branch.backbone_options(), stream, of_images)?;
        branch.check_backbone(backbone.inputs(), backbone.outputs())?;
        check_shape(backbone.input(0)?.shape(), &shape)?;
        check_shape(backbone.output(0)?.shape(), &branch.features_shape())?;
        let network =
            DeviceEngine::load(&config.model_path, &branch.camera_options(), stream, fixed_shape)?;
        Ok(Self::Two { backbone: Box::new(backbone), network: Box::new(network) })
    }

    /// The images of the cameras, `[N, 3, H, W]`.
    fn images(&mut self) -> Result<&mut DeviceTensor> {
        match self {
            Self::Two { backbone, .. } => backbone.input(0),
            Self::One(one) => Ok(&mut one.images),
        }
    }

    /// Queues what needs no points.
    fn receive(&mut self) -> Result<()> {
        match self {
            Self::Two { backbone, .. } => backbone.enqueue(),
            Self::One(_) => Ok(()),
        }
    }

    /// Queues the networks, with images of depths that `write` queues; depths and features of pixels.
    fn enqueue(
        &mut self,
        write: impl FnOnce(&mut DeviceTensor) -> Result<()>,
        takes_depth_images: bool,
    ) -> Result<[&DeviceTensor; 2]> {
        match self {
            Self::Two { backbone, network } => {
                network.input(0)?.enqueue_copy(backbone.output(0)?)?;
                if takes_depth_images {
                    write(network.input(1)?)?;
                }
                network.enqueue()?;
                Ok([network.output(0)?, network.output(1)?])
            }
            Self::One(one) => {
                let OneNetwork { network, places, images, depth_images } = &mut **one;
                write(depth_images)?;
                let [of_images, of_depths] = places.inputs;
                network.input(of_images)?.enqueue_copy(images)?;
                network.input(of_depths)?.enqueue_copy(depth_images)?;
                network.enqueue()?;
                let [depths, features] = places.outputs;
                Ok([network.output(depths)?, network.output(features)?])
            }
        }
    }

    fn add_to_report(&self, report: &mut FrameReport) {
        match self {
            Self::Two { backbone, network } => {
                add_copies(report, Stage::Encode, backbone);
                add_copies(report, Stage::Infer, network);
            }
            Self::One(one) => add_copies(report, Stage::Infer, &one.network),
        }
    }
}

impl OneNetwork {
    fn load(files: &Files<'_>, branch: &Branch<'_>, stream: &Stream) -> Result<Self> {
        let path = &branch.config.image_backbone_path;
        let options = branch.options(NetworkPart::Whole);
        let network = DeviceEngine::load(path, &options, stream, |input| match &*input.name {
            "img" => Ok(files.images.clone()),
            _ => Ok(files.depth_images.clone()),
        })?;
        let places = files::places(network.inputs(), network.outputs())?;
        let shape @ [num, _, height, width] = branch.images_shape();
        let zeros = |shape: &[usize]| DeviceTensor::zeros(stream, ElementType::F32, shape);
        Ok(Self {
            network,
            places,
            images: zeros(&shape)?,
            depth_images: zeros(&[num, 1, height, width])?,
        })
    }
}

impl DeviceCameraMap {
    fn load(config: &LidarConfig, branch: &Branch<'_>, stream: &Stream) -> Result<Self> {
        let geometry = Geometry::new(branch, config.facts.grid.range());
        let pool = Pool::new(stream, &geometry.first_table()?, branch.network.num_channels)?;
        let num_cameras = branch.config.facts.num_cameras;
        let takes_depth_images = branch.network.takes_depth_images;
        Ok(Self {
            stream: stream.clone(),
            cameras: Cameras::with_params(branch.cameras(), num_cameras),
            resize: branch.resize(),
            images: CudaImages::new(
                stream,
                num_cameras,
                &JpegOptions::default(),
                branch.resample(),
            )?,
            networks: CameraNetworks::load(config, branch, stream)?,
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
        let Self { stream, cameras, resize, images, networks, geometry, pool, .. } = self;
        cameras.update(frame, |view, before| {
            DeviceMap::replacing(before, stream, &SampleMap::of_view(view, *resize)?)
        })?;
        if let Some(table) = geometry.update(cameras.matrices())? {
            pool.set_table(&table)?;
        }
        images.enqueue(frame, cameras, running, networks.images()?)?;
        networks.receive()
    }

    /// Queues the map of the cameras, which is written to an input of the network behind it.
    fn enqueue(
        &mut self,
        points: &DevicePoints,
        (engine, place): (&mut DeviceEngine, usize),
    ) -> Result<()> {
        let Self { networks, geometry, depth_images, pool, .. } = self;
        let takes_depth_images = depth_images.is_some();
        let write = |images: &mut DeviceTensor| match depth_images {
            Some(kernels) => kernels.enqueue(points, geometry.depth_images(), images),
            None => Ok(()),
        };
        let [depths, features] = networks.enqueue(write, takes_depth_images)?;
        pool.enqueue_present(geometry.is_present())?;
        pool.enqueue(depths, features, engine.input(place)?)
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
        let fuser = match &mut self.behind {
            BehindMaps::Head([_, of_cameras]) => {
                self.branch.enqueue(points, (engine, *of_cameras))?;
                return engine.enqueue();
            }
            BehindMaps::Fuser(fuser) => fuser,
        };
        let Fuser { transform, engine: network, places: [_, of_cameras] } = &mut **fuser;
        self.branch.enqueue(points, (transform, 0))?;
        transform.enqueue()?;
        network.input(*of_cameras)?.enqueue_copy(transform.output(0)?)?;
        network.enqueue()?;
        engine.input(0)?.enqueue_copy(network.output(0)?)?;
        engine.enqueue()
    }

    fn num_voxels(&self) -> &DeviceBuffer<u32> {
        self.encoder.num_voxels()
    }

    fn add_to_report(&mut self, report: &mut FrameReport) {
        self.encoder.add_to_report(report);
        self.branch.networks.add_to_report(report);
        if let BehindMaps::Fuser(fuser) = &self.behind {
            add_copies(report, Stage::Infer, &fuser.transform);
            add_copies(report, Stage::Infer, &fuser.engine);
        }
    }
}
