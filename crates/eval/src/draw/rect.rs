//! Rectangles with sides along the axes of an image.

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub(super) left: f32,
    pub(super) top: f32,
    pub(super) right: f32,
    pub(super) bottom: f32,
}

impl Rect {
    /// From its upper left corner.
    pub(super) fn at([left, top]: [f32; 2], [width, height]: [f32; 2]) -> Self {
        Self { left, top, right: left + width, bottom: top + height }
    }

    /// The bounds of points; `None` without points and where one is not finite.
    pub(super) fn around(points: &[[f32; 2]]) -> Option<Self> {
        let [first, ..] = points else { return None };
        let mut bounds = Self::at(*first, [0.0; 2]);
        for &[x, y] in points {
            if !(x.is_finite() && y.is_finite()) {
                return None;
            }
            bounds.left = bounds.left.min(x);
            bounds.right = bounds.right.max(x);
            bounds.top = bounds.top.min(y);
            bounds.bottom = bounds.bottom.max(y);
        }
        Some(bounds)
    }

    pub(super) fn middle(&self) -> [f32; 2] {
        [0.5 * (self.left + self.right), 0.5 * (self.top + self.bottom)]
    }

    /// Its point nearest to another.
    pub(super) fn nearest(&self, [x, y]: [f32; 2]) -> [f32; 2] {
        [x.max(self.left).min(self.right), y.max(self.top).min(self.bottom)]
    }

    pub(super) fn area(&self) -> f32 {
        (self.right - self.left) * (self.bottom - self.top)
    }

    /// The area shared with another.
    pub(super) fn overlap(&self, other: &Self) -> f32 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        width.max(0.0) * height.max(0.0)
    }

    /// Whether the two share points that are not on their borders.
    pub(super) fn touches(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Moved into another, from whose upper left corner it begins where it is larger.
    pub(super) fn moved_into(self, image: &Self) -> Self {
        let [width, height] = [self.right - self.left, self.bottom - self.top];
        let left = self.left.min(image.right - width).max(image.left);
        let top = self.top.min(image.bottom - height).max(image.top);
        Self::at([left, top], [width, height])
    }
}
