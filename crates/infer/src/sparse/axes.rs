//! The order of the axes of a network's grid.

use std::sync::Arc;

use super::operation::{Convolution, GridAxes, Operator, Origin, SparseNetwork};
use det_post_ops::sparse::rulebook::Geometry;

impl SparseNetwork {
    /// The network on a grid with the axes z y x: shapes, geometries and weights change their order, and with it
    /// the order of sites and of sums. The map is the same but for the rounding of these sums.
    pub fn in_zyx(mut self) -> Self {
        let places = self.axes.of_zyx();
        if self.axes == GridAxes::Zyx {
            return self;
        }
        let geometry = |of: Geometry| Geometry {
            kernel: in_places(of.kernel, places),
            stride: in_places(of.stride, places),
            padding: in_places(of.padding, places),
            dilation: in_places(of.dilation, places),
        };
        for level in &mut self.levels {
            level.shape = in_places(level.shape, places);
            match &mut level.origin {
                // Only networks with these axes already have merged levels.
                Origin::Voxels | Origin::Merged { .. } => {}
                Origin::Strided { geometry: of, .. } | Origin::Transposed { geometry: of, .. } => {
                    *of = geometry(*of);
                }
            }
        }
        for operation in &mut self.operations {
            match &mut operation.operator {
                Operator::Convolution(convolution) => {
                    let num_inputs = self.tensors[convolution.input].channels;
                    convolution.weight = weights(convolution, num_inputs, places);
                    convolution.geometry = geometry(convolution.geometry);
                }
                Operator::MaxPool { geometry: of, .. } => *of = geometry(*of),
                Operator::Add { .. } | Operator::Relu { .. } | Operator::Merge { .. } => {}
            }
        }
        self.map.axes = self.map.axes.map(|axis| places[axis]);
        self.axes = GridAxes::Zyx;
        self
    }
}

/// The values of three axes at the places of these axes.
fn in_places(values: [u32; 3], places: [usize; 3]) -> [u32; 3] {
    let mut placed = values;
    for (value, place) in values.into_iter().zip(places) {
        placed[place] = value;
    }
    placed
}

/// The weights [out, taps, in] with the taps of a kernel whose axes are at these places.
fn weights(of: &Convolution, num_inputs: usize, places: [usize; 3]) -> Arc<[f32]> {
    let kernel = of.geometry.kernel;
    let [_, rows, columns] = in_places(kernel, places);
    let num_taps: usize = kernel.iter().map(|&taps| taps as usize).product();
    let mut placed = of.weight.to_vec();
    for (tap, from) in of.weight.chunks_exact(num_inputs).enumerate() {
        let (output, tap) = (tap / num_taps, (tap % num_taps) as u32);
        let [_, k1, k2] = kernel;
        let [a, b, c] = in_places([tap / (k1 * k2), tap / k2 % k1, tap % k2], places);
        let to = output * num_taps + ((a * rows + b) * columns + c) as usize;
        placed[to * num_inputs..][..num_inputs].copy_from_slice(from);
    }
    placed.into()
}

#[cfg(test)]
mod tests {
    use super::super::{CpuEncoder, NetworkBuilder, Plan, Weights};
    use super::*;
    use det_post_ops::sparse::conv::Precision;
    use det_post_types::{ElementType, Tensor, TensorValues};

    fn values(num: usize, seed: usize) -> Vec<f32> {
        (0..num).map(|at| ((at * 37 + seed * 11) % 61) as f32 / 61.0 - 0.5).collect()
    }

    /// A network of the three kinds of rulebooks on a grid [6, 9, 12] with these axes.
    fn network(axes: GridAxes) -> SparseNetwork {
        let mut builder = NetworkBuilder::new([6, 9, 12], 3).unwrap();
        let weights = |num_outputs: usize, taps: usize, channels: usize, seed| Weights {
            num_outputs,
            weight: values(num_outputs * taps * channels, seed).into(),
            bias: Some(values(num_outputs, seed + 1).into()),
        };
        let a = builder.submanifold("a", 0, [3, 1, 5], [1; 3], weights(4, 15, 3, 1)).unwrap();
        let geometry = Geometry {
            kernel: [3, 2, 1],
            stride: [2, 1, 3],
            padding: [1, 0, 0],
            dilation: [1, 2, 1],
        };
        let b = builder.strided("b", a, geometry, weights(5, 6, 4, 2)).unwrap();
        let b = builder.relu("relu", b).unwrap();
        let c = builder.submanifold("c", b, [1, 3, 3], [1; 3], weights(5, 9, 5, 3)).unwrap();
        builder.finish(c, axes, [2, 0, 1]).unwrap()
    }

    /// The map of sites that are given as (z, y, x).
    fn map(network: SparseNetwork) -> Vec<f32> {
        let places = network.axes.of_zyx();
        let shape = network.levels[0].shape;
        let sites: Vec<[i32; 4]> = (0..200)
            .map(|at| {
                let zyx = [0, 1, 2].map(|place| {
                    let axis = places.iter().position(|&other| other == place).unwrap();
                    (at * [7, 5, 11][place] % shape[axis] as usize) as i32
                });
                let [a, b, c] = places.map(|place| zyx[place]);
                [0, a, b, c]
            })
            .collect();
        let features = values(3 * sites.len(), 7);
        let capacities = [600, 600];
        let plan = Plan::new(network, &capacities).unwrap();
        let mut map = Tensor::zeros(ElementType::F32, &plan.network().map_shape()).unwrap();
        let mut encoder = CpuEncoder::new(plan, Precision::F32, 1).unwrap();
        encoder.run(&sites, &features, &mut map).unwrap();
        let TensorValues::F32(values) = map.view().values() else { panic!() };
        values.to_vec()
    }

    #[test]
    fn the_map_does_not_depend_on_the_order_of_the_axes() {
        for axes in GridAxes::ALL {
            let (given, in_zyx) = (network(axes), network(axes).in_zyx());
            assert_eq!(in_zyx.axes, GridAxes::Zyx);
            assert_eq!(in_zyx.map_shape(), given.map_shape());
            let (expected, found) = (map(given), map(in_zyx));
            assert!(expected.iter().filter(|value| **value != 0.0).count() > 100, "{axes}");
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!((found - expected).abs() < 1e-5, "{axes}, {at}: {found} {expected}");
            }
        }
    }
}
