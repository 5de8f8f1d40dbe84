//! Facts of CenterPoint heads.

use crate::config::classes::index_of;
use crate::config::declaration::Change::Fixed;
use crate::config::reader::Reader;
use crate::config::value::Length::{Exactly, OneOrMore};
use crate::config::value::{flag, integer, list, number, one_of, text};
use det_post_types::{PointRange, SizeOrder, YawConvention};

/// Facts of a CenterPoint head.
#[derive(Clone, Debug, PartialEq)]
pub struct CenterFacts {
    /// Per task, the class of each channel of its heat map; every class once.
    pub tasks: Vec<Vec<u32>>,
    /// Per task, names of its outputs: offset, height, size, rotation,
    /// velocity (if any), heat map. Empty: by position.
    pub output_names: Vec<Vec<String>>,
    /// Whether outputs bound by position are in Autoware's order, the heat map first.
    pub heatmap_first: bool,
    /// Voxels of a cell of the output maps along one axis.
    pub downsample_factor: u32,
    /// Order of the size channels.
    pub size_order: SizeOrder,
    /// Whether sizes are logarithms.
    pub size_log: bool,
    /// Whether heat maps are logits.
    pub heatmap_logits: bool,
    /// How sine and cosine become a yaw.
    pub yaw: YawConvention,
    /// Whether there are velocity channels.
    pub has_velocity: bool,
    /// Whether variances follow the values.
    pub has_variance: bool,
    /// Box outside which centres are dropped.
    pub center_range: Option<PointRange>,
}

const OUTPUT_NAMES: &str = "output_names";
const OUTPUT_ORDERS: &[(&str, bool)] = &[("heatmap_last", false), ("heatmap_first", true)];
const SIZE_ORDERS: &[(&str, SizeOrder)] = &[
    ("width_length_height", SizeOrder::WidthLengthHeight),
    ("length_width_height", SizeOrder::LengthWidthHeight),
];
const YAWS: &[(&str, YawConvention)] = &[
    ("counter_clockwise", YawConvention::CounterClockwise),
    ("clockwise_from_minus_y", YawConvention::ClockwiseFromMinusY),
];

impl CenterFacts {
    pub(super) fn read(p: &mut Reader<'_>, class_names: &[String]) -> Self {
        let tasks = tasks(p, class_names);
        let output_names = p.optional(
            OUTPUT_NAMES,
            Fixed,
            list(list(text(), OneOrMore), OneOrMore),
            "by position, task by task",
            "Per task: offset, height, size, rotation, velocity (if any), heat map.",
        );
        let heatmap_first = p.value(
            "output_order",
            Fixed,
            one_of(OUTPUT_ORDERS),
            "heatmap_last",
            "Whether a task's heat map is its last or first output, by position.",
        );
        let downsample_factor = downsample_factor(p);
        let size_order = size_order(p);
        let size_log = p.value("size_log", Fixed, flag(), true, "Whether sizes are logarithms.");
        let heatmap_logits =
            p.value("heatmap_logits", Fixed, flag(), true, "Whether heat maps are logits.");
        let yaw = yaw(p);
        let has_velocity = has_velocity(p);
        let has_variance =
            p.value("has_variance", Fixed, flag(), false, "Whether variances follow the values.");
        let center_range = center_range(p);
        let num_outputs = if has_velocity { 6 } else { 5 };
        if let Some(names) = output_names.as_ref().filter(|names| {
            names.len() != tasks.len() || names.iter().any(|names| names.len() != num_outputs)
        }) {
            let allowed = format!("{} lists, one per task, of {num_outputs} names", tasks.len());
            let keys = [OUTPUT_NAMES, "tasks", "has_velocity", "class_names"];
            p.conflict(&keys, format!("{names:?}"), &allowed);
        }
        Self {
            tasks,
            output_names: output_names.unwrap_or_default(),
            heatmap_first,
            downsample_factor,
            size_order,
            size_log,
            heatmap_logits,
            yaw,
            has_velocity,
            has_variance,
            center_range,
        }
    }
}

pub(super) fn downsample_factor(p: &mut Reader<'_>) -> u32 {
    p.required(
        "downsample_factor",
        integer(1..=64),
        "Voxels of a cell of the output maps along one axis (`out_size_factor`, `feature_map_stride`).",
    ) as u32
}

pub(super) fn has_velocity(p: &mut Reader<'_>) -> bool {
    p.value("has_velocity", Fixed, flag(), true, "Whether there are velocity channels.")
}

pub(super) fn size_order(p: &mut Reader<'_>) -> SizeOrder {
    p.required("size_order", one_of(SIZE_ORDERS), "Order of a box's extents in the outputs.")
}

pub(super) fn yaw(p: &mut Reader<'_>) -> YawConvention {
    p.required(
        "yaw",
        one_of(YAWS),
        "How sine and cosine become a yaw: `atan2(s, c)`, or `-atan2(s, c) - pi/2`.",
    )
}

/// The box outside which centres are dropped.
pub(super) fn center_range(p: &mut Reader<'_>) -> Option<PointRange> {
    let range = p.optional(
        "center_range_m",
        Fixed,
        list(number(-1e6..=1e6).in_unit("m"), Exactly(6)),
        "every centre is kept",
        "Box outside which centres are dropped: least x, y, z, then greatest.",
    );
    range.and_then(|range| range.try_into().ok()).map(PointRange::from_bounds)
}

pub(super) fn tasks(p: &mut Reader<'_>, class_names: &[String]) -> Vec<Vec<u32>> {
    let names = p.optional(
        "tasks",
        Fixed,
        list(list(text(), OneOrMore), OneOrMore),
        "one task of all classes",
        "Classes of each task's heat map; every class once.",
    );
    let names = names.unwrap_or_else(|| vec![class_names.to_vec()]);
    let index_of = |name: &String| index_of(name, class_names);
    let tasks: Vec<Vec<u32>> =
        names.iter().map(|names| names.iter().filter_map(index_of).collect()).collect();
    let mut classes = tasks.concat();
    classes.sort_unstable();
    let is_each_once = classes.iter().copied().eq(0..class_names.len() as u32);
    if !is_each_once || classes.len() != names.concat().len() {
        let keys = ["tasks", "class_names"];
        p.conflict(&keys, format!("{names:?}"), "every name of class_names once");
    }
    tasks
}
