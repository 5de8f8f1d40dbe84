//! A Sparse4D decoder on the CPU: frames and their memory.

mod steps;

use std::sync::Arc;

use super::super::{CachedAnchors, DecodedQueries, View, set_projections};
use super::{AnchorMemory, Network};
use det_post_ops::view::attention::Workspace as AttentionWorkspace;
use det_post_ops::view::layer_stack::Workspace as Layers;
use det_post_ops::view::rows::{Part, Rows, RowsMut};
use det_post_ops::view::sample::{MapsView, Projection, Workspace as SamplingWorkspace};
use det_post_types::{Motion, QueryBox, Result};

/// A Sparse4D decoder on the CPU, in f32, with its memory.
///
/// All memory is taken when it is made or in the first frames. [`Self::run`] begins a
/// frame and is the steps of every block in order; each can be called by itself.
#[derive(Clone, Debug)]
pub struct CpuDecoder {
    network: Arc<Network>,
    projections: Vec<Projection>,
    /// The 12 numbers of each view's matrix in pixels.
    matrices: Vec<f32>,
    /// By block, the logits of the views, `[N, L, P, G]`.
    view_logits: Vec<Vec<f32>>,
    memory: AnchorMemory,
    interval_s: f32,
    anchors: Vec<QueryBox>,
    features: Vec<f32>,
    embeddings: Vec<f32>,
    logits: Vec<f32>,
    quality: Vec<[f32; 2]>,
    attention: AttentionWorkspace,
    buffers: Buffers,
}

/// What steps write before the features.
#[derive(Clone, Debug, Default)]
struct Buffers {
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    /// `[Q, 2C]`: the attention; the output of view sampling beside the features.
    wide: Vec<f32>,
    /// `[Q, C]`.
    gathered: Vec<f32>,
    output: Vec<f32>,
    hidden: Vec<f32>,
    learned_points: Vec<[f32; 3]>,
    points: Vec<[f32; 3]>,
    weight_logits: Vec<f32>,
    deltas: Vec<QueryBox>,
    layers: Layers,
    sampling: SamplingWorkspace,
}

impl CpuDecoder {
    /// A decoder without memory and views: it sees nothing until views are set.
    pub fn new(network: Arc<Network>) -> Self {
        let facts = network.facts();
        let num_anchors = facts.num_anchors;
        let matrix = |num_columns: usize| vec![0.0; num_anchors * num_columns];
        let num_logits =
            |block: &super::Block| facts.num_views * block.views.weight_logits.num_outputs();
        Self {
            projections: vec![Projection::UNSEEN; facts.num_views],
            matrices: Vec::with_capacity(12 * facts.num_views),
            view_logits: network.blocks().iter().map(|b| vec![0.0; num_logits(b)]).collect(),
            memory: AnchorMemory::new(facts),
            interval_s: facts.default_interval_s,
            // Twice as many while cached anchors join.
            anchors: Vec::with_capacity(2 * num_anchors),
            features: Vec::with_capacity(2 * num_anchors * facts.num_channels),
            embeddings: matrix(facts.num_channels),
            logits: matrix(facts.num_classes),
            quality: vec![[0.0; 2]; num_anchors],
            attention: AttentionWorkspace::default(),
            buffers: Buffers {
                wide: matrix(2 * facts.num_channels),
                gathered: matrix(facts.num_channels),
                output: matrix(facts.num_channels),
                deltas: vec![[0.0; 11]; num_anchors],
                ..Buffers::default()
            },
            network,
        }
    }

    /// Replaces the views of the next frames.
    ///
    /// # Errors
    /// `Argument` when there are not as many as the network has, or a matrix is not
    /// finite.
    pub fn set_views(&mut self, views: &[View]) -> Result<()> {
        let network = Arc::clone(&self.network);
        set_projections(views, &mut self.projections, network.facts().num_views)?;
        self.matrices.clear();
        let values = views.iter().flat_map(|view| view.pixels_from_base.as_flattened());
        self.matrices.extend(values.map(|&x| x as f32));
        for (block, logits) in network.blocks().iter().zip(&mut self.view_logits) {
            let layers = &block.views.view_logits;
            let num_columns = block.views.weight_logits.num_outputs();
            let input = Part::Of(Rows::new(&self.matrices, 12));
            self.buffers.layers.run(input, layers, RowsMut::new(logits, num_columns))?;
        }
        Ok(())
    }

    /// Forgets the frames before.
    pub fn forget(&mut self) {
        self.memory.forget();
    }

    /// Replaces the memory.
    ///
    /// # Errors
    /// `Argument` for another number of anchors or channels.
    pub fn set_memory(&mut self, cached: &CachedAnchors) -> Result<()> {
        cached.check(self.network.facts())?;
        self.memory.set(cached);
        Ok(())
    }

    /// Decodes a frame from its feature maps, with the motion since the frame before;
    /// without one the frames before are forgotten.
    ///
    /// # Errors
    /// `Argument` when the maps are not of the network's views, channels and levels; the
    /// memory is then forgotten.
    pub fn run<'m>(
        &mut self,
        maps: impl Into<MapsView<'m>>,
        motion: Option<&Motion>,
    ) -> Result<DecodedQueries<'_>> {
        let result = self.run_blocks(&maps.into(), motion);
        if result.is_err() {
            self.forget();
        }
        result.map(|()| self.decoded())
    }

    fn run_blocks(&mut self, maps: &MapsView<'_>, motion: Option<&Motion>) -> Result<()> {
        self.begin(motion)?;
        let num_blocks = self.network.blocks().len();
        let num_single = self.network.facts().num_single_frame_blocks;
        for block in 0..num_blocks {
            self.attend_memory(block)?;
            self.attend(block)?;
            self.sample_views(block, maps)?;
            self.feed_forward(block)?;
            if block + 1 == num_single || block + 1 == num_blocks {
                self.classify(block)?;
            }
            self.refine(block)?;
            if block + 1 == num_single {
                self.join_memory()?;
            }
        }
        self.store()
    }

    /// Begins a frame: anchors and features are those of the network, cached anchors are
    /// moved.
    ///
    /// # Errors
    /// `Argument` when an operation refuses its arguments, as the other steps.
    pub fn begin(&mut self, motion: Option<&Motion>) -> Result<()> {
        self.anchors.clear();
        self.anchors.extend_from_slice(self.network.anchors());
        self.features.clear();
        self.features.extend_from_slice(self.network.features());
        self.interval_s = self.network.facts().default_interval_s;
        match motion {
            Some(motion) if !self.memory.is_empty() => {
                self.memory.advance(motion, self.network.facts());
                self.interval_s = motion.interval_s;
            }
            Some(_) => {}
            None => self.memory.forget(),
        }
        self.encode()
    }

    /// Puts the cached anchors before the best of the frame, if there are any: what
    /// follows the last single-frame block.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn join_memory(&mut self) -> Result<()> {
        if self.memory.is_empty() {
            return Ok(());
        }
        self.memory.join(&self.logits, &mut self.anchors, &mut self.features)?;
        self.encode()
    }

    /// Caches the best anchors for the next frame: what follows the last block.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn store(&mut self) -> Result<()> {
        let facts = self.network.facts();
        self.memory.store(&self.logits, &self.anchors, &self.features, facts)
    }

    /// The result of the last frame.
    pub fn decoded(&self) -> DecodedQueries<'_> {
        let quality = self.network.facts().has_quality.then_some(&self.quality[..]);
        DecodedQueries { logits: &self.logits, boxes: &self.anchors, quality }
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The memory.
    pub fn memory(&self) -> &AnchorMemory {
        &self.memory
    }

    /// The features of the anchors, `[Q, C]`.
    pub fn features_mut(&mut self) -> &mut [f32] {
        &mut self.features
    }

    /// Replaces the anchors, whose number stays.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn set_anchors(&mut self, anchors: &[QueryBox]) -> Result<()> {
        self.anchors.clear();
        self.anchors.extend_from_slice(anchors);
        self.encode()
    }

    /// The output of view sampling and the features beside it, `[Q, 2C]`; normalized after
    /// the feed-forward layers.
    pub fn sampled(&self) -> &[f32] {
        &self.buffers.wide
    }

    /// The samples before the output layer, `[Q, C]`.
    pub fn gathered(&self) -> &[f32] {
        &self.buffers.gathered
    }
}
