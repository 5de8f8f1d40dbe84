//! Sparse view attention: the points of a query are projected into the cameras, the
//! feature maps are sampled where they are seen, and the samples are weighted and
//! summed.
//!
//! Points `[Q, P, 3]` in metres, N views ([`Projection`]), L levels of maps
//! ([`MapsView`]: channels last or in blocks of 32 of them, where a network has left them, or
//! [`FeatureMaps`]), output `[Q, C]`.
//!
//! **Projection and selection.** A row `m` of a projection times a point is
//! `((m0 x + m1 y) + m2 z) + m3`, each operation rounded to f32: rows a, b, and the
//! depth. `u = a / max(depth, eps)`, `v = b / max(depth, eps)`, fractions of the
//! image. A point is seen when `depth > eps`, `0 < u < 1` and `0 < v < 1`, all
//! strict; NaN is not seen. Texels of views that do not see a point are not read.
//!
//! **Sampling** is bilinear at `(u W - 0.5, v H - 0.5)`, texels outside the map
//! count as 0: `grid_sample` of PyTorch with `align_corners=False`.
//!
//! **Sum.** `sum = fma(texel, corner, sum)` from +0, over views, levels, points and
//! the corners (top left, top right, bottom left, bottom right), in this nesting;
//! `corner = (wy * wx) * (weight * scale)` with the scale of an int8 level, else 1.
//! A query that no view sees is 0.
//!
//! **Weights** ([`Weighting`]) are those of DETR3D (a sigmoid of each logit) or of
//! Sparse4D (a softmax over views, levels and points for each group of channels).
//! What is not seen has no weight, and the others are not scaled up.
//!
//! Selection is equal on every device for equal points. Exponentials are computed
//! in f64 and rounded once; the rest is f32 in the order written here.

mod bilinear;
mod borrowed;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
mod device_maps;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
mod maps;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod points;
mod projection;
#[cfg(test)]
mod tests;

pub use bilinear::add_sample;
pub use borrowed::{BLOCK, LevelValues, LevelView, MapsView, Strides};
pub use maps::{FeatureLevel, FeatureMaps, MAX_LEVELS, Texels};
pub use projection::{Projected, Projection};

use det_post_types::{Error, ErrorKind, Result};

/// How samples are weighted.
#[derive(Clone, Copy, Debug)]
pub enum Weighting<'a> {
    /// DETR3D: the sigmoid of logits `[Q, N, L, P]`.
    Sigmoid {
        /// Logits.
        logits: &'a [f32],
    },
    /// Sparse4D: the softmax over N, L and P of `logits + view_logits`, for each
    /// of G groups of `C / G` channels: `exp(x - max) / sum`, the sum from +0 in the
    /// order of views, levels and points, over all of them, seen or not.
    Softmax {
        /// Logits of a query, `[Q, L, P, G]`.
        logits: &'a [f32],
        /// Logits of a view, `[N, L, P, G]`.
        view_logits: &'a [f32],
        /// Groups; a divisor of the channels.
        num_groups: usize,
    },
}

impl Weighting<'_> {
    fn num_groups(&self) -> usize {
        match self {
            Self::Sigmoid { .. } => 1,
            Self::Softmax { num_groups, .. } => *num_groups,
        }
    }
}

/// What is sampled, beside the maps.
#[derive(Clone, Copy, Debug)]
pub struct ViewSampling<'a> {
    /// Points `[Q, P, 3]` in metres, in the frame from which the views project.
    pub points: &'a [[f32; 3]],
    /// Points of a query.
    pub num_points: usize,
    /// One per view.
    pub projections: &'a [Projection],
    /// The least depth at which a point is seen, exclusive, in metres.
    pub min_depth_m: f32,
    /// Weights.
    pub weighting: Weighting<'a>,
}

/// Memory of the op: the weights and the projected points of a query.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    weights: Vec<f32>,
    projected: Vec<Projected>,
}

/// Writes all of `out`, `[Q, C]`.
///
/// # Errors
/// `Argument` when points, views, logits or output do not fit each other and the
/// maps.
pub fn view_sample(
    maps: &MapsView<'_>,
    sampling: &ViewSampling<'_>,
    workspace: &mut Workspace,
    out: &mut [f32],
) -> Result<()> {
    let &ViewSampling { points, num_points, projections, weighting, .. } = sampling;
    let (num_views, num_levels, num_channels) =
        (maps.num_views(), maps.levels().len(), maps.num_channels());
    let num_queries = points.len() / num_points.max(1);
    let num_samples = num_levels * num_points;
    let num_groups = weighting.num_groups();
    let logits_fit = match weighting {
        Weighting::Sigmoid { logits } => logits.len() == num_queries * num_views * num_samples,
        Weighting::Softmax { logits, view_logits, .. } => {
            logits.len() == num_queries * num_samples * num_groups
                && view_logits.len() == num_views * num_samples * num_groups
        }
    };
    let fits = num_points > 0
        && points.len() == num_queries * num_points
        && projections.len() == num_views
        && num_groups > 0
        && num_channels.is_multiple_of(num_groups)
        && logits_fit
        && out.len() == num_queries * num_channels;
    if !fits {
        return Err(Error::new(
            ErrorKind::Argument,
            "view_sample",
            format!(
                "{} points, {num_points} a query, {} views, weights of {num_groups} groups and {} \
                 outputs do not fit maps of {num_views} views, {num_levels} levels and \
                 {num_channels} channels",
                points.len(),
                projections.len(),
                out.len()
            ),
        ));
    }
    cpu::view_sample(maps, sampling, workspace, out);
    Ok(())
}
