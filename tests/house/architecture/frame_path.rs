//! Few calls lie between a live channel's thread and the first launch of a camera frame.

use std::collections::BTreeSet;
use std::fs;

use syn::visit::{self, Visit};
use syn::{ExprCall, ExprMethodCall, ImplItem, Item, Type};

use super::{root, rust_files};

/// The thread's function and those that lead to the launch: at most five.
const PATH: [&str; 6] = [
    "Worker::run",
    "Worker::process",
    "Channel::process",
    "image2d::CudaDetector::detect",
    "InPlaceUploads::scope",
    "Work::begin",
];

/// The names of the functions that code calls, closures included.
#[derive(Default)]
struct Calls(BTreeSet<String>);

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.0.insert(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let syn::Expr::Path(path) = &*call.func {
            self.0.extend(path.path.segments.last().map(|segment| segment.ident.to_string()));
        }
        visit::visit_expr_call(self, call);
    }
}

/// What a function `module::Type::name` calls.
fn calls_of(function: &str) -> Calls {
    let parts: Vec<&str> = function.split("::").collect();
    let [modules @ .., of, name] = &parts[..] else { panic!("{function} is no method") };
    let mut calls = Calls::default();
    let mut num_found = 0;
    for file in rust_files(&root().join("src")) {
        let path = file.with_extension("");
        if !modules.iter().all(|module| path.iter().any(|part| part == *module)) {
            continue;
        }
        for item in syn::parse_file(&fs::read_to_string(&file).unwrap()).unwrap().items {
            let Item::Impl(block) = item else { continue };
            let Type::Path(self_type) = &*block.self_ty else { continue };
            if self_type.path.segments.last().is_none_or(|last| last.ident != *of) {
                continue;
            }
            for item in &block.items {
                if let ImplItem::Fn(method) = item
                    && method.sig.ident == *name
                {
                    calls.visit_block(&method.block);
                    num_found += 1;
                }
            }
        }
    }
    assert_eq!(num_found, 1, "definitions of {function}");
    calls
}

#[test]
fn few_functions_lead_from_the_thread_to_the_first_launch() {
    let mut called = calls_of(PATH[0]);
    let mut last = Calls::default();
    for function in &PATH[1..] {
        let name = function.rsplit("::").next().unwrap();
        assert!(called.0.contains(name), "no function before {function} calls it");
        last = calls_of(function);
        called.0.extend(last.0.iter().cloned());
    }
    assert!(last.0.contains("enqueue"), "{PATH:?} ends before a launch");
}
