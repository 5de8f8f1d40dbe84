//! The shapes of a head's tensors and the layout of their rows.

use super::super::argument;
use super::super::kernels::{MAX_OUTPUTS, YoloLevel};
use crate::decode::select::kernels::MAX_FOUND;
use crate::device::cuda::DeviceTensor;
use det_post_types::{AnchorLevel, DetrBoxes, DetrClasses, FinalRows, Result, Size, YoloLayout};

/// A head with tensors of known shapes.
pub(super) struct Head {
    pub kind: Kind,
    pub network: Size,
    pub num_rows: usize,
    pub num_classes: usize,
    pub num_levels: usize,
    pub levels: [YoloLevel; MAX_OUTPUTS],
    pub anchors: Vec<[f32; 2]>,
    pub rows: Option<FinalRows>,
    shapes: Vec<Vec<usize>>,
}

/// The kernels of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    PixelRows,
    CellRows,
    RawRows,
    Planes,
    RotatedPlanes,
    EndToEnd,
    RotatedEndToEnd,
    Detr { scores: DetrScores, normalized: bool, logits: bool },
}

/// How scores of DETR belong to classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetrScores {
    /// One of each class; the best counts.
    Best,
    /// One of each class, for a candidate each.
    All,
    /// One, with a label.
    Labels,
}

impl Kind {
    /// Whether the kernels compare logits.
    pub fn has_logits(self) -> bool {
        matches!(self, Self::RawRows | Self::Detr { logits: true, .. })
    }
}

impl Head {
    /// Checks the shapes of a network's outputs against the layout.
    pub fn new(
        layout: &YoloLayout,
        network: Size,
        num_classes: usize,
        shapes: &[&[usize]],
    ) -> Result<Self> {
        if num_classes == 0 {
            return Err(argument("0 classes, at least 1 required".into()));
        }
        let mut head = Self {
            kind: Kind::PixelRows,
            network,
            num_rows: 0,
            num_classes,
            num_levels: 0,
            levels: [YoloLevel::default(); MAX_OUTPUTS],
            anchors: Vec::new(),
            rows: None,
            shapes: shapes.iter().map(|shape| shape.to_vec()).collect(),
        };
        match layout {
            YoloLayout::V5 => head.num_rows = rows(shapes, 5 + num_classes)?,
            YoloLayout::Yolox { strides } => {
                head.kind = Kind::CellRows;
                head.num_rows = rows(shapes, 5 + num_classes)?;
                head.set_grid(strides)?;
            }
            YoloLayout::V5Raw { levels } => {
                head.kind = Kind::RawRows;
                head.set_raw(levels, shapes)?;
            }
            YoloLayout::V8 | YoloLayout::Seg { .. } | YoloLayout::Pose { .. } => {
                head.kind = Kind::Planes;
                head.num_rows = columns(shapes, 4 + num_classes + layout.num_further_planes())?;
            }
            YoloLayout::Obb => {
                head.kind = Kind::RotatedPlanes;
                head.num_rows = columns(shapes, 4 + num_classes + 1)?;
            }
            YoloLayout::Detr { boxes, logits, classes }
            | YoloLayout::DetrSeg { boxes, logits, classes } => {
                head.set_detr((*boxes, *logits, *classes), shapes)?;
            }
            YoloLayout::EndToEnd
            | YoloLayout::SegEndToEnd { .. }
            | YoloLayout::PoseEndToEnd { .. }
            | YoloLayout::ObbEndToEnd
            | YoloLayout::V7EndToEnd
            | YoloLayout::Mmdeploy
            | YoloLayout::MmdeploySeg => head.set_final(layout, shapes)?,
        }
        if head.max_found() > MAX_FOUND {
            return Err(argument(format!(
                "{} rows, {} candidates exceed the limit of {MAX_FOUND}",
                head.num_rows,
                head.max_found()
            )));
        }
        Ok(head)
    }

    /// The number of candidates, if all pass.
    pub fn max_found(&self) -> usize {
        match self.kind {
            Kind::Detr { scores: DetrScores::All, .. } => {
                self.num_rows.saturating_mul(self.num_classes)
            }
            _ => self.num_rows,
        }
    }

    /// Adds the levels of a grid, whose cells must be the rows.
    fn set_grid(&mut self, strides: &[u32]) -> Result<()> {
        let mut num_rows = 0;
        for &stride in strides {
            num_rows += self.add_level(num_rows, stride)?;
        }
        if num_rows != self.num_rows {
            return Err(argument(format!(
                "{} rows; {num_rows} expected for strides {strides:?}",
                self.num_rows
            )));
        }
        Ok(())
    }

    /// Adds a level and returns its number of cells.
    fn add_level(&mut self, first_row: usize, stride: u32) -> Result<usize> {
        let Size { width, height } = self.network;
        if stride == 0 || width % stride != 0 || height % stride != 0 {
            return Err(argument(format!(
                "stride {stride}; a divisor of the network's input {width}x{height} expected"
            )));
        }
        let (num_columns, num_lines) = (width / stride, height / stride);
        let Some(level) = self.levels.get_mut(self.num_levels) else {
            return Err(argument(format!("the levels exceed the limit of {MAX_OUTPUTS}")));
        };
        *level = YoloLevel {
            first_row: u32::try_from(first_row).unwrap_or(u32::MAX),
            num_columns,
            num_cells: num_columns.saturating_mul(num_lines),
            first_anchor: self.anchors.len() as u32,
            stride: stride as f32,
            channels_last: 0,
        };
        self.num_levels += 1;
        Ok(num_columns as usize * num_lines as usize)
    }

    fn set_raw(&mut self, levels: &[AnchorLevel], shapes: &[&[usize]]) -> Result<()> {
        if shapes.len() != levels.len() || levels.is_empty() {
            let (found, expected) = (shapes.len(), levels.len());
            return Err(argument(format!("{found} outputs; {expected} expected, one a level")));
        }
        for (level, &shape) in levels.iter().zip(shapes) {
            let position = self.num_levels;
            let num_cells = self.add_level(self.num_rows, level.stride)?;
            let (num_anchors, length) = (level.anchors.len(), 5 + self.num_classes);
            let num_columns = self.levels[position].num_columns as usize;
            let num_lines = num_cells / num_columns;
            let first = [1, num_anchors * length, num_lines, num_columns];
            let last = [1, num_anchors, num_lines, num_columns, length];
            if shape != first && shape != last {
                return Err(misfit(&[shape], &format!("{first:?} or {last:?}")));
            }
            self.levels[position].channels_last = u32::from(shape == last);
            self.anchors.extend_from_slice(&level.anchors);
            self.num_rows += num_anchors * num_cells;
        }
        Ok(())
    }

    fn set_final(&mut self, layout: &YoloLayout, shapes: &[&[usize]]) -> Result<()> {
        let Some(rows) = layout.final_rows() else {
            return Err(misfit(shapes, "final rows"));
        };
        let row = |shape: &[usize]| match (shape, rows.has_batch) {
            (&[1, num, columns], true) | (&[num, columns], false) => {
                (columns == rows.num_columns).then_some(num)
            }
            _ => None,
        };
        let num_rows = match (shapes, rows.class) {
            (&[boxes], Some(_)) => row(boxes),
            (&[boxes, labels], None) => row(boxes).filter(|&num| *labels == [1, num]),
            _ => None,
        };
        let Some(num_rows) = num_rows else {
            let num = rows.num_columns;
            let labels = if rows.class.is_none() { " and labels [1, N]" } else { "" };
            let batch = if rows.has_batch { "1, " } else { "" };
            return Err(misfit(shapes, &format!("[{batch}N, {num}]{labels}")));
        };
        let is_rotated = rows.angle.is_some();
        self.kind = if is_rotated { Kind::RotatedEndToEnd } else { Kind::EndToEnd };
        self.num_rows = num_rows;
        self.rows = Some(rows);
        Ok(())
    }

    fn set_detr(
        &mut self,
        (boxes, logits, classes): (DetrBoxes, bool, DetrClasses),
        shapes: &[&[usize]],
    ) -> Result<()> {
        let num_classes = self.num_classes;
        let of_classes = match classes {
            DetrClasses::Best => DetrScores::Best,
            DetrClasses::All => DetrScores::All,
        };
        let (num_rows, scores) = match *shapes {
            [&[1, num_rows, 4], &[1, n, c]] if (n, c) == (num_rows, num_classes) => {
                (num_rows, of_classes)
            }
            [&[1, num_rows, 4], &[1, n], &[1, l]] if n == num_rows && l == num_rows => {
                (num_rows, DetrScores::Labels)
            }
            _ => {
                let expected = format!(
                    "boxes [1, N, 4] and scores [1, N, {num_classes}], or scores [1, N] and labels"
                );
                return Err(misfit(shapes, &expected));
            }
        };
        let normalized = boxes == DetrBoxes::CenterNormalized;
        self.kind = Kind::Detr { scores, normalized, logits };
        self.num_rows = num_rows;
        Ok(())
    }

    /// Refuses tensors of other shapes.
    pub fn check(&self, outputs: &[&DeviceTensor]) -> Result<()> {
        let is_alike = |(output, shape): (&&DeviceTensor, &Vec<usize>)| output.shape() == shape;
        if outputs.len() == self.shapes.len() && outputs.iter().zip(&self.shapes).all(is_alike) {
            return Ok(());
        }
        let found: Vec<&[usize]> = outputs.iter().map(|output| output.shape()).collect();
        Err(misfit(&found, &format!("{:?}", self.shapes)))
    }
}

/// The rows of one tensor `[1, N, length]`.
fn rows(shapes: &[&[usize]], length: usize) -> Result<usize> {
    match *shapes {
        [&[1, num_rows, found]] if found == length => Ok(num_rows),
        _ => Err(misfit(shapes, &format!("[1, N, {length}]"))),
    }
}

/// The columns of one tensor `[1, num_planes, N]`.
fn columns(shapes: &[&[usize]], num_planes: usize) -> Result<usize> {
    match *shapes {
        [&[1, found, num_columns]] if found == num_planes => Ok(num_columns),
        _ => Err(misfit(shapes, &format!("[1, {num_planes}, N]"))),
    }
}

fn misfit(shapes: &[&[usize]], expected: &str) -> det_post_types::Error {
    argument(format!("outputs {shapes:?}; {expected} expected"))
}
