//! A Sparse4D decoder on a GPU.

mod encoder;
mod launches;
mod refinement;
mod rows;
mod weights;

use std::sync::Arc;

pub use self::rows::Activation;

use self::encoder::Encoder;
use self::rows::{BOX_LEN, Buffers, INTERVAL, Memory, SamplingRows, Start};
use self::weights::DeviceBlock;
use super::super::uploaded::Uploaded;
use super::super::{CachedAnchors, QueryBuffers, STAGE, View, set_projections};
use super::Network;
use det_post_ops::decode::query::cuda::DeviceQueries;
use det_post_ops::device::cuda::{DeviceBuffer, Stream};
use det_post_ops::view::attention::cuda::AttentionKernel;
use det_post_ops::view::layer_stack::cuda::StackKernel;
use det_post_ops::view::linear::cuda::{DeviceRows, LinearKernels, padded};
use det_post_ops::view::sample::Projection;
use det_post_ops::view::sample::cuda::{
    DeviceMaps, MAX_CHANNELS, MAX_LEVELS, MAX_VIEWS, PointSampling,
};
use det_post_ops::view::top_rows::cuda::{MAX_ROWS, TopRows};
use det_post_types::{Error, ErrorKind, Motion, QueryBox, Result, Sparse4d};

/// A Sparse4D decoder on a GPU, with its memory.
///
/// A block is 13 launches, or 12, those before the first attention fewer; layers that do not
/// depend on each other share one:
///
/// | launches | |
/// |---|---|
/// | 3 | temporal attention: queries, keys and values; attention; output |
/// | 3 | attention among the anchors, likewise |
/// | 1 | key points and weights of the views |
/// | 1 | view sampling |
/// | 3 | output of view sampling; feed-forward layers |
/// | 1 | deltas, and after some blocks classes and quality |
/// | 1 | embeddings of the anchors |
///
/// In f16, on GPUs of compute capability 9.0 and where the widths of the layers allow it, the last
/// two are one launch in blocks without classes
/// ([`layer_stack::folded`](det_post_ops::view::layer_stack::folded)).
///
/// After the single-frame blocks the anchors of the memory join by one launch, after the last
/// the best are kept by one launch and a copy. All memory is taken when the decoder is made; a
/// frame waits for nothing on the host. A frame with a memory and one without are different
/// launches: each can be recorded as a graph ([`Self::enqueue`]).
pub struct CudaDecoder<T: Activation> {
    network: Arc<Network>,
    stream: Stream,
    kernels: Kernels<T>,
    blocks: Vec<DeviceBlock<T>>,
    encoder: Encoder<T>,
    start: Start<T>,
    rows: Buffers<T>,
    memory: Memory<T>,
    /// Anchors that even and odd blocks have refined.
    anchors: [DeviceBuffer<f32>; 2],
    logits: DeviceBuffer<f32>,
    quality: DeviceBuffer<f32>,
    /// The motion since the frame before, and the interval.
    frame: Uploaded,
    projections: Uploaded,
    host_projections: Vec<Projection>,
    /// The 12 numbers of each view's matrix in pixels.
    matrices: Uploaded,
    has_view_logits: bool,
    /// By block, the logits of the views, `[N, L, P, G]`.
    view_logits: Vec<DeviceBuffer<f32>>,
}

struct Kernels<T: Activation> {
    linear: LinearKernels<T>,
    attention: AttentionKernel<T>,
    sampling: PointSampling<T>,
    stack: StackKernel<T>,
    top_rows: TopRows<T>,
}

impl<T: Activation> CudaDecoder<T> {
    /// Loads the kernels, packs the weights, takes the memory and computes the constants.
    ///
    /// # Errors
    /// `Model` when the network has more views, levels, points or channels than the kernels, or
    /// channels, heads or groups that they do not divide; `Device` when this build has no
    /// kernels, the GPU has too little shared memory, or there is not enough memory.
    pub fn new(stream: &Stream, network: Arc<Network>) -> Result<Self> {
        check(&network)?;
        let facts = network.facts();
        let &Sparse4d { num_anchors, num_channels, num_views, .. } = facts;
        let device = stream.device();
        let widths = network.blocks().iter().map(|block| block.feed_forward.hidden.num_outputs());
        let hidden = padded(widths.max().unwrap_or(num_channels));
        let num_logits = |block: &super::Block| num_views * block.views.weight_logits.num_outputs();
        let max_weights = network.blocks().iter().map(num_logits).max().unwrap_or(0);
        let max_inputs = (2 * num_channels + hidden).max(4 * num_channels) as u32;
        let kernels = Kernels {
            linear: LinearKernels::load(device, max_inputs, 2 * num_channels as u32)?,
            attention: AttentionKernel::load(
                device,
                (2 * num_channels / facts.num_heads) as u32,
                num_channels as u32,
            )?,
            sampling: PointSampling::load(device, max_weights)?,
            stack: StackKernel::load(device)?,
            top_rows: TopRows::load(device, num_anchors)?,
        };
        let last = network.blocks().len() - 1;
        let blocks = network.blocks().iter().enumerate().map(|(index, block)| {
            let encoder = Some(network.encoder()).filter(|_| index != last);
            let classifies = index == last || index + 1 == facts.num_single_frame_blocks;
            DeviceBlock::new(stream, block, encoder, classifies)
        });
        let blocks = blocks.collect::<Result<_>>()?;
        let encoder = Encoder::new(stream, network.encoder())?;
        let boxes = || DeviceBuffer::zeros(stream, num_anchors * BOX_LEN);
        let mut start = Start {
            features: DeviceRows::from_host(stream, network.features(), num_channels)?,
            anchors: boxes()?,
            embeddings: DeviceRows::zeros(stream, num_anchors, num_channels)?,
            sampling: SamplingRows::new(stream, &network)?,
        };
        start.anchors.write(network.anchors().as_flattened())?;
        let Start { anchors, embeddings, .. } = &mut start;
        encoder.enqueue(stream, &kernels.stack, anchors, embeddings)?;
        let view_logits =
            network.blocks().iter().map(|block| DeviceBuffer::zeros(stream, num_logits(block)));
        let view_logits = view_logits.collect::<Result<_>>()?;
        let mut decoder = Self {
            kernels,
            blocks,
            encoder,
            start,
            rows: Buffers::new(stream, &network, hidden)?,
            memory: Memory::new(stream, facts)?,
            anchors: [boxes()?, boxes()?],
            logits: DeviceBuffer::zeros(stream, num_anchors * facts.num_classes)?,
            quality: DeviceBuffer::zeros(stream, 2 * num_anchors)?,
            frame: Uploaded::zeros(stream, INTERVAL + 1)?,
            projections: Uploaded::zeros(stream, 12 * num_views)?,
            host_projections: Vec::with_capacity(num_views),
            matrices: Uploaded::zeros(stream, 12 * num_views)?,
            has_view_logits: false,
            view_logits,
            stream: stream.clone(),
            network,
        };
        let unseen = [Projection::UNSEEN].repeat(num_views);
        decoder.projections.upload(values_of(&unseen))?;
        decoder.enqueue_first_weights()?;
        decoder.stream.synchronize()?;
        Ok(decoder)
    }

    /// Replaces the views of the next frames. Waits for nothing.
    ///
    /// # Errors
    /// `Argument` when there are not as many as the network has, or a matrix is not finite;
    /// `Device` when a copy or a launch fails.
    pub fn set_views(&mut self, views: &[View]) -> Result<()> {
        let Self { network, host_projections, projections, matrices, .. } = self;
        set_projections(views, host_projections, network.facts().num_views)?;
        let values = views.iter().flat_map(|view| view.pixels_from_base.as_flattened());
        let is_new = matrices.update(values.map(|&value| value as f32))?;
        if !is_new && self.has_view_logits {
            return projections.update(values_of(host_projections)).map(drop);
        }
        self.has_view_logits = false;
        self.enqueue_view_logits()?;
        // A copy comes after the launches that write the logits of the views: view sampling reads those
        // before it waits for earlier launches, and no launch behind a copy begins before they end.
        self.projections.upload(values_of(&self.host_projections))?;
        self.has_view_logits = true;
        Ok(())
    }

    /// Begins a frame: queues the upload of its motion and returns whether it uses the memory.
    /// Without a motion the frames before are forgotten.
    ///
    /// # Errors
    /// `Device` when the copy fails; the memory is then forgotten.
    pub fn begin(&mut self, motion: Option<&Motion>) -> Result<bool> {
        let motion = motion.filter(|_| !self.memory.is_empty);
        let uses_memory = motion.is_some();
        let mut values = [0.0; INTERVAL + 1];
        values[INTERVAL] = self.network.facts().default_interval_s;
        if let Some(motion) = motion {
            values[..INTERVAL].copy_from_slice(motion.current_from_past.as_flattened());
            values[INTERVAL] = motion.interval_s;
        }
        self.memory.is_empty = true;
        self.frame.upload(values.into_iter())?;
        // From here on the memory is that of the frame.
        self.memory.is_empty = false;
        Ok(uses_memory)
    }

    /// Queues a frame that was begun.
    ///
    /// # Errors
    /// `Argument` when the maps are not of the network's views, levels and channels, or no
    /// kernel reads their texels; `Device` when a launch fails.
    pub fn enqueue<'m>(
        &mut self,
        maps: impl Into<DeviceMaps<'m>>,
        uses_memory: bool,
    ) -> Result<()> {
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
        let (num_blocks, num_single) = (facts.num_blocks, facts.num_single_frame_blocks);
        for block in 0..num_blocks {
            if block > 0 {
                self.enqueue_attentions(block, uses_memory)?;
                self.enqueue_weights(block)?;
            }
            self.enqueue_points(block, maps, uses_memory)?;
            self.enqueue_feed_forward(block, uses_memory)?;
            let is_last = block + 1 == num_blocks;
            let joins = block + 1 == num_single && uses_memory;
            self.enqueue_refinement(block, uses_memory, is_last || joins)?;
            if joins {
                self.enqueue_join(block)?;
                self.enqueue_joined_embeddings(block)?;
            }
        }
        self.enqueue_store(uses_memory)
    }

    /// What the last frame gives, for a kernel to read.
    ///
    /// # Errors
    /// `Device` for a stream other than the decoder's.
    pub fn queries(&self, stream: &Stream) -> Result<DeviceQueries<'_>> {
        let facts = self.network.facts();
        let quality = self.quality.input(stream)?;
        Ok(DeviceQueries {
            boxes: self.boxes().input(stream)?,
            logits: self.logits.input(stream)?,
            quality: if facts.has_quality { quality } else { quality.from(quality.len()) },
        })
    }

    /// The facts.
    pub fn facts(&self) -> &det_post_types::Sparse4d {
        self.network.facts()
    }

    /// Queues copies of boxes, logits and quality of the last frame.
    ///
    /// # Errors
    /// `Argument` for a buffer of another length; `Device` for one of another stream, or when a copy
    /// fails.
    pub fn enqueue_outputs(&self, outputs: &mut QueryBuffers) -> Result<()> {
        outputs.boxes.enqueue_copy_part(self.boxes(), 0, self.boxes().len())?;
        outputs.logits.enqueue_copy_part(&self.logits, 0, self.logits.len())?;
        match &mut outputs.quality {
            Some(quality) => quality.enqueue_copy_part(&self.quality, 0, self.quality.len()),
            None => Ok(()),
        }
    }

    /// Waits, then copies boxes, class logits and, where the network has them, the logits of
    /// centreness and yawness: for tests.
    ///
    /// # Errors
    /// `Device` when earlier work or a copy fails.
    pub fn read(&self) -> Result<(Vec<QueryBox>, Vec<f32>, Vec<f32>)> {
        let boxes = self.boxes().read()?.as_chunks().0.to_vec();
        Ok((boxes, self.logits.read()?, self.quality.read()?))
    }

    /// Waits, then copies the rows that were cached last and their confidence: for tests.
    ///
    /// # Errors
    /// `Device` when earlier work or a copy fails.
    pub fn read_memory(&self) -> Result<(Vec<u32>, Vec<f32>)> {
        Ok((self.memory.cached_rows.read()?, self.memory.confidence.read()?))
    }

    /// Waits, then copies the memory; `None` if there was no frame before.
    ///
    /// # Errors
    /// `Device` when earlier work or a copy fails.
    pub fn memory(&self) -> Result<Option<CachedAnchors>> {
        if self.memory.is_empty {
            return Ok(None);
        }
        Ok(Some(CachedAnchors {
            boxes: self.memory.anchors.read()?.as_chunks().0.to_vec(),
            features: self.memory.features.read(self.network.facts().num_channels)?,
            confidence: self.memory.confidence.read()?,
        }))
    }

    /// Replaces the memory by the features `[K, C]`, boxes and confidences of anchors, and waits:
    /// not for frames.
    ///
    /// # Errors
    /// `Argument` when there are more than the memory holds; `Device` when a copy fails.
    pub fn set_memory(
        &mut self,
        features: &[f32],
        anchors: &[QueryBox],
        confidence: &[f32],
    ) -> Result<()> {
        self.memory.features.write(features, self.network.facts().num_channels)?;
        self.memory.anchors.write(anchors.as_flattened())?;
        self.memory.confidence.write(confidence)?;
        self.memory.is_empty = false;
        Ok(())
    }

    /// Forgets the frames before.
    pub fn forget(&mut self) {
        self.memory.is_empty = true;
    }

    /// Bytes of device memory of the weights.
    pub fn num_weight_bytes(&self) -> usize {
        let blocks = self.blocks.iter().map(DeviceBlock::num_bytes).sum::<usize>();
        self.encoder.num_bytes() + blocks
    }

    fn boxes(&self) -> &DeviceBuffer<f32> {
        &self.anchors[(self.blocks.len() - 1) % 2]
    }
}

/// The values of projections that kernels read.
fn values_of(projections: &[Projection]) -> impl Iterator<Item = f32> + Clone {
    projections.iter().flat_map(|projection| projection.rows().as_flattened()).copied()
}

fn check(network: &Network) -> Result<()> {
    let facts = network.facts();
    let is_narrow = |block: &super::Block| {
        let same = network.blocks().first().map(|first| first.views.num_points());
        same == Some(block.views.num_points())
    };
    let fits = facts.num_views <= MAX_VIEWS
        && facts.num_levels <= MAX_LEVELS
        && facts.num_channels <= MAX_CHANNELS
        && padded(facts.num_channels) == facts.num_channels
        && facts.num_anchors <= MAX_ROWS
        && network.blocks().iter().all(is_narrow);
    if fits {
        return Ok(());
    }
    let message = format!(
        "{} views, {} levels, {} channels and {} anchors; the limits of a GPU are {MAX_VIEWS}, \
         {MAX_LEVELS}, {MAX_CHANNELS} and {MAX_ROWS}, channels in steps of 16, and every block \
         must have the same number of key points",
        facts.num_views, facts.num_levels, facts.num_channels, facts.num_anchors
    );
    Err(Error::new(ErrorKind::Model, STAGE, message))
}
