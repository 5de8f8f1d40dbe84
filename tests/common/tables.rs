//! Tables of pages in `docs/` that are made from the code.

use std::path::Path;

/// Compares tables with those of a page, each between `<!-- NAME -->` and `<!-- end -->`;
/// with `DET_POST_BLESS` writes them there first.
pub fn assert_tables(page: &str, tables: impl IntoIterator<Item = (impl AsRef<str>, String)>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    let mut expected = std::fs::read_to_string(&path).unwrap();
    for (name, table) in tables {
        let start = format!("<!-- {} -->\n", name.as_ref());
        let begin = expected.find(&start).unwrap_or_else(|| panic!("no {start}")) + start.len();
        let end = begin + expected[begin..].find("<!-- end -->").unwrap();
        expected.replace_range(begin..end, &table);
    }
    if std::env::var_os("DET_POST_BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap();
    assert!(stored == expected, "docs/{page} is old: run with DET_POST_BLESS=1");
}
