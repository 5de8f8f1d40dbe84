//! The steps of a block.

use std::sync::Arc;

use super::super::{AnchorEncoder, GraphAttention};
use super::{Buffers, CpuDecoder};
use det_post_ops::view::attention::attention;
use det_post_ops::view::layer_norm::layer_norm;
use det_post_ops::view::layer_stack::Workspace as Layers;
use det_post_ops::view::linear::{LinearLayer, linear};
use det_post_ops::view::refine::{key_points, refine_anchors};
use det_post_ops::view::rows::{Part, Rows, RowsMut};
use det_post_ops::view::sample::{MapsView, ViewSampling, Weighting, view_sample};
use det_post_types::Result;

impl CpuDecoder {
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
    pub fn sample_views<'m>(&mut self, block: usize, maps: impl Into<MapsView<'m>>) -> Result<()> {
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
        view_sample(&maps.into(), &sampling, &mut buffers.sampling, &mut buffers.gathered)?;
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

    /// Writes the embeddings of the anchors.
    pub(super) fn encode(&mut self) -> Result<()> {
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
