//! `sensor_msgs/CameraInfo`.

use super::header::{read_header, write_header};
use crate::error::Result;
use crate::transport::cdr::{Reader, Writer};
use crate::types::{CameraCalibration, Header, Size};

/// `sensor_msgs/CameraInfo` as in the message, unchecked. Matrices
/// are row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CameraInfo<'a> {
    /// Stamp and frame.
    pub header: Header<'a>,
    /// Rows of the image that was calibrated.
    pub height: u32,
    /// Pixels per row of the image that was calibrated.
    pub width: u32,
    /// Name of the distortion model, such as `plumb_bob`.
    pub distortion_model: &'a str,
    /// Coefficients of the distortion model.
    pub d: Vec<f64>,
    /// 3x3 intrinsic matrix of the raw image.
    pub k: [f64; 9],
    /// 3x3 rectification rotation.
    pub r: [f64; 9],
    /// 3x4 projection matrix of the rectified image.
    pub p: [f64; 12],
    /// Binning along x; 0 is the same as 1.
    pub binning_x: u32,
    /// Binning along y; 0 is the same as 1.
    pub binning_y: u32,
    /// The region of the sensor that is read out; all zero for the whole sensor.
    pub roi: RegionOfInterest,
}

/// `sensor_msgs/RegionOfInterest`, in pixels of the full image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionOfInterest {
    /// Left edge.
    pub x_offset: u32,
    /// Top edge.
    pub y_offset: u32,
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// Whether rectification is restricted to this region.
    pub do_rectify: bool,
}

impl<'a> CameraInfo<'a> {
    /// The ROS name.
    pub const TYPE: &'static str = "sensor_msgs/msg/CameraInfo";

    /// The calibration, owned.
    pub fn calibration(&self) -> CameraCalibration {
        let RegionOfInterest { x_offset, y_offset, height, width, .. } = self.roi;
        CameraCalibration {
            frame_id: self.header.frame_id.to_owned(),
            size: Size::new(self.width, self.height),
            distortion_model: self.distortion_model.to_owned(),
            distortion: self.d.clone(),
            intrinsics: self.k,
            rectification: self.r,
            projection: self.p,
            binning: [self.binning_x, self.binning_y].map(|binning| binning.max(1)),
            region: [x_offset, y_offset, width, height],
        }
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// `Message` when the bytes are not a camera info message, or it has more than
    /// [`CameraCalibration::MAX_COEFFICIENTS`] distortion coefficients.
    pub fn decode(cdr: &'a [u8]) -> Result<Self> {
        Self::read(Reader::new(Self::TYPE, cdr)?)
    }

    /// As [`Self::decode`], from a reader at the first field.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn read(mut reader: Reader<'a>) -> Result<Self> {
        let header = read_header(&mut reader)?;
        let (height, width) = (reader.u32()?, reader.u32()?);
        let distortion_model = reader.str()?;
        let num_coefficients = reader.sequence_len(size_of::<f64>())?;
        if num_coefficients > CameraCalibration::MAX_COEFFICIENTS {
            return Err(reader.error(format!(
                "{num_coefficients} distortion coefficients; at most {} are read",
                CameraCalibration::MAX_COEFFICIENTS
            )));
        }
        let mut d = Vec::with_capacity(num_coefficients);
        for _ in 0..num_coefficients {
            d.push(reader.f64()?);
        }
        Ok(Self {
            header,
            height,
            width,
            distortion_model,
            d,
            k: reader.f64_array()?,
            r: reader.f64_array()?,
            p: reader.f64_array()?,
            binning_x: reader.u32()?,
            binning_y: reader.u32()?,
            roi: RegionOfInterest {
                x_offset: reader.u32()?,
                y_offset: reader.u32()?,
                height: reader.u32()?,
                width: reader.u32()?,
                do_rectify: reader.bool()?,
            },
        })
    }

    /// Encodes the message into `bytes`, replacing the content.
    ///
    /// # Errors
    /// `Message` when it exceeds 4 GiB.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let mut writer = Writer::new(bytes);
        write_header(&mut writer, &self.header);
        writer.u32(self.height);
        writer.u32(self.width);
        writer.str(self.distortion_model);
        writer.sequence_len(self.d.len());
        for values in [&self.d[..], &self.k, &self.r, &self.p] {
            writer.f64_array(values);
        }
        writer.u32(self.binning_x);
        writer.u32(self.binning_y);
        for value in [self.roi.x_offset, self.roi.y_offset, self.roi.height, self.roi.width] {
            writer.u32(value);
        }
        writer.bool(self.roi.do_rectify);
        writer.finish(Self::TYPE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Stamp;

    #[test]
    fn a_camera_info_round_trips() {
        for num_coefficients in [0, 1, 5, 14] {
            let message = CameraInfo {
                header: Header { stamp: Stamp::from_ros(-3, 7), frame_id: "left" },
                height: 375,
                width: 1242,
                distortion_model: "plumb_bob",
                d: (0..num_coefficients).map(|i| f64::from(i) * 0.1).collect(),
                k: std::array::from_fn(|i| i as f64),
                r: std::array::from_fn(|i| -(i as f64)),
                p: std::array::from_fn(|i| i as f64 + 0.5),
                binning_x: 1,
                binning_y: 2,
                roi: RegionOfInterest {
                    x_offset: 3,
                    y_offset: 4,
                    height: 5,
                    width: 6,
                    do_rectify: true,
                },
            };
            let mut bytes = Vec::new();
            message.encode(&mut bytes).unwrap();
            assert_eq!(CameraInfo::decode(&bytes).unwrap(), message);
        }
    }

    #[test]
    fn a_bounded_number_of_coefficients_is_read() {
        let mut bytes = Vec::new();
        for (num, is_read) in [(1024, true), (1025, false)] {
            let message = CameraInfo { d: vec![0.0; num], ..CameraInfo::default() };
            message.encode(&mut bytes).unwrap();
            let decoded = CameraInfo::decode(&bytes);
            assert_eq!(decoded.is_ok(), is_read, "{decoded:?}");
        }
    }
}
