//! Inputs and outputs of surround networks: the facts of their head files.

use super::camera::{channel_order, normalization};
use super::center::{center_range, size_order, yaw};
use super::views::{Family, ViewFacts};
use crate::config::declaration::Change::Fixed;
use crate::config::inputs::MAX_INPUTS;
use crate::config::reader::{Reader, described};
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
    /// Size of the network's input images; `None`: that of the model.
    pub input_size: Option<Size>,
    /// Order of an image's planes.
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

/// The kinds of [`SurroundKind`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum Kind {
    StreamPetr,
    Views(Family),
}

/// The kinds by their names in head files.
pub(in crate::config) const KINDS: &[(&str, Kind)] = &[
    ("streampetr", Kind::StreamPetr),
    ("detr3d", Kind::Views(Family::Detr3d)),
    ("sparse4d", Kind::Views(Family::Sparse4d)),
];
const RESIZES: &[(&str, Resize)] =
    &[("antialias", Resize::Antialias), ("bilinear", Resize::Bilinear)];
const PIXEL_CONVENTIONS: &[(&str, PixelConvention)] =
    &[("trainer", PixelConvention::Trainer), ("exact", PixelConvention::Exact)];

impl SurroundFacts {
    /// `None` for a kind that is not known. Every key is declared either way.
    pub(super) fn read(p: &mut Reader<'_>, class_names: Vec<String>) -> Option<Self> {
        match kind(p) {
            Some(kind) => Some(Self::of_kind(p, class_names, kind)),
            None => {
                p.accept_keys_of(|| {
                    described(|p| {
                        for (_, kind) in KINDS {
                            describe(p, *kind);
                        }
                    })
                });
                None
            }
        }
    }

    fn of_kind(p: &mut Reader<'_>, class_names: Vec<String>, kind: Kind) -> Self {
        let num_cameras = num_cameras(p);
        let input_size = input_size(p);
        let channel_order = channel_order(p);
        let normalization = normalization(p);
        let resize = p.value(
            "resize",
            Fixed,
            one_of(RESIZES),
            "antialias",
            "Filter: a triangle as wide as the scale, as Pillow, or the four nearest pixels. Images fill \
             the input: excess height is cut at the top, excess width on both sides.",
        );
        let pixel_convention = p.value(
            "pixel_convention",
            Fixed,
            one_of(PIXEL_CONVENTIONS),
            "trainer",
            "How camera pixels become network pixels in the matrices. `trainer`: s·u-left, as in training; \
             `exact`: s·(u+0.5)-0.5-left, where the resize puts them.",
        );
        let size_order = size_order(p);
        let yaw = yaw(p);
        let center_range = center_range(p);
        let kind = match kind {
            Kind::StreamPetr => SurroundKind::StreamPetr,
            Kind::Views(family) => {
                let mut require = |is_missing: bool, key: &str, allowed: &str| {
                    if is_missing {
                        let kinds = "required by the kinds detr3d and sparse4d";
                        p.problem(key, &format!("is missing; allowed: {allowed}; {kinds}"));
                    }
                };
                require(input_size.is_none(), "input_size", "width and height in pixels");
                require(num_cameras.is_none(), "cameras", "the number of cameras");
                let num_views = num_cameras.unwrap_or(1);
                SurroundKind::Views(ViewFacts::read(p, family, num_views, class_names.len()))
            }
        };
        Self {
            kind,
            class_names,
            num_cameras,
            input_size,
            channel_order,
            normalization,
            resize,
            pixel_convention,
            size_order,
            yaw,
            center_range,
        }
    }
}

/// Declares the facts of a kind, which are those of a network with placeholders.
pub(in crate::config) fn describe(p: &mut Reader<'_>, of: Kind) -> SurroundFacts {
    kind(p);
    SurroundFacts::of_kind(p, Vec::new(), of)
}

fn kind(p: &mut Reader<'_>) -> Option<Kind> {
    p.required_or_none(
        "kind",
        one_of(KINDS),
        "Network from feature maps to boxes. `streampetr`: three ONNX files; `detr3d`, `sparse4d`: a \
         backbone as ONNX and a decoder's weights.",
    )
}

fn num_cameras(p: &mut Reader<'_>) -> Option<usize> {
    p.optional(
        "cameras",
        Fixed,
        integer(1..=MAX_INPUTS),
        "the model's",
        "Number of cameras, for models that do not fix it; required by `detr3d` and `sparse4d`.",
    )
}

fn input_size(p: &mut Reader<'_>) -> Option<Size> {
    let size = p.optional(
        "input_size",
        Fixed,
        list(whole(1..=16384).in_unit("px"), Exactly(2)),
        "the model's",
        "Width and height of the network's images, for models that do not fix them; required by `detr3d` \
         and `sparse4d`.",
    );
    size.map(|size| Size::new(size[0], size[1]))
}

/// The kinds as head files name them.
pub(super) fn kind_names() -> Vec<&'static str> {
    KINDS.iter().map(|(name, _)| *name).collect()
}
