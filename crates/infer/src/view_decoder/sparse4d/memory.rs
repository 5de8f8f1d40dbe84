//! The anchors that a frame keeps for the next one.

use super::super::CachedAnchors;
use det_post_ops::decode::logit::sigmoid;
use det_post_ops::view::refine::move_anchors;
use det_post_ops::view::top_rows::top_rows;
use det_post_types::{Motion, QueryBox, Result, Sparse4d};

/// The cached anchors, best confidence first.
#[derive(Clone, Debug)]
pub struct AnchorMemory {
    is_empty: bool,
    num_channels: usize,
    anchors: Vec<QueryBox>,
    features: Vec<f32>,
    confidence: Vec<f32>,
    rows: Vec<u32>,
    values: Vec<f32>,
    order: Vec<u32>,
}

impl AnchorMemory {
    pub(super) fn new(facts: &Sparse4d) -> Self {
        let &Sparse4d { num_anchors, num_cached, num_channels, .. } = facts;
        Self {
            is_empty: true,
            num_channels,
            anchors: vec![[0.0; 11]; num_cached],
            features: vec![0.0; num_cached * num_channels],
            confidence: vec![0.0; num_cached],
            rows: Vec::with_capacity(num_anchors),
            values: Vec::with_capacity(num_anchors),
            order: Vec::with_capacity(num_anchors),
        }
    }

    /// Whether there was no frame before.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// The boxes of the cached anchors.
    pub fn anchors(&self) -> &[QueryBox] {
        &self.anchors
    }

    /// Their features, `[K, C]`.
    pub fn features(&self) -> &[f32] {
        &self.features
    }

    /// Their confidence, in 0 to 1.
    pub fn confidence(&self) -> &[f32] {
        &self.confidence
    }

    /// The rows that were chosen last: those that stay beside the cached anchors after the
    /// single-frame blocks, at the end of a frame those that are cached.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// A copy of the cached anchors; `None` if there was no frame before.
    pub fn cached(&self) -> Option<CachedAnchors> {
        (!self.is_empty).then(|| CachedAnchors {
            boxes: self.anchors.clone(),
            features: self.features.clone(),
            confidence: self.confidence.clone(),
        })
    }

    /// Replaces the cached anchors, which are as many.
    pub(super) fn set(&mut self, cached: &CachedAnchors) {
        self.anchors.copy_from_slice(&cached.boxes);
        self.features.copy_from_slice(&cached.features);
        self.confidence.copy_from_slice(&cached.confidence);
        self.is_empty = false;
    }

    pub(super) fn forget(&mut self) {
        self.is_empty = true;
    }

    /// Moves the cached anchors into the current frame.
    pub(super) fn advance(&mut self, motion: &Motion, facts: &Sparse4d) {
        move_anchors(&mut self.anchors, motion, facts.cached_yaw);
    }

    /// Replaces features and boxes of a frame by the cached ones and, after them, the best
    /// of the frame by class logit.
    pub(super) fn join(
        &mut self,
        logits: &[f32],
        anchors: &mut Vec<QueryBox>,
        features: &mut Vec<f32>,
    ) -> Result<()> {
        let num_kept = anchors.len() - self.anchors.len();
        let num_classes = logits.len() / anchors.len();
        self.values.clear();
        self.values.extend(logits.chunks_exact(num_classes).map(largest));
        self.rows.resize(num_kept, 0);
        top_rows(&self.values, &mut self.order, &mut self.rows)?;
        // Kept rows are appended, the frame's own removed, and the cached ones set before.
        let num_before = anchors.len();
        for &row in &self.rows {
            anchors.push(anchors[row as usize]);
            let first = row as usize * self.num_channels;
            features.extend_from_within(first..first + self.num_channels);
        }
        anchors.splice(..num_before, self.anchors.iter().copied());
        features.splice(..num_before * self.num_channels, self.features.iter().copied());
        Ok(())
    }

    /// Caches the anchors of a frame with the highest confidence: the sigmoid of the
    /// largest logit or, for those from the memory, their confidence before times the
    /// decay, whichever is larger.
    pub(super) fn store(
        &mut self,
        logits: &[f32],
        anchors: &[QueryBox],
        features: &[f32],
        facts: &Sparse4d,
    ) -> Result<()> {
        self.values.clear();
        let rows = logits.chunks_exact(facts.num_classes);
        self.values.extend(rows.map(|row| sigmoid(largest(row))));
        if !self.is_empty {
            for (value, before) in self.values.iter_mut().zip(&self.confidence) {
                *value = value.max(before * facts.confidence_decay);
            }
        }
        self.rows.resize(facts.num_cached, 0);
        top_rows(&self.values, &mut self.order, &mut self.rows)?;
        let channels = self.num_channels;
        let cached = self.anchors.iter_mut().zip(&mut self.confidence);
        let cached = cached.zip(self.features.chunks_exact_mut(channels));
        for (&row, ((anchor, confidence), feature)) in self.rows.iter().zip(cached) {
            let row = row as usize;
            *anchor = anchors[row];
            *confidence = self.values[row];
            feature.copy_from_slice(&features[row * channels..][..channels]);
        }
        self.is_empty = false;
        Ok(())
    }
}

/// The largest logit of a row; NaN does not count.
fn largest(row: &[f32]) -> f32 {
    row.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}
