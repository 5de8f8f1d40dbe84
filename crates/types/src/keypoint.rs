//! Keypoints of detections.

/// A keypoint in an image, in pixels of the source image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Keypoint {
    /// Column, from 0 to the width of the image.
    pub x: f32,
    /// Row, from 0 to its height.
    pub y: f32,
    /// Its score, 0 to 1 as the network gives it; 1 where it gives none, 0 where the network's
    /// numbers are not finite.
    pub score: f32,
}

/// Where a network writes the keypoints of a row, beside box and scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeypointRows {
    /// Keypoints of a row.
    pub num_keypoints: usize,
    /// Numbers of a keypoint: x and y in pixels of the network's input, and where there are three
    /// a score after its sigmoid.
    pub num_values: usize,
    /// The column of the first number.
    pub first: usize,
    /// Whether the tensor is `[1, columns, N]`, not `[1, N, columns]`.
    pub is_planes: bool,
}

impl KeypointRows {
    /// Of ultralytics' `[1, 4 + C + K * D, N]` (YOLOv8-pose and later).
    pub const fn of_planes(num_classes: usize, num_keypoints: usize, num_values: usize) -> Self {
        Self { num_keypoints, num_values, first: 4 + num_classes, is_planes: true }
    }

    /// Of ultralytics' final rows `[1, N, 6 + K * D]` (YOLO26-pose).
    pub const fn of_final_rows(num_keypoints: usize, num_values: usize) -> Self {
        Self { num_keypoints, num_values, first: 6, is_planes: false }
    }

    /// The number of columns that the tensor has.
    pub const fn num_columns(&self) -> usize {
        self.first + self.num_keypoints * self.num_values
    }
}

/// The keypoints of the detections of a frame, in their order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Keypoints<'a> {
    /// Keypoints of a detection.
    pub num_per_detection: usize,
    /// Detection by detection, each in the network's order.
    pub all: &'a [Keypoint],
}

impl<'a> Keypoints<'a> {
    /// The keypoints of a detection; none of one that there is not.
    pub fn of(&self, detection: usize) -> &'a [Keypoint] {
        let first = detection.saturating_mul(self.num_per_detection);
        let last = first.saturating_add(self.num_per_detection);
        self.all.get(first..last).unwrap_or_default()
    }
}

/// The bones of the 17 keypoints of COCO's persons, by the positions of their ends: legs, hips,
/// trunk, shoulders, arms, face.
const COCO_BONES: [[usize; 2]; 18] = [
    [15, 13],
    [13, 11],
    [16, 14],
    [14, 12],
    [11, 12],
    [5, 11],
    [6, 12],
    [5, 6],
    [5, 7],
    [7, 9],
    [6, 8],
    [8, 10],
    [0, 1],
    [0, 2],
    [1, 3],
    [2, 4],
    [3, 5],
    [4, 6],
];

/// The lines to draw between keypoints, by the positions of their ends: the bones of COCO's persons for
/// 17 keypoints, none for other numbers, whose meaning is not known.
pub const fn bones(num_keypoints: usize) -> &'static [[usize; 2]] {
    if num_keypoints == 17 { &COCO_BONES } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keypoints_are_by_detection() {
        let all: Vec<Keypoint> =
            (0..6).map(|x| Keypoint { x: x as f32, y: 0.0, score: 1.0 }).collect();
        let keypoints = Keypoints { num_per_detection: 3, all: &all };
        assert_eq!(keypoints.of(1), &all[3..]);
        assert!(keypoints.of(2).is_empty() && keypoints.of(usize::MAX).is_empty());
        assert!(bones(17).iter().flatten().all(|&end| end < 17) && bones(16).is_empty());
    }
}
