//! Yaws and extents of heads, as the parts of a box.

use std::f32::consts::{FRAC_PI_2, PI};

use crate::types::{SizeOrder, YawConvention};

/// The yaw in (-π, π]; `atan2` is computed in f64 and rounded once.
pub fn yaw_of(sin: f32, cos: f32, convention: YawConvention) -> f32 {
    let angle = f64::from(sin).atan2(f64::from(cos)) as f32;
    match convention {
        YawConvention::CounterClockwise => angle,
        YawConvention::ClockwiseFromMinusY => {
            let yaw = -angle - FRAC_PI_2;
            if yaw <= -PI { yaw + 2.0 * PI } else { yaw }
        }
    }
}

/// Three values per extent, in the order length, width, height.
pub fn length_width_height<T: Copy>(size: [T; 3], order: SizeOrder) -> [T; 3] {
    match order {
        SizeOrder::LengthWidthHeight => size,
        SizeOrder::WidthLengthHeight => [size[1], size[0], size[2]],
    }
}
