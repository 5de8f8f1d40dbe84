//! Images as canvases, and the names and colours of classes on them.

use super::canvas::Canvas;
use det_post_ops::device::Device;
use det_post_ops::image::decompress::{self, DecodedImage, decompress};
use det_post_ops::image::letterbox::{self, LetterboxParams, letterbox};
use det_post_types::{
    ChannelOrder, ElementType, ImagePayload, ImageView, Normalization, Placement, Resize, Result,
    Size, Tensor, TensorValues,
};

/// An image without detections, at most `max_width` pixels wide, and its own size.
///
/// # Errors
/// Returns the errors of decompressing and converting the image.
pub fn draw_image(payload: &ImagePayload<'_>, max_width: u32) -> Result<(Size, Canvas)> {
    let size = match payload {
        ImagePayload::Raw(image) => image.size(),
        ImagePayload::OnDevice(image) => image.size(),
        ImagePayload::Compressed(file) => decompress::size(file)?,
    };
    let width = size.width.min(max_width);
    let height = u64::from(size.height) * u64::from(width) / u64::from(size.width.max(1));
    let shown = Size::new(width, u32::try_from(height).unwrap_or(u32::MAX).max(1));
    Ok((size, image_canvas(payload, Some(shown))?))
}

/// An image of any supported encoding as a canvas of a size, or of its own. One in the memory of a GPU is copied from
/// there.
pub fn image_canvas(payload: &ImagePayload<'_>, size: Option<Size>) -> Result<Canvas> {
    let (mut decoded, on_host);
    let image = match payload {
        ImagePayload::Raw(image) => *image,
        ImagePayload::OnDevice(image) => {
            on_host = Device::download(image.data())?;
            let (size, encoding) = (image.size(), image.encoding());
            ImageView::new(size, image.step(), encoding, image.is_big_endian(), &on_host)?
        }
        ImagePayload::Compressed(file) => {
            decoded = DecodedImage::new();
            decompress(file, &mut decoded)?;
            decoded.view()?
        }
    };
    let size = size.unwrap_or(image.size());
    let Size { width, height } = size;
    let shape = [1, 3, height as usize, width as usize];
    let mut planes = Tensor::zeros(ElementType::F32, &shape)?;
    let params = LetterboxParams {
        placement: Placement::Stretch,
        channel_order: ChannelOrder::Rgb,
        normalization: Normalization { alpha: [1.0; 3], beta: [0.0; 3] },
        pad_value: 0.0,
        resize: Resize::Bilinear,
    };
    letterbox(&image, &params, &mut letterbox::Workspace::new(), &mut planes)?;

    let mut canvas = Canvas::new(size);
    if let TensorValues::F32(values) = planes.view().values() {
        let num_pixels = shape[2] * shape[3];
        for (pixel, rgb) in canvas.pixels_mut().chunks_exact_mut(3).enumerate() {
            for (plane, value) in rgb.iter_mut().enumerate() {
                *value = values[plane * num_pixels + pixel].round() as u8;
            }
        }
    }
    Ok(canvas)
}

/// A class with its score.
pub fn label(class_names: &[String], class: u32, score: f32) -> String {
    format!("{} {score:.2}", class_name(class_names, class))
}

/// The name of a class.
pub fn class_name(class_names: &[String], class: u32) -> &str {
    class_names.get(class as usize).map_or("?", String::as_str)
}
