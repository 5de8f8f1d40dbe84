//! Label images: for each pixel of the source image, the instance or the class that it belongs to.

use det_post_ros::messages::Image;
use det_post_types::{Detection2d, Header, Masks, Result, Size};

/// What the pixels of a label image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelImage {
    /// `mono16`: the position of the detection in its message, from 1; 0 outside of all masks, and
    /// of positions beyond 65535.
    Instances,
    /// `mono8`: the class, from 1; 0 outside of all masks, 255 for classes beyond 254.
    Classes,
}

impl LabelImage {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Instances, Self::Classes];

    /// The name of its topic, below the detections.
    pub const fn topic(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::Classes => "classes",
        }
    }

    /// Encodes a label image as a message, replacing the content of `message`. Where masks overlap,
    /// the better detection holds. `pixels` is scratch memory.
    ///
    /// # Errors
    /// `Message` when the message exceeds 4 GiB.
    pub fn encode(
        self,
        header: &Header<'_>,
        detections: &[Detection2d],
        masks: &Masks<'_>,
        pixels: &mut Vec<u8>,
        message: &mut Vec<u8>,
    ) -> Result<()> {
        let Size { width, height } = masks.image;
        let (encoding, num_bytes) = match self {
            Self::Instances => ("mono16", 2),
            Self::Classes => ("mono8", 1),
        };
        pixels.clear();
        pixels.resize(width as usize * height as usize * num_bytes, 0);
        for (index, detection) in detections.iter().enumerate().rev() {
            let Some(mask) = masks.get(index) else { continue };
            let value = match self {
                Self::Instances => u16::try_from(index + 1).unwrap_or(0),
                Self::Classes => (detection.class.saturating_add(1)).min(255) as u16,
            };
            let bytes = value.to_le_bytes();
            mask.for_each(|x, y| {
                let pixel = (y as usize * width as usize + x as usize) * num_bytes;
                if let Some(pixel) = pixels.get_mut(pixel..pixel + num_bytes) {
                    pixel.copy_from_slice(&bytes[..num_bytes]);
                }
            });
        }
        let step = width * num_bytes as u32;
        let is_bigendian = false;
        Image { header: *header, height, width, encoding, is_bigendian, step, data: pixels }
            .encode(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::{Box2d, MaskWindow};

    #[test]
    fn the_better_detection_holds() {
        let window = |left, top, width, height, first_word| MaskWindow {
            left,
            top,
            width,
            height,
            first_word,
        };
        // Two masks, and a third beyond the capacity.
        let windows = [window(1, 0, 2, 2, 0), window(0, 1, 3, 1, 2)];
        let words = [0b10, 0b11, 0b111];
        let masks = Masks { image: Size::new(4, 3), windows: &windows, words: &words };
        let detections =
            [300, 4, 7].map(|class| Detection2d { class, score: 0.5, bbox: Box2d::default() });
        let (mut pixels, mut message) = (Vec::new(), Vec::new());
        let mut encode = |image: LabelImage| {
            let header = Header::default();
            image.encode(&header, &detections, &masks, &mut pixels, &mut message).unwrap();
            let image = Image::decode(&message).unwrap();
            assert_eq!((image.width, image.height), (4, 3));
            (image.encoding.to_owned(), image.step, image.data.to_vec())
        };
        let instances: [u16; 12] = [0, 0, 1, 0, 2, 1, 1, 0, 0, 0, 0, 0];
        let bytes = instances.iter().flat_map(|id| id.to_le_bytes()).collect();
        assert_eq!(encode(LabelImage::Instances), ("mono16".to_owned(), 8, bytes));
        let classes = vec![0, 0, 255, 0, 5, 255, 255, 0, 0, 0, 0, 0];
        assert_eq!(encode(LabelImage::Classes), ("mono8".to_owned(), 4, classes));
    }
}
