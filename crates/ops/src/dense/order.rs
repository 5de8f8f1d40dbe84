//! The order of values in `arg_max` and `top_k`.

/// A word that grows with a value; zeros are equal, NaN is below all: `ascending` in
/// `kernels/dense/order.cuh`.
pub(super) fn ascending(value: f32) -> u32 {
    if value.is_nan() {
        return 0;
    }
    let bits = (value + 0.0).to_bits();
    if bits >> 31 != 0 { !bits } else { bits | 0x8000_0000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_grow_with_values() {
        let values =
            [f32::NAN, f32::NEG_INFINITY, f32::MIN, -1.0, -1e-45, 0.0, 1e-45, 1.0, f32::INFINITY];
        for pair in values.windows(2) {
            assert!(ascending(pair[0]) < ascending(pair[1]), "{pair:?}");
        }
        assert_eq!(ascending(-0.0), ascending(0.0));
        assert_eq!(ascending(-f32::NAN), 0);
    }
}
