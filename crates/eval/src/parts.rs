//! What objects and detections in an image have beside their boxes, and how it overlaps.

use det_post_types::{Box2d, ImageBox, Keypoint, Rle};

/// COCO's spreads of the keypoints of persons, relative to the square root of a person's area.
const COCO_SIGMAS: [f64; 17] = [
    0.026, 0.025, 0.025, 0.035, 0.035, 0.079, 0.079, 0.072, 0.072, 0.062, 0.062, 0.107, 0.107,
    0.087, 0.087, 0.089, 0.089,
];

/// The spreads of keypoints: COCO's of persons for 17, else the same of all, one over their number,
/// as ultralytics has it.
pub fn sigmas(num_keypoints: usize) -> Vec<f64> {
    match num_keypoints {
        17 => COCO_SIGMAS.to_vec(),
        num => vec![1.0 / num.max(1) as f64; num],
    }
}

/// The masks and keypoints of one side of a frame, by object or detection. What is beyond the ends of
/// the lists has none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// Masks of whole images.
    pub masks: Vec<Option<Rle>>,
    /// Keypoints in pixels. Of truth, those with a score above 0 are labelled.
    pub keypoints: Vec<Vec<Keypoint>>,
}

impl Parts {
    /// The mask of an object.
    pub fn mask(&self, at: usize) -> Option<&Rle> {
        self.masks.get(at)?.as_ref()
    }

    /// The keypoints of an object.
    pub fn keypoints(&self, at: usize) -> &[Keypoint] {
        self.keypoints.get(at).map_or(&[], Vec::as_slice)
    }

    /// The number of labelled keypoints of an object of the truth.
    pub fn num_labelled(&self, at: usize) -> usize {
        self.keypoints(at).iter().filter(|keypoint| keypoint.score > 0.0).count()
    }
}

/// The parts of a frame.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameParts {
    /// Of its objects.
    pub truth: Parts,
    /// Of its detections.
    pub detections: Parts,
}

impl FrameParts {
    /// The overlap of the masks of a detection and an object: intersection over union, or over
    /// the detection where nothing is asked of the object. 0 without one of the masks, or of images of
    /// other sizes.
    pub(super) fn mask_overlap(&self, detection: usize, truth: usize, is_region: bool) -> f64 {
        let (Some(found), Some(truth)) = (self.detections.mask(detection), self.truth.mask(truth))
        else {
            return 0.0;
        };
        let Ok(both) = found.intersection(truth) else { return 0.0 };
        let whole = if is_region { found.area() } else { found.area() + truth.area() - both };
        if whole == 0 { 0.0 } else { both as f64 / whole as f64 }
    }

    /// COCO's similarity of the keypoints of a detection and an object (OKS): the mean of
    /// `exp(-d² / (2 area (2 sigma)²))` over the labelled keypoints of the object. Of an object without
    /// labelled keypoints the distance is that to its box, enlarged by its size on every side. 0
    /// where the detection has another number of keypoints.
    pub(super) fn keypoint_similarity(
        &self,
        detection: usize,
        (truth, bbox): (usize, &ImageBox),
    ) -> f64 {
        let (found, wanted) = (self.detections.keypoints(detection), self.truth.keypoints(truth));
        let num = found.len();
        if num == 0 || (!wanted.is_empty() && wanted.len() != num) {
            return 0.0;
        }
        let bounds = Bounds::of(bbox);
        let area = self.truth.mask(truth).map_or(bounds.area(), |mask| mask.area() as f64);
        let has_labels = self.truth.num_labelled(truth) > 0;
        let (mut sum, mut num_compared) = (0.0, 0_u32);
        for (at, (point, sigma)) in found.iter().zip(sigmas(num)).enumerate() {
            let [x, y] = [point.x, point.y].map(f64::from);
            let [dx, dy] = match wanted.get(at) {
                Some(label) if has_labels && label.score <= 0.0 => continue,
                Some(label) if has_labels => [x - f64::from(label.x), y - f64::from(label.y)],
                _ => bounds.beyond([x, y]),
            };
            let variance = (2.0 * sigma) * (2.0 * sigma);
            let error = (dx * dx + dy * dy) / variance / (area + f64::EPSILON) / 2.0;
            sum += (-error).exp();
            num_compared += 1;
        }
        if num_compared == 0 { 0.0 } else { sum / f64::from(num_compared) }
    }
}

/// The bounds of a box: left, top, width, height.
struct Bounds([f64; 4]);

impl Bounds {
    fn of(bbox: &ImageBox) -> Self {
        let Box2d { x1, y1, x2, y2 } = bbox.bounds();
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(f64::from);
        Self([x1, y1, x2 - x1, y2 - y1])
    }

    fn area(&self) -> f64 {
        self.0[2] * self.0[3]
    }

    /// How far a point is beyond the bounds enlarged by their size, along x and y.
    fn beyond(&self, point: [f64; 2]) -> [f64; 2] {
        let Self([left, top, width, height]) = *self;
        let along = |value: f64, first: f64, size: f64| {
            (first - size - value).max(0.0) + (value - (first + 2.0 * size)).max(0.0)
        };
        [along(point[0], left, width), along(point[1], top, height)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Size;

    fn point(x: f32, y: f32, score: f32) -> Keypoint {
        Keypoint { x, y, score }
    }

    fn similarity(found: &[Keypoint], wanted: &[Keypoint]) -> f64 {
        let of =
            |points: &[Keypoint]| Parts { masks: Vec::new(), keypoints: vec![points.to_vec()] };
        let parts = FrameParts { truth: of(wanted), detections: of(found) };
        parts.keypoint_similarity(0, (0, &Box2d::new(10.0, 10.0, 20.0, 30.0).into()))
    }

    #[test]
    fn similarity_is_the_mean_over_labelled_keypoints() {
        let wanted = [point(12.0, 12.0, 1.0), point(15.0, 20.0, 2.0)];
        assert_eq!(similarity(&wanted, &wanted), 1.0);
        // Sigma is 1/2 and the area 200: exp(-9 / (1 * 200 * 2)).
        let moved = [point(15.0, 12.0, 0.1), wanted[1]];
        let expected = f64::midpoint((-9.0_f64 / 400.0).exp(), 1.0);
        assert!((similarity(&moved, &wanted) - expected).abs() < 1e-12);
        let one = [point(12.0, 12.0, 0.0), wanted[1]];
        assert_eq!(similarity(&moved, &one), 1.0);
        // Without labels: inside of the box enlarged to (0, -10) to (30, 50).
        let none = [point(0.0, 0.0, 0.0); 2];
        assert_eq!(similarity(&[point(0.0, -10.0, 1.0), point(30.0, 50.0, 1.0)], &none), 1.0);
        assert!(similarity(&[point(33.0, 0.0, 1.0), point(30.0, 50.0, 1.0)], &none) < 1.0);
        assert_eq!(similarity(&wanted, &[]), 1.0);
        assert_eq!(similarity(&[], &wanted), 0.0);
        assert_eq!(similarity(&wanted[..1], &wanted), 0.0);
        assert_eq!(sigmas(17)[16], 0.089);
    }

    #[test]
    fn masks_overlap_by_pixels() {
        let mask = |counts: &[u32]| Some(Rle::new(Size::new(4, 3), counts.to_vec()).unwrap());
        let truth = Parts { masks: vec![mask(&[0, 4, 8]), None], keypoints: Vec::new() };
        let detections = Parts { masks: vec![mask(&[2, 4, 6]), mask(&[12])], ..Parts::default() };
        let parts = FrameParts { truth, detections };
        assert_eq!(parts.mask_overlap(0, 0, false), 2.0 / 6.0);
        assert_eq!(parts.mask_overlap(0, 0, true), 0.5);
        for (detection, truth) in [(1, 0), (0, 1), (0, 2), (2, 0)] {
            assert_eq!(parts.mask_overlap(detection, truth, true), 0.0);
        }
    }
}
