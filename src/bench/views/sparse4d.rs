//! Sparse4D decoders of random weights and published sizes, each frame as one graph.

use std::sync::Arc;

use half::f16;

use super::other_family;
use super::rig::{CHANNELS, LEVELS, MapElement, NUM_VIEWS, maps, views};
use super::weights::Weights;
use crate::bench::case::{Bar, Case, wall};
use crate::bench::measure::Bench;
use det_post_infer::view_decoder::sparse4d::{Activation, CudaDecoder, Network};
use det_post_infer::view_decoder::{ViewNetwork, parse};
use det_post_ops::decode::query::cuda::Workspace as DecodeQuery;
use det_post_ops::device::cuda::{Graph, Stream};
use det_post_ops::view::sample::cuda::DeviceFeatureMaps;
use det_post_types::{
    CachedYaw, Candidates, Motion, QueryDecode, Result, ScoreThresholds, SizeOrder, Sparse4d,
    ViewDecoder, YawConvention,
};

const NUM_BLOCKS: usize = 6;
const NUM_CLASSES: usize = 10;
const HIDDEN: usize = 1024;
/// Key points: at shares of the extents, and learned ones.
const NUM_FIXED: usize = 7;
const NUM_LEARNED: usize = 6;
/// Boxes of a frame, as published.
pub(super) const NUM_BOXES: usize = 300;

/// Anchors, cached ones among them, and the bars of one H200 by [`MapElement`].
const ROWS: [(usize, usize, [Option<Bar>; 3]); 2] = [
    (512, 300, [None, wall(None, 280.0), wall(None, 230.0)]),
    (900, 600, [None, wall(None, 450.0), wall(None, 350.0)]),
];

pub(super) fn cases(bench: &mut Bench<'_>, stream: &Stream) -> Result<()> {
    for (num_anchors, num_cached, bars) in ROWS {
        for (element, bar) in MapElement::ALL.into_iter().zip(bars) {
            let name = format!(
                "views sparse4d {NUM_BLOCKS} blocks, {num_anchors} anchors, {num_cached} cached, \
                 6 cameras {}",
                element.precision()
            );
            if !bench.wants(&name) {
                continue;
            }
            let case = Case::new(name).with_bar(bar);
            let ViewNetwork::Sparse4d(network) = network(num_anchors, num_cached)? else {
                return Err(other_family());
            };
            match element {
                MapElement::F32 => decoder::<f32>(bench, case, stream, network, element)?,
                MapElement::F16 | MapElement::Int8 => {
                    decoder::<f16>(bench, case, stream, network, element)?;
                }
            }
        }
    }
    Ok(())
}

/// From maps in place to the best boxes on the host, by a frame that uses the memory.
fn decoder<T: Activation>(
    bench: &mut Bench<'_>,
    case: Case,
    stream: &Stream,
    network: Arc<Network>,
    element: MapElement,
) -> Result<()> {
    let maps = DeviceFeatureMaps::from_host(stream, &maps(element)?)?;
    let num_anchors = network.facts().num_anchors;
    let mut decoder = CudaDecoder::<T>::new(stream, network)?;
    decoder.set_views(&views())?;
    let sizes = [num_anchors, NUM_CLASSES];
    let mut selection = DecodeQuery::new(stream, sizes, &query_decode(), NUM_BOXES)?;
    let mut record = |uses_memory| {
        Graph::capture(stream, || {
            decoder.enqueue(&maps, uses_memory)?;
            selection.enqueue(&decoder.queries(stream)?)
        })
    };
    let [first, next] = [record(false)?, record(true)?];
    decoder.begin(None)?;
    first.enqueue()?;
    let motion = motion();
    let enqueue = || {
        decoder.begin(Some(&motion))?;
        next.enqueue()
    };
    let mut candidates = Candidates::with_capacity(NUM_BOXES);
    bench.device(case, stream, enqueue, || selection.read(true, &mut candidates).map(drop))
}

/// The best pairs of all that score 0.3.
fn query_decode() -> QueryDecode {
    QueryDecode {
        size_order: SizeOrder::LengthWidthHeight,
        yaw: YawConvention::CounterClockwise,
        score_thresholds: ScoreThresholds::uniform(0.3, NUM_CLASSES),
        yaw_norm_thresholds: Vec::new(),
        center_range: None,
    }
}

/// A vehicle that stands, 0.1 s after the frame before.
fn motion() -> Motion {
    let current_from_past = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    Motion { interval_s: 0.1, current_from_past }
}

/// The facts of Sparse4D v3 with these anchors.
pub(super) fn facts(num_anchors: usize, num_cached: usize) -> Sparse4d {
    Sparse4d {
        num_views: NUM_VIEWS,
        num_levels: LEVELS.len(),
        num_channels: CHANNELS,
        num_heads: 8,
        num_groups: 8,
        num_anchors,
        num_cached,
        num_blocks: NUM_BLOCKS,
        num_single_frame_blocks: 1,
        num_classes: NUM_CLASSES,
        min_depth_m: 1e-5,
        cached_yaw: CachedYaw::SinCos,
        has_quality: true,
        confidence_decay: 0.6,
        default_interval_s: 0.5,
    }
}

/// A decoder whose anchors are spread over 50 m around the vehicle, and stay there in all frames: without
/// velocities, and moved by 1e-3 of what random weights compute. Frames are alike therefore, and views see
/// the anchors.
pub(super) fn network(num_anchors: usize, num_cached: usize) -> Result<ViewNetwork> {
    let facts = facts(num_anchors, num_cached);
    let mut weights = Weights::new();
    // Positions, the rest of a box, velocities.
    let spread = |column| match column {
        0 | 1 => 50.0,
        2..8 => 1.0,
        _ => 0.0,
    };
    weights.add_rows("instance_bank.anchor", [num_anchors, 11], spread);
    weights.add("instance_bank.instance_feature", &[num_anchors, CHANNELS], |x| x);
    for (part, num_inputs, width) in
        [("pos", 3, 128), ("size", 3, 32), ("yaw", 2, 32), ("vel", 3, 64)]
    {
        for layer in 0..4 {
            let name = |index: usize| format!("anchor_encoder.{part}_fc.{}", 3 * layer + index);
            weights.linear(&name(0), width, if layer == 0 { num_inputs } else { width });
            weights.norm(&name(2), width);
        }
    }
    weights.add("fc_before.weight", &[2 * CHANNELS, CHANNELS], |x| x / 16.0);
    weights.add("fc_after.weight", &[CHANNELS, 2 * CHANNELS], |x| x / 22.0);
    let mut num_layers = 0;
    let mut next = || {
        num_layers += 1;
        format!("layers.{}", num_layers - 1)
    };
    for block in 0..NUM_BLOCKS {
        if block > 0 {
            weights.attention(&next(), 2 * CHANNELS);
            weights.attention(&next(), 2 * CHANNELS);
            weights.norm(&next(), CHANNELS);
        }
        add_view_attention(&mut weights, &next());
        add_feed_forward(&mut weights, &next());
        weights.norm(&next(), CHANNELS);
        add_refinement(&mut weights, &next());
    }
    parse(&weights.bytes(), &ViewDecoder::Sparse4d(facts))
}

fn add_view_attention(weights: &mut Weights, name: &str) {
    weights.add(&format!("{name}.kps_generator.fix_scale"), &[NUM_FIXED, 3], |x| 0.45 * x);
    let learned = format!("{name}.kps_generator.learnable_fc");
    weights.linear(&learned, 3 * NUM_LEARNED, CHANNELS);
    for (layer, num_inputs) in [(0, 12), (3, CHANNELS)] {
        weights.linear(&format!("{name}.camera_encoder.{layer}"), CHANNELS, num_inputs);
        weights.norm(&format!("{name}.camera_encoder.{}", layer + 2), CHANNELS);
    }
    // A row per level, point and group.
    let num_logits = LEVELS.len() * (NUM_FIXED + NUM_LEARNED) * 8;
    weights.linear(&format!("{name}.weights_fc"), num_logits, CHANNELS);
    weights.linear(&format!("{name}.output_proj"), CHANNELS, CHANNELS);
}

fn add_feed_forward(weights: &mut Weights, name: &str) {
    weights.norm(&format!("{name}.pre_norm"), 2 * CHANNELS);
    weights.linear(&format!("{name}.identity_fc"), CHANNELS, 2 * CHANNELS);
    weights.linear(&format!("{name}.layers.0.0"), HIDDEN, 2 * CHANNELS);
    weights.linear(&format!("{name}.layers.1"), CHANNELS, HIDDEN);
}

fn add_refinement(weights: &mut Weights, name: &str) {
    for layer in [0, 2, 5, 7] {
        weights.linear(&format!("{name}.layers.{layer}"), CHANNELS, CHANNELS);
    }
    weights.norm(&format!("{name}.layers.4"), CHANNELS);
    weights.norm(&format!("{name}.layers.9"), CHANNELS);
    weights.linear(&format!("{name}.layers.10"), 11, CHANNELS);
    weights.add(&format!("{name}.layers.11.scale"), &[11], |x| 1e-3 * x);
    for (head, num_outputs) in [("cls", NUM_CLASSES), ("quality", 2)] {
        for layer in [0, 3] {
            weights.linear(&format!("{name}.{head}_layers.{layer}"), CHANNELS, CHANNELS);
            weights.norm(&format!("{name}.{head}_layers.{}", layer + 2), CHANNELS);
        }
        weights.linear(&format!("{name}.{head}_layers.6"), num_outputs, CHANNELS);
    }
}
