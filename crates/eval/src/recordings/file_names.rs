//! Names of files for sensors.

use std::collections::BTreeSet;

/// The longest name, with room for a number and for what files add.
const MAX_BYTES: usize = 200;

/// A name for each sensor, by its channel or topic: with `_` in place of `/`, and with a number
/// where one before it has that name (`camera`, `camera_2`). Longer names are cut, since file systems
/// take 255 bytes.
pub(super) fn file_names<'a>(sensors: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let unique = |sensor: &str| {
        let plain = sensor.trim_matches('/').replace('/', "_");
        let plain = plain[..plain.floor_char_boundary(MAX_BYTES)].to_owned();
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
    fn long_names_are_cut_between_characters() {
        let [long, longer] = [199, 300].map(|num| "x".repeat(num) + "ü");
        let names = file_names([&*long, &*longer, &*longer]);
        assert_eq!(names[0], "x".repeat(199));
        assert_eq!(names[1], "x".repeat(200));
        assert_eq!(names[2], "x".repeat(200) + "_2");
    }

    #[test]
    fn equal_names_get_numbers() {
        let names = file_names(["/a/b", "/a_b", "a_b_2", "c", "a/b/", "a_b_2"]);
        assert_eq!(names, ["a_b", "a_b_2", "a_b_2_2", "c", "a_b_3", "a_b_2_3"]);
    }
}
