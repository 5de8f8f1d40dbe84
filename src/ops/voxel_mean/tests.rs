use super::*;

#[test]
fn tanh_is_within_one_unit_of_the_last_place() {
    let mut largest = 0;
    for bits in (0..0x4180_0000_u32).step_by(97) {
        let value = f32::from_bits(bits);
        let exact = f64::from(value).tanh() as f32;
        largest = largest.max(tanh(value).to_bits().abs_diff(exact.to_bits()));
        assert_eq!(tanh(-value).to_bits(), (-tanh(value)).to_bits(), "{value}");
    }
    assert!(largest <= 1, "{largest} units");
    assert_eq!([tanh(f32::INFINITY), tanh(f32::NEG_INFINITY), tanh(255.0)], [1.0, -1.0, 1.0]);
    assert!(tanh(f32::NAN).is_nan());
}
