//! From linear light to the bytes of an image: tone mapping, the blur of the
//! lens, the noise of the sensor.

use multiversion::multiversion;

/// Maps linear light to display values in [0, 1]: a filmic curve, then gamma 2.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn tone_map(values: &mut [f32], exposure: f32) {
    for value in values {
        let light = *value * exposure;
        let level = light * (0.7 + light) / (0.62 + light * (0.35 + light));
        *value = if level < 1.0 { level } else { 1.0 }.sqrt();
    }
}

/// Quantises a row to 8 bits after blurring it with its four neighbours and
/// adding noise. The first and the last pixel are blurred vertically only.
#[multiversion(targets("x86_64+avx2"))]
pub(super) fn read_out([above, here, below]: [&[f32]; 3], key: u64, out: &mut [u8]) {
    let len = out.len();
    let (above, here, below) = (&above[..len], &here[..len], &below[..len]);
    let key = key as u32;
    for i in 0..3 {
        let (first, last) = (i, len - 3 + i);
        for i in [first, last] {
            out[i] = level(here[i], above[i] + below[i] + 2.0 * here[i], i as u32, key);
        }
    }
    let (left, right) = (&here[..len - 6], &here[6..]);
    let (above, here, below) = (&above[3..len - 3], &here[3..len - 3], &below[3..len - 3]);
    for (i, out) in out[3..len - 3].iter_mut().enumerate() {
        let around = above[i] + below[i] + left[i] + right[i];
        *out = level(here[i], around, i as u32 + 3, key);
    }
}

#[inline(always)]
fn level(here: f32, around: f32, position: u32, key: u32) -> u8 {
    let value = 0.6 * here + 0.1 * around;
    // The sum of two uniform numbers has a triangular distribution.
    let mut noise = position.wrapping_mul(0x9e37_79b9) ^ key;
    noise = (noise ^ (noise >> 16)).wrapping_mul(0x21f0_aaad);
    noise = (noise ^ (noise >> 15)).wrapping_mul(0x735a_2d97);
    noise ^= noise >> 15;
    let grain = ((noise & 0x3ff) + (noise >> 10 & 0x3ff)) as i32 - 1023;
    let level = 255.0 * value + grain as f32 * (0.0035 + 0.002 * value) + 0.5;
    let level = if level > 0.0 { level } else { 0.0 };
    (if level < 255.0 { level } else { 255.0 }) as i32 as u8
}
