//! Blocks of one launch each.

use std::convert::Infallible;

use half::f16;

use super::super::Network;
use super::{BOX_LEN, CudaDecoder, WholeBlocks};
use det_post_ops::device::cuda::{DeviceBuffer, In, Out, Stream};
use det_post_ops::view::attention::cuda::score_scale;
use det_post_ops::view::detr3d_block::cuda::{
    BlockArgs, CHANNELS, Detr3dBlock, HEADS, HIDDEN, LayerArgs, LayersArgs, MAX_CLASSES, NormsArgs,
    keys_values_len,
};
use det_post_ops::view::layer_norm::EPSILON;
use det_post_ops::view::linear::cuda::{DeviceLayer, DeviceRows};
use det_post_ops::view::sample::cuda::DeviceMaps;
use det_post_types::Result;

impl WholeBlocks for f32 {
    type Buffers = Infallible;

    fn buffers(_: &Stream, _: &Network) -> Result<Option<Infallible>> {
        Ok(None)
    }

    fn enqueue(decoder: &mut CudaDecoder<f32>, _: usize, _: &DeviceMaps<'_>) -> Result<()> {
        match decoder.whole_blocks {
            None => Ok(()),
            Some(never) => match never {},
        }
    }
}

impl WholeBlocks for f16 {
    type Buffers = BlockBuffers;

    fn buffers(stream: &Stream, network: &Network) -> Result<Option<BlockBuffers>> {
        BlockBuffers::new(stream, network)
    }

    fn enqueue(decoder: &mut CudaDecoder<f16>, index: usize, maps: &DeviceMaps<'_>) -> Result<()> {
        decoder.enqueue_block(index, maps)
    }
}

/// The kernel, and what a block leaves to the next: even blocks read the first of two
/// buffers and write the second, odd ones the other way round.
pub struct BlockBuffers {
    kernel: Detr3dBlock,
    contents: [DeviceRows<f16>; 2],
    queries: [DeviceRows<f16>; 2],
    keys_values: [DeviceBuffer<f16>; 2],
}

impl BlockBuffers {
    /// `None` when the kernel does not have the network's shape, or the GPU not the kernel.
    fn new(stream: &Stream, network: &Network) -> Result<Option<Self>> {
        let facts = network.facts();
        let (num_queries, channels) = (facts.num_queries, facts.num_channels);
        let has_shape = channels == CHANNELS as usize
            && facts.num_heads == HEADS as usize
            && facts.num_classes <= MAX_CLASSES as usize
            && network
                .blocks()
                .iter()
                .all(|block| block.feed_forward[0].num_outputs() == HIDDEN as usize);
        if !has_shape {
            return Ok(None);
        }
        let Some(kernel) = Detr3dBlock::load(stream.device(), num_queries)? else {
            return Ok(None);
        };
        let rows = || DeviceRows::zeros(stream, num_queries, channels);
        let keys_values = || DeviceBuffer::zeros(stream, keys_values_len(num_queries));
        Ok(Some(Self {
            kernel,
            contents: [rows()?, rows()?],
            queries: [rows()?, rows()?],
            keys_values: [keys_values()?, keys_values()?],
        }))
    }
}

impl CudaDecoder<f16> {
    /// Queues a block as one launch; the last gives the results.
    fn enqueue_block(&mut self, index: usize, maps: &DeviceMaps<'_>) -> Result<()> {
        let facts = self.network.facts();
        let (num_queries, channels) = (facts.num_queries, facts.num_channels);
        let Self { stream, blocks, classes, start, rows, whole_blocks, references, .. } = self;
        let Some(buffers) = whole_blocks else { return Ok(()) };
        let stream = &*stream;
        let block = &blocks[index];
        let next = blocks.get(index + 1);
        let [contents, next_contents] = in_turn(&mut buffers.contents, index);
        let [queries, next_queries] = in_turn(&mut buffers.queries, index);
        let [keys_values, next_keys_values] = in_turn(&mut buffers.keys_values, index);
        let [points, moved] = in_turn(references, index);
        let points = if index == 0 { &start.references } else { points };
        let none = LayerArgs::empty();
        let mut args = BlockArgs {
            layers: LayersArgs {
                encoder: layer_args(stream, &block.encoder_output)?,
                attention_output: layer_args(stream, &block.output)?,
                view_output: layer_args(stream, &block.view_output)?,
                feed_forward: [
                    layer_args(stream, &block.feed_forward[0])?,
                    layer_args(stream, &block.feed_forward[1])?,
                ],
                queries_keys: none,
                values: none,
                regression: [
                    layer_args(stream, &block.regression[0])?,
                    layer_args(stream, &block.regression[1])?,
                    layer_args(stream, &block.regression[2])?,
                ],
                classes: [none; 3],
            },
            norms: NormsArgs {
                encoder: [
                    block.encoder_norms[0].input(stream)?,
                    block.encoder_norms[1].input(stream)?,
                ],
                rows: [
                    block.norms[0].input(stream)?,
                    block.norms[1].input(stream)?,
                    block.norms[2].input(stream)?,
                ],
                classes: [In::empty(); 2],
            },
            encoder: block.encoder_input.input(stream)?,
            attended: if index == 0 { start.attended.input(stream)? } else { In::empty() },
            content: contents.input(stream)?,
            positions: match &start.positions {
                Some(positions) => positions.input(stream)?,
                None => In::empty(),
            },
            queries: queries.input(stream)?,
            keys_values: keys_values.input(stream)?,
            offsets: In::empty(),
            next_content: Out::empty(),
            next_queries: Out::empty(),
            next_keys_values: Out::empty(),
            output: Out::empty(),
            points: points.input(stream)?,
            moved: Out::empty(),
            sample_weights: block.sample_weights.input(stream)?,
            sample_offsets: block.sample_offsets.input(stream)?,
            boxes: Out::empty(),
            logits: Out::empty(),
            maps: maps.args(stream, self.projections.device(), facts.min_depth_m)?,
            low: facts.range.min,
            extent: std::array::from_fn(|axis| facts.range.max[axis] - facts.range.min[axis]),
            num_queries: num_queries as u32,
            num_classes: facts.num_classes as u32,
            score_scale: score_scale(channels / facts.num_heads),
            epsilon: EPSILON,
        };
        if let Some(next) = next {
            args.layers.queries_keys = layer_args(stream, &next.queries_keys)?;
            args.layers.values = layer_args(stream, &next.values)?;
            args.offsets = next.offsets.input(stream)?;
            args.next_content = next_contents.output(stream)?;
            args.next_queries = next_queries.output(stream)?;
            args.next_keys_values = next_keys_values.output(stream)?;
            args.moved = moved.output(stream)?;
        } else {
            args.layers.classes = [
                layer_args(stream, &classes.layers[0])?,
                layer_args(stream, &classes.layers[1])?,
                layer_args(stream, &classes.layers[2])?,
            ];
            args.norms.classes = [classes.norms[0].input(stream)?, classes.norms[1].input(stream)?];
            args.output = rows.output.output(stream)?;
            let results = self.results.output(stream)?;
            [args.boxes, args.logits] = results.split_at(num_queries * BOX_LEN);
        }
        buffers.kernel.enqueue(stream, maps.texel()?, &args)
    }
}

fn layer_args<'a>(stream: &Stream, layer: &'a DeviceLayer) -> Result<LayerArgs<'a>> {
    Ok(LayerArgs { weights: layer.weights(stream)?, bias: layer.bias(stream)? })
}

/// The buffer that a block reads, and the one it writes.
fn in_turn<B>([even, odd]: &mut [B; 2], index: usize) -> [&mut B; 2] {
    if index.is_multiple_of(2) { [even, odd] } else { [odd, even] }
}
