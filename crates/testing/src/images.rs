//! Images as they are received, in every encoding, and the comparison of images.

use det_post_types::{Encoding, ImageView, Size, Tensor};

use super::random::Random;

pub const ENCODINGS: [Encoding; 14] = [
    Encoding::Rgb8,
    Encoding::Bgr8,
    Encoding::Rgba8,
    Encoding::Bgra8,
    Encoding::Mono8,
    Encoding::Mono16,
    Encoding::Uyvy,
    Encoding::Yuy2,
    Encoding::Nv12,
    Encoding::Nv21,
    Encoding::BayerRggb8,
    Encoding::BayerBggr8,
    Encoding::BayerGbrg8,
    Encoding::BayerGrbg8,
];

/// A size that the encoding can have: even where its pixels share colours.
pub fn possible(encoding: Encoding, (width, height): (u32, u32)) -> Size {
    match encoding {
        Encoding::Uyvy | Encoding::Yuy2 | Encoding::Nv12 | Encoding::Nv21 => {
            Size::new(width & !1, height & !1)
        }
        _ => Size::new(width, height),
    }
}

/// An image that owns its bytes.
pub struct RandomImage {
    size: Size,
    step: usize,
    encoding: Encoding,
    big_endian: bool,
    data: Vec<u8>,
}

impl RandomImage {
    /// Random pixels, with up to 14 bytes of padding a row.
    pub fn new(random: &mut Random, size: Size, encoding: Encoding) -> Self {
        let row_bytes = encoding.row_bytes(size.width);
        let step = row_bytes + random.below(3) * 7;
        let mut data = random.bytes(step * (encoding.num_rows(size.height) - 1) + row_bytes);
        // Runs of the extremes, where conversions clamp.
        for value in data.iter_mut().step_by(5) {
            *value = if *value < 128 { 0 } else { 255 };
        }
        Self { size, step, encoding, big_endian: random.below(2) == 1, data }
    }

    pub fn view(&self) -> ImageView<'_> {
        ImageView::new(self.size, self.step, self.encoding, self.big_endian, &self.data).unwrap()
    }
}

/// Fails when two tensors differ in any bit.
pub fn assert_equal(found: &Tensor, expected: &Tensor, context: &str) {
    let (found, expected) = (bits(found), bits(expected));
    let different = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
    let first = found.iter().zip(&expected).position(|(a, b)| a != b);
    assert!(
        different == 0 && found.len() == expected.len(),
        "{context}: {different} of {} differ, first at {first:?}: {:x?} {:x?}",
        found.len(),
        first.map(|i| found[i]),
        first.map(|i| expected[i]),
    );
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    match tensor {
        Tensor::F32 { values, .. } => values.iter().map(|v| v.to_bits()).collect(),
        Tensor::F16 { values, .. } => values.iter().map(|v| u32::from(v.to_bits())).collect(),
    }
}
