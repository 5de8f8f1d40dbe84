//! Masks as arrays.

use det_post_types::Masks;

/// Number, rows and columns of masks, and their pixels: 1 inside.
pub fn pixels_of(masks: &Masks<'_>) -> ([usize; 3], Vec<u8>) {
    let [height, width] = [masks.image.height, masks.image.width].map(|side| side as usize);
    let num = masks.windows.len();
    let mut pixels = vec![0; num * height * width];
    for (index, pixels) in pixels.chunks_exact_mut((height * width).max(1)).enumerate() {
        if let Some(mask) = masks.get(index) {
            mask.for_each(|x, y| pixels[y as usize * width + x as usize] = 1);
        }
    }
    ([num, height, width], pixels)
}
