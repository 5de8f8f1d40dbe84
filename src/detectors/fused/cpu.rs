//! Cameras and LiDAR on the CPU.

use super::geometry::Geometry;
use super::{Branch, RESIZE, map_places};
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
use det_post_types::{ElementType, FrameReport, Points, Result, Stage, Tensor, TensorView};

/// Detects objects in a cloud and images on the CPU.
pub type CpuDetector = lidar::CpuDetector<FusedInput>;

impl CpuDetector {
    /// Loads the networks of a channel with an encoder.
    ///
    /// # Errors
    /// As [`super::open`].
    pub fn load(config: &LidarConfig, plan: Plan, branch: &Branch<'_>) -> Result<Self> {
        let engine = det_post_infer::load(&config.model_path, &config.engine)?;
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
    /// Of the two maps among the inputs of the network behind them.
    places: [usize; 2],
}

/// From images to the map of the cameras.
struct CameraMap {
    cameras: Cameras<SampleMap>,
    images: CpuImages,
    backbone: Box<dyn Engine>,
    network: Box<dyn Engine>,
    geometry: Geometry,
    table: PoolTable,
    /// Where the network takes them.
    depth_images: Option<Tensor>,
    map: Tensor,
}

impl FusedInput {
    fn load(
        config: &LidarConfig,
        plan: Plan,
        branch: &Branch<'_>,
        engine: &dyn Engine,
    ) -> Result<Self> {
        let dims = map_dims(&plan);
        let places = map_places(engine.inputs())?;
        let shape = LidarHead::input_shape(&dims, &engine.inputs()[places[0]])?;
        Ok(Self {
            encoder: VoxelMap::new(config, plan)?,
            map: Tensor::zeros(ElementType::F32, &shape)?,
            branch: CameraMap::load(config, branch)?,
            places,
        })
    }
}

impl CameraMap {
    fn load(config: &LidarConfig, branch: &Branch<'_>) -> Result<Self> {
        let cameras = branch.config;
        let backbone =
            det_post_infer::load(&cameras.image_backbone_path, &branch.backbone_options())?;
        branch.check_backbone(backbone.inputs(), backbone.outputs())?;
        let network = det_post_infer::load(&config.model_path, &branch.camera_options())?;
        let geometry = Geometry::new(branch, config.facts.grid.range());
        let table = geometry.first_table()?;
        let num_cameras = cameras.facts.num_cameras;
        let shape = geometry.depth_images().shape();
        let depth_images = branch.network.takes_depth_images;
        let depth_images = depth_images.then(|| Tensor::zeros(ElementType::F32, &shape));
        Ok(Self {
            cameras: Cameras::with_params(branch.cameras(), num_cameras),
            images: CpuImages::new(num_cameras, cameras.facts.input_size, branch.resample())?,
            backbone,
            network,
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
        let Self { cameras, images, geometry, table, .. } = self;
        cameras.update(frame, |view, _| SampleMap::of_view(view, RESIZE))?;
        if let Some(changed) = geometry.update(cameras.matrices())? {
            *table = changed;
        }
        images.write(frame, cameras, report)
    }

    /// Writes the map.
    fn write(&mut self, points: &Points) -> Result<()> {
        let Self { images, backbone, network, geometry, table, depth_images, map, .. } = self;
        backbone.run(&[images.input().view()])?;
        let features = backbone.output(0)?;
        let mut inputs = [features, TensorView::default()];
        let num_inputs = match depth_images {
            Some(images) => {
                depth_image(points, geometry.depth_images(), images)?;
                inputs[1] = images.view();
                2
            }
            None => 1,
        };
        network.run(&inputs[..num_inputs])?;
        let inputs = PoolInputs {
            depth: network.output(0)?,
            features: network.output(1)?,
            present: Some(geometry.is_present()),
        };
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
        report.time(Stage::Encode, || self.branch.write(points))
    }

    fn run(&self, engine: &mut dyn Engine) -> Result<()> {
        let mut inputs = [TensorView::default(); 2];
        let maps = [self.map.view(), self.branch.map.view()];
        for (place, map) in self.places.into_iter().zip(maps) {
            inputs[place] = map;
        }
        engine.run(&inputs)
    }
}
