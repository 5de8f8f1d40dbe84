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
