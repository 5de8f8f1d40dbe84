//! Candidates and detections in device memory.

use std::mem::offset_of;

use crate::device::cuda::{Kind, Mirror, Plain, mirrors};
use det_post_types::{Box2d, Box3d, Candidate, Detection2d, Kept, RotatedBox2d};

/// Boxes of only f32 values, so that structs of a box and other 4-byte values are
/// [`Plain`].
///
/// # Safety
/// The type is `repr(C)` and has f32 fields only.
pub unsafe trait Floats: Copy + Default + 'static {
    /// A candidate with such a box in the kernels.
    const CANDIDATE: Kind;
}

/// Boxes of detections in an image.
pub trait Detected: Floats {
    /// A detection with such a box in the kernels.
    const DETECTION: Kind;
}

// SAFETY: repr(C) of 4 f32.
unsafe impl Floats for Box2d {
    const CANDIDATE: Kind = Candidate2d::KIND;
}
// SAFETY: repr(C) of 5 f32.
unsafe impl Floats for RotatedBox2d {
    const CANDIDATE: Kind = CandidateRotated::KIND;
}
// SAFETY: repr(C) of 7 f32.
unsafe impl Floats for Box3d {
    const CANDIDATE: Kind = Candidate3d::KIND;
}
// SAFETY: repr(C) of f32 values and 2 u32: no gap, any bits are a value.
unsafe impl<B: Floats> Plain for Candidate<B> {}
// SAFETY: repr(C) of a u32 and f32 values: no gap, any bits are a value.
unsafe impl<B: Detected> Plain for Detection2d<B> {}
// SAFETY: repr(C) of a u32 and an f32: no gap, any bits are a value.
unsafe impl Plain for Kept {}

/// Velocity and variances of a candidate, zero where the head has no such output:
/// `Motion` in the kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Motion {
    /// Velocity along x and y.
    pub velocity: [f32; 2],
    /// Variances of the centre: x, y, z.
    pub center_variance: [f32; 3],
    /// Of length, width, height.
    pub size_variance: [f32; 3],
    /// Of the yaw.
    pub yaw_variance: f32,
    /// Of the velocity along x and y.
    pub velocity_variance: [f32; 2],
}

// SAFETY: 11 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for Motion {}
mirrors!(Motion, "shared/candidate.cuh", "Motion");

impl<B: Floats> Mirror for Candidate<B> {
    const KIND: Kind = B::CANDIDATE;
}
impl<B: Detected> Mirror for Detection2d<B> {
    const KIND: Kind = B::DETECTION;
}
impl Detected for Box2d {
    const DETECTION: Kind = Detection::KIND;
}
impl Detected for RotatedBox2d {
    const DETECTION: Kind = RotatedDetection::KIND;
}
mirrors!(Kept, "nms/args.cuh", "Kept");

// In kernels a box is its numbers.
impl Mirror for Box2d {
    const KIND: Kind = <[f32; 4]>::KIND;
}
impl Mirror for RotatedBox2d {
    const KIND: Kind = <[f32; 5]>::KIND;
}

/// Declares a struct with the names of the kernels, and which field of a public type each is.
macro_rules! renamed {
    ($name:ident { $($field:ident: $type:ty),+ }
     is $public:ty { $($($cuda:ident).+ = $($rust:ident).+),+ }) => {
        #[repr(C)]
        struct $name {
            $($field: $type,)+
        }

        const _: () = {
            $(
                assert!(
                    offset_of!($public, $($rust).+) == offset_of!($name, $($cuda).+),
                    concat!(stringify!($name), "::", stringify!($($cuda).+), " is elsewhere in Rust")
                );
                same_type::<$public, $name, _>(|it| &it.$($rust).+, |it| &it.$($cuda).+);
            )+
            assert!(size_of::<$public>() == size_of::<$name>());
        };
    };
}

const fn same_type<A, B, T>(_: fn(&A) -> &T, _: fn(&B) -> &T) {}

#[repr(C)]
struct Rank {
    score: f32,
    class_index: u32,
    source: u32,
}

renamed!(Candidate2d { x1: f32, y1: f32, x2: f32, y2: f32, rank: Rank } is Candidate<Box2d> {
    x1 = bbox.x1,
    y1 = bbox.y1,
    x2 = bbox.x2,
    y2 = bbox.y2,
    rank.score = score,
    rank.class_index = class,
    rank.source = source
});
renamed!(CandidateRotated { x: f32, y: f32, width: f32, height: f32, angle: f32, rank: Rank }
is Candidate<RotatedBox2d> {
    x = bbox.cx,
    y = bbox.cy,
    width = bbox.width,
    height = bbox.height,
    angle = bbox.angle_rad,
    rank.score = score,
    rank.class_index = class,
    rank.source = source
});
renamed!(Candidate3d {
    center: [f32; 3], length: f32, width: f32, height: f32, yaw: f32, rank: Rank
} is Candidate<Box3d> {
    center = bbox.center,
    length = bbox.length_m,
    width = bbox.width_m,
    height = bbox.height_m,
    yaw = bbox.yaw_rad,
    rank.score = score,
    rank.class_index = class,
    rank.source = source
});
renamed!(Detection { class_index: u32, score: f32, bbox: Box2d } is Detection2d {
    class_index = class,
    score = score,
    bbox = bbox
});
renamed!(RotatedDetection { class_index: u32, score: f32, bbox: RotatedBox2d }
is Detection2d<RotatedBox2d> {
    class_index = class,
    score = score,
    bbox = bbox
});

mirrors!(Rank, "shared/order.cuh", "Rank");
mirrors!(Candidate2d, "shared/candidate.cuh", "Candidate2d");
mirrors!(CandidateRotated, "shared/candidate.cuh", "CandidateRotated");
mirrors!(Candidate3d, "shared/candidate.cuh", "Candidate3d");
mirrors!(Detection, "shared/candidate.cuh", "Detection");
mirrors!(RotatedDetection, "shared/candidate.cuh", "RotatedDetection");
