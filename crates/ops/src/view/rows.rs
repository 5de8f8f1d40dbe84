//! Rows of matrices: what the operations of transformer networks read and write.

use std::ops::{Deref, Range};

use det_post_types::{Error, ErrorKind, Result};

/// A range of the columns of a row-major matrix, in a slice `V` that is read ([`Rows`]) or
/// written ([`RowsMut`]).
#[derive(Clone, Copy, Debug)]
pub struct Columns<V> {
    values: V,
    num_matrix_columns: usize,
    first_column: usize,
    num_columns: usize,
}

/// Columns to be read.
pub type Rows<'a> = Columns<&'a [f32]>;
/// Columns to be written.
pub type RowsMut<'a> = Columns<&'a mut [f32]>;

impl<V: Deref<Target = [f32]>> Columns<V> {
    /// All columns of a matrix of `num_columns`, which is at least 1.
    pub fn new(values: V, num_columns: usize) -> Self {
        Self { values, num_matrix_columns: num_columns.max(1), first_column: 0, num_columns }
    }

    /// A range of these columns, cut to those there are.
    pub fn columns(self, range: Range<usize>) -> Self {
        let end = range.end.min(self.num_columns);
        let start = range.start.min(end);
        Self { first_column: self.first_column + start, num_columns: end - start, ..self }
    }

    /// Rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.num_matrix_columns
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Columns of the range.
    pub fn num_columns(&self) -> usize {
        self.num_columns
    }

    fn range(&self, row: usize) -> Range<usize> {
        let start = row * self.num_matrix_columns + self.first_column;
        start..start + self.num_columns
    }

    /// Refuses values that are not `expected` rows of whole matrix rows.
    pub(crate) fn check(
        &self,
        op: &'static str,
        name: &str,
        [num_rows, expected_columns]: [usize; 2],
    ) -> Result<()> {
        let Self { num_matrix_columns, num_columns, .. } = *self;
        let len = self.values.len();
        let has_rows = Some(len) == num_rows.checked_mul(num_matrix_columns);
        if has_rows && num_columns == expected_columns {
            return Ok(());
        }
        let message = format!(
            "{name} has {num_columns} columns of {len} values in rows of {num_matrix_columns}; \
             {num_rows} rows of {expected_columns} columns expected"
        );
        Err(Error::new(ErrorKind::Argument, op, message))
    }
}

impl<'a> Rows<'a> {
    /// One row.
    #[inline]
    pub fn row(&self, index: usize) -> &'a [f32] {
        &self.values[self.range(index)]
    }
}

impl RowsMut<'_> {
    /// One row.
    #[inline]
    pub fn row(&mut self, index: usize) -> &mut [f32] {
        let range = self.range(index);
        &mut self.values[range]
    }
}

/// A part of the rows that an operation reads.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// Rows as they are.
    Of(Rows<'a>),
    /// The sum of two, rounded once a value.
    Sum(Rows<'a>, Rows<'a>),
}

impl Part<'_> {
    /// Columns.
    pub fn num_columns(&self) -> usize {
        match self {
            Self::Of(rows) | Self::Sum(rows, _) => rows.num_columns(),
        }
    }

    pub(crate) fn check(&self, op: &'static str, num_rows: usize) -> Result<()> {
        let expected = [num_rows, self.num_columns()];
        match self {
            Self::Of(rows) => rows.check(op, "input", expected),
            Self::Sum(a, b) => {
                a.check(op, "input", expected)?;
                b.check(op, "second term of the input", expected)
            }
        }
    }

    /// Appends a row to `out`.
    pub(crate) fn extend(&self, row: usize, out: &mut Vec<f32>) {
        match self {
            Self::Of(rows) => out.extend_from_slice(rows.row(row)),
            Self::Sum(a, b) => out.extend(a.row(row).iter().zip(b.row(row)).map(|(a, b)| a + b)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_columns() {
        let values: Vec<f32> = (0_u8..12).map(f32::from).collect();
        let rows = Rows::new(&values, 4);
        assert_eq!((rows.len(), rows.num_columns()), (3, 4));
        let middle = rows.columns(1..3);
        assert_eq!(middle.row(2), [9.0, 10.0]);
        assert_eq!(middle.columns(1..9).row(0), [2.0]);
        assert!(middle.check("op", "x", [3, 2]).is_ok());
        let error = middle.check("op", "x", [2, 2]).unwrap_err();
        assert_eq!(
            error.message(),
            "x has 2 columns of 12 values in rows of 4; 2 rows of 2 columns expected"
        );
        let mut out = Vec::new();
        Part::Sum(middle, rows.columns(0..2)).extend(1, &mut out);
        assert_eq!(out, [9.0, 11.0]);
    }
}
