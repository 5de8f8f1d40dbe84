//! Levels of one, two or three axes: the kernels have three, of which the first ones are of one
//! cell.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Numbers of axes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Axes(usize);

/// A number for all axes, or one per axis.
#[derive(FromPyObject)]
pub enum PerAxis {
    /// For all axes.
    One(u32),
    /// Per axis.
    Each(Vec<u32>),
}

impl Axes {
    /// So many axes; `None` unless there are 1 to 3.
    pub fn new(num: usize) -> Option<Self> {
        (1..=3).contains(&num).then_some(Self(num))
    }

    /// The axes of a grid, and its shape along three.
    ///
    /// # Errors
    /// `ValueError` unless there are 1 to 3.
    pub fn of_shape(shape: &[u32]) -> PyResult<(Self, [u32; 3])> {
        let axes = Self::new(shape.len()).ok_or_else(|| {
            let num = shape.len();
            PyValueError::new_err(format!("shape has {num} axes: 1 to 3 are required"))
        })?;
        Ok((axes, axes.lifted(shape.iter().copied(), 1)))
    }

    /// Their number.
    pub fn num(self) -> usize {
        self.0
    }

    /// Where they are among three.
    pub fn first(self) -> usize {
        3 - self.0
    }

    /// Values along three axes, `rest` along those that are not there.
    pub fn lifted<T: Copy>(self, values: impl IntoIterator<Item = T>, rest: T) -> [T; 3] {
        let mut lifted = [rest; 3];
        lifted[self.first()..].iter_mut().zip(values).for_each(|(to, value)| *to = value);
        lifted
    }

    /// An argument per axis, `rest` along the axes that are not there.
    ///
    /// # Errors
    /// `ValueError` when it has another number of values.
    pub fn per_axis(self, name: &str, value: PerAxis, rest: u32) -> PyResult<[u32; 3]> {
        match value {
            PerAxis::One(value) => Ok(self.lifted([value; 3], rest)),
            PerAxis::Each(values) if values.len() == self.0 => Ok(self.lifted(values, rest)),
            PerAxis::Each(values) => Err(PyValueError::new_err(format!(
                "{name} is {values:?}: a number, or one for each of the {} axes of the sites, is \
                 required",
                self.0
            ))),
        }
    }
}
