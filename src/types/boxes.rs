//! Boxes in an image and in space.

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
    /// Whether centre, sizes and angle are finite.
    pub fn is_finite(&self) -> bool {
        let Self { cx, cy, width, height, angle_rad } = *self;
        [cx, cy, width, height, angle_rad].iter().all(|value| value.is_finite())
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
