//! Files that comments name are there.
//!
//! A name of a source or a page in a comment of Rust or kernel text is a file beside the
//! commented one or in a folder below, or a path from the root or from `kernels`. Names with
//! placeholders, `<op>.cu` or `adding-*.md`, are not checked.

use std::fs;
use std::path::Path;

use super::{kernel_files, relative, root, rust_files};

const FOLDERS: [&str; 6] = ["capi/src", "crates", "kernels", "python/src", "src", "tests"];

fn comment_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("//").or_else(|| Some(line.split_once(" // ")?.1))
}

fn names_in(comment: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || "._/-<>*{}$".contains(c);
    let words = comment.split(move |c| !is_part(c)).map(|word| word.trim_end_matches('.'));
    words.filter(|word| {
        let is_file = word.rsplit_once('.').is_some_and(|(stem, extension)| {
            !stem.is_empty() && ["rs", "cu", "cuh", "md"].contains(&extension)
        });
        is_file && !word.starts_with('/') && !word.contains(['<', '>', '*', '{', '}', '$'])
    })
}

fn is_there(name: &str, beside: &Path) -> bool {
    let folders = [beside, root(), &root().join("kernels")];
    folders.iter().any(|folder| folder.join(name).is_file())
        || rust_files(beside).iter().any(|file| file.ends_with(name))
}

#[test]
fn names_of_files_are_read_from_comments() {
    let line = ["    code(); ", "// `a/b.rs`, <op>.cu, docs/*.md, sin.x: sort.cuh."].join(" ");
    assert!(names_in(comment_of(&line).unwrap()).eq(["a/b.rs", "sort.cuh"]));
    assert!(comment_of("\"https://docs.rs\"").is_none());
    let beside = root().join("kernels/nms");
    assert!(is_there("sort.cuh", &beside) && is_there("shared/scan.cuh", &beside));
    assert!(is_there("crates/ops/src/nms/mod.rs", &beside));
    assert!(!is_there("nms_sort.cuh", &beside) && !is_there("scan.cuh", &beside));
}

#[test]
fn every_file_that_a_comment_names_is_there() {
    let mut files = FOLDERS.map(|folder| rust_files(&root().join(folder))).concat();
    files.extend(kernel_files());
    let (mut num_names, mut wrong) = (0, Vec::new());
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let beside = file.parent().unwrap();
        for name in text.lines().filter_map(comment_of).flat_map(names_in) {
            num_names += 1;
            if !is_there(name, beside) {
                wrong.push(format!("{}: {name}", relative(&file)));
            }
        }
    }
    assert!(num_names >= 200, "only {num_names} names found");
    assert!(wrong.is_empty(), "comments name files that are not there:\n{}", wrong.join("\n"));
}
