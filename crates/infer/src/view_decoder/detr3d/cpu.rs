//! A DETR3D decoder on the CPU.

use std::sync::Arc;

use super::super::{DecodedQueries, View, set_projections};
use super::{Network, adds_position};
use det_post_ops::view::attention::{Workspace as AttentionWorkspace, attention};
use det_post_ops::view::layer_stack::Workspace as Layers;
use det_post_ops::view::linear::linear;
use det_post_ops::view::refine::{
    inverse_sigmoid, reference_boxes, reference_points, refine_references,
};
use det_post_ops::view::rows::{Part, Rows, RowsMut};
use det_post_ops::view::sample::{
    MapsView, Projection, ViewSampling, Weighting, Workspace as SamplingWorkspace, view_sample,
};
use det_post_types::{QueryBox, Result};

/// A DETR3D decoder on the CPU, in f32.
///
/// All memory is taken when it is made or in the first frame. [`Self::run`] is the four
/// steps of every block in order; each can be called by itself, on the state of the queries
/// ([`Self::queries_mut`], [`Self::references_mut`]).
#[derive(Clone, Debug)]
pub struct CpuDecoder {
    network: Arc<Network>,
    projections: Vec<Projection>,
    queries: Vec<f32>,
    references: Vec<[f32; 3]>,
    deltas: Vec<[f32; 10]>,
    points: Vec<[f32; 3]>,
    logits: Vec<f32>,
    boxes: Vec<QueryBox>,
    memory: Memory,
}

/// What a step writes before the queries.
#[derive(Clone, Debug, Default)]
struct Memory {
    /// `[Q, 3C]`.
    projected: Vec<f32>,
    /// `[Q, C]`: the attention, the samples.
    gathered: Vec<f32>,
    /// `[Q, C]`: the encoded references, the output of a step.
    encoded: Vec<f32>,
    output: Vec<f32>,
    /// The wide rows of the feed-forward layers.
    hidden: Vec<f32>,
    weight_logits: Vec<f32>,
    inverse_references: Vec<[f32; 3]>,
    layers: Layers,
    attention: AttentionWorkspace,
    sampling: SamplingWorkspace,
}

impl CpuDecoder {
    /// A decoder without views: it sees nothing until they are set.
    pub fn new(network: Arc<Network>) -> Self {
        let facts = network.facts();
        let num_queries = facts.num_queries;
        let matrix = |num_columns: usize| vec![0.0; num_queries * num_columns];
        let memory = Memory {
            projected: matrix(3 * facts.num_channels),
            gathered: matrix(facts.num_channels),
            encoded: matrix(facts.num_channels),
            output: matrix(facts.num_channels),
            weight_logits: matrix(facts.num_views * facts.num_levels),
            inverse_references: vec![[0.0; 3]; num_queries],
            ..Memory::default()
        };
        Self {
            projections: vec![Projection::UNSEEN; facts.num_views],
            queries: network.start().contents.clone(),
            references: network.start().references.clone(),
            deltas: vec![[0.0; 10]; num_queries],
            points: vec![[0.0; 3]; num_queries],
            logits: matrix(facts.num_classes),
            boxes: vec![[0.0; 11]; num_queries],
            memory,
            network,
        }
    }

    /// Replaces the views of the next frames.
    ///
    /// # Errors
    /// `Argument` when there are not as many as the network has, or a matrix is not
    /// finite.
    pub fn set_views(&mut self, views: &[View]) -> Result<()> {
        set_projections(views, &mut self.projections, self.network.facts().num_views)
    }

    /// Decodes a frame from its feature maps.
    ///
    /// # Errors
    /// `Argument` when the maps are not of the network's views, channels and levels.
    pub fn run<'m>(&mut self, maps: impl Into<MapsView<'m>>) -> Result<DecodedQueries<'_>> {
        let maps = &maps.into();
        self.queries.copy_from_slice(&self.network.start().contents);
        self.references.copy_from_slice(&self.network.start().references);
        for block in 0..self.network.blocks().len() {
            self.attend(block)?;
            self.sample_views(block, maps)?;
            self.feed_forward(block)?;
            self.refine(block)?;
        }
        self.decode()
    }

    /// Attention among the queries of a block.
    ///
    /// # Errors
    /// `Argument` when an operation refuses its arguments.
    ///
    /// # Panics
    /// When there is no such block, as the other steps.
    pub fn attend(&mut self, block: usize) -> Result<()> {
        let facts = self.network.facts();
        let block = &self.network.blocks()[block];
        let channels = facts.num_channels;
        let Memory { projected, gathered, output, layers, attention: workspace, .. } =
            &mut self.memory;
        let queries = Rows::new(&self.queries, channels);
        let offsets = Rows::new(&block.in_offsets, 3 * channels);
        let out = RowsMut::new(projected, 3 * channels);
        let rows = &mut layers.rows;
        linear(&[Part::Of(queries)], &block.in_projection, &[offsets], rows, out)?;
        let projected = Rows::new(projected, 3 * channels);
        let [q, k, v] = [0, 1, 2].map(|i| projected.columns(i * channels..(i + 1) * channels));
        attention(q, k, v, facts.num_heads, workspace, RowsMut::new(gathered, channels))?;
        let residuals = [queries, Rows::new(&self.network.start().positions, channels)];
        let residuals = if adds_position(facts) { &residuals[..] } else { &residuals[..1] };
        let gathered = [Part::Of(Rows::new(gathered, channels))];
        let out = RowsMut::new(output, channels);
        linear(&gathered, &block.attention_output, residuals, rows, out)?;
        std::mem::swap(&mut self.queries, output);
        Ok(())
    }

    /// View sampling of a block.
    ///
    /// # Errors
    /// `Argument` when the maps are not of the network's views, channels and levels.
    pub fn sample_views<'m>(&mut self, block: usize, maps: impl Into<MapsView<'m>>) -> Result<()> {
        let facts = self.network.facts();
        let block = &self.network.blocks()[block];
        let channels = facts.num_channels;
        let memory = &mut self.memory;
        let queries = Rows::new(&self.queries, channels);
        let num_logits = facts.num_views * facts.num_levels;
        let offsets = Rows::new(&block.weight_offsets, num_logits);
        let out = RowsMut::new(&mut memory.weight_logits, num_logits);
        let rows = &mut memory.layers.rows;
        linear(&[Part::Of(queries)], &block.weight_logits, &[offsets], rows, out)?;
        reference_points(&self.references, &facts.range, &mut self.points)?;
        let sampling = ViewSampling {
            points: &self.points,
            num_points: 1,
            projections: &self.projections,
            min_depth_m: facts.min_depth_m,
            weighting: Weighting::Sigmoid { logits: &memory.weight_logits },
        };
        view_sample(&maps.into(), &sampling, &mut memory.sampling, &mut memory.gathered)?;

        let inverse = memory.inverse_references.iter_mut().zip(&self.references);
        inverse.for_each(|(inverse, reference)| *inverse = reference.map(inverse_sigmoid));
        let inverse = Part::Of(Rows::new(memory.inverse_references.as_flattened(), 3));
        let encoded = RowsMut::new(&mut memory.encoded, channels);
        memory.layers.run(inverse, &block.position_encoder, encoded)?;
        let gathered = [Part::Of(Rows::new(&memory.gathered, channels))];
        let residuals = [queries, Rows::new(&memory.encoded, channels)];
        let out = RowsMut::new(&mut memory.output, channels);
        linear(&gathered, &block.view_output, &residuals, &mut memory.layers.rows, out)?;
        std::mem::swap(&mut self.queries, &mut memory.output);
        Ok(())
    }

    /// The feed-forward layers of a block.
    ///
    /// # Errors
    /// `Argument` when an operation refuses its arguments.
    pub fn feed_forward(&mut self, block: usize) -> Result<()> {
        let [hidden, last] = &self.network.blocks()[block].feed_forward;
        let channels = self.network.facts().num_channels;
        let Memory { hidden: values, output, layers, .. } = &mut self.memory;
        let queries = Rows::new(&self.queries, channels);
        let width = hidden.num_outputs();
        values.resize(queries.len() * width, 0.0);
        let out = RowsMut::new(values, width);
        linear(&[Part::Of(queries)], hidden, &[], &mut layers.rows, out)?;
        let values = [Part::Of(Rows::new(values, width))];
        let out = RowsMut::new(output, channels);
        linear(&values, last, &[queries], &mut layers.rows, out)?;
        std::mem::swap(&mut self.queries, output);
        Ok(())
    }

    /// Moves the references.
    ///
    /// # Errors
    /// `Argument` when an operation refuses its arguments.
    pub fn refine(&mut self, block: usize) -> Result<()> {
        let channels = self.network.facts().num_channels;
        let regression = &self.network.blocks()[block].regression;
        let queries = Part::Of(Rows::new(&self.queries, channels));
        let deltas = RowsMut::new(self.deltas.as_flattened_mut(), 10);
        self.memory.layers.run(queries, regression, deltas)?;
        refine_references(&mut self.references, &self.deltas)
    }

    /// Logits and boxes of the queries, after the last block.
    ///
    /// # Errors
    /// `Argument` when an operation refuses its arguments.
    pub fn decode(&mut self) -> Result<DecodedQueries<'_>> {
        let facts = self.network.facts();
        let queries = Part::Of(Rows::new(&self.queries, facts.num_channels));
        let logits = RowsMut::new(&mut self.logits, facts.num_classes);
        self.memory.layers.run(queries, self.network.classes(), logits)?;
        reference_boxes(&self.references, &self.deltas, &facts.range, &mut self.boxes)?;
        Ok(self.decoded())
    }

    /// The result of the last frame.
    pub fn decoded(&self) -> DecodedQueries<'_> {
        DecodedQueries { logits: &self.logits, boxes: &self.boxes, quality: None }
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The contents of the queries, `[Q, C]`.
    pub fn queries_mut(&mut self) -> &mut [f32] {
        &mut self.queries
    }

    /// The references, `[Q]`.
    pub fn references_mut(&mut self) -> &mut [[f32; 3]] {
        &mut self.references
    }

    /// The deltas of the last refinement, `[Q]`.
    pub fn deltas(&self) -> &[[f32; 10]] {
        &self.deltas
    }

    /// What view sampling gathered last, `[Q, C]`.
    pub fn gathered(&self) -> &[f32] {
        &self.memory.gathered
    }
}
