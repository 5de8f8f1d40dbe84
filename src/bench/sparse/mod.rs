//! Encoders of sparse convolutions and their parts, on the voxels of scans of several sweeps.

#[cfg(feature = "cuda")]
mod cuda;

use std::collections::HashSet;
use std::path::Path;

use half::f16;

use super::case::Case;
use super::inputs::Random;
use super::measure::Bench;
use det_post_infer::sparse::{CpuEncoder, GridAxes, NetworkBuilder, Plan, SparseNetwork, Weights};
use det_post_ops::cloud::voxelize::{VoxelizeParams, Voxels, Workspace, voxelize};
use det_post_ops::device::Device;
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::rulebook::Geometry;
use det_post_ops::sparse::voxel_mean::voxel_mean;
use det_post_types::{ElementType, Error, ErrorKind, Grid, PointRange, Points, Result, Tensor};

/// Names a file of points, each five f16 (x, y, z, intensity, time lag), whose voxels take the
/// place of the smaller generated scene.
const SCAN_VARIABLE: &str = "DET_POST_BENCH_SCAN";
/// Cells along z, y, x: those of the settings for nuScenes with voxels of 0.075 m.
const SHAPE: [u32; 3] = [41, 1440, 1440];
const VOXEL_SIZE: [f32; 3] = [0.075, 0.075, 0.2];
const RANGE: [f32; 6] = [-54.0, -54.0, -5.0, 54.0, 54.0, 3.0];
const NUM_FEATURES: usize = 5;
/// Voxels of the generated scenes: of ten nuScenes sweeps, and of a dense merge.
const NUM_VOXELS: [usize; 2] = [105_086, 400_000];

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    match device {
        Device::Cpu => encoders_on_cpu(bench),
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => cuda::cases(bench, device),
    }
}

fn encoders_on_cpu(bench: &mut Bench<'_>) -> Result<()> {
    let scene_name = Scene::smaller_name();
    for family in Family::ALL {
        let name = family.case(Precision::F32, &scene_name);
        if !bench.wants(&name) {
            continue;
        }
        let scene = Scene::smaller()?;
        let mut encoder = CpuEncoder::new(family.plan(scene.len())?, Precision::F32, 1)?;
        let mut map = Tensor::zeros(ElementType::F32, &encoder.plan().network().map_shape())?;
        bench.host(Case::new(format!("{name}, 1 thread")), || {
            encoder.run(&scene.coordinates, &scene.features, &mut map).map(drop)
        })?;
    }
    Ok(())
}

/// Voxels: cells (batch, z, y, x) and features.
struct Scene {
    coordinates: Vec<[i32; 4]>,
    features: Vec<f32>,
}

impl Scene {
    fn len(&self) -> usize {
        self.coordinates.len()
    }

    /// What the cases of [`Self::smaller`] call it.
    fn smaller_name() -> String {
        let of = if std::env::var_os(SCAN_VARIABLE).is_some() { "scan" } else { "105k voxels" };
        of.to_owned()
    }

    /// The scan that is named, or a generated scene.
    fn smaller() -> Result<Self> {
        std::env::var_os(SCAN_VARIABLE)
            .map_or_else(|| Ok(Self::generated(NUM_VOXELS[0])), |path| Self::read(Path::new(&path)))
    }

    /// Sweeps of 32 rings that move forward, up to a number of voxels.
    fn generated(num: usize) -> Self {
        let points_per_sweep = num / 8;
        let mut random = Random::new(31);
        let mut seen = HashSet::with_capacity(num);
        let mut scene = Self { coordinates: Vec::new(), features: Vec::new() };
        for i in 0.. {
            if scene.len() == num {
                break;
            }
            let (sweep, place) = (i / points_per_sweep, i % points_per_sweep);
            let ring = (place % 32) as f32 / 32.0;
            let azimuth =
                (place / 32 * 32) as f32 * (std::f32::consts::TAU / points_per_sweep as f32);
            let wall = 0.7 + 0.3 * (7.0 * azimuth + 20.0 * ring).sin();
            let range = 2.5 + 50.0 * ring * wall + random.range(0.0, 0.1);
            let point = [
                range * azimuth.cos() + 0.05 * sweep as f32,
                range * azimuth.sin(),
                -1.8 + 2.0 * ring + random.range(0.0, 0.2),
            ];
            let cell: [i32; 3] = std::array::from_fn(|axis| {
                ((point[axis] - RANGE[axis]) / VOXEL_SIZE[axis]).floor() as i32
            });
            let [x, y, z] = cell;
            if (0..1440).contains(&x) && (0..1440).contains(&y) && seen.insert(cell) {
                scene.coordinates.push([0, z.clamp(0, 39), y, x]);
                scene.features.extend(point);
                scene.features.extend([random.range(0.0, 255.0), 0.05 * (sweep % 10) as f32]);
            }
        }
        scene
    }

    fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|e| {
            Error::new(ErrorKind::Io, "bench", format!("{SCAN_VARIABLE}, {}: {e}", path.display()))
        })?;
        let values = bytes.as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes).to_f32());
        let values: Vec<f32> = values.collect();
        let mut points = Points::with_capacity(NUM_FEATURES, values.len() / NUM_FEATURES);
        for point in values.chunks_exact(NUM_FEATURES) {
            points.push(point);
        }
        let grid = Grid::new(PointRange::from_bounds(RANGE), VOXEL_SIZE)?;
        let params = VoxelizeParams { grid, max_points_per_voxel: 10, voxel_capacity: 160_000 };
        let mut voxels = Voxels::new(&params);
        voxelize(&points, &params, &mut Workspace::new(&grid, points.len()), &mut voxels)?;
        let mut means = Tensor::zeros(ElementType::F32, &[voxels.len(), NUM_FEATURES])?;
        voxel_mean(&points, &voxels, &[], &mut means)?;
        let cell = |&[x, y, z]: &[u32; 3]| [0, z as i32, y as i32, x as i32];
        let coordinates = voxels.coordinates().iter().map(cell).collect();
        let Tensor::F32 { values: features, .. } = means else { return Err(not_f32()) };
        Ok(Self { coordinates, features })
    }
}

fn not_f32() -> Error {
    Error::new(ErrorKind::Argument, "bench", "means of points are not f32")
}

/// OpenPCDet's encoders with random weights.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `VoxelResBackBone8x`: 21 convolutions.
    Res,
    /// `VoxelBackBone8x`: 12.
    Plain,
}

impl Family {
    const ALL: [Self; 2] = [Self::Res, Self::Plain];

    fn case(self, precision: Precision, scene: &str) -> String {
        let family = if self == Self::Res { "res" } else { "plain" };
        let precision = if precision == Precision::F32 { "f32" } else { "f16" };
        format!("sparse encoder {family} {precision}, {scene}")
    }

    fn plan(self, num_voxels: usize) -> Result<Plan> {
        let network = self.network()?;
        let capacities = network.default_capacities(num_voxels);
        Plan::new(network, &capacities)
    }

    fn network(self) -> Result<SparseNetwork> {
        let widths = [16, 32, 64, if self == Self::Res { 128 } else { 64 }];
        let mut builder = NetworkBuilder::new(SHAPE, NUM_FEATURES)?;
        let mut random = Random::new(32);
        let mut layers = Layers { builder: &mut builder, random: &mut random };
        let mut tensor = layers.submanifold(0, 16)?;
        tensor = layers.builder.relu("input", tensor)?;
        for (stage, width) in widths.into_iter().enumerate() {
            if stage > 0 {
                let padding = if stage == 3 { [0, 1, 1] } else { [1; 3] };
                let down = Geometry { kernel: [3; 3], stride: [2; 3], padding, dilation: [1; 3] };
                tensor = layers.strided(tensor, down, width)?;
            }
            let num_blocks = if self == Self::Plain && stage == 0 { 1 } else { 2 };
            for _ in 0..num_blocks {
                tensor = layers.block(self, tensor, width)?;
            }
        }
        let out =
            Geometry { kernel: [3, 1, 1], stride: [2, 1, 1], padding: [0; 3], dilation: [1; 3] };
        tensor = layers.strided(tensor, out, 128)?;
        builder.finish(tensor, GridAxes::Zyx, [0, 1, 2])
    }
}

struct Layers<'a> {
    builder: &'a mut NetworkBuilder,
    random: &'a mut Random,
}

impl Layers<'_> {
    fn weights(&mut self, num_inputs: usize, num_taps: usize, num_outputs: usize) -> Weights {
        let bound = (6.0 / (num_inputs * num_taps.min(8)) as f32).sqrt();
        let weight =
            (0..num_outputs * num_taps * num_inputs).map(|_| self.random.range(-bound, bound));
        Weights { num_outputs, weight: weight.collect(), bias: None }
    }

    fn submanifold(&mut self, input: usize, width: usize) -> Result<usize> {
        let weights = self.weights(self.builder.channels_of(input), 27, width);
        self.builder.submanifold("submanifold", input, [3; 3], [1; 3], weights)
    }

    fn strided(&mut self, input: usize, geometry: Geometry, width: usize) -> Result<usize> {
        let num_inputs = self.builder.channels_of(input);
        let weights = self.weights(num_inputs, geometry.num_taps(), width);
        let output = self.builder.strided("strided", input, geometry, weights)?;
        self.builder.relu("strided relu", output)
    }

    fn block(&mut self, family: Family, input: usize, width: usize) -> Result<usize> {
        let first = self.submanifold(input, width)?;
        let first = self.builder.relu("first relu", first)?;
        if family == Family::Plain {
            return Ok(first);
        }
        let second = self.submanifold(first, width)?;
        let sum = self.builder.add("sum", [second, input])?;
        self.builder.relu("block relu", sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_scenes_have_distinct_cells_of_the_grid() {
        let scene = Scene::generated(5000);
        let distinct: HashSet<_> = scene.coordinates.iter().collect();
        assert_eq!((distinct.len(), scene.features.len()), (5000, 5000 * NUM_FEATURES));
        let is_inside = |&[batch, z, y, x]: &[i32; 4]| {
            batch == 0 && (0..41).contains(&z) && (0..1440).contains(&y) && (0..1440).contains(&x)
        };
        assert!(scene.coordinates.iter().all(is_inside));
    }

    #[test]
    fn families_have_the_convolutions_of_their_origin() {
        let num = |family: Family| {
            let plan = family.plan(1000).unwrap();
            plan.steps().iter().filter(|step| plan.parameters(step).is_some()).count()
        };
        assert_eq!(Family::ALL.map(num), [21, 12]);
    }
}
