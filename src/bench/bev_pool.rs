//! `bev_pool`: six cameras of BEVFusion for nuScenes, maps of 88x32, 118 depths, 80 channels.

use half::f16;

use super::case::Case;
#[cfg(feature = "cuda")]
use super::case::{Bar, gpu};
use super::inputs::Random;
use super::measure::Bench;
use det_post_ops::device::Device;
use det_post_ops::view::bev_pool::{
    CellAxis, DepthBins, Frustum, IDENTITY, MapRows, PoolCamera, PoolGeometry, PoolGrid,
    PoolInputs, PoolTable, bev_pool,
};
use det_post_types::ElementType::{self, F16, F32};
use det_post_types::{Result, Size, Tensor};

const NUM_CAMERAS: usize = 6;
const IMAGE: Size = Size { width: 704, height: 256 };
const MAP: Size = Size { width: 88, height: 32 };
const NUM_CHANNELS: usize = 80;
/// The time to reach: twice a read of a feature in f32 for each point at 10 TB/s, from L2. In f16 there are as many
/// reads.
#[cfg(feature = "cuda")]
const BAR: Option<Bar> = gpu(None, 120.0);

fn name(element: ElementType) -> String {
    format!("bev_pool 6 of 88x32, 118 depths, 80 channels to 360x360 {element}")
}

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    for element in [F32, F16] {
        if !bench.wants(&name(element)) {
            continue;
        }
        let scene = Scene::new(element)?;
        let case = Case::new(name(element));
        match device {
            Device::Cpu => on_cpu(bench, case, &scene)?,
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => on_cuda(bench, case, device, &scene)?,
        }
    }
    Ok(())
}

/// What a network gives for a frame, and the table of its cameras.
struct Scene {
    table: PoolTable,
    depth: Tensor,
    features: Tensor,
}

impl Scene {
    fn new(element: ElementType) -> Result<Self> {
        let table = table()?;
        let (rows, columns) = (MAP.height as usize, MAP.width as usize);
        let num_depths = table.frustum().num_depths;
        let mut random = Random::new(19);
        let mut tensor = |shape: [usize; 4], low: f32, high: f32| {
            let values = (0..shape.iter().product()).map(|_| random.range(low, high));
            match element {
                F16 => {
                    Tensor::F16 { shape: shape.into(), values: values.map(f16::from_f32).collect() }
                }
                _ => Tensor::F32 { shape: shape.into(), values: values.collect() },
            }
        };
        let depth = tensor([NUM_CAMERAS, num_depths, rows, columns], 0.0, 0.02);
        let features = tensor([NUM_CAMERAS, rows, columns, NUM_CHANNELS], -1.0, 1.0);
        Ok(Self { table, depth, features })
    }

    fn map(&self) -> Result<Tensor> {
        let shape = self.table.map().of_channels(NUM_CHANNELS);
        Tensor::zeros(self.depth.element(), &shape)
    }
}

/// Cameras 60 degrees apart, each 70 degrees wide, as `benches/peers/bev_pool_torch.py` has them.
fn table() -> Result<PoolTable> {
    let [width, height] = [IMAGE.width, IMAGE.height].map(f64::from);
    let focal = 0.5 * width / 35.0_f64.to_radians().tan();
    let camera = |index: usize| {
        let (sin, cos) = (60.0 * index as f64).to_radians().sin_cos();
        PoolCamera {
            intrinsics: [[focal, 0.0, 0.5 * width], [0.0, focal, 0.5 * height], [0.0, 0.0, 1.0]],
            network_from_image: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
            grid_from_camera: [
                [sin, 0.0, cos, 0.8 * cos],
                [-cos, 0.0, sin, 0.8 * sin],
                [0.0, -1.0, 0.0, 1.5],
            ],
        }
    };
    let cameras: Vec<_> = (0..NUM_CAMERAS).map(camera).collect();
    let along = CellAxis { min_m: -54.0, max_m: 54.0, cell_m: 0.3 };
    let z = CellAxis { min_m: -10.0, max_m: 10.0, cell_m: 20.0 };
    PoolTable::new(&PoolGeometry {
        frustum: Frustum { image: IMAGE, map: MAP, depths: DepthBins::below(1.0, 60.0, 0.5)? },
        grid: PoolGrid { x: along, y: along, z, rows: MapRows::X },
        cameras: &cameras,
        augmentation: IDENTITY,
    })
}

fn on_cpu(bench: &mut Bench<'_>, case: Case, scene: &Scene) -> Result<()> {
    let mut map = scene.map()?;
    let inputs =
        PoolInputs { depth: scene.depth.view(), features: scene.features.view(), present: None };
    bench.host(case, || bev_pool(&inputs, &scene.table, &mut map))
}

#[cfg(feature = "cuda")]
fn on_cuda(
    bench: &mut Bench<'_>,
    case: Case,
    device: &det_post_ops::device::cuda::CudaDevice,
    scene: &Scene,
) -> Result<()> {
    use super::decode::cuda::on_device;
    use det_post_ops::view::bev_pool::cuda::Workspace;

    let stream = &device.stream()?;
    let [depth, features] = [&scene.depth, &scene.features];
    let [depth, features] = [on_device(stream, depth)?, on_device(stream, features)?];
    let mut map = on_device(stream, &scene.map()?)?;
    let mut workspace = Workspace::new(stream, &scene.table, NUM_CHANNELS)?;
    let case = case.with_bar(BAR);
    bench.recorded(case, stream, || workspace.enqueue(&depth, &features, &mut map))
}
