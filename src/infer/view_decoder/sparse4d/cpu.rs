//! A Sparse4D decoder on the CPU.

use std::sync::Arc;

use super::super::stack::Workspace as Layers;
use super::super::{DecodedQueries, View, set_projections};
use super::{AnchorEncoder, AnchorMemory, GraphAttention, Network};
use crate::error::Result;
use crate::ops::attention::{Workspace as AttentionWorkspace, attention};
use crate::ops::layer_norm::layer_norm;
use crate::ops::linear::{LinearLayer, linear};
use crate::ops::refine::{key_points, refine_anchors};
use crate::ops::rows::{Part, Rows, RowsMut};
use crate::ops::view_sample::{
    FeatureMaps, Projection, ViewSampling, Weighting, Workspace as SamplingWorkspace, view_sample,
};
use crate::types::{Motion, QueryBox};

/// A Sparse4D decoder on the CPU, in f32, with its memory.
///
/// All memory is taken when it is made or in the first frames. [`Self::run`] begins a
/// frame and is the steps of every block in order; each can be called alone.
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
    /// A decoder without a memory that sees nothing until it is told its views.
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

    /// Decodes a frame from its feature maps, with the motion since the frame before;
    /// without one the frames before are forgotten.
    ///
    /// # Errors
    /// `Argument` when the maps are not of the network's views, channels and levels; the
    /// memory is then forgotten.
    pub fn run(
        &mut self,
        maps: &FeatureMaps,
        motion: Option<&Motion>,
    ) -> Result<DecodedQueries<'_>> {
        let result = self.run_blocks(maps, motion);
        if result.is_err() {
            self.forget();
        }
        result.map(|()| self.decoded())
    }

    fn run_blocks(&mut self, maps: &FeatureMaps, motion: Option<&Motion>) -> Result<()> {
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

    /// Attention to the cached anchors, in the blocks that have it.
    ///
    /// # Errors
    /// As [`Self::begin`].
    ///
    /// # Panics
    /// When there is no such block, as the other steps.
    pub fn attend_memory(&mut self, block: usize) -> Result<()> {
        let network = Arc::clone(&self.network);
        let Some(layers) = &network.blocks()[block].temporal else { return Ok(()) };
        let channels = network.facts().num_channels;
        if self.memory.is_empty() {
            return self.attend_graph(layers, None);
        }
        let num_cached = self.memory.anchors().len();
        self.project_keys(layers, num_cached, true)?;
        self.attend_graph(layers, Some([num_cached, 2 * channels]))
    }

    /// Attention among the anchors, in the blocks that have it.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn attend(&mut self, block: usize) -> Result<()> {
        let network = Arc::clone(&self.network);
        let Some(layers) = &network.blocks()[block].attention else { return Ok(()) };
        let num_anchors = self.anchors.len();
        self.project_keys(layers, num_anchors, false)?;
        self.attend_graph(layers, Some([num_anchors, 2 * network.facts().num_channels]))
    }

    /// Keys and values of the first rows, with the features of the memory or the frame.
    fn project_keys(
        &mut self,
        layers: &GraphAttention,
        num_keys: usize,
        of_memory: bool,
    ) -> Result<()> {
        let channels = self.network.facts().num_channels;
        let features = if of_memory { self.memory.features() } else { &self.features[..] };
        let features = Part::Of(Rows::new(features, channels));
        let embeddings = &self.embeddings[..num_keys * channels];
        let input = [features, Part::Of(Rows::new(embeddings, channels))];
        let Buffers { keys, values, layers: Layers { rows, .. }, .. } = &mut self.buffers;
        project(&input, &layers.keys, rows, keys, num_keys)?;
        project(&input[..1], &layers.values, rows, values, num_keys)
    }

    /// The attention to the keys that are projected, or, without their size, to the
    /// anchors with values from `[f, e]`.
    fn attend_graph(&mut self, layers: &GraphAttention, size: Option<[usize; 2]>) -> Result<()> {
        let facts = self.network.facts();
        let channels = facts.num_channels;
        let num_anchors = self.anchors.len();
        let features = Part::Of(Rows::new(&self.features, channels));
        let embeddings = Part::Of(Rows::new(&self.embeddings, channels));
        let Buffers { queries, keys, values, wide, output, layers: workspace, .. } =
            &mut self.buffers;
        let rows = &mut workspace.rows;
        let input = [features, embeddings];
        project(&input, &layers.queries, rows, queries, num_anchors)?;
        if size.is_none() {
            project(&input, &layers.keys, rows, keys, num_anchors)?;
            project(&input, &layers.unfolded_values, rows, values, num_anchors)?;
        }
        let columns = 2 * channels;
        let [q, k, v] = [&*queries, keys, values].map(|values| Rows::new(values, columns));
        let out = RowsMut::new(wide, columns);
        attention(q, k, v, facts.num_heads, &mut self.attention, out)?;
        let attended = Part::Of(Rows::new(wide, columns));
        let out = RowsMut::new(output, channels);
        linear(&[attended, features, embeddings], &layers.output, &[], rows, out)?;
        self.features.copy_from_slice(output);
        Ok(())
    }

    /// View sampling of a block; the result is beside the features.
    ///
    /// # Errors
    /// `Argument` when the maps are not of the network's views, channels and levels.
    pub fn sample_views(&mut self, block: usize, maps: &FeatureMaps) -> Result<()> {
        let facts = self.network.facts();
        let layers = &self.network.blocks()[block].views;
        let channels = facts.num_channels;
        let num_anchors = self.anchors.len();
        let buffers = &mut self.buffers;
        let features = Rows::new(&self.features, channels);
        let rows = &mut buffers.layers.rows;
        let num_learned = layers.learned_points.num_outputs() / 3;
        buffers.learned_points.resize(num_anchors * num_learned, [0.0; 3]);
        let learned = buffers.learned_points.as_flattened_mut();
        let out = RowsMut::new(learned, 3 * num_learned);
        linear(&[Part::Of(features)], &layers.learned_points, &[], rows, out)?;
        buffers.points.resize(num_anchors * layers.num_points(), [0.0; 3]);
        let learned = &buffers.learned_points;
        key_points(&self.anchors, &layers.fixed_points, learned, &mut buffers.points)?;

        let sum = Part::Sum(features, Rows::new(&self.embeddings, channels));
        project(&[sum], &layers.weight_logits, rows, &mut buffers.weight_logits, num_anchors)?;
        let sampling = ViewSampling {
            points: &buffers.points,
            num_points: layers.num_points(),
            projections: &self.projections,
            min_depth_m: facts.min_depth_m,
            weighting: Weighting::Softmax {
                logits: &buffers.weight_logits,
                view_logits: &self.view_logits[block],
                num_groups: facts.num_groups,
            },
        };
        view_sample(maps, &sampling, &mut buffers.sampling, &mut buffers.gathered)?;
        let gathered = [Part::Of(Rows::new(&buffers.gathered, channels))];
        let out = RowsMut::new(&mut buffers.wide, 2 * channels).columns(0..channels);
        linear(&gathered, &layers.output, &[], rows, out)?;
        let wide = buffers.wide.chunks_exact_mut(2 * channels);
        for (wide, feature) in wide.zip(self.features.chunks_exact(channels)) {
            wide[channels..].copy_from_slice(feature);
        }
        Ok(())
    }

    /// The feed-forward layers of a block, on the result of view sampling.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn feed_forward(&mut self, block: usize) -> Result<()> {
        let channels = self.network.facts().num_channels;
        let layers = &self.network.blocks()[block].feed_forward;
        let Buffers { wide, hidden, layers: Layers { rows, .. }, .. } = &mut self.buffers;
        layer_norm(RowsMut::new(wide, 2 * channels), &layers.norm)?;
        let wide = Part::Of(Rows::new(wide, 2 * channels));
        project(&[wide], &layers.hidden, rows, hidden, self.anchors.len())?;
        let hidden = Part::Of(Rows::new(hidden, layers.hidden.num_outputs()));
        let out = RowsMut::new(&mut self.features, channels);
        linear(&[wide, hidden], &layers.output, &[], rows, out)
    }

    /// Class logits, and the quality where the network has one, from the features and the
    /// anchors before the refinement of the block.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn classify(&mut self, block: usize) -> Result<()> {
        let facts = self.network.facts();
        let layers = &self.network.blocks()[block].refinement;
        let features = Rows::new(&self.features, facts.num_channels);
        let out = RowsMut::new(&mut self.logits, facts.num_classes);
        self.buffers.layers.run(Part::Of(features), &layers.classes, out)?;
        if let Some(layers) = &layers.quality {
            let sum = Part::Sum(features, Rows::new(&self.embeddings, facts.num_channels));
            let out = RowsMut::new(self.quality.as_flattened_mut(), 2);
            self.buffers.layers.run(sum, layers, out)?;
        }
        Ok(())
    }

    /// Refines the anchors and encodes them.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn refine(&mut self, block: usize) -> Result<()> {
        let channels = self.network.facts().num_channels;
        let layers = &self.network.blocks()[block].refinement.deltas;
        let embeddings = Rows::new(&self.embeddings, channels);
        let sum = Part::Sum(Rows::new(&self.features, channels), embeddings);
        let Buffers { deltas, layers: workspace, .. } = &mut self.buffers;
        workspace.run(sum, layers, RowsMut::new(deltas.as_flattened_mut(), 11))?;
        refine_anchors(&mut self.anchors, deltas, self.interval_s)?;
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

    fn encode(&mut self) -> Result<()> {
        let channels = self.network.facts().num_channels;
        let boxes = Rows::new(self.anchors.as_flattened(), 11);
        let mut first = 0;
        let parts = AnchorEncoder::COLUMNS.into_iter().zip(&self.network.encoder().parts);
        for (columns, layers) in parts {
            let next = first + layers[0].num_outputs();
            let out = RowsMut::new(&mut self.embeddings, channels).columns(first..next);
            self.buffers.layers.run(Part::Of(boxes.columns(columns)), layers, out)?;
            first = next;
        }
        Ok(())
    }

    /// The result of the frame before.
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

/// A layer whose output has as many rows as `out` is resized to.
fn project(
    parts: &[Part<'_>],
    layer: &LinearLayer,
    rows: &mut Vec<f32>,
    out: &mut Vec<f32>,
    num_rows: usize,
) -> Result<()> {
    out.resize(num_rows * layer.num_outputs(), 0.0);
    linear(parts, layer, &[], rows, RowsMut::new(out, layer.num_outputs()))
}
