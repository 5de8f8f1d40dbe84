//! Maps that are sampled where a network has left them: the golden frames of both families, to the
//! bit as from a copy channels last.

use std::sync::Arc;

use det_post_infer::view_decoder::{CpuViewDecoder, ViewNetwork, detr3d, sparse4d};
use det_post_ops::view::sample::FeatureMaps;
use det_post_types::{MapLayout, Motion};

use det_post_testing::view_cases::{self, Case, converted, motion, sparse4d_c64};
use det_post_testing::view_layouts::LaidOut;

const LAYOUTS: [MapLayout; 2] = [MapLayout::ChannelsLast, MapLayout::Blocks32];

/// Logits and boxes, as bits.
fn bits(
    decoder: &mut CpuViewDecoder,
    maps: &FeatureMaps,
    layout: Option<MapLayout>,
    motion: Option<&Motion>,
) -> Vec<u32> {
    let laid_out = layout.map(|layout| LaidOut::of(maps, layout));
    let decoded = match &laid_out {
        Some(laid_out) => decoder.run(laid_out.view(), motion).unwrap(),
        None => decoder.run(maps, motion).unwrap(),
    };
    let values = decoded.logits.iter().chain(decoded.boxes.as_flattened());
    values.map(|value| value.to_bits()).collect()
}

/// Frames of f32, f16 and int8 in both layouts.
fn compare(network: &ViewNetwork, case: &Case, frames: &[(FeatureMaps, Option<Motion>)]) {
    let inputs = case.file("inputs");
    let views = inputs.views(&inputs);
    let decoder = || {
        let mut decoder = CpuViewDecoder::new(network);
        decoder.set_views(&views).unwrap();
        decoder
    };
    for form in 0..3 {
        let mut copied = decoder();
        let mut in_place = LAYOUTS.map(|_| decoder());
        for (frame, (maps, motion)) in frames.iter().enumerate() {
            let maps = match form {
                0 => maps.clone(),
                1 => converted(maps, false),
                _ => converted(maps, true),
            };
            let expected = bits(&mut copied, &maps, None, motion.as_ref());
            for (decoder, layout) in in_place.iter_mut().zip(LAYOUTS) {
                let found = bits(decoder, &maps, Some(layout), motion.as_ref());
                assert!(found == expected, "frame {frame}, form {form}, {layout:?}");
            }
        }
    }
}

#[test]
fn detr3d_reads_both_layouts() {
    let Some(case) = Case::open("detr3d_c64") else { return };
    let inputs = case.file("inputs");
    let start = detr3d::Start {
        contents: inputs.f32s("query"),
        positions: inputs.f32s("query_pos"),
        references: inputs.rows("reference_points"),
    };
    let facts = view_cases::detr3d("detr3d_c64", &inputs);
    let network =
        detr3d::Network::with_start(&case.file("weights").tensors(), facts, start).unwrap();
    let network = ViewNetwork::Detr3d(Arc::new(network));
    compare(&network, &case, &[(inputs.maps("", true), None)]);
}

#[test]
fn sparse4d_reads_both_layouts() {
    let Some(case) = Case::open("sparse4d_c64") else { return };
    let inputs = case.file("inputs");
    let network = sparse4d::Network::read(&case.file("weights").tensors(), sparse4d_c64()).unwrap();
    let network = ViewNetwork::Sparse4d(Arc::new(network));
    let frames: Vec<_> = (0..3)
        .map(|frame| (inputs.maps(&format!("frame{frame}."), false), motion(&inputs, frame)))
        .collect();
    compare(&network, &case, &frames);
}
