//! The encoding of motions, and of what detectors need of them, bit for bit.

use super::message::{Message, malformed, put_error, take_error};
use crate::detectors::motion::{Motion, MotionNeeds, SweepPoses};
use det_post_types::{Datatype, PointTimes, Result, TimeField, TimeOrigin, TimeUnit};

/// Appends the motion of an input.
pub(super) fn put_motion(message: &mut Message, motion: Option<&Result<Motion>>) {
    let motion = match motion {
        None => {
            message.put_u32(0);
            return;
        }
        Some(Err(error)) => return put_error(message.put_u32(2), error),
        Some(Ok(motion)) => motion,
    };
    message.put_u32(1).put_transform(&motion.pose).put_u32(u32::from(motion.sweep.is_some()));
    if let Some(SweepPoses { times, first_s, step_s, poses }) = &motion.sweep {
        let TimeField { offset, datatype, base, unit_s } = times;
        message.put_u32(*offset).put_u32(number_of(*datatype));
        message.put_u64(base.to_bits()).put_u64(unit_s.to_bits());
        message.put_f32(*first_s).put_f32(*step_s);
        for pose in poses {
            message.put_transform(pose);
        }
    }
}

/// Reads what [`put_motion`] wrote.
pub(super) fn take_motion(message: &Message) -> Result<Option<Result<Motion>>> {
    match message.u32()? {
        0 => return Ok(None),
        1 => {}
        _ => return Ok(Some(Err(take_error(message)?))),
    }
    let pose = message.transform()?;
    let mut sweep = None;
    if message.u32()? != 0 {
        let (offset, datatype) = (message.u32()?, message.u32()?);
        let datatype = u8::try_from(datatype).ok().and_then(Datatype::from_ros);
        let [base, unit_s] = [f64::from_bits(message.u64()?), f64::from_bits(message.u64()?)];
        let datatype = datatype.ok_or_else(malformed)?;
        let mut taken = SweepPoses {
            times: TimeField { offset, datatype, base, unit_s },
            first_s: message.f32()?,
            step_s: message.f32()?,
            poses: Default::default(),
        };
        for pose in &mut taken.poses {
            *pose = message.transform()?;
        }
        sweep = Some(taken);
    }
    Ok(Some(Ok(Motion { pose, sweep })))
}

/// Appends what a detector needs of the motion of an input.
pub(super) fn put_needs(message: &mut Message, needs: Option<&MotionNeeds>) {
    message.put_u32(u32::from(needs.is_some()));
    let Some(MotionNeeds { fixed_frame, moving_frame, point_times }) = needs else { return };
    message.put_text(fixed_frame);
    put_optional(message, moving_frame.as_deref());
    message.put_u32(u32::from(point_times.is_some()));
    if let Some(PointTimes { field, unit, origin }) = point_times {
        put_optional(message, field.as_deref());
        put_optional(message, unit.map(TimeUnit::name));
        put_optional(message, origin.map(TimeOrigin::name));
    }
}

/// Reads what [`put_needs`] wrote.
pub(super) fn take_needs(message: &Message) -> Result<Option<MotionNeeds>> {
    if message.u32()? == 0 {
        return Ok(None);
    }
    let fixed_frame = message.text()?.to_owned();
    let moving_frame = take_optional(message)?.map(str::to_owned);
    let mut point_times = None;
    if message.u32()? != 0 {
        let field = take_optional(message)?.map(str::to_owned);
        let unit = take_optional(message)?;
        let unit = unit.and_then(|name| TimeUnit::ALL.into_iter().find(|unit| unit.name() == name));
        let origin = take_optional(message)?;
        let origin =
            origin.and_then(|name| TimeOrigin::ALL.into_iter().find(|of| of.name() == name));
        point_times = Some(PointTimes { field, unit, origin });
    }
    Ok(Some(MotionNeeds { fixed_frame, moving_frame, point_times }))
}

fn put_optional(message: &mut Message, text: Option<&str>) {
    message.put_u32(u32::from(text.is_some())).put_text(text.unwrap_or_default());
}

fn take_optional(message: &Message) -> Result<Option<&str>> {
    let (is_some, text) = (message.u32()? != 0, message.text()?);
    Ok(is_some.then_some(text))
}

/// The number of a datatype in `PointField`.
fn number_of(datatype: Datatype) -> u32 {
    (1..=8).find(|number| Datatype::from_ros(*number) == Some(datatype)).unwrap_or(0).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::{Error, ErrorKind};
    use nalgebra::Isometry3;

    #[test]
    fn motions_come_back() {
        let pose = |x: f64| Isometry3::translation(x, 2.0, -0.5);
        let times = TimeField { offset: 20, datatype: Datatype::U32, base: 1.5e18, unit_s: 1e-9 };
        let poses = std::array::from_fn(|knot| pose(knot as f64));
        let sweep = SweepPoses { times, first_s: -0.05, step_s: 0.1 / 16.0, poses };
        for sent in [
            Motion { pose: pose(9.0), sweep: None },
            Motion { pose: pose(7.0), sweep: Some(sweep) },
        ] {
            let mut message = Message::default();
            put_motion(message.start(1), Some(&Ok(sent.clone())));
            message.tag().unwrap();
            assert_eq!(take_motion(&message).unwrap().unwrap().unwrap(), sent);
        }
        let mut message = Message::default();
        let unknown = Err(Error::new(ErrorKind::Transform, "tf", "no such frame"));
        put_motion(message.start(1), Some(&unknown));
        put_motion(&mut message, None);
        message.tag().unwrap();
        let error = take_motion(&message).unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transform);
        assert!(take_motion(&message).unwrap().is_none());
    }

    #[test]
    fn needs_come_back() {
        let times = PointTimes {
            field: Some("t".into()),
            unit: Some(TimeUnit::Microseconds),
            origin: Some(TimeOrigin::Stamp),
        };
        let needs = |moving_frame, point_times| MotionNeeds {
            fixed_frame: "map".into(),
            moving_frame,
            point_times,
        };
        for sent in [
            None,
            Some(needs(None, None)),
            Some(needs(Some("base_link".into()), Some(PointTimes::default()))),
            Some(needs(None, Some(times))),
        ] {
            let mut message = Message::default();
            put_needs(message.start(1), sent.as_ref());
            message.tag().unwrap();
            assert_eq!(take_needs(&message).unwrap(), sent);
        }
    }
}
