//! The code of docs/cpp.md compiles, and leads from `find_package` to boxes in twenty lines.

use std::fs;

use super::programs::{Language, compiler};
use super::root;

/// What the code takes for granted.
const BEFORE: &str = "\
#include <stdint.h>
#include <stdio.h>
static uint8_t pixels[3840 * 720];
static int64_t stamp, stamp_ns;
static float boxes[4], scores[1], iou_threshold;
static uint32_t classes[1];
static size_t num_boxes;
";

/// The fenced blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let begin = format!("```{language}\n");
    let parts = page.split(&begin).skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// A program whose `main` is the code.
fn program(code: &str, language: Language) -> String {
    let (includes, rest): (Vec<_>, Vec<_>) =
        code.lines().partition(|line| line.starts_with("#include"));
    let [includes, rest] = [includes, rest].map(|lines| lines.join("\n"));
    let given = match language {
        Language::C11 => "void use(uint32_t class_id, float score, float x1);",
        Language::Cpp17 => {
            "#include <det_post.hpp>\ntemplate<typename ... Values> void use(Values ...);\n\
             static det_post_view_motion motion;\n\
             static std::vector<det_post_view_camera> cameras;\n\
             static std::vector<det_post_tensor> maps;\n\
             static int32_t coordinates[1];\n\
             static float features[1];\n\
             static size_t num_rows;\n\
             static det_post_sparse_geometry submanifold, strided;\n\
             static det_post_sparse_parameters first, second;\n"
        }
    };
    format!("{includes}\n{BEFORE}{given}\nint main(void) {{\n{rest}\nreturn 0;\n}}\n")
}

#[test]
fn its_code_compiles() {
    let page = fs::read_to_string(root().join("docs/cpp.md")).unwrap();
    for (name, language, num) in [("c", Language::C11, 1), ("cpp", Language::Cpp17, 5)] {
        let blocks = blocks(&page, name);
        assert_eq!(blocks.len(), num, "blocks of {name}");
        for block in blocks {
            let Some(mut compiler) = compiler(language) else { return };
            let folder = tempfile::tempdir().unwrap();
            let source = folder.path().join("block").with_extension(name);
            fs::write(&source, program(&block, language)).unwrap();
            // Not every block uses all that is given.
            let options = ["-fsyntax-only", "-Wno-unused"];
            let compiled = compiler.args(options).arg(source).output().unwrap();
            let errors = String::from_utf8_lossy(&compiled.stderr);
            assert!(compiled.status.success(), "{block}\n{errors}");
        }
    }
}

#[test]
fn boxes_are_twenty_lines_from_find_package() {
    let page = fs::read_to_string(root().join("docs/cpp.md")).unwrap();
    let lines = |language| blocks(&page, language)[0].lines().count();
    assert!(lines("cmake") + lines("cpp") <= 20);
}
