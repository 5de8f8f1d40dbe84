//! Arguments that several operations take.

use dlpark::ffi::DLDataType;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A number for all classes, or one per class.
#[derive(FromPyObject)]
pub enum Thresholds {
    /// For all classes.
    One(f32),
    /// Per class.
    PerClass(Vec<f32>),
}

impl From<Thresholds> for Vec<f32> {
    fn from(thresholds: Thresholds) -> Self {
        match thresholds {
            Thresholds::One(threshold) => vec![threshold],
            Thresholds::PerClass(thresholds) => thresholds,
        }
    }
}

/// The value of a name among choices.
///
/// # Errors
/// `ValueError` with the choices.
pub fn one_of<T: Copy>(name: &str, found: &str, choices: &[(&str, T)]) -> PyResult<T> {
    choices.iter().find(|(choice, _)| *choice == found).map(|(_, value)| *value).ok_or_else(|| {
        let choices: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
        PyValueError::new_err(format!(
            "{name} must be one of {}, found {found:?}",
            choices.join(", ")
        ))
    })
}

/// A matrix as rows; a further row or column is left out.
///
/// # Errors
/// `ValueError` for another size.
pub fn matrix<const ROWS: usize, const COLUMNS: usize>(
    name: &str,
    rows: &[Vec<f64>],
) -> PyResult<[[f64; COLUMNS]; ROWS]> {
    let mut found = [[0.0; COLUMNS]; ROWS];
    let fits = (ROWS..=ROWS + 1).contains(&rows.len())
        && rows.iter().all(|row| (COLUMNS..=COLUMNS + 1).contains(&row.len()));
    if !fits {
        let sides = (rows.len(), rows.first().map_or(0, Vec::len));
        let message = format!("{name} has a matrix of {sides:?}; {ROWS} by {COLUMNS} are required");
        return Err(PyValueError::new_err(message));
    }
    for (to, from) in found.iter_mut().zip(rows) {
        to.copy_from_slice(&from[..COLUMNS]);
    }
    Ok(found)
}

/// The name of an element type in numpy and torch.
pub fn dtype_name(dtype: DLDataType) -> String {
    use dlpark::ffi::DLDataTypeCode as Code;
    let kind = match dtype.code {
        Code::INT => "int",
        Code::UINT => "uint",
        Code::FLOAT => "float",
        Code::BFLOAT => "bfloat",
        Code::COMPLEX => "complex",
        Code::BOOL => return "bool".into(),
        code => return format!("type {code:?} of {} bits", dtype.bits),
    };
    format!("{kind}{}", dtype.bits)
}
