//! The rows with the largest values, in falling order.
//!
//! Order: value descending by [`f32::total_cmp`], then the lower row; NaN of either
//! sign comes after every number. Rows beyond the number asked for are not written.
//! Values are compared and never changed: results are equal on every device.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use det_post_types::{Error, ErrorKind, Result};

/// Writes the indices of the rows with the largest of `values`, as many as `rows` has.
///
/// `order` is memory for as many indices as there are values.
///
/// # Errors
/// `Argument` when more rows are asked for than there are.
pub fn top_rows(values: &[f32], order: &mut Vec<u32>, rows: &mut [u32]) -> Result<()> {
    if rows.len() > values.len() {
        let message = format!("{} rows of {}", rows.len(), values.len());
        return Err(Error::new(ErrorKind::Argument, "top_rows", message));
    }
    let value = |row: u32| match values[row as usize] {
        value if value.is_nan() => f32::NEG_INFINITY,
        value => value,
    };
    let is_nan = |row: u32| values[row as usize].is_nan();
    order.clear();
    order.extend((0..).take(values.len()));
    order.sort_unstable_by(|&a, &b| {
        let by_value = is_nan(a).cmp(&is_nan(b)).then(value(b).total_cmp(&value(a)));
        by_value.then(a.cmp(&b))
    });
    rows.copy_from_slice(&order[..rows.len()]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn top<const N: usize>(values: &[f32]) -> [u32; N] {
        let mut rows = [u32::MAX; N];
        top_rows(values, &mut Vec::new(), &mut rows).unwrap();
        rows
    }

    #[test]
    fn a_table_of_cases() {
        assert_eq!(top(&[]), [0; 0]);
        assert_eq!(top(&[1.0, 2.0]), [0; 0]);
        assert_eq!(top(&[1.0, 3.0, 2.0]), [1]);
        assert_eq!(top(&[1.0, 3.0, 2.0]), [1, 2, 0]);
        assert_eq!(top(&[2.0, 3.0, 2.0, 3.0, 2.0]), [1, 3, 0, 2], "ties by row");
        assert_eq!(top(&[-0.0, 0.0]), [1, 0]);
        let values = [f32::NAN, -1.0, f32::NEG_INFINITY, -f32::NAN, f32::INFINITY];
        assert_eq!(top(&values), [4, 1, 2, 0, 3], "NaN last");
        assert!(top_rows(&[1.0], &mut Vec::new(), &mut [0; 2]).is_err());
    }

    proptest! {
        #[test]
        fn equals_repeated_maxima(
            values in prop::collection::vec((0_u8..9).prop_map(f32::from), 0..60), len in 0_usize..60,
        ) {
            let len = len.min(values.len());
            let mut rows = vec![0; len];
            top_rows(&values, &mut Vec::new(), &mut rows).unwrap();
            let mut left: Vec<usize> = (0..values.len()).collect();
            for row in rows {
                let best = left.iter().map(|&row| values[row]).fold(f32::MIN, f32::max);
                let place = left.iter().position(|&row| values[row] == best).unwrap();
                prop_assert_eq!(left.remove(place), row as usize);
            }
        }
    }
}
