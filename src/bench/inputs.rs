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
    tensor(shape, values, element)
}

/// The outputs of a head of DETR: boxes, and logits of which `num_passing` rows have one above 0.
pub(super) fn detr(
    num_rows: usize,
    num_classes: usize,
    num_passing: usize,
    element: ElementType,
) -> [Tensor; 2] {
    let mut random = Random::new(5);
    let boxes = (0..num_rows).flat_map(|_| [0.8, 0.8, 0.2, 0.2]);
    let boxes = boxes.map(|side| random.range(0.02, side)).collect();
    let mut logits: Vec<f32> =
        (0..num_rows * num_classes).map(|_| random.range(-7.0, -1.0)).collect();
    for row in 0..num_passing {
        let row = row * num_rows / num_passing;
        logits[row * num_classes + random.below(num_classes)] = random.range(0.2, 4.0);
    }
    [
        tensor(vec![1, num_rows, 4], boxes, element),
        tensor(vec![1, num_rows, num_classes], logits, element),
    ]
}

/// Instances of [`instances`].
pub(super) const NUM_INSTANCES: usize = 100;
/// Columns of the grid that they are in.
const COLUMNS: usize = 13;

/// The outputs of an 80-class network with masks, predictions [1, 116, 8400] and prototypes
/// [1, 32, 160, 160]: in a source image of 1920x1080 the boxes have sides of 120 to 280 pixels, 200
/// on average, and none overlaps another so far that it is suppressed.
pub(super) fn instances(num_classes: usize, element: ElementType) -> [Tensor; 2] {
    const NUM_ROWS: usize = 8400;
    const NUM_PROTOTYPES: usize = 32;
    const MAP: usize = 160;
    let mut random = Random::new(6);
    let num_planes = 4 + num_classes + NUM_PROTOTYPES;
    let mut values = vec![0.0; num_planes * NUM_ROWS];
    for instance in 0..NUM_INSTANCES {
        let row = instance * NUM_ROWS / NUM_INSTANCES;
        let (column, line) = (instance % COLUMNS, instance / COLUMNS);
        let mut set = |plane: usize, value| values[plane * NUM_ROWS + row] = value;
        set(0, 47.0 + column as f32 * 45.5);
        // The image is letterboxed to rows 140 to 500.
        set(1, 187.0 + line as f32 * 38.0);
        set(2, random.range(40.0, 93.3));
        set(3, random.range(40.0, 93.3));
        set(4 + random.below(num_classes), random.range(0.3, 1.0));
        (0..NUM_PROTOTYPES).for_each(|i| set(4 + num_classes + i, random.range(-1.0, 1.0)));
    }
    let num = NUM_PROTOTYPES * MAP * MAP;
    let prototypes = (0..num).map(|_| random.range(-1.0, 1.0)).collect();
    [
        tensor(vec![1, num_planes, NUM_ROWS], values, element),
        tensor(vec![1, NUM_PROTOTYPES, MAP, MAP], prototypes, element),
    ]
}

fn tensor(shape: Vec<usize>, values: Vec<f32>, element: ElementType) -> Tensor {
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
