//! Blocks of a DETR3D decoder that are one launch each: networks of 256 channels in f16. On a
//! GPU without clusters the same tests run the operations one by one.

use std::sync::Arc;

use det_post_infer::view_decoder::detr3d::{CpuDecoder, Network, Start};
use det_post_ops::view::layer_norm::layer_norm;
use det_post_ops::view::rows::RowsMut;
use det_post_ops::view::sample::Texels;
use det_post_ops::view::sample::cuda::DeviceFeatureMaps;
use det_post_types::{AttentionResidual, Detr3d};
use half::f16;

use super::view_sample::{compare_network, decoder, network_of_width, results};
use det_post_testing::bounds::bound;
use det_post_testing::share;
use det_post_testing::view_networks::{As, detr3d_facts, maps, two_views};

fn facts() -> Detr3d {
    Detr3d { num_channels: 256, num_heads: 8, num_queries: 150, ..detr3d_facts() }
}

fn network(facts: &Detr3d) -> Arc<Network> {
    network_of_width(facts, 512)
}

fn bounds() -> [f64; 2] {
    ["logits, share of the largest", "boxes, share of the largest"]
        .map(|number| bound("view/detr3d_block", "f16", number).in_unit())
}

#[test]
fn decoders_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let with_position =
        Detr3d { attention_residual: AttentionResidual::QueryWithPosition, ..facts() };
    let few = Detr3d { num_queries: 5, num_classes: 20, ..facts() };
    // More queries than small clusters have room for, not a multiple of a large one's.
    let many = Detr3d { num_queries: 1100, ..facts() };
    for facts in [facts(), with_position, few, many, Detr3d { num_blocks: 1, ..facts() }] {
        compare_network::<f16>(&device, &network(&facts), As::F16, bounds());
    }
    compare_network::<f16>(&device, &network(&facts()), As::I8, bounds());
}

/// The content after each block, from that of the CPU before it.
#[test]
fn blocks_agree_one_by_one() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let network = network(&Detr3d { num_blocks: 1, ..facts() });
    let maps = maps(256, As::F16);
    let device_maps = DeviceFeatureMaps::from_host(&stream, &maps).unwrap();
    let mut reference = CpuDecoder::new(network.clone());
    reference.set_views(&two_views()).unwrap();
    let Start { mut contents, mut references, .. } = network.start().clone();
    let norm = network.blocks()[0].feed_forward[1].finish().norm().unwrap();
    let mut decoder = decoder::<f16>(&stream, &network);
    for block in 0..4 {
        reference.queries_mut().copy_from_slice(&contents);
        reference.references_mut().copy_from_slice(&references);
        reference.attend(0).unwrap();
        reference.sample_views(0, &maps).unwrap();
        reference.feed_forward(0).unwrap();
        let next = reference.queries_mut().to_vec();
        reference.refine(0).unwrap();
        decoder.set_start(&contents, &references).unwrap();
        decoder.enqueue(&device_maps).unwrap();
        let mut found = decoder.read_content().unwrap();
        layer_norm(RowsMut::new(&mut found, 256), norm).unwrap();
        let bound = bound("view/detr3d_block", "f16", "content, share of the largest").in_unit();
        let share = share(&found, &next);
        assert!(share <= bound, "block {block}: {share:e}");
        contents = next;
        references = reference.references_mut().to_vec();
    }
}

#[test]
fn views_that_see_nothing_are_not_read() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut poisoned = maps(256, As::F16);
    for level in 0..2 {
        let Texels::F16(values) = poisoned.level_mut(level).unwrap().texels_mut() else {
            unreachable!("the maps are of f16")
        };
        let num = values.len();
        values[num / 2..].fill(f16::NAN);
    }
    let clean = DeviceFeatureMaps::from_host(&stream, &maps(256, As::F16)).unwrap();
    let poisoned = DeviceFeatureMaps::from_host(&stream, &poisoned).unwrap();
    let mut decoder = decoder::<f16>(&stream, &network(&facts()));
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
