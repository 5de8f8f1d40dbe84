//! Voxel mean: the features of a voxel are the means of its points' channels.
//!
//! Output `[V, F]`, F the channels of the points: voxel by voxel in the order of
//! [`Voxels`], each channel the sum of the voxel's kept points in order of
//! arrival, from +0, divided by their number. Rows beyond the voxels are zero.
//! Positions are absolute, not offsets from the voxel. OpenPCDet calls this
//! MeanVFE, mmdet3d HardSimpleVFE; with voxels of
//! [`VoxelizeParams::ALL_POINTS`](crate::cloud::voxelize::VoxelizeParams::ALL_POINTS)
//! DynamicMeanVFE and DynamicSimpleVFE.
//!
//! A channel may be transformed before it is summed ([`ChannelTransform`]): the
//! Waymo networks take the hyperbolic tangent of the intensity.
//!
//! All in f32, in this order, with nothing fused; an f16 output is rounded
//! once, to nearest even. CPU and CUDA are equal.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use half::f16;

use crate::cloud::voxelize::Voxels;
use det_post_types::{ChannelTransform, Error, ErrorKind, Points, Result, Tensor};

/// The transformed value.
#[inline]
fn transformed(value: f32, transform: ChannelTransform) -> f32 {
    match transform {
        ChannelTransform::Identity => value,
        ChannelTransform::Tanh => tanh(value),
    }
}

/// The hyperbolic tangent, within 1 unit of the last place, from operations
/// that are the same on every device: none of a mathematical library.
///
/// In f64, with nothing fused, from `e = exp(-2 |x|)`:
/// `tanh |x| = (1 - e) / (1 + e)`, below 2^-6 the series
/// `x - x^3 / 3 + 2 x^5 / 15`; rounded once.
pub fn tanh(value: f32) -> f32 {
    let x = f64::from(value).abs();
    if x.is_nan() {
        return value;
    }
    if x >= 10.0 {
        // 1 - tanh 10 is below half a unit of the last place of 1.
        return 1_f32.copysign(value);
    }
    let square = x * x;
    let tanh = if x < 0.015_625 {
        x - x * square * (1.0 / 3.0 - square * (2.0 / 15.0))
    } else {
        let e = exp_of_negative(-2.0 * x);
        (1.0 - e) / (1.0 + e)
    };
    (tanh as f32).copysign(value)
}

/// `exp(x)` for `-20 <= x <= 0`, to 1e-15: `2^n` times the series of
/// `exp(r)` with `|r| <= ln 2 / 2`.
fn exp_of_negative(x: f64) -> f64 {
    const NUM_TERMS: u32 = 13;
    let n = (x * std::f64::consts::LOG2_E - 0.5) as i64;
    let r = x - n as f64 * std::f64::consts::LN_2;
    let mut sum = 1.0;
    for term in (1..=NUM_TERMS).rev() {
        sum = 1.0 + sum * r / f64::from(term);
    }
    sum * f64::from_bits(((1023 + n) as u64) << 52)
}

/// Writes all of `out`, `[V, F]` with V at least the number of voxels.
///
/// `points` are those that the voxels were made from. `transforms` are those of
/// the channels; a channel beyond them is taken as it is.
///
/// # Errors
/// `Argument` when the shape of `out` is another, there are more transforms than
/// channels, or a voxel names a point that is not there.
pub fn voxel_mean(
    points: &Points,
    voxels: &Voxels,
    transforms: &[ChannelTransform],
    out: &mut Tensor,
) -> Result<()> {
    let argument = |message| Err(Error::new(ErrorKind::Argument, "voxel_mean", message));
    let num_channels = points.num_channels();
    let fits = matches!(*out.shape(), [num_rows, num_features]
        if num_rows >= voxels.len() && num_features == num_channels);
    if !fits || transforms.len() > num_channels {
        return argument(format!(
            "{} voxels of {num_channels} channels and {} transforms do not fit a tensor of {:?}",
            voxels.len(),
            transforms.len(),
            out.shape()
        ));
    }
    let last = (0..voxels.len()).filter_map(|voxel| voxels.points_of(voxel).last()).max();
    if let Some(&last) = last
        && last as usize >= points.len()
    {
        return argument(format!("the voxels name point {last}, there are {}", points.len()));
    }
    match out {
        Tensor::F32 { values, .. } => {
            cpu::voxel_mean(points, voxels, transforms, values, |value| value);
        }
        Tensor::F16 { values, .. } => {
            cpu::voxel_mean(points, voxels, transforms, values, f16::from_f32);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
