//! Where on the surface of a solid a ray arrives.

use nalgebra::Vector3;

/// Where on its surface a solid was hit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    /// The place in the cube.
    pub(super) place: Vector3<f32>,
    /// Which side it is on.
    pub(super) face: Face,
    /// Outward normal in the sensor's frame, of length 1.
    pub(super) normal: Vector3<f32>,
}

/// Sides of a solid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Face {
    /// +x
    Front,
    /// -x
    Back,
    /// +y or -y
    Side,
    /// +z
    Top,
    /// -z
    Bottom,
    /// The curved surface of a cylinder or an ellipsoid.
    Round,
}
