//! A small VoxelNeXt in NVIDIA's dialect with random weights: levels to a stride of 32, three of
//! them merged on a map, and a head on its sites.

use std::collections::BTreeSet;

use det_post_ops::sparse::rulebook::Geometry;
use det_post_types::ElementType;

use super::onnx::Attr;
use super::random::Random;
use super::sparse_onnx::{File, ScnConvolution};

/// A network to make.
#[derive(Clone, Copy, Debug)]
pub struct VoxelNext<'a> {
    /// Cells along z, y, x.
    pub grid: [u32; 3],
    /// Channels of a voxel.
    pub num_features: usize,
    /// Channels of all layers.
    pub width: usize,
    /// Classes of each task.
    pub tasks: &'a [usize],
    /// Whether there are velocities.
    pub has_velocity: bool,
    /// Whether there are predicted overlaps.
    pub has_iou: bool,
    /// What is added to the heat of every class.
    pub heat: f32,
    /// The seed of the weights.
    pub seed: u64,
}

/// One of the size of the test grids: two tasks of three classes.
pub const SMALL: VoxelNext<'_> = VoxelNext {
    grid: [41, 96, 64],
    num_features: 4,
    width: 6,
    tasks: &[1, 2],
    has_velocity: true,
    has_iou: true,
    heat: 0.0,
    seed: 77,
};

const DOWN: Geometry =
    Geometry { kernel: [3; 3], stride: [2; 3], padding: [1; 3], dilation: [1; 3] };

impl VoxelNext<'_> {
    /// The file.
    pub fn file(&self) -> File {
        let input = vec![-1, self.num_features as i64];
        let mut file =
            File { inputs: vec![("0".into(), ElementType::F32, input)], ..File::default() };
        let mut making = Making {
            file: &mut file,
            random: Random::new(self.seed),
            grid: self.grid,
            num_tensors: 0,
        };
        let width = self.width;
        let mut x = making.submanifold("0", [3; 3], [self.num_features, width], true, None);
        let mut ends = Vec::new();
        let mut plane = [0; 3];
        for stage in 1..=6 {
            if stage > 1 {
                x = making.strided(&x, DOWN, width);
            }
            let y = making.submanifold(&x, [3; 3], [width; 2], true, None);
            let y = making.submanifold(&y, [3; 3], [width; 2], false, None);
            let sum = making.op("Add", &[&y, &x], vec![]);
            x = making.op("Relu", &[&sum], vec![]);
            if stage == 4 {
                let [_, rows, columns] = making.grid;
                plane = [1, rows, columns];
            }
            if stage >= 4 {
                ends.push(x.clone());
            }
        }
        making.grid = plane;
        let ends: Vec<&str> = ends.iter().map(String::as_str).collect();
        let shape = plane.map(i64::from).to_vec();
        let attributes = vec![
            ("scales", Attr::Ints(vec![1, 2, 4])),
            ("output_spatial_shape", Attr::Ints(shape)),
        ];
        let x = making.op("MergeSites", &ends, attributes);
        let out =
            Geometry { kernel: [1, 3, 3], stride: [1; 3], padding: [0, 1, 1], dilation: [1; 3] };
        let x = making.strided(&x, out, width);
        let x = making.submanifold(&x, [1, 3, 3], [width; 2], true, None);
        for (task, &num_classes) in self.tasks.iter().enumerate() {
            for (branch, channels, is_there) in [
                ("hm", num_classes, true),
                ("center", 2, true),
                ("center_z", 1, true),
                ("dim", 3, true),
                ("rot", 2, true),
                ("vel", 2, self.has_velocity),
                ("iou", 1, self.has_iou),
            ] {
                if !is_there {
                    continue;
                }
                let y = making.submanifold(&x, [1; 3], [width; 2], true, None);
                let name = format!("{branch}_{task}");
                let channels = [width, channels];
                making.submanifold(&y, [1; 3], channels, false, Some(&name));
                if branch == "hm" {
                    let (_, _, bias) = making.file.constants.last_mut().unwrap();
                    bias.iter_mut().for_each(|bias| *bias += self.heat);
                }
                making.file.outputs.push((name, vec![-1, channels[1] as i64]));
            }
        }
        file
    }
}

struct Making<'f> {
    file: &'f mut File,
    random: Random,
    grid: [u32; 3],
    num_tensors: usize,
}

impl Making<'_> {
    fn next(&mut self) -> String {
        self.num_tensors += 1;
        self.num_tensors.to_string()
    }

    fn op(
        &mut self,
        op: &'static str,
        inputs: &[&str],
        attributes: Vec<(&'static str, Attr)>,
    ) -> String {
        let output = self.next();
        self.file.op(op, inputs, &output, attributes);
        output
    }

    fn submanifold(
        &mut self,
        input: &str,
        kernel: [u32; 3],
        channels: [usize; 2],
        relu: bool,
        output: Option<&str>,
    ) -> String {
        let geometry = Geometry::submanifold(kernel);
        self.conv(input, (geometry, true), [self.grid; 2], (channels, relu), output)
    }

    fn strided(&mut self, input: &str, geometry: Geometry, width: usize) -> String {
        let from = self.grid;
        self.grid = geometry.strided_shape(from).unwrap();
        let grids = [from, self.grid];
        self.conv(input, (geometry, false), grids, ([width; 2], true), None)
    }

    fn conv(
        &mut self,
        input: &str,
        (geometry, is_submanifold): (Geometry, bool),
        grids: [[u32; 3]; 2],
        (channels, relu): ([usize; 2], bool),
        output: Option<&str>,
    ) -> String {
        let output = output.map_or_else(|| self.next(), str::to_owned);
        let [num_in, num_out] = channels;
        let num_taps = geometry.num_taps();
        let bound = (3.0 / (num_in * num_taps.min(8)) as f32).sqrt();
        let mut values = |num: usize, bound: f32| -> Vec<f32> {
            (0..num).map(|_| self.random.range(-bound, bound)).collect()
        };
        let weights = values(num_out * num_taps * num_in, bound);
        let bias = values(num_out, 0.2);
        let convolution = ScnConvolution {
            geometry,
            is_submanifold,
            grids,
            channels,
            weights: &weights,
            bias: &bias,
            relu,
        };
        self.file.scn_convolution(&convolution, input, &output);
        output
    }
}

/// Voxels in clusters of a grid: cells (0, z, y, x), each once, and their features.
pub fn voxels(
    random: &mut Random,
    grid: [u32; 3],
    num: usize,
    num_features: usize,
) -> (Vec<[i32; 4]>, Vec<f32>) {
    let mut cells = BTreeSet::new();
    while cells.len() < num {
        let start = grid.map(|size| random.below(size as usize) as i32);
        for _ in 0..8 {
            let [z, y, x] = [0, 1, 2].map(|axis: usize| {
                let place = start[axis] + random.below(4) as i32;
                place.min(grid[axis] as i32 - 1)
            });
            cells.insert([0, z, y, x]);
        }
    }
    let cells: Vec<[i32; 4]> = cells.into_iter().take(num).collect();
    let features = (0..cells.len() * num_features).map(|_| random.range(-1.0, 1.0)).collect();
    (cells, features)
}
