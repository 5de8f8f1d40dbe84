//! Metadata made to exhaust, to reach other files, or to show what is in them.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::recordings::{Layout, mcap_file, messages};
use super::{page, read};
use crate::common::cpu_time::cpu_time;

/// A directory `bag` with `drive.mcap`, and another recording beside it.
fn recording() -> TempDir {
    let parent = tempfile::tempdir().unwrap();
    let bag = parent.path().join("bag");
    std::fs::create_dir(&bag).unwrap();
    let bytes = mcap_file(Layout::PLAIN, &messages(6));
    std::fs::write(bag.join("drive.mcap"), &bytes).unwrap();
    std::fs::write(parent.path().join("other.mcap"), &bytes).unwrap();
    parent
}

/// How many messages come, and the errors as text.
fn read_with(metadata: &str, bag: &Path) -> (usize, Vec<String>) {
    std::fs::write(bag.join("metadata.yaml"), metadata).unwrap();
    let (found, errors) = read(bag);
    (found.len(), errors.into_iter().map(|(_, error)| error.to_string()).collect())
}

#[test]
fn metadata_that_multiplies_or_nests_is_refused_quickly() {
    let parent = recording();
    let bag = parent.path().join("bag");
    let aliases = format!(
        "rosbag2_bagfile_information:\n  version: 5\n  relative_file_paths: [drive.mcap]\n  \
         custom_data: {{a: &a [{}], b: [{}]}}\n",
        "x,".repeat(20_000),
        "*a,".repeat(60_000),
    );
    let nested = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let large = "# comment\n".repeat(500_000);
    for (text, part) in [(aliases, "aliases"), (nested, "nesting"), (large, "more than")] {
        let mut found = (0, Vec::new());
        let time = cpu_time(|| found = read_with(&text, &bag));
        assert!(time < Duration::from_secs(2), "{part}: {time:?}");
        let (num_messages, errors) = found;
        // The directory is then read by the names of its files.
        assert_eq!((num_messages, errors.len()), (6, 1), "{errors:?}");
        assert!(errors[0].contains("metadata.yaml") && errors[0].contains(part), "{errors:?}");
    }
}

#[test]
fn errors_about_metadata_quote_nothing_of_it() {
    let parent = recording();
    let bag = parent.path().join("bag");
    for text in [
        "root:x:0:secret:/root:/bin/bash\n",
        "rosbag2_bagfile_information: secret",
        "rosbag2_bagfile_information: {version: secret}",
        "rosbag2_bagfile_information: {version: 5, message_count: secret}",
        "rosbag2_bagfile_information: {version: 5, relative_file_paths: secret}",
        "rosbag2_bagfile_information: {version: 5, topics_with_message_count: [secret]}",
        "rosbag2_bagfile_information: !secret {version: 5}",
    ] {
        let (_, errors) = read_with(text, &bag);
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        assert!(errors[0].contains("metadata.yaml is not the metadata"), "{errors:?}");
        assert!(!errors[0].contains("secret"), "{errors:?}");
    }
}

#[test]
fn listed_files_stay_inside_the_directory() {
    let parent = recording();
    let bag = parent.path().join("bag");
    let other = parent.path().join("other.mcap");
    symlink(&other, bag.join("link.mcap")).unwrap();
    symlink(parent.path(), bag.join("up")).unwrap();
    symlink("drive.mcap", bag.join("same.mcap")).unwrap();
    for (listed, part) in [
        (other.to_str().unwrap(), "not a path inside"),
        ("../other.mcap", "not a path inside"),
        ("parts/../../other.mcap", "not a path inside"),
        ("link.mcap", "outside the recording"),
        ("up/other.mcap", "outside the recording"),
        ("drive.mcap", "read once"),
        ("./drive.mcap", "read once"),
        ("same.mcap", "read once"),
    ] {
        let (num_messages, errors) = read_with(&page(&["drive.mcap", listed], ""), &bag);
        assert_eq!((num_messages, errors.len()), (6, 1), "{listed}: {errors:?}");
        assert!(errors[0].contains(part), "{listed}: {errors:?}");
    }
    // Without metadata, links are held to the same.
    std::fs::remove_file(bag.join("metadata.yaml")).unwrap();
    let (found, errors) = read(&bag);
    assert_eq!((found.len(), errors.len()), (6, 2), "{errors:?}");
}

#[test]
fn only_regular_files_are_opened() {
    let parent = recording();
    let bag = parent.path().join("bag");
    let pipe = bag.join("pipe.mcap");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::create_dir(bag.join("directory.mcap")).unwrap();
    for (listed, part) in [("pipe.mcap", "a named pipe"), ("directory.mcap", "a directory")] {
        let (num_messages, errors) = read_with(&page(&["drive.mcap", listed], ""), &bag);
        assert_eq!((num_messages, errors.len()), (6, 1), "{listed}: {errors:?}");
        assert!(errors[0].contains(part), "{listed}: {errors:?}");
    }
    for (path, part) in [(pipe.as_path(), "a named pipe"), (Path::new("/dev/zero"), "a device")] {
        let error = super::error_of(path);
        assert!(error.to_string().contains(part), "{error}");
    }
    // The metadata itself can be no pipe, either.
    std::fs::rename(&pipe, bag.join("metadata.yaml")).unwrap();
    let (found, errors) = read(&bag);
    assert_eq!((found.len(), errors.len()), (6, 2), "{errors:?}");
}
