//! docs/bindings.md: which binding has which operation and option.
//!
//! The rows are in `bindings.txt`; every name in them is looked up where it is declared: functions of
//! the crates, `_ops.pyi`, `python/src/gpu`, `det_post.h`, keys of docs/parameters.md. Operations, arguments
//! and fields that no row has fail as well, so that a new one gets its row.
//!
//! `DET_POST_BLESS=1` writes the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use super::{root, rust_files};

const SOURCE: &str = "tests/house/architecture/bindings.txt";
const PAGE: &str = "docs/bindings.md";

const TOP: &str = "\
# Which binding has what

Operations, and below each its options, by their names. Python takes arrays on a GPU, too, with the same options. A dash is
followed by the reason.

Made from the declarations by `DET_POST_BLESS=1 cargo test --test house bindings`: do not edit.

| operation, option | Rust (`det_post_ops`, `det_post_infer`) | Python (`det_post`, `det_post.ops`) | C | parameter file |
|---|---|---|---|---|
";

/// Classes of channels, whose arguments are the keys of a parameter file.
const CHANNELS: [&str; 3] = ["Camera.", "Lidar.", "Surround."];

/// A row of names, or why there are none.
#[derive(Clone, Debug, PartialEq)]
enum Cell {
    Names(Vec<String>),
    Why(String),
}

impl Cell {
    fn read(text: &str) -> Self {
        match text.trim().strip_prefix('-') {
            Some(why) => Self::Why(why.trim().to_owned()),
            None => Self::Names(text.split_whitespace().map(str::to_owned).collect()),
        }
    }

    fn names(&self) -> &[String] {
        match self {
            Self::Names(names) => names,
            Self::Why(_) => &[],
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Why(why) if why.is_empty() => "–".into(),
            Self::Why(why) => format!("– {why}"),
            Self::Names(names) => {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                names.join(" ")
            }
        }
    }
}

/// An option: in Python, in C, in a parameter file.
struct Choice {
    name: String,
    cells: [Cell; 3],
}

/// An operation and its options.
struct Operation {
    name: String,
    rust: Cell,
    python: Cell,
    gpu: Cell,
    c: Cell,
    file: Cell,
    /// Arguments of Python and fields in C that are data.
    data: [Vec<String>; 2],
    structs: Vec<String>,
    options: Vec<Choice>,
}

fn read() -> Vec<Operation> {
    let text = fs::read_to_string(root().join(SOURCE)).unwrap();
    let mut operations: Vec<Operation> = Vec::new();
    let nothing = || Cell::Names(Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').unwrap();
        if word == "=" {
            operations.push(Operation {
                name: rest.to_owned(),
                rust: nothing(),
                python: nothing(),
                gpu: nothing(),
                c: nothing(),
                file: nothing(),
                data: [Vec::new(), Vec::new()],
                structs: Vec::new(),
                options: Vec::new(),
            });
            continue;
        }
        let operation = operations.last_mut().unwrap();
        let mut parts = rest.split('|');
        let first = parts.next().unwrap();
        let mut list = || Cell::read(parts.next().unwrap_or_default()).names().to_vec();
        match word {
            "rust" => operation.rust = Cell::read(first),
            "gpu" => operation.gpu = Cell::read(first),
            "file" => operation.file = Cell::read(first),
            "python" => (operation.python, operation.data[0]) = (Cell::read(first), list()),
            "c" => {
                (operation.c, operation.structs) = (Cell::read(first), list());
                operation.data[1] = list();
            }
            "." => {
                let cells = [(); 3].map(|()| Cell::read(parts.next().unwrap()));
                operation.options.push(Choice { name: first.trim().to_owned(), cells });
            }
            other => panic!("{SOURCE}: {other}"),
        }
    }
    operations
}

fn page(operations: &[Operation]) -> String {
    let mut page = TOP.to_owned();
    for operation in operations {
        let Operation { name, rust, python, gpu, c, file, .. } = operation;
        let on_cpu = match gpu {
            Cell::Why(why) if !python.names().is_empty() => format!(" (on a CPU only: {why})"),
            _ => String::new(),
        };
        let [rust, python, c, file] = [rust, python, c, file].map(Cell::shown);
        writeln!(page, "| **{name}** | {rust} | {python}{on_cpu} | {c} | {file} |").unwrap();
        for Choice { name, cells } in &operation.options {
            let [python, c, file] = cells.each_ref().map(Cell::shown);
            writeln!(page, "| {name} | | {python} | {c} | {file} |").unwrap();
        }
    }
    page
}

/// Arguments by function of `_ops.pyi`; methods are `Class.method`.
fn python_arguments() -> BTreeMap<String, BTreeSet<String>> {
    let text = fs::read_to_string(root().join("python/det_post/_ops.pyi")).unwrap();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut class = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("class ") {
            class = format!("{}.", name.split([':', '(']).next().unwrap());
        }
        let trimmed = line.trim_start();
        let Some(rest) = trimmed.strip_prefix("def ") else { continue };
        if trimmed == line {
            class.clear();
        }
        let (name, mut signature) = rest.split_once('(').map(|(a, b)| (a, b.to_owned())).unwrap();
        while !signature.contains(") ->") {
            signature += lines.next().unwrap();
        }
        let signature = signature.split(") ->").next().unwrap();
        // Commas in brackets separate no arguments.
        let (mut depth, mut arguments) = (0, vec![String::new()]);
        for letter in signature.chars() {
            depth += i32::from("[(".contains(letter)) - i32::from("])".contains(letter));
            match letter {
                ',' if depth == 0 => arguments.push(String::new()),
                letter => arguments.last_mut().unwrap().push(letter),
            }
        }
        let names = arguments.iter().filter_map(|argument| argument.split_once(':'));
        let names = names.map(|(name, _)| name.trim().to_owned());
        found.entry(format!("{class}{name}")).or_default().extend(names);
    }
    found.retain(|name, _| {
        !name.starts_with('_') && !CHANNELS.iter().any(|of| name.starts_with(of))
    });
    found
}

/// Fields by struct of `det_post.h`, and the functions.
fn header() -> (BTreeMap<String, BTreeSet<String>>, BTreeSet<String>) {
    let text = fs::read_to_string(root().join("include/det_post.h")).unwrap();
    let mut structs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut functions = BTreeSet::new();
    let mut current = None;
    for line in text.lines() {
        let is_field = line.starts_with("    ") && line.ends_with(';');
        if let Some(name) = line.strip_prefix("struct ").and_then(|rest| rest.strip_suffix(" {")) {
            current = Some(name.to_owned());
        } else if line == "};" {
            current = None;
        } else if let (Some(name), true) = (&current, is_field) {
            let field = line.trim_end_matches(';').split('[').next().unwrap();
            let field = field.rsplit([' ', '*']).next().unwrap().to_owned();
            structs.entry(name.clone()).or_default().insert(field);
        } else if let Some(at) = line.find("det_post_").filter(|_| line.ends_with(");")) {
            let start = line.find('(').map_or("", |end| &line[..end]);
            functions.insert(start.rsplit([' ', '*']).next().unwrap_or(&line[at..]).to_owned());
        }
    }
    (structs, functions)
}

/// Whether `det_post_ops` or `det_post_infer` have a function, a type or a folder of this path.
fn is_in_rust(path: &str) -> bool {
    let (module, name) = path.rsplit_once("::").unwrap_or(("", path));
    let module = module.replace("::", "/");
    ["crates/ops/src", "crates/infer/src"].iter().any(|of_crate| {
        let folder = root().join(of_crate).join(&module);
        if folder.join(name).is_dir() || folder.join(name).with_extension("rs").is_file() {
            return true;
        }
        let declared =
            [format!("pub fn {name}("), format!("pub fn {name}<"), format!("pub struct {name} ")];
        let is_declared =
            |text: &str| declared.iter().any(|declaration| text.contains(declaration));
        folder.is_dir()
            && rust_files(&folder)
                .iter()
                .any(|file| is_declared(&fs::read_to_string(file).unwrap()))
    })
}

/// Problems of names that are nowhere declared.
fn unknown(operations: &[Operation]) -> Vec<String> {
    let python = python_arguments();
    let (structs, functions) = header();
    let keys = fs::read_to_string(root().join("docs/parameters.md")).unwrap();
    let gpu: String = rust_files(&root().join("python/src"))
        .iter()
        .filter(|file| file.to_string_lossy().contains("gpu"))
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let is_on_gpu = |name: &String| {
        gpu.contains(&format!("pub fn {name}<"))
            || gpu.contains(&format!("pub use self::{name}::"))
            || root().join("python/src").join(name).with_extension("rs").is_file()
    };
    let mut problems = Vec::new();
    for operation in operations {
        let mut check = |what: &str, cell: &Cell, is_known: &dyn Fn(&String) -> bool| {
            for name in cell.names().iter().filter(|name| !is_known(name)) {
                problems.push(format!("{}: {what} has no {name}", operation.name));
            }
        };
        let of_python = |name: &String| {
            operation
                .python
                .names()
                .iter()
                .any(|of| python.get(of).is_some_and(|all| all.contains(name)))
        };
        let of_c = |name: &String| {
            operation.structs.iter().any(|of| structs.get(of).is_some_and(|all| all.contains(name)))
        };
        let of_file = |name: &String| keys.contains(&format!("`{name}`"));
        check("Rust", &operation.rust, &|name| is_in_rust(name));
        check("Python", &operation.python, &|name| python.contains_key(name));
        check("python/src/gpu", &operation.gpu, &is_on_gpu);
        check("det_post.h", &operation.c, &|name| functions.contains(name));
        check("det_post.h", &Cell::Names(operation.structs.clone()), &|name| {
            structs.contains_key(name)
        });
        check("docs/parameters.md", &operation.file, &of_file);
        let [of_data, fields] = &operation.data;
        check("Python", &Cell::Names(of_data.clone()), &of_python);
        check("C", &Cell::Names(fields.clone()), &of_c);
        for Choice { cells: [python, c, file], .. } in &operation.options {
            check("Python", python, &of_python);
            check("C", c, &of_c);
            check("docs/parameters.md", file, &of_file);
        }
    }
    problems
}

/// Problems of declarations without a row.
fn missing(operations: &[Operation]) -> Vec<String> {
    let mut problems = Vec::new();
    let listed = |column: usize, operation: &Operation| -> BTreeSet<String> {
        let of_options = operation.options.iter().flat_map(|option| option.cells[column].names());
        operation.data[column].iter().chain(of_options).cloned().collect()
    };
    for (function, arguments) in python_arguments() {
        let of: Vec<&Operation> =
            operations.iter().filter(|of| of.python.names().contains(&function)).collect();
        // Properties need none.
        let is_property = function.contains('.') && arguments.is_empty();
        if of.is_empty() && !is_property {
            problems.push(format!("Python's {function} has no row"));
        }
        let known: BTreeSet<String> =
            of.iter().flat_map(|operation| listed(0, operation)).collect();
        let unknown = arguments.iter().filter(|argument| !known.contains(*argument));
        problems.extend(unknown.map(|argument| format!("{function}: {argument} has no row")));
    }
    let (structs, functions) = header();
    for function in functions {
        let is_operation =
            function.starts_with("det_post_workspace_") || function.starts_with("det_post_view_");
        let is_of_workspace = ["open", "close", "set_stream"]
            .iter()
            .any(|end| function == format!("det_post_workspace_{end}"));
        if is_operation
            && !is_of_workspace
            && !operations.iter().any(|of| of.c.names().contains(&function))
        {
            problems.push(format!("{function} has no row"));
        }
    }
    for operation in operations {
        let known = listed(1, operation);
        for name in &operation.structs {
            for field in structs.get(name).into_iter().flatten() {
                let counted = field.strip_prefix("num_").is_some_and(|of| known.contains(of));
                if field != "reserved" && !counted && !known.contains(field) {
                    problems.push(format!("{name}.{field} has no row"));
                }
            }
        }
    }
    problems.extend(missing_folders(operations));
    problems
}

/// Folders of operations that no row has.
fn missing_folders(operations: &[Operation]) -> Vec<String> {
    let rows: Vec<&String> =
        operations.iter().flat_map(|operation| operation.rust.names()).collect();
    let mut problems = Vec::new();
    for family in super::FAMILIES {
        for entry in fs::read_dir(root().join("crates/ops/src").join(family)).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{family}::{}", path.file_name().unwrap().to_str().unwrap());
            let has_contract = path.join("mod.rs").is_file() && path.join("cpu.rs").is_file();
            let is_listed = |row: &&&String| {
                row.as_str() == family || **row == &name || row.starts_with(&format!("{name}::"))
            };
            if has_contract && rows.iter().find(is_listed).is_none() {
                problems.push(format!("{name} has no row"));
            }
        }
    }
    problems
}

#[test]
fn bindings_have_rows_and_rows_are_declared() {
    let operations = read();
    let problems = [unknown(&operations), missing(&operations)].concat();
    assert!(problems.is_empty(), "{SOURCE}:\n{}", problems.join("\n"));
}

/// A hole has its reason; options of what is absent need none.
#[test]
fn holes_of_bindings_are_argued() {
    for operation in read() {
        let columns = [&operation.python, &operation.c, &operation.file];
        for cell in columns {
            assert!(
                *cell != Cell::Why(String::new()),
                "{}: a hole without a reason",
                operation.name
            );
        }
        for Choice { name, cells } in &operation.options {
            for (cell, of) in cells.iter().zip(columns) {
                let is_argued =
                    *cell != Cell::Why(String::new()) && *cell != Cell::Names(Vec::new());
                assert!(
                    is_argued || matches!(of, Cell::Why(_)),
                    "{}: {name}: a hole without a reason",
                    operation.name
                );
            }
        }
    }
}

#[test]
fn the_page_of_bindings_is_made_from_the_declarations() {
    let page = page(&read());
    if std::env::var_os("DET_POST_BLESS").is_some() {
        fs::write(root().join(PAGE), &page).unwrap();
    }
    let found = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    assert!(found == page, "{PAGE}: DET_POST_BLESS=1 writes it");
}
