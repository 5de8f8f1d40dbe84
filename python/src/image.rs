//! Images to the inputs of networks.

use det_post::ops::letterbox::{LetterboxParams, Workspace, letterbox as resize};
use det_post::types::{
    ChannelOrder, ElementType, Encoding, ImageView, Normalization, Placement, Size, Tensor,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::array::{Input, Output};
use crate::error::raised;

/// An image as the view of a message: rows without gaps, of the encoding's layout.
///
/// # Errors
/// `ValueError` when the shape is not that of the encoding.
pub fn view(image: &Input, encoding: Encoding) -> PyResult<ImageView<'_>> {
    let (channels, expected) = match encoding {
        Encoding::Rgb8 | Encoding::Bgr8 => (3, "uint8 [H, W, 3]"),
        Encoding::Rgba8 | Encoding::Bgra8 => (4, "uint8 [H, W, 4]"),
        Encoding::Uyvy | Encoding::Yuy2 => (2, "uint8 [H, W, 2]"),
        Encoding::Nv12 | Encoding::Nv21 => (1, "uint8 [H * 3 / 2, W]"),
        Encoding::Mono16 => (1, "uint16 [H, W]"),
        _ => (1, "uint8 [H, W]"),
    };
    let element_bytes = if encoding == Encoding::Mono16 { 2 } else { 1 };
    let has_type = if element_bytes == 2 { image.is::<u16>() } else { image.is::<u8>() };
    let [rows, width] = match *image.shape() {
        [rows, width] if channels == 1 => [rows, width],
        [rows, width, found] if found == channels => [rows, width],
        _ => [0, 0],
    };
    if !has_type || rows == 0 || width == 0 {
        return Err(image.refuse(&format!("{expected} is needed for {}", encoding.to_ros())));
    }
    let height = match encoding {
        Encoding::Nv12 | Encoding::Nv21 => rows / 3 * 2,
        _ => rows,
    };
    let side = |side| u32::try_from(side).unwrap_or(u32::MAX);
    let size = Size::new(side(width), side(height));
    let is_big_endian = cfg!(target_endian = "big");
    let data = image.bytes()?;
    ImageView::new(size, width * channels * element_bytes, encoding, is_big_endian, data)
        .map_err(|error| raised(&error))
}

fn one_of<T: Copy>(name: &str, found: &str, choices: &[(&str, T)]) -> PyResult<T> {
    choices.iter().find(|(choice, _)| *choice == found).map(|(_, value)| *value).ok_or_else(|| {
        let choices: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
        PyValueError::new_err(format!("{name} is {found:?}; {} are possible", choices.join(", ")))
    })
}

/// Resizes and normalises an image to a network's input, in one pass.
///
/// image: uint8 [H, W, 3] of encoding rgb8 or bgr8, [H, W, 4] of rgba8 or bgra8, [H, W] of mono8
/// or a Bayer pattern, [H, W, 2] of uyvy or yuyv, [H * 3 / 2, W] of nv12 or nv21; uint16 [H, W] of
/// mono16. size: height and width of the input. placement: center (YOLOv5 and later), top_left
/// (YOLOX), stretch, crop_top. channel_order: rgb or bgr, of the planes. A value is
/// (pixel - mean) / std, with pixels from 0 to 255; around the content pixels are pad_value.
/// dtype: float32 or float16.
///
/// Returns the input, [1, 3, height, width], and scale_x, scale_y, offset_x, offset_y, by which
/// x of the image is scale_x * x + offset_x of the input's x, likewise y.
#[pyfunction]
#[pyo3(signature = (image, size, *, encoding="rgb8", placement="center", channel_order="rgb", mean=[0.0; 3], std=[255.0; 3], pad_value=114.0, dtype="float32"))]
#[expect(clippy::too_many_arguments, reason = "options by name")]
#[expect(clippy::type_complexity, reason = "an array and four numbers")]
pub fn letterbox<'py>(
    image: &Bound<'py, PyAny>,
    size: (u32, u32),
    encoding: &str,
    placement: &str,
    channel_order: &str,
    mean: [f32; 3],
    std: [f32; 3],
    pad_value: f32,
    dtype: &str,
) -> PyResult<(Bound<'py, PyAny>, (f32, f32, f32, f32))> {
    let placements = [
        ("center", Placement::Center),
        ("top_left", Placement::TopLeft),
        ("stretch", Placement::Stretch),
        ("crop_top", Placement::CropTop),
    ];
    let orders = [("rgb", ChannelOrder::Rgb), ("bgr", ChannelOrder::Bgr)];
    let elements = [("float32", ElementType::F32), ("float16", ElementType::F16)];
    let params = LetterboxParams {
        placement: one_of("placement", placement, &placements)?,
        channel_order: one_of("channel_order", channel_order, &orders)?,
        normalization: Normalization::from_mean_std(mean, std),
        pad_value,
    };
    let element = one_of("dtype", dtype, &elements)?;
    let encoding = Encoding::from_ros(encoding).map_err(|error| raised(&error))?;
    let input = Input::new("image", image)?;
    let view = view(&input, encoding)?;
    let shape = [1, 3, size.0 as usize, size.1 as usize];
    let (tensor, placed) = image
        .py()
        .detach(|| {
            let mut tensor = Tensor::zeros(element, &shape)?;
            let placed = resize(&view, &params, &mut Workspace::new(), &mut tensor)?;
            Ok((tensor, placed.network_from_source()))
        })
        .map_err(|error: det_post::Error| raised(&error))?;
    let array = match tensor {
        Tensor::F32 { values, .. } => Output::of(values, &shape, image)?,
        Tensor::F16 { values, .. } => Output::of(values, &shape, image)?,
    };
    let ([scale_x, scale_y], [offset_x, offset_y]) = (placed.scale, placed.offset);
    Ok((array, (scale_x, scale_y, offset_x, offset_y)))
}
