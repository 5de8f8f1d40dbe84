//! Point clouds in the memory of a message, and points as operations read them.

use super::DeviceBytes;
use crate::error::{Error, ErrorKind, Result};

/// The maximum number of fields of a cloud.
pub const MAX_POINT_FIELDS: usize = 32;

/// `sensor_msgs/PointField` datatypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datatype {
    /// `INT8`
    I8,
    /// `UINT8`
    U8,
    /// `INT16`
    I16,
    /// `UINT16`
    U16,
    /// `INT32`
    I32,
    /// `UINT32`
    U32,
    /// `FLOAT32`
    F32,
    /// `FLOAT64`
    F64,
}

impl Datatype {
    /// The datatype of a `PointField.datatype` value, 1 to 8.
    pub fn from_ros(value: u8) -> Option<Self> {
        use Datatype::*;
        [I8, U8, I16, U16, I32, U32, F32, F64].get(usize::from(value).checked_sub(1)?).copied()
    }

    /// Its `PointField.datatype` value.
    pub fn to_ros(self) -> u8 {
        self as u8 + 1
    }

    /// Size of one value in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

/// One declared field of a point. Unchecked: offset and type are what the
/// message declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PointField<'a> {
    /// Name, such as `x` or `intensity`.
    pub name: &'a str,
    /// Bytes from the start of the point.
    pub offset: u32,
    /// `PointField.datatype` as in the message, known or not.
    pub datatype: u8,
    /// Number of values.
    pub count: u32,
}

/// The fields of a cloud, in the order of the message, without allocation.
#[derive(Clone, Copy, Debug)]
pub struct PointFields<'a> {
    items: [PointField<'a>; MAX_POINT_FIELDS],
    len: usize,
}

impl<'a> PointFields<'a> {
    /// No fields.
    pub fn new() -> Self {
        Self { items: [PointField::default(); MAX_POINT_FIELDS], len: 0 }
    }

    /// Appends a field.
    ///
    /// # Errors
    /// `PointField` when there are [`MAX_POINT_FIELDS`] already.
    pub fn push(&mut self, field: PointField<'a>) -> Result<()> {
        match self.items.get_mut(self.len) {
            Some(slot) => {
                *slot = field;
                self.len += 1;
                Ok(())
            }
            None => Err(Error::new(
                ErrorKind::PointField,
                "cloud",
                format!("more than {MAX_POINT_FIELDS} fields, the next is {:?}", field.name),
            )),
        }
    }

    /// All fields.
    pub fn as_slice(&self) -> &[PointField<'a>] {
        &self.items[..self.len]
    }

    /// The first field that has one of `names`; earlier names win.
    pub fn find(&self, names: &[&str]) -> Option<&PointField<'a>> {
        names.iter().find_map(|name| self.as_slice().iter().find(|field| field.name == *name))
    }
}

impl Default for PointFields<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// A `sensor_msgs/PointCloud2` in the memory of its message.
///
/// Checked: every point of `point_step` bytes in every row of `row_step` bytes is inside `data`, which
/// has no bytes behind several rows.
/// Where the declared step of the rows is 0, the size of all rows or a number of points, as some
/// drivers write it, and `data` has exactly the bytes of the points, there is one reading without
/// padding, and `row_step` is that of it. The fields are checked by the operation that reads them.
/// A cloud without points is valid. `B` is [`DeviceBytes`] for a cloud in the memory of a GPU.
#[derive(Clone, Copy, Debug)]
pub struct CloudView<'a, B = &'a [u8]> {
    width: usize,
    height: usize,
    point_step: usize,
    row_step: usize,
    declared_row_step: usize,
    big_endian: bool,
    fields: PointFields<'a>,
    data: B,
}

impl<'a> CloudView<'a> {
    /// A checked view of `height` rows of `width` points.
    ///
    /// # Errors
    /// `Layout` when a row is shorter than its points or the data ends before
    /// the last point does, unless the step of the rows is corrected, when data follows the last of
    /// several rows, and when there is data but no point.
    pub fn new(
        [width, height]: [u32; 2],
        [point_step, row_step]: [u32; 2],
        big_endian: bool,
        fields: PointFields<'a>,
        data: &'a [u8],
    ) -> Result<Self> {
        if (width == 0 || height == 0) && !data.is_empty() {
            let message = format!("data has {} bytes, {width}x{height} points need 0", data.len());
            return Err(Error::new(ErrorKind::Layout, "cloud", message));
        }
        Self::checked(
            [width, height],
            [point_step, row_step],
            (big_endian, fields),
            data,
            data.len(),
        )
    }

    /// The bytes of row `y`, `width * point_step` of them.
    ///
    /// # Panics
    /// When `y` is not a row of this cloud.
    pub fn row(&self, y: usize) -> &'a [u8] {
        let start = y * self.row_step;
        &self.data[start..start + self.width * self.point_step]
    }
}

impl<'a> CloudView<'a, DeviceBytes<'a>> {
    /// A checked view of a cloud in the memory of a GPU, as [`CloudView::new`].
    ///
    /// # Errors
    /// Returns the errors of [`CloudView::new`].
    pub fn on_device(
        size: [u32; 2],
        steps: [u32; 2],
        big_endian: bool,
        fields: PointFields<'a>,
        data: DeviceBytes<'a>,
    ) -> Result<Self> {
        Self::checked(size, steps, (big_endian, fields), data, data.len())
    }
}

impl<'a, B: Copy> CloudView<'a, B> {
    fn checked(
        [width, height]: [u32; 2],
        [point_step, row_step]: [u32; 2],
        (big_endian, fields): (bool, PointFields<'a>),
        data: B,
        num_bytes: usize,
    ) -> Result<Self> {
        let layout = |message: String| Err(Error::new(ErrorKind::Layout, "cloud", message));
        let [width, height, point_step, declared_row_step] =
            [width, height, point_step, row_step].map(|n| n as usize);
        let row_step =
            corrected_row_step([width, height], [point_step, declared_row_step], num_bytes);
        if width > 0 && height > 0 {
            if point_step == 0 {
                return layout(format!("point_step is 0 for {width}x{height} points"));
            }
            let row_bytes = width.saturating_mul(point_step);
            if height > 1 && row_step < row_bytes {
                return layout(format!(
                    "row_step is {row_step} bytes, {width} points of {point_step} need {row_bytes}"
                ));
            }
            let needed = row_step.saturating_mul(height - 1).saturating_add(row_bytes);
            if num_bytes < needed {
                return layout(format!(
                    "data has {num_bytes} bytes, {width}x{height} points of point_step \
                     {point_step} and row_step {row_step} need {needed}"
                ));
            }
            // Rows that are padded by more than `row_step` says would be read shifted.
            let rows = row_step.saturating_mul(height);
            if height > 1 && num_bytes > rows {
                return layout(format!(
                    "data has {num_bytes} bytes, {height} rows of row_step {row_step} have {rows}"
                ));
            }
        }
        Ok(Self {
            width,
            height,
            point_step,
            row_step,
            declared_row_step,
            big_endian,
            fields,
            data,
        })
    }

    /// Number of points, including those that are not finite.
    pub fn num_points(&self) -> usize {
        self.width * self.height
    }

    /// Points per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows; 1 for an unorganised cloud.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Bytes from one point to the next.
    pub fn point_step(&self) -> usize {
        self.point_step
    }

    /// Bytes from one row to the next.
    pub fn row_step(&self) -> usize {
        self.row_step
    }

    /// The step of the rows that the message declares; `row_step` unless that was corrected.
    pub fn declared_row_step(&self) -> usize {
        self.declared_row_step
    }

    /// Whether values are big-endian.
    pub fn is_big_endian(&self) -> bool {
        self.big_endian
    }

    /// The declared fields.
    pub fn fields(&self) -> &PointFields<'a> {
        &self.fields
    }

    /// All bytes, from the first point.
    pub fn data(&self) -> B {
        self.data
    }
}

/// The step of the rows of a cloud with `num_bytes` of data: the declared one, or that of rows
/// without padding where the declared one is a known mistake of drivers (0, the size of all rows,
/// the points of the cloud or of a row) and the data has exactly the bytes of the points.
fn corrected_row_step(
    [width, height]: [usize; 2],
    [point_step, declared]: [usize; 2],
    num_bytes: usize,
) -> usize {
    let row_bytes = width.saturating_mul(point_step);
    let total = row_bytes.saturating_mul(height);
    let mistakes = [0, total, width.saturating_mul(height), width];
    let is_corrected = height > 1 && num_bytes == total && mistakes.contains(&declared);
    if is_corrected { row_bytes } else { declared }
}

/// Points as operations read them: rows of `num_channels` floats, the first three x, y, z
/// in metres, all finite.
///
/// The head defines the other channels (intensity, time lag, …). Points beyond `capacity`
/// are rejected; the operation that appends them counts them.
#[derive(Clone, Debug)]
pub struct Points {
    values: Vec<f32>,
    num_channels: usize,
    capacity: usize,
}

impl Points {
    /// No points, with memory for `capacity` of them.
    ///
    /// # Panics
    /// When there are fewer than three channels.
    pub fn with_capacity(num_channels: usize, capacity: usize) -> Self {
        assert!(num_channels >= 3, "points have at least x, y, z");
        Self { values: Vec::with_capacity(num_channels * capacity), num_channels, capacity }
    }

    /// Appends a point. Returns false, without a change, when the capacity is reached.
    ///
    /// # Panics
    /// When the point does not have `num_channels` values.
    #[inline]
    pub fn push(&mut self, point: &[f32]) -> bool {
        assert_eq!(point.len(), self.num_channels, "values of a point");
        if self.is_full() {
            return false;
        }
        self.values.extend_from_slice(point);
        true
    }

    /// Appends the points of another collection in their order, up to the capacity.
    /// Returns the number of points beyond it.
    ///
    /// # Panics
    /// When the points do not have `num_channels` values.
    pub fn extend_from(&mut self, points: &Self) -> usize {
        assert_eq!(points.num_channels, self.num_channels, "values of a point");
        let num_taken = points.len().min(self.capacity - self.len());
        self.values.extend_from_slice(&points.values[..num_taken * self.num_channels]);
        points.len() - num_taken
    }

    /// Removes all points; keeps the memory.
    pub fn clear(&mut self) {
        self.values.clear();
    }

    /// Number of points.
    pub fn len(&self) -> usize {
        self.values.len() / self.num_channels
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether the capacity is reached.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.values.len() == self.capacity * self.num_channels
    }

    /// The maximum number of points.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Floats per point.
    pub fn num_channels(&self) -> usize {
        self.num_channels
    }

    /// All values, point by point.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All values, point by point, to change in place.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// The points, each a slice of `num_channels` values.
    pub fn iter(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.num_channels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked_against_the_data() {
        let data = [0; 24_000];
        // (width, height, point_step, row_step, bytes, accepted)
        let cases = [
            (1500, 1, 16, 24_000, 24_000, true),
            (1500, 1, 16, 24_000, 23_999, false),
            (1500, 1, 16, 0, 24_000, true),
            (750, 2, 16, 11_999, 24_000, false),
            (750, 2, 16, 12_000, 24_000, true),
            (0, 1, 16, 0, 0, true),
            // Points of which the driver does not write the number.
            (0, 1, 16, 0, 16, false),
            (1500, 0, 16, 0, 24_000, false),
            (1, 1, 0, 0, 24_000, false),
            (u32::MAX, u32::MAX, u32::MAX, u32::MAX, 24_000, false),
        ];
        for (width, height, point_step, row_step, len, accepted) in cases {
            let view = CloudView::new(
                [width, height],
                [point_step, row_step],
                false,
                PointFields::new(),
                &data[..len],
            );
            assert_eq!(view.is_ok(), accepted, "{width}x{height} {point_step} {row_step} {len}");
        }
    }

    #[test]
    fn steps_of_rows_are_corrected_where_the_data_has_one_reading() {
        let data = [0; 80];
        // 3 rows of 2 points of 8 bytes: declared step, bytes, step that is read
        let cases = [
            (16, 48, Some(16)),
            (0, 48, Some(16)),
            (48, 48, Some(16)),
            (6, 48, Some(16)),
            (2, 48, Some(16)),
            // Padded rows.
            (24, 64, Some(24)),
            // The last row without its padding, and rows with more padding than declared.
            (24, 72, Some(24)),
            (24, 63, None),
            (24, 73, None),
            (16, 64, None),
            // Short data, more data than points, and steps without a known cause.
            (0, 47, None),
            (48, 47, None),
            (0, 49, None),
            (6, 64, None),
            (15, 48, None),
            (17, 48, None),
        ];
        for (declared, len, expected) in cases {
            let fields = PointFields::new();
            let view = CloudView::new([2, 3], [8, declared], false, fields, &data[..len]);
            let found = view.as_ref().ok().map(CloudView::row_step);
            assert_eq!(found, expected, "{declared} {len}");
            let is_declared = view.is_ok_and(|view| view.declared_row_step() == declared as usize);
            assert_eq!(is_declared, expected.is_some(), "{declared} {len}");
        }
        // One row has no step.
        let view = CloudView::new([6, 1], [8, 0], false, PointFields::new(), &data[..48]).unwrap();
        assert_eq!((view.row_step(), view.declared_row_step()), (0, 0));
    }

    #[test]
    fn fields_are_found_by_the_first_name() {
        let mut fields = PointFields::new();
        for name in ["x", "i", "intensity"] {
            fields.push(PointField { name, ..PointField::default() }).unwrap();
        }
        assert_eq!(fields.find(&["intensity", "i"]).unwrap().name, "intensity");
        assert_eq!(fields.find(&["i", "intensity"]).unwrap().name, "i");
        assert!(fields.find(&["ring"]).is_none());
        for _ in 3..MAX_POINT_FIELDS {
            fields.push(PointField::default()).unwrap();
        }
        assert!(fields.push(PointField::default()).is_err());
    }

    #[test]
    fn points_are_bounded() {
        let mut points = Points::with_capacity(4, 2);
        assert!(points.push(&[1.0, 2.0, 3.0, 4.0]));
        assert!(points.push(&[5.0, 6.0, 7.0, 8.0]));
        assert!(!points.push(&[9.0; 4]));
        assert_eq!((points.len(), points.iter().count()), (2, 2));

        let mut few = Points::with_capacity(4, 3);
        assert_eq!((few.extend_from(&points), few.len(), few.is_full()), (0, 2, false));
        assert_eq!((few.extend_from(&points), few.len(), few.is_full()), (1, 3, true));
        assert_eq!(&few.values()[8..], [1.0, 2.0, 3.0, 4.0]);
    }
}
