//! A DETR3D decoder on a GPU.

mod blocks;
mod launches;
mod weights;

use std::sync::Arc;

use self::weights::{DeviceBlock, DeviceClasses};
use super::super::uploaded::Uploaded;
use super::super::{DecodedQueries, QueryBuffers, STAGE, View, set_projections};
use super::{Network, adds_position};
use det_post_ops::decode::query::cuda::DeviceQueries;
use det_post_ops::device::cuda::{DeviceBuffer, Graph, PinnedBuffer, Stream};
use det_post_ops::view::attention::cuda::{AttentionElement, AttentionKernel, value_stride};
use det_post_ops::view::linear::cuda::{DeviceRows, LinearKernels, padded};
use det_post_ops::view::sample::Projection;
use det_post_ops::view::sample::cuda::{
    DeviceMaps, MAX_CHANNELS, MAX_LEVELS, MAX_VIEWS, ReferenceSampling, SampleElement,
};
use det_post_types::{Error, ErrorKind, QueryBox, Result};

/// Elements of the activations by whether a kernel computes a whole block.
pub trait WholeBlocks: Sized {
    /// What blocks leave to the next.
    type Buffers;

    /// `None` when no kernel computes the blocks of the network.
    #[doc(hidden)]
    fn buffers(stream: &Stream, network: &Network) -> Result<Option<Self::Buffers>>;

    /// Queues a block; the last gives the results.
    #[doc(hidden)]
    fn enqueue(decoder: &mut CudaDecoder<Self>, index: usize, maps: &DeviceMaps<'_>) -> Result<()>
    where
        Self: Activation;
}

/// Elements of the activations: f32 or f16. Sums, normalizations, references and results are
/// f32 in both.
pub trait Activation: AttentionElement + SampleElement + WholeBlocks {}
impl<T: AttentionElement + SampleElement + WholeBlocks> Activation for T {}

/// A DETR3D decoder on a GPU.
///
/// A block is one launch where the network and the GPU allow it
/// ([`detr3d_block`](det_post_ops::view::detr3d_block)). Elsewhere it is seven; layers that do not
/// depend on each other share one:
///
/// | launch | beside it |
/// |---|---|
/// | queries, keys, values | first regression layer of the block before |
/// | attention | its second |
/// | output of the attention | its third, which moves the references |
/// | view sampling, with its weights | second layer of the position encoder |
/// | output of view sampling | – |
/// | feed forward, first layer | – |
/// | feed forward, second layer | – |
///
/// Content is stored before its normalization, which the next launch computes. The first
/// attention depends only on constants: it is computed when the decoder is made. All memory
/// is taken then; a frame waits for nothing on the host, so that it can be recorded as one
/// graph ([`Self::record`]).
pub struct CudaDecoder<T: Activation> {
    network: Arc<Network>,
    stream: Stream,
    kernels: Kernels<T>,
    blocks: Vec<DeviceBlock<T>>,
    classes: DeviceClasses,
    start: Start<T>,
    rows: Buffers<T>,
    /// Of blocks that are one launch each.
    whole_blocks: Option<T::Buffers>,
    /// References of even and odd blocks.
    references: [DeviceBuffer<f32>; 2],
    projections: Uploaded,
    host_projections: Vec<Projection>,
    /// Boxes, then logits.
    results: DeviceBuffer<f32>,
    pinned: PinnedBuffer<f32>,
    boxes: Vec<QueryBox>,
    logits: Vec<f32>,
}

struct Kernels<T: Activation> {
    linear: LinearKernels<T>,
    attention: AttentionKernel<T>,
    sampling: ReferenceSampling<T>,
}

/// The state before the first block, and what follows from it.
struct Start<T> {
    contents: DeviceRows<T>,
    positions: Option<DeviceRows<T>>,
    references: DeviceBuffer<f32>,
    /// The content after the first attention, before its normalization.
    attended: DeviceRows<T>,
}

/// Rows of the queries.
struct Buffers<T> {
    content: DeviceRows<T>,
    queries_keys: DeviceRows<T>,
    values: DeviceBuffer<T>,
    gathered: DeviceRows<T>,
    attended: DeviceRows<T>,
    normalized: DeviceRows<T>,
    encoded: DeviceRows<T>,
    sampled: DeviceRows<T>,
    before_hidden: DeviceRows<T>,
    hidden: DeviceRows<T>,
    output: DeviceRows<T>,
    regression: [DeviceRows<T>; 2],
    classes: [DeviceRows<T>; 2],
}

impl<T: Activation> Buffers<T> {
    fn new(stream: &Stream, num_queries: usize, channels: usize, hidden: usize) -> Result<Self> {
        let rows = |columns| DeviceRows::zeros(stream, num_queries, columns);
        let len = channels * value_stride(num_queries);
        Ok(Self {
            content: rows(channels)?,
            queries_keys: rows(2 * channels)?,
            values: DeviceBuffer::zeros(stream, len)?,
            gathered: rows(channels)?,
            attended: rows(channels)?,
            normalized: rows(channels)?,
            encoded: rows(channels)?,
            sampled: rows(channels)?,
            before_hidden: rows(channels)?,
            hidden: rows(hidden)?,
            output: rows(channels)?,
            regression: [rows(channels)?, rows(channels)?],
            classes: [rows(channels)?, rows(channels)?],
        })
    }
}

impl<T: Activation> CudaDecoder<T> {
    /// Loads the kernels, packs the weights, takes the memory and computes the constants.
    ///
    /// # Errors
    /// `Model` when the network has more views, levels or channels than the kernels, or
    /// channels or heads that they do not divide; `Device` when this build has no kernels,
    /// the GPU has too little shared memory, or there is not enough memory.
    pub fn new(stream: &Stream, network: Arc<Network>) -> Result<Self> {
        check(&network)?;
        let facts = network.facts();
        let (num_queries, channels) = (facts.num_queries, facts.num_channels);
        let num_classes = facts.num_classes;
        let num_views = facts.num_views;
        let widths = network.blocks().iter().map(|block| block.feed_forward[0].num_outputs());
        let hidden = padded(widths.max().unwrap_or(channels));
        let blocks = network.blocks().iter().map(|block| DeviceBlock::new(stream, block, facts));
        let blocks = blocks.collect::<Result<_>>()?;
        let device = stream.device();
        let max_inputs = hidden.max(channels) as u32;
        let kernels = Kernels {
            linear: LinearKernels::load(device, max_inputs, channels as u32)?,
            attention: AttentionKernel::load(
                device,
                (channels / facts.num_heads) as u32,
                channels as u32,
            )?,
            sampling: ReferenceSampling::load(device, channels as u32)?,
        };
        let num_results = num_queries * (num_classes + BOX_LEN);
        let references = || DeviceBuffer::zeros(stream, 3 * num_queries);
        let positions = adds_position(facts)
            .then(|| DeviceRows::from_host(stream, &network.start().positions, channels))
            .transpose()?;
        let mut decoder = Self {
            kernels,
            blocks,
            classes: DeviceClasses::new::<T>(stream, network.classes())?,
            start: Start {
                contents: DeviceRows::zeros(stream, num_queries, channels)?,
                positions,
                references: references()?,
                attended: DeviceRows::zeros(stream, num_queries, channels)?,
            },
            rows: Buffers::new(stream, num_queries, channels, hidden)?,
            whole_blocks: T::buffers(stream, &network)?,
            references: [references()?, references()?],
            projections: Uploaded::zeros(stream, 12 * num_views)?,
            host_projections: vec![Projection::UNSEEN; num_views],
            results: DeviceBuffer::zeros(stream, num_results)?,
            pinned: PinnedBuffer::zeros(stream, num_results)?,
            boxes: vec![[0.0; BOX_LEN]; num_queries],
            logits: vec![0.0; num_queries * num_classes],
            stream: stream.clone(),
            network,
        };
        decoder.upload_projections()?;
        let network = decoder.network.clone();
        decoder.set_start(&network.start().contents, &network.start().references)?;
        Ok(decoder)
    }

    /// Replaces the views of the next frames. Waits for nothing.
    ///
    /// # Errors
    /// `Argument` when there are not as many as the network has, or a matrix is not finite;
    /// `Device` when the copy fails.
    pub fn set_views(&mut self, views: &[View]) -> Result<()> {
        set_projections(views, &mut self.host_projections, self.network.facts().num_views)?;
        self.upload_projections()
    }

    fn upload_projections(&mut self) -> Result<()> {
        let rows = self.host_projections.iter().flat_map(|view| view.rows().as_flattened());
        self.projections.update(rows.copied()).map(drop)
    }

    /// Replaces the contents `[Q, C]` and references before the first block, computes what
    /// follows from them, and waits.
    ///
    /// # Errors
    /// `Argument` when there are not as many as the network has; `Device` when the work fails.
    pub fn set_start(&mut self, contents: &[f32], references: &[[f32; 3]]) -> Result<()> {
        let facts = self.network.facts();
        let (num_queries, channels) = (facts.num_queries, facts.num_channels);
        if contents.len() != num_queries * channels || references.len() != num_queries {
            let lens = [contents.len(), references.len()];
            let message =
                format!("contents and references of {lens:?} values do not fit {facts:?}");
            return Err(Error::new(ErrorKind::Argument, STAGE, message));
        }
        self.start.contents.write(contents, channels)?;
        self.start.references.write(references.as_flattened())?;
        self.enqueue_projections(0)?;
        self.enqueue_attention(0)?;
        let Self { start, blocks, rows, kernels, stream, .. } = self;
        let Start { contents, positions, attended, .. } = start;
        let job = blocks[0].output_job(
            stream,
            rows.gathered.part(stream)?,
            contents,
            positions.as_ref(),
            attended.output(stream)?,
        )?;
        kernels.linear.enqueue(stream, &[job])?;
        self.stream.synchronize()
    }

    /// Records a frame as a graph over maps whose texels change from frame to frame.
    ///
    /// # Errors
    /// As [`Self::enqueue`]; `Device` when the recording fails.
    pub fn record<'m>(&mut self, maps: impl Into<DeviceMaps<'m>>) -> Result<Graph> {
        let stream = self.stream.clone();
        Graph::capture(&stream, || self.enqueue(maps))
    }

    /// Queues a frame.
    ///
    /// # Errors
    /// `Argument` when the maps are not of the network's views, levels and channels, or no
    /// kernel reads their texels; `Device` when a launch fails.
    pub fn enqueue<'m>(&mut self, maps: impl Into<DeviceMaps<'m>>) -> Result<()> {
        let maps = &maps.into();
        let facts = self.network.facts();
        let expected = [facts.num_views, facts.num_levels, facts.num_channels];
        if maps.sizes() != expected {
            let message = format!(
                "maps of views, levels and channels {:?}; the network has {expected:?}",
                maps.sizes()
            );
            return Err(Error::new(ErrorKind::Argument, STAGE, message));
        }
        if self.whole_blocks.is_some() {
            return (0..self.blocks.len()).try_for_each(|block| T::enqueue(self, block, maps));
        }
        for block in 0..self.blocks.len() {
            if block > 0 {
                self.enqueue_projections(block)?;
                self.enqueue_attention(block)?;
                self.enqueue_attention_output(block)?;
            }
            self.enqueue_sampling(block, maps)?;
            self.enqueue_sampling_output(block)?;
            self.enqueue_feed_forward(block)?;
        }
        self.enqueue_results()
    }

    /// Waits, then returns what the frame before gave.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn results(&mut self) -> Result<DecodedQueries<'_>> {
        let values = self.pinned.download(&self.results)?;
        let (boxes, logits) = values.split_at(self.boxes.as_flattened().len());
        self.boxes.as_flattened_mut().copy_from_slice(boxes);
        self.logits.copy_from_slice(logits);
        Ok(DecodedQueries { logits: &self.logits, boxes: &self.boxes, quality: None })
    }

    /// What the last frame gives, for a kernel to read.
    ///
    /// # Errors
    /// `Device` for a stream other than the decoder's.
    pub fn queries(&self, stream: &Stream) -> Result<DeviceQueries<'_>> {
        let results = self.results.input(stream)?;
        Ok(DeviceQueries {
            boxes: results,
            logits: results.from(self.boxes.as_flattened().len()),
            quality: results.from(results.len()),
        })
    }

    /// Queues copies of boxes and logits of the last frame.
    ///
    /// # Errors
    /// `Argument` for a buffer of another length; `Device` for one of another stream, or when a copy
    /// fails.
    pub fn enqueue_outputs(&self, outputs: &mut QueryBuffers) -> Result<()> {
        outputs.boxes.enqueue_copy_part(&self.results, 0, self.boxes.as_flattened().len())?;
        let first = self.boxes.as_flattened().len();
        outputs.logits.enqueue_copy_part(&self.results, first, self.logits.len())
    }

    /// Waits, then copies the content `[Q, C]` that the last block's feed-forward layers
    /// wrote, before its normalization: for tests.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn read_content(&self) -> Result<Vec<f32>> {
        self.rows.output.read(self.network.facts().num_channels)
    }

    /// Bytes of device memory of the weights.
    pub fn num_weight_bytes(&self) -> usize {
        self.blocks.iter().map(DeviceBlock::num_bytes).sum::<usize>() + self.classes.num_bytes()
    }
}

const BOX_LEN: usize = size_of::<QueryBox>() / size_of::<f32>();

fn check(network: &Network) -> Result<()> {
    let facts = network.facts();
    let fits = facts.num_views <= MAX_VIEWS
        && facts.num_levels <= MAX_LEVELS
        && facts.num_channels <= MAX_CHANNELS
        && padded(facts.num_channels) == facts.num_channels;
    if fits {
        return Ok(());
    }
    let message = format!(
        "{} views, {} levels and {} channels; the limits of a GPU are {MAX_VIEWS}, {MAX_LEVELS} \
         and {MAX_CHANNELS}, channels in steps of 16",
        facts.num_views, facts.num_levels, facts.num_channels
    );
    Err(Error::new(ErrorKind::Model, STAGE, message))
}
