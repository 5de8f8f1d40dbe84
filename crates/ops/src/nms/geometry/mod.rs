//! Overlap of boxes: intersection, IoU (over the union), IoF (over the first).
//!
//! All arithmetic is IEEE f32 in the order of the source, without fused multiply-add
//! (f64 inside [`sin_cos`]), so that results are equal on every device, bit for bit.
//! Swapping the boxes of a rotated pair may change the last bits, since the
//! intersection is computed in the frame of the first.
//!
//! A box without extent (right at or before left, a width, height or length of zero or
//! less) is empty: its intersection with any box is 0, and so are IoU and IoF. Areas and
//! volumes below [`MIN_MEASURE`] or beyond the range of f32 give 0 as well. No result is
//! NaN if the coordinates are finite.

use det_post_types::{Box2d, Box3d, RotatedBox2d};

/// Areas and volumes below this are treated as empty: subnormal numbers, which some
/// processors flush to zero, affect no decision.
pub const MIN_MEASURE: f32 = 1e-30;

/// `part / whole`, 0 for a whole below [`MIN_MEASURE`] or beyond the range.
#[inline]
fn ratio(part: f32, whole: f32) -> f32 {
    if (MIN_MEASURE..f32::INFINITY).contains(&whole) { part / whole } else { 0.0 }
}

/// `intersection / union` of two measures.
#[inline]
fn over_union(intersection: f32, a: f32, b: f32) -> f32 {
    ratio(intersection, (a + b) - intersection)
}

/// Length of an interval plus `offset`; 0 when empty.
#[inline]
fn extent(low: f32, high: f32, offset: f32) -> f32 {
    ((high - low) + offset).max(0.0)
}

/// An axis-aligned box with its area, prepared for many comparisons.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlignedBox {
    bbox: Box2d,
    offset: f32,
    area: f32,
}

impl AlignedBox {
    /// Prepares a box. `offset` is added to every width and height: 0, or 1
    /// for boxes whose corners are whole pixels (mmcv's `offset`).
    #[inline]
    pub fn new(bbox: &Box2d, offset: f32) -> Self {
        let area = extent(bbox.x1, bbox.x2, offset) * extent(bbox.y1, bbox.y2, offset);
        Self { bbox: *bbox, offset, area }
    }

    /// The box.
    #[inline]
    pub fn bbox(&self) -> &Box2d {
        &self.bbox
    }

    /// The area; 0 for an empty box.
    #[inline]
    pub fn area(&self) -> f32 {
        self.area
    }

    /// Area of the intersection. Both boxes carry the same offset.
    #[inline]
    pub fn intersection(&self, other: &Self) -> f32 {
        let (a, b) = (&self.bbox, &other.bbox);
        let width = extent(a.x1.max(b.x1), a.x2.min(b.x2), self.offset);
        let height = extent(a.y1.max(b.y1), a.y2.min(b.y2), self.offset);
        width * height
    }

    /// Intersection over union, in [0, 1].
    #[inline]
    pub fn iou(&self, other: &Self) -> f32 {
        let intersection = self.intersection(other);
        // The common case; the division would also give 0.
        if intersection == 0.0 {
            return 0.0;
        }
        over_union(intersection, self.area, other.area)
    }
}

/// The axis-aligned bounds of a shape in the plane.
pub trait Extents {
    /// The centre: x, y.
    fn center(&self) -> [f32; 2];
    /// Half the extents along x and y.
    fn half_extents(&self) -> [f32; 2];
}

impl Extents for AlignedBox {
    #[inline]
    fn center(&self) -> [f32; 2] {
        let bbox = &self.bbox;
        [0.5 * bbox.x1 + 0.5 * bbox.x2, 0.5 * bbox.y1 + 0.5 * bbox.y2]
    }

    #[inline]
    fn half_extents(&self) -> [f32; 2] {
        let bbox = &self.bbox;
        let (width, height) =
            (extent(bbox.x1, bbox.x2, self.offset), extent(bbox.y1, bbox.y2, self.offset));
        [0.5 * width, 0.5 * height]
    }
}

impl Extents for Rectangle {
    fn center(&self) -> [f32; 2] {
        self.center
    }

    fn half_extents(&self) -> [f32; 2] {
        let (cos, sin) = (self.cos.abs(), self.sin.abs());
        [
            cos * self.half_width + sin * self.half_height,
            sin * self.half_width + cos * self.half_height,
        ]
    }
}

impl Extents for Solid {
    fn center(&self) -> [f32; 2] {
        self.footprint.center
    }

    fn half_extents(&self) -> [f32; 2] {
        self.footprint.half_extents()
    }
}

/// IoU of axis-aligned boxes, as mmcv's `bbox_overlaps` with `offset`.
pub fn iou_2d(a: &Box2d, b: &Box2d, offset: f32) -> f32 {
    AlignedBox::new(a, offset).iou(&AlignedBox::new(b, offset))
}

/// A rotated rectangle with its area and the sine and cosine of its angle,
/// prepared for many comparisons.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rectangle {
    /// Centre: x, y.
    pub center: [f32; 2],
    half_width: f32,
    half_height: f32,
    cos: f32,
    sin: f32,
    /// Area; 0 for an empty rectangle.
    pub area: f32,
}

impl Rectangle {
    /// Prepares a rotated box.
    pub fn new(bbox: &RotatedBox2d) -> Self {
        let (sin, cos) = sin_cos(bbox.angle_rad);
        let (width, height) = (bbox.width.max(0.0), bbox.height.max(0.0));
        Self {
            center: [bbox.cx, bbox.cy],
            half_width: width * 0.5,
            half_height: height * 0.5,
            cos,
            sin,
            area: width * height,
        }
    }

    /// Area of the intersection, never above the smaller area.
    ///
    /// The other rectangle is transformed to the frame of this one. There, the height
    /// between its upper and its lower outline, both clamped to this one's height, is
    /// integrated over this one's width. The four edges contribute independently, so
    /// that there is no polygon and no tolerance: identical, touching, contained and thin
    /// rectangles are ordinary cases. The error is a few units in the last place of this
    /// area, and of the product of both longest sides.
    pub fn intersection(&self, other: &Self) -> f32 {
        if !(self.area > 0.0 && other.area > 0.0) {
            return 0.0;
        }
        let cos = self.cos * other.cos + self.sin * other.sin;
        let sin = self.cos * other.sin - self.sin * other.cos;
        let (dx, dy) = (other.center[0] - self.center[0], other.center[1] - self.center[1]);
        let x = self.cos * dx + self.sin * dy;
        let y = self.cos * dy - self.sin * dx;
        if self.is_separated_from(other, [x, y], [cos, sin]) {
            return 0.0;
        }
        let (along_x, along_y) = (cos * other.half_width, sin * other.half_width);
        let (across_x, across_y) = (-sin * other.half_height, cos * other.half_height);
        // Counter-clockwise. Traversed in reverse, upper edges are positive and
        // lower ones negative.
        let corners = [
            [x + along_x + across_x, y + along_y + across_y],
            [x - along_x + across_x, y - along_y + across_y],
            [x - along_x - across_x, y - along_y - across_y],
            [x + along_x - across_x, y + along_y - across_y],
        ];
        let sum = (self.area_under(corners[1], corners[0])
            + self.area_under(corners[2], corners[1]))
            + (self.area_under(corners[3], corners[2]) + self.area_under(corners[0], corners[3]));
        sum.max(0.0).min(self.area).min(other.area)
    }

    /// The separating axis test over the directions of all sides. The centre
    /// and the direction `[cos, sin]` of the other are in this frame.
    #[inline]
    fn is_separated_from(&self, other: &Self, [x, y]: [f32; 2], [cos, sin]: [f32; 2]) -> bool {
        let (abs_cos, abs_sin) = (cos.abs(), sin.abs());
        x.abs() >= self.half_width + (abs_cos * other.half_width + abs_sin * other.half_height)
            || y.abs()
                >= self.half_height + (abs_sin * other.half_width + abs_cos * other.half_height)
            || (cos * x + sin * y).abs()
                >= other.half_width + (abs_cos * self.half_width + abs_sin * self.half_height)
            || (cos * y - sin * x).abs()
                >= other.half_height + (abs_sin * self.half_width + abs_cos * self.half_height)
    }

    /// Signed area between the x axis and the edge from `a` to `b`, clipped to this
    /// rectangle's width and with y clamped to its height.
    #[inline]
    fn area_under(&self, a: [f32; 2], b: [f32; 2]) -> f32 {
        let (x_a, x_b) = (
            a[0].clamp(-self.half_width, self.half_width),
            b[0].clamp(-self.half_width, self.half_width),
        );
        if x_a == x_b {
            return 0.0;
        }
        let (run, rise) = (b[0] - a[0], b[1] - a[1]);
        let y_a = a[1] + rise * ((x_a - a[0]) / run);
        let y_b = b[1] - rise * ((b[0] - x_b) / run);
        let (low, high) = (
            y_a.clamp(-self.half_height, self.half_height),
            y_b.clamp(-self.half_height, self.half_height),
        );
        let mean = if low == high {
            low
        } else {
            // The parts of the edge before, inside and after the band.
            let rise = y_b - y_a;
            let before = (low - y_a) / rise;
            let inside = (high - low) / rise;
            let after = (y_b - high) / rise;
            (before * low + after * high) + inside * (0.5 * (low + high))
        };
        (x_b - x_a) * mean
    }

    /// Intersection over union, in [0, 1].
    pub fn iou(&self, other: &Self) -> f32 {
        over_union(self.intersection(other), self.area, other.area)
    }

    /// Intersection over the area of this rectangle, in [0, 1].
    pub fn iof(&self, other: &Self) -> f32 {
        ratio(self.intersection(other), self.area)
    }
}

/// Area of the intersection of two rotated boxes, in the frame of `a`.
pub fn rotated_intersection(a: &RotatedBox2d, b: &RotatedBox2d) -> f32 {
    Rectangle::new(a).intersection(&Rectangle::new(b))
}

/// IoU of two rotated boxes, as mmcv's `box_iou_rotated`.
pub fn rotated_iou(a: &RotatedBox2d, b: &RotatedBox2d) -> f32 {
    Rectangle::new(a).iou(&Rectangle::new(b))
}

/// Intersection of two rotated boxes over the area of `a`.
pub fn rotated_iof(a: &RotatedBox2d, b: &RotatedBox2d) -> f32 {
    Rectangle::new(a).iof(&Rectangle::new(b))
}

/// An upright box in space with its footprint and volume, prepared for many
/// comparisons.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solid {
    /// The footprint.
    pub footprint: Rectangle,
    bottom: f32,
    top: f32,
    volume: f32,
}

impl Solid {
    /// Prepares a box.
    pub fn new(bbox: &Box3d) -> Self {
        let footprint = Rectangle::new(&bbox.footprint());
        let height = bbox.height_m.max(0.0);
        let half_height = height * 0.5;
        Self {
            footprint,
            bottom: bbox.center[2] - half_height,
            top: bbox.center[2] + half_height,
            volume: footprint.area * height,
        }
    }

    /// The volume; 0 for an empty box.
    #[inline]
    pub fn volume(&self) -> f32 {
        self.volume
    }

    /// Volume of the intersection: of the footprints, times that of the
    /// vertical intervals; never above the smaller volume.
    pub fn intersection(&self, other: &Self) -> f32 {
        let vertical = extent(self.bottom.max(other.bottom), self.top.min(other.top), 0.0);
        if vertical == 0.0 {
            return 0.0;
        }
        let area = self.footprint.intersection(&other.footprint);
        (area * vertical).min(self.volume).min(other.volume)
    }

    /// Intersection over union of the volumes, in [0, 1].
    pub fn iou(&self, other: &Self) -> f32 {
        over_union(self.intersection(other), self.volume, other.volume)
    }
}

/// IoU of the volumes of two boxes, as mmdet3d's `boxes_iou3d`.
pub fn iou_3d(a: &Box3d, b: &Box3d) -> f32 {
    Solid::new(a).iou(&Solid::new(b))
}

/// IoU of the footprints of two boxes in the bird's-eye view.
pub fn iou_bev(a: &Box3d, b: &Box3d) -> f32 {
    rotated_iou(&a.footprint(), &b.footprint())
}

/// Sine and cosine of an angle in radians, by additions and multiplications of
/// f64 in a fixed order: the same bits on every device, within half a unit in
/// the last place (rounded once more at the end) for angles up to thousands of
/// turns.
pub fn sin_cos(angle_rad: f32) -> (f32, f32) {
    use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, TAU};

    let angle = f64::from(angle_rad) % TAU;
    let quarters = (angle * FRAC_2_PI + 0.5).floor();
    let x = angle - quarters * FRAC_PI_2;
    let square = x * x;
    // Taylor series: on [-pi/4, pi/4] the first term left out is below 1e-14.
    let sine = [-1.0 / 39_916_800.0, 1.0 / 362_880.0, -1.0 / 5_040.0, 1.0 / 120.0, -1.0 / 6.0]
        .into_iter()
        .fold(1.0 / 6_227_020_800.0, |sum, term| sum * square + term);
    let sine = x + x * (square * sine);
    let cosine =
        [1.0 / 479_001_600.0, -1.0 / 3_628_800.0, 1.0 / 40_320.0, -1.0 / 720.0, 1.0 / 24.0]
            .into_iter()
            .fold(-1.0 / 87_178_291_200.0, |sum, term| sum * square + term);
    let cosine = 1.0 + square * (square * cosine - 0.5);
    let (sine, cosine) = match quarters as i32 & 3 {
        0 => (sine, cosine),
        1 => (cosine, -sine),
        2 => (-sine, -cosine),
        _ => (-cosine, sine),
    };
    (sine as f32, cosine as f32)
}

#[cfg(test)]
mod tests;
