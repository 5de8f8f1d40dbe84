//! DETR3D decoders of random weights, each as one graph.

use std::sync::Arc;

use half::f16;

use super::other_family;
use super::rig::{CHANNELS, LEVELS, MapElement, NUM_VIEWS, maps, views};
use super::weights::Weights;
use crate::bench::case::{Case, wall};
use crate::bench::measure::Bench;
use det_post_infer::view_decoder::detr3d::{Activation, CudaDecoder, Network};
use det_post_infer::view_decoder::{ViewNetwork, parse};
use det_post_ops::device::cuda::Stream;
use det_post_ops::view::sample::cuda::DeviceFeatureMaps;
use det_post_types::{AttentionResidual, Detr3d, PointRange, Result, ViewDecoder};

const HIDDEN: usize = 512;
const NUM_HEADS: usize = 8;
const NUM_CLASSES: usize = 10;

/// Blocks, queries, and the bars of one H200 by [`MapElement`].
const ROWS: [(usize, usize, [f64; 3]); 3] = [
    (4, 512, [350.0, 110.0, 105.0]),
    (6, 512, [500.0, 150.0, 140.0]),
    (6, 900, [900.0, 220.0, 200.0]),
];

pub(super) fn cases(bench: &mut Bench<'_>, stream: &Stream) -> Result<()> {
    for (num_blocks, num_queries, bars) in ROWS {
        for (element, bar) in MapElement::ALL.into_iter().zip(bars) {
            let name = format!(
                "views detr3d {num_blocks} blocks, {num_queries} queries, 6 cameras {}",
                element.precision()
            );
            if !bench.wants(&name) {
                continue;
            }
            let case = Case::new(name).with_bar(wall(None, bar));
            let ViewNetwork::Detr3d(network) = network(num_blocks, num_queries)? else {
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

/// From maps in place to boxes and logits on the host.
fn decoder<T: Activation>(
    bench: &mut Bench<'_>,
    case: Case,
    stream: &Stream,
    network: Arc<Network>,
    element: MapElement,
) -> Result<()> {
    let maps = DeviceFeatureMaps::from_host(stream, &maps(element)?)?;
    let mut decoder = CudaDecoder::<T>::new(stream, network)?;
    decoder.set_views(&views())?;
    let graph = decoder.record(&maps)?;
    bench.device(case, stream, || graph.enqueue(), || decoder.results().map(|_| ()))
}

/// The facts of DETR3D with these blocks and queries.
pub(super) fn facts(num_blocks: usize, num_queries: usize) -> Detr3d {
    Detr3d {
        num_views: NUM_VIEWS,
        num_levels: LEVELS.len(),
        num_channels: CHANNELS,
        num_heads: NUM_HEADS,
        num_queries,
        num_blocks,
        num_classes: NUM_CLASSES,
        range: PointRange::from_bounds([-51.2, -51.2, -5.0, 51.2, 51.2, 3.0]),
        min_depth_m: 1e-5,
        attention_residual: AttentionResidual::Query,
    }
}

/// A decoder whose reference points are spread over the range.
pub(super) fn network(num_blocks: usize, num_queries: usize) -> Result<ViewNetwork> {
    let facts = facts(num_blocks, num_queries);
    let mut weights = Weights::new();
    weights.add("query_embedding.weight", &[num_queries, 2 * CHANNELS], |x| x);
    // Logits with a deviation of 1.8: a wide distribution after the sigmoid.
    weights.add("transformer.reference_points.weight", &[3, CHANNELS], |x| x / 3.0);
    weights.add("transformer.reference_points.bias", &[3], |_| 0.0);
    (0..num_blocks).for_each(|index| add_block(&mut weights, index));
    let classes = format!("cls_branches.{}", num_blocks - 1);
    for layer in [0, 3] {
        weights.linear(&format!("{classes}.{layer}"), CHANNELS, CHANNELS);
        weights.norm(&format!("{classes}.{}", layer + 1), CHANNELS);
    }
    weights.linear(&format!("{classes}.6"), NUM_CLASSES, CHANNELS);
    parse(&weights.bytes(), &ViewDecoder::Detr3d(facts))
}

fn add_block(weights: &mut Weights, index: usize) {
    let name = format!("transformer.decoder.layers.{index}");
    weights.attention(&format!("{name}.attentions.0"), CHANNELS);
    let views = format!("{name}.attentions.1");
    weights.linear(&format!("{views}.attention_weights"), NUM_VIEWS * LEVELS.len(), CHANNELS);
    weights.linear(&format!("{views}.output_proj"), CHANNELS, CHANNELS);
    weights.linear(&format!("{views}.position_encoder.0"), CHANNELS, 3);
    weights.norm(&format!("{views}.position_encoder.1"), CHANNELS);
    weights.linear(&format!("{views}.position_encoder.3"), CHANNELS, CHANNELS);
    weights.norm(&format!("{views}.position_encoder.4"), CHANNELS);
    weights.linear(&format!("{name}.ffns.0.layers.0.0"), HIDDEN, CHANNELS);
    weights.linear(&format!("{name}.ffns.0.layers.1"), CHANNELS, HIDDEN);
    (0..3).for_each(|norm| weights.norm(&format!("{name}.norms.{norm}"), CHANNELS));
    for (layer, num_outputs) in [(0, CHANNELS), (2, CHANNELS), (4, 10)] {
        weights.linear(&format!("reg_branches.{index}.{layer}"), num_outputs, CHANNELS);
    }
}
