//! Blocks whose layers are three chains each.

use std::convert::Infallible;

use half::f16;

use super::super::{Block, Network};
use super::launches::attention_args;
use super::rows::{Buffers, FIRST_DIVIDED, INTERVAL};
use super::{Chained, CudaDecoder};
use crate::device::cuda::{DeviceBuffer, Stream};
use crate::error::Result;
use crate::ops::attention::cuda::value_stride;
use crate::ops::layer_chain::cuda::{
    CHANNELS, ChainEncoder, ChainLayer, LayerChain, Steps, chain_norm,
};
use crate::ops::linear::LinearLayer;
use crate::ops::linear::cuda::DeviceRows;
use crate::ops::view_sample::cuda::DeviceFeatureMaps;
use crate::types::Sparse4d;

impl Chained for f32 {
    type Chains = Infallible;

    fn chains(_: &Stream, _: &Network) -> Result<Option<Infallible>> {
        Ok(None)
    }

    fn enqueue(decoder: &mut CudaDecoder<f32>, _: &DeviceFeatureMaps) -> Result<()> {
        match decoder.chains {
            None => Ok(()),
            Some(never) => match never {},
        }
    }

    fn num_bytes(chains: &Infallible) -> usize {
        match *chains {}
    }
}

impl Chained for f16 {
    type Chains = Chains;

    fn chains(stream: &Stream, network: &Network) -> Result<Option<Chains>> {
        Chains::new(stream, network)
    }

    fn enqueue(decoder: &mut CudaDecoder<f16>, maps: &DeviceFeatureMaps) -> Result<()> {
        decoder.enqueue_chained(maps)
    }

    fn num_bytes(chains: &Chains) -> usize {
        let blocks = chains.blocks.iter().map(BlockLayers::num_bytes).sum::<usize>();
        chains.encoder.num_bytes() + blocks
    }
}

/// The kernel, the layers, and the rows that only chains have.
pub struct Chains {
    kernel: LayerChain,
    encoder: ChainEncoder,
    blocks: Vec<BlockLayers>,
    /// Embeddings of the anchors that even and odd blocks read.
    embeddings: [DeviceRows<f16>; 2],
    /// Normalized features after the attention.
    content: DeviceRows<f16>,
}

struct AttentionLayers {
    queries: ChainLayer,
    keys: ChainLayer,
    values: ChainLayer,
    output: ChainLayer,
}

struct BlockLayers {
    /// Absent in the first block.
    attentions: Option<[AttentionLayers; 2]>,
    learned_points: ChainLayer,
    weight_logits: ChainLayer,
    view_output: ChainLayer,
    wide_norm: DeviceBuffer<f32>,
    feed_forward: [ChainLayer; 2],
    deltas: [ChainLayer; 4],
    last_delta: ChainLayer,
    classes: [ChainLayer; 3],
    quality: Option<[ChainLayer; 3]>,
}

/// Columns of a block's last chain, which are reused as soon as all thread blocks have read them:
/// features and embeddings of the next block, the output of view sampling beside the features
/// (later the features of the memory), the hidden layer.
const FEATURES: u32 = 0;
const EMBEDDINGS: u32 = CHANNELS;
const WIDE: u32 = 2 * CHANNELS;
const HIDDEN: u32 = 4 * CHANNELS;
const FREE: [u32; 3] = [5 * CHANNELS, 6 * CHANNELS, 7 * CHANNELS];
/// Columns of the chains after an attention: its output, features and embeddings, the results.
const ATTENDED: u32 = 0;
const INPUT: [u32; 2] = [2 * CHANNELS, 3 * CHANNELS];
const OUTPUT: u32 = 4 * CHANNELS;

impl Chains {
    fn new(stream: &Stream, network: &Network) -> Result<Option<Self>> {
        let &Sparse4d { num_anchors, num_channels, num_single_frame_blocks, .. } = network.facts();
        let fits = num_channels == CHANNELS as usize
            && num_single_frame_blocks == 1
            && ChainEncoder::fits(&network.encoder().parts)
            && network.blocks().iter().all(has_shape);
        if !fits {
            return Ok(None);
        }
        let Some(kernel) = LayerChain::load(stream.device(), num_anchors)? else {
            return Ok(None);
        };
        let blocks = network.blocks().iter().map(|block| BlockLayers::new(stream, block));
        let rows = || DeviceRows::zeros(stream, num_anchors, num_channels);
        Ok(Some(Self {
            kernel,
            encoder: ChainEncoder::new(stream, &network.encoder().parts)?,
            blocks: blocks.collect::<Result<_>>()?,
            embeddings: [rows()?, rows()?],
            content: rows()?,
        }))
    }
}

/// Whether chains have columns for the layers of a block.
fn has_shape(block: &Block) -> bool {
    let size = |layer: &LinearLayer| [layer.num_inputs(), layer.num_outputs()];
    let channels = CHANNELS as usize;
    let refinement = &block.refinement;
    block.feed_forward.hidden.num_outputs() == 4 * channels
        && block.views.weight_logits.num_outputs() <= 2 * channels
        && block.views.learned_points.num_outputs() <= channels
        && refinement.classes[2].num_outputs() <= channels
        && [&block.views.weight_logits, &block.views.learned_points, &refinement.classes[2]]
            .into_iter()
            .all(|layer| ChainLayer::fits(size(layer)))
}

impl BlockLayers {
    fn new(stream: &Stream, block: &Block) -> Result<Self> {
        let layer = |layer: &LinearLayer| ChainLayer::new(stream, layer);
        let three = |layers: &[LinearLayer; 3]| {
            Ok([layer(&layers[0])?, layer(&layers[1])?, layer(&layers[2])?])
        };
        let Block { views, feed_forward, refinement, .. } = block;
        let channels = CHANNELS as usize;
        let attentions = match (&block.temporal, &block.attention) {
            (Some(temporal), Some(attention)) => Some([
                AttentionLayers {
                    queries: layer(&temporal.queries)?,
                    // Embeddings, then the features of the memory.
                    keys: ChainLayer::rotated(stream, &temporal.keys, channels)?,
                    values: layer(&temporal.values)?,
                    output: layer(&temporal.output)?,
                },
                AttentionLayers {
                    // Embeddings, then the features after the first attention.
                    queries: ChainLayer::rotated(stream, &attention.queries, channels)?,
                    keys: ChainLayer::rotated(stream, &attention.keys, channels)?,
                    values: layer(&attention.values)?,
                    output: layer(&attention.output)?,
                },
            ]),
            _ => None,
        };
        let [a, b, c, d, last] = &refinement.deltas;
        Ok(Self {
            attentions,
            learned_points: layer(&views.learned_points)?,
            weight_logits: layer(&views.weight_logits)?,
            view_output: layer(&views.output)?,
            wide_norm: chain_norm(stream, &feed_forward.norm)?,
            feed_forward: [layer(&feed_forward.hidden)?, layer(&feed_forward.output)?],
            deltas: [layer(a)?, layer(b)?, layer(c)?, layer(d)?],
            last_delta: ChainLayer::repeated(stream, last)?,
            classes: three(&refinement.classes)?,
            quality: refinement.quality.as_ref().map(three).transpose()?,
        })
    }

    fn num_bytes(&self) -> usize {
        let attentions = self.attentions.iter().flatten();
        let attentions = attentions.flat_map(|a| [&a.queries, &a.keys, &a.values, &a.output]);
        let layers = [&self.learned_points, &self.weight_logits, &self.view_output];
        let layers = layers.into_iter().chain(&self.feed_forward).chain(&self.deltas);
        let layers = layers.chain([&self.last_delta]).chain(&self.classes).chain(attentions);
        layers.chain(self.quality.iter().flatten()).map(ChainLayer::num_bytes).sum()
    }
}

impl CudaDecoder<f16> {
    /// Queues a frame that uses the memory.
    fn enqueue_chained(&mut self, maps: &DeviceFeatureMaps) -> Result<()> {
        let num_blocks = self.blocks.len();
        for block in 0..num_blocks {
            if block == 0 {
                self.enqueue_weights(block)?;
            } else {
                self.enqueue_attention(true)?;
                self.enqueue_output_of_memory(block)?;
                self.enqueue_attention(false)?;
                self.enqueue_chained_weights(block)?;
            }
            self.enqueue_points(block, maps, true)?;
            self.enqueue_rest(block)?;
            if block == 0 && num_blocks > 1 {
                self.enqueue_join(block)?;
                self.enqueue_joined_embeddings()?;
            }
        }
        self.enqueue_store(true)
    }

    /// An attention, to the memory or among the anchors.
    fn enqueue_attention(&mut self, is_temporal: bool) -> Result<()> {
        let &Sparse4d { num_anchors, num_cached, num_heads, .. } = self.network.facts();
        let Self { stream, rows, kernels, .. } = self;
        let stream = &*stream;
        let Buffers { queries, keys, values, cached_values, attended, .. } = rows;
        let (values, num_keys) =
            if is_temporal { (cached_values, num_cached) } else { (values, num_anchors) };
        let of_keys = (&*keys, &*values, num_keys);
        let args = attention_args(stream, queries, of_keys, attended, [num_anchors, num_heads])?;
        kernels.attention.enqueue(stream, args, num_heads as u32, &[])
    }

    /// The output of the temporal attention; queries, keys and values of the other.
    fn enqueue_output_of_memory(&mut self, index: usize) -> Result<()> {
        let num_anchors = self.network.facts().num_anchors;
        let Self { stream, rows, chains, .. } = self;
        let stream = &*stream;
        let Some(Chains { kernel, blocks, embeddings, .. }) = chains else { return Ok(()) };
        let Some([temporal, attention]) = &blocks[index].attentions else { return Ok(()) };
        let features = if index == 1 { &rows.joined } else { &rows.features };
        let mut steps = Steps::new(stream, num_anchors);
        steps.load(&rows.attended, ATTENDED, num_anchors)?;
        steps.load(features, INPUT[0], num_anchors)?;
        steps.load(&embeddings[index % 2], INPUT[1], num_anchors)?;
        steps.share(&temporal.output, ATTENDED, OUTPUT)?.keep(&mut rows.temporal, num_anchors)?;
        steps.rows(&attention.queries, INPUT[1], &mut rows.queries, num_anchors)?;
        steps.rows(&attention.keys, INPUT[1], &mut rows.keys, num_anchors)?;
        let values = (rows.values.output(stream)?, value_stride(num_anchors));
        steps.columns(&attention.values, OUTPUT, values, num_anchors)?;
        kernel.enqueue(&steps)
    }

    /// The output of the attention among the anchors, key points and weights.
    fn enqueue_chained_weights(&mut self, index: usize) -> Result<()> {
        let num_anchors = self.network.facts().num_anchors;
        let Self { stream, rows, chains, .. } = self;
        let stream = &*stream;
        let Some(Chains { kernel, blocks, embeddings, content, .. }) = chains else {
            return Ok(());
        };
        let block = &blocks[index];
        let Some([_, attention]) = &block.attentions else { return Ok(()) };
        let mut steps = Steps::new(stream, num_anchors);
        steps.load(&rows.attended, ATTENDED, num_anchors)?;
        steps.load(&rows.temporal, INPUT[0], num_anchors)?;
        steps.load(&embeddings[index % 2], INPUT[1], num_anchors)?;
        let sum = OUTPUT + CHANNELS;
        let mut after = steps.share(&attention.output, ATTENDED, OUTPUT)?;
        after.keep(content, num_anchors)?;
        after.add(INPUT[1], sum);
        steps.rows(&block.weight_logits, sum, &mut rows.weight_logits, num_anchors)?;
        let num_learned = rows.learned_points.len() / num_anchors;
        let learned = (rows.learned_points.output(stream)?, num_learned);
        steps.values(&block.learned_points, OUTPUT, learned)?;
        kernel.enqueue(&steps)
    }

    /// What follows view sampling: the features of the next block, the anchors refined, classes and
    /// quality of the last block and of the first, otherwise embeddings, queries, keys and values.
    fn enqueue_rest(&mut self, index: usize) -> Result<()> {
        let &Sparse4d { num_anchors, num_cached, num_classes, .. } = self.network.facts();
        let is_last = index + 1 == self.blocks.len();
        let Self { stream, rows, chains, start, anchors, frame, logits, quality, memory, .. } =
            self;
        let stream = &*stream;
        let Some(Chains { kernel, encoder, blocks, embeddings, content }) = chains else {
            return Ok(());
        };
        let block = &blocks[index];
        let [even, odd] = embeddings;
        let (old, new) = if index.is_multiple_of(2) { (&*even, odd) } else { (&*odd, even) };
        let [even, odd] = anchors;
        let (before, refined) = if index.is_multiple_of(2) { (&*odd, even) } else { (&*even, odd) };
        let (old, content, before) = match index {
            0 => (&start.embeddings, &start.features, &start.anchors),
            1 => (old, &*content, &rows.joined_anchors),
            _ => (old, &*content, before),
        };
        let mut steps = Steps::new(stream, num_anchors);
        let interval = frame.input(stream)?.from(INTERVAL);
        steps.anchors(before.input(stream)?, interval, FIRST_DIVIDED);
        steps.load(&rows.gathered, FEATURES, num_anchors)?;
        steps.load(old, EMBEDDINGS, num_anchors)?;
        steps.load(content, WIDE + CHANNELS, num_anchors)?;
        steps.share(&block.view_output, FEATURES, WIDE)?.normalize_wide(&block.wide_norm)?;
        steps.share(&block.feed_forward[0], WIDE, HIDDEN)?;
        let mut after = steps.share(&block.feed_forward[1], WIDE, FEATURES)?;
        after.keep(&mut rows.features, num_anchors)?;
        after.add(EMBEDDINGS, HIDDEN);
        let continues = index > 0 && !is_last;
        if continues {
            steps.load_later(&memory.features, WIDE, num_cached)?;
        }
        let sum = HIDDEN;
        let deltas = [sum, FREE[0], FREE[1], FREE[2], FREE[0]];
        for (layer, columns) in block.deltas.iter().zip(deltas.windows(2)) {
            steps.share(layer, columns[0], columns[1])?;
        }
        steps.refine(&block.last_delta, FREE[0], refined.output(stream)?)?;
        if !continues {
            let [first, second, third] = &block.classes;
            steps.share(first, FEATURES, FREE[1])?;
            steps.share(second, FREE[1], FREE[2])?;
            steps.values(third, FREE[2], (logits.output(stream)?, num_classes))?;
        }
        if let Some([first, second, third]) = block.quality.as_ref().filter(|_| is_last) {
            steps.share(first, sum, WIDE)?;
            steps.share(second, WIDE, WIDE + CHANNELS)?;
            steps.values(third, WIDE + CHANNELS, (quality.output(stream)?, 2))?;
        }
        if let Some([next, _]) = blocks.get(index + 1).and_then(|b| b.attentions.as_ref())
            && continues
        {
            steps.encode(encoder, [FREE[1], FREE[2], FREE[0], EMBEDDINGS], new)?;
            steps.rows(&next.queries, FEATURES, &mut rows.queries, num_anchors)?;
            steps.rows(&next.keys, EMBEDDINGS, &mut rows.keys, num_cached)?;
            let values = (rows.cached_values.output(stream)?, value_stride(num_cached));
            steps.columns(&next.values, WIDE, values, num_cached)?;
        }
        kernel.enqueue(&steps)
    }

    /// The embeddings of the anchors that the memory has joined; queries, keys and values of the
    /// second block.
    fn enqueue_joined_embeddings(&mut self) -> Result<()> {
        let &Sparse4d { num_anchors, num_cached, .. } = self.network.facts();
        let Self { stream, rows, chains, frame, memory, .. } = self;
        let stream = &*stream;
        let Some(Chains { kernel, encoder, blocks, embeddings: [_, odd], .. }) = chains else {
            return Ok(());
        };
        let Some([next, _]) = blocks.get(1).and_then(|block| block.attentions.as_ref()) else {
            return Ok(());
        };
        let mut steps = Steps::new(stream, num_anchors);
        let interval = frame.input(stream)?.from(INTERVAL);
        steps.anchors(rows.joined_anchors.input(stream)?, interval, FIRST_DIVIDED);
        steps.load(&rows.joined, FEATURES, num_anchors)?;
        steps.load(&memory.features, WIDE, num_cached)?;
        steps.encode(encoder, [FREE[1], FREE[2], FREE[0], EMBEDDINGS], odd)?;
        steps.rows(&next.queries, FEATURES, &mut rows.queries, num_anchors)?;
        steps.rows(&next.keys, EMBEDDINGS, &mut rows.keys, num_cached)?;
        let values = (rows.cached_values.output(stream)?, value_stride(num_cached));
        steps.columns(&next.values, WIDE, values, num_cached)?;
        kernel.enqueue(&steps)
    }
}
