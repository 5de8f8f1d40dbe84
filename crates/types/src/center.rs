//! What the output of a CenterPoint-family network means.

use std::f32::consts::{FRAC_PI_2, PI};

use super::grid::PointRange;

/// How raw outputs of a CenterPoint head become boxes (`ops::decode_center`).
///
/// Cell (row, column) of the map is at
/// `(column + offset_x) * cell_size + origin_x`, and likewise in y by the row.
#[derive(Clone, Debug, PartialEq)]
pub struct CenterDecode {
    /// x, y of the corner of the map, in metres: the range's minimum.
    pub origin_m: [f32; 2],
    /// Edge lengths of a cell of the map along x and y in metres: voxel size
    /// times downsample factor.
    pub cell_size_m: [f32; 2],
    /// Per task, the class of each channel of its heat map.
    pub tasks: Vec<Vec<u32>>,
    /// Whether heat maps are logits, to be passed through a sigmoid.
    pub heatmap_logits: bool,
    /// What the three size channels hold.
    pub size_order: SizeOrder,
    /// Whether sizes are logarithms, to be passed through `exp`.
    pub size_log: bool,
    /// How the two rotation channels (sine, cosine) become a yaw.
    pub yaw: YawConvention,
    /// Score thresholds.
    pub score_thresholds: ScoreThresholds,
    /// Per class, the minimum norm of (sine, cosine); empty for no check.
    pub yaw_norm_thresholds: Vec<f32>,
    /// Centres outside are dropped; `None` keeps all.
    pub center_range: Option<PointRange>,
    /// Whether there are two velocity channels.
    pub has_velocity: bool,
    /// Whether the values of every regression tensor are followed by as many logarithms
    /// of variances.
    pub has_variance: bool,
}

/// Order of the size channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeOrder {
    /// Width, length, height (CenterPoint, Autoware).
    WidthLengthHeight,
    /// Length, width, height (mmdet3d from 1.0, OpenPCDet).
    LengthWidthHeight,
}

impl SizeOrder {
    /// Length, width and height from the values of the three channels.
    pub fn length_width_height<T: Copy>(self, size: [T; 3]) -> [T; 3] {
        match self {
            Self::LengthWidthHeight => size,
            Self::WidthLengthHeight => [size[1], size[0], size[2]],
        }
    }
}

/// How sine and cosine become [`Box3d::yaw_rad`](super::Box3d::yaw_rad).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum YawConvention {
    /// `atan2(sin, cos)`: counter-clockwise from +x.
    CounterClockwise,
    /// `-atan2(sin, cos) - pi/2`, brought into (-pi, pi]: networks trained in
    /// the older convention of CenterPoint and Autoware, whose angle turns
    /// clockwise from -y.
    ClockwiseFromMinusY,
}

impl YawConvention {
    /// The yaw in radians of a sine and a cosine, of any norm; the arc tangent is
    /// computed in f64 and rounded once.
    pub fn yaw(self, sin: f32, cos: f32) -> f32 {
        let angle = f64::from(sin).atan2(f64::from(cos)) as f32;
        match self {
            Self::CounterClockwise => angle,
            Self::ClockwiseFromMinusY => {
                let yaw = -angle - FRAC_PI_2;
                if yaw <= -PI { yaw + 2.0 * PI } else { yaw }
            }
        }
    }
}

/// Minimum scores per class, constant or by distance from the sensor.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreThresholds {
    /// Upper limits of the distance bins in metres, ascending. Empty: one bin without a
    /// limit. Otherwise an object at or beyond the last is dropped.
    pub distance_upper_limits_m: Vec<f32>,
    /// Per class, one threshold per bin. A candidate passes when its score is at least
    /// the threshold.
    pub per_class: Vec<Vec<f32>>,
}

impl ScoreThresholds {
    /// The same threshold for every class at every distance.
    pub fn uniform(threshold: f32, num_classes: usize) -> Self {
        Self { distance_upper_limits_m: Vec::new(), per_class: vec![vec![threshold]; num_classes] }
    }

    /// The threshold of a class at a distance; `None` when no score passes (beyond the
    /// last bin, or an unknown class).
    pub fn at(&self, class: u32, distance_m: f32) -> Option<f32> {
        let bins = self.per_class.get(class as usize)?;
        if self.distance_upper_limits_m.is_empty() {
            return bins.first().copied();
        }
        let bin = self.distance_upper_limits_m.iter().position(|&limit| distance_m < limit)?;
        bins.get(bin).copied()
    }

    /// The threshold of a class for a box with a centre: [`Self::at`] its distance,
    /// `sqrt(x² + y²)`. If the centre is not finite, the lowest of the class.
    pub fn at_center(&self, class: u32, center: [f32; 3]) -> Option<f32> {
        if center.iter().all(|value| value.is_finite()) {
            let [x, y, _] = center;
            self.at(class, (x * x + y * y).sqrt())
        } else {
            self.lowest(class)
        }
    }

    /// The lowest threshold of a class over all distances, for a first test.
    pub fn lowest(&self, class: u32) -> Option<f32> {
        self.per_class.get(class as usize)?.iter().copied().reduce(f32::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_by_distance() {
        let thresholds = ScoreThresholds {
            distance_upper_limits_m: vec![50.0, 90.0],
            per_class: vec![vec![0.3, 0.5], vec![0.4, 0.2]],
        };
        assert_eq!(thresholds.at(0, 49.9), Some(0.3));
        assert_eq!(thresholds.at(0, 50.0), Some(0.5));
        assert_eq!(thresholds.at(1, 89.0), Some(0.2));
        assert_eq!(thresholds.at(1, 90.0), None);
        assert_eq!(thresholds.at(2, 1.0), None);
        assert_eq!(thresholds.lowest(1), Some(0.2));
        assert_eq!(ScoreThresholds::uniform(0.1, 2).at(1, 1e9), Some(0.1));
    }
}
