//! What the outputs of networks mean.

use det_post_types::{
    Anchor, AnchorDecode, AnchorLevel, CenterDecode, DetrBoxes, DetrClasses, PointRange,
    ScoreThresholds, Size, SizeOrder, YawConvention, YoloLayout,
};

use super::call::{Call, In};
use super::status::Failure;

/// `yolo_decoding.layout`: `[1, N, 5 + C]`, decoded (YOLOv5 and v7 exports).
pub const YOLO_V5: u32 = 1;
/// `yolo_decoding.layout`: a tensor of logits per stride, `[1, A * (5 + C), H, W]` or
/// `[1, A, H, W, 5 + C]`, with `strides` and `anchors` (YOLOv5 without its export head).
pub const YOLO_V5_RAW: u32 = 2;
/// `yolo_decoding.layout`: `[1, 4 + C, N]` (YOLOv8, v9, 11).
pub const YOLO_V8: u32 = 3;
/// `yolo_decoding.layout`: `[1, 4 + C + 1, N]`, rotated boxes (ultralytics' OBB).
pub const YOLO_OBB: u32 = 4;
/// `yolo_decoding.layout`: `[1, N, 5 + C]`, offsets and logarithms, with `strides` (YOLOX).
pub const YOLO_X: u32 = 5;
/// `yolo_decoding.layout`: `[1, N, 6]`, final boxes (YOLOv10).
pub const YOLO_END_TO_END: u32 = 6;
/// `yolo_decoding.layout`: boxes `[1, N, 4]`, centre and size as fractions of the input, and
/// scores `[1, N, C]`, or scores `[1, N]` and labels `[1, N]` (RT-DETR).
pub const YOLO_DETR: u32 = 7;
/// `yolo_decoding.layout`: as `DET_POST_YOLO_DETR`, boxes as corners in pixels of the input.
pub const YOLO_DETR_CORNERS: u32 = 8;

/// What the outputs of a network of the YOLO family mean. In host memory, whatever the device.
#[repr(C)]
pub struct YoloDecoding {
    /// One of `DET_POST_YOLO_…`.
    pub layout: u32,
    /// Pixels per row of the network's input.
    pub input_width: u32,
    /// Rows of the network's input.
    pub input_height: u32,
    /// Number of classes.
    pub num_classes: u32,
    /// Boxes with a score of at least this are candidates.
    pub score_threshold: f32,
    /// Of `…_DETR…`: 1 if scores are logits, else 0.
    pub has_logits: u32,
    /// The maximum number of candidates: the best are kept.
    pub capacity: usize,
    /// Of `…_V5_RAW` and `…_X`: the strides, in the order of the outputs.
    pub strides: In<u32>,
    /// Number of `strides`.
    pub num_strides: usize,
    /// Of `…_V5_RAW`: stride by stride, width and height of each anchor in pixels of the input.
    pub anchors: In<f32>,
    /// Number of anchors per stride.
    pub num_anchors: usize,
    /// For later versions; 0.
    pub reserved: [u64; 4],
}

/// What the maps of a CenterPoint head mean. In host memory, whatever the device.
#[repr(C)]
pub struct CenterDecoding {
    /// x and y of the corner of the map in metres: the smallest of the range.
    pub origin_m: [f32; 2],
    /// Edge lengths of a cell of the map along x and y in metres.
    pub cell_size_m: [f32; 2],
    /// Per task, the number of its classes, which are numbered in the order of tasks.
    pub num_classes_of_tasks: In<u32>,
    /// Number of tasks.
    pub num_tasks: usize,
    /// 1 if heat maps are logits, else 0.
    pub has_logits: u32,
    /// 1 if sizes are length, width, height; 0 for width, length, height.
    pub has_length_first: u32,
    /// 1 if sizes are logarithms, else 0.
    pub has_log_sizes: u32,
    /// 1 if yaws turn clockwise from -y (CenterPoint, Autoware); 0 for counter-clockwise from +x.
    pub has_clockwise_yaw: u32,
    /// 1 if there are velocities, else 0.
    pub has_velocity: u32,
    /// 1 if regression maps are followed by as many logarithms of variances, else 0.
    pub has_variance: u32,
    /// Scores that candidates have at least: one for all classes, or one per class.
    pub score_thresholds: In<f32>,
    /// Number of `score_thresholds`.
    pub num_score_thresholds: usize,
    /// Per class, the minimum norm of sine and cosine; `NULL` for none.
    pub yaw_norm_thresholds: In<f32>,
    /// Number of `yaw_norm_thresholds`.
    pub num_yaw_norm_thresholds: usize,
    /// Centres outside are dropped: smallest x, y, z, then largest; all 0: no range.
    pub center_range_m: [f32; 6],
    /// The maximum number of candidates: the best are kept.
    pub capacity: usize,
    /// For later versions; 0.
    pub reserved: [u64; 4],
}

/// The anchor of a class.
#[repr(C)]
pub struct AnchorSize {
    /// Length, width, height in metres.
    pub size_m: [f32; 3],
    /// Height of the centre in metres.
    pub center_z_m: f32,
}

/// What the maps of an anchor head mean. In host memory, whatever the device.
#[repr(C)]
pub struct AnchorDecoding {
    /// The range of the map: smallest x, y, z, then largest, in metres.
    pub range_m: [f32; 6],
    /// Per class, its anchor.
    pub anchors: In<AnchorSize>,
    /// Number of `anchors`: of classes.
    pub num_anchors: usize,
    /// Yaws of each class's anchors.
    pub rotations_rad: In<f32>,
    /// Number of `rotations_rad`.
    pub num_rotations: usize,
    /// Angle between the two directions.
    pub direction_offset_rad: f32,
    /// 1 if anchors are at the centres of cells; 0 if the first and last are on the border of the
    /// range (OpenPCDet).
    pub has_centered_anchors: u32,
    /// 1 if maps are `[1, H, W, channels]`; 0 for `[1, channels, H, W]`.
    pub has_channels_last: u32,
    /// Scores that candidates have at least: one for all classes, or one per class.
    pub score_thresholds: In<f32>,
    /// Number of `score_thresholds`.
    pub num_score_thresholds: usize,
    /// The maximum number of candidates: the best are kept.
    pub capacity: usize,
    /// For later versions; 0.
    pub reserved: [u64; 4],
}

/// The most classes that a decoder takes.
const MAX_CLASSES: u32 = 1 << 16;

fn check_reserved(reserved: &[u64; 4]) -> Result<(), Failure> {
    if *reserved == [0; 4] {
        return Ok(());
    }
    Err(Failure::argument("decoding.reserved is not 0"))
}

/// Thresholds of `num_classes` classes, from one or one per class.
fn thresholds(
    call: &Call,
    (values, num): (In<f32>, usize),
    num_classes: usize,
) -> Result<ScoreThresholds, Failure> {
    match *call.slice(values, num, "score_thresholds")? {
        [threshold] => Ok(ScoreThresholds::uniform(threshold, num_classes)),
        ref of_classes if of_classes.len() == num_classes => Ok(ScoreThresholds {
            distance_upper_limits_m: Vec::new(),
            per_class: of_classes.iter().map(|&threshold| vec![threshold]).collect(),
        }),
        _ => {
            let message = format!("{num} score_thresholds do not match {num_classes} classes");
            Err(Failure::argument(message))
        }
    }
}

impl YoloDecoding {
    pub(super) fn input_size(&self) -> Size {
        Size::new(self.input_width, self.input_height)
    }

    pub(super) fn layout(&self, call: &Call) -> Result<YoloLayout, Failure> {
        check_reserved(&self.reserved)?;
        if self.num_classes > MAX_CLASSES {
            let message = format!("{} classes exceed the limit of {MAX_CLASSES}", self.num_classes);
            return Err(Failure::argument(message));
        }
        let strides = || call.slice(self.strides, self.num_strides, "strides");
        let (logits, classes) = (self.has_logits != 0, DetrClasses::Best);
        let detr = |boxes| YoloLayout::Detr { boxes, logits, classes };
        Ok(match self.layout {
            YOLO_V5 => YoloLayout::V5,
            YOLO_V5_RAW => {
                let strides = strides()?;
                let num = strides.len().saturating_mul(self.num_anchors).saturating_mul(2);
                let anchors: &[[f32; 2]] = call.slice(self.anchors, num, "anchors")?.as_chunks().0;
                let levels = strides.iter().enumerate().map(|(level, &stride)| AnchorLevel {
                    stride,
                    anchors: anchors[level * self.num_anchors..][..self.num_anchors].to_vec(),
                });
                YoloLayout::V5Raw { levels: levels.collect() }
            }
            YOLO_V8 => YoloLayout::V8,
            YOLO_OBB => YoloLayout::Obb,
            YOLO_X => YoloLayout::Yolox { strides: strides()?.to_vec() },
            YOLO_END_TO_END => YoloLayout::EndToEnd,
            YOLO_DETR => detr(DetrBoxes::CenterNormalized),
            YOLO_DETR_CORNERS => detr(DetrBoxes::CornerPixels),
            other => return Err(Failure::argument(format!("layout {other} is not known"))),
        })
    }
}

impl CenterDecoding {
    pub(super) fn params(&self, call: &Call) -> Result<CenterDecode, Failure> {
        check_reserved(&self.reserved)?;
        let numbers =
            call.slice(self.num_classes_of_tasks, self.num_tasks, "num_classes_of_tasks")?;
        let mut num_classes = 0_u32;
        let mut tasks = Vec::with_capacity(numbers.len());
        for &num in numbers {
            let end = num_classes.saturating_add(num);
            if end > MAX_CLASSES {
                let message = format!(
                    "the classes in num_classes_of_tasks exceed the limit of {MAX_CLASSES}"
                );
                return Err(Failure::argument(message));
            }
            tasks.push((num_classes..end).collect());
            num_classes = end;
        }
        let of_yaw = call.slice(
            self.yaw_norm_thresholds,
            self.num_yaw_norm_thresholds,
            "yaw_norm_thresholds",
        )?;
        let limits = (self.score_thresholds, self.num_score_thresholds);
        let range = (self.center_range_m != [0.0; 6]).then_some(self.center_range_m);
        Ok(CenterDecode {
            origin_m: self.origin_m,
            cell_size_m: self.cell_size_m,
            tasks,
            heatmap_logits: self.has_logits != 0,
            size_order: match self.has_length_first {
                0 => SizeOrder::WidthLengthHeight,
                _ => SizeOrder::LengthWidthHeight,
            },
            size_log: self.has_log_sizes != 0,
            yaw: match self.has_clockwise_yaw {
                0 => YawConvention::CounterClockwise,
                _ => YawConvention::ClockwiseFromMinusY,
            },
            score_thresholds: thresholds(call, limits, num_classes as usize)?,
            yaw_norm_thresholds: of_yaw.to_vec(),
            center_range: range.map(PointRange::from_bounds),
            has_velocity: self.has_velocity != 0,
            has_variance: self.has_variance != 0,
        })
    }
}

impl AnchorDecoding {
    pub(super) fn params(&self, call: &Call) -> Result<AnchorDecode, Failure> {
        check_reserved(&self.reserved)?;
        let anchors = call.slice(self.anchors, self.num_anchors, "anchors")?;
        let rotations = call.slice(self.rotations_rad, self.num_rotations, "rotations_rad")?;
        let limits = (self.score_thresholds, self.num_score_thresholds);
        let anchor =
            |anchor: &AnchorSize| Anchor { size_m: anchor.size_m, center_z_m: anchor.center_z_m };
        Ok(AnchorDecode {
            range: PointRange::from_bounds(self.range_m),
            align_center: self.has_centered_anchors != 0,
            anchors: anchors.iter().map(anchor).collect(),
            rotations_rad: rotations.to_vec(),
            direction_offset_rad: self.direction_offset_rad,
            channels_last: self.has_channels_last != 0,
            score_thresholds: thresholds(call, limits, anchors.len())?,
        })
    }
}
