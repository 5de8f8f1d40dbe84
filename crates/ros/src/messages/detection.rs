//! Common parts of the detections of `vision_msgs` 4.x in images and in space.

use super::field::{Field, record, write_all};
use crate::cdr::{Reader, Sequence, Writer};
use det_post_types::{Error, ErrorKind, Header, Result};

record! {
    /// `geometry_msgs/Pose`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Pose {
        /// x, y, z.
        pub position: [f64; 3],
        /// Quaternion x, y, z, w.
        pub orientation: [f64; 4],
    }
}

impl Pose {
    /// A position with a counter-clockwise rotation about z.
    pub fn from_yaw(position: [f64; 3], yaw_rad: f64) -> Self {
        let (sin, cos) = libm::sincos(0.5 * yaw_rad);
        Self { position, orientation: [0.0, 0.0, sin, cos] }
    }

    /// Heading of the x axis in the xy plane, counter-clockwise from +x, in
    /// (-pi, pi].
    pub fn yaw_rad(&self) -> f64 {
        let [x, y, z, w] = self.orientation;
        libm::atan2(2.0 * (w * z + x * y), w * w + x * x - y * y - z * z)
    }
}

record! {
    /// `vision_msgs/ObjectHypothesisWithPose`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Hypothesis<'a> {
        /// The class. This crate writes its name.
        pub class_id: &'a str,
        /// Score, by convention in [0, 1].
        pub score: f64,
        /// Pose of the object under this hypothesis.
        pub pose: Pose,
        /// 6x6 covariance of the pose, row by row: x, y, z, then the rotations
        /// about x, y, z. All zero means unknown.
        pub covariance: [f64; 36],
    }
}

/// The hypothesis with the highest score, the first of equals; NaN is lower than every number.
/// On the wire a sequence, which is written with at most one.
impl<'a> Field<'a> for Option<Hypothesis<'a>> {
    const MIN_SIZE: usize = 4;

    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let mut best: Self = None;
        for _ in 0..reader.sequence_len(Hypothesis::MIN_SIZE)? {
            let next = Hypothesis::read(reader)?;
            if best.is_none_or(|best| next.score > best.score || best.score.is_nan()) {
                best = Some(next);
            }
        }
        Ok(best)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        write_all(writer, self.as_slice());
    }
}

/// A detection of `vision_msgs`.
pub trait Detection<'a>: Field<'a> {
    /// The ROS name of an array of them.
    const ARRAY_TYPE: &'static str;
}

/// An array of detections that are decoded one by one.
#[derive(Clone, Debug)]
pub struct DetectionArray<'a, D> {
    /// Stamp and frame.
    pub header: Header<'a>,
    /// The detections.
    pub detections: Sequence<'a, D>,
}

impl<'a, D: Detection<'a>> DetectionArray<'a, D> {
    /// The ROS name.
    pub const TYPE: &'static str = D::ARRAY_TYPE;

    /// Decodes a message.
    ///
    /// # Errors
    /// `Message` when the bytes are not an array of detections. A detection that
    /// does not decode is a separate error.
    pub fn decode(cdr: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(Self::TYPE, cdr)?;
        let header = Field::read(&mut reader)?;
        Ok(Self { header, detections: Sequence::new(reader, D::MIN_SIZE, D::read)? })
    }

    /// Encodes detections as they are into `bytes`, replacing the content.
    ///
    /// # Errors
    /// `Message` when the message exceeds 4 GiB.
    pub fn encode_as_is(header: &Header<'_>, detections: &[D], bytes: &mut Vec<u8>) -> Result<()> {
        write_array(Self::TYPE, header, detections, bytes, |detection, writer| {
            detection.write(writer);
            Ok(())
        })
    }
}

/// Encodes an array of detections into `bytes`, replacing the content: `header`,
/// then each detection by `write`.
pub(super) fn write_array<T>(
    message_type: &'static str,
    header: &Header<'_>,
    detections: &[T],
    bytes: &mut Vec<u8>,
    write: impl Fn(&T, &mut Writer<'_>) -> Result<()>,
) -> Result<()> {
    let mut writer = Writer::new(bytes);
    header.write(&mut writer);
    writer.sequence_len(detections.len());
    detections.iter().try_for_each(|detection| write(detection, &mut writer))?;
    writer.finish(message_type)
}

/// The name of `class`.
pub(super) fn class_name<'a, S: AsRef<str>>(
    class: u32,
    class_names: &'a [S],
    message_type: &'static str,
) -> Result<&'a str> {
    match class_names.get(class as usize) {
        Some(name) => Ok(name.as_ref()),
        None => Err(Error::new(
            ErrorKind::Argument,
            message_type,
            format!("class {class} of a detection has no name, there are {}", class_names.len()),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaw_round_trips() {
        for yaw in [0.0, 0.3, -2.9, 1.6, -1.5, std::f64::consts::PI] {
            let pose = Pose::from_yaw([1.0, 2.0, 3.0], yaw);
            assert!((pose.yaw_rad() - yaw).abs() < 1e-12, "{yaw} {}", pose.yaw_rad());
            let negated = Pose { orientation: pose.orientation.map(|q| -q), ..pose };
            assert!((negated.yaw_rad() - yaw).sin().abs() < 1e-12);
        }
    }

    #[test]
    fn the_best_hypothesis_is_read() {
        // (scores, index of the one that is kept)
        let cases: [(&[f64], Option<usize>); 6] = [
            (&[], None),
            (&[0.1], Some(0)),
            (&[0.1, 0.7, 0.3], Some(1)),
            (&[0.5, 0.5], Some(0)),
            (&[f64::NAN, 0.2], Some(1)),
            (&[0.2, f64::NAN, 0.1], Some(0)),
        ];
        for (scores, expected) in cases {
            let names: Vec<String> = (0..scores.len()).map(|i| i.to_string()).collect();
            let mut bytes = Vec::new();
            let mut writer = Writer::new(&mut bytes);
            writer.sequence_len(scores.len());
            for (name, score) in names.iter().zip(scores) {
                writer.str(name);
                writer.f64(*score);
                writer.f64_array(&[0.0; 7 + 36]);
            }
            writer.finish("test").unwrap();
            let mut reader = Reader::new("test", &bytes).unwrap();
            let best = Option::<Hypothesis<'_>>::read(&mut reader).unwrap();
            assert_eq!(
                best.map(|best| best.class_id),
                expected.map(|i| names[i].as_str()),
                "{scores:?}"
            );
        }
    }
}
