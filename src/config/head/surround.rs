//! Inputs and outputs of surround networks: the facts of their head files.

use super::camera::{CHANNEL_ORDERS, normalization};
use super::center::{SIZE_ORDERS, YAWS, center_range};
use super::views::{Family, ViewFacts};
use crate::config::declaration::Change::Fixed;
use crate::config::inputs::MAX_INPUTS;
use crate::config::reader::Reader;
use crate::config::value::Length::Exactly;
use crate::config::value::{integer, list, one_of, whole};
use det_post_types::{
    ChannelOrder, Normalization, PixelConvention, PointRange, Resize, Size, SizeOrder, ViewDecoder,
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
    /// Size of the network's input pictures; `None`: that of the model.
    pub input_size: Option<Size>,
    /// Order of a picture's planes.
    pub channel_order: ChannelOrder,
    /// The normalization of values from 0 to 255.
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
#[derive(Clone, Debug, PartialEq)]
pub enum SurroundKind {
    /// StreamPETR: three ONNX files with a temporal memory.
    StreamPetr,
    /// DETR3D and Sparse4D: decoders that are run by operations of this program.
    Views(ViewFacts),
}

impl SurroundKind {
    /// Whether the network carries a memory from frame to frame.
    pub fn has_memory(&self) -> bool {
        match self {
            Self::StreamPetr => true,
            Self::Views(views) => matches!(views.decoder, ViewDecoder::Sparse4d(_)),
        }
    }

    /// Whether a frame may lack a camera: the network can mask it.
    pub fn masks_missing_cameras(&self) -> bool {
        match self {
            Self::StreamPetr => false,
            Self::Views(_) => true,
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    StreamPetr,
    Views(Family),
}

const KINDS: &[(&str, Kind)] = &[
    ("streampetr", Kind::StreamPetr),
    ("detr3d", Kind::Views(Family::Detr3d)),
    ("sparse4d", Kind::Views(Family::Sparse4d)),
];
const RESIZES: &[(&str, Resize)] =
    &[("antialias", Resize::Antialias), ("bilinear", Resize::Bilinear)];
const PIXEL_CONVENTIONS: &[(&str, PixelConvention)] =
    &[("trainer", PixelConvention::Trainer), ("exact", PixelConvention::Exact)];

impl SurroundFacts {
    /// `None` when a problem was noted.
    pub(super) fn read(p: &mut Reader<'_>, class_names: Vec<String>) -> Option<Self> {
        let kind = p.required(
            "kind",
            one_of(KINDS),
            "Network that turns feature maps into boxes. `streampetr`: three ONNX files; `detr3d`, `sparse4d`: a \
             backbone as ONNX and the weights of the decoder.",
        );
        let num_cameras = p.optional(
            "cameras",
            Fixed,
            integer(1..=MAX_INPUTS),
            "the model's",
            "Number of cameras, for models that do not fix it; required by `detr3d` and `sparse4d`.",
        );
        let input_size = p
            .optional(
                "input_size",
                Fixed,
                list(whole(1..=16384).in_unit("px"), Exactly(2)),
                "the model's",
                "Width and height of the pictures that the network takes, for models that do not fix them; required \
                 by `detr3d` and `sparse4d`.",
            )
            .map(|size| Size::new(size[0], size[1]));
        let kind = match kind {
            Kind::StreamPetr => SurroundKind::StreamPetr,
            Kind::Views(family) => {
                if input_size.is_none() {
                    p.problem("input_size", "is missing; this kind of head requires it");
                }
                let Some(num_views) = num_cameras else {
                    p.problem("cameras", "is missing; this kind of head requires it");
                    return None;
                };
                SurroundKind::Views(ViewFacts::read(p, family, num_views, class_names.len())?)
            }
        };
        Some(Self {
            kind,
            class_names,
            num_cameras,
            input_size,
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
        })
    }
}
