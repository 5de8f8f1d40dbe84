//! Random numbers that depend only on their position in a stream.
//!
//! SplitMix64 (Steele, Lea and Flood, 2014) has two uses: as a sequence for
//! building the world, and as a hash of counters (seed, sensor, frame, ray) for
//! noise, so that the number of a ray does not depend on earlier ones. Both are a
//! few integer operations, equal on every machine; a new version of a crate
//! might change the drive of a seed.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finaliser: every bit of the output depends on every bit of the
/// input.
#[inline(always)]
pub(super) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The random bits at position `counter` of the stream `key`.
#[inline(always)]
pub(super) fn bits(key: u64, counter: u64) -> u64 {
    mix(key.wrapping_add(counter.wrapping_mul(GOLDEN)))
}

/// The key of the stream of a tuple of numbers.
pub(super) fn key(numbers: &[u64]) -> u64 {
    numbers.iter().fold(GOLDEN, |key, &number| bits(mix(key), number.wrapping_add(1)))
}

/// A number in [0, 1) from the lowest 24 of `bits`.
#[inline(always)]
pub(super) fn unit(bits: u64) -> f32 {
    (bits & 0xff_ffff) as f32 * (1.0 / 16_777_216.0)
}

/// A number of mean 0 and standard deviation 1 from 64 bits: the sum of four
/// uniform ones, bounded by 3.46.
#[inline(always)]
pub(super) fn normal(bits: u64) -> f32 {
    let sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    (sum as f32 - 131_070.0) * (1.732_050_8 / 65_535.0)
}

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The sequence of a stream.
    pub(super) fn new(numbers: &[u64]) -> Self {
        Self(key(numbers))
    }

    /// The next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A number in [low, high).
    pub(super) fn range(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A whole number below `bound`, which is at least 1.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.unit() * bound as f64) as usize
    }

    /// True with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// -1 or 1.
    pub(super) fn sign(&mut self) -> f64 {
        if self.chance(0.5) { -1.0 } else { 1.0 }
    }

    /// One of `items`, of which there is at least one.
    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Shuffles `items` (Fisher and Yates).
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// The floor of a number in the range of `i32`. `f32::floor` is a function call
/// where the baseline of the processor has no rounding instruction.
#[inline(always)]
pub(super) fn floor(x: f32) -> (i32, f32) {
    let toward_zero = x as i32;
    let floor = toward_zero - i32::from(x < toward_zero as f32);
    (floor, floor as f32)
}

/// Value noise over a plane, in [0, 1): random values on the integer lattice,
/// interpolated smoothly.
#[inline]
pub(super) fn noise_2d(key: u32, x: f32, y: f32) -> f32 {
    let ((ix, floor_x), (iy, floor_y)) = (floor(x), floor(y));
    let (fx, fy) = (x - floor_x, y - floor_y);
    let (sx, sy) = (fx * fx * (3.0 - 2.0 * fx), fy * fy * (3.0 - 2.0 * fy));
    let (ix, iy) = (ix as u32, iy as u32);
    let at = |dx: u32, dy: u32| lattice(key, ix.wrapping_add(dx), iy.wrapping_add(dy), 0);
    let bottom = at(0, 0) + (at(1, 0) - at(0, 0)) * sx;
    let top = at(0, 1) + (at(1, 1) - at(0, 1)) * sx;
    bottom + (top - bottom) * sy
}

/// Value noise in space: layers of [`noise_2d`], interpolated linearly along z.
#[inline]
pub(super) fn noise_3d(key: u32, x: f32, y: f32, z: f32) -> f32 {
    let (layer, floor_z) = floor(z);
    let layer = layer as u32;
    let (low, high) = (
        noise_2d(key ^ layer.wrapping_mul(0x9e37_79b9), x, y),
        noise_2d(key ^ layer.wrapping_add(1).wrapping_mul(0x9e37_79b9), x, y),
    );
    low + (high - low) * (z - floor_z)
}

#[inline(always)]
fn lattice(key: u32, x: u32, y: u32, z: u32) -> f32 {
    let mut h = key
        ^ x.wrapping_mul(0x85eb_ca6b)
        ^ y.wrapping_mul(0xc2b2_ae35)
        ^ z.wrapping_mul(0x27d4_eb2f);
    h = (h ^ (h >> 15)).wrapping_mul(0x2c1b_3c6d);
    h = (h ^ (h >> 12)).wrapping_mul(0x297a_2d39);
    h ^= h >> 15;
    (h >> 8) as f32 * (1.0 / 16_777_216.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_mean_and_spread() {
        let n = 100_000_u64;
        let (mut sum, mut squares, mut units) = (0.0, 0.0, 0.0);
        for counter in 0..n {
            let value = f64::from(normal(bits(7, counter)));
            sum += value;
            squares += value * value;
            units += f64::from(unit(bits(8, counter)));
        }
        let n = n as f64;
        assert!((sum / n).abs() < 0.02 && (squares / n - 1.0).abs() < 0.02);
        assert!((units / n - 0.5).abs() < 0.005);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let first = |numbers: &[u64]| Random::new(numbers).next();
        assert_eq!(first(&[1, 2]), first(&[1, 2]));
        let keys = [first(&[1, 2]), first(&[2, 1]), first(&[1]), first(&[1, 2, 0]), first(&[])];
        for (i, a) in keys.iter().enumerate() {
            assert!(keys[..i].iter().all(|b| a != b));
        }
        // The first outputs of SplitMix64 from state 0, as published with it.
        let mut random = Random(0);
        assert_eq!(random.next(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn noise_is_smooth_and_in_range() {
        for i in 0..10_000 {
            let (x, y) = (i as f32 * 0.37 - 900.0, i as f32 * -0.11);
            let value = noise_2d(5, x, y);
            assert!((0.0..1.0).contains(&value));
            assert!((noise_2d(5, x + 1e-3, y) - value).abs() < 0.01);
        }
    }
}
