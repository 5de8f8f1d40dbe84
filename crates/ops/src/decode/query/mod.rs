//! Decodes the queries of a view decoder into candidates.
//!
//! Every pair of a query and a class whose logit is at least the bound of the class is
//! a candidate: the bound is the smallest logit whose sigmoid reaches the score
//! threshold of the class at the distance `sqrt(x² + y²)` of the centre, so that no
//! sigmoid is computed for a pair that does not pass. It also has to be finite, with
//! its centre in the centre range and its norm of (sine, cosine) at least that of the
//! class. NaN never passes; queries with a NaN logit, of a class or of the centreness, are
//! counted ([`Candidates::num_nan_scores`]).
//!
//! The best pairs are kept in logit space, by (logit descending, class, query), as
//! many as the capacity of [`Workspace`]; the others are dropped and counted
//! ([`Workspace::num_dropped`]). Logits order pairs whose scores are equal after
//! rounding. The score of a kept pair is the sigmoid of its logit, times the sigmoid of
//! the query's centreness where there is a quality (Sparse4D v3): it may be below the
//! threshold, which applies to the class alone, as in the published decoder.
//!
//! Extents are `exp` of their logarithms, the yaw an arc tangent: exponentials and
//! arc tangents in f64, rounded once. [`Candidate::source`] is the query. Candidates are
//! unsorted: see [`Candidates::finish`].

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

use crate::decode::logit::{exp, logit_bound, sigmoid};
use det_post_types::{
    Box3d, Candidate, Candidates, Error, ErrorKind, Object3d, QueryBox, QueryDecode, Result,
    ScoreThresholds,
};

/// The outputs of a view decoder.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// `[Q, classes]`.
    pub logits: &'a [f32],
    /// `[Q]`.
    pub boxes: &'a [QueryBox],
    /// Logits of centreness and yawness, `[Q]`.
    pub quality: Option<&'a [[f32; 2]]>,
}

/// Memory of the op: the pairs that are kept, by their logits.
#[derive(Clone, Debug)]
pub struct Workspace {
    pairs: Candidates<()>,
    /// The least logits, by class and distance bin.
    bounds: Vec<f32>,
}

impl Workspace {
    /// Memory for `max_pairs` pairs of a query and a class, at least one.
    pub fn new(max_pairs: usize) -> Self {
        Self { pairs: Candidates::with_capacity(max_pairs), bounds: Vec::new() }
    }

    /// Pairs that passed in the frame before and were dropped.
    pub fn num_dropped(&self) -> usize {
        self.pairs.num_dropped()
    }

    /// The pairs that were kept in the frame before, best first: [`Candidate::score`] is
    /// the logit.
    pub fn pairs(&self) -> &[Candidate<()>] {
        self.pairs.as_slice()
    }
}

/// Replaces the contents of `candidates`, which should have at least the capacity of
/// the workspace.
///
/// # Errors
/// `Argument` when logits, boxes and quality are not of as many queries, or there are
/// other classes than score thresholds.
pub fn decode_query(
    queries: &Queries<'_>,
    params: &QueryDecode,
    workspace: &mut Workspace,
    candidates: &mut Candidates<Object3d>,
) -> Result<()> {
    candidates.clear();
    let num_classes = params.score_thresholds.per_class.len();
    let num_queries = queries.boxes.len();
    let num_norms = params.yaw_norm_thresholds.len();
    if queries.logits.len() != num_queries * num_classes
        || queries.quality.is_some_and(|quality| quality.len() != num_queries)
        || (num_norms != 0 && num_norms != num_classes)
    {
        return argument(format!(
            "{} logits and {} qualities do not fit {num_queries} queries, {num_classes} score \
             thresholds and {num_norms} yaw-norm thresholds",
            queries.logits.len(),
            queries.quality.map_or(0, <[_]>::len)
        ));
    }
    keep_pairs(queries, params, workspace, candidates);
    for pair in workspace.pairs.as_slice() {
        let query = pair.source as usize;
        let centerness = queries.quality.map(|quality| quality[query][0]);
        let of_class = (pair.class, pair.score, centerness);
        let candidate = candidate_of(pair.source, of_class, &queries.boxes[query], params);
        candidate.into_iter().for_each(|candidate| candidates.push(candidate));
    }
    Ok(())
}

/// The candidate of a query: class, its logit and, where there is one, the logit of the
/// centreness. `None` when the box is not finite.
fn candidate_of(
    query: u32,
    (class, logit, centerness): (u32, f32, Option<f32>),
    bbox: &QueryBox,
    params: &QueryDecode,
) -> Option<Candidate<Object3d>> {
    let object = object_of(bbox, params);
    let score = sigmoid(logit) * centerness.map_or(1.0, sigmoid);
    let candidate = Candidate { bbox: object, score, class, source: query };
    object.bbox.is_finite().then_some(candidate)
}

/// Keeps the best pairs that pass, sorted. Counts NaN in `candidates`.
fn keep_pairs(
    queries: &Queries<'_>,
    params: &QueryDecode,
    workspace: &mut Workspace,
    candidates: &mut Candidates<Object3d>,
) {
    let Workspace { pairs, bounds } = workspace;
    let thresholds = &params.score_thresholds;
    let num_classes = thresholds.per_class.len();
    let num_bins = thresholds.distance_upper_limits_m.len().max(1);
    bounds.clear();
    bounds.extend(thresholds.per_class.iter().flat_map(|of_class| {
        (0..num_bins).map(|bin| of_class.get(bin).map_or(f32::NAN, |&score| logit_bound(score)))
    }));
    pairs.clear();
    if num_classes == 0 {
        return;
    }
    let rows = queries.boxes.iter().zip(queries.logits.chunks_exact(num_classes));
    for (query, (bbox, logits)) in (0_u32..).zip(rows) {
        let quality = queries.quality.map_or(1.0, |quality| quality[query as usize][0]);
        let has_nan = quality.is_nan() || logits.iter().any(|logit| logit.is_nan());
        candidates.add_nan_scores(usize::from(has_nan));
        if quality.is_nan() {
            continue;
        }
        let &[x, y, z, _, _, _, sin, cos, ..] = bbox;
        let is_in_range = params.center_range.is_none_or(|range| range.contains([x, y, z]));
        let Some(bin) = bin_of(thresholds, (x * x + y * y).sqrt()).filter(|_| is_in_range) else {
            continue;
        };
        let yaw_norm = (sin * sin + cos * cos).sqrt();
        for (class, &logit) in logits.iter().enumerate() {
            let least_norm = params.yaw_norm_thresholds.get(class);
            if logit >= bounds[class * num_bins + bin]
                && least_norm.is_none_or(|&least| yaw_norm >= least)
                && bbox.iter().all(|value| value.is_finite())
            {
                pairs.push(Candidate {
                    bbox: (),
                    score: logit,
                    class: class as u32,
                    source: query,
                });
            }
        }
    }
    pairs.finish(usize::MAX);
}

/// The distance bin; `None` beyond the last and for NaN.
fn bin_of(thresholds: &ScoreThresholds, distance_m: f32) -> Option<usize> {
    match &thresholds.distance_upper_limits_m[..] {
        [] => Some(0),
        limits => limits.iter().position(|&limit| distance_m < limit),
    }
}

/// The object of a query's numbers.
pub(crate) fn object_of(bbox: &QueryBox, params: &QueryDecode) -> Object3d {
    let &[x, y, z, e0, e1, e2, sin, cos, vx, vy, _] = bbox;
    let [length_m, width_m, height_m] =
        params.size_order.length_width_height([e0, e1, e2].map(exp));
    let yaw_rad = params.yaw.yaw(sin, cos);
    Object3d {
        bbox: Box3d { center: [x, y, z], length_m, width_m, height_m, yaw_rad },
        velocity_mps: Some([vx, vy]),
        variance: None,
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "decode_query", message))
}
