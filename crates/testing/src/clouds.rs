//! Clouds as messages have them, and points as ops take them.

use det_post_types::{CloudView, Grid, PointField, PointFields, PointRange, Points};

use super::random::Random;
use super::require::{Need, skip};
use super::shared_data::shared_data;

/// A cloud that owns its bytes.
pub struct Cloud {
    pub size: [u32; 2],
    pub point_step: u32,
    pub row_step: u32,
    pub big_endian: bool,
    pub fields: Vec<(String, u32, u8)>,
    pub data: Vec<u8>,
}

impl Cloud {
    pub fn fields(&self) -> PointFields<'_> {
        let mut fields = PointFields::new();
        for (name, offset, datatype) in &self.fields {
            let field = PointField { name, offset: *offset, datatype: *datatype, count: 1 };
            fields.push(field).unwrap();
        }
        fields
    }

    pub fn view(&self) -> CloudView<'_> {
        let steps = [self.point_step, self.row_step];
        CloudView::new(self.size, steps, self.big_endian, self.fields(), &self.data).unwrap()
    }

    pub fn num_points(&self) -> usize {
        self.size[0] as usize * self.size[1] as usize
    }

    /// x, y, z and `names` as f32 side by side, little endian.
    pub fn plain(values: &[f32], names: &[&str]) -> Self {
        let names = ["x", "y", "z"].iter().chain(names);
        let fields: Vec<_> =
            names.zip(0..).map(|(name, at)| ((*name).to_owned(), 4 * at, 7)).collect();
        let point_step = 4 * fields.len() as u32;
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let width = data.len() as u32 / point_step;
        let row_step = width * point_step;
        Self { size: [width, 1], point_step, row_step, big_endian: false, fields, data }
    }

    /// Any order, offsets, datatypes, byte order and padding; a share of the
    /// floats is not finite.
    pub fn random(random: &mut Random, [width, height]: [u32; 2], broken: f32) -> Self {
        const SIZES: [u32; 8] = [1, 1, 2, 2, 4, 4, 4, 8];
        let aligned = random.below(2) == 0;
        let mut names = vec!["x", "y", "z", "intensity", "ring", "t"];
        for at in (1..names.len()).rev() {
            names.swap(at, random.below(at + 1));
        }
        let mut offset = 0;
        let mut fields = Vec::new();
        for name in names {
            let datatype = if random.below(3) == 0 { 1 + random.below(8) as u8 } else { 7 };
            let size = SIZES[usize::from(datatype) - 1];
            offset += if aligned { 0 } else { random.below(3) as u32 };
            offset = if aligned { offset.next_multiple_of(size.min(4)) } else { offset };
            fields.push((name.to_owned(), offset, datatype));
            offset += size;
        }
        let padding = random.below(5) as u32;
        let point_step = if aligned { (offset + padding).next_multiple_of(4) } else { offset + 3 };
        let gap = random.below(3) as u32 * if aligned { 8 } else { 7 };
        // Rows without points have no bytes.
        let row_step = if width == 0 { 0 } else { width * point_step + gap };
        let big_endian = random.below(3) == 0;
        let data = random.bytes(row_step as usize * height as usize);
        let size = [width, height];
        let mut cloud = Self { size, point_step, row_step, big_endian, fields, data };
        cloud.fill_floats(random, broken);
        cloud
    }

    fn fill_floats(&mut self, random: &mut Random, broken: f32) {
        let strange = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -0.0, 1e-310, 3.4e38];
        let floats: Vec<_> = self.fields.iter().filter(|field| field.2 >= 7).cloned().collect();
        for row in 0..self.size[1] {
            for column in 0..self.size[0] {
                let point = (row * self.row_step + column * self.point_step) as usize;
                for (_, offset, datatype) in &floats {
                    let value = if random.range(0.0, 1.0) < broken {
                        strange[random.below(strange.len())]
                    } else {
                        f64::from(random.range(-60.0, 60.0))
                    };
                    let at = point + *offset as usize;
                    let mut bytes = match datatype {
                        7 => (value as f32).to_le_bytes().to_vec(),
                        _ => value.to_le_bytes().to_vec(),
                    };
                    if self.big_endian {
                        bytes.reverse();
                    }
                    self.data[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
        }
    }
}

/// Rings swept azimuth by azimuth, x y z and further channels: density falls
/// with range.
pub fn scan(random: &mut Random, num: usize, num_channels: usize) -> Points {
    let mut points = Points::with_capacity(num_channels, num);
    for i in 0..num {
        let ring = (i % 64) as f32 / 64.0;
        let azimuth = (i / 64) as f32 * (64.0 * std::f32::consts::TAU / num as f32);
        let range = 2.5 + 90.0 * ring * ring + random.range(0.0, 0.1);
        let mut point = vec![range * azimuth.cos(), range * azimuth.sin()];
        point.push(-1.8 + random.range(0.0, 2.5) * ring);
        point.resize_with(num_channels, || random.range(0.0, 1.0));
        points.push(&point);
    }
    points
}

/// Points anywhere in a cube and a little beyond.
pub fn uniform(random: &mut Random, num: usize, num_channels: usize, half_side: f32) -> Points {
    let mut points = Points::with_capacity(num_channels, num);
    for _ in 0..num {
        let point: Vec<f32> =
            (0..num_channels).map(|_| random.range(-half_side, half_side)).collect();
        points.push(&point);
    }
    points
}

pub fn grid(half_side: f32, height: f32, voxel_size_m: [f32; 3]) -> Grid {
    let (min, max) = ([-half_side, -half_side, -height], [half_side, half_side, height]);
    Grid::new(PointRange { min, max }, voxel_size_m).unwrap()
}

/// The scans of the shared data that are there: name, floats and channels of a
/// point.
pub fn shared_scans() -> Vec<(String, Vec<f32>, usize)> {
    let Some(root) = shared_data() else { return Vec::new() };
    let mut scans = Vec::new();
    for (folder, num_channels) in [("kitti", 4), ("nuscenes", 5), ("waymo", 5)] {
        let Ok(entries) = std::fs::read_dir(root.join("scans").join(folder)) else { continue };
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let bytes = std::fs::read(&path).unwrap();
            let floats =
                bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            scans.push((path.display().to_string(), floats.collect(), num_channels));
        }
    }
    if scans.is_empty() {
        skip(Need::Data, "no shared scans");
    }
    scans
}
