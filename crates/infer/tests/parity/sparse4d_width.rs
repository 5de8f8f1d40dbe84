//! Sparse4D of the published width, 256 channels: refinement and encoder are one launch where the
//! GPU has the kernel.

use std::sync::Arc;

use det_post_infer::safetensors::SafeTensors;
use det_post_infer::view_decoder::sparse4d::{Activation, CpuDecoder, CudaDecoder, Network};
use det_post_ops::device::cuda::Stream;
use det_post_ops::view::sample::cuda::DeviceFeatureMaps;
use det_post_types::Sparse4d;
use half::f16;

use super::sparse4d::{facts, hand_over, network_of_width, step};
use det_post_testing::bounds::bound;
use det_post_testing::share;
use det_post_testing::sparse4d_reference::{Bounded, Frame, Past};
use det_post_testing::view_networks::{As, maps, sparse4d_of_256_channels, turn, two_views};

/// A frame that uses the memory. All anchors but one are of the memory, so that no rows change
/// places.
#[test]
fn decoders_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let few = Sparse4d { num_channels: 256, num_anchors: 150, num_cached: 149, ..facts() };
    let many = Sparse4d { num_anchors: 520, num_cached: 519, has_quality: false, ..few.clone() };
    for facts in [few, many] {
        let network = network_of_width(&facts, 1024);
        let maps = maps(256, As::F16);
        let mut reference = CpuDecoder::new(network.clone());
        reference.set_views(&two_views()).unwrap();
        reference.run(&maps, None).unwrap();
        let mut decoder = CudaDecoder::<f16>::new(&stream, network.clone()).unwrap();
        decoder.set_views(&two_views()).unwrap();
        let on_device = DeviceFeatureMaps::from_host(&stream, &maps).unwrap();
        let mut frames = Vec::new();
        for _ in 0..2 {
            hand_over(&reference, &mut decoder);
            let uses_memory = decoder.begin(step(1).as_ref()).unwrap();
            assert!(uses_memory);
            decoder.enqueue(&on_device, uses_memory).unwrap();
            frames.push(decoder.read().unwrap());
        }
        assert!(frames[0] == frames[1], "equal from run to run");
        let expected = reference.run(&maps, step(1).as_ref()).unwrap();
        let (boxes, logits, quality) = &frames[0];
        let near = |found: &[f32], expected: &[f32], number: &str| {
            let share = share(found, expected);
            let bound = bound("network", "Sparse4D of 256 channels, f16", number).in_unit();
            assert!(share <= bound, "{} anchors, {number}: {share:e}", facts.num_anchors);
        };
        near(logits, expected.logits, "logits, share of the largest");
        let number = "boxes, share of the largest";
        near(boxes.as_flattened(), expected.boxes.as_flattened(), number);
        if let Some(expected) = expected.quality {
            near(quality, expected.as_flattened(), "logits, share of the largest");
        }
    }
}

/// A frame that uses the memory against one in f64: in f32, in f16, and with maps of integers.
#[test]
fn a_frame_is_within_the_bound_of_its_rounding() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let (facts, dict) = sparse4d_of_256_channels();
    let (views, singles) = (two_views(), maps(256, As::F32));
    let bytes = dict.to_safetensors();
    let network = Network::read(&SafeTensors::parse(&bytes).unwrap(), facts.clone()).unwrap();
    let network = Arc::new(network);
    let mut reference = CpuDecoder::new(network.clone());
    reference.set_views(&views).unwrap();
    reference.run(&singles, None).unwrap();
    let memory = reference.memory();
    let past = Past { features: memory.features(), anchors: memory.anchors(), motion: turn() };
    let bounded =
        |map_step| Bounded::of(&dict, &facts, (&views, &singles), Some(&past), (true, map_step));
    let halves = bounded(0.0);
    // In f32 a block of these layers takes 170 KB of shared memory.
    if device.shared_bytes_per_block().unwrap() >= 180 << 10 {
        let found = frame::<f32>(&stream, &reference, &network, As::F32);
        halves.check_exact(&found, bound("network", "Sparse4D, f32", SHARE).in_unit(), "f32");
    }
    halves.check(&frame::<f16>(&stream, &reference, &network, As::F16), "maps of f16");
    let found = frame::<f16>(&stream, &reference, &network, As::I8);
    bounded(1.0 / 127.0).check(&found, "maps of integers");
}

const SHARE: &str = "logits, share of the largest";

/// A frame that uses the memory of the CPU.
fn frame<T: Activation>(
    stream: &Stream,
    reference: &CpuDecoder,
    network: &Arc<Network>,
    texels: As,
) -> Frame {
    let mut decoder = CudaDecoder::<T>::new(stream, network.clone()).unwrap();
    decoder.set_views(&two_views()).unwrap();
    hand_over(reference, &mut decoder);
    let on_device = DeviceFeatureMaps::from_host(stream, &maps(256, texels)).unwrap();
    let uses_memory = decoder.begin(Some(&turn())).unwrap();
    decoder.enqueue(&on_device, uses_memory).unwrap();
    let (boxes, logits, quality) = decoder.read().unwrap();
    Frame::of(&logits, &quality, &boxes)
}
