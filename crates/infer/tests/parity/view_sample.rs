//! View sampling, as the decoder of DETR3D uses it.

use std::sync::Arc;

use det_post_infer::view_decoder::detr3d::{Activation, CpuDecoder, CudaDecoder, Network, Start};
use det_post_infer::view_decoder::{ViewNetwork, parse};
use det_post_ops::device::cuda::{CudaDevice, Stream};
use det_post_ops::view::layer_norm::{LayerNorm, layer_norm};
use det_post_ops::view::rows::RowsMut;
use det_post_ops::view::sample::Texels;
use det_post_ops::view::sample::cuda::DeviceFeatureMaps;
use det_post_types::{AttentionResidual, Detr3d, ViewDecoder};
use half::f16;

use det_post_testing::bounds::bound;
use det_post_testing::share;
use det_post_testing::view_networks::{As, detr3d_facts, detr3d_of_width, maps, two_views};

fn facts() -> Detr3d {
    Detr3d { num_channels: 64, num_heads: 4, num_queries: 150, ..detr3d_facts() }
}

fn network(facts: &Detr3d) -> Arc<Network> {
    network_of_width(facts, 24)
}

pub fn network_of_width(facts: &Detr3d, hidden: usize) -> Arc<Network> {
    let dict = detr3d_of_width(facts, hidden).to_safetensors();
    match parse(&dict, &ViewDecoder::Detr3d(facts.clone())).unwrap() {
        ViewNetwork::Detr3d(network) => network,
        ViewNetwork::Sparse4d(_) => unreachable!("the facts are those of DETR3D"),
    }
}

pub struct Results {
    pub logits: Vec<f32>,
    pub boxes: Vec<f32>,
}

pub fn decoder<T: Activation>(stream: &Stream, network: &Arc<Network>) -> CudaDecoder<T> {
    let mut decoder = CudaDecoder::new(stream, network.clone()).unwrap();
    decoder.set_views(&two_views()).unwrap();
    decoder
}

pub fn results<T: Activation>(decoder: &mut CudaDecoder<T>) -> Results {
    let decoded = decoder.results().unwrap();
    Results { logits: decoded.logits.to_vec(), boxes: decoded.boxes.as_flattened().to_vec() }
}

fn compare<T: Activation>(device: &CudaDevice, facts: &Detr3d, texels: As, bounds: [f64; 2]) {
    compare_network::<T>(device, &network(facts), texels, bounds);
}

/// The results of the CPU, and of 100 frames of a graph, which are equal.
pub fn compare_network<T: Activation>(
    device: &CudaDevice,
    network: &Arc<Network>,
    texels: As,
    bounds: [f64; 2],
) {
    let stream = device.stream().unwrap();
    let facts = network.facts();
    let maps = maps(facts.num_channels, texels);
    let mut reference = CpuDecoder::new(network.clone());
    reference.set_views(&two_views()).unwrap();
    let expected = reference.run(&maps).unwrap();

    let device_maps = DeviceFeatureMaps::from_host(&stream, &maps).unwrap();
    let mut decoder = decoder::<T>(&stream, network);
    decoder.enqueue(&device_maps).unwrap();
    let found = results(&mut decoder);
    let logits = share(&found.logits, expected.logits);
    assert!(logits <= bounds[0], "logits {logits:e}");
    let boxes = share(&found.boxes, expected.boxes.as_flattened());
    assert!(boxes <= bounds[1], "boxes {boxes:e}");

    // Frames of a graph are equal, bit for bit, and so is a frame without one.
    let graph = decoder.record(&device_maps).unwrap();
    for _ in 0..100 {
        graph.enqueue().unwrap();
        let again = results(&mut decoder);
        assert!(again.logits == found.logits && again.boxes == found.boxes);
    }
}

fn bounds(part: &str) -> [f64; 2] {
    ["logits, share of the largest", "boxes, share of the largest"]
        .map(|number| bound("view/sample", part, number).in_unit())
}

#[test]
fn decoders_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let with_position =
        Detr3d { attention_residual: AttentionResidual::QueryWithPosition, ..facts() };
    for facts in [facts(), with_position, Detr3d { num_blocks: 1, num_heads: 2, ..facts() }] {
        compare::<f32>(&device, &facts, As::F32, bounds("f32"));
        compare::<f32>(&device, &facts, As::F16, bounds("f32"));
        compare::<f16>(&device, &facts, As::F16, bounds("f16"));
        compare::<f16>(&device, &facts, As::I8, bounds("f16"));
    }
}

/// The content after each block, from that of the CPU before it.
#[test]
fn blocks_agree_one_by_one() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let one_block = Detr3d { num_blocks: 1, ..facts() };
    let network = network(&one_block);
    let maps = maps(64, As::F16);
    let device_maps = DeviceFeatureMaps::from_host(&stream, &maps).unwrap();
    let mut reference = CpuDecoder::new(network.clone());
    reference.set_views(&two_views()).unwrap();
    let Start { mut contents, mut references, .. } = network.start().clone();
    let norm: &LayerNorm = network.blocks()[0].feed_forward[1].finish().norm().unwrap();
    let mut exact = decoder::<f32>(&stream, &network);
    let mut half = decoder::<f16>(&stream, &network);
    for block in 0..4 {
        reference.queries_mut().copy_from_slice(&contents);
        reference.references_mut().copy_from_slice(&references);
        reference.attend(0).unwrap();
        reference.sample_views(0, &maps).unwrap();
        reference.feed_forward(0).unwrap();
        let next = reference.queries_mut().to_vec();
        reference.refine(0).unwrap();
        for (part, is_half) in [("block, f32", false), ("block, f16", true)] {
            let mut found = if is_half {
                half.set_start(&contents, &references).unwrap();
                half.enqueue(&device_maps).unwrap();
                half.read_content().unwrap()
            } else {
                exact.set_start(&contents, &references).unwrap();
                exact.enqueue(&device_maps).unwrap();
                exact.read_content().unwrap()
            };
            layer_norm(RowsMut::new(&mut found, 64), norm).unwrap();
            let bound = bound("view/sample", part, "content, share of the largest").in_unit();
            let share = share(&found, &next);
            assert!(share <= bound, "block {block} {part}: {share:e}");
        }
        contents = next;
        references = reference.references_mut().to_vec();
    }
}

#[test]
fn views_that_see_nothing_are_not_read() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let network = network(&facts());
    let mut poisoned = maps(64, As::F16);
    for level in 0..2 {
        let Texels::F16(values) = poisoned.level_mut(level).unwrap().texels_mut() else {
            unreachable!("the maps are of f16")
        };
        let num = values.len();
        values[num / 2..].fill(f16::NAN);
    }
    let clean = DeviceFeatureMaps::from_host(&stream, &maps(64, As::F16)).unwrap();
    let poisoned = DeviceFeatureMaps::from_host(&stream, &poisoned).unwrap();
    let mut decoder = decoder::<f16>(&stream, &network);
    let mut views = two_views();
    views[1].is_present = false;
    decoder.set_views(&views).unwrap();
    let [clean, poisoned] = [&clean, &poisoned].map(|maps| {
        decoder.enqueue(maps).unwrap();
        results(&mut decoder)
    });
    assert!(clean.logits == poisoned.logits && clean.boxes == poisoned.boxes);
    assert!(clean.logits.iter().chain(&clean.boxes).all(|value| value.is_finite()));
}

#[test]
fn what_does_not_fit_a_decoder_is_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let odd = network(&Detr3d { num_channels: 40, num_heads: 5, ..facts() });
    let error = CudaDecoder::<f16>::new(&stream, odd).err().unwrap();
    assert!(error.message().contains("2 views, 2 levels and 40 channels"), "{error}");
    let mut decoder = decoder::<f32>(&stream, &network(&facts()));
    let of_bytes = DeviceFeatureMaps::from_host(&stream, &maps(64, As::I8)).unwrap();
    let error = decoder.enqueue(&of_bytes).unwrap_err();
    assert!(error.message().contains("found I8"), "{error}");
    let narrow = DeviceFeatureMaps::from_host(&stream, &maps(16, As::F32)).unwrap();
    assert!(decoder.enqueue(&narrow).is_err());
    assert!(decoder.set_views(&two_views()[..1]).is_err());
    assert!(decoder.set_start(&[0.0; 3], &[[0.5; 3]]).is_err());
}
