//! The parameters of suppression.

use super::classes::{index_of, indices_of};
use super::declaration::Change::Live;
use super::reader::Reader;
use super::value::Length::{OneOrMore, OneOrPerClass};
use super::value::{above, flag, integer, list, number, one_of, text};
use det_post_ros::yaml::Node;
use det_post_types::{
    CircleThreshold, ClassMode, Nms2d, Nms3d, NmsBev, NmsBevFast, NmsCircle, NmsFast, NmsIou,
    NmsIou3d, NmsRotated, NmsSoft, SoftDecay, YoloLayout,
};

#[derive(Clone, Copy, PartialEq)]
enum Kind2d {
    Iou,
    Fast,
    SoftLinear,
    SoftGaussian,
    Rotated,
    None,
}

const KINDS_2D: &[(&str, Kind2d)] = &[
    ("iou", Kind2d::Iou),
    ("fast", Kind2d::Fast),
    ("soft_linear", Kind2d::SoftLinear),
    ("soft_gaussian", Kind2d::SoftGaussian),
    ("rotated", Kind2d::Rotated),
    ("none", Kind2d::None),
];

/// The parameters `nms.*` of channels with boxes in an image.
pub(super) fn nms_2d(p: &mut Reader<'_>, layout: &YoloLayout) -> Nms2d {
    let kind = p.derived(
        "nms.kind",
        Live,
        one_of(KINDS_2D),
        (
            "`none` for end-to-end heads, `rotated` for heads with rotated boxes, else `iou`",
            match layout {
                layout if layout.is_end_to_end() => "none",
                layout if layout.has_rotated_boxes() => "rotated",
                _ => "iou",
            },
        ),
        "Suppression. `iou`: greedy. `fast`: suppressed boxes suppress, too. `soft_*`: scores \
         decay with the overlap. `rotated`: greedy, by the exact IoU.",
    );
    let is_rotated = kind == Kind2d::Rotated;
    if is_rotated != layout.has_rotated_boxes() && kind != Kind2d::None {
        let allowed = match layout.has_rotated_boxes() {
            true => "`rotated` or `none`, as the head has rotated boxes",
            false => "another kind, as the head has axis-aligned boxes",
        };
        let name = KINDS_2D.iter().find(|(_, known)| *known == kind).map_or("", |(name, _)| *name);
        p.refuse("nms.kind", format!("{name:?}"), allowed);
    }
    let iou_threshold = p.value(
        "nms.iou_threshold",
        Live,
        number(0.0..=1.0),
        0.45,
        "IoU with a better box above which a box is suppressed (`iou`, `fast`, `rotated`) or its score \
         decays (`soft_linear`).",
    );
    // The head of a camera is one task.
    let class_mode = class_mode(p, "aware", || ClassMode::Agnostic);
    let offset = p.value(
        "nms.offset",
        Live,
        integer(0..=1).in_unit("px"),
        0,
        "Added to widths and heights in IoUs (`iou`, `soft_*`): 1 for boxes in whole pixels, ends \
         included.",
    ) as u8;
    let sigma = p.value(
        "nms.sigma",
        Live,
        above(0.0, 100.0),
        0.5,
        "Width of the decay of `soft_gaussian`.",
    );
    let min_score = p.value(
        "nms.min_score",
        Live,
        number(0.0..=1.0),
        0.05,
        "Boxes whose score decays below this are dropped (`soft_*`).",
    );
    let soft = |decay, class_mode| Nms2d::Soft(NmsSoft { decay, min_score, offset, class_mode });
    match kind {
        Kind2d::Iou => Nms2d::Iou(NmsIou {
            iou_threshold,
            offset,
            class_mode,
            score_threshold: None,
            max_num: usize::MAX,
        }),
        Kind2d::Fast => Nms2d::Fast(NmsFast { iou_threshold, class_mode }),
        Kind2d::SoftLinear => soft(SoftDecay::Linear { iou_threshold }, class_mode),
        Kind2d::SoftGaussian => soft(SoftDecay::Gaussian { sigma }, class_mode),
        Kind2d::Rotated => Nms2d::Rotated(NmsRotated { iou_threshold, class_mode }),
        Kind2d::None => Nms2d::None,
    }
}

#[derive(Clone, Copy)]
enum Kind3d {
    Circle,
    Bev,
    BevFast,
    Iou3d,
    None,
}

const KINDS_3D: &[(&str, Kind3d)] = &[
    ("circle", Kind3d::Circle),
    ("bev", Kind3d::Bev),
    ("bev_fast", Kind3d::BevFast),
    ("iou_3d", Kind3d::Iou3d),
    ("none", Kind3d::None),
];
const CIRCLE_READINGS: &[(&str, CircleThreshold)] =
    &[("radius", CircleThreshold::Radius), ("squared_distance", CircleThreshold::SquaredDistance)];

/// The parameters `nms.*` of channels with boxes in space.
pub(super) fn nms_3d(
    p: &mut Reader<'_>,
    class_names: &[String],
    task_of_class: impl FnOnce() -> Vec<u32>,
) -> Vec<Nms3d> {
    let kinds = kinds_3d(p);
    let thresholds = p.value(
        "nms.circle_radius_m",
        Live,
        list(number(0.0..=1e6).in_unit("m"), OneOrPerClass),
        0.5,
        "Threshold of `circle`; the class of the better box decides.",
    );
    let reading = p.value(
        "nms.circle_reading",
        Live,
        one_of(CIRCLE_READINGS),
        "radius",
        "`radius`: suppressed when distance < threshold. `squared_distance`: when distance² <= threshold, as \
         in mmdet3d.",
    );
    let iou_thresholds = p.value(
        "nms.iou_thresholds",
        Live,
        list(number(0.0..=1.0), OneOrPerClass),
        0.1,
        "A box is suppressed when its IoU with a better one is above this (`bev`, `bev_fast`, `iou_3d`); \
         the class of the better box decides.",
    );
    let search_distance_m = p.optional(
        "nms.search_distance_m",
        Live,
        above(0.0, 1e6).in_unit("m"),
        "no limit",
        "Boxes farther apart are not compared (`bev`, `bev_fast`).",
    );
    let search_distance_m = search_distance_m.unwrap_or(f32::INFINITY);
    let unlimited_pairs = unlimited_pairs(p, class_names);
    let forbidden_pairs = forbidden_pairs(p, class_names);
    let class_mode = class_mode(p, "agnostic", || ClassMode::Groups(task_of_class()));
    let stage = |kind| {
        let (iou_thresholds, class_mode) = (iou_thresholds.clone(), class_mode.clone());
        let forbidden_pairs = forbidden_pairs.clone();
        match kind {
            Kind3d::Circle => {
                Nms3d::Circle(NmsCircle { thresholds: thresholds.clone(), reading, class_mode })
            }
            Kind3d::Bev => Nms3d::Bev(NmsBev {
                iou_thresholds,
                search_distance_m,
                forbidden_pairs,
                class_mode,
            }),
            Kind3d::BevFast => Nms3d::BevFast(NmsBevFast {
                iou_thresholds,
                search_distance_m,
                unlimited_pairs: unlimited_pairs.clone(),
                forbidden_pairs,
                class_mode,
            }),
            Kind3d::Iou3d => Nms3d::Iou3d(NmsIou3d { iou_thresholds, class_mode }),
            Kind3d::None => Nms3d::None,
        }
    };
    kinds.into_iter().map(stage).collect()
}

/// `nms.kind`: up to [`MAX_STAGES`].
fn kinds_3d(p: &mut Reader<'_>) -> Vec<Kind3d> {
    let kinds = p.value(
        "nms.kind",
        Live,
        list(one_of(KINDS_3D), OneOrMore),
        "circle",
        "Suppression by the distance of centres (`circle`), the IoU of footprints (`bev`; \
         `bev_fast`: suppressed boxes suppress, too) or of volumes (`iou_3d`). A second kind takes the survivors of the first.",
    );
    if kinds.len() > MAX_STAGES {
        p.refuse("nms.kind", format!("{} kinds", kinds.len()), "one or two");
    }
    kinds
}

/// Most suppressions in a row.
const MAX_STAGES: usize = 2;

/// The pairs of the classes of `nms.unlimited_classes`, each class with itself, too.
fn unlimited_pairs(p: &mut Reader<'_>, class_names: &[String]) -> Vec<[u32; 2]> {
    const KEY: &str = "nms.unlimited_classes";
    let names = p.optional(
        KEY,
        Live,
        list(text(), OneOrMore),
        "none",
        "Classes that are compared at any distance (`bev_fast`).",
    );
    let classes = indices_of(p, KEY, names.unwrap_or_default(), class_names);
    let with_later = |(position, &a): (usize, &u32)| {
        classes[position..].iter().map(move |&b| [a, b]).collect::<Vec<_>>()
    };
    classes.iter().enumerate().flat_map(with_later).collect()
}

#[derive(Clone, Copy)]
enum ClassModeName {
    Aware,
    Agnostic,
    Task,
}

const CLASS_MODES: &[(&str, ClassModeName)] = &[
    ("aware", ClassModeName::Aware),
    ("agnostic", ClassModeName::Agnostic),
    ("task", ClassModeName::Task),
];

/// `nms.class_mode`, and its former spelling `nms.class_aware`.
fn class_mode(
    p: &mut Reader<'_>,
    default: &'static str,
    by_task: impl FnOnce() -> ClassMode,
) -> ClassMode {
    p.renamed("nms.class_aware", "nms.class_mode", "true or false", |node| {
        let (is_aware, _) = flag().read(node, None)?;
        Some(Node::from(if is_aware { "aware" } else { "agnostic" }))
    });
    let name = p.value(
        "nms.class_mode",
        Live,
        one_of(CLASS_MODES),
        default,
        "Which boxes are compared: of one class (`aware`), all (`agnostic`), or of one task of \
         the head (`task`).",
    );
    match name {
        ClassModeName::Aware => ClassMode::Aware,
        ClassModeName::Agnostic => ClassMode::Agnostic,
        ClassModeName::Task => by_task(),
    }
}

/// Pairs of class indices, ascending, each once.
fn forbidden_pairs(p: &mut Reader<'_>, class_names: &[String]) -> Vec<[u32; 2]> {
    const KEY: &str = "nms.forbidden_pairs";
    let texts = p.optional(
        KEY,
        Live,
        list(text(), OneOrMore),
        "none",
        "Pairs of classes that never suppress each other (`bev`, `bev_fast`), as `CAR-BUS`; `CAR-*`: with \
         every other.",
    );
    let mut pairs = Vec::new();
    for text in texts.unwrap_or_default() {
        let of_text = pairs_of(&text, class_names);
        if of_text.is_empty() {
            let allowed = format!("CLASS-CLASS or CLASS-*; classes: {}", class_names.join(", "));
            p.refuse(KEY, text, &allowed);
        }
        pairs.extend(of_text);
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// The pairs that `A-B` or `A-*` names. Names may contain dashes: the pair is split at
/// the first dash with a class on both sides.
fn pairs_of(text: &str, class_names: &[String]) -> Vec<[u32; 2]> {
    let num_classes = class_names.len() as u32;
    for (dash, _) in text.match_indices('-') {
        let (first, second) = (&text[..dash], &text[dash + 1..]);
        let others = match (index_of(second, class_names), second) {
            (Some(other), _) => other..other + 1,
            (None, "*") => 0..num_classes,
            (None, _) => continue,
        };
        if let Some(class) = index_of(first, class_names) {
            let others = others.filter(|&other| other != class);
            return others.map(|other| [class.min(other), class.max(other)]).collect();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_around_dashes_in_names() {
        let names = ["CAR", "E-BIKE", "BUS"].map(str::to_owned);
        for (text, pairs) in [
            ("CAR-BUS", vec![[0, 2]]),
            ("BUS-CAR", vec![[0, 2]]),
            ("E-BIKE-BUS", vec![[1, 2]]),
            ("CAR-E-BIKE", vec![[0, 1]]),
            ("BUS-*", vec![[0, 2], [1, 2]]),
            ("CAR-CAR", vec![]),
            ("CAR-VAN", vec![]),
            ("CAR", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(pairs_of(text, &names), pairs, "{text}");
        }
    }
}
