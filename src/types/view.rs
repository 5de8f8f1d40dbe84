//! How pictures of a camera become inputs of a network.

/// How pixels of a camera become pixels of a resized picture in the intrinsic matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelConvention {
    /// `scale * u - left`, as the trainers of view decoders: half a pixel of the resize is
    /// neglected.
    Trainer,
    /// `scale * (u + 0.5) - 0.5 - left`: where the resize puts the pixel.
    Exact,
}

/// Whether pictures are undistorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undistort {
    /// Where the calibration has distortion coefficients.
    Auto,
    /// Never.
    Never,
}
