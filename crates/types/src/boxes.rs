//! Boxes in an image and in space.

use std::f32::consts::{FRAC_PI_2, PI};

/// Axis-aligned box in pixels, by its corners.
///
/// Coordinates are continuous: pixel `i` covers `[i, i + 1)`, x to the right,
/// y down. A box is empty when its right edge is before the left one or its bottom edge
/// above the top one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Box2d {
    /// Left edge.
    pub x1: f32,
    /// Top edge.
    pub y1: f32,
    /// Right edge.
    pub x2: f32,
    /// Bottom edge.
    pub y2: f32,
}

impl Box2d {
    /// A box from its corners.
    pub const fn new(x1: f32, y1: f32, x2: f32, y2: f32) -> Self {
        Self { x1, y1, x2, y2 }
    }

    /// A box from its centre and size.
    pub fn from_center(cx: f32, cy: f32, width: f32, height: f32) -> Self {
        let (half_width, half_height) = (width * 0.5, height * 0.5);
        Self::new(cx - half_width, cy - half_height, cx + half_width, cy + half_height)
    }

    /// Whether all four coordinates are finite.
    pub fn is_finite(&self) -> bool {
        self.x1.is_finite() && self.y1.is_finite() && self.x2.is_finite() && self.y2.is_finite()
    }

    /// Whether all four coordinates are finite, and neither the right edge is before the
    /// left one nor the bottom edge above the top one.
    pub fn is_valid(&self) -> bool {
        self.is_finite() && self.x1 <= self.x2 && self.y1 <= self.y2
    }
}

/// Rotated rectangle in a plane: pixels of an image, or metres of the
/// bird's-eye view.
///
/// `width` is the extent along the local x axis, which `angle_rad` rotates
/// counter-clockwise from +x towards +y (clockwise on a screen, where y points
/// down).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct RotatedBox2d {
    /// Centre, x.
    pub cx: f32,
    /// Centre, y.
    pub cy: f32,
    /// Extent along the local x axis.
    pub width: f32,
    /// Extent along the local y axis.
    pub height: f32,
    /// Turn of the local x axis from +x towards +y.
    pub angle_rad: f32,
}

impl RotatedBox2d {
    /// The same rectangle with its angle in [0, pi/2]: `width` and `height` are
    /// exchanged where the angle is turned by an odd number of quarters, as
    /// ultralytics' `regularize_rboxes` does it.
    ///
    /// The remainder by pi is exact; what is added and subtracted afterwards is
    /// rounded to f32, so that pi/2 itself can occur.
    pub fn regularized(&self) -> Self {
        let mut angle_rad = self.angle_rad % PI;
        if angle_rad < 0.0 {
            angle_rad += PI;
        }
        let (width, height) = (self.width, self.height);
        if angle_rad >= FRAC_PI_2 {
            angle_rad -= FRAC_PI_2;
            return Self { width: height, height: width, angle_rad, ..*self };
        }
        Self { angle_rad, ..*self }
    }

    /// Whether centre, sizes and angle are finite.
    pub fn is_finite(&self) -> bool {
        let Self { cx, cy, width, height, angle_rad } = *self;
        [cx, cy, width, height, angle_rad].iter().all(|value| value.is_finite())
    }

    /// Whether all numbers are finite and neither side is negative.
    pub fn is_valid(&self) -> bool {
        self.is_finite() && self.width >= 0.0 && self.height >= 0.0
    }
}

/// A box in an image, axis-aligned or rotated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ImageBox {
    /// A box with horizontal and vertical sides.
    Aligned(Box2d),
    /// A box at any angle.
    Rotated(RotatedBox2d),
}

impl ImageBox {
    /// Whether all numbers are finite.
    pub fn is_finite(&self) -> bool {
        match self {
            Self::Aligned(bbox) => bbox.is_finite(),
            Self::Rotated(bbox) => bbox.is_finite(),
        }
    }

    /// Whether all numbers are finite and no side is negative.
    pub fn is_valid(&self) -> bool {
        match self {
            Self::Aligned(bbox) => bbox.is_valid(),
            Self::Rotated(bbox) => bbox.is_valid(),
        }
    }

    /// The corners: x, y. Of an axis-aligned box, clockwise on a screen from the
    /// left upper one.
    pub fn corners(&self) -> [[f32; 2]; 4] {
        match *self {
            Self::Aligned(Box2d { x1, y1, x2, y2 }) => [[x1, y1], [x2, y1], [x2, y2], [x1, y2]],
            Self::Rotated(RotatedBox2d { cx, cy, width, height, angle_rad }) => {
                let (sin, cos) = angle_rad.sin_cos();
                [[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]].map(|[along, across]| {
                    let (x, y) = (along * width, across * height);
                    [cx + (cos * x - sin * y), cy + (sin * x + cos * y)]
                })
            }
        }
    }

    /// The smallest axis-aligned box that contains it.
    pub fn bounds(&self) -> Box2d {
        match self {
            Self::Aligned(bbox) => *bbox,
            Self::Rotated(_) => {
                let [first, others @ ..] = self.corners();
                others
                    .iter()
                    .fold(Box2d::new(first[0], first[1], first[0], first[1]), |b, &[x, y]| {
                        Box2d::new(b.x1.min(x), b.y1.min(y), b.x2.max(x), b.y2.max(y))
                    })
            }
        }
    }
}

impl From<Box2d> for ImageBox {
    fn from(bbox: Box2d) -> Self {
        Self::Aligned(bbox)
    }
}

impl From<RotatedBox2d> for ImageBox {
    fn from(bbox: RotatedBox2d) -> Self {
        Self::Rotated(bbox)
    }
}

/// Oriented box in metres, upright in its frame (z up).
///
/// `length_m` is the extent along the heading; `yaw_rad` rotates the heading
/// counter-clockwise (seen from above) from +x. `center` is the geometric
/// centre, half the height above the ground contact.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Box3d {
    /// Geometric centre: x, y, z.
    pub center: [f32; 3],
    /// Extent along the heading.
    pub length_m: f32,
    /// Extent across the heading.
    pub width_m: f32,
    /// Vertical extent.
    pub height_m: f32,
    /// Heading, counter-clockwise from +x.
    pub yaw_rad: f32,
}

impl Box3d {
    /// Whether centre, sizes and yaw are finite.
    pub fn is_finite(&self) -> bool {
        let Self { center: [x, y, z], length_m, width_m, height_m, yaw_rad } = *self;
        [x, y, z, length_m, width_m, height_m, yaw_rad].iter().all(|value| value.is_finite())
    }

    /// Whether all numbers are finite and no extent is negative.
    pub fn is_valid(&self) -> bool {
        let is_extent = |&extent: &f32| extent >= 0.0;
        self.is_finite() && [self.length_m, self.width_m, self.height_m].iter().all(is_extent)
    }

    /// The footprint in the bird's-eye view.
    pub fn footprint(&self) -> RotatedBox2d {
        RotatedBox2d {
            cx: self.center[0],
            cy: self.center[1],
            width: self.length_m,
            height: self.width_m,
            angle_rad: self.yaw_rad,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: RotatedBox2d =
        RotatedBox2d { cx: 10.0, cy: 20.0, width: 8.0, height: 2.0, angle_rad: 0.0 };

    #[test]
    fn regularized_boxes_are_the_same_rectangles() {
        // (angle, angle afterwards, whether the sides are exchanged)
        let cases = [
            (0.0, 0.0, false),
            (0.3, 0.3, false),
            (FRAC_PI_2, 0.0, true),
            (2.0, 2.0 - FRAC_PI_2, true),
            (PI, 0.0, false),
            (-0.5, PI - 0.5 - FRAC_PI_2, true),
            (-2.0, PI - 2.0, false),
            (40.0 * PI + 0.25, 0.25, false),
            (-1e-9, FRAC_PI_2, true),
        ];
        for (angle_rad, expected, is_exchanged) in cases {
            let regularized = RotatedBox2d { angle_rad, ..BOX }.regularized();
            assert!((regularized.angle_rad - expected).abs() < 1e-5, "{angle_rad} {regularized:?}");
            assert!((0.0..=FRAC_PI_2).contains(&regularized.angle_rad), "{angle_rad}");
            let sides = if is_exchanged { [2.0, 8.0] } else { [8.0, 2.0] };
            assert_eq!([regularized.width, regularized.height], sides, "{angle_rad}");
            let bounds = |bbox: RotatedBox2d| {
                let Box2d { x1, y1, x2, y2 } = ImageBox::from(bbox).bounds();
                [x1, y1, x2, y2]
            };
            let pairs =
                bounds(regularized).into_iter().zip(bounds(RotatedBox2d { angle_rad, ..BOX }));
            for (a, b) in pairs {
                assert!((a - b).abs() < 1e-4, "{angle_rad}: {a} {b}");
            }
        }
        for angle_rad in [f32::NAN, f32::INFINITY] {
            assert!(!RotatedBox2d { angle_rad, ..BOX }.regularized().is_finite());
        }
    }

    #[test]
    fn corners_turn_from_x_towards_y() {
        let aligned = ImageBox::from(Box2d::new(6.0, 19.0, 14.0, 21.0));
        assert_eq!(ImageBox::from(BOX).corners(), aligned.corners());
        let turned = ImageBox::from(RotatedBox2d { angle_rad: FRAC_PI_2, ..BOX });
        let expected = [[11.0, 16.0], [11.0, 24.0], [9.0, 24.0], [9.0, 16.0]];
        for ([x, y], [expected_x, expected_y]) in turned.corners().into_iter().zip(expected) {
            assert!((x - expected_x).abs() < 1e-5 && (y - expected_y).abs() < 1e-5, "{x} {y}");
        }
    }
}
