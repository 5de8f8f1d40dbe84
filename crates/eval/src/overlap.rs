//! Overlap of boxes, in `f64`.

use det_post_types::{Box2d, Box3d, ImageBox, RotatedBox2d};

/// Corners of a clipped footprint: four, and one more for each of four cuts.
const MAX_CORNERS: usize = 8;

/// A convex polygon of few corners, counter-clockwise.
struct Polygon {
    corners: [[f64; 2]; MAX_CORNERS],
    len: usize,
}

impl Polygon {
    /// A rotated box.
    fn rotated(bbox: &RotatedBox2d) -> Self {
        let (sin, cos) = f64::from(bbox.angle_rad).sin_cos();
        let [x, y] = [bbox.cx, bbox.cy].map(f64::from);
        let [dx, dy] = [bbox.width, bbox.height].map(|size| 0.5 * f64::from(size).max(0.0));
        let mut polygon = Self { corners: [[0.0; 2]; MAX_CORNERS], len: 0 };
        for [along, across] in [[dx, dy], [-dx, dy], [-dx, -dy], [dx, -dy]] {
            polygon.push([x + cos * along - sin * across, y + sin * along + cos * across]);
        }
        polygon
    }

    /// A box in an image.
    fn of(bbox: &ImageBox) -> Self {
        match bbox {
            ImageBox::Aligned(Box2d { x1, y1, x2, y2 }) => {
                let mut polygon = Self { corners: [[0.0; 2]; MAX_CORNERS], len: 0 };
                for [x, y] in [[x2, y2], [x1, y2], [x1, y1], [x2, y1]] {
                    polygon.push([f64::from(*x), f64::from(*y)]);
                }
                polygon
            }
            ImageBox::Rotated(bbox) => Self::rotated(bbox),
        }
    }

    /// The area that two have in common.
    fn common_area(self, other: &Self) -> f64 {
        other.edges().fold(self, |rest, (from, to)| rest.cut(from, to)).area()
    }

    /// Adds a corner. A convex polygon that four half planes cut has eight at
    /// most; one more could only be a duplicate by rounding.
    fn push(&mut self, corner: [f64; 2]) {
        if let Some(slot) = self.corners.get_mut(self.len) {
            *slot = corner;
            self.len += 1;
        }
    }

    fn edges(&self) -> impl Iterator<Item = ([f64; 2], [f64; 2])> + '_ {
        let corners = &self.corners[..self.len];
        corners.iter().copied().zip(corners.iter().copied().cycle().skip(1))
    }

    /// The part on the left of the line from `a` to `b`.
    fn cut(&self, a: [f64; 2], b: [f64; 2]) -> Self {
        let side = |p: [f64; 2]| (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]);
        let mut part = Self { corners: [[0.0; 2]; MAX_CORNERS], len: 0 };
        for (from, to) in self.edges() {
            let (of_from, of_to) = (side(from), side(to));
            if of_from >= 0.0 {
                part.push(from);
            }
            if (of_from > 0.0 && of_to < 0.0) || (of_from < 0.0 && of_to > 0.0) {
                let t = of_from / (of_from - of_to);
                part.push([0, 1].map(|axis| from[axis] + t * (to[axis] - from[axis])));
            }
        }
        part
    }

    fn area(&self) -> f64 {
        // About a corner, so that far boxes lose no digits.
        let [x, y] = self.corners[0];
        let twice: f64 =
            self.edges().map(|(a, b)| (a[0] - x) * (b[1] - y) - (b[0] - x) * (a[1] - y)).sum();
        0.5 * twice.max(0.0)
    }
}

/// Intersection over union of two boxes, from above and in space.
pub(super) struct Overlap3d {
    pub(super) bev: f64,
    pub(super) space: f64,
}

/// How far two boxes overlap. Boxes without extent overlap nothing.
pub(super) fn overlap_3d(a: &Box3d, b: &Box3d) -> Overlap3d {
    let reach = |bbox: &Box3d| 0.5 * f64::from(bbox.length_m).hypot(bbox.width_m.into());
    let apart = |axis: usize| f64::from(a.center[axis]) - f64::from(b.center[axis]);
    if apart(0).hypot(apart(1)) > reach(a) + reach(b) {
        return Overlap3d { bev: 0.0, space: 0.0 };
    }
    let [footprint_a, footprint_b] = [a, b].map(|bbox| Polygon::rotated(&bbox.footprint()));
    let inter_area = footprint_a.common_area(&footprint_b);
    let area = |bbox: &Box3d| f64::from(bbox.length_m) * f64::from(bbox.width_m);
    let height = |bbox: &Box3d| f64::from(bbox.height_m);
    let (z_a, z_b) = (f64::from(a.center[2]), f64::from(b.center[2]));
    let top = (z_a + 0.5 * height(a)).min(z_b + 0.5 * height(b));
    let bottom = (z_a - 0.5 * height(a)).max(z_b - 0.5 * height(b));
    let inter_volume = inter_area * (top - bottom).max(0.0);
    let volumes = area(a) * height(a) + area(b) * height(b);
    Overlap3d {
        bev: ratio(inter_area, area(a) + area(b) - inter_area),
        space: ratio(inter_volume, volumes - inter_volume),
    }
}

/// Intersection over union of two boxes in an image, or over only `a` when `b` is
/// a region in which nothing is asked.
pub(super) fn overlap_2d(a: &ImageBox, b: &ImageBox, b_is_region: bool) -> f64 {
    let sizes = [a, b].map(|bbox| match bbox {
        ImageBox::Aligned(b) => {
            [f64::from(b.x2) - f64::from(b.x1), f64::from(b.y2) - f64::from(b.y1)]
        }
        ImageBox::Rotated(b) => [f64::from(b.width), f64::from(b.height)],
    });
    let inter = match (a, b) {
        (ImageBox::Aligned(a), ImageBox::Aligned(b)) => common_area(a, b),
        _ if sizes.iter().flatten().any(|&size| size <= 0.0) => 0.0,
        _ => Polygon::of(a).common_area(&Polygon::of(b)),
    };
    let [area_a, area_b] = sizes.map(|[width, height]| width * height);
    ratio(inter, if b_is_region { area_a } else { area_a + area_b - inter })
}

/// The area that two axis-aligned boxes have in common.
fn common_area(a: &Box2d, b: &Box2d) -> f64 {
    let corners = |bbox: &Box2d| [bbox.x1, bbox.y1, bbox.x2, bbox.y2].map(f64::from);
    let ([ax1, ay1, ax2, ay2], [bx1, by1, bx2, by2]) = (corners(a), corners(b));
    let (width, height) = (ax2.min(bx2) - ax1.max(bx1), ay2.min(by2) - ay1.max(by1));
    if width <= 0.0 || height <= 0.0 { 0.0 } else { width * height }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if part > 0.0 && whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bbox(center: [f32; 3], size: [f32; 3], yaw_rad: f32) -> Box3d {
        let [length_m, width_m, height_m] = size;
        Box3d { center, length_m, width_m, height_m, yaw_rad }
    }

    #[track_caller]
    fn check(a: Box3d, b: Box3d, bev: f64, space: f64) {
        for (a, b) in [(a, b), (b, a)] {
            let found = overlap_3d(&a, &b);
            assert!((found.bev - bev).abs() < 1e-6, "{} {bev}", found.bev);
            assert!((found.space - space).abs() < 1e-6, "{} {space}", found.space);
        }
    }

    #[test]
    fn boxes_overlap_by_their_common_part() {
        let turn = 0.7;
        let a = bbox([40.0, -30.0, 1.0], [4.0, 2.0, 1.5], turn);
        check(a, a, 1.0, 1.0);
        // Half a length ahead: a third in common.
        let ahead = [40.0 + 2.0 * turn.cos(), -30.0 + 2.0 * turn.sin(), 1.0];
        check(a, bbox(ahead, [4.0, 2.0, 1.5], turn), 1.0 / 3.0, 1.0 / 3.0);
        // Crosswise: 4 of 12 square metres; half a height up: 3 of 21 cubic metres.
        let across = turn + std::f32::consts::FRAC_PI_2;
        check(a, bbox([40.0, -30.0, 1.75], [4.0, 2.0, 1.5], across), 1.0 / 3.0, 1.0 / 7.0);
        check(a, bbox([40.0, -30.0, 2.5], [4.0, 2.0, 1.5], turn), 1.0, 0.0);
        check(a, bbox([46.0, -30.0, 1.0], [4.0, 2.0, 1.5], turn), 0.0, 0.0);
        check(a, bbox([40.0, -30.0, 1.0], [0.0, 2.0, 1.5], turn), 0.0, 0.0);
    }

    #[test]
    fn an_octagon_is_what_two_squares_share() {
        let a = bbox([0.0; 3], [2.0, 2.0, 1.0], 0.0);
        let b = bbox([0.0; 3], [2.0, 2.0, 1.0], std::f32::consts::FRAC_PI_4);
        let octagon = 8.0 * (2.0_f64.sqrt() - 1.0);
        check(a, b, octagon / (8.0 - octagon), octagon / (8.0 - octagon));
    }

    #[test]
    fn a_region_is_measured_by_the_detection() {
        let aligned = |x1, y1, x2, y2| ImageBox::from(Box2d::new(x1, y1, x2, y2));
        let (small, large) = (aligned(2.0, 2.0, 6.0, 4.0), aligned(4.0, 0.0, 20.0, 10.0));
        assert_eq!(overlap_2d(&small, &large, true).to_bits(), 0.5_f64.to_bits());
        assert!((overlap_2d(&small, &large, false) - 4.0 / 164.0).abs() < 1e-12);
        assert_eq!(overlap_2d(&small, &aligned(6.0, 2.0, 8.0, 4.0), false).to_bits(), 0);
    }

    #[test]
    fn rotated_boxes_in_an_image_overlap_by_their_common_part() {
        let rotated = |cx, cy, width, height, angle_rad| {
            ImageBox::from(RotatedBox2d { cx, cy, width, height, angle_rad })
        };
        let aligned = ImageBox::from(Box2d::new(99.0, 49.0, 101.0, 51.0));
        let octagon = 8.0 * (2.0_f64.sqrt() - 1.0);
        let quarter = std::f32::consts::FRAC_PI_2;
        // (a, b, over the union, over a)
        let cases = [
            (aligned, rotated(100.0, 50.0, 2.0, 2.0, 0.0), 1.0, 1.0),
            (
                aligned,
                rotated(100.0, 50.0, 2.0, 2.0, 0.5 * quarter),
                octagon / (8.0 - octagon),
                octagon / 4.0,
            ),
            // Crosswise: 4 of 12.
            (
                rotated(7.0, 3.0, 4.0, 2.0, 0.7),
                rotated(7.0, 3.0, 4.0, 2.0, 0.7 + quarter),
                1.0 / 3.0,
                0.5,
            ),
            (aligned, rotated(110.0, 50.0, 2.0, 2.0, 0.4), 0.0, 0.0),
            (aligned, rotated(100.0, 50.0, -2.0, 2.0, 0.4), 0.0, 0.0),
            (rotated(100.0, 50.0, 0.0, 2.0, 0.4), aligned, 0.0, 0.0),
        ];
        for (a, b, over_union, over_a) in cases {
            for (is_region, expected) in [(false, over_union), (true, over_a)] {
                let found = overlap_2d(&a, &b, is_region);
                assert!((found - expected).abs() < 1e-6, "{a:?} {b:?}: {found} {expected}");
            }
        }
    }
}
