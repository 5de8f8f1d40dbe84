//! The matrices of a rig, in the forms that decoders take.

use nalgebra::Matrix4;

use det_post_types::rounded_rows;

/// The matrices of all cameras for the network's images, in the order of the inputs.
#[derive(Debug)]
pub struct RigMatrices {
    intrinsics: Vec<f32>,
    target_from_image: Vec<f32>,
    image_from_target: Vec<Matrix4<f64>>,
    is_present: Vec<bool>,
    revision: u64,
}

/// The matrices of one camera.
#[derive(Clone, Copy, Debug)]
pub(super) struct ViewMatrices {
    /// The intrinsic matrix of the network's input image.
    pub(super) intrinsics: Matrix4<f64>,
    /// From the target frame to (u·z, v·z, z, 1) in pixels of the network's input image.
    pub(super) image_from_target: Matrix4<f64>,
    /// The inverse of the above.
    pub(super) target_from_image: Matrix4<f64>,
}

impl RigMatrices {
    /// Zeros for a number of cameras, none of which is present.
    pub(super) fn new(num_cameras: usize) -> Self {
        Self {
            intrinsics: vec![0.0; 16 * num_cameras],
            target_from_image: vec![0.0; 16 * num_cameras],
            image_from_target: vec![Matrix4::zeros(); num_cameras],
            is_present: vec![false; num_cameras],
            revision: 0,
        }
    }

    /// Sets whether the frame has an image of a camera.
    pub(super) fn set_present(&mut self, camera: usize, is_present: bool) {
        self.is_present[camera] = is_present;
    }

    /// Takes the matrices of a camera.
    pub(super) fn set(&mut self, camera: usize, matrices: &ViewMatrices) {
        self.image_from_target[camera] = matrices.image_from_target;
        let mut is_changed = false;
        for (target, matrix) in [
            (&mut self.intrinsics, &matrices.intrinsics),
            (&mut self.target_from_image, &matrices.target_from_image),
        ] {
            let target = &mut target[16 * camera..][..16];
            let matrix = rounded_rows(matrix, None);
            is_changed |= target != matrix;
            target.copy_from_slice(&matrix);
        }
        self.revision += u64::from(is_changed);
    }

    /// A number that changes with a value of [`Self::intrinsics`] or [`Self::target_from_image`].
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Intrinsic matrices of the network's images, [N, 4, 4].
    pub fn intrinsics(&self) -> &[f32] {
        &self.intrinsics
    }

    /// Transforms from points of the target frame to (u·z, v·z, z, 1) in pixels of the
    /// network's image, and whether the last frame has an image of the camera.
    pub fn image_from_target(&self) -> impl Iterator<Item = (&Matrix4<f64>, bool)> {
        self.image_from_target.iter().zip(self.is_present.iter().copied())
    }

    /// Transforms from (u·z, v·z, z, 1) in pixels of the network's input image to the target
    /// frame, [N, 4, 4].
    pub fn target_from_image(&self) -> &[f32] {
        &self.target_from_image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_changes_changes_the_revision() {
        let matrices = |x: f64| ViewMatrices {
            intrinsics: Matrix4::identity(),
            image_from_target: Matrix4::identity(),
            target_from_image: Matrix4::identity() * x,
        };
        let mut rig = RigMatrices::new(2);
        let mut revisions = vec![rig.revision()];
        for (camera, x) in [(0, 1.0), (1, 1.0), (0, 1.0), (1, 1.0), (0, 2.0)] {
            rig.set(camera, &matrices(x));
            revisions.push(rig.revision());
        }
        assert_eq!(revisions, [0, 1, 2, 2, 2, 3]);
    }
}
