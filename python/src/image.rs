//! Images to the inputs of networks.

use det_post_ops::device::cuda::Stream;
use det_post_ops::image::letterbox::{LetterboxParams, Workspace, letterbox as letterboxed};
use det_post_ops::image::resample::{
    ResampleParams, SampleMap, Workspace as ResampleWorkspace, resample,
};
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
use crate::library::part;

type Array<'py> = Bound<'py, PyAny>;

/// Channels of the last axis, 1 without one, and the array in words.
fn layout_of(encoding: Encoding) -> (usize, &'static str) {
    match encoding {
        Encoding::Rgb8 | Encoding::Bgr8 => (3, "uint8 [H, W, 3]"),
        Encoding::Rgba8 | Encoding::Bgra8 => (4, "uint8 [H, W, 4]"),
        Encoding::Uyvy | Encoding::Yuy2 => (2, "uint8 [H, W, 2]"),
        Encoding::Nv12 | Encoding::Nv21 => (1, "uint8 [H * 3 / 2, W]"),
        Encoding::Mono16 => (1, "uint16 [H, W]"),
        _ => (1, "uint8 [H, W]"),
    }
}

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
    let (channels, expected) = layout_of(encoding);
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

/// The images of an argument, and whether they are a batch: an array of one image or of several
/// of one size, or a sequence of images.
fn images_of<'py>(image: &Array<'py>, encoding: Encoding) -> PyResult<(Vec<Array<'py>>, bool)> {
    let py = image.py();
    let images = if image.hasattr(pyo3::intern!(py, "__dlpack__"))? {
        let num_axes = image.getattr(pyo3::intern!(py, "shape"))?.len()?;
        let (channels, _) = layout_of(encoding);
        // An image in three axes of an encoding without channels is one of another encoding.
        if num_axes != 4 || channels == 1 {
            return Ok((vec![image.clone()], false));
        }
        let image_of = |index| part(image, index)?.get_item(0);
        (0..image.len()?).map(image_of).collect::<PyResult<Vec<_>>>()?
    } else if image.extract::<Vec<Array<'py>>>().is_ok() {
        image.extract()?
    } else {
        // Refused with its name where it is read.
        return Ok((vec![image.clone()], false));
    };
    if images.is_empty() {
        return Err(PyValueError::new_err("image is empty; at least one image is required"));
    }
    Ok((images, true))
}

/// The element type of a result.
fn element_of(dtype: &str) -> PyResult<ElementType> {
    one_of("dtype", dtype, &[("float32", ElementType::F32), ("float16", ElementType::F16)])
}

fn channel_order_of(name: &str) -> PyResult<ChannelOrder> {
    one_of("channel_order", name, &[("rgb", ChannelOrder::Rgb), ("bgr", ChannelOrder::Bgr)])
}

/// Height and width of an input.
fn network_of(size: (u32, u32)) -> PyResult<Size> {
    let sides = 1..=ImageView::<'_>::MAX_SIDE;
    if !sides.contains(&size.0) || !sides.contains(&size.1) {
        let message = format!("size must have sides of 1 to {}, found {size:?}", sides.end());
        return Err(PyValueError::new_err(message));
    }
    Ok(Size::new(size.1, size.0))
}

/// Mean and standard deviation, or factor and summand, per plane.
fn normalization_of(
    [mean, std]: [Option<[f32; 3]>; 2],
    [alpha, beta]: [Option<[f32; 3]>; 2],
) -> PyResult<Normalization> {
    if alpha.is_none() && beta.is_none() {
        let (mean, std) = (mean.unwrap_or([0.0; 3]), std.unwrap_or([255.0; 3]));
        return Ok(Normalization::from_mean_std(mean, std));
    }
    if mean.is_some() || std.is_some() {
        let message =
            "mean and std, or alpha and beta, say how values are normalised: give one pair";
        return Err(PyValueError::new_err(message));
    }
    Ok(Normalization { alpha: alpha.unwrap_or([1.0; 3]), beta: beta.unwrap_or([0.0; 3]) })
}

/// Images as one array, `[B, 3, height, width]`: each is written by `write`.
fn on_host<'py>(
    images: &[Array<'py>],
    encoding: Encoding,
    (element, network): (ElementType, Size),
    mut write: impl FnMut(usize, &ImageView<'_>, &mut Tensor) -> det_post::Result<()> + Send,
) -> PyResult<Array<'py>> {
    let like = &images[0];
    let one = [1, 3, network.height as usize, network.width as usize];
    let shape = [images.len(), one[1], one[2], one[3]];
    let (mut values_f32, mut values_f16) = (Vec::new(), Vec::new());
    for (index, image) in images.iter().enumerate() {
        let input = Input::new("image", image)?;
        let view = view(&input, encoding)?;
        let tensor = like.py().detach(|| {
            let mut tensor = Tensor::zeros(element, &one)?;
            write(index, &view, &mut tensor).map(|()| tensor)
        });
        match tensor.map_err(|error| raised(&error))? {
            Tensor::F32 { values, .. } if images.len() == 1 => values_f32 = values,
            Tensor::F32 { values, .. } => values_f32.extend(values),
            Tensor::F16 { values, .. } => values_f16.extend(values),
        }
    }
    match element {
        ElementType::F16 => Output::of(values_f16, &shape, like),
        _ => Output::of(values_f32, &shape, like),
    }
}

/// Resizes and normalises an image, or a batch of images, to a network's input, in one pass.
///
/// image: uint8 [H, W, 3] of encoding rgb8 or bgr8, [H, W, 4] of rgba8 or bgra8, [H, W] of mono8
/// or a Bayer pattern, [H, W, 2] of uyvy or yuyv, [H * 3 / 2, W] of nv12 or nv21; uint16 [H, W] of
/// mono16; a batch is a list of images of any sizes, or, of encodings with channels, an array with a
/// leading axis. size: height and width of the input. placement: center (YOLOv5 and later), top_left (YOLOX),
/// top_left_rounded (mmdetection), stretch, crop_top. channel_order: rgb or bgr, of the planes. A value is
/// (pixel - mean) / std, by default of mean 0 and std 255, or, with alpha or beta, alpha * pixel + beta, with
/// pixels from 0 to 255; around the content pixels are pad_value. resize: bilinear (OpenCV), antialias
/// (RF-DETR), antialias_8bit (Pillow). dtype: float32 or float16.
///
/// Returns the input, [B, 3, height, width], B 1 for an image; and scale_x, scale_y, offset_x,
/// offset_y, by which x of the image is scale_x * x + offset_x of the input's x, likewise y: of an
/// image, or a list of them of a batch.
#[pyfunction]
#[pyo3(signature = (image, size, *, encoding="rgb8", placement="center", channel_order="rgb", mean=None, std=None, alpha=None, beta=None, pad_value=114.0, resize="bilinear", dtype="float32"))]
#[expect(clippy::too_many_arguments, reason = "options by name")]
pub fn letterbox<'py>(
    image: &Array<'py>,
    size: (u32, u32),
    encoding: &str,
    placement: &str,
    channel_order: &str,
    mean: Option<[f32; 3]>,
    std: Option<[f32; 3]>,
    alpha: Option<[f32; 3]>,
    beta: Option<[f32; 3]>,
    pad_value: f32,
    resize: &str,
    dtype: &str,
) -> PyResult<(Array<'py>, Affines)> {
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
    let params = LetterboxParams {
        placement: one_of("placement", placement, &placements)?,
        channel_order: channel_order_of(channel_order)?,
        normalization: normalization_of([mean, std], [alpha, beta])?,
        pad_value,
        resize: one_of("resize", resize, &resizes)?,
    };
    let (element, network) = (element_of(dtype)?, network_of(size)?);
    let encoding = Encoding::from_ros(encoding).map_err(|error| raised(&error))?;
    let (images, is_batch) = images_of(image, encoding)?;
    let mut placed = Vec::with_capacity(images.len());
    let array = if let Some(gpu) = gpu_of("image", &images[0])? {
        gpu::letterbox(gpu, &images, encoding, &params, (element, network), &mut placed)?
    } else {
        let mut workspace = Workspace::new();
        on_host(&images, encoding, (element, network), |_, view, tensor| {
            placed.push(letterboxed(view, &params, &mut workspace, tensor)?);
            Ok(())
        })?
    };
    let mut affines: Vec<_> = placed.iter().map(affine).collect();
    match affines.pop() {
        Some(one) if !is_batch => Ok((array, Affines::One(one))),
        last => Ok((array, Affines::Each(affines.into_iter().chain(last).collect()))),
    }
}

/// The placements of a letterbox.
#[derive(IntoPyObject)]
pub enum Affines {
    /// Of an image.
    One((f32, f32, f32, f32)),
    /// Of a batch.
    Each(Vec<(f32, f32, f32, f32)>),
}

/// Scales and offsets of x and y, from the image to the input.
fn affine(placed: &Letterbox) -> (f32, f32, f32, f32) {
    let placed = placed.network_from_source();
    let ([scale_x, scale_y], [offset_x, offset_y]) = (placed.scale, placed.offset);
    (scale_x, scale_y, offset_x, offset_y)
}

/// Warps and normalises an image, or a batch of images, to a network's input by an affine, in one
/// pass.
///
/// image, size, encoding, channel_order, mean, std, alpha, beta and dtype as letterbox. affine: from
/// the image to the input, [2, 3] or scale_x, scale_y, offset_x, offset_y; one, or of a batch a
/// list of one per image. Coordinates are continuous: pixel i covers i to i + 1. OpenCV's and
/// tensorrt_pro's affines count from the centres of pixels: with these, centers is True. antialias:
/// a triangle filter as wide as the scale asks for, else the nearest four pixels. Where the input
/// shows nothing of the image, pixels are pad_value.
///
/// Returns the input, [B, 3, height, width], B 1 for an image.
#[pyfunction]
#[pyo3(signature = (image, affine, size, *, centers=false, encoding="rgb8", channel_order="rgb", mean=None, std=None, alpha=None, beta=None, pad_value=114.0, antialias=false, dtype="float32"))]
#[expect(clippy::too_many_arguments, reason = "options by name")]
pub fn warp_affine<'py>(
    image: &Array<'py>,
    affine: &Array<'py>,
    size: (u32, u32),
    centers: bool,
    encoding: &str,
    channel_order: &str,
    mean: Option<[f32; 3]>,
    std: Option<[f32; 3]>,
    alpha: Option<[f32; 3]>,
    beta: Option<[f32; 3]>,
    pad_value: f32,
    antialias: bool,
    dtype: &str,
) -> PyResult<Array<'py>> {
    let params = ResampleParams {
        channel_order: channel_order_of(channel_order)?,
        normalization: normalization_of([mean, std], [alpha, beta])?,
        pad_value,
    };
    let (element, network) = (element_of(dtype)?, network_of(size)?);
    let encoding = Encoding::from_ros(encoding).map_err(|error| raised(&error))?;
    let (images, _) = images_of(image, encoding)?;
    let mut affines = affines_of(affine, images.len())?;
    if centers {
        affines.iter_mut().flatten().for_each(|[a, b, t]| *t += 0.5 - 0.5 * (*a + *b));
    }
    let resize = if antialias { Resize::Antialias } else { Resize::Bilinear };
    let map_of =
        |index: usize, source: Size| SampleMap::of_affine(source, network, affines[index], resize);
    if let Some(gpu) = gpu_of("image", &images[0])? {
        return gpu::warp_affine(gpu, &images, encoding, &params, (element, network), &map_of);
    }
    let mut workspace = ResampleWorkspace::new();
    on_host(&images, encoding, (element, network), |index, view, tensor| {
        let map = map_of(index, view.size())?;
        resample(view, &map, &params, &mut workspace, 0, tensor)
    })
}

/// The affine of each image, rows of two factors and a summand.
pub fn affines_of(affine: &Array<'_>, num_images: usize) -> PyResult<Vec<[[f64; 3]; 2]>> {
    let py = affine.py();
    let module = py.import(pyo3::intern!(py, "det_post._affine"))?;
    module.call_method1(pyo3::intern!(py, "of_images"), (affine, num_images))?.extract()
}
