//! DETR3D on a GPU against the reference in f64 that agrees with the published modules: block by
//! block from the stored results of the block before, whole frames, and cameras that see nothing.

use std::sync::Arc;

use det_post_infer::safetensors::SafeTensors;
use det_post_infer::view_decoder::View;
use det_post_infer::view_decoder::detr3d::{Activation, CudaDecoder, Network, Start};
use det_post_ops::device::cuda::Stream;
use det_post_ops::view::layer_norm::layer_norm;
use det_post_ops::view::rows::RowsMut;
use det_post_ops::view::sample::FeatureMaps;
use det_post_ops::view::sample::cuda::DeviceFeatureMaps;
use det_post_types::Detr3d;
use half::f16;

use det_post_testing::view_cases::{Case, File, converted, detr3d, poison};
use det_post_testing::view_networks::StateDict;

/// The largest difference from the reference, and the 99th percentile.
type Bounds = [f32; 2];

/// Of a block in f32: a query half a metre before a camera magnifies the rounding of its
/// projection.
const EXACT: Bounds = [5e-4, 3e-5];
/// Of a block in f16.
const HALF: Bounds = [1.5e-2, 4e-3];

/// A case of the reference data.
struct Golden {
    weights: File,
    inputs: File,
    expected: File,
    masked: File,
    facts: Detr3d,
}

impl Golden {
    #[track_caller]
    fn open(name: &str) -> Option<Self> {
        let case = Case::open(name)?;
        let inputs = case.file("inputs");
        let facts = detr3d(name, &inputs);
        let [weights, expected, masked] =
            ["weights", "expected", "all_masked"].map(|name| case.file(name));
        Some(Self { weights, inputs, expected, masked, facts })
    }

    fn views(&self) -> Vec<View> {
        self.inputs.views(&self.inputs)
    }

    /// The whole decoder.
    fn network(&self) -> Arc<Network> {
        let (contents, references) = self.state_before(0);
        self.network_of(&self.weights.tensors(), self.facts.clone(), contents, references)
    }

    /// A decoder of one of the blocks, from the stored results of the block before.
    fn block(&self, index: usize) -> Arc<Network> {
        let of_block = [
            (format!("transformer.decoder.layers.{index}."), "transformer.decoder.layers.0."),
            (format!("reg_branches.{index}."), "reg_branches.0."),
            (format!("cls_branches.{}.", self.facts.num_blocks - 1), "cls_branches.0."),
        ];
        let tensors = self.weights.tensors();
        let mut renamed = Vec::new();
        for name in tensors.names() {
            let found = of_block.iter().find(|(stored, _)| name.starts_with(stored));
            let Some((stored, new)) = found else { continue };
            let tensor = tensors.get(name).unwrap();
            let name = name.replacen(stored, new, 1);
            renamed.push((name, tensor.shape().to_vec(), tensor.to_f32().unwrap()));
        }
        let bytes = StateDict::of(renamed).to_safetensors();
        let (contents, references) = self.state_before(index);
        let facts = Detr3d { num_blocks: 1, ..self.facts.clone() };
        self.network_of(&SafeTensors::parse(&bytes).unwrap(), facts, contents, references)
    }

    fn network_of(
        &self,
        weights: &SafeTensors<'_>,
        facts: Detr3d,
        contents: Vec<f32>,
        references: Vec<[f32; 3]>,
    ) -> Arc<Network> {
        let start = Start { contents, positions: self.inputs.f32s("query_pos"), references };
        Arc::new(Network::with_start(weights, facts, start).unwrap())
    }

    fn state_before(&self, block: usize) -> (Vec<f32>, Vec<[f32; 3]>) {
        let Some(before) = block.checked_sub(1) else {
            return (self.inputs.f32s("query"), self.inputs.rows("reference_points"));
        };
        let name = |step: &str| format!("layer{before}.{step}");
        (self.expected.f32s(&name("ffn_norm")), self.expected.rows(&name("ref")))
    }

    /// Compares the content and the references that a block leaves.
    fn check_block<T: Activation>(
        &self,
        stream: &Stream,
        index: usize,
        maps: &FeatureMaps,
        bounds: Bounds,
    ) {
        let network = self.block(index);
        let norm = network.blocks()[0].feed_forward[1].finish().norm().unwrap();
        let maps = DeviceFeatureMaps::from_host(stream, maps).unwrap();
        let mut decoder = CudaDecoder::<T>::new(stream, network.clone()).unwrap();
        decoder.set_views(&self.views()).unwrap();
        decoder.enqueue(&maps).unwrap();
        let mut content = decoder.read_content().unwrap();
        layer_norm(RowsMut::new(&mut content, self.facts.num_channels), norm).unwrap();
        let what = format!("{} channels, block {index}", self.facts.num_channels);
        let expected = |step: &str| self.expected.f32s(&format!("layer{index}.{step}"));
        assert_near(&content, &expected("ffn_norm"), bounds, &format!("{what}: content"));
        let range = self.facts.range;
        let boxes = decoder.results().unwrap().boxes;
        let references = boxes.iter().flat_map(|row| {
            (0..3).map(|axis| (row[axis] - range.min[axis]) / (range.max[axis] - range.min[axis]))
        });
        let references: Vec<f32> = references.collect();
        assert_near(&references, &expected("ref"), bounds, &format!("{what}: references"));
    }

    /// Compares logits and centres of a frame.
    fn check_frame(
        &self,
        decoder: &mut CudaDecoder<f32>,
        stored: &File,
        [logits, boxes]: [Bounds; 2],
    ) {
        let found = decoder.results().unwrap();
        let what = format!("{} channels", self.facts.num_channels);
        assert_near(found.logits, &stored.f32s("logits"), logits, &format!("{what}: logits"));
        let centres: Vec<f32> = found.boxes.iter().flat_map(|row| row[..3].to_vec()).collect();
        let expected = stored.rows::<9>("boxes");
        let expected: Vec<f32> = expected.iter().flat_map(|row| row[..3].to_vec()).collect();
        assert_near(&centres, &expected, boxes, &format!("{what}: centres"));
    }
}

#[track_caller]
fn assert_near(found: &[f32], expected: &[f32], [max, p99]: Bounds, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let mut errors: Vec<f32> = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).collect();
    // NaN is the largest in this order.
    errors.sort_by(f32::total_cmp);
    let found = [errors[errors.len() - 1], errors[(errors.len() - 1) * 99 / 100]];
    assert!(found[0] <= max && found[1] <= p99, "{what}: {found:?}");
}

#[test]
fn blocks_from_the_results_of_the_block_before() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    for name in ["detr3d_c64", "detr3d_c256"] {
        let Some(golden) = Golden::open(name) else { return };
        let maps = golden.inputs.maps("", true);
        let halves = converted(&maps, false);
        for block in 0..golden.facts.num_blocks {
            golden.check_block::<f32>(&stream, block, &maps, EXACT);
            golden.check_block::<f16>(&stream, block, &halves, HALF);
        }
    }
}

/// Five times the errors of f32 in the reference itself.
#[test]
fn frames_run_through() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let cases = [
        ("detr3d_c64", [[7.5e-3, 1.25e-3], [3e-3, 6.5e-4]]),
        ("detr3d_c256", [[3.5e-4, 2e-5], [2.7e-4, 4e-5]]),
    ];
    for (name, bounds) in cases {
        let Some(golden) = Golden::open(name) else { return };
        let maps = golden.inputs.maps("", true);
        let mut poisoned = maps.clone();
        poison(&mut poisoned, |_| true);
        let [maps, poisoned] =
            [maps, poisoned].map(|maps| DeviceFeatureMaps::from_host(&stream, &maps).unwrap());
        let mut decoder = CudaDecoder::<f32>::new(&stream, golden.network()).unwrap();
        decoder.set_views(&golden.views()).unwrap();
        decoder.enqueue(&maps).unwrap();
        golden.check_frame(&mut decoder, &golden.expected, bounds);
        // Cameras that are turned away: nothing is read.
        decoder.set_views(&golden.inputs.views(&golden.masked)).unwrap();
        decoder.enqueue(&poisoned).unwrap();
        golden.check_frame(&mut decoder, &golden.masked, [[1e-4, 5e-5]; 2]);
    }
}
