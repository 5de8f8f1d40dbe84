//! Converts the bytes of a `PointCloud2` to rows of floats.
//!
//! Output: one row per valid point, in the order of the message (an organised cloud
//! row by row): x, y, z in metres in the cloud's frame, then the requested channels.
//! Fields are found by name; their order, offset (aligned or not), datatype and byte
//! order are those of the message. Integers and doubles are rounded to the nearest
//! f32.
//!
//! A [`Placement`] moves points into another frame, as one of several sensors: a point becomes
//! `((r0 * x + r1 * y) + r2 * z) + t` in f32, without fused operations, with a matrix of the cloud,
//! or of the point's time where the sensor moved while it measured ([`placement`]).
//!
//! A point is dropped and counted
//! - as not finite, if x, y, z or a requested channel is NaN or infinite, before or
//!   after the rounding to f32, or x, y, z is once it is moved (all outputs are finite);
//! - as cropped, if there is a crop box and the finite point is inside, once it is moved;
//! - as out of range, if there is a range and the point is outside, once it is moved;
//! - as over capacity, if the output is full: the first valid points are kept.
//!
//! Only fields that are read are checked. Of a field with several values the first is
//! read. The result is exact: CPU and CUDA give equal bytes.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;
pub mod placement;

use placement::Placement;

pub use det_post_types::UnpackCounts;

use det_post_types::{
    CloudView, Datatype, Error, ErrorKind, PointChannel, PointField, PointFields, PointRange,
    Points, Result,
};

/// The maximum number of channels of a point, including x, y, z.
pub const MAX_CHANNELS: usize = 16;

/// The values to read from a cloud.
#[derive(Clone, Debug, PartialEq)]
pub struct UnpackParams {
    /// The channels after x, y, z, in the order of the output.
    pub channels: Vec<PointChannel>,
    /// Factor of [`PointChannel::Intensity`]: 1, or 1/255 to map bytes to [0, 1].
    pub intensity_scale: f32,
    /// Points outside are dropped; `None` keeps all.
    pub range: Option<PointRange>,
}

/// Replaces the contents of `out`, which has `3 + channels.len()` channels, by
/// the points of a cloud.
///
/// The fields of a cloud without points are not checked.
///
/// # Errors
/// - `PointField` when x, y, z or a requested channel is missing, has a count of 0 or an
///   unknown datatype, or does not end within `point_step`;
/// - `Argument` when the channels do not fit `out` or exceed [`MAX_CHANNELS`].
///
/// After an error `out` is empty.
///
/// # Example
/// ```
/// use det_post_ops::cloud::unpack::{UnpackParams, unpack};
/// use det_post_types::{CloudView, PointField, PointFields, Points};
///
/// let mut fields = PointFields::new();
/// for (name, offset) in [("x", 0), ("y", 4), ("z", 8)] {
///     fields.push(PointField { name, offset, datatype: 7, count: 1 })?;
/// }
/// let data: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
/// let cloud = CloudView::new([1, 1], [12, 12], false, fields, &data)?;
///
/// let params = UnpackParams { channels: vec![], intensity_scale: 1.0, range: None };
/// let mut points = Points::with_capacity(3, 1000);
/// assert_eq!(unpack(&cloud, &params, &mut points)?.num_points, 1);
/// assert_eq!(points.values(), [1.0, 2.0, 3.0]);
/// # Ok::<(), det_post_types::Error>(())
/// ```
pub fn unpack(
    cloud: &CloudView<'_>,
    params: &UnpackParams,
    out: &mut Points,
) -> Result<UnpackCounts> {
    out.clear();
    append(cloud, params, &Placement::default(), out)
}

/// Appends the points of a cloud to `out`, moved as `placement` says.
///
/// # Errors
/// Returns the errors of [`unpack`], and `PointField` when the time of a moving sweep does not end
/// within `point_step`. After an error `out` is as before.
pub fn append(
    cloud: &CloudView<'_>,
    params: &UnpackParams,
    placement: &Placement,
    out: &mut Points,
) -> Result<UnpackCounts> {
    check_channels(params, out.num_channels())?;
    if cloud.num_points() == 0 {
        return Ok(UnpackCounts::default());
    }
    let layout = Layout::new(cloud.fields(), cloud.point_step(), params)?;
    placement.check(cloud.point_step())?;
    Ok(cpu::append(cloud, &layout, params.range.as_ref(), placement, out))
}

fn check_channels(params: &UnpackParams, num_out: usize) -> Result<()> {
    let num_channels = 3 + params.channels.len();
    if num_channels == num_out && num_channels <= MAX_CHANNELS {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Argument,
        "unpack",
        format!(
            "x, y, z and {} channels do not fit points of {num_out} channels; at most \
             {MAX_CHANNELS} are allowed",
            params.channels.len(),
        ),
    ))
}

/// The sources of a point's values, each of which ends within `point_step`.
#[derive(Clone, Copy)]
struct Layout {
    sources: [Source; MAX_CHANNELS],
    num_channels: usize,
}

/// The source of one value of a point.
#[derive(Clone, Copy)]
enum Source {
    /// No field: the value is zero.
    Zero,
    /// A field, multiplied by `scale`.
    Field { offset: usize, datatype: Datatype, scale: f32 },
}

impl Layout {
    fn new(fields: &PointFields<'_>, point_step: usize, params: &UnpackParams) -> Result<Self> {
        let mut sources = [Source::Zero; MAX_CHANNELS];
        for (source, name) in sources.iter_mut().zip(["x", "y", "z"]) {
            let field = fields.find(&[name]).ok_or_else(|| missing(&name, fields))?;
            *source = checked(field, point_step, 1.0)?;
        }
        for (source, channel) in sources[3..].iter_mut().zip(&params.channels) {
            let scale = match channel {
                PointChannel::TimeLag => continue,
                PointChannel::Intensity => params.intensity_scale,
                PointChannel::Ring | PointChannel::Named(_) => 1.0,
            };
            let field = channel.find_in(fields).ok_or_else(|| missing(channel, fields))?;
            *source = checked(field, point_step, scale)?;
        }
        Ok(Self { sources, num_channels: 3 + params.channels.len() })
    }

    /// The offsets of x, y, z when all three are little-endian f32.
    fn plain_position(&self, big_endian: bool) -> Option<[usize; 3]> {
        let mut offsets = [0; 3];
        for (out, source) in offsets.iter_mut().zip(&self.sources) {
            match *source {
                Source::Field { offset, datatype: Datatype::F32, .. } if !big_endian => {
                    *out = offset;
                }
                _ => return None,
            }
        }
        Some(offsets)
    }
}

fn missing(name: &dyn std::fmt::Display, fields: &PointFields<'_>) -> Error {
    let found: Vec<&str> = fields.as_slice().iter().map(|field| field.name).collect();
    Error::new(
        ErrorKind::PointField,
        "unpack",
        format!("the cloud has no field {name}, only [{}]", found.join(", ")),
    )
}

fn checked(field: &PointField<'_>, point_step: usize, scale: f32) -> Result<Source> {
    let refuse = |why: String| {
        Err(Error::new(ErrorKind::PointField, "unpack", format!("field {} {why}", field.name)))
    };
    let Some(datatype) = Datatype::from_ros(field.datatype) else {
        return refuse(format!("has datatype {}, known are 1 to 8", field.datatype));
    };
    if field.count == 0 {
        return refuse("must have a count of at least 1, found 0".into());
    }
    let (offset, size) = (field.offset as usize, datatype.size());
    if offset.saturating_add(size) > point_step {
        return refuse(format!(
            "has {size} bytes at offset {offset}, which end beyond point_step {point_step}"
        ));
    }
    Ok(Source::Field { offset, datatype, scale })
}

#[cfg(test)]
mod tests;
