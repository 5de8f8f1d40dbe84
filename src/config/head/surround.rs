//! Inputs and outputs of surround networks: the facts of their head files.

use super::camera::{CHANNEL_ORDERS, normalization};
use super::center::{SIZE_ORDERS, YAWS, center_range};
use crate::config::declaration::Change::Fixed;
use crate::config::inputs::MAX_INPUTS;
use crate::config::reader::Reader;
use crate::config::value::Length::Exactly;
use crate::config::value::{integer, list, one_of, whole};
use crate::types::{
    ChannelOrder, Normalization, PixelConvention, PointRange, Resize, Size, SizeOrder,
    YawConvention,
};

/// Inputs and outputs of the networks of a surround channel.
#[derive(Clone, Debug, PartialEq)]
pub struct SurroundFacts {
    /// The kind of network that turns feature maps into boxes.
    pub kind: SurroundKind,
    /// Names of the classes; the index is the class.
    pub class_names: Vec<String>,
    /// Number of cameras; `None`: that of the model.
    pub num_cameras: Option<usize>,
    /// Size of the pictures that the network takes; `None`: that of the model.
    pub input_size: Option<Size>,
    /// Order of a picture's planes.
    pub channel_order: ChannelOrder,
    /// What happens to values of 0 to 255.
    pub normalization: Normalization,
    /// The filter of the resize.
    pub resize: Resize,
    /// How the intrinsic matrix follows from a resize.
    pub pixel_convention: PixelConvention,
    /// Order of the extents of a box.
    pub size_order: SizeOrder,
    /// How sine and cosine become a yaw.
    pub yaw: YawConvention,
    /// Box outside which centres are dropped.
    pub center_range: Option<PointRange>,
}

/// The kind of network that turns feature maps into boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurroundKind {
    /// StreamPETR: three ONNX files with a temporal memory.
    StreamPetr,
}

impl SurroundKind {
    /// Whether a frame may lack a camera: the network can mask it.
    pub fn masks_missing_cameras(self) -> bool {
        match self {
            Self::StreamPetr => false,
        }
    }
}

const KINDS: &[(&str, SurroundKind)] = &[("streampetr", SurroundKind::StreamPetr)];
const RESIZES: &[(&str, Resize)] =
    &[("antialias", Resize::Antialias), ("bilinear", Resize::Bilinear)];
const PIXEL_CONVENTIONS: &[(&str, PixelConvention)] =
    &[("trainer", PixelConvention::Trainer), ("exact", PixelConvention::Exact)];

impl SurroundFacts {
    pub(super) fn read(p: &mut Reader<'_>, class_names: Vec<String>) -> Self {
        Self {
            kind: p.required(
                "kind",
                one_of(KINDS),
                "Network that turns feature maps into boxes. `streampetr`: three ONNX files.",
            ),
            class_names,
            num_cameras: p.optional(
                "cameras",
                Fixed,
                integer(1..=MAX_INPUTS),
                "the model's",
                "Number of cameras, for models that do not fix it.",
            ),
            input_size: p
                .optional(
                    "input_size",
                    Fixed,
                    list(whole(1..=16384).in_unit("px"), Exactly(2)),
                    "the model's",
                    "Width and height of the pictures that the network takes, for models that do not fix them.",
                )
                .map(|size| Size::new(size[0], size[1])),
            channel_order: p.required(
                "channel_order",
                one_of(CHANNEL_ORDERS),
                "Order of a picture's planes.",
            ),
            normalization: normalization(p),
            resize: p.value(
                "resize",
                Fixed,
                one_of(RESIZES),
                "antialias",
                "Filter of the resize: a triangle as wide as the scale asks for, as Pillow and trainers do, or the \
                 four nearest pixels. Pictures fill the network's: what is too high is cut at the top, what is too \
                 wide on both sides.",
            ),
            pixel_convention: p.value(
                "pixel_convention",
                Fixed,
                one_of(PIXEL_CONVENTIONS),
                "trainer",
                "How pixels of the camera become network pixels in the matrices. `trainer`: s * u - left, as the \
                 trainers of these networks; `exact`: s * (u + 0.5) - 0.5 - left, which is where the resize puts them.",
            ),
            size_order: p.required("size_order", one_of(SIZE_ORDERS), "Order of a box's extents."),
            yaw: p.required(
                "yaw",
                one_of(YAWS),
                "How sine and cosine become a yaw: `atan2(s, c)`, or `-atan2(s, c) - pi/2`.",
            ),
            center_range: center_range(p),
        }
    }
}
