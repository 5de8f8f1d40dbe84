//! `include/det_post.h` is what `capi/src` declares, with its documentation.
//!
//! `DET_POST_BLESS=1` writes it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;

use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, Fields, FnArg, GenericArgument, Ident, Item, ItemFn, ItemStruct, Lit, LitInt,
    LitStr, Meta, Pat, PathArguments, ReturnType, Token, Type, Visibility,
};

use super::root;

/// The files, in the order of the header.
const FILES: [&str; 24] = [
    "lib",
    "status",
    "log",
    "configuration",
    "tensors",
    "frame",
    "detections",
    "report",
    "detector",
    "workspace",
    "suppression",
    "letterbox",
    "voxels",
    "decoding_settings",
    "decoding",
    "sites",
    "rulebooks",
    "sparse_weights",
    "sparse_arrays",
    "sparse",
    "view_arrays",
    "views",
    "graph",
    "node",
];

const TOP: &str = "\
/* The C ABI of det_post. docs/cpp.md explains it and what it promises.
 *
 * Made from capi/src by `DET_POST_BLESS=1 cargo test --workspace --test abi header`: do not edit.
 *
 * A function that fails returns a status; det_post_error_message has the message. Memory of the
 * caller is read and written until a function returns, never later. Any thread may call any
 * function. Of two calls on one object at a time the second is refused with
 * DET_POST_ERROR_BUSY, except det_post_error_message and det_post_detector_close. */
#ifndef DET_POST_H
#define DET_POST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif
";

const BOTTOM: &str = "
#ifdef __cplusplus
}
#endif

#endif
";

/// A row of `statuses!`.
struct StatusRow {
    attributes: Vec<Attribute>,
    name: Ident,
    number: LitInt,
}

impl Parse for StatusRow {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        let number = input.parse()?;
        input.parse::<Token![,]>()?;
        input.parse::<LitStr>()?;
        if input.peek(Token![,]) {
            input.parse::<Token![,]>()?;
            input.parse::<Ident>()?;
        }
        Ok(Self { attributes, name, number })
    }
}

/// The declarations of the ABI, as C.
#[derive(Default)]
pub struct Declarations {
    constants: String,
    structs: String,
    functions: String,
    struct_names: Vec<String>,
    pub function_names: BTreeSet<String>,
}

/// `RotatedDetection2d` → `rotated_detection_2d`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if !snake.is_empty() && (c.is_ascii_uppercase() || c.is_ascii_digit()) {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// The documentation of an item as a comment.
fn comment(attributes: &[Attribute], indent: &str) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(doc) = &attribute.meta else { return None };
        let Expr::Lit(text) = &doc.value else { return None };
        match &text.lit {
            Lit::Str(text) if doc.path.is_ident("doc") => Some(text.value().trim().to_owned()),
            _ => None,
        }
    });
    let lines: Vec<String> = lines.collect();
    assert!(!lines.is_empty(), "an item of the ABI is not documented");
    let text = lines.join(&format!("\n{indent} * "));
    format!("{indent}/** {text} */\n")
}

fn has(attributes: &[Attribute], text: &str) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => format!("{}({})", list.path.segments[0].ident, list.tokens) == text,
        _ => false,
    })
}

/// The type in C around a declared name.
fn declare(ty: &Type, name: &str) -> String {
    let spaced = |base: &str, name: &str| match base.ends_with('*') || name.is_empty() {
        true => format!("{base}{name}"),
        false => format!("{base} {name}"),
    };
    match ty {
        Type::Array(array) => {
            let Expr::Lit(len) = &array.len else { panic!("{name}: length of an array") };
            let Lit::Int(len) = &len.lit else { panic!("{name}: length of an array") };
            declare(&array.elem, &format!("{name}[{len}]"))
        }
        Type::Path(path) if path.path.segments[0].ident == "Option" => function_pointer(ty, name),
        Type::Path(_) => spaced(&base(ty), name),
        _ => panic!("{name}: no type of the ABI"),
    }
}

/// A pointer to a function: `Option<extern "C" fn(…)>`.
fn function_pointer(ty: &Type, name: &str) -> String {
    let Some(Type::BareFn(function)) = argument(ty) else { panic!("{name}: no type of the ABI") };
    let arguments = function.inputs.iter().map(|argument| {
        let (name, _) = argument.name.as_ref().unwrap();
        declare(&argument.ty, &name.to_string())
    });
    let arguments = arguments.collect::<Vec<_>>().join(", ");
    let pointer = format!("(*{name})({arguments})");
    match &function.output {
        ReturnType::Type(_, ty) => declare(ty, &pointer),
        ReturnType::Default => format!("void {pointer}"),
    }
}

/// The type in angle brackets.
fn argument(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    match &path.path.segments.last()?.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
            GenericArgument::Type(inner) => Some(inner),
            _ => None,
        },
        _ => None,
    }
}

fn base(ty: &Type) -> String {
    let Type::Path(path) = ty else { panic!("no type of the ABI") };
    let segment = path.path.segments.last().unwrap();
    let inner = argument(ty);
    let pointer = |inner: &str, to: &str| match inner.ends_with('*') {
        true => format!("{inner}{to}"),
        false => format!("{inner} {to}"),
    };
    match (segment.ident.to_string().as_str(), inner) {
        ("u8", _) => "uint8_t".into(),
        ("u16", _) => "uint16_t".into(),
        ("u32", _) => "uint32_t".into(),
        ("i32", _) => "int32_t".into(),
        ("u64", _) => "uint64_t".into(),
        ("i64", _) => "int64_t".into(),
        ("f32", _) => "float".into(),
        ("f64", _) => "double".into(),
        ("usize", _) => "size_t".into(),
        ("Status", _) => "det_post_status".into(),
        ("Text" | "ConstText", _) => "const char *".into(),
        ("Address", _) => "void *".into(),
        // A buffer for a text.
        ("Out", Some(inner)) if base(inner) == "uint8_t" => "char *".into(),
        ("In" | "Const", Some(inner)) => match base(inner) {
            pointed if pointed.ends_with('*') => format!("{pointed}const *"),
            pointed => format!("const {pointed} *"),
        },
        ("Out", Some(inner)) => pointer(&base(inner), "*"),
        (name, None) => format!("det_post_{}", snake(name)),
        (name, Some(_)) => panic!("{name} is no type of the ABI"),
    }
}

impl Declarations {
    /// Reads `capi/src`.
    pub fn read() -> Self {
        let mut all = Self::default();
        let folder = root().join("capi/src");
        for file in FILES {
            let text = fs::read_to_string(folder.join(file).with_extension("rs")).unwrap();
            for item in syn::parse_file(&text).unwrap().items {
                match item {
                    Item::Const(constant) if matches!(constant.vis, Visibility::Public(_)) => {
                        let Expr::Lit(value) = &*constant.expr else { panic!("a constant") };
                        let Lit::Int(value) = &value.lit else { panic!("a constant") };
                        all.constant(&constant.attrs, &constant.ident.to_string(), value);
                    }
                    Item::Macro(item) if item.mac.path.is_ident("statuses") => {
                        all.statuses(&item.mac);
                    }
                    Item::Struct(item) if has(&item.attrs, "repr(C)") => all.structure(&item),
                    Item::Fn(item) if has(&item.attrs, "unsafe(no_mangle)") => all.function(&item),
                    _ => {}
                }
            }
        }
        all
    }

    fn constant(&mut self, attributes: &[Attribute], name: &str, value: &LitInt) {
        let text = comment(attributes, "");
        let suffix = if name.starts_with("ERROR_") || name == "OK" { "" } else { "u" };
        write!(
            self.constants,
            "\n{text}#define DET_POST_{name} {}{suffix}\n",
            value.base10_digits()
        )
        .unwrap();
    }

    fn statuses(&mut self, rows: &syn::Macro) {
        let parser = Punctuated::<StatusRow, Token![;]>::parse_terminated;
        let rows = rows.parse_body_with(parser).unwrap();
        assert!(rows.len() > 28);
        self.constants += "\n/** The result of a call: `DET_POST_OK` or an error. */\n\
                           typedef int32_t det_post_status;\n";
        for StatusRow { attributes, name, number } in &rows {
            let name = if name == "OK" { name.to_string() } else { format!("ERROR_{name}") };
            self.constant(attributes, &name, number);
        }
    }

    fn structure(&mut self, item: &ItemStruct) {
        let name = format!("det_post_{}", snake(&item.ident.to_string()));
        let Fields::Named(fields) = &item.fields else { panic!("{name} has no names") };
        write!(self.structs, "\n{}struct {name} {{\n", comment(&item.attrs, "")).unwrap();
        for field in &fields.named {
            let declared = declare(&field.ty, &field.ident.as_ref().unwrap().to_string());
            writeln!(self.structs, "{}    {declared};", comment(&field.attrs, "    ")).unwrap();
        }
        self.structs += "};\n";
        self.struct_names.push(name);
    }

    fn function(&mut self, item: &ItemFn) {
        let name = item.sig.ident.to_string();
        let returned = match &item.sig.output {
            ReturnType::Type(_, ty) => declare(ty, &name),
            ReturnType::Default => format!("void {name}"),
        };
        let arguments = item.sig.inputs.iter().map(|argument| {
            let FnArg::Typed(argument) = argument else { panic!("{name} has self") };
            let Pat::Ident(pattern) = &*argument.pat else { panic!("{name}: a pattern") };
            declare(&argument.ty, &pattern.ident.to_string())
        });
        let arguments: Vec<String> = arguments.collect();
        let arguments = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
        let text = comment(&item.attrs, "");
        write!(self.functions, "\n{text}{returned}({arguments});\n").unwrap();
        self.function_names.insert(name);
    }

    /// The text of the header.
    fn header(&self) -> String {
        let forward =
            self.struct_names.iter().map(|name| format!("typedef struct {name} {name};\n"));
        let forward: String = forward.collect();
        let Self { constants, structs, functions, .. } = self;
        format!("{TOP}{constants}\n{forward}{structs}{functions}{BOTTOM}")
    }
}

#[test]
fn the_header_is_what_the_library_declares() {
    let path = root().join("include/det_post.h");
    let header = Declarations::read().header();
    if std::env::var_os("DET_POST_BLESS").is_some() {
        fs::write(&path, &header).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == header, "include/det_post.h: DET_POST_BLESS=1 writes it");
}
