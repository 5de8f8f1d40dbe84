//! `sensor_msgs/CameraInfo`.

use super::field::{Field, message, record};
use crate::cdr::{Reader, Writer};
use det_post_types::{CameraCalibration, Header, Result, Size};

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

record! {
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
}

impl<'a> CameraInfo<'a> {
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
}

message! {
    /// Also when it has more than [`CameraCalibration::MAX_COEFFICIENTS`] distortion
    /// coefficients.
    CameraInfo<'a>: "sensor_msgs/msg/CameraInfo"
}

impl<'a> Field<'a> for CameraInfo<'a> {
    const MIN_SIZE: usize = Header::MIN_SIZE + 4 * 4 + 30 * 8 + 2 * 4 + RegionOfInterest::MIN_SIZE;

    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(Self {
            header: Field::read(reader)?,
            height: reader.u32()?,
            width: reader.u32()?,
            distortion_model: reader.str()?,
            d: read_coefficients(reader)?,
            k: reader.f64_array()?,
            r: reader.f64_array()?,
            p: reader.f64_array()?,
            binning_x: reader.u32()?,
            binning_y: reader.u32()?,
            roi: Field::read(reader)?,
        })
    }

    fn write(&self, writer: &mut Writer<'_>) {
        self.header.write(writer);
        writer.u32(self.height);
        writer.u32(self.width);
        writer.str(self.distortion_model);
        self.d.write(writer);
        for values in [&self.k[..], &self.r, &self.p] {
            writer.f64_array(values);
        }
        writer.u32(self.binning_x);
        writer.u32(self.binning_y);
        self.roi.write(writer);
    }
}

fn read_coefficients(reader: &mut Reader<'_>) -> Result<Vec<f64>> {
    const MAX_NUM: usize = CameraCalibration::MAX_COEFFICIENTS;
    let num = reader.sequence_len(size_of::<f64>())?;
    if num > MAX_NUM {
        let message = format!("{num} distortion coefficients; at most {MAX_NUM} are read");
        return Err(reader.error(message));
    }
    (0..num).map(|_| reader.f64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Stamp;

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
