//! Images to the inputs of networks.

use det_post_ops::device::cuda::Stream;
use det_post_ops::image::letterbox::{LetterboxParams, Workspace, letterbox as resize};
use det_post_types::{
    ChannelOrder, DeviceBytes, ElementType, Encoding, ImageView, Letterbox, Normalization,
    Placement, Resize, Size, Tensor,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::argument::one_of;
use crate::array::{GpuInput, Input, Output, gpu_of};
use crate::error::raised;
use crate::gpu;

/// The size of an image in an array of this shape, and the bytes from row to row.
///
/// # Errors
/// What the encoding needs, when shape or type of the elements is another.
fn size_and_step(
    shape: &[usize],
    is_u8: bool,
    is_u16: bool,
    encoding: Encoding,
) -> Result<(Size, usize), String> {
    let (channels, expected) = match encoding {
        Encoding::Rgb8 | Encoding::Bgr8 => (3, "uint8 [H, W, 3]"),
        Encoding::Rgba8 | Encoding::Bgra8 => (4, "uint8 [H, W, 4]"),
        Encoding::Uyvy | Encoding::Yuy2 => (2, "uint8 [H, W, 2]"),
        Encoding::Nv12 | Encoding::Nv21 => (1, "uint8 [H * 3 / 2, W]"),
        Encoding::Mono16 => (1, "uint16 [H, W]"),
        _ => (1, "uint8 [H, W]"),
    };
    let (element_bytes, has_type) =
        if encoding == Encoding::Mono16 { (2, is_u16) } else { (1, is_u8) };
    let [rows, width] = match *shape {
        [rows, width] if channels == 1 => [rows, width],
        [rows, width, found] if found == channels => [rows, width],
        _ => [0, 0],
    };
    let is_semi_planar = matches!(encoding, Encoding::Nv12 | Encoding::Nv21);
    let has_chroma_rows = !is_semi_planar || rows.is_multiple_of(3);
    if !has_type || rows == 0 || width == 0 || !has_chroma_rows {
        return Err(format!("{expected} is required for {}", encoding.to_ros()));
    }
    let height = if is_semi_planar { rows / 3 * 2 } else { rows };
    let side = |side| u32::try_from(side).unwrap_or(u32::MAX);
    Ok((Size::new(side(width), side(height)), width * channels * element_bytes))
}

/// An image as the view of a message: rows without gaps, of the encoding's layout.
///
/// # Errors
/// `ValueError` when the shape does not match the encoding.
pub fn view(image: &Input, encoding: Encoding) -> PyResult<ImageView<'_>> {
    let (size, step) = size_and_step(image.shape(), image.is::<u8>(), image.is::<u16>(), encoding)
        .map_err(|expected| image.refuse(&expected))?;
    let is_big_endian = cfg!(target_endian = "big");
    ImageView::new(size, step, encoding, is_big_endian, image.bytes()?)
        .map_err(|error| raised(&error))
}

/// An image on a GPU, as [`view`], for a detector: the work on `stream` so far has written it.
///
/// # Errors
/// As [`view`].
pub fn view_on_gpu<'a>(
    image: &'a GpuInput,
    encoding: Encoding,
    stream: &'a Stream,
) -> PyResult<ImageView<'a, DeviceBytes<'a>>> {
    let (size, step) = size_and_step_on_gpu(image, encoding)?;
    let is_big_endian = cfg!(target_endian = "big");
    ImageView::on_device(size, step, encoding, is_big_endian, image.device_bytes(stream)?)
        .map_err(|error| raised(&error))
}

/// As [`size_and_step`], of an image on a GPU.
///
/// # Errors
/// `ValueError` when the shape does not match the encoding.
pub fn size_and_step_on_gpu(image: &GpuInput, encoding: Encoding) -> PyResult<(Size, usize)> {
    size_and_step(image.shape(), image.is::<u8>(), image.is::<u16>(), encoding)
        .map_err(|expected| image.refuse(&expected))
}

/// Resizes and normalises an image to a network's input, in one pass.
///
/// image: uint8 [H, W, 3] of encoding rgb8 or bgr8, [H, W, 4] of rgba8 or bgra8, [H, W] of mono8
/// or a Bayer pattern, [H, W, 2] of uyvy or yuyv, [H * 3 / 2, W] of nv12 or nv21; uint16 [H, W] of
/// mono16. size: height and width of the input. placement: center (YOLOv5 and later), top_left
/// (YOLOX), top_left_rounded (mmdetection), stretch, crop_top. channel_order: rgb or bgr, of the planes. A value is
/// (pixel - mean) / std, with pixels from 0 to 255; around the content pixels are pad_value.
/// resize: bilinear (OpenCV), antialias (RF-DETR), antialias_8bit (Pillow). dtype: float32 or float16.
///
/// Returns the input, [1, 3, height, width], and scale_x, scale_y, offset_x, offset_y, by which
/// x of the image is scale_x * x + offset_x of the input's x, likewise y.
#[pyfunction]
#[pyo3(signature = (image, size, *, encoding="rgb8", placement="center", channel_order="rgb", mean=[0.0; 3], std=[255.0; 3], pad_value=114.0, resize="bilinear", dtype="float32"))]
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
    resize: &str,
    dtype: &str,
) -> PyResult<(Bound<'py, PyAny>, (f32, f32, f32, f32))> {
    let placements = [
        ("center", Placement::Center),
        ("top_left", Placement::TopLeft),
        ("top_left_rounded", Placement::TopLeftRounded),
        ("stretch", Placement::Stretch),
        ("crop_top", Placement::CropTop),
    ];
    let resizes = [
        ("bilinear", Resize::Bilinear),
        ("antialias", Resize::Antialias),
        ("antialias_8bit", Resize::Antialias8Bit),
    ];
    let orders = [("rgb", ChannelOrder::Rgb), ("bgr", ChannelOrder::Bgr)];
    let elements = [("float32", ElementType::F32), ("float16", ElementType::F16)];
    let params = LetterboxParams {
        placement: one_of("placement", placement, &placements)?,
        channel_order: one_of("channel_order", channel_order, &orders)?,
        normalization: Normalization::from_mean_std(mean, std),
        pad_value,
        resize: one_of("resize", resize, &resizes)?,
    };
    let element = one_of("dtype", dtype, &elements)?;
    let sides = 1..=ImageView::<'_>::MAX_SIDE;
    if !sides.contains(&size.0) || !sides.contains(&size.1) {
        let message = format!("size must have sides of 1 to {}, found {size:?}", sides.end());
        return Err(PyValueError::new_err(message));
    }
    let encoding = Encoding::from_ros(encoding).map_err(|error| raised(&error))?;
    let shape = [1, 3, size.0 as usize, size.1 as usize];
    if let Some(gpu) = gpu_of("image", image)? {
        let (array, placed) = gpu::letterbox(gpu, image, encoding, &params, (element, shape))?;
        return Ok((array, affine(&placed)));
    }
    let input = Input::new("image", image)?;
    let view = view(&input, encoding)?;
    let (tensor, placed) = image
        .py()
        .detach(|| {
            let mut tensor = Tensor::zeros(element, &shape)?;
            let placed = resize(&view, &params, &mut Workspace::new(), &mut tensor)?;
            Ok((tensor, placed))
        })
        .map_err(|error: det_post::Error| raised(&error))?;
    let array = match tensor {
        Tensor::F32 { values, .. } => Output::of(values, &shape, image)?,
        Tensor::F16 { values, .. } => Output::of(values, &shape, image)?,
    };
    Ok((array, affine(&placed)))
}

/// Scales and offsets of x and y, from the image to the input.
fn affine(placed: &Letterbox) -> (f32, f32, f32, f32) {
    let placed = placed.network_from_source();
    let ([scale_x, scale_y], [offset_x, offset_y]) = (placed.scale, placed.offset);
    (scale_x, scale_y, offset_x, offset_y)
}
