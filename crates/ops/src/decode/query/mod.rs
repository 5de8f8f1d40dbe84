//! Decodes the queries of a view decoder into candidates.
//!
//! Every pair of a query and a class whose logit is at least the bound of the class is
//! a candidate: the bound is the smallest logit whose sigmoid reaches the score
//! threshold of the class at the distance `sqrt(x² + y²)` of the centre, so that no
//! sigmoid is computed for a pair that does not pass. The query also has to be valid, with
//! its centre in the centre range and its norm of (sine, cosine) at least that of the
//! class. Valid: all its numbers and its extents are finite. Queries that are not, and of which a
//! class passes, are counted ([`Candidates::num_invalid_boxes`]); if the centre is not finite, the
//! lowest bound of the class applies and no range, and a norm that is NaN passes. NaN never
//! passes; queries with a NaN logit, of a class or of the centreness, are
//! counted ([`Candidates::num_nan_scores`]).
//!
//! The best pairs are kept in logit space, by (logit descending, class, query), as
//! many as the capacity of [`Workspace`]; the others are dropped and counted
//! ([`Workspace::num_dropped`]). Logits order pairs whose scores are equal after
//! rounding. The score of a kept pair is the sigmoid of its logit, times the sigmoid of
//! the query's centreness where there is a quality (Sparse4D v3): it may be below the
//! threshold, which applies only to the class, as in the published decoder.
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

use std::ops::Range;

use crate::decode::logit::{exp, logit_bound, sigmoid};
use det_post_types::{
    Box3d, Candidate, Candidates, Error, ErrorKind, Object3d, QueryBox, QueryDecode, Result,
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
        candidates.push(candidate_of(pair.source, of_class, &queries.boxes[query], params));
    }
    Ok(())
}

/// The candidate of a query: class, its logit and, where there is one, the logit of the
/// centreness.
fn candidate_of(
    query: u32,
    (class, logit, centerness): (u32, f32, Option<f32>),
    bbox: &QueryBox,
    params: &QueryDecode,
) -> Candidate<Object3d> {
    let object = object_of(bbox, params);
    let score = sigmoid(logit) * centerness.map_or(1.0, sigmoid);
    Candidate { bbox: object, score, class, source: query }
}

/// The largest logarithm of an extent that is finite; in CUDA: `kernels/decode/query.cuh`.
const MAX_LOG_EXTENT: f32 = f32::from_bits(0x42b1_7217);

/// Whether all numbers are finite, extents included.
fn is_valid(bbox: &QueryBox) -> bool {
    bbox.iter().all(|value| value.is_finite())
        && bbox[3..6].iter().all(|&extent| extent <= MAX_LOG_EXTENT)
}

/// Keeps the best pairs that pass, sorted. Counts NaN and invalid boxes in `candidates`.
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
        let Some(bins) = bins_of(bbox, params) else { continue };
        let passing = passing_classes(bbox, logits, bins, bounds, params);
        if is_valid(bbox) {
            passing.for_each(|(class, score)| {
                pairs.push(Candidate { bbox: (), score, class, source: query });
            });
        } else {
            candidates.add_invalid_boxes(passing.take(1).count());
        }
    }
    pairs.finish(usize::MAX);
}

/// The classes of a query whose logit is at least the lowest bound of the bins, and whose
/// norm passes; and the logits.
fn passing_classes<'a>(
    bbox: &QueryBox,
    logits: &'a [f32],
    bins: Range<usize>,
    bounds: &'a [f32],
    params: &'a QueryDecode,
) -> impl Iterator<Item = (u32, f32)> + 'a {
    let num_bins = bounds.len() / logits.len();
    let [sin, cos] = [bbox[6], bbox[7]];
    let yaw_norm = (sin * sin + cos * cos).sqrt();
    (0..).zip(logits).zip(bounds.chunks_exact(num_bins)).filter_map(
        move |((class, &logit), bounds)| {
            let bound = bounds[bins.clone()].iter().copied().fold(f32::NAN, f32::min);
            let least_norm = params.yaw_norm_thresholds.get(class as usize);
            let passes = logit >= bound
                && least_norm.is_none_or(|&least| yaw_norm.is_nan() || yaw_norm >= least);
            passes.then_some((class, logit))
        },
    )
}

/// The distance bin of a centre; all bins if it is not finite; `None` where no class passes.
fn bins_of(bbox: &QueryBox, params: &QueryDecode) -> Option<Range<usize>> {
    let &[x, y, z, ..] = bbox;
    let limits = &params.score_thresholds.distance_upper_limits_m[..];
    if ![x, y, z].iter().all(|value| value.is_finite()) {
        return Some(0..limits.len().max(1));
    }
    let is_in_range = params.center_range.is_none_or(|range| range.contains([x, y, z]));
    let distance_m = (x * x + y * y).sqrt();
    let bin = match limits {
        [] => Some(0),
        limits => limits.iter().position(|&limit| distance_m < limit),
    };
    bin.filter(|_| is_in_range).map(|bin| bin..bin + 1)
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
