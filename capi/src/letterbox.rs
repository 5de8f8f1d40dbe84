//! Images to the inputs of networks.

use det_post_ops::image::letterbox::{LetterboxParams, Workspace as Rows, letterbox};
use det_post_types::{
    ChannelOrder, ElementType, ImageView, Normalization, Placement, Resize, Tensor,
};

use super::call::{Call, Const, In, Out, run};
use super::frame::Image;
use super::gpu::Gpu;
use super::status::{Failure, Status};
use super::workspace::{Opened, WORKSPACES, Workspace};

/// `letterbox.placement`: in the centre (YOLOv5 and later).
pub const PLACE_CENTER: u32 = 0;
/// `letterbox.placement`: at the top left corner (YOLOX).
pub const PLACE_TOP_LEFT: u32 = 1;
/// `letterbox.placement`: stretched to the whole input.
pub const PLACE_STRETCH: u32 = 2;
/// `letterbox.placement`: as wide as the input, what is too high cut off at the top.
pub const PLACE_CROP_TOP: u32 = 3;

/// The input of a network, into which an image is resized with its aspect ratio.
#[repr(C)]
pub struct Letterbox {
    /// Pixels per row of the input.
    pub width: u32,
    /// Rows of the input.
    pub height: u32,
    /// One of `DET_POST_PLACE_…`.
    pub placement: u32,
    /// Order of the planes: 0 for red, green, blue; 1 for blue, green, red.
    pub is_bgr: u32,
    /// Elements of the input: 0 for float32, 1 for float16.
    pub is_half: u32,
    /// A value around the image, 0 to 255, before it is normalised.
    pub pad_value: f32,
    /// Per plane: an element is (value - mean) / std, of values from 0 to 255.
    pub mean: [f32; 3],
    /// See `mean`; not 0.
    pub std: [f32; 3],
    /// For later versions; 0.
    pub reserved: [u64; 4],
}

/// The input of a network: `[1, 3, height, width]`, and how an image is placed in it:
/// `x of the input = scale[0] * x of the image + offset[0]`, likewise y.
#[repr(C)]
pub struct Letterboxed {
    /// The elements as float32, or `NULL`.
    pub values: Const<f32>,
    /// The elements as float16, or `NULL`.
    pub half_values: Const<u16>,
    /// Number of elements.
    pub num_values: usize,
    /// Pixels of the input per pixel of the image, along x and y.
    pub scale: [f32; 2],
    /// Position of the image's corner in the input, x and y.
    pub offset: [f32; 2],
}

/// The memory of letterboxes, which grows to the largest call.
#[derive(Default)]
pub(super) struct Memory {
    rows: Rows,
    tensor: Option<Tensor>,
    public: Option<Letterboxed>,
}

impl Letterbox {
    fn params(&self) -> Result<LetterboxParams, Failure> {
        if self.reserved != [0; 4] {
            return Err(Failure::argument("letterbox.reserved is not 0"));
        }
        if self.std.contains(&0.0) {
            return Err(Failure::argument("letterbox.std is 0"));
        }
        Ok(LetterboxParams {
            placement: match self.placement {
                PLACE_CENTER => Placement::Center,
                PLACE_TOP_LEFT => Placement::TopLeft,
                PLACE_STRETCH => Placement::Stretch,
                PLACE_CROP_TOP => Placement::CropTop,
                other => {
                    let message = format!("letterbox.placement {other} is not known");
                    return Err(Failure::argument(message));
                }
            },
            channel_order: if self.is_bgr == 0 { ChannelOrder::Rgb } else { ChannelOrder::Bgr },
            normalization: Normalization::from_mean_std(self.mean, self.std),
            pad_value: self.pad_value,
            resize: Resize::Bilinear,
        })
    }

    /// The shape of the input, of an allowed size, so that a wrong one allocates nothing.
    fn shape(&self) -> Result<[usize; 4], Failure> {
        const MAX_SIDE: u32 = ImageView::MAX_SIDE;
        let (width, height) = (self.width, self.height);
        if [width, height].iter().any(|side| !(1..=MAX_SIDE).contains(side)) {
            let message =
                format!("input must be 1x1 to {MAX_SIDE}x{MAX_SIDE}, found {width}x{height}");
            return Err(Failure::argument(message));
        }
        Ok([1, 3, height as usize, width as usize])
    }

    fn element(&self) -> ElementType {
        if self.is_half == 0 { ElementType::F32 } else { ElementType::F16 }
    }
}

impl Memory {
    fn letterbox_on(
        &mut self,
        gpu: &mut Gpu,
        call: &Call,
        to: &Letterbox,
        image: &Image,
    ) -> Result<Const<Letterboxed>, Failure> {
        let (params, shape) = (to.params()?, to.shape()?);
        let image = image.device_view(call, gpu.caller)?;
        let (address, placed) = gpu.letterbox(&image, &params, (to.element(), &shape))?;
        let placed = placed.network_from_source();
        let (values, half_values) = match to.element() {
            ElementType::F16 => (Const::NULL, Const::on_device(address)),
            _ => (Const::on_device(address), Const::NULL),
        };
        Ok(Const::one(self.public.insert(Letterboxed {
            values,
            half_values,
            num_values: shape.iter().product(),
            scale: placed.scale,
            offset: placed.offset,
        })))
    }

    fn letterbox(
        &mut self,
        call: &Call,
        to: &Letterbox,
        image: &Image,
    ) -> Result<Const<Letterboxed>, Failure> {
        let (params, image) = (to.params()?, image.view(call)?);
        let shape = to.shape()?;
        let is_of = |tensor: &Tensor| (tensor.element(), tensor.shape()) == (to.element(), &shape);
        let Self { rows, tensor, public } = self;
        let tensor = match tensor.take().filter(is_of) {
            Some(of_before) => tensor.insert(of_before),
            None => tensor.insert(Tensor::zeros(to.element(), &shape)?),
        };
        let placed = letterbox(&image, &params, rows, tensor)?.network_from_source();
        let (values, half_values) = match &*tensor {
            Tensor::F32 { values, .. } => (Const::of(values), Const::NULL),
            Tensor::F16 { values, .. } => (Const::NULL, Const::bits_of(values)),
        };
        Ok(Const::one(public.insert(Letterboxed {
            values,
            half_values,
            num_values: shape.iter().product(),
            scale: placed.scale,
            offset: placed.offset,
        })))
    }
}

/// Resizes and normalises an image, of any encoding that detectors take, to the input of a
/// network, in one pass.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_letterbox(
    workspace: Workspace,
    letterbox: In<Letterbox>,
    image: In<Image>,
    letterboxed: Out<Const<Letterboxed>>,
) -> Status {
    run(workspace.id, |call| {
        call.check_out(letterboxed, "letterboxed")?;
        let (letterbox, image) = (call.one(letterbox, "letterbox")?, call.one(image, "image")?);
        let done = WORKSPACES.with(workspace.id, |opened| {
            let Opened { gpu, letterbox: memory, .. } = opened;
            match gpu {
                None => memory.letterbox(call, letterbox, image),
                Some(gpu) => memory.letterbox_on(gpu, call, letterbox, image),
            }
        })?;
        call.write(letterboxed, done, "letterboxed")
    })
}
