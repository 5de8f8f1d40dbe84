//! What the output of a YOLO-family network means.

use crate::{Error, ErrorKind, KeypointRows, Result, Size};

/// Layouts of 2D heads. `N` rows, `C` classes; `[…]` are tensor shapes. All
/// boxes are in pixels of the network's input unless said otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum YoloLayout {
    /// One tensor `[1, N, 5 + C]`: cx cy w h objectness classes, decoded and activated in the model
    /// (YOLOv5 and v7 exports). Score: objectness times class.
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
    /// One tensor `[1, 4 + C + 1, N]`: cx cy w h, activated class scores and the angle of a rotated box
    /// in radians, which turns the side `w` from +x towards +y (ultralytics' oriented boxes,
    /// YOLOv8-OBB and later). No objectness.
    Obb,
    /// A tensor `[1, 4 + C + M, N]`: as [`Self::V8`], then the coefficients of a mask; and
    /// prototypes of masks `[1, M, H, W]` (instance segmentation of ultralytics, YOLOv8-seg and
    /// later).
    Seg {
        /// M.
        num_coefficients: usize,
    },
    /// One tensor `[1, 4 + C + K * D, N]`: as [`Self::V8`], then the keypoints: x y, and where D is 3 a
    /// score after its sigmoid (ultralytics' YOLOv8-pose and later).
    Pose {
        /// K.
        num_keypoints: usize,
        /// D, 2 or 3.
        num_values: usize,
    },
    /// One tensor `[1, N, 5 + C]`: offsets from the grid, logarithms of sizes in strides, then activated
    /// objectness and class scores (YOLOX).
    Yolox {
        /// Strides of the levels, in the order of the rows.
        strides: Vec<u32>,
    },
    /// One tensor `[1, N, 6]`: x1 y1 x2 y2 score class, final (YOLOv10 and
    /// models exported with their suppression inside).
    EndToEnd,
    /// A tensor `[1, N, 6 + M]`: as [`Self::EndToEnd`], then the coefficients of a mask, final;
    /// and prototypes of masks `[1, M, H, W]` (YOLO26-seg).
    SegEndToEnd {
        /// M.
        num_coefficients: usize,
    },
    /// One tensor `[1, N, 6 + K * D]`: as [`Self::EndToEnd`], then the keypoints as in [`Self::Pose`],
    /// final (YOLO26-pose).
    PoseEndToEnd {
        /// K.
        num_keypoints: usize,
        /// D, 2 or 3.
        num_values: usize,
    },
    /// One tensor `[1, N, 7]`: cx cy w h score class and the angle of a rotated box as in
    /// [`Self::Obb`], final (YOLO26-OBB, and oriented boxes exported with their suppression
    /// inside).
    ObbEndToEnd,
    /// One tensor `[N, 7]`: index of the image, x1 y1 x2 y2 class score, final (YOLOv7 exported
    /// with `--end2end`). There is one image.
    V7EndToEnd,
    /// Boxes with their scores `[1, N, 5]`, x1 y1 x2 y2 score, and labels `[1, N]`, final
    /// (detectors exported by mmdeploy). Rows with a negative label are padding.
    Mmdeploy,
    /// As [`Self::Mmdeploy`], and a map of its mask for each row `[1, N, H, W]` (Mask R-CNN and
    /// others, exported by mmdeploy).
    MmdeploySeg,
    /// Final boxes `[1, N, 4]` and scores (RT-DETR): `[1, N, C]`, or `[1, N]` with labels `[1, N]`.
    Detr {
        /// The meaning of the four numbers of a box.
        boxes: DetrBoxes,
        /// Whether scores are logits, to be passed through a sigmoid.
        logits: bool,
        /// The classes of a row without a label.
        classes: DetrClasses,
    },
    /// Final boxes `[1, N, 4]`, scores `[1, N, C]` as of [`Self::Detr`], and a map of its mask for
    /// each row `[1, N, H, W]` (RF-DETR-Seg).
    DetrSeg {
        /// The meaning of the four numbers of a box.
        boxes: DetrBoxes,
        /// Whether scores are logits, to be passed through a sigmoid.
        logits: bool,
        /// The classes of a row.
        classes: DetrClasses,
    },
}

/// An output tensor of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YoloOutput {
    /// Its meaning, for messages.
    pub what: &'static str,
    /// The shapes that it may have; `None` is any length.
    pub shapes: Vec<Vec<Option<usize>>>,
    /// Whether its elements are integers: labels.
    pub is_labels: bool,
}

impl YoloOutput {
    fn new<const N: usize>(what: &'static str, shape: [Option<usize>; N]) -> Self {
        Self { what, shapes: vec![shape.to_vec()], is_labels: false }
    }

    fn labels() -> Self {
        Self { is_labels: true, ..Self::new("labels", [Some(1), None]) }
    }
}

/// The columns of rows that are final, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinalRows {
    /// Columns of a row.
    pub num_columns: usize,
    /// The first of the four numbers of its box: corners, or centre and size of a rotated box.
    pub first_of_box: usize,
    /// Its score.
    pub score: usize,
    /// Its class; `None`: labels are the second tensor.
    pub class: Option<usize>,
    /// The angle of a rotated box.
    pub angle: Option<usize>,
    /// Whether the shape is `[1, N, num_columns]`, not `[N, num_columns]`.
    pub has_batch: bool,
}

impl YoloLayout {
    /// Whether the boxes are rotated: candidates of `RotatedBox2d`.
    pub fn has_rotated_boxes(&self) -> bool {
        matches!(self, Self::Obb | Self::ObbEndToEnd)
    }

    /// Whether detections have masks: prototypes or maps of masks are the last output.
    pub fn has_masks(&self) -> bool {
        self.has_mask_maps() || matches!(self, Self::Seg { .. } | Self::SegEndToEnd { .. })
    }

    /// Whether the last output has a map of its mask for each row, and no coefficients.
    pub fn has_mask_maps(&self) -> bool {
        matches!(self, Self::MmdeploySeg | Self::DetrSeg { .. })
    }

    /// Where the first output has keypoints; `None` of detections without keypoints.
    pub fn keypoints(&self, num_classes: usize) -> Option<KeypointRows> {
        match *self {
            Self::Pose { num_keypoints, num_values } => {
                Some(KeypointRows::of_planes(num_classes, num_keypoints, num_values))
            }
            Self::PoseEndToEnd { num_keypoints, num_values } => {
                Some(KeypointRows::of_final_rows(num_keypoints, num_values))
            }
            _ => None,
        }
    }

    /// Planes behind the class scores that decoding does not read: coefficients of masks, keypoints.
    pub fn num_further_planes(&self) -> usize {
        match *self {
            Self::Seg { num_coefficients } => num_coefficients,
            Self::Pose { num_keypoints, num_values } => num_keypoints * num_values,
            _ => 0,
        }
    }

    /// Whether decoding depends on the size of the network's input.
    pub fn needs_input_size(&self) -> bool {
        match self {
            Self::V5Raw { .. } | Self::Yolox { .. } => true,
            Self::Detr { boxes, .. } | Self::DetrSeg { boxes, .. } => {
                *boxes == DetrBoxes::CenterNormalized
            }
            _ => false,
        }
    }

    /// Whether the outputs are final: nothing is suppressed.
    pub fn is_end_to_end(&self) -> bool {
        matches!(self, Self::Detr { .. } | Self::DetrSeg { .. }) || self.final_rows().is_some()
    }

    /// Whether the number of rows differs between frames: as many as are left by the suppression
    /// inside of the network.
    pub fn has_varying_rows(&self) -> bool {
        matches!(self, Self::V7EndToEnd | Self::Mmdeploy | Self::MmdeploySeg)
    }

    /// The layout of networks of the same family whose outputs are final.
    pub fn end_to_end(&self) -> Option<Self> {
        match self {
            Self::V8 => Some(Self::EndToEnd),
            Self::Obb => Some(Self::ObbEndToEnd),
            Self::Seg { num_coefficients } => {
                Some(Self::SegEndToEnd { num_coefficients: *num_coefficients })
            }
            &Self::Pose { num_keypoints, num_values } => {
                Some(Self::PoseEndToEnd { num_keypoints, num_values })
            }
            _ => None,
        }
    }

    /// The columns of a layout with a final box in a row.
    pub fn final_rows(&self) -> Option<FinalRows> {
        let corners = FinalRows {
            num_columns: 6,
            first_of_box: 0,
            score: 4,
            class: Some(5),
            angle: None,
            has_batch: true,
        };
        match self {
            Self::EndToEnd => Some(corners),
            Self::SegEndToEnd { num_coefficients } => {
                Some(FinalRows { num_columns: 6 + num_coefficients, ..corners })
            }
            Self::PoseEndToEnd { num_keypoints, num_values } => {
                Some(FinalRows { num_columns: 6 + num_keypoints * num_values, ..corners })
            }
            Self::ObbEndToEnd => Some(FinalRows { num_columns: 7, angle: Some(6), ..corners }),
            Self::V7EndToEnd => Some(FinalRows {
                num_columns: 7,
                first_of_box: 1,
                score: 6,
                has_batch: false,
                ..corners
            }),
            Self::Mmdeploy | Self::MmdeploySeg => {
                Some(FinalRows { num_columns: 5, class: None, ..corners })
            }
            _ => None,
        }
    }

    /// The output tensors in their order. `has_labels`: of `detr`, whether labels are a third
    /// tensor.
    ///
    /// # Errors
    /// `Argument` when a stride does not divide the size of the network's input.
    pub fn outputs(
        &self,
        num_classes: usize,
        network: Size,
        has_labels: bool,
    ) -> Result<Vec<YoloOutput>> {
        let rows = |columns| [Some(1), None, Some(columns)];
        let planes = |planes| [Some(1), Some(planes), None];
        let prototypes = |num| YoloOutput::new("prototypes", [Some(1), Some(num), None, None]);
        let masks = || YoloOutput::new("masks", [Some(1), None, None, None]);
        if let Some(of) = self.final_rows() {
            let shape = rows(of.num_columns)[usize::from(!of.has_batch)..].to_vec();
            let boxes = YoloOutput { what: "detections", shapes: vec![shape], is_labels: false };
            let labels = of.class.is_none().then(YoloOutput::labels);
            let of_masks = match self {
                Self::SegEndToEnd { num_coefficients } => Some(prototypes(*num_coefficients)),
                Self::MmdeploySeg => Some(masks()),
                _ => None,
            };
            return Ok([boxes].into_iter().chain(labels).chain(of_masks).collect());
        }
        Ok(match self {
            Self::V5 => vec![YoloOutput::new("predictions", rows(5 + num_classes))],
            Self::V8 | Self::Pose { .. } => {
                let num = 4 + num_classes + self.num_further_planes();
                vec![YoloOutput::new("predictions", planes(num))]
            }
            Self::Obb => vec![YoloOutput::new("predictions", planes(4 + num_classes + 1))],
            Self::Seg { num_coefficients } => vec![
                YoloOutput::new("predictions", planes(4 + num_classes + num_coefficients)),
                prototypes(*num_coefficients),
            ],
            Self::Yolox { strides } => {
                let cells = strides.iter().map(|&stride| cells(network, stride));
                let cells = cells.map(|of| of.map(|[columns, lines]| columns * lines));
                let num_rows = cells.sum::<Result<usize>>()?;
                let shape = [Some(1), Some(num_rows), Some(5 + num_classes)];
                vec![YoloOutput::new("predictions", shape)]
            }
            Self::V5Raw { levels } => {
                let level = |level: &AnchorLevel| {
                    let (num_anchors, columns) = (level.anchors.len(), 5 + num_classes);
                    let [x, y] = cells(network, level.stride)?;
                    let flat = [1, num_anchors * columns, y, x].map(Some).to_vec();
                    let split = [1, num_anchors, y, x, columns].map(Some).to_vec();
                    Ok(YoloOutput { what: "level", shapes: vec![flat, split], is_labels: false })
                };
                levels.iter().map(level).collect::<Result<_>>()?
            }
            Self::DetrSeg { .. } => vec![
                YoloOutput::new("boxes", rows(4)),
                YoloOutput::new("scores", rows(num_classes)),
                masks(),
            ],
            _ if has_labels => vec![
                YoloOutput::new("boxes", rows(4)),
                YoloOutput::new("scores", [Some(1), None]),
                YoloOutput::labels(),
            ],
            _ => vec![
                YoloOutput::new("boxes", rows(4)),
                YoloOutput::new("scores", rows(num_classes)),
            ],
        })
    }
}

/// Cells of a level along x and y.
///
/// # Errors
/// `Argument` when the stride does not divide the size of the network's input.
fn cells(network: Size, stride: u32) -> Result<[usize; 2]> {
    let sides = [network.width, network.height];
    if stride == 0 || sides.iter().any(|side| side % stride != 0) {
        let message = format!(
            "stride {stride}; a divisor of the network's input {}x{} expected",
            sides[0], sides[1]
        );
        return Err(Error::new(ErrorKind::Argument, "layout", message));
    }
    Ok(sides.map(|side| (side / stride) as usize))
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

/// The classes of a row of DETR-style scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetrClasses {
    /// The class with the largest score: a box is found once.
    Best,
    /// Every class whose score passes, as in the published post-processing of RT-DETR, D-FINE, DEIM
    /// and RF-DETR: a box may be found with several classes.
    All,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::YoloOptions;

    #[test]
    fn every_layout_has_a_name_and_outputs() {
        let network = Size::new(64, 32);
        for (name, kind) in YoloLayout::KINDS {
            let anchors = vec![vec![[1.0, 2.0]]; 3];
            let layout = kind.layout(&YoloOptions { anchors, ..YoloOptions::default() });
            assert_eq!(layout.name(), *name);
            let outputs = layout.outputs(2, network, false).unwrap();
            assert_eq!(
                outputs.len() > 1,
                ["v5_raw", "mmdeploy", "detr"].contains(name) || layout.has_masks(),
                "{name}"
            );
            assert_eq!(layout.has_masks(), kind.outputs.contains("masks"), "{name}");
            let last = outputs.last().map(|of| of.what).unwrap();
            assert_eq!(layout.has_masks(), ["prototypes", "masks"].contains(&last), "{name}");
            assert_eq!(layout.has_mask_maps(), last == "masks", "{name}");
            let keypoints = layout.keypoints(2);
            assert_eq!(keypoints.is_some(), kind.outputs.contains("keypoints"), "{name}");
            if let Some(rows) = keypoints {
                let columns = outputs[0].shapes[0][if rows.is_planes { 1 } else { 2 }];
                assert_eq!(columns, Some(rows.num_columns()), "{name}");
            }
            let is_final = kind.outputs.ends_with("final");
            assert_eq!(layout.is_end_to_end(), is_final, "{name}");
            let is_rotated = kind.outputs.contains("rotated");
            assert_eq!(layout.has_rotated_boxes(), is_rotated, "{name}");
        }
    }

    #[test]
    fn levels_follow_from_the_size_of_the_input() {
        let of = |strides: &[u32], size| {
            let yolox = YoloLayout::Yolox { strides: strides.to_vec() };
            yolox.outputs(80, size, false).map(|outputs| outputs[0].shapes[0][1])
        };
        assert_eq!(of(&[8, 16, 32], Size::new(64, 64)).unwrap(), Some(84));
        assert_eq!(of(&[8, 16, 32, 64], Size::new(64, 64)).unwrap(), Some(85));
        assert!(of(&[7], Size::new(64, 64)).is_err());
        assert!(of(&[0], Size::new(64, 64)).is_err());
    }
}
