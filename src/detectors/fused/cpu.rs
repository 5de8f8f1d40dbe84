//! Cameras and LiDAR on the CPU.

use super::files::{self, Files, Places};
use super::geometry::Geometry;
use super::{Branch, map_places};
use crate::config::LidarConfig;
use crate::detectors::FrameSet;
use crate::detectors::lidar::{self, LidarHead, MapEncoder, NetworkInput};
use crate::detectors::surround::{Cameras, CpuImages};
use crate::detectors::voxels::{VoxelMap, map_dims};
use det_post_infer::Engine;
use det_post_infer::sparse::Plan;
use det_post_ops::cloud::voxelize::Voxels;
use det_post_ops::image::resample::SampleMap;
use det_post_ops::view::bev_pool::{PoolInputs, PoolTable, bev_pool};
use det_post_ops::view::depth_image::depth_image;
use det_post_types::{
    ElementType, FrameReport, NetworkPart, Points, Resize, Result, Stage, Tensor, TensorView,
};

/// Detects objects in a cloud and images on the CPU.
pub type CpuDetector = lidar::CpuDetector<FusedInput>;

impl CpuDetector {
    /// Loads the networks of a channel with an encoder.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &LidarConfig, plan: Plan, branch: &Branch<'_>) -> Result<Self> {
        let engine = det_post_infer::load(&config.model_path, &branch.head_options())?;
        let head = LidarHead::of_outputs(config, engine.outputs())?;
        let input = FusedInput::load(config, plan, branch, engine.as_ref())?;
        Self::with_input(config, input, head, engine)
    }
}

/// The maps of the points and of the cameras.
pub struct FusedInput {
    encoder: VoxelMap,
    map: Tensor,
    branch: CameraMap,
    behind: BehindMaps,
}

/// What reads the two maps.
enum BehindMaps {
    /// The network that gives the proposals: the places of the maps of points and cameras among its inputs.
    Head([usize; 2]),
    /// Networks in front of it.
    Fuser(Fuser),
}

/// From the two maps to the input of the head.
struct Fuser {
    transform: Box<dyn Engine>,
    engine: Box<dyn Engine>,
    /// Of the maps of points and cameras among the inputs of `engine`.
    places: [usize; 2],
}

/// From images to the map of the cameras.
struct CameraMap {
    cameras: Cameras<SampleMap>,
    resize: Resize,
    images: CpuImages,
    networks: CameraNetworks,
    geometry: Geometry,
    table: PoolTable,
    /// Where the network takes them.
    depth_images: Option<Tensor>,
    map: Tensor,
}

/// From images, and images of depths, to depths and features of pixels.
enum CameraNetworks {
    /// By the features of images.
    Two { backbone: Box<dyn Engine>, network: Box<dyn Engine> },
    /// At once.
    One { network: Box<dyn Engine>, places: Places, shapes: [Vec<usize>; 2] },
}

impl FusedInput {
    fn load(
        config: &LidarConfig,
        plan: Plan,
        branch: &Branch<'_>,
        engine: &dyn Engine,
    ) -> Result<Self> {
        let dims = map_dims(&plan);
        let (behind, shape) = match &branch.files {
            Some(files) => {
                let fuser = Fuser::load(files, branch)?;
                (BehindMaps::Fuser(fuser), plan.network().map_shape())
            }
            None => {
                let places = map_places(engine.inputs())?;
                let shape = LidarHead::input_shape(&dims, &engine.inputs()[places[0]])?;
                (BehindMaps::Head(places), shape)
            }
        };
        Ok(Self {
            encoder: VoxelMap::new(config, plan)?,
            map: Tensor::zeros(ElementType::F32, &shape)?,
            branch: CameraMap::load(config, branch)?,
            behind,
        })
    }
}

impl Fuser {
    fn load(files: &Files<'_>, branch: &Branch<'_>) -> Result<Self> {
        let options = branch.options(NetworkPart::Whole);
        let transform = det_post_infer::load(&files.paths.camera_transform_path, &options)?;
        let engine = det_post_infer::load(&files.paths.fuser_path, &options)?;
        let places = files::places_of_maps(engine.inputs())?;
        Ok(Self { transform, engine, places })
    }

    /// Runs the networks on the maps of points and cameras.
    fn run(&mut self, points: TensorView<'_>, cameras: TensorView<'_>) -> Result<()> {
        self.transform.run(&[cameras])?;
        let mut inputs = [TensorView::default(); 2];
        let maps = [points, self.transform.output(0)?];
        for (place, map) in self.places.into_iter().zip(maps) {
            inputs[place] = map;
        }
        self.engine.run(&inputs)
    }
}

impl CameraNetworks {
    fn load(config: &LidarConfig, branch: &Branch<'_>) -> Result<Self> {
        let path = &branch.config.image_backbone_path;
        if let Some(files) = &branch.files {
            let network = det_post_infer::load(path, &branch.options(NetworkPart::Whole))?;
            let places = files::places(network.inputs(), network.outputs())?;
            let shapes = [files.images.clone(), files.depth_images.clone()];
            return Ok(Self::One { network, places, shapes });
        }
        let backbone = det_post_infer::load(path, &branch.backbone_options())?;
        branch.check_backbone(backbone.inputs(), backbone.outputs())?;
        let network = det_post_infer::load(&config.model_path, &branch.camera_options())?;
        Ok(Self::Two { backbone, network })
    }

    /// Depths and features of pixels.
    fn run(
        &mut self,
        images: &Tensor,
        depth_images: Option<&Tensor>,
    ) -> Result<[TensorView<'_>; 2]> {
        match self {
            Self::Two { backbone, network } => {
                backbone.run(&[images.view()])?;
                let features = backbone.output(0)?;
                match depth_images {
                    Some(depth_images) => network.run(&[features, depth_images.view()])?,
                    None => network.run(&[features])?,
                }
                Ok([network.output(0)?, network.output(1)?])
            }
            Self::One { network, places, shapes } => {
                let mut inputs = [TensorView::default(); 2];
                let given = [Some(images), depth_images];
                for ((place, shape), tensor) in places.inputs.into_iter().zip(shapes).zip(given) {
                    let values = tensor.map_or(TensorView::default(), Tensor::view).values();
                    inputs[place] = TensorView::new(shape, values)?;
                }
                network.run(&inputs)?;
                let [depths, features] = places.outputs;
                Ok([network.output(depths)?, network.output(features)?])
            }
        }
    }
}

impl CameraMap {
    fn load(config: &LidarConfig, branch: &Branch<'_>) -> Result<Self> {
        let facts = branch.config.facts;
        let geometry = Geometry::new(branch, config.facts.grid.range());
        let table = geometry.first_table()?;
        let num_cameras = facts.num_cameras;
        let shape = geometry.depth_images().shape();
        let depth_images = branch.network.takes_depth_images;
        let depth_images = depth_images.then(|| Tensor::zeros(ElementType::F32, &shape));
        Ok(Self {
            cameras: Cameras::with_params(branch.cameras(), num_cameras),
            resize: branch.resize(),
            images: CpuImages::new(num_cameras, facts.input_size, branch.resample())?,
            networks: CameraNetworks::load(config, branch)?,
            map: Tensor::zeros(
                ElementType::F32,
                &table.map().of_channels(branch.network.num_channels),
            )?,
            geometry,
            table,
            depth_images: depth_images.transpose()?,
        })
    }

    /// Takes the images of a frame, and what follows from their calibrations.
    fn receive(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        let Self { cameras, resize, images, geometry, table, .. } = self;
        cameras.update(frame, |view, _| SampleMap::of_view(view, *resize))?;
        if let Some(changed) = geometry.update(cameras.matrices())? {
            *table = changed;
        }
        images.write(frame, cameras, report)
    }

    /// Writes the map.
    fn write(&mut self, points: &Points) -> Result<()> {
        let Self { images, networks, geometry, table, depth_images, map, .. } = self;
        if let Some(images) = depth_images {
            depth_image(points, geometry.depth_images(), images)?;
        }
        let [depth, features] = networks.run(images.input(), depth_images.as_ref())?;
        let inputs = PoolInputs { depth, features, present: Some(geometry.is_present()) };
        bev_pool(&inputs, table, map)
    }
}

impl NetworkInput for FusedInput {
    const STAGES: &'static [Stage] =
        &[Stage::Decompress, Stage::Letterbox, Stage::VoxelMean, Stage::Encode];

    fn receive(&mut self, others: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.branch.receive(others, report)
    }

    fn write(&mut self, points: &Points, voxels: &Voxels, report: &mut FrameReport) -> Result<()> {
        self.encoder.encode(points, voxels, &mut self.map, report)?;
        if voxels.is_empty() {
            return Ok(());
        }
        let Self { map, branch, behind, .. } = self;
        report.time(Stage::Encode, || branch.write(points))?;
        match behind {
            BehindMaps::Head(_) => Ok(()),
            BehindMaps::Fuser(fuser) => {
                report.time(Stage::Infer, || fuser.run(map.view(), branch.map.view()))
            }
        }
    }

    fn run(&self, engine: &mut dyn Engine) -> Result<()> {
        let places = match &self.behind {
            BehindMaps::Head(places) => places,
            BehindMaps::Fuser(fuser) => return engine.run(&[fuser.engine.output(0)?]),
        };
        let mut inputs = [TensorView::default(); 2];
        let maps = [self.map.view(), self.branch.map.view()];
        for (&place, map) in places.iter().zip(maps) {
            inputs[place] = map;
        }
        engine.run(&inputs)
    }
}
