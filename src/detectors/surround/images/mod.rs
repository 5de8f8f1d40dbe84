//! The images of the cameras, from their messages to the input of the backbone,
//! [N, 3, H, W].
//!
//! An image is prepared when it arrives, where the caller passes it to
//! [`Detector::prepare`](crate::detectors::Detector::prepare): decompressed, uploaded and
//! resampled into separate memory. When its frame is complete it is copied to its place, on a GPU
//! with those of all cameras beside it that are in the same slot.
//! An image that was not prepared, or with another calibration than its frame has, is
//! resampled into its place directly; the values are the same.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;

pub(in crate::detectors) use cpu::InputImages as CpuImages;
#[cfg(feature = "cuda")]
pub(in crate::detectors) use cuda::InputImages as CudaImages;

use super::STAGE;
use super::cameras::{Camera, no_camera};
use crate::detectors::{FrameInput, Payload};
use det_post_types::{Error, ErrorKind, FrameReport, ImagePayload, Result, Stamp};

/// Prepared images that are kept for each camera: that of the frame that waits for other
/// cameras, and the one after it.
const NUM_PREPARED: usize = 2;

/// Which images of all cameras are prepared, and in which slot of a camera each is. The detectors hold
/// the images themselves.
#[derive(Debug)]
struct Prepared {
    cameras: Vec<[Slot; NUM_PREPARED]>,
}

#[derive(Debug)]
struct Slot {
    /// `None` if the slot holds no image.
    key: Option<Key>,
    /// The durations and bytes of preparing it.
    report: FrameReport,
}

/// What a prepared image depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    /// The stamp of the message, which occurs once in the sequence of a camera.
    stamp: Stamp,
    /// The revision of the camera's view.
    revision: u64,
}

impl Key {
    fn new<M>(message: &FrameInput<'_>, camera: &Camera<M>) -> Self {
        Self { stamp: message.header.stamp, revision: camera.revision() }
    }
}

impl Prepared {
    fn new(num_cameras: usize) -> Self {
        let slot = || Slot { key: None, report: FrameReport::new() };
        Self { cameras: (0..num_cameras).map(|_| [slot(), slot()]).collect() }
    }

    /// Prepares an image in place of the oldest one of its camera: `fill` writes it to the slot of that
    /// number, below [`NUM_PREPARED`].
    fn fill(
        &mut self,
        camera: usize,
        key: Key,
        fill: impl FnOnce(usize, &mut FrameReport) -> Result<()>,
    ) -> Result<()> {
        let oldest = self.cameras.get_mut(camera).and_then(|slots| {
            // An image with the same stamp is replaced, so that there is one of each.
            let age = |slot: &Slot| slot.key.map(|of| (of.stamp != key.stamp, of.stamp));
            slots.iter_mut().enumerate().min_by_key(|(_, slot)| age(slot))
        });
        let (index, slot) = oldest.ok_or_else(|| no_camera(camera))?;
        slot.key = None;
        slot.report = FrameReport::new();
        fill(index, &mut slot.report)?;
        slot.key = Some(key);
        Ok(())
    }

    /// The slot of a prepared image, and the durations and bytes of preparing it.
    fn get(&self, camera: usize, key: Key) -> Option<(usize, &FrameReport)> {
        let mut slots = self.cameras.get(camera)?.iter().enumerate();
        slots.find(|(_, slot)| slot.key == Some(key)).map(|(index, slot)| (index, &slot.report))
    }

    /// Discards the images.
    fn clear(&mut self) {
        self.cameras.as_flattened_mut().iter_mut().for_each(|slot| slot.key = None);
    }
}

/// The image of a message.
fn image<'a>(message: &FrameInput<'a>) -> Result<ImagePayload<'a>> {
    match message.payload {
        Payload::Image(image) => Ok(image),
        Payload::Cloud(_) | Payload::CloudOnDevice(_) | Payload::Tensors(_) => Err(Error::new(
            ErrorKind::Argument,
            STAGE,
            "the input must be an image, found a point cloud or tensors",
        )),
    }
}

/// The view of a camera with an image.
fn view_of<M>(camera: Option<&Camera<M>>) -> Result<&Camera<M>> {
    camera.ok_or_else(|| Error::new(ErrorKind::Uncalibrated, STAGE, "has no view"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(stamp: i64, revision: u64) -> Key {
        Key { stamp: Stamp::from_nanos(stamp), revision }
    }

    #[test]
    fn the_two_newest_images_of_a_camera_are_kept() {
        let mut prepared = Prepared::new(2);
        let mut images = [[0; NUM_PREPARED]; 2];
        let fill = |prepared: &mut Prepared, images: &mut [[i32; NUM_PREPARED]; 2], key, value| {
            prepared.fill(0, key, |slot, report| {
                assert_eq!(*report, FrameReport::new());
                images[0][slot] = value;
                Ok(())
            })
        };
        let found = |prepared: &Prepared, images: &[[i32; NUM_PREPARED]; 2], camera: usize, key| {
            prepared.get(camera, key).map(|(slot, _)| images[camera][slot])
        };
        for (stamp, value) in [(1, 10), (2, 20), (3, 30)] {
            fill(&mut prepared, &mut images, key(stamp, 1), value).unwrap();
        }
        let of_camera = [1, 2, 3].map(|stamp| found(&prepared, &images, 0, key(stamp, 1)));
        assert_eq!(of_camera, [None, Some(20), Some(30)]);
        // Not with another view, nor of another camera.
        assert_eq!(found(&prepared, &images, 0, key(3, 2)), None);
        assert_eq!(found(&prepared, &images, 1, key(3, 1)), None);
        // The same message again, with another view, replaces only its image.
        fill(&mut prepared, &mut images, key(3, 2), 31).unwrap();
        let of_camera = [key(2, 1), key(3, 1), key(3, 2)];
        let of_camera = of_camera.map(|key| found(&prepared, &images, 0, key));
        assert_eq!(of_camera, [Some(20), None, Some(31)]);
        // What fails leaves no image.
        let fails = |_: usize, _: &mut FrameReport| {
            Err(Error::new(ErrorKind::Argument, STAGE, "is not an image"))
        };
        prepared.fill(0, key(4, 2), fails).unwrap_err();
        assert_eq!(found(&prepared, &images, 0, key(4, 2)), None);
        assert_eq!(found(&prepared, &images, 0, key(3, 2)), Some(31));
        prepared.clear();
        assert_eq!(found(&prepared, &images, 0, key(3, 2)), None);
        assert!(prepared.fill(2, key(5, 1), |_, _| Ok(())).is_err(), "there are two cameras");
    }
}
