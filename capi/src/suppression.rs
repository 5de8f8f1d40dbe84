//! Suppression of boxes.

use det_post_ops::nms::{Workspace as NmsWorkspace, suppress_2d, suppress_3d, suppress_rotated};
use det_post_types::{
    Box2d, Box3d, Candidate, CircleThreshold, ClassMode, Kept, Nms2d, Nms3d, NmsBev, NmsBevFast,
    NmsCircle, NmsFast, NmsIou, NmsIou3d, NmsRotated, NmsSoft, Object3d, RotatedBox2d, SoftDecay,
};

use super::call::{Call, Const, In, Out, run};
use super::gpu::{Addresses, Gpu};
use super::status::{Failure, Status};
use super::workspace::{Opened, WORKSPACES, Workspace};

/// Greedy by IoU of axis-aligned boxes, as torchvision.
pub const SUPPRESS_IOU: u32 = 1;
/// By IoU of axis-aligned boxes in one pass: a suppressed box still suppresses others.
pub const SUPPRESS_FAST: u32 = 2;
/// Axis-aligned boxes lower scores: `score * (1 - iou)` from the threshold on.
pub const SUPPRESS_SOFT_LINEAR: u32 = 3;
/// Axis-aligned boxes lower scores: `score * exp(-iou^2 / sigma)`.
pub const SUPPRESS_SOFT_GAUSSIAN: u32 = 4;
/// Greedy by IoU of rotated boxes in a plane.
pub const SUPPRESS_ROTATED: u32 = 5;
/// Greedy by distance of centres, below a radius in metres, as Autoware.
pub const SUPPRESS_CIRCLE: u32 = 6;
/// Greedy by squared distance of centres, at most a threshold, as mmdet3d's `circle_nms`.
pub const SUPPRESS_CIRCLE_SQUARED: u32 = 7;
/// Greedy by IoU of footprints in the bird's-eye view.
pub const SUPPRESS_BEV: u32 = 8;
/// By IoU of footprints in one pass, as Autoware.
pub const SUPPRESS_BEV_FAST: u32 = 9;
/// Greedy by IoU of volumes.
pub const SUPPRESS_IOU_3D: u32 = 10;

/// `suppression.class_mode`: every box suppresses every other.
pub const CLASSES_AGNOSTIC: u32 = 0;
/// `suppression.class_mode`: boxes suppress boxes of their class.
pub const CLASSES_AWARE: u32 = 1;
/// `suppression.class_mode`: boxes suppress boxes whose classes have the same group.
pub const CLASSES_GROUPS: u32 = 2;

/// How boxes are suppressed. In host memory, whatever the device. Set what is not used to 0.
#[repr(C)]
pub struct Suppression {
    /// One of `DET_POST_SUPPRESS_…`.
    pub kind: u32,
    /// One of `DET_POST_CLASSES_…`.
    pub class_mode: u32,
    /// Of `DET_POST_CLASSES_GROUPS`: the group of each class.
    pub class_groups: In<u32>,
    /// Number of `class_groups`.
    pub num_class_groups: usize,
    /// What a box is suppressed above (circles: below): one for all classes or, for boxes in
    /// space, one per class; the class of the better box decides. Not read by `…_SOFT_GAUSSIAN`.
    pub thresholds: In<f32>,
    /// Number of `thresholds`.
    pub num_thresholds: usize,
    /// Of `…_IOU` and `…_SOFT_…`: 0, or 1 for boxes whose corners are whole pixels.
    pub offset: u32,
    /// Of `…_IOU`: 1 if only boxes with a score above `score_threshold` are eligible, else 0.
    pub has_score_threshold: u32,
    /// See `has_score_threshold`.
    pub score_threshold: f32,
    /// Of `…_SOFT_GAUSSIAN`: the width of the decay, above 0.
    pub sigma: f32,
    /// Of `…_SOFT_…`: boxes whose score decays below this are dropped, except the top box.
    pub min_score: f32,
    /// Of `…_BEV` and `…_BEV_FAST`: boxes whose centres are farther apart do not suppress each
    /// other; 0 is no limit.
    pub search_distance_m: f32,
    /// Of `…_IOU`: the maximum number of kept boxes; 0 is no limit.
    pub max_num: usize,
    /// Of `…_BEV` and `…_BEV_FAST`: pairs of classes that do not suppress each other.
    pub forbidden_pairs: In<u32>,
    /// Number of pairs in `forbidden_pairs`.
    pub num_forbidden_pairs: usize,
    /// Of `…_BEV_FAST`: pairs of classes that are compared at any distance.
    pub unlimited_pairs: In<u32>,
    /// Number of pairs in `unlimited_pairs`.
    pub num_unlimited_pairs: usize,
    /// For later versions; 0.
    pub reserved: [u64; 4],
}

/// Boxes with scores, in any order.
#[repr(C)]
pub struct Boxes {
    /// `num_boxes` times `box_len` values: 4 of axis-aligned boxes (x1, y1, x2, y2), 5 of rotated
    /// boxes (cx, cy, width, height, turn of the width from +x towards +y in radians), 7 of boxes
    /// in space (x, y, z of the centre, length, width, height, yaw).
    pub boxes: In<f32>,
    /// A score per box.
    pub scores: In<f32>,
    /// A class per box; `NULL`: all are of class 0.
    pub classes: In<u32>,
    /// Number of boxes, below 2^32.
    pub num_boxes: usize,
    /// Values of a box, as the kind of suppression takes them.
    pub box_len: usize,
}

/// The boxes that a suppression keeps, best first: score descending, then class, then position.
#[repr(C)]
pub struct Survivors {
    /// Positions among the boxes.
    pub indices: Const<i64>,
    /// Their scores, which `DET_POST_SUPPRESS_SOFT_…` lowers.
    pub scores: Const<f32>,
    /// Number of survivors.
    pub num_survivors: usize,
}

/// The memory of suppressions, which grows to the largest call.
#[derive(Default)]
pub(super) struct Memory {
    aligned: Vec<Candidate<Box2d>>,
    rotated: Vec<Candidate<RotatedBox2d>>,
    in_space: Vec<Candidate<Object3d>>,
    workspace: Option<NmsWorkspace>,
    keep: Vec<Kept>,
    indices: Vec<i64>,
    scores: Vec<f32>,
    public: Option<Survivors>,
}

/// A suppression, by the boxes that it takes.
enum Kind {
    Aligned(Nms2d),
    Rotated(Nms2d),
    InSpace(Nms3d),
}

impl Suppression {
    fn read(&self, call: &Call) -> Result<Kind, Failure> {
        if self.reserved != [0; 4] {
            return Err(Failure::argument("suppression.reserved is not 0"));
        }
        let thresholds = call.slice(self.thresholds, self.num_thresholds, "thresholds")?.to_vec();
        let single = || match *thresholds {
            [threshold] => Ok(threshold),
            _ => Err(Failure::argument(format!(
                "found {} thresholds, expected one",
                thresholds.len()
            ))),
        };
        let class_mode = self.class_mode(call)?;
        let pairs = |pairs: In<u32>, num: usize, name: &str| {
            let pairs = call.slice(pairs, num.saturating_mul(2), name)?;
            Ok::<_, Failure>(pairs.as_chunks().0.to_vec())
        };
        let forbidden_pairs =
            pairs(self.forbidden_pairs, self.num_forbidden_pairs, "forbidden_pairs")?;
        let unlimited_pairs =
            pairs(self.unlimited_pairs, self.num_unlimited_pairs, "unlimited_pairs")?;
        let search_distance_m =
            if self.search_distance_m == 0.0 { f32::INFINITY } else { self.search_distance_m };
        let offset = u8::try_from(self.offset).unwrap_or(u8::MAX);
        let soft = |decay, class_mode| {
            Kind::Aligned(Nms2d::Soft(NmsSoft {
                decay,
                min_score: self.min_score,
                offset,
                class_mode,
            }))
        };
        let circle = |reading, class_mode, thresholds| {
            Kind::InSpace(Nms3d::Circle(NmsCircle { thresholds, reading, class_mode }))
        };
        Ok(match self.kind {
            SUPPRESS_IOU => Kind::Aligned(Nms2d::Iou(NmsIou {
                iou_threshold: single()?,
                offset,
                class_mode,
                score_threshold: (self.has_score_threshold != 0).then_some(self.score_threshold),
                max_num: if self.max_num == 0 { usize::MAX } else { self.max_num },
            })),
            SUPPRESS_FAST => {
                Kind::Aligned(Nms2d::Fast(NmsFast { iou_threshold: single()?, class_mode }))
            }
            SUPPRESS_SOFT_LINEAR => {
                soft(SoftDecay::Linear { iou_threshold: single()? }, class_mode)
            }
            SUPPRESS_SOFT_GAUSSIAN => soft(SoftDecay::Gaussian { sigma: self.sigma }, class_mode),
            SUPPRESS_ROTATED => {
                Kind::Rotated(Nms2d::Rotated(NmsRotated { iou_threshold: single()?, class_mode }))
            }
            SUPPRESS_CIRCLE => circle(CircleThreshold::Radius, class_mode, thresholds),
            SUPPRESS_CIRCLE_SQUARED => {
                circle(CircleThreshold::SquaredDistance, class_mode, thresholds)
            }
            SUPPRESS_BEV => Kind::InSpace(Nms3d::Bev(NmsBev {
                iou_thresholds: thresholds,
                search_distance_m,
                forbidden_pairs,
                class_mode,
            })),
            SUPPRESS_BEV_FAST => Kind::InSpace(Nms3d::BevFast(NmsBevFast {
                iou_thresholds: thresholds,
                search_distance_m,
                unlimited_pairs,
                forbidden_pairs,
                class_mode,
            })),
            SUPPRESS_IOU_3D => {
                Kind::InSpace(Nms3d::Iou3d(NmsIou3d { iou_thresholds: thresholds, class_mode }))
            }
            other => {
                return Err(Failure::argument(format!("suppression.kind {other} is not known")));
            }
        })
    }

    fn class_mode(&self, call: &Call) -> Result<ClassMode, Failure> {
        match self.class_mode {
            CLASSES_AGNOSTIC => Ok(ClassMode::Agnostic),
            CLASSES_AWARE => Ok(ClassMode::Aware),
            CLASSES_GROUPS => {
                let groups =
                    call.slice(self.class_groups, self.num_class_groups, "class_groups")?;
                Ok(ClassMode::Groups(groups.to_vec()))
            }
            other => Err(Failure::argument(format!("class_mode {other} is not known"))),
        }
    }
}

impl Boxes {
    fn check_sizes(&self, expected: usize) -> Result<(), Failure> {
        let Self { num_boxes, box_len, .. } = *self;
        if box_len != expected {
            let message = format!("boxes of {box_len} values; this suppression takes {expected}");
            return Err(Failure::argument(message));
        }
        if u32::try_from(num_boxes).is_err() {
            let message = format!("{num_boxes} boxes exceed the limit of 2^32 - 1");
            return Err(Failure::argument(message));
        }
        Ok(())
    }

    /// Writes the boxes of `N` numbers to `candidates`.
    fn read<B, const N: usize>(
        &self,
        call: &Call,
        candidates: &mut Vec<Candidate<B>>,
        bbox: impl Fn([f32; N]) -> B,
    ) -> Result<(), Failure> {
        self.check_sizes(N)?;
        let boxes = call.slice(self.boxes, self.num_boxes * N, "boxes.boxes")?.as_chunks().0;
        let scores = call.slice(self.scores, self.num_boxes, "boxes.scores")?;
        let classes = call.slice_or_null(self.classes, self.num_boxes, "boxes.classes")?;
        candidates.clear();
        candidates.extend((0..).zip(boxes.iter().zip(scores)).map(
            |(source, (&numbers, &score))| {
                let class = classes.map_or(0, |classes| classes[source as usize]);
                Candidate { bbox: bbox(numbers), score, class, source }
            },
        ));
        Ok(())
    }
}

fn object([x, y, z, length_m, width_m, height_m, yaw_rad]: [f32; 7]) -> Object3d {
    let bbox = Box3d { center: [x, y, z], length_m, width_m, height_m, yaw_rad };
    Object3d { bbox, ..Object3d::default() }
}

impl Boxes {
    /// The addresses of boxes of `N` numbers on a GPU.
    fn addresses<const N: usize>(&self) -> Result<Addresses, Failure> {
        self.check_sizes(N)?;
        for (name, array) in [("boxes.boxes", self.boxes), ("boxes.scores", self.scores)] {
            if array.is_null() && self.num_boxes > 0 {
                return Err(Failure::null(name));
            }
        }
        Ok(Addresses {
            boxes: self.boxes.number(),
            scores: self.scores.number(),
            classes: self.classes.number(),
            num_boxes: self.num_boxes,
            box_len: N,
        })
    }
}

impl Memory {
    fn suppress_on(
        &mut self,
        gpu: &mut Gpu,
        call: &Call,
        suppression: &Suppression,
        boxes: &Boxes,
    ) -> Result<Const<Survivors>, Failure> {
        let found = match suppression.read(call)? {
            Kind::Aligned(nms) => {
                let mut session = gpu.aligned.take();
                let found = gpu.suppress(&mut session, &boxes.addresses::<4>()?, &nms);
                gpu.aligned = session;
                found?
            }
            Kind::Rotated(nms) => {
                let mut session = gpu.rotated.take();
                let found = gpu.suppress(&mut session, &boxes.addresses::<5>()?, &nms);
                gpu.rotated = session;
                found?
            }
            Kind::InSpace(nms) => {
                let mut session = gpu.in_space.take();
                let found = gpu.suppress(&mut session, &boxes.addresses::<7>()?, &nms);
                gpu.in_space = session;
                found?
            }
        };
        Ok(Const::one(self.public.insert(Survivors {
            indices: Const::on_device(found.indices),
            scores: Const::on_device(found.scores),
            num_survivors: found.num,
        })))
    }

    fn suppress(
        &mut self,
        call: &Call,
        suppression: &Suppression,
        boxes: &Boxes,
    ) -> Result<Const<Survivors>, Failure> {
        let Self { aligned, rotated, in_space, workspace, keep, indices, scores, public } = self;
        let workspace = workspace.get_or_insert_with(|| NmsWorkspace::with_capacity(0));
        match suppression.read(call)? {
            Kind::Aligned(nms) => {
                boxes.read(call, aligned, |[x1, y1, x2, y2]| Box2d { x1, y1, x2, y2 })?;
                suppress_2d(aligned, &nms, workspace, keep)?;
            }
            Kind::Rotated(nms) => {
                boxes.read(call, rotated, |[cx, cy, width, height, angle_rad]| RotatedBox2d {
                    cx,
                    cy,
                    width,
                    height,
                    angle_rad,
                })?;
                suppress_rotated(rotated, &nms, workspace, keep)?;
            }
            Kind::InSpace(nms) => {
                boxes.read(call, in_space, object)?;
                suppress_3d(in_space, &nms, workspace, keep)?;
            }
        }
        indices.clear();
        indices.extend(keep.iter().map(|kept| i64::from(kept.index)));
        scores.clear();
        scores.extend(keep.iter().map(|kept| kept.score));
        Ok(Const::one(public.insert(Survivors {
            indices: Const::of(indices),
            scores: Const::of(scores),
            num_survivors: keep.len(),
        })))
    }
}

/// Suppresses boxes. A box with a value that is not finite, or a score that is NaN, is neither
/// kept nor suppresses others.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_suppress(
    workspace: Workspace,
    suppression: In<Suppression>,
    boxes: In<Boxes>,
    survivors: Out<Const<Survivors>>,
) -> Status {
    run(workspace.id, |call| {
        call.check_out(survivors, "survivors")?;
        let (suppression, boxes) =
            (call.one(suppression, "suppression")?, call.one(boxes, "boxes")?);
        let found = WORKSPACES.with(workspace.id, |opened| {
            let Opened { gpu, suppression: memory, .. } = opened;
            match gpu {
                None => memory.suppress(call, suppression, boxes),
                Some(gpu) => memory.suppress_on(gpu, call, suppression, boxes),
            }
        })?;
        call.write(survivors, found, "survivors")
    })
}
