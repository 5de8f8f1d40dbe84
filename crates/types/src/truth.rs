//! Ground truth: the objects that detections are compared with.

use super::boxes::{Box2d, Box3d};

/// What the sensors that a truth belongs to measured of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Points of a cloud on it.
    Points(u32),
    /// Pixels that show it, in the image with the most of them.
    Pixels(u32),
}

/// An object in space at the stamp of a cloud or of a set of images, in the frame of the
/// cloud or of the vehicle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Truth3d<'a> {
    /// Name of its class.
    pub class_name: &'a str,
    /// The object's number, the same in every frame and for every sensor.
    pub track_id: u32,
    /// Its box.
    pub bbox: Box3d,
    /// Velocity over ground along x and y of that frame, in metres per second.
    pub velocity_mps: [f32; 2],
    /// Its points or its pixels.
    pub evidence: Evidence,
    /// The fraction of the rays or pixels that would show it without occlusion that do, in
    /// the image with the largest fraction; 0 when there are none.
    pub visibility: f32,
}

/// An object in an image, in source-image pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Truth2d<'a, B = Box2d> {
    /// Name of its class.
    pub class_name: &'a str,
    /// The object's number, the same in every frame and for every sensor.
    pub track_id: u32,
    /// The tight box of its outline without occlusion, clipped to the image where it is
    /// axis-aligned.
    pub bbox: B,
    /// The fraction of the pixels that would show it without occlusion that do.
    pub visibility: f32,
    /// Fraction of its unclipped box that is outside the image.
    pub truncation: f32,
    /// Pixels that show it.
    pub num_pixels: u32,
}
