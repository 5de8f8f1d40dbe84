//! Names of files for sensors.

use std::collections::BTreeSet;

/// A name for each sensor, by its channel or topic: with `_` in place of `/`, and with a number
/// where one before it has that name (`camera`, `camera_2`).
pub(super) fn file_names<'a>(sensors: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let unique = |sensor: &str| {
        let plain = sensor.trim_matches('/').replace('/', "_");
        let mut name = plain.clone();
        let mut number = 2;
        while !taken.insert(name.clone()) {
            name = format!("{plain}_{number}");
            number += 1;
        }
        name
    };
    sensors.into_iter().map(unique).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_get_numbers() {
        let names = file_names(["/a/b", "/a_b", "a_b_2", "c", "a/b/", "a_b_2"]);
        assert_eq!(names, ["a_b", "a_b_2", "a_b_2_2", "c", "a_b_3", "a_b_2_3"]);
    }
}
