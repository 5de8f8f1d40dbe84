//! Points on the surface of a solid.

use nalgebra::Vector3;

/// The point of a solid that a ray hits.
#[derive(Clone, Copy, Debug)]
pub(super) struct SurfacePoint {
    /// The position in the cube.
    pub(super) position: Vector3<f32>,
    /// The side of the solid.
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
