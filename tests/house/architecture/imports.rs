//! The graph of imports between the modules of a crate, which has no circles.
//!
//! A module is a file. It imports another if one of its `use` items, or a path in
//! its code that begins with `crate` or `super`, names an item defined there;
//! re-exports are followed to the definition. A `pub use` alone is no import, nor is
//! test code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use syn::visit::{self, Visit};
use syn::{Attribute, ItemFn, ItemMod, ItemUse, Path, UseTree, Visibility};

use super::{root, rust_files};

type Name = Vec<String>;

#[derive(Default)]
struct Module {
    /// Paths of the imports.
    imports: Vec<Name>,
    /// Paths of the names in scope, by name.
    aliases: BTreeMap<String, Name>,
}

/// Collects the imports of a file.
#[derive(Default)]
struct Collector {
    module: Module,
    /// Inline modules around the position, whose `super` is the file's module.
    depth: usize,
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.parse_args::<Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

/// The paths of a use tree, with the names that they bind.
fn flatten(tree: &UseTree, prefix: &Name, out: &mut Vec<(String, Name)>) {
    let with = |ident: &syn::Ident| [prefix.as_slice(), &[ident.to_string()]].concat();
    match tree {
        UseTree::Path(path) => flatten(&path.tree, &with(&path.ident), out),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, prefix, out)),
        UseTree::Name(name) if name.ident == "self" => {
            out.push((prefix.last().cloned().unwrap_or_default(), prefix.clone()));
        }
        UseTree::Name(name) => out.push((name.ident.to_string(), with(&name.ident))),
        UseTree::Rename(rename) => out.push((rename.rename.to_string(), with(&rename.ident))),
        UseTree::Glob(_) => out.push(("*".to_owned(), prefix.clone())),
    }
}

impl Collector {
    /// A path as the file's module would write it.
    fn outside(&self, mut path: Name) -> Name {
        let num_super = path.iter().take_while(|segment| *segment == "super").count();
        path.drain(..num_super.min(self.depth));
        path
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if is_test(&item.attrs) {
            return;
        }
        let mut bound = Vec::new();
        flatten(&item.tree, &Vec::new(), &mut bound);
        for (name, path) in bound {
            let path = self.outside(path);
            if matches!(item.vis, Visibility::Inherited) {
                self.module.imports.push(path.clone());
            }
            self.module.aliases.insert(name, path);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            self.depth += 1;
            visit::visit_item_mod(self, item);
            self.depth -= 1;
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    /// `pub(in crate::replay)` imports nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast Path) {
        let segments: Name = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if segments.len() > 1 && ["crate", "super"].contains(&segments[0].as_str()) {
            let path = self.outside(segments);
            self.module.imports.push(path);
        }
        visit::visit_path(self, path);
    }
}

/// The modules of a crate by their names, without those of tests. `folder` has its sources.
fn modules(folder: &str) -> BTreeMap<Name, Module> {
    let mut modules = BTreeMap::new();
    let mut tests = BTreeSet::new();
    for file in rust_files(&root().join(folder)) {
        let relative = file.strip_prefix(root().join(folder)).unwrap().with_extension("");
        let mut name: Name =
            relative.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        match name.last().map(String::as_str) {
            Some("main") if name.len() == 1 => continue,
            Some("mod") => drop(name.pop()),
            Some("lib") if name.len() == 1 => drop(name.pop()),
            _ => {}
        }
        let parsed = syn::parse_file(&fs::read_to_string(&file).unwrap()).unwrap();
        for item in &parsed.items {
            if let syn::Item::Mod(item) = item
                && is_test(&item.attrs)
            {
                tests.insert([name.as_slice(), &[item.ident.to_string()]].concat());
            }
        }
        let mut collector = Collector::default();
        collector.visit_file(&parsed);
        modules.insert(name, collector.module);
    }
    modules.retain(|name, _| !tests.iter().any(|test| name.starts_with(test)));
    modules
}

/// The module that defines what a path names, as seen from a module; `None` for
/// other crates.
fn resolve(
    modules: &BTreeMap<Name, Module>,
    from: &Name,
    path: &[String],
    depth: usize,
) -> Option<Name> {
    let child = |module: &Name, name: &String| {
        let child = [module.as_slice(), std::slice::from_ref(name)].concat();
        modules.contains_key(&child).then_some(child)
    };
    let mut module = from.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            module.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|segment| segment == "super") {
                module.pop()?;
                rest = &rest[1..];
            }
        }
        first => {
            let is_alias = modules[from].aliases.get(first).is_some_and(|path| path[0] != first);
            if child(from, &path[0]).is_none() && !is_alias {
                return None;
            }
        }
    }
    while let Some(segment) = rest.first() {
        if let Some(next) = child(&module, segment) {
            module = next;
        } else if let Some(alias) = modules[&module].aliases.get(segment)
            && depth < 16
        {
            let path = [alias.as_slice(), &rest[1..]].concat();
            return resolve(modules, &module, &path, depth + 1);
        } else {
            return Some(module);
        }
        rest = &rest[1..];
    }
    Some(module)
}

/// What each module imports.
fn graph(modules: &BTreeMap<Name, Module>) -> BTreeMap<Name, BTreeSet<Name>> {
    let imports = |(name, module): (&Name, &Module)| {
        let paths = module.imports.iter();
        let mut imported: BTreeSet<Name> =
            paths.filter_map(|path| resolve(modules, name, path, 0)).collect();
        imported.remove(name);
        (name.clone(), imported)
    };
    modules.iter().map(imports).collect()
}

/// All modules that a module imports, directly or not.
fn reachable(graph: &BTreeMap<Name, BTreeSet<Name>>, from: &Name) -> BTreeSet<Name> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        open.extend(graph[module].iter().filter(|next| found.insert((*next).clone())));
    }
    found
}

/// The sets of modules that all import each other, directly or not.
fn circles(graph: &BTreeMap<Name, BTreeSet<Name>>) -> BTreeSet<Vec<String>> {
    let reachable: BTreeMap<_, _> =
        graph.keys().map(|name| (name, reachable(graph, name))).collect();
    let in_circles = graph.keys().filter(|name| reachable[name].contains(*name));
    in_circles
        .map(|name| {
            let others = reachable[name].iter().filter(|other| reachable[other].contains(name));
            others.map(|other| other.join("::")).collect()
        })
        .collect()
}

/// What each module of a crate imports. `folder` has its sources.
pub fn graph_of(folder: &str) -> BTreeMap<Name, BTreeSet<Name>> {
    graph(&modules(folder))
}

#[test]
fn modules_do_not_import_each_other_in_circles() {
    let (mut num_modules, mut num_imports) = (0, 0);
    let is_rust_library = |folder: &&str| folder.starts_with("src") || folder.starts_with("crates");
    for folder in super::CRATES.into_iter().filter(is_rust_library) {
        let graph = graph_of(folder);
        num_modules += graph.len();
        num_imports += graph.values().map(BTreeSet::len).sum::<usize>();
        check_for_circles(folder, &graph);
    }
    assert!(num_modules > 600 && num_imports > 1500, "{num_modules} modules, {num_imports}");
}

fn check_for_circles(folder: &str, graph: &BTreeMap<Name, BTreeSet<Name>>) {
    let found: Vec<String> = circles(graph)
        .iter()
        .map(|circle| {
            let members: BTreeSet<&str> = circle.iter().map(String::as_str).collect();
            let mut lines = vec![format!("{} modules:", circle.len())];
            for (name, imported) in graph {
                let within = imported.iter().map(|other| other.join("::"));
                let within: Vec<_> = within.filter(|o| members.contains(o.as_str())).collect();
                if members.contains(name.join("::").as_str()) {
                    lines.push(format!("  {} imports {}", name.join("::"), within.join(", ")));
                }
            }
            lines.join("\n")
        })
        .collect();
    assert!(
        found.is_empty(),
        "{folder}: modules import each other in circles\n{}",
        found.join("\n")
    );
}

#[test]
fn use_trees_are_read_whole_and_circles_are_found() {
    let texts = [
        ("a", "mod inner;\nuse crate::{b::{self, Deep as D}, c};\nuse std::fs;"),
        ("a::inner", "use super::super::b::Deep;"),
        ("b", "pub use self::deep::Deep;\nmod deep;"),
        ("b::deep", "fn f() { use crate::c::*; }"),
        ("c", "#[cfg(test)]\nuse crate::a::T;\nfn f() -> super::d::D { todo!() }"),
        ("d", "mod inline { use super::super::a::inner::X; }"),
        ("", ""),
    ];
    let parse = |text: &str| {
        let mut collector = Collector::default();
        collector.visit_file(&syn::parse_str(text).unwrap());
        collector.module
    };
    let name = |text: &str| -> Name {
        text.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let modules: BTreeMap<Name, Module> =
        texts.iter().map(|(module, text)| (name(module), parse(text))).collect();
    let found = graph(&modules);
    let imported = |module: &str| -> Vec<String> {
        found[&name(module)].iter().map(|name| name.join("::")).collect()
    };
    assert_eq!(imported("a"), ["b", "b::deep", "c"]);
    assert_eq!(imported("a::inner"), ["b::deep"]);
    assert_eq!(imported("b"), Vec::<String>::new());
    assert_eq!(imported("b::deep"), ["c"]);
    assert_eq!(imported("c"), ["d"]);
    assert_eq!(imported("d"), ["a::inner"]);
    let circle = ["a::inner", "b::deep", "c", "d"].map(str::to_owned).to_vec();
    assert_eq!(circles(&found), BTreeSet::from([circle]));
}
