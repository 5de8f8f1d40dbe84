//! What the output of a YOLO-family network means.

/// Layouts of 2D heads. `N` rows, `C` classes; `[…]` are tensor shapes. All
/// boxes are in pixels of the network's input unless said otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum YoloLayout {
    /// One tensor `[1, N, 5 + C]`: cx cy w h objectness classes, decoded and
    /// activated in the model (YOLOv5 and v7 exports). Score: objectness times
    /// class.
    V5,
    /// One tensor per stride, raw logits, `[1, A * (5 + C), H, W]` or
    /// `[1, A, H, W, 5 + C]` with `A` anchors: sigmoid, grid and anchors are
    /// applied in decoding (YOLOv5 without its export head).
    V5Raw {
        /// Per output tensor, in their order: its stride and anchors.
        levels: Vec<AnchorLevel>,
    },
    /// One tensor `[1, 4 + C, N]`: cx cy w h and activated class scores
    /// (YOLOv8, v9, 11 and later). No objectness.
    V8,
    /// One tensor `[1, 4 + C + 1, N]`: cx cy w h, activated class scores and the
    /// angle of a rotated box in radians, which turns the side `w` from +x
    /// towards +y (ultralytics' oriented boxes, YOLOv8-OBB and later). No
    /// objectness.
    Obb,
    /// One tensor `[1, N, 5 + C]`: offsets from the grid, logarithms of sizes
    /// in strides, then activated objectness and class scores (YOLOX).
    Yolox {
        /// Strides of the levels, in the order of the rows.
        strides: Vec<u32>,
    },
    /// One tensor `[1, N, 6]`: x1 y1 x2 y2 score class, final (YOLOv10 and
    /// models exported with their suppression inside).
    EndToEnd,
    /// Boxes `[1, N, 4]` and scores, final (RT-DETR and similar networks). Scores are
    /// `[1, N, C]`, or `[1, N]` with a third tensor of labels `[1, N]`.
    Detr {
        /// The meaning of the four numbers of a box.
        boxes: DetrBoxes,
        /// Whether scores are logits, to be passed through a sigmoid.
        logits: bool,
    },
}

impl YoloLayout {
    /// Whether the boxes are rotated: candidates of `RotatedBox2d`.
    pub fn has_rotated_boxes(&self) -> bool {
        matches!(self, Self::Obb)
    }

    /// Whether decoding depends on the size of the network's input.
    pub fn needs_input_size(&self) -> bool {
        match self {
            Self::V5Raw { .. } | Self::Yolox { .. } => true,
            Self::Detr { boxes, .. } => *boxes == DetrBoxes::CenterNormalized,
            Self::V5 | Self::V8 | Self::Obb | Self::EndToEnd => false,
        }
    }

    /// Whether the outputs are final: nothing is suppressed.
    pub fn is_end_to_end(&self) -> bool {
        matches!(self, Self::EndToEnd | Self::Detr { .. })
    }
}

/// One level of an anchor-based 2D head.
#[derive(Clone, Debug, PartialEq)]
pub struct AnchorLevel {
    /// Network pixels per cell.
    pub stride: u32,
    /// Width and height of each anchor in network pixels.
    pub anchors: Vec<[f32; 2]>,
}

/// The meaning of the four numbers of a DETR-style box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetrBoxes {
    /// cx cy w h as fractions of the network's input.
    CenterNormalized,
    /// x1 y1 x2 y2 in pixels of the network's input.
    CornerPixels,
}
