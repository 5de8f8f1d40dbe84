//! What transforms and names of frames must be.

use det_post_types::{Error, ErrorKind, Result};
use nalgebra::{Isometry3, Quaternion, UnitQuaternion, Vector3};

/// The longest name of a frame.
pub const MAX_FRAME_ID_LEN: usize = 256;

/// Maximum difference of the squared norm of a rotation from 1, as in tf2.
const NORM_TOLERANCE: f64 = 0.01;

const STAGE: &str = "tf";
pub(super) fn error(message: String) -> Error {
    Error::new(ErrorKind::Transform, STAGE, message)
}

/// The isometry of a translation and a quaternion x, y, z, w, which is
/// normalised.
///
/// # Errors
/// `Transform` when a value is not finite or the squared norm of the
/// quaternion differs from 1 by more than 0.01 (often it is zero).
pub fn isometry(translation: [f64; 3], rotation: [f64; 4]) -> Result<Isometry3<f64>> {
    let [x, y, z, w] = rotation;
    let (translation, rotation) = (Vector3::from(translation), Quaternion::new(w, x, y, z));
    check_motion(&translation, &rotation)?;
    Ok(Isometry3::from_parts(translation.into(), UnitQuaternion::new_normalize(rotation)))
}

pub(super) fn check_motion(translation: &Vector3<f64>, rotation: &Quaternion<f64>) -> Result<()> {
    let [x, y, z] = translation.as_ref();
    let [i, j, k, w] = rotation.coords.as_ref();
    if ![x, y, z, i, j, k, w].iter().all(|value| value.is_finite()) {
        return Err(error(format!(
            "translation [{x}, {y}, {z}] and rotation [{i}, {j}, {k}, {w}] must be finite"
        )));
    }
    let norm_squared = rotation.norm_squared();
    if (norm_squared - 1.0).abs() > NORM_TOLERANCE {
        return Err(error(format!(
            "rotation [{i}, {j}, {k}, {w}] has squared norm {norm_squared}; it must be 1 within \
             {NORM_TOLERANCE}"
        )));
    }
    Ok(())
}

pub(super) fn strip(name: &str) -> &str {
    name.strip_prefix('/').unwrap_or(name)
}

pub(super) fn check_name(name: &str) -> Result<()> {
    match name.len() {
        1..=MAX_FRAME_ID_LEN => Ok(()),
        0 => Err(error("a frame has an empty name".into())),
        len => Err(error(format!(
            "a frame's name of {len} bytes exceeds the limit of {MAX_FRAME_ID_LEN}"
        ))),
    }
}
