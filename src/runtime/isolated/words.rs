//! Detections and reports as numbers of a message, bit for bit.

use std::time::Duration;

use super::message::Message;
use crate::error::{Error, ErrorKind, Result};
use crate::types::{
    Box2d, Box3d, Count, Detection2d, Detection3d, FrameReport, Object3d, Stage, Transfer,
    Variance3d,
};

/// A detection that goes from process to process.
pub trait Words: Sized {
    /// Appends it.
    fn put(&self, message: &mut Message);

    /// Reads what [`Words::put`] wrote.
    ///
    /// # Errors
    /// `Message` when it ends early.
    fn take(message: &Message) -> Result<Self>;
}

impl Words for Detection2d {
    fn put(&self, message: &mut Message) {
        let Self { class, score, bbox: Box2d { x1, y1, x2, y2 } } = *self;
        message.put_u32(class);
        put_floats(message, &[score, x1, y1, x2, y2]);
    }

    fn take(message: &Message) -> Result<Self> {
        let class = message.u32()?;
        let [score, x1, y1, x2, y2] = floats(message)?;
        Ok(Self { class, score, bbox: Box2d { x1, y1, x2, y2 } })
    }
}

impl Words for Detection3d {
    fn put(&self, message: &mut Message) {
        let Self { class, score, object: Object3d { bbox, velocity_mps, variance } } = *self;
        let Box3d { center, length_m, width_m, height_m, yaw_rad } = bbox;
        message.put_u32(class).put_f32(score);
        put_floats(message, &center);
        put_floats(message, &[length_m, width_m, height_m, yaw_rad]);
        message.put_u32(u32::from(velocity_mps.is_some()));
        if let Some(velocity) = velocity_mps {
            put_floats(message, &velocity);
        }
        message.put_u32(u32::from(variance.is_some()));
        if let Some(Variance3d { center, size, yaw, velocity }) = variance {
            put_floats(message, &center);
            put_floats(message, &size);
            message.put_f32(yaw);
            put_floats(message, &velocity);
        }
    }

    fn take(message: &Message) -> Result<Self> {
        let (class, score) = (message.u32()?, message.f32()?);
        let center = floats(message)?;
        let [length_m, width_m, height_m, yaw_rad] = floats(message)?;
        let bbox = Box3d { center, length_m, width_m, height_m, yaw_rad };
        let velocity_mps = match message.u32()? {
            0 => None,
            _ => Some(floats(message)?),
        };
        let variance = match message.u32()? {
            0 => None,
            _ => Some(Variance3d {
                center: floats(message)?,
                size: floats(message)?,
                yaw: message.f32()?,
                velocity: floats(message)?,
            }),
        };
        Ok(Self { class, score, object: Object3d { bbox, velocity_mps, variance } })
    }
}

fn put_floats(message: &mut Message, values: &[f32]) {
    for &value in values {
        message.put_f32(value);
    }
}

fn floats<const N: usize>(message: &Message) -> Result<[f32; N]> {
    let mut values = [0.0; N];
    for value in &mut values {
        *value = message.f32()?;
    }
    Ok(values)
}

/// Appends a report but for its total, which is the asker's to measure.
pub(super) fn put_report(message: &mut Message, report: &FrameReport) {
    for stage in Stage::ALL {
        let duration = report.duration(stage).filter(|_| stage != Stage::Total);
        message.put_u64(duration.map_or(u64::MAX, |duration| duration.as_nanos() as u64));
        for transfer in Transfer::ALL {
            message.put_u64(report.bytes(stage, transfer));
        }
    }
    for count in Count::ALL {
        message.put_u64(report.count(count));
    }
}

/// Reads what [`put_report`] wrote.
pub(super) fn take_report(message: &Message, report: &mut FrameReport) -> Result<()> {
    *report = FrameReport::new();
    for stage in Stage::ALL {
        match message.u64()? {
            u64::MAX => {}
            nanos => report.add_duration(stage, Duration::from_nanos(nanos)),
        }
        for transfer in Transfer::ALL {
            report.add_bytes(stage, transfer, message.usize()?);
        }
    }
    for count in Count::ALL {
        report.add_count(count, message.usize()?);
    }
    Ok(())
}

pub(super) fn put_error(message: &mut Message, error: &Error) {
    message.put_text(error.kind().reason()).put_text(&error.to_string());
}

/// The error that the other process met.
pub(super) fn take_error(message: &Message) -> Result<Error> {
    let reason = message.text()?;
    let kind = ErrorKind::ALL.into_iter().find(|kind| kind.reason() == reason);
    Ok(Error::new(kind.unwrap_or(ErrorKind::Inference), "isolated", message.text()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detections_come_back_bit_for_bit() {
        let flat = Detection2d {
            class: 3,
            score: 0.1,
            bbox: Box2d { x1: -0.0, y1: 1e-30, x2: f32::INFINITY, y2: 4.5 },
        };
        let bbox = Box3d {
            center: [1.0, 2.0, 3.0],
            length_m: 4.0,
            width_m: 5.0,
            height_m: 6.0,
            yaw_rad: -0.5,
        };
        let variance = Variance3d {
            center: [0.1, 0.2, 0.3],
            size: [0.4, 0.5, 0.6],
            yaw: 0.7,
            velocity: [0.8, 0.9],
        };
        let mut message = Message::default();
        message.start(1);
        flat.put(&mut message);
        let mut solids = Vec::new();
        for velocity_mps in [None, Some([7.0, -8.0])] {
            for variance in [None, Some(variance)] {
                let object = Object3d { bbox, velocity_mps, variance };
                solids.push(Detection3d { class: 9, score: 0.25, object });
            }
        }
        solids.iter().for_each(|solid| solid.put(&mut message));
        message.tag().unwrap();
        let back = Detection2d::take(&message).unwrap();
        assert_eq!(back, flat);
        assert!(back.bbox.x1.is_sign_negative());
        for solid in solids {
            assert_eq!(Detection3d::take(&message).unwrap(), solid);
        }
        assert!(Detection2d::take(&message).is_err());
    }

    #[test]
    fn reports_and_errors_come_back() {
        let mut report = FrameReport::new();
        report.add_duration(Stage::Infer, Duration::from_micros(1250));
        report.add_count(Count::CandidatesOverTopK, 4);
        report.add_bytes(Stage::Upload, Transfer::Upload, 123);
        let error = Error::new(ErrorKind::Codec, "decompress", "no picture");
        let mut message = Message::default();
        message.start(1);
        put_report(&mut message, &report);
        put_error(&mut message, &error);
        message.tag().unwrap();
        let mut back = FrameReport::new();
        take_report(&message, &mut back).unwrap();
        assert_eq!(back, report);
        let back = take_error(&message).unwrap();
        assert_eq!((back.kind(), back.message()), (ErrorKind::Codec, "decompress: no picture"));
    }
}
