//! Inputs of the cases: seeded, the same on every machine.

use half::f16;

use det_post_types::{
    Box2d, Box3d, Candidate, ElementType, Encoding, ImageView, Result, Size, Tensor, YoloLayout,
};

/// A small generator (splitmix64).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`, which is above 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// In `[low, high)`.
    pub(super) fn range(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * ((self.bits() >> 40) as f32 / (1 << 24) as f32)
    }
}

/// An image of noise.
pub(super) struct TestImage {
    size: Size,
    encoding: Encoding,
    data: Vec<u8>,
}

impl TestImage {
    pub(super) fn new(size: Size, encoding: Encoding) -> Self {
        let mut random = Random::new(1);
        let num_bytes = encoding.row_bytes(size.width) * encoding.num_rows(size.height);
        let data = (0..num_bytes).map(|_| random.bits() as u8).collect();
        Self { size, encoding, data }
    }

    pub(super) fn view(&self) -> Result<ImageView<'_>> {
        self.view_of(&self.data)
    }

    /// An image of the same layout.
    pub(super) fn view_of<'a>(&self, data: &'a [u8]) -> Result<ImageView<'a>> {
        let step = self.encoding.row_bytes(self.size.width);
        ImageView::new(self.size, step, self.encoding, false, data)
    }
}

/// The tensor of a YOLO head, `num_passing` of whose rows have scores of 0.3 to
/// 1, far apart; those of all others are below 0.2. V8, Obb or rows with objectness.
pub(super) fn yolo(
    layout: &YoloLayout,
    num_rows: usize,
    num_classes: usize,
    num_passing: usize,
    element: ElementType,
) -> Tensor {
    let mut random = Random::new(2);
    let is_planes = matches!(layout, YoloLayout::V8 | YoloLayout::Obb);
    let first_class = if is_planes { 4 } else { 5 };
    let angle = layout.has_rotated_boxes().then_some(first_class + num_classes);
    let num_columns = first_class + num_classes + usize::from(angle.is_some());
    let mut values = vec![0.0; num_rows * num_columns];
    for row in 0..num_rows {
        // True `num_passing` times over all rows.
        let passes = (row + 1) * num_passing / num_rows > row * num_passing / num_rows;
        for column in 0..num_columns {
            let place =
                if is_planes { column * num_rows + row } else { row * num_columns + column };
            values[place] = match column {
                _ if angle == Some(column) => random.range(-0.7, 2.3),
                0 | 1 if matches!(layout, YoloLayout::Yolox { .. }) => random.range(-0.5, 1.5),
                2 | 3 if matches!(layout, YoloLayout::Yolox { .. }) => random.range(-2.0, 3.0),
                0 | 1 => random.range(0.0, 640.0),
                2 | 3 => random.range(2.0, 120.0),
                _ if !passes => random.range(0.0, 0.2),
                4 if !is_planes => 1.0,
                _ => random.range(0.3, 1.0),
            };
        }
    }
    let shape =
        if is_planes { vec![1, num_columns, num_rows] } else { vec![1, num_rows, num_columns] };
    match element {
        ElementType::F16 => {
            Tensor::F16 { shape, values: values.into_iter().map(f16::from_f32).collect() }
        }
        _ => Tensor::F32 { shape, values },
    }
}

/// The distribution of boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// Anywhere.
    Uniform,
    /// About twenty around each object, as of a network.
    Clusters,
}

impl Spread {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Clusters => "clusters of 20",
        }
    }
}

/// Boxes in an image of 1920 by 1080, in no order.
pub(super) fn boxes(num: usize, spread: Spread) -> Vec<Candidate<Box2d>> {
    let mut random = Random::new(3);
    let mut centers = Vec::new();
    let mut candidate = |source: u32| {
        if spread == Spread::Uniform || source.is_multiple_of(20) {
            centers.push([random.range(0.0, 1920.0), random.range(0.0, 1080.0)]);
        }
        let [x, y] = centers[random.below(centers.len())];
        let (x, y) = (x + random.range(-6.0, 6.0), y + random.range(-6.0, 6.0));
        Candidate {
            bbox: Box2d::from_center(x, y, random.range(20.0, 120.0), random.range(20.0, 120.0)),
            score: random.range(0.0, 1.0),
            class: random.below(80) as u32,
            source,
        }
    };
    (0..num as u32).map(&mut candidate).collect()
}

/// Objects on the ground round a vehicle, in no order.
pub(super) fn objects(num: usize) -> Vec<Candidate<Box3d>> {
    let mut random = Random::new(4);
    let mut candidate = |source: u32| Candidate {
        bbox: Box3d {
            center: [random.range(-76.8, 76.8), random.range(-76.8, 76.8), 0.0],
            length_m: 4.5,
            width_m: 2.0,
            height_m: 1.7,
            yaw_rad: random.range(-3.0, 3.0),
        },
        score: random.range(0.0, 1.0),
        class: random.below(5) as u32,
        source,
    };
    (0..num as u32).map(&mut candidate).collect()
}
