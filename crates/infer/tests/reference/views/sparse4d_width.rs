//! Sparse4D of 256 channels against a frame in f64 that shares no code with the decoder, and the
//! bound that docs/numerics.md derives for f16 and for maps of integers.

use std::sync::Arc;

use det_post_infer::safetensors::SafeTensors;
use det_post_infer::view_decoder::sparse4d::{CpuDecoder, Network};
use det_post_types::Sparse4d;

use det_post_testing::sparse4d_reference::{Bounded, Frame, Past, Rounding, frame};
use det_post_testing::view_networks::{
    As, StateDict, maps, sparse4d_of_256_channels, turn, two_views,
};
use det_post_testing::{Bounds, assert_near};

fn decoder(facts: &Sparse4d, dict: &StateDict) -> CpuDecoder {
    let bytes = dict.to_safetensors();
    let tensors = SafeTensors::parse(&bytes).unwrap();
    let network = Network::read(&tensors, facts.clone()).unwrap();
    let mut decoder = CpuDecoder::new(Arc::new(network));
    decoder.set_views(&two_views()).unwrap();
    decoder
}

fn found(decoder: &CpuDecoder) -> Frame {
    let decoded = decoder.decoded();
    Frame::of(decoded.logits, decoded.quality.unwrap().as_flattened(), decoded.boxes)
}

#[track_caller]
fn assert_exact(decoder: &CpuDecoder, exact: &Frame, what: &str) {
    let decoded = decoder.decoded();
    let near = |found: &[f32], exact: &[f64], max: f32, part: &str| {
        let exact: Vec<f32> = exact.iter().map(|&x| x as f32).collect();
        assert_near(found, &exact, Bounds { max, p99: max }, &format!("{what}: {part}"));
    };
    near(decoded.logits, &exact.logits, 5e-5, "logits");
    near(decoded.quality.unwrap().as_flattened(), &exact.quality, 5e-5, "quality");
    near(decoded.boxes.as_flattened(), &exact.boxes, 2.5e-5, "boxes");
}

#[test]
fn two_frames_of_256_channels() {
    let (facts, dict) = sparse4d_of_256_channels();
    let (views, maps) = (two_views(), maps(256, As::F32));
    let mut decoder = decoder(&facts, &dict);
    decoder.run(&maps, None).unwrap();
    let exact = frame(&dict, &facts, (&views, &maps), None, Rounding::None);
    assert_exact(&decoder, &exact, "single");

    let memory = decoder.memory().clone();
    let past = Past { features: memory.features(), anchors: memory.anchors(), motion: turn() };
    decoder.run(&maps, Some(&turn())).unwrap();
    let bounded = Bounded::of(&dict, &facts, (&views, &maps), Some(&past), (true, 0.0));
    assert_exact(&decoder, &bounded.exact, "with the memory");
    // What a GPU stores, rounded to nearest.
    let nearest = frame(&dict, &facts, (&views, &maps), Some(&past), Rounding::Nearest);
    bounded.check(&nearest, "f16");
}

#[test]
fn maps_of_integers_are_within_their_step() {
    let (facts, dict) = sparse4d_of_256_channels();
    let (views, singles) = (two_views(), maps(256, As::F32));
    let mut decoder = decoder(&facts, &dict);
    decoder.run(&maps(256, As::I8), None).unwrap();
    let bounded = Bounded::of(&dict, &facts, (&views, &singles), None, (false, 1.0 / 127.0));
    bounded.check(&found(&decoder), "integers");
}
