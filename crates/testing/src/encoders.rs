//! The encoders of the shared references: OpenPCDet's VoxelResBackBone8x and
//! VoxelBackBone8x with parameters that follow from a seed.

use std::fs;

use det_post_infer::sparse::{GridAxes, NetworkBuilder, SparseNetwork, Weights};
use det_post_ops::cloud::voxelize::{VoxelizeParams, Voxels, Workspace, voxelize};
use det_post_ops::sparse::rulebook::Geometry;
use det_post_ops::sparse::voxel_mean::voxel_mean;
use det_post_types::Result;
use det_post_types::{ElementType, Grid, PointRange, Points, Tensor};
use half::f16;

use super::npz::Npz;
use super::shared_data::shared_data;
use super::sparse_onnx::{File, ScnConvolution};

/// Batch normalization's eps.
const EPS: f64 = 1e-3;

/// Which encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// VoxelResBackBone8x.
    Res,
    /// VoxelBackBone8x.
    Plain,
}

/// A convolution with batch normalization folded in, followed by a ReLU.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The name of its weights.
    pub name: String,
    /// The geometry of a strided convolution; a submanifold one has none.
    pub strided: Option<Geometry>,
    /// Channels of input and output.
    pub channels: [usize; 2],
    /// `[Cout, taps, Cin]`
    pub weights: Vec<f32>,
    /// `[Cout]`
    pub bias: Vec<f32>,
    /// Whether the input of the layer before is added in front of the ReLU.
    pub adds_residual: bool,
    /// The stage whose output this layer's is.
    pub stage: Option<&'static str>,
}

impl Layer {
    /// Its geometry.
    pub fn geometry(&self) -> Geometry {
        self.strided.unwrap_or(Geometry::submanifold([3; 3]))
    }
}

impl Family {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Res => "res8x",
            Self::Plain => "plain8x",
        }
    }

    /// The layers in order, the first of 5 channels. `means` holds the running
    /// means and variances.
    pub fn layers(self, seed: u64, means: &Npz) -> Vec<Layer> {
        let mut layers = Layers { seed, means, layers: Vec::new() };
        let widths = match self {
            Self::Res => [16, 32, 64, 128],
            Self::Plain => [16, 32, 64, 64],
        };
        layers.add("conv_input.0", "conv_input.1", None, [5, 16], false);
        let mut width = 16;
        for (stage, next) in (1..).zip(widths) {
            let start = usize::from(stage > 1);
            if stage > 1 {
                let padding = if stage == 4 { [0, 1, 1] } else { [1; 3] };
                let down = Geometry { kernel: [3; 3], stride: [2; 3], padding, dilation: [1; 3] };
                let name = format!("conv{stage}.0");
                layers.add(
                    &format!("{name}.0"),
                    &format!("{name}.1"),
                    Some(down),
                    [width, next],
                    false,
                );
                width = next;
            }
            let num_blocks = if self == Self::Plain && stage == 1 { 1 } else { 2 };
            for block in start..start + num_blocks {
                let name = format!("conv{stage}.{block}");
                if self == Self::Plain {
                    layers.add(&format!("{name}.0"), &format!("{name}.1"), None, [width; 2], false);
                    continue;
                }
                for (i, adds_residual) in [(1, false), (2, true)] {
                    let (conv, norm) = (format!("{name}.conv{i}"), format!("{name}.bn{i}"));
                    layers.add(&conv, &norm, None, [width; 2], adds_residual);
                }
            }
            let stages = ["x_conv1", "x_conv2", "x_conv3", "x_conv4"];
            layers.layers.last_mut().unwrap().stage = Some(stages[stage - 1]);
        }
        let out =
            Geometry { kernel: [3, 1, 1], stride: [2, 1, 1], padding: [0; 3], dilation: [1; 3] };
        layers.add("conv_out.0", "conv_out.1", Some(out), [width, 128], false);
        layers.layers.last_mut().unwrap().stage = Some("out");
        layers.layers
    }
}

/// The network of layers on a grid of `shape`, and the tensor of each stage.
pub fn network(
    layers: &[Layer],
    shape: [u32; 3],
) -> Result<(SparseNetwork, Vec<(&'static str, usize)>)> {
    let mut builder = NetworkBuilder::new(shape, layers[0].channels[0])?;
    let mut stages = Vec::new();
    // The input of the layer before and of this one.
    let (mut before, mut input) = (0, 0);
    for layer in layers {
        let Layer { name, weights, bias, channels: [_, num_outputs], .. } = layer;
        let weights = Weights {
            num_outputs: *num_outputs,
            weight: weights[..].into(),
            bias: Some(bias[..].into()),
        };
        let mut output = match layer.strided {
            Some(geometry) => builder.strided(name, input, geometry, weights)?,
            None => builder.submanifold(name, input, [3; 3], [1; 3], weights)?,
        };
        if layer.adds_residual {
            output = builder.add(&format!("{name} +"), [output, before])?;
        }
        output = builder.relu(&format!("{name} relu"), output)?;
        stages.extend(layer.stage.map(|stage| (stage, output)));
        (before, input) = (input, output);
    }
    Ok((builder.finish(input, GridAxes::Zyx, [0, 1, 2])?, stages))
}

/// The file of layers on a grid of `shape`, in NVIDIA's dialect.
pub fn scn(layers: &[Layer], shape: [u32; 3]) -> File {
    let mut file = File::default();
    file.inputs.push(("0".into(), ElementType::F32, vec![50, layers[0].channels[0] as i64]));
    let (mut grid, mut num_outputs) = (shape, 0);
    // The input of the layer before and of this one.
    let (mut before, mut input) = ("0".to_owned(), "0".to_owned());
    for (index, layer) in layers.iter().enumerate() {
        let next = layer.strided.map_or(grid, |geometry| geometry.strided_shape(grid).unwrap());
        let convolution = ScnConvolution {
            geometry: Geometry { padding: [1; 3], ..Geometry::submanifold([3; 3]) },
            is_submanifold: layer.strided.is_none(),
            grids: [grid, next],
            channels: layer.channels,
            weights: &layer.weights,
            bias: &layer.bias,
            relu: !layer.adds_residual,
        };
        let geometry = layer.strided.unwrap_or(convolution.geometry);
        let mut output = format!("conv{index}");
        file.scn_convolution(&ScnConvolution { geometry, ..convolution }, &input, &output);
        if layer.adds_residual {
            let (sum, relu) = (format!("sum{index}"), format!("relu{index}"));
            file.op("Add", &[&output, &before], &sum, vec![]);
            file.op("Relu", &[&sum], &relu, vec![]);
            output = relu;
        }
        (before, input) = (input, output);
        (grid, num_outputs) = (next, layer.channels[1]);
    }
    file.scn_map(&input, num_outputs, grid);
    file
}

struct Layers<'a> {
    seed: u64,
    means: &'a Npz,
    layers: Vec<Layer>,
}

impl Layers<'_> {
    fn add(
        &mut self,
        convolution: &str,
        norm: &str,
        strided: Option<Geometry>,
        channels: [usize; 2],
        adds_residual: bool,
    ) {
        let num_taps = strided.unwrap_or(Geometry::submanifold([3; 3])).num_taps();
        let [num_inputs, num_outputs] = channels;
        let row_len = num_taps * num_inputs;
        let values = |name: &str, num, lo, hi| parameters(self.seed, name, num, lo, hi);

        let bound = (6.0 / (num_inputs * num_taps.min(8)) as f64).sqrt();
        let mut weights =
            values(&format!("{convolution}.weight"), num_outputs * row_len, -bound, bound);
        // Only the convolutions of residual blocks have a bias.
        let bias = match convolution.contains(".conv") {
            true => values(&format!("{convolution}.bias"), num_outputs, -0.1, 0.1),
            false => vec![0.0; num_outputs],
        };
        let scale = values(&format!("{norm}.weight"), num_outputs, 0.5, 1.5);
        let shift = values(&format!("{norm}.bias"), num_outputs, -0.25, 0.25);
        let mean = self.means.f32(&format!("bn/{norm}.running_mean"));
        let var = self.means.f32(&format!("bn/{norm}.running_var"));
        let mut folded = Vec::new();
        for (output, weights) in weights.chunks_exact_mut(row_len).enumerate() {
            let factor = f64::from(scale[output]) / (f64::from(var[output]) + EPS).sqrt();
            weights.iter_mut().for_each(|weight| *weight = (f64::from(*weight) * factor) as f32);
            let centred = f64::from(bias[output]) - f64::from(mean[output]);
            folded.push((centred * factor + f64::from(shift[output])) as f32);
        }
        let name = convolution.to_owned();
        let layer =
            Layer { name, strided, channels, weights, bias: folded, adds_residual, stage: None };
        self.layers.push(layer);
    }
}

/// `num` values of the tensor `name`, uniform between `lo` and `hi`.
pub fn parameters(seed: u64, name: &str, num: usize, lo: f64, hi: f64) -> Vec<f32> {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let start = hash ^ seed.wrapping_mul(GOLDEN);
    let value = |i: u64| {
        let mut x = start.wrapping_add((i + 1).wrapping_mul(GOLDEN));
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        (lo + (hi - lo) * ((x >> 40) as f64 + 0.5) / 16_777_216.0) as f32
    };
    (0..num as u64).map(value).collect()
}

/// Cells and features of voxels.
pub struct Voxelized {
    /// Batch, z, y, x.
    pub coordinates: Vec<[i32; 4]>,
    /// `[voxels, 5]`
    pub features: Vec<f32>,
}

/// The nuScenes scan as voxels of means: x y z intensity time_lag.
#[allow(dead_code, reason = "each suite uses its part")]
pub fn scan() -> Option<Voxelized> {
    let path = "scans/lidar-ai-solution/ff9eff4389a740848f9a56ad749a4ae8.bin";
    let bytes = fs::read(shared_data()?.join(path)).unwrap();
    let values: Vec<f32> =
        bytes.as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes).to_f32()).collect();
    let mut points = Points::with_capacity(5, values.len() / 5);
    assert!(values.chunks_exact(5).all(|point| points.push(point)));
    let range = PointRange::from_bounds([-54.0, -54.0, -5.0, 54.0, 54.0, 3.0]);
    let grid = Grid::new(range, [0.075, 0.075, 0.2]).unwrap();
    let params = VoxelizeParams { grid, max_points_per_voxel: 10, voxel_capacity: 160_000 };
    let mut voxels = Voxels::new(&params);
    let mut workspace = Workspace::new(&grid, points.len());
    voxelize(&points, &params, &mut workspace, &mut voxels).unwrap();
    let mut out = Tensor::zeros(ElementType::F32, &[voxels.len(), 5]).unwrap();
    voxel_mean(&points, &voxels, &[], &mut out).unwrap();
    let cell = |&[x, y, z]: &[u32; 3]| [0, z as i32, y as i32, x as i32];
    let coordinates = voxels.coordinates().iter().map(cell).collect();
    let Tensor::F32 { values: features, .. } = out else { panic!("{out:?}") };
    Some(Voxelized { coordinates, features })
}
