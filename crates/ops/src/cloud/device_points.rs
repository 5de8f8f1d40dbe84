//! Points in device memory.

use crate::device::cuda::{DeviceBuffer, In, Stream};
use det_post_types::{Error, ErrorKind, Points, Result};

/// The points of a frame and their number, both in device memory: rows of
/// `num_channels` floats, the first three x, y, z in metres, all finite.
///
/// Kernels never read more than the capacity, even if the number is larger.
#[derive(Debug)]
pub struct DevicePoints {
    /// All values, point by point.
    pub values: DeviceBuffer<f32>,
    /// One value: the number of points.
    pub num: DeviceBuffer<u32>,
    num_channels: usize,
    capacity: usize,
}

/// Points in device memory that operations read: rows of `num_channels` floats, the first three
/// x, y, z in metres.
#[derive(Clone, Copy, Debug)]
pub struct PointSlices<'a> {
    /// All values, point by point, for at least `capacity` points.
    pub values: In<'a, f32>,
    /// One value: the number of points.
    pub num: In<'a, u32>,
    /// Floats per point, at least 3.
    pub num_channels: usize,
    /// The maximum number of points.
    pub capacity: usize,
}

impl DevicePoints {
    /// No points, with memory for `capacity`.
    ///
    /// # Errors
    /// `Argument` when there are fewer than three channels; `Device` when there
    /// is not enough memory.
    pub fn with_capacity(stream: &Stream, num_channels: usize, capacity: usize) -> Result<Self> {
        if num_channels < 3 {
            let message =
                format!("points have {num_channels} channels; they must have at least x, y, z");
            return Err(Error::new(ErrorKind::Argument, "device", message));
        }
        let values = DeviceBuffer::zeros(stream, num_channels.saturating_mul(capacity))?;
        let num = DeviceBuffer::zeros(stream, 1)?;
        Ok(Self { values, num, num_channels, capacity })
    }

    /// What operations on `stream` read.
    ///
    /// # Errors
    /// `Device` when the points belong to another stream.
    pub fn slices(&self, stream: &Stream) -> Result<PointSlices<'_>> {
        Ok(PointSlices {
            values: self.values.input(stream)?,
            num: self.num.input(stream)?,
            num_channels: self.num_channels,
            capacity: self.capacity,
        })
    }

    /// The stream that owns the memory.
    pub fn stream(&self) -> &Stream {
        self.values.stream()
    }

    /// Floats per point.
    pub fn num_channels(&self) -> usize {
        self.num_channels
    }

    /// The maximum number of points.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Copies points from the host and waits: for tests, not for frames.
    ///
    /// # Errors
    /// `Argument` when there are more points than the capacity or they have another
    /// number of channels; `Device` when the copy fails.
    pub fn write(&mut self, points: &Points) -> Result<()> {
        if points.num_channels() != self.num_channels {
            let (found, expected) = (points.num_channels(), self.num_channels);
            let message = format!("points of {found} channels, the buffer is for {expected}");
            return Err(Error::new(ErrorKind::Argument, "device", message));
        }
        self.values.write(points.values())?;
        self.num.write(&[points.len() as u32])
    }

    /// Waits and copies the points to the host: for tests, not for frames.
    ///
    /// # Errors
    /// `Device` when earlier work or the copy fails.
    pub fn read(&self) -> Result<Points> {
        let num = self.num.read()?.first().map_or(0, |&num| num as usize);
        let mut points = Points::with_capacity(self.num_channels, self.capacity);
        for point in self.values.read()?.chunks_exact(self.num_channels).take(num) {
            points.push(point);
        }
        Ok(points)
    }
}
