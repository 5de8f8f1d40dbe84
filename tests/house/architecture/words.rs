//! Published texts keep to plain words: errors, log entries, diagnostics, reports, the help of
//! commands and parameters, the C header and the launch files.
//!
//! The texts of Rust are the string literals of the syntax tree, test code aside, and the
//! documentation that becomes the help of a command.

use std::fs;
use std::path::Path;

use syn::parse::{Parse, ParseStream};
use syn::visit::{self, Visit};
use syn::{
    Attribute, ItemEnum, ItemMod, ItemStruct, LitStr, Macro, Meta, Token, braced, bracketed,
    parenthesized, token,
};

use super::{relative, root, source_files};

/// Sequences of words that no published text has, with what to write instead.
const REFUSED: [(&str, &str); 24] = [
    ("door", "middleware"),
    ("doors", "middleware"),
    ("alone", "only, or degraded"),
    ("resting", "backing off"),
    ("nobody", "a noun"),
    ("whoever", "a noun"),
    ("are possible", "must be A or B, found C"),
    ("is possible", "must be A, found C"),
    ("is the most", "exceeds the limit of N"),
    ("are the most", "exceed the limits"),
    ("needed is", "N or newer is required"),
    ("needed are", "at least N required"),
    ("is needed", "is required"),
    ("are needed", "are required"),
    ("is told", "a verb with a subject"),
    ("are told", "a verb with a subject"),
    ("of its own", "separate, or its own"),
    ("of their own", "separate, or their own"),
    ("those of", "the noun"),
    ("that of", "the noun"),
    ("is gone", "the verb: ended, closed, removed"),
    ("picture", "image"),
    ("pictures", "images"),
    ("nothing flows", "no messages will be delivered"),
];

/// A format string without its placeholders, which end a sequence of words.
fn without_placeholders(format: &str) -> String {
    let mut text = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        rest = match after.split_once('}') {
            Some((inside, after)) if !inside.contains(char::is_whitespace) => {
                text.push_str(" x ");
                after
            }
            _ => after,
        };
    }
    text + rest
}

/// The refused sequences in a text, each with what to write instead.
fn refused(text: &str) -> Vec<(&'static str, &'static str)> {
    let words = text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    let words = words.map(str::to_lowercase).collect::<Vec<_>>().join(" ");
    let words = format!(" {words} ");
    let is_found = |(sequence, _): &(&str, &str)| words.contains(&format!(" {sequence} "));
    REFUSED.into_iter().filter(is_found).collect()
}

/// The string literals between the tokens of a macro, its attributes aside.
struct Literals(Vec<String>);

impl Parse for Literals {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut all = Vec::new();
        while !input.is_empty() {
            let content;
            if input.peek(LitStr) {
                all.push(input.parse::<LitStr>()?.value());
                continue;
            }
            let is_attribute = input.peek(Token![#]) && input.peek2(token::Bracket);
            if is_attribute {
                input.parse::<Token![#]>()?;
            }
            if input.peek(token::Paren) {
                parenthesized!(content in input);
            } else if input.peek(token::Bracket) {
                bracketed!(content in input);
            } else if input.peek(token::Brace) {
                braced!(content in input);
            } else {
                input.step(|cursor| match cursor.token_tree() {
                    Some((_, rest)) => Ok(((), rest)),
                    None => Err(cursor.error("a token is expected")),
                })?;
                continue;
            }
            let Self(inner) = content.parse()?;
            if !is_attribute {
                all.extend(inner);
            }
        }
        Ok(Self(all))
    }
}

/// Texts of a file.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    /// Whether attributes, and with them the documentation, are the help of a command.
    is_help: bool,
}

impl Texts {
    fn of(source: &str) -> Vec<String> {
        let mut texts = Self::default();
        texts.visit_file(&syn::parse_file(source).unwrap());
        texts.all
    }
}

/// Whether clap derives the arguments of a command from an item.
fn is_of_clap(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("derive")).any(|attribute| {
        let mut is_of_clap = false;
        attribute
            .parse_nested_meta(|derived| {
                let name = derived.path.segments.last().map(|segment| segment.ident.to_string());
                let name = name.unwrap_or_default();
                let derives = ["Parser", "Args", "Subcommand", "ValueEnum"];
                is_of_clap |= derives.contains(&name.as_str());
                Ok(())
            })
            .unwrap();
        is_of_clap
    })
}

impl Visit<'_> for Texts {
    fn visit_attribute(&mut self, attribute: &Attribute) {
        match &attribute.meta {
            Meta::NameValue(pair) if self.is_help => self.visit_expr(&pair.value),
            Meta::List(list) if self.is_help => {
                self.all.extend(list.parse_args::<Literals>().unwrap().0);
            }
            _ => {}
        }
    }

    fn visit_item_struct(&mut self, item: &ItemStruct) {
        self.is_help = is_of_clap(&item.attrs);
        visit::visit_item_struct(self, item);
        self.is_help = false;
    }

    fn visit_item_enum(&mut self, item: &ItemEnum) {
        self.is_help = is_of_clap(&item.attrs);
        visit::visit_item_enum(self, item);
        self.is_help = false;
    }

    fn visit_item_mod(&mut self, module: &ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_macro(&mut self, call: &Macro) {
        self.all.extend(call.parse_body::<Literals>().unwrap().0);
    }

    fn visit_lit_str(&mut self, text: &LitStr) {
        self.all.push(text.value());
    }
}

fn is_test(file: &Path) -> bool {
    file.iter().any(|part| part == "tests" || part == "tests.rs")
}

#[test]
fn refused_words_are_found_in_literals_and_help() {
    for (source, found) in [
        ("fn f() { g(\"65 bytes, 64 is the most\") }", "is the most"),
        ("fn f() { h!(%a, key = \"x\", \"is {b}; 0 and 1 are \\\n   possible\") }", "are possible"),
        ("fn f() { h! { if a { k(\"of its own\") } } }", "of its own"),
        ("#[derive(Debug, clap::Args)] struct A { /** Those of before. */ a: u32 }", "those of"),
        ("#[derive(clap::Args)] struct A { #[arg(help = \"b alone\")] a: u32 }", "alone"),
        ("const A: &str = \"Alone:\";", "alone"),
    ] {
        let texts = Texts::of(source);
        let texts = texts.iter().flat_map(|text| refused(text)).map(|(sequence, _)| sequence);
        assert_eq!(texts.collect::<Vec<_>>(), [found], "{source}");
    }
    for source in [
        "/** Those of before. */ #[expect(a, reason = \"alone\")] struct A;",
        "h! { /// Those of before.\n A => \"a\" }",
        "#[cfg(test)] mod tests { const A: &str = \"alone\"; }",
        "const A: &str = \"standalone, indoor, impossible: that office, {needed:?} is required\";",
    ] {
        let texts = Texts::of(source).into_iter().map(|text| without_placeholders(&text));
        assert!(texts.flat_map(|text| refused(&text)).next().is_none(), "{source}");
    }
}

#[test]
fn published_texts_have_no_refused_words() {
    let mut texts = Vec::new();
    for file in source_files().into_iter().filter(|file| !is_test(file)) {
        let found = Texts::of(&fs::read_to_string(&file).unwrap());
        let found = found.iter().map(|text| (relative(&file), without_placeholders(text)));
        texts.extend(found);
    }
    assert!(texts.len() > 5000, "{} texts were found", texts.len());
    for folder in ["include", "launch"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let file = entry.unwrap().path();
            if file.is_file() {
                texts.push((relative(&file), fs::read_to_string(&file).unwrap()));
            }
        }
    }
    let found = texts.iter().flat_map(|(file, text)| {
        let short: String = text.chars().take(200).collect();
        let describe = move |(sequence, instead)| {
            format!("{file}: {sequence:?} in {short:?}; write: {instead}")
        };
        refused(text).into_iter().map(describe)
    });
    let found: Vec<_> = found.collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
