//! Masks against numpy in f64: the cases of two layouts by both rules, and real networks.

use std::path::Path;

use det_post_ops::decode::gather::{GatherCounts, gather_2d, sources_2d};
use det_post_ops::decode::mask::{self, Coefficients, MaskInputs, MaskMapping, mask};
use det_post_ops::decode::select::select;
use det_post_ops::decode::yolo::decode_yolo;
use det_post_ops::nms::{self, suppress_2d};
use det_post_testing::npz::Npz;
use det_post_testing::shared_data::shared_data;
use det_post_types::{
    Affine2, Box2d, Candidates, ClassMode, Detection2d, Letterbox, MaskParams, MaskRule, Nms2d,
    NmsIou, Placement, Rle, Size, TensorValues, TensorView, YoloLayout,
};
use serde_json::Value;

const CASES: [&str; 6] = [
    "end_to_end_c3_320",
    "real_bus",
    "real_kitti",
    "real_zidane",
    "synthetic_c5_320",
    "synthetic_c80_384x256",
];

struct Case {
    npz: Npz,
    expected: Value,
}

impl Case {
    fn open(folder: &Path, name: &str) -> Self {
        let text = std::fs::read_to_string(folder.join(format!("{name}_expected.json"))).unwrap();
        let npz = Npz::open(&folder.join(format!("{name}.npz")));
        Self { npz, expected: serde_json::from_str(&text).unwrap() }
    }

    fn number(&self, key: &str) -> f64 {
        self.expected.pointer(key).and_then(Value::as_f64).unwrap_or_else(|| panic!("{key}"))
    }

    fn size(&self, key: &str) -> Size {
        let side = |axis| self.number(&format!("/{key}/{axis}")) as u32;
        Size::new(side(0), side(1))
    }

    fn objects(&self) -> &[Value] {
        self.expected["objects"].as_array().unwrap()
    }

    fn num_classes(&self) -> usize {
        self.number("/classes") as usize
    }

    fn is_end_to_end(&self) -> bool {
        self.expected["end_to_end"].as_bool().unwrap()
    }

    fn tensor(&self, name: &str) -> TensorView<'_> {
        TensorView::new(&self.npz.array(name).shape, TensorValues::F32(self.npz.f32(name))).unwrap()
    }

    fn layout(&self) -> YoloLayout {
        let num_coefficients = 32;
        match self.is_end_to_end() {
            true => YoloLayout::SegEndToEnd { num_coefficients },
            false => YoloLayout::Seg { num_coefficients },
        }
    }

    fn coefficients(&self) -> Coefficients {
        match self.is_end_to_end() {
            true => Coefficients::Columns(6),
            false => Coefficients::Planes(4 + self.num_classes()),
        }
    }

    /// The mapping of the reference, whose gain is the same for both axes.
    fn mapping(&self, rule: MaskRule) -> MaskMapping {
        let (source, network, map) =
            (self.size("source_size"), self.size("input_size"), self.size("proto_size"));
        let placed = Letterbox::new(source, network, Placement::Center);
        let params = MaskParams::of(rule);
        let mut mapping = MaskMapping::new(&params, Placement::Center, &placed, map).unwrap();
        if rule == MaskRule::Straight {
            let [gain, left, top] =
                ["gain", "left", "top"].map(|key| self.number(&format!("/letterbox/{key}")));
            mapping.x = MaskMapping::straight(gain, left, network.width, map.width);
            mapping.y = MaskMapping::straight(gain, top, network.height, map.height);
        }
        mapping
    }

    /// The masks of these detections by a rule, as the reference names it.
    fn masks(
        &self,
        rule: MaskRule,
        sources: &[u32],
        detections: &[Detection2d],
        workspace: &mut mask::Workspace,
    ) {
        let inputs = MaskInputs {
            predictions: self.tensor("output0"),
            coefficients: self.coefficients(),
            prototypes: self.tensor("output1"),
            mapping: self.mapping(rule),
            sources,
            detections,
        };
        assert_eq!(mask(&inputs, workspace).unwrap(), 0);
    }
}

fn corners(value: &Value) -> Box2d {
    let at = |index: usize| value[index].as_f64().unwrap() as f32;
    Box2d::new(at(0), at(1), at(2), at(3))
}

const RULES: [(MaskRule, &str); 2] =
    [(MaskRule::Straight, "straight_source"), (MaskRule::Native, "upsample_first_source")];

fn expected_mask(object: &Value, name: &str) -> Rle {
    let of = &object["rle"][name];
    let side = |index: usize| of["size"][index].as_u64().unwrap() as u32;
    Rle::from_compressed(Size::new(side(1), side(0)), of["counts"].as_str().unwrap()).unwrap()
}

#[test]
fn masks_of_given_boxes_are_those_of_the_reference() {
    let Some(folder) = shared_data().map(|data| data.join("seg")) else { return };
    let (mut num_compared, mut num_differing) = (0, 0);
    for name in CASES {
        let case = Case::open(&folder, name);
        let detections: Vec<Detection2d> = case
            .objects()
            .iter()
            .map(|of| Detection2d { class: 0, score: 0.5, bbox: corners(&of["box_source"]) })
            .collect();
        let sources: Vec<u32> =
            case.objects().iter().map(|of| of["index"].as_u64().unwrap() as u32).collect();
        for (rule, key) in RULES {
            let mut workspace = mask::Workspace::with_capacity(300, 64 << 20);
            case.masks(rule, &sources, &detections, &mut workspace);
            for (index, object) in case.objects().iter().enumerate() {
                let found = Rle::of(&workspace.masks().get(index).unwrap());
                let expected = expected_mask(object, key);
                match found.difference(&expected).unwrap() {
                    0 => {
                        let counts = object["rle"][key]["counts"].as_str().unwrap();
                        assert_eq!(found.to_compressed(), counts, "{name} {key} {index}");
                        assert_eq!(found.area(), object["area"][key].as_u64().unwrap());
                    }
                    num => {
                        println!("{name} {key} {index}: {num} of {} pixels", expected.area());
                        num_differing += num;
                    }
                }
                num_compared += 1;
            }
        }
    }
    // A pixel on the threshold, whose position is rounded to f32 here.
    assert!(num_differing <= 1, "{num_differing} pixels differ");
    assert_eq!(num_compared, 2 * (36 + 4 + 7 + 3 + 48 + 19));
}

/// From the tensors on: the same objects in the same order.
#[test]
fn detections_and_their_masks_equal_the_reference() {
    let Some(folder) = shared_data().map(|data| data.join("seg")) else { return };
    for name in CASES {
        let case = Case::open(&folder, name);
        let network = case.size("input_size");
        let threshold = case.number("/confidence") as f32;
        let mut candidates = Candidates::with_capacity(30_000);
        let layout = case.layout();
        let outputs = [case.tensor("output0")];
        decode_yolo(&outputs, &layout, network, case.num_classes(), threshold, &mut candidates)
            .unwrap();
        select(&mut candidates, 30_000);
        let nms = match case.expected["iou_threshold"].as_f64() {
            Some(threshold) => Nms2d::Iou(NmsIou {
                iou_threshold: threshold as f32,
                offset: 0,
                class_mode: ClassMode::Aware,
                score_threshold: None,
                max_num: usize::MAX,
            }),
            None => Nms2d::None,
        };
        let mut keep = Vec::new();
        let mut suppression = nms::Workspace::with_capacity(30_000);
        suppress_2d(candidates.as_slice(), &nms, &mut suppression, &mut keep).unwrap();
        // The reference divides both axes by one gain.
        let gain = case.number("/letterbox/gain");
        let offset =
            ["left", "top"].map(|key| (-case.number(&format!("/letterbox/{key}")) / gain) as f32);
        let back = Affine2 { scale: [(1.0 / gain) as f32; 2], offset };
        let source = case.size("source_size");
        let (mut found, mut sources) = (Vec::new(), Vec::new());
        let candidates = candidates.as_slice();
        let dropped = gather_2d(candidates, &keep, &back, source, 300, &mut found);
        assert_eq!(dropped, GatherCounts::default());
        sources_2d(candidates, &keep, &back, source, 300, &mut sources);
        // Gathering leaves out boxes without area inside of the image.
        let has_area = |object: &&Value| {
            let b = corners(&object["box_source"]);
            b.x1 < b.x2 && b.y1 < b.y2
        };
        let objects: Vec<&Value> = case.objects().iter().filter(has_area).collect();
        assert_eq!(found.len(), objects.len(), "{name}");
        for ((found, &source), object) in found.iter().zip(&sources).zip(&objects) {
            let what = |key: &str| object[key].as_u64().unwrap() as u32;
            assert_eq!((found.class, source), (what("class_id"), what("index")), "{name}");
            let (a, b) = (found.bbox, corners(&object["box_source"]));
            for (a, b) in [(a.x1, b.x1), (a.y1, b.y1), (a.x2, b.x2), (a.y2, b.y2)] {
                assert!((a - b).abs() < 0.01, "{name}: {a} {b}");
            }
        }
        for (rule, key) in RULES {
            let mut workspace = mask::Workspace::with_capacity(300, 64 << 20);
            case.masks(rule, &sources, &found, &mut workspace);
            for (index, object) in objects.iter().enumerate() {
                let found = Rle::of(&workspace.masks().get(index).unwrap());
                let expected = expected_mask(object, key);
                // Two empty masks overlap nothing.
                if found != expected {
                    let iou = found.iou(&expected).unwrap();
                    assert!(iou >= 0.995, "{name} {key} {index}: {iou}");
                }
            }
        }
    }
}
