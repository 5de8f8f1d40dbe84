//! Masks from a map for each row, against the published formulas in f64, a pixel at a time.

use det_post_ops::decode::mask::{Coefficients, MaskInputs, MaskMapping, Workspace, mask};
use det_post_types::{
    Box2d, Detection2d, Letterbox, MaskParams, MaskRule, Masks, Placement, Size, TensorValues,
    TensorView,
};

/// Values closer to the level than this may be on either side of it.
const MARGIN: f64 = 1e-4;
const IMAGE: Size = Size::new(60, 40);

/// A map for each row.
struct Maps {
    values: Vec<f32>,
    num_rows: usize,
    map: Size,
}

impl Maps {
    /// Numbers in `[low, low + 1)`.
    fn new(num_rows: usize, map: Size, low: f32) -> Self {
        let num = num_rows * (map.width * map.height) as usize;
        let number = |i: usize| ((i * 7919 + i / 13 * 31 + 13) % 1009) as f32 / 1009.0 + low;
        Self { values: (0..num).map(number).collect(), num_rows, map }
    }

    /// The value of a cell, 0 beside the map.
    fn cell(&self, row: usize, x: i64, y: i64) -> f64 {
        let Size { width, height } = self.map;
        if x < 0 || y < 0 || x >= i64::from(width) || y >= i64::from(height) {
            return 0.0;
        }
        let at = (row as i64 * i64::from(height) + y) * i64::from(width) + x;
        f64::from(self.values[at as usize])
    }

    /// The value between four cells, at a position from the centre of the first.
    fn between(&self, row: usize, [x, y]: [f64; 2]) -> f64 {
        let (left, top) = (x.floor(), y.floor());
        let (across, down) = (x - left, y - top);
        let at = |dx: i64, dy: i64| self.cell(row, left as i64 + dx, top as i64 + dy);
        let upper = at(0, 0) * (1.0 - across) + at(1, 0) * across;
        let lower = at(0, 1) * (1.0 - across) + at(1, 1) * across;
        upper * (1.0 - down) + lower * down
    }

    /// The masks of boxes, and how many are over the capacity.
    fn masks(
        &self,
        mapping: MaskMapping,
        boxes: &[(u32, Box2d)],
        capacity: usize,
    ) -> (Workspace, usize) {
        let shape = [1, self.num_rows, self.map.height as usize, self.map.width as usize];
        let maps = TensorView::new(&shape, TensorValues::F32(&self.values)).unwrap();
        let of = |&(_, bbox): &(u32, Box2d)| Detection2d { class: 0, score: 0.5, bbox };
        let detections: Vec<Detection2d> = boxes.iter().map(of).collect();
        let inputs = MaskInputs {
            predictions: maps,
            coefficients: Coefficients::Maps,
            prototypes: maps,
            mapping,
            sources: &boxes.iter().map(|(source, _)| *source).collect::<Vec<_>>(),
            detections: &detections,
        };
        let mut workspace = Workspace::with_capacity(boxes.len(), capacity);
        let over = mask(&inputs, &mut workspace).unwrap();
        (workspace, over)
    }
}

fn mapping(params: &MaskParams, map: Size) -> MaskMapping {
    let placed = Letterbox::new(IMAGE, Size::new(32, 32), Placement::Stretch);
    MaskMapping::new(params, Placement::Stretch, &placed, map).unwrap()
}

/// Compares every pixel of the image with a value; returns how many are set.
fn compare(masks: &Masks<'_>, index: usize, level: f64, value: impl Fn(u32, u32) -> f64) -> usize {
    let mut is_set = vec![false; (IMAGE.width * IMAGE.height) as usize];
    masks.get(index).unwrap().for_each(|x, y| is_set[(y * IMAGE.width + x) as usize] = true);
    for (at, &found) in (0..).zip(&is_set) {
        let (x, y) = (at % IMAGE.width, at / IMAGE.width);
        let expected = value(x, y);
        assert!(
            found == (expected > level) || (expected - level).abs() < MARGIN,
            "mask {index}, pixel {x} {y}: {found}, value {expected}"
        );
    }
    is_set.iter().filter(|&&is_set| is_set).count()
}

/// Boxes within the image: of whole pixels, of parts, at its edges, of less than a pixel.
const BOXES: [Box2d; 6] = [
    Box2d::new(3.0, 4.0, 31.0, 32.0),
    Box2d::new(10.3, 5.6, 40.8, 11.2),
    Box2d::new(0.0, 0.0, 60.0, 40.0),
    Box2d::new(57.4, 37.7, 60.0, 40.0),
    Box2d::new(20.2, 20.1, 20.9, 20.4),
    Box2d::new(7.5, 0.0, 8.5, 40.0),
];

#[test]
fn maps_over_boxes_are_pasted_as_by_mmdet() {
    for map in [Size::new(28, 28), Size::new(14, 7), Size::new(1, 1)] {
        for threshold in [0.5, 0.3] {
            let params = MaskParams { threshold: Some(threshold), ..MaskParams::of(MaskRule::Box) };
            let maps = Maps::new(4, map, 0.0);
            let boxes: Vec<_> = (0..).map(|i| i * 3 % 4).zip(BOXES).collect();
            let (workspace, over) = maps.masks(mapping(&params, map), &boxes, 1 << 20);
            assert_eq!(over, 0);
            let mut num_set = 0;
            for (index, (row, b)) in boxes.iter().enumerate() {
                // The grid of `_do_paste_mask`, sampled with zeros beside the map.
                let position = |pixel: u32, low: f32, high: f32, cells: u32| {
                    let of_box = (f64::from(pixel) + 0.5 - f64::from(low)) / f64::from(high - low);
                    of_box * f64::from(cells) - 0.5
                };
                let is_touched = |x: u32, y: u32| {
                    let axis = |pixel: u32, low: f32, high: f32| {
                        (low.floor()..high.ceil()).contains(&(pixel as f32))
                    };
                    axis(x, b.x1, b.x2) && axis(y, b.y1, b.y2)
                };
                let value = |x, y| {
                    // No pixel beside the box has more than half of a probability.
                    if threshold < 0.5 && !is_touched(x, y) {
                        return 0.0;
                    }
                    let at =
                        [position(x, b.x1, b.x2, map.width), position(y, b.y1, b.y2, map.height)];
                    maps.between(*row as usize, at)
                };
                num_set += compare(&workspace.masks(), index, f64::from(threshold), value);
            }
            assert!(num_set > 100, "{map:?} {threshold}: {num_set}");
        }
    }
}

#[test]
fn maps_of_the_image_are_resized_as_by_rf_detr() {
    for map in [Size::new(16, 12), Size::new(90, 70), Size::new(1, 1)] {
        let maps = Maps::new(4, map, -0.4);
        let boxes: Vec<_> = (0..).map(|i| i * 3 % 4).zip(BOXES).collect();
        for crop in [true, false] {
            let params = MaskParams { crop, ..MaskParams::of(MaskRule::Straight) };
            let (workspace, _) = maps.masks(mapping(&params, map), &boxes, 1 << 20);
            let mut num_set = 0;
            for (index, (row, b)) in boxes.iter().enumerate() {
                let position = |pixel: u32, cells: u32, side: u32| {
                    let at = (f64::from(pixel) + 0.5) * f64::from(cells) / f64::from(side) - 0.5;
                    at.clamp(0.0, f64::from(cells - 1))
                };
                let value = |x: u32, y: u32| {
                    let is_inside =
                        (b.x1..b.x2).contains(&(x as f32)) && (b.y1..b.y2).contains(&(y as f32));
                    if crop && !is_inside {
                        return -1.0;
                    }
                    let at = [
                        position(x, map.width, IMAGE.width),
                        position(y, map.height, IMAGE.height),
                    ];
                    maps.between(*row as usize, at)
                };
                num_set += compare(&workspace.masks(), index, 0.0, value);
            }
            assert!(num_set > 100, "{map:?} {crop}: {num_set}");
        }
    }
}

#[test]
fn rows_that_are_not_there_and_values_that_are_no_numbers_set_nothing() {
    let map = Size::new(8, 8);
    for rule in [MaskRule::Box, MaskRule::Straight] {
        let params = MaskParams { threshold: Some(0.5), ..MaskParams::of(rule) };
        let is_empty = |maps: &Maps, source| {
            let (workspace, _) = maps.masks(mapping(&params, map), &[(source, BOXES[0])], 1 << 20);
            assert_eq!(workspace.masks().windows.len(), 1);
            workspace.masks().words.iter().all(|&word| word == 0)
        };
        let mut maps = Maps::new(3, map, 0.6);
        assert!(!is_empty(&maps, 2) && is_empty(&maps, 3) && is_empty(&maps, u32::MAX));
        assert!(is_empty(&Maps::new(0, map, 0.6), 0), "a network that found nothing");
        assert!(!is_empty(&Maps::new(300, map, 0.6), 299), "more rows than prototypes may be");
        maps.values.fill(f32::NAN);
        assert!(is_empty(&maps, 0));
        maps.values.fill(f32::NEG_INFINITY);
        assert!(is_empty(&maps, 0));
    }
    // Detections without area or of no numbers, which gathering does not let through.
    let maps = Maps::new(1, map, 0.6);
    let params = MaskParams::of(MaskRule::Box);
    for bbox in [
        Box2d::new(5.0, 5.0, 5.0, 9.0),
        Box2d::new(f32::NAN, 1.0, 4.0, 9.0),
        Box2d::new(f32::NEG_INFINITY, 1.0, f32::INFINITY, 9.0),
        Box2d::new(-1e30, -1e30, 1e30, 1e30),
    ] {
        let (workspace, over) = maps.masks(mapping(&params, map), &[(0, bbox)], 1 << 20);
        assert_eq!((workspace.masks().windows.len(), over), (1, 0), "{bbox:?}");
    }
}

#[test]
fn masks_of_the_whole_image_exceed_the_capacity_in_their_order() {
    let map = Size::new(8, 8);
    let params = MaskParams { crop: false, ..MaskParams::of(MaskRule::Straight) };
    let boxes = [(0, BOXES[0]), (1, BOXES[4]), (2, BOXES[2])];
    // Two words a row, 40 rows.
    for (capacity, num) in [(0, 0), (319, 0), (320, 1), (639, 1), (640, 2), (960, 3)] {
        let (workspace, over) =
            Maps::new(3, map, 0.6).masks(mapping(&params, map), &boxes, capacity);
        assert_eq!((workspace.masks().windows.len(), over), (num, 3 - num), "{capacity}");
    }
}

#[test]
fn tensors_that_are_no_maps_are_refused() {
    let values = vec![0.5_f32; 3 * 8 * 9];
    let params = MaskParams::of(MaskRule::Box);
    for (shape, fits) in [
        (&[1, 3, 8, 9][..], true),
        (&[3, 8, 9], false),
        (&[3, 1, 8, 9], false),
        (&[1, 3, 9, 8], false),
    ] {
        let maps = TensorView::new(shape, TensorValues::F32(&values)).unwrap();
        let inputs = MaskInputs {
            predictions: maps,
            coefficients: Coefficients::Maps,
            prototypes: maps,
            mapping: mapping(&params, Size::new(9, 8)),
            sources: &[],
            detections: &[],
        };
        let found = mask(&inputs, &mut Workspace::with_capacity(9, 1 << 20));
        assert_eq!(found.is_ok(), fits, "{shape:?}: {found:?}");
    }
}
