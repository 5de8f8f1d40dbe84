//! Parameters that name or count classes of the head.

use super::declaration::Change::Live;
use super::reader::Reader;
use super::value::Length::OneOrMore;
use super::value::{list, text};

/// The index of a class.
pub(super) fn index_of(name: &str, class_names: &[String]) -> Option<u32> {
    class_names.iter().position(|class| class == name).map(|index| index as u32)
}

/// `class_filter`: the wanted classes, ascending; empty for all.
pub(super) fn class_filter(p: &mut Reader<'_>, class_names: &[String]) -> Vec<u32> {
    const KEY: &str = "class_filter";
    let names = p.optional(
        KEY,
        Live,
        list(text(), OneOrMore),
        "every class",
        "Classes to keep; others are dropped before suppression.",
    );
    indices_of(p, KEY, names.unwrap_or_default(), class_names)
}

/// The indices of classes, ascending, each once. Refuses names that are no class.
pub(super) fn indices_of(
    p: &mut Reader<'_>,
    key: &str,
    names: Vec<String>,
    class_names: &[String],
) -> Vec<u32> {
    let mut classes = Vec::new();
    for name in names {
        match index_of(&name, class_names) {
            Some(class) => classes.push(class),
            None => p.refuse(key, name, &class_names.join(", ")),
        }
    }
    classes.sort_unstable();
    classes.dedup();
    classes
}

/// One value for all classes, or one per class, as one per class.
pub(super) fn per_class(values: &[f32], num_classes: usize) -> Vec<f32> {
    match values {
        [one] => vec![*one; num_classes],
        all => all.to_vec(),
    }
}
