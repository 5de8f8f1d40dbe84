//! Gathers the survivors of suppression into detections.
//!
//! Detections have the order of `keep`, which is best first after suppression. The
//! first `max_detections` are returned; the others are counted.
//!
//! Boxes in images are transformed to source pixels by one multiplication and one
//! addition per coordinate and clipped to `[0, width] x [0, height]`. A box that
//! has no area inside the image is dropped: it is not counted and does not use up the limit. So is
//! one whose numbers are not finite in source pixels, which is counted
//! ([`GatherCounts::num_invalid_boxes`]). Equal on every device.
//!
//! Rotated boxes keep their angle and are not clipped
//! ([`Affine2::apply_rotated`]). The two scales of a letterbox differ by the
//! rounding of its content to whole pixels: the relative error of a box's sides is at
//! most half a pixel over the content's shorter side.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;

use crate::nms::geometry::Rectangle;
use det_post_types::{
    Affine2, Box2d, Candidate, Count, Detection2d, Detection3d, FrameReport, Kept, Object3d,
    RotatedBox2d, Size,
};

/// What gathering drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatherCounts {
    /// Detections over the limit.
    pub num_over_limit: usize,
    /// Survivors, of those over the limit too, whose boxes are not finite in source pixels.
    pub num_invalid_boxes: usize,
}

impl GatherCounts {
    /// Adds the counts to a frame's report.
    pub fn add_to(&self, report: &mut FrameReport) {
        report.add_count(Count::DetectionsOverLimit, self.num_over_limit);
        report.add_count(Count::BoxesInvalid, self.num_invalid_boxes);
    }
}

/// Replaces the contents of `out` by the detections, in source pixels, and returns what was
/// dropped.
///
/// Nothing is allocated if `out` has the capacity for `max_detections`. Indices in
/// `keep` that are out of range are ignored.
pub fn gather_2d(
    candidates: &[Candidate<Box2d>],
    keep: &[Kept],
    source_from_network: &Affine2,
    source: Size,
    max_detections: usize,
    out: &mut Vec<Detection2d>,
) -> GatherCounts {
    let mut num_invalid_boxes = 0;
    let mapped = mapped(candidates, keep, source_from_network, source);
    let counted = mapped.inspect(|(_, found)| num_invalid_boxes += usize::from(found.is_none()));
    let num_over_limit =
        take(counted.filter_map(|(_, found)| found.flatten()), max_detections, out);
    GatherCounts { num_over_limit, num_invalid_boxes }
}

/// Replaces the contents of `sources` by the rows of the network's output
/// ([`Candidate::source`]) of the detections of [`gather_2d`], in their order.
///
/// Nothing is allocated if `sources` has the capacity for `max_detections`.
pub fn sources_2d(
    candidates: &[Candidate<Box2d>],
    keep: &[Kept],
    source_from_network: &Affine2,
    source: Size,
    max_detections: usize,
    sources: &mut Vec<u32>,
) {
    sources.clear();
    let mapped = mapped(candidates, keep, source_from_network, source);
    let visible = mapped.filter(|(_, found)| found.flatten().is_some());
    sources.extend(visible.take(max_detections).map(|(source, _)| source));
}

/// The survivors, each with its row and what it is in the image: `None` where its numbers are not
/// finite there, `Some(None)` where it has no area.
fn mapped<'a>(
    candidates: &'a [Candidate<Box2d>],
    keep: &'a [Kept],
    source_from_network: &'a Affine2,
    source: Size,
) -> impl Iterator<Item = (u32, Option<Option<Detection2d>>)> {
    survivors(candidates, keep).map(move |(candidate, score)| {
        let bbox = source_from_network.apply(candidate.bbox);
        let of = |bbox| Detection2d { class: candidate.class, score, bbox };
        let found = bbox.is_finite().then(|| clipped(bbox, source).map(of));
        (candidate.source, found)
    })
}

/// As [`gather_2d`], for rotated boxes.
pub fn gather_rotated(
    candidates: &[Candidate<RotatedBox2d>],
    keep: &[Kept],
    source_from_network: &Affine2,
    source: Size,
    max_detections: usize,
    out: &mut Vec<Detection2d<RotatedBox2d>>,
) -> GatherCounts {
    let image = rectangle_of(source);
    let mut num_invalid_boxes = 0;
    let detections = survivors(candidates, keep).filter_map(|(candidate, score)| {
        let bbox = source_from_network.apply_rotated(candidate.bbox);
        num_invalid_boxes += usize::from(!bbox.is_finite());
        let is_inside = bbox.is_finite() && image.intersection(&Rectangle::new(&bbox)) > 0.0;
        is_inside.then_some(Detection2d { class: candidate.class, score, bbox })
    });
    let num_over_limit = take(detections, max_detections, out);
    GatherCounts { num_over_limit, num_invalid_boxes }
}

/// An image as a rectangle.
fn rectangle_of(image: Size) -> Rectangle {
    let (width, height) = (image.width as f32, image.height as f32);
    Rectangle::new(&RotatedBox2d {
        cx: width * 0.5,
        cy: height * 0.5,
        width,
        height,
        angle_rad: 0.0,
    })
}

/// Replaces the contents of `out` by the detections, in the frame of the point cloud,
/// and returns how many were over the limit.
///
/// Nothing is allocated if `out` has the capacity for `max_detections`. Indices in
/// `keep` that are out of range are ignored.
pub fn gather_3d(
    candidates: &[Candidate<Object3d>],
    keep: &[Kept],
    max_detections: usize,
    out: &mut Vec<Detection3d>,
) -> usize {
    let detections = survivors(candidates, keep).map(|(candidate, score)| Detection3d {
        class: candidate.class,
        score,
        object: candidate.bbox,
    });
    take(detections, max_detections, out)
}

fn survivors<'a, B>(
    candidates: &'a [Candidate<B>],
    keep: &'a [Kept],
) -> impl Iterator<Item = (&'a Candidate<B>, f32)> {
    keep.iter().filter_map(|kept| Some((candidates.get(kept.index as usize)?, kept.score)))
}

fn take<D>(
    mut detections: impl Iterator<Item = D>,
    max_detections: usize,
    out: &mut Vec<D>,
) -> usize {
    out.clear();
    out.extend(detections.by_ref().take(max_detections));
    detections.count()
}

/// The part of a box inside the image, if it has an area.
fn clipped(bbox: Box2d, image: Size) -> Option<Box2d> {
    let (width, height) = (image.width as f32, image.height as f32);
    let inside = Box2d::new(
        bbox.x1.clamp(0.0, width),
        bbox.y1.clamp(0.0, height),
        bbox.x2.clamp(0.0, width),
        bbox.y2.clamp(0.0, height),
    );
    (inside.x1 < inside.x2 && inside.y1 < inside.y2).then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::{Letterbox, Placement};

    const SOURCE: Size = Size::new(1242, 375);

    fn candidate(bbox: Box2d, class: u32) -> Candidate<Box2d> {
        Candidate { bbox, score: 0.5, class, source: 7 }
    }

    fn kept(indices: &[u32]) -> Vec<Kept> {
        indices.iter().map(|&index| Kept { index, score: 0.9 - 0.1 * index as f32 }).collect()
    }

    fn gather(boxes: &[Box2d], keep: &[u32], max: usize) -> (Vec<Detection2d>, GatherCounts) {
        let candidates: Vec<_> =
            (10..).zip(boxes).map(|(class, &bbox)| candidate(bbox, class)).collect();
        let transform = Affine2 { scale: [2.0, 3.0], offset: [-10.0, -30.0] };
        let mut out = vec![Detection2d { class: 99, score: 9.0, bbox: Box2d::default() }];
        let over = gather_2d(&candidates, &kept(keep), &transform, SOURCE, max, &mut out);
        (out, over)
    }

    #[test]
    fn boxes_are_mapped_and_clipped() {
        // (in the network, in the source image)
        let cases = [
            ((10.0, 20.0, 30.0, 40.0), Some((10.0, 30.0, 50.0, 90.0))),
            ((1.0, 20.0, 30.0, 40.0), Some((0.0, 30.0, 50.0, 90.0))),
            ((10.0, 2.0, 30.0, 400.0), Some((10.0, 0.0, 50.0, 375.0))),
            ((600.0, 20.0, 900.0, 40.0), Some((1190.0, 30.0, 1242.0, 90.0))),
            ((1.0, 20.0, 5.0, 40.0), None),
            ((626.0, 20.0, 700.0, 40.0), None),
            ((10.0, 135.0, 30.0, 140.0), None),
            ((30.0, 20.0, 10.0, 40.0), None),
            ((10.0, f32::NAN, 30.0, 40.0), None),
            ((10.0, 20.0, f32::INFINITY, 40.0), None),
            // Finite in the network, not in the image.
            ((10.0, 20.0, 3e38, 40.0), None),
            ((10.0, -3e38, 30.0, 40.0), None),
        ];
        for ((x1, y1, x2, y2), expected) in cases {
            let (out, over) = gather(&[Box2d::new(x1, y1, x2, y2)], &[0], 5);
            let expected = expected.map(|(x1, y1, x2, y2)| Box2d::new(x1, y1, x2, y2));
            assert_eq!(out.first().map(|d| d.bbox), expected);
            let is_invalid = [x1, y1, x2, y2].iter().any(|v| !v.is_finite() || v.abs() > 1e38);
            let counts =
                GatherCounts { num_over_limit: 0, num_invalid_boxes: usize::from(is_invalid) };
            assert_eq!((out.len(), over), (usize::from(expected.is_some()), counts));
        }
    }

    #[test]
    fn order_is_that_of_keep_and_the_limit_is_counted() {
        let good = Box2d::new(10.0, 20.0, 30.0, 40.0);
        let empty = Box2d::new(10.0, 20.0, 10.0, 40.0);
        let boxes = [good, empty, good, good];
        // (keep, limit, classes, over)
        let cases: [(&[u32], usize, &[u32], usize); 7] = [
            (&[], 3, &[], 0),
            (&[2], 3, &[12], 0),
            (&[3, 0, 2], 3, &[13, 10, 12], 0),
            (&[3, 0, 2], 2, &[13, 10], 1),
            (&[3, 1, 0, 2], 3, &[13, 10, 12], 0),
            (&[3, 0, 1, 2], 2, &[13, 10], 1),
            (&[2, 4, 0], 0, &[], 2),
        ];
        for (keep, max, classes, over) in cases {
            let (out, counts) = gather(&boxes, keep, max);
            assert_eq!(out.iter().map(|d| d.class).collect::<Vec<_>>(), classes, "{keep:?}");
            assert_eq!((counts.num_over_limit, counts.num_invalid_boxes), (over, 0));
            let candidates: Vec<_> = (20..)
                .zip(boxes)
                .map(|(source, bbox)| Candidate { source, ..candidate(bbox, 0) })
                .collect();
            let transform = Affine2 { scale: [2.0, 3.0], offset: [-10.0, -30.0] };
            let mut sources = vec![99];
            sources_2d(&candidates, &kept(keep), &transform, SOURCE, max, &mut sources);
            assert!(sources.iter().map(|source| source - 10).eq(classes.iter().copied()));
            for (detection, index) in out.iter().zip(keep.iter().filter(|&&i| i != 1)) {
                assert_eq!(detection.score, 0.9 - 0.1 * *index as f32);
            }
        }
    }

    #[test]
    fn a_box_survives_the_way_through_a_letterbox() {
        let letterbox = Letterbox::new(SOURCE, Size::new(640, 480), Placement::Center);
        let source = Box2d::new(17.0, 3.5, 900.25, 311.0);
        let candidates = [candidate(letterbox.network_from_source().apply(source), 4)];
        let mut out = Vec::new();
        gather_2d(&candidates, &kept(&[0]), &letterbox.source_from_network(), SOURCE, 1, &mut out);
        let b = out[0].bbox;
        for (a, b) in [(b.x1, source.x1), (b.y1, source.y1), (b.x2, source.x2), (b.y2, source.y2)] {
            assert!((a - b).abs() < 1e-3, "{a} {b}");
        }
    }

    #[test]
    fn rotated_boxes_are_mapped_and_not_clipped() {
        let at =
            |cx, cy, width, height, angle_rad| RotatedBox2d { cx, cy, width, height, angle_rad };
        // (in the network, whether it is a detection); the transform is 2 x + (-10, -30).
        let cases = [
            (at(50.0, 40.0, 20.0, 10.0, 0.3), true),
            (at(5.0, 15.0, 4.0, 4.0, 0.8), true),
            (at(0.0, 40.0, 9.0, 2.0, 0.0), false),
            (at(0.0, 40.0, 11.0, 2.0, 0.0), true),
            (at(0.0, 40.0, 11.0, 2.0, 0.9), false),
            // Its bounds touch the corner of the image, the box does not.
            (at(1.0, 11.0, 20.0, 0.2, 2.4), false),
            (at(50.0, 40.0, 0.0, 10.0, 0.3), false),
            (at(50.0, 40.0, 20.0, -1.0, 0.3), false),
            (at(50.0, 40.0, 20.0, 10.0, f32::NAN), false),
            (at(f32::INFINITY, 40.0, 20.0, 10.0, 0.3), false),
            (at(50.0, 40.0, 3e38, 10.0, 0.3), false),
        ];
        let transform = Affine2 { scale: [2.0; 2], offset: [-10.0, -30.0] };
        for (bbox, is_detection) in cases {
            let candidates = [Candidate { bbox, score: 0.5, class: 3, source: 7 }];
            let mut out = Vec::new();
            let over = gather_rotated(&candidates, &kept(&[0]), &transform, SOURCE, 5, &mut out);
            assert_eq!(
                (out.len(), over.num_over_limit),
                (usize::from(is_detection), 0),
                "{bbox:?}"
            );
            let is_finite = transform.apply_rotated(bbox).is_finite();
            assert_eq!(over.num_invalid_boxes, usize::from(!is_finite), "{bbox:?}");
            if let [found] = out[..] {
                let RotatedBox2d { cx, cy, width, height, angle_rad } = bbox;
                let expected =
                    at(2.0 * cx - 10.0, 2.0 * cy - 30.0, 2.0 * width, 2.0 * height, angle_rad);
                assert_eq!(found, Detection2d { class: 3, score: 0.9, bbox: expected });
            }
        }
        let good = Candidate { bbox: cases[0].0, score: 0.5, class: 3, source: 7 };
        let mut out = Vec::new();
        let keep = kept(&[0, 2, 1]);
        let counts = gather_rotated(&[good; 3], &keep, &transform, SOURCE, 2, &mut out);
        assert_eq!(counts, GatherCounts { num_over_limit: 1, num_invalid_boxes: 0 });
        assert_eq!(out.iter().map(|d| d.score).collect::<Vec<_>>(), [0.9, 0.9 - 0.1 * 2.0]);
    }

    #[test]
    fn a_rotated_box_comes_back_through_a_letterbox() {
        // (source, network); the scales of the second differ by the rounding of 193 rows.
        for (source, network, tolerance) in [
            (Size::new(1280, 960), Size::new(640, 480), 1e-3),
            (Size::new(1242, 375), Size::new(640, 640), 0.5 / 193.0 * 300.0),
        ] {
            let letterbox = Letterbox::new(source, network, Placement::Center);
            let bbox =
                RotatedBox2d { cx: 700.0, cy: 200.0, width: 300.0, height: 60.0, angle_rad: 0.6 };
            let bbox = letterbox.network_from_source().apply_rotated(bbox);
            let back = letterbox.source_from_network().apply_rotated(bbox);
            for (a, b) in
                [(back.cx, 700.0), (back.cy, 200.0), (back.width, 300.0), (back.height, 60.0)]
            {
                assert!((a - b).abs() < 1e-3, "{a} {b}");
            }
            // A network sees the axes scaled apart: what its true box would be.
            let [sx, sy] = letterbox.network_from_source().scale;
            let (sin, cos) = 0.6_f32.sin_cos();
            let seen = 300.0 * (sx * cos).hypot(sy * sin);
            let found = letterbox.source_from_network().mean_scale() * seen;
            assert!((found - 300.0).abs() <= tolerance, "{found}");
        }
    }

    #[test]
    fn objects_in_space_pass_unchanged() {
        let objects = [1.0, 2.0, 3.0]
            .map(|x| Object3d { velocity_mps: Some([x, -x]), ..Object3d::default() });
        let candidates = objects.map(|bbox| Candidate { bbox, score: 0.1, class: 5, source: 1 });
        let mut out = Vec::new();
        assert_eq!(gather_3d(&candidates, &kept(&[2, 0, 1]), 2, &mut out), 1);
        let expected = [(2, 0.7), (0, 0.9)].map(|(i, score): (usize, f32)| (objects[i], score));
        assert_eq!(out.len(), 2);
        for (detection, (object, score)) in out.iter().zip(expected) {
            assert_eq!((detection.class, detection.object), (5, object));
            assert!((detection.score - score).abs() < 1e-6);
        }
    }
}
