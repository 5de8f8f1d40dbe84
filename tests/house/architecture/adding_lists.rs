//! The lists of files in docs/adding-*.md are true.
//!
//! Under a heading "Files, by the example of `NAME`" each row names a file and what it
//! contains.

use std::fs;

use super::root;

const HEADING: &str = "## Files, by the example of ";

/// The rows of a list: (path, text that the file contains).
type Rows = Vec<(String, String)>;

fn in_code_font(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn lists(page: &str) -> Vec<Rows> {
    let sections = page.split(HEADING).skip(1);
    let list = |section: &str| {
        let body = section.split("\n## ").next().unwrap();
        let row = |line: &str| {
            let cells: Vec<&str> = line.split('|').collect();
            let [_, file, contains, ..] = cells[..] else { return None };
            Some((in_code_font(file).pop()?, in_code_font(contains).pop()?))
        };
        body.lines().filter_map(row).collect()
    };
    sections.map(list).collect()
}

#[test]
fn lists_are_read_from_pages() {
    let page = format!(
        "# X\n{HEADING}`a`, `B`\n\n| file | contains |\n|---|---|\n| `x/y.rs` | `z` | w |\n"
    );
    assert_eq!(lists(&page), [[("x/y.rs".to_owned(), "z".to_owned())]]);
}

#[test]
fn each_adding_page_lists_files_that_contain_its_example() {
    let mut problems = Vec::new();
    let mut num_lists = 0;
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("adding-") {
            continue;
        }
        let lists = lists(&fs::read_to_string(&path).unwrap());
        assert!(!lists.is_empty(), "{name} lists no files of an example");
        for rows in lists {
            assert!(rows.len() >= 5, "{name}: {rows:?}");
            num_lists += 1;
            for (file, contains) in &rows {
                match fs::read_to_string(root().join(file)) {
                    Err(error) => problems.push(format!("{name}: {file}: {error}")),
                    Ok(text) if !text.contains(contains) => {
                        problems.push(format!("{name}: {file} does not contain {contains}"));
                    }
                    Ok(_) => {}
                }
            }
        }
    }
    assert!(num_lists >= 4, "{num_lists} lists");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
