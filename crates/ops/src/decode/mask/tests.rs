use half::f16;
use proptest::prelude::*;

use super::*;
use crate::decode::logit::sigmoid;
use det_post_types::{Box2d, Letterbox, Placement, TensorValues};

/// Coefficients and prototypes of a frame, and its detections.
#[derive(Clone, Debug)]
struct Scene {
    rows: Vec<Vec<f32>>,
    /// By prototype, rows of the map.
    prototypes: Vec<Vec<f32>>,
    map: Size,
    image: Size,
    mapping: MaskMapping,
    boxes: Vec<Box2d>,
    sources: Vec<u32>,
}

impl Scene {
    fn new(image: Size, map: Size, params: MaskParams, boxes: &[Box2d]) -> Self {
        let placed = Letterbox::new(image, Size::new(64, 48), Placement::Center);
        let mapping = MaskMapping::new(&params, Placement::Center, &placed, map).unwrap();
        let number = |i: usize| ((i * 7919 + 13) % 101) as f32 / 50.0 - 1.0;
        let num_cells = (map.width * map.height) as usize;
        let prototype = |p: usize| (0..num_cells).map(|i| number(i * 5 + p * 31)).collect();
        Self {
            rows: (0..6).map(|row| (0..3).map(|i| number(row * 17 + i * 3)).collect()).collect(),
            prototypes: (0..3).map(prototype).collect(),
            map,
            image,
            mapping,
            boxes: boxes.to_vec(),
            sources: (0..boxes.len() as u32).map(|i| i * 5 % 6).collect(),
        }
    }

    fn detections(&self) -> Vec<Detection2d> {
        self.boxes.iter().map(|&bbox| Detection2d { class: 0, score: 0.5, bbox }).collect()
    }

    /// Windows and words, and how many masks are left out.
    fn run(
        &self,
        by_plane: bool,
        halves: bool,
        capacity_bytes: usize,
    ) -> (Vec<MaskWindow>, Vec<u32>, usize) {
        let (workspace, over) = self.workspace(by_plane, halves, capacity_bytes);
        let masks = workspace.masks();
        assert_eq!(masks.image, self.image);
        (masks.windows.to_vec(), masks.words.to_vec(), over)
    }

    fn num_invalid(&self, by_plane: bool) -> usize {
        let num = self.workspace(by_plane, false, 1 << 20).0.num_invalid();
        assert_eq!(self.workspace(by_plane, true, 1 << 20).0.num_invalid(), num, "halves");
        num
    }

    fn workspace(&self, by_plane: bool, halves: bool, capacity_bytes: usize) -> (Workspace, usize) {
        let num_rows = self.rows.len();
        let (shape, coefficients, values): (_, _, Vec<f32>) = if by_plane {
            let plane = |plane: usize| {
                self.rows.iter().map(move |row| if plane < 5 { 9.0 } else { row[plane - 5] })
            };
            ([1, 8, num_rows], Coefficients::Planes(5), (0..8).flat_map(plane).collect())
        } else {
            let row = |row: &Vec<f32>| [9.0; 6].into_iter().chain(row.clone()).collect::<Vec<_>>();
            ([1, num_rows, 9], Coefficients::Columns(6), self.rows.iter().flat_map(row).collect())
        };
        let prototypes = self.prototypes.concat();
        let map_shape = [1, 3, self.map.height as usize, self.map.width as usize];
        let narrow = |values: &[f32]| values.iter().map(|&v| f16::from_f32(v)).collect::<Vec<_>>();
        let (narrow_values, narrow_prototypes) = (narrow(&values), narrow(&prototypes));
        let tensors = match halves {
            true => (TensorValues::F16(&narrow_values), TensorValues::F16(&narrow_prototypes)),
            false => (TensorValues::F32(&values), TensorValues::F32(&prototypes)),
        };
        let inputs = MaskInputs {
            predictions: TensorView::new(&shape, tensors.0).unwrap(),
            coefficients,
            prototypes: TensorView::new(&map_shape, tensors.1).unwrap(),
            mapping: self.mapping,
            sources: &self.sources,
            detections: &self.detections(),
        };
        let mut workspace = Workspace::with_capacity(self.boxes.len(), capacity_bytes);
        let over = mask(&inputs, &mut workspace).unwrap();
        (workspace, over)
    }

    /// The definition, a pixel at a time.
    fn is_set(&self, detection: usize, x: u32, y: u32) -> bool {
        let bbox = self.boxes[detection];
        let (column, row) = (x as f32, y as f32);
        if !(bbox.x1 <= column && column < bbox.x2 && bbox.y1 <= row && row < bbox.y2) {
            return false;
        }
        let coefficients = self.rows.get(self.sources[detection] as usize);
        let cell = |[x, y]: [u32; 2]| {
            let mut sum = 0.0_f32;
            for (index, prototype) in self.prototypes.iter().enumerate() {
                let coefficient = coefficients.map_or(0.0, |row| row[index]);
                sum += coefficient * prototype[(y * self.map.width + x) as usize];
            }
            if self.mapping.sigmoid { sigmoid(sum) } else { sum }
        };
        let place = |axis: &MaskAxis, pixel: u32| {
            let last = axis.count - 1;
            let position =
                ((pixel as f32 + 0.5) * axis.scale + axis.shift).max(0.0).min(last as f32);
            let first = position.floor();
            let cells = [first as u32, (first as u32 + 1).min(last)].map(|cell| axis.first + cell);
            (cells, position - first)
        };
        let ([left, right], across) = place(&self.mapping.x, x);
        let ([upper, lower], down) = place(&self.mapping.y, y);
        let mix = |a: f32, b: f32, weight: f32| a + (b - a) * weight;
        let of_column = |x| mix(cell([x, upper]), cell([x, lower]), down);
        let value = mix(of_column(left), of_column(right), across);
        value > if self.mapping.sigmoid { 0.5 } else { 0.0 }
    }

    /// Compares every pixel of every mask with the definition.
    fn check(&self) {
        let (windows, words, over) = self.run(true, false, 1 << 20);
        assert_eq!((windows.len(), over), (self.boxes.len(), 0));
        assert_eq!(self.run(false, false, 1 << 20), (windows.clone(), words.clone(), 0));
        let masks = Masks { image: self.image, windows: &windows, words: &words };
        for detection in 0..self.boxes.len() {
            let found = masks.get(detection).unwrap();
            let mut pixels = vec![false; (self.image.width * self.image.height) as usize];
            found.for_each(|x, y| pixels[(y * self.image.width + x) as usize] = true);
            for (index, &is_set) in (0..).zip(&pixels) {
                let (x, y) = (index % self.image.width, index / self.image.width);
                let expected = self.is_set(detection, x, y);
                assert_eq!(is_set, expected, "{detection}: {x} {y} {:?}", self.boxes[detection]);
            }
        }
    }
}

const STRAIGHT: MaskParams = MaskParams::of(MaskRule::Straight);
const NATIVE: MaskParams = MaskParams::of(MaskRule::Native);
const BOXES: [Box2d; 6] = [
    Box2d::new(0.0, 0.0, 100.0, 60.0),
    Box2d::new(10.5, 3.0, 43.5, 59.25),
    Box2d::new(31.0, 3.0, 63.0, 4.0),
    Box2d::new(10.2, 3.0, 10.9, 9.0),
    Box2d::new(99.0, 59.0, 100.0, 60.0),
    Box2d::new(64.0, 0.0, 97.0, 60.0),
];

#[test]
fn masks_are_those_of_the_definition() {
    let image = Size::new(100, 60);
    for params in [STRAIGHT, NATIVE] {
        for sigmoid in [false, true] {
            let params = MaskParams { sigmoid, ..params };
            // Enlarged, reduced, of one cell.
            for map in [Size::new(16, 12), Size::new(160, 120), Size::new(1, 1)] {
                let scene = Scene::new(image, map, params, &BOXES);
                scene.check();
                let set = scene.run(true, false, 1 << 20).1;
                assert!(set.iter().any(|&word| word != 0), "{params:?} {map:?}");
            }
        }
    }
    Scene::new(image, Size::new(16, 12), STRAIGHT, &[]).check();
    let dot = [Box2d::new(0.0, 0.0, 1.0, 1.0)];
    Scene::new(Size::new(1, 1), Size::new(16, 12), STRAIGHT, &dot).check();
}

#[test]
fn halves_are_the_floats_they_are() {
    let mut scene = Scene::new(Size::new(100, 60), Size::new(16, 12), STRAIGHT, &BOXES);
    let halves = scene.run(true, true, 1 << 20);
    let rounded = |values: &mut Vec<f32>| {
        values.iter_mut().for_each(|value| *value = f16::from_f32(*value).to_f32());
    };
    scene.rows.iter_mut().for_each(rounded);
    scene.prototypes.iter_mut().for_each(rounded);
    assert_eq!(halves, scene.run(true, false, 1 << 20));
}

#[test]
fn values_that_are_no_numbers_and_rows_that_are_not_there_set_nothing() {
    let image = Size::new(100, 60);
    for (value, params) in [
        (f32::NAN, STRAIGHT),
        (f32::NAN, MaskParams { sigmoid: true, ..STRAIGHT }),
        (0.0, STRAIGHT),
        (0.0, MaskParams { sigmoid: true, ..STRAIGHT }),
        (f32::NEG_INFINITY, STRAIGHT),
    ] {
        let mut scene = Scene::new(image, Size::new(16, 12), params, &BOXES[..1]);
        scene.rows[0] = vec![1.0, 0.0, 0.0];
        scene.prototypes[0].fill(value);
        scene.prototypes[1..].iter_mut().for_each(|prototype| prototype.fill(1.0));
        assert!(scene.run(true, false, 1 << 20).1.iter().all(|&word| word == 0), "{value}");
    }
    let mut scene = Scene::new(image, Size::new(16, 12), STRAIGHT, &BOXES[..1]);
    for source in [6, u32::MAX] {
        scene.sources = vec![source];
        assert!(scene.run(true, false, 1 << 20).1.iter().all(|&word| word == 0));
        assert!(scene.run(false, false, 1 << 20).1.iter().all(|&word| word == 0));
    }
}

#[test]
fn the_first_mask_over_the_capacity_and_all_after_it_are_left_out() {
    let mut boxes = BOXES.to_vec();
    boxes.swap(0, 3);
    let scene = Scene::new(Size::new(100, 60), Size::new(16, 12), STRAIGHT, &boxes);
    let (windows, words, _) = scene.run(true, false, 1 << 20);
    // Words of the masks: 0, 2 * 57, 1, 4 * 60, 1, 2 * 60.
    let needed = [0, 114, 1, 240, 1, 120];
    assert_eq!(windows.iter().map(MaskWindow::num_words).collect::<Vec<_>>(), needed);
    // (words of the capacity, masks)
    for (capacity, num) in
        [(0, 1), (113, 1), (114, 2), (115, 3), (354, 3), (355, 4), (356, 5), (475, 5), (476, 6)]
    {
        let (found, bits, over) = scene.run(true, false, capacity * 4);
        assert_eq!((found.len(), over), (num, 6 - num), "{capacity}");
        assert_eq!(found, windows[..num]);
        assert_eq!(bits, words[..needed[..num].iter().sum::<usize>()]);
        // Bytes that are no whole word are not used.
        assert_eq!(scene.run(true, false, capacity * 4 + 3).0.len(), num);
    }
}

#[test]
fn windows_of_the_rule_native_are_those_of_the_padding() {
    let window = |source, placement, map| {
        let placed = Letterbox::new(source, Size::new(320, 320), placement);
        let mapping = MaskMapping::new(&NATIVE, placement, &placed, map).unwrap();
        [mapping.y, mapping.x].map(|axis| (axis.first, axis.first + axis.count))
    };
    let map = Size::new(80, 80);
    let center = Placement::Center;
    let cases = [
        (Size::new(641, 357), center, map, [(17, 62), (0, 80)]),
        (Size::new(810, 1080), center, map, [(0, 80), (10, 70)]),
        (Size::new(500, 331), center, map, [(13, 66), (0, 80)]),
        (Size::new(500, 331), Placement::TopLeft, map, [(0, 53), (0, 80)]),
        (Size::new(500, 331), Placement::Stretch, map, [(0, 80), (0, 80)]),
        (Size::new(80, 80), center, map, [(0, 80), (0, 80)]),
        // Contents narrower than a cell keep one.
        (Size::new(4000, 1), center, map, [(40, 41), (0, 80)]),
        (Size::new(1, 4000), center, map, [(0, 80), (40, 41)]),
    ];
    for (source, placement, map, expected) in cases {
        assert_eq!(window(source, placement, map), expected, "{source:?} {placement:?}");
    }
    let placed = Letterbox::new(Size::new(90, 80), Size::new(320, 320), Placement::CropTop);
    let refused = MaskMapping::new(&NATIVE, Placement::CropTop, &placed, map).unwrap_err();
    assert!(refused.message().contains("`native`"), "{refused}");
    MaskMapping::new(&STRAIGHT, Placement::CropTop, &placed, map).unwrap();
    let refused = MaskMapping::new(&STRAIGHT, center, &placed, Size::new(0, 4)).unwrap_err();
    assert!(refused.message().contains("a side is 0"), "{refused}");
}

#[test]
fn masks_with_numbers_that_are_not_finite_are_counted() {
    let number_of = |change: &dyn Fn(&mut Scene), by_plane| {
        let mut scene = Scene::new(Size::new(100, 60), Size::new(16, 12), STRAIGHT, &BOXES);
        change(&mut scene);
        scene.num_invalid(by_plane)
    };
    for by_plane in [true, false] {
        assert_eq!(number_of(&|_| {}, by_plane), 0);
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            // Row 1 is of the last box, row 3 of one without pixels.
            let coefficient = |row: usize| move |scene: &mut Scene| scene.rows[row][2] = value;
            assert_eq!(number_of(&coefficient(1), by_plane), 1, "{value}");
            assert_eq!(number_of(&coefficient(3), by_plane), 0, "{value}: no pixels");
            let all = |scene: &mut Scene| scene.prototypes[0].fill(value);
            assert_eq!(number_of(&all, by_plane), 5, "{value}");
            // Only the first box is at the corner.
            let corner = |scene: &mut Scene| scene.prototypes[2][0] = value;
            assert_eq!(number_of(&corner, by_plane), 1, "{value}");
        }
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let scene = Scene::new(Size::new(100, 60), Size::new(16, 12), STRAIGHT, &BOXES);
    let detections = scene.detections();
    let zeros = vec![0.0_f32; 16 * 12 * 300];
    let integers = vec![0_i32; 3 * 16 * 12];
    let run = |predictions: &[usize], coefficients, prototypes: TensorView<'_>, sources: &[u32]| {
        let values = TensorValues::F32(&zeros[..predictions.iter().product()]);
        let inputs = MaskInputs {
            predictions: TensorView::new(predictions, values).unwrap(),
            coefficients,
            prototypes,
            mapping: scene.mapping,
            sources,
            detections: &detections,
        };
        let mut workspace = Workspace::with_capacity(9, 1 << 20);
        let result = mask(&inputs, &mut workspace);
        assert!(result.is_ok() || workspace.masks().windows.is_empty());
        result.map_err(|error| error.message().to_owned())
    };
    let floats = |shape: &'static [usize]| {
        let values = TensorValues::F32(&zeros[..shape.iter().product()]);
        TensorView::new(shape, values).unwrap()
    };
    let map = floats(&[1, 3, 12, 16]);
    let (planes, columns) = (Coefficients::Planes(5), Coefficients::Columns(6));
    let six = [0; 6];
    assert_eq!(run(&[1, 8, 9], planes, map, &six), Ok(0));
    assert_eq!(run(&[1, 9, 9], columns, map, &six), Ok(0));
    let numbers = TensorView::new(&[1, 3, 12, 16], TensorValues::I32(&integers)).unwrap();
    let cases = [
        (run(&[1, 9, 9], planes, map, &six), "coefficients in Planes(5)"),
        (run(&[8, 9], planes, map, &six), "predictions [8, 9]"),
        (run(&[1, 9, 8], columns, map, &six), "coefficients in Columns(6)"),
        (run(&[2, 8, 9], planes, map, &six), "predictions [2, 8, 9]"),
        (run(&[1, 8, 9], planes, floats(&[1, 3, 16, 12]), &six), "does not fit [1, 3, 16, 12]"),
        (run(&[1, 8, 9], planes, floats(&[3, 12, 16]), &six), "prototypes [3, 12, 16]"),
        (run(&[1, 5, 9], planes, floats(&[1, 0, 12, 16]), &six), "1 to 256"),
        (run(&[1, 262, 1], planes, floats(&[1, 257, 12, 16]), &six), "1 to 256"),
        (run(&[1, 8, 9], planes, numbers, &six), "f32 or f16 expected"),
        (run(&[1, 8, 9], planes, map, &six[..5]), "6 detections have 5 sources"),
    ];
    for (found, part) in cases {
        let message = found.unwrap_err();
        assert!(message.contains(part), "{message}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_geometry_equals_the_definition(
        image in (1_u32..90, 1_u32..90),
        map in (1_u32..40, 1_u32..40),
        native: bool,
        sigmoid: bool,
        corners in prop::collection::vec(prop::array::uniform4(-10.0_f32..100.0), 0..4),
    ) {
        let rule = if native { MaskRule::Native } else { MaskRule::Straight };
        let image = Size::new(image.0, image.1);
        let clipped = |[x1, y1, x2, y2]: [f32; 4]| {
            let x = |x: f32| x.clamp(0.0, image.width as f32);
            let y = |y: f32| y.clamp(0.0, image.height as f32);
            Box2d::new(x(x1), y(y1), x(x2), y(y2))
        };
        let boxes: Vec<Box2d> = corners.into_iter().map(clipped).collect();
        let params = MaskParams { sigmoid, ..MaskParams::of(rule) };
        Scene::new(image, Size::new(map.0, map.1), params, &boxes).check();
    }
}
