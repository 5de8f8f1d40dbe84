//! The visible pixels of the objects of an image, as a label image.

use crate::RenderedImage;
use det_post_ros::messages::Image;
use det_post_types::{Header, Result, Size};

/// The end of the topic behind that of the truth.
pub(super) const SUFFIX: &str = "/instances";

/// Encodes an image of `mono16`, little-endian: by pixel the position of the visible object among the
/// truth of the image, from 1 on; 0 for none. `labels` is memory.
///
/// # Errors
/// Returns the errors of encoding.
pub(super) fn encode(
    header: &Header<'_>,
    image: &RenderedImage,
    labels: &mut Vec<u8>,
    message: &mut Vec<u8>,
) -> Result<()> {
    let Size { width, height } = image.size;
    labels.clear();
    // Neighbours mostly show the same object.
    let mut last = (0, 0_u16);
    for &id in &image.track_ids {
        if id != last.0 {
            // Ordered by track id.
            let position = image.truth.binary_search_by_key(&id, |truth| truth.track_id);
            last = (id, position.map_or(0, |position| position as u16 + 1));
        }
        labels.extend(last.1.to_le_bytes());
    }
    let image = Image {
        header: *header,
        height,
        width,
        encoding: "mono16",
        is_bigendian: false,
        step: 2 * width,
        data: labels,
    };
    image.encode(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Drive, Options};

    #[test]
    fn labels_are_the_positions_of_the_visible_objects() {
        let options = Options { image_size: Size::new(320, 180), ..Options::default() };
        let drive = Drive::new(3, &options).unwrap();
        let mut image = RenderedImage::default();
        drive.image(0, 5, &mut image);
        let (mut labels, mut message) = (Vec::new(), Vec::new());
        encode(&Header::default(), &image, &mut labels, &mut message).unwrap();
        let decoded = Image::decode(&message).unwrap();
        assert_eq!((decoded.encoding, decoded.width, decoded.height), ("mono16", 320, 180));
        let labels = decoded.data.as_chunks().0.iter().map(|&bytes| u16::from_le_bytes(bytes));
        let mut num_labelled = 0;
        for (label, &id) in labels.zip(&image.track_ids) {
            match label {
                0 => assert!(image.truth.iter().all(|truth| truth.track_id != id)),
                label => {
                    assert_eq!(image.truth[usize::from(label) - 1].track_id, id);
                    num_labelled += 1;
                }
            }
        }
        assert!(num_labelled > 100, "{num_labelled}");
    }
}
