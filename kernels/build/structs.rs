//! The structs that kernels share with Rust, read from the kernels' text and written as the
//! macro `struct_fields`, by which Rust compares them field by field.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Sources;

struct Struct {
    file: String,
    namespace: String,
    name: String,
    /// The names of its template's types.
    params: Vec<String>,
    /// Of `alignas`; 1 without.
    alignment: u32,
    fields: Vec<Field>,
}

struct Field {
    name: String,
    kind: String,
    /// The lengths of an array of arrays, the outer one first.
    lengths: Vec<String>,
}

/// The text of the macro `struct_fields`: for each struct of the sources an arm with its path,
/// its name, the Rust type and those for its template's types, which gives a `Struct` of
/// `src/mirror.rs`. Structs with a base or other members than fields of known types have none.
pub fn macro_of(sources: &Sources) -> String {
    let mut structs = Vec::new();
    for (file, text) in sources {
        read(file, text, &mut structs);
    }
    let mut text = "/// The fields of a struct of the kernels beside those of a Rust type.\n\
                    #[doc(hidden)]\n#[macro_export]\nmacro_rules! struct_fields {\n"
        .to_owned();
    for of in structs.iter().filter(|of| !of.fields.is_empty() && is_name(&of.name)) {
        let scope = Scope { sources, structs: &structs, of, files: included(sources, &of.file) };
        if let Some(arm) = scope.arm() {
            text += &arm;
        }
    }
    text + "}\n"
}

/// A file and what it includes.
fn included(sources: &Sources, file: &str) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let mut open = vec![file.to_owned()];
    while let Some(file) = open.pop() {
        let lines = sources.get(&file).into_iter().flat_map(|text| text.lines());
        let includes = lines.filter_map(|line| line.strip_prefix("#include \"")?.split_once('"'));
        open.extend(includes.map(|(name, _)| name.to_owned()).filter(|name| !files.contains(name)));
        files.insert(file);
    }
    files
}

/// The structs of a file that are not within others.
fn read(file: &str, text: &str, structs: &mut Vec<Struct>) {
    let mut namespace = String::new();
    let mut template = "";
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("}  // namespace") {
            namespace.clear();
        } else if let Some(rest) = line.strip_prefix("namespace ") {
            rest.trim_end_matches(['{', ' ']).clone_into(&mut namespace);
        } else if let Some(rest) = line.strip_prefix("template <") {
            template = rest.strip_suffix('>').unwrap_or("");
            continue;
        } else if let Some(head) = line.strip_prefix("struct ").and_then(|l| l.strip_suffix(" {")) {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "};").collect();
            let head = Head { file, namespace: &namespace, template, text: head };
            structs.extend(head.with(&body));
        }
        template = "";
    }
}

struct Head<'a> {
    file: &'a str,
    namespace: &'a str,
    template: &'a str,
    text: &'a str,
}

impl Head<'_> {
    fn with(&self, body: &[&str]) -> Option<Struct> {
        let (alignment, name) = match self.text.strip_prefix("alignas(") {
            Some(rest) => rest.split_once(") ")?,
            None => ("1", self.text),
        };
        let params = self.template.split(", ").filter(|param| !param.is_empty());
        let params = params.map(|param| param.strip_prefix("typename ")?.split(' ').next());
        Some(Struct {
            file: self.file.to_owned(),
            namespace: self.namespace.to_owned(),
            name: (!name.contains(' ')).then(|| name.to_owned())?,
            params: params.map(|param| param.map(str::to_owned)).collect::<Option<_>>()?,
            alignment: alignment.parse().ok()?,
            fields: fields(body)?,
        })
    }
}

/// The fields of a struct, without its functions and types; `None` for other members.
fn fields(body: &[&str]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let (mut depth, mut is_function) = (0, false);
    for line in body {
        let line = line.split("//").next()?.trim();
        let outer = depth;
        depth += line.matches('{').count();
        depth = depth.checked_sub(line.matches('}').count())?;
        is_function |= outer == 0 && line.contains('(');
        if outer == 0 && !is_function && !line.is_empty() && !line.starts_with("using ") {
            fields.extend(declared(line.strip_suffix(';')?)?);
        }
        // The body of a function may begin in a later line than its name.
        is_function &= depth != 0 || !line.ends_with(['}', ';']);
    }
    Some(fields)
}

/// The fields of a declaration, such as `float low[3], high[3]`.
fn declared(text: &str) -> Option<Vec<Field>> {
    let mut depth = 0;
    let end = text.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '<') - i32::from(*c == '>');
        depth == 0 && *c == ' '
    });
    let (kind, names) = text.split_at(end?.0);
    let field = |name: &str| {
        let mut parts = name.trim().split('[');
        let name = parts.next().filter(|name| is_name(name))?.to_owned();
        let lengths = parts.map(|part| Some(part.strip_suffix(']')?.to_owned()));
        Some(Field { name, kind: kind.to_owned(), lengths: lengths.collect::<Option<_>>()? })
    };
    names.split(',').map(field).collect()
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// What the names in a struct stand for.
struct Scope<'a> {
    sources: &'a Sources,
    structs: &'a [Struct],
    of: &'a Struct,
    files: BTreeSet<String>,
}

impl Scope<'_> {
    fn arm(&self) -> Option<String> {
        let Struct { file, name, params, alignment, fields, .. } = self.of;
        let params: String = params.iter().map(|param| format!(", ${param}:ty")).collect();
        let mut arm = format!(
            "    ({file:?}, {name:?}, $rust:ty{params}) => {{\n        \
             Struct {{ alignment: {alignment}, fields: &[\n"
        );
        for field in fields {
            let mut kind = self.kind(&field.kind)?;
            for length in field.lengths.iter().rev() {
                kind = format!("Kind::Array(&{kind}, {})", self.number(length)?);
            }
            let name = &field.name;
            let message = format!(
                "kernels/{file}: {}::{name} differs from the Rust type in place or type",
                self.of.name
            );
            let _ = writeln!(
                arm,
                "            Field {{ kind: {kind}, offset: ::core::mem::offset_of!($rust, {name}), \
                 rust: rust_field::<$rust, _>(|rust| &rust.{name}), message: {message:?} }},"
            );
        }
        Some(arm + "        ] }\n    };\n")
    }

    /// A `Kind` in Rust.
    fn kind(&self, text: &str) -> Option<String> {
        let text = text.strip_prefix("const ").unwrap_or(text);
        let (name, arguments) = match text.split_once('<') {
            Some((name, rest)) => (name, rest.strip_suffix('>')?.split(", ").collect()),
            None => (text, Vec::new()),
        };
        let number = |name: &str| format!("Kind::Number({name:?})");
        Some(match (name, &arguments[..]) {
            ("uint8_t" | "uint32_t" | "uint64_t" | "float" | "double" | "__half", []) => {
                number(name)
            }
            // Rust hands indices on without their sign.
            ("int32_t" | "int64_t", []) => number(&format!("u{name}")),
            ("float2" | "float4", []) => {
                format!("Kind::Array(&{}, {})", number("float"), &name[5..])
            }
            ("uint2" | "uint4" | "int4", []) => {
                format!("Kind::Array(&{}, {})", number("uint32_t"), &name[name.len() - 1..])
            }
            ("Slice", [of]) => {
                let kind = if of.starts_with("const ") { "In" } else { "Out" };
                format!("Kind::{kind}(&{})", self.kind(of)?)
            }
            _ if name.ends_with('*') => number("uint64_t"),
            (_, []) if self.of.params.iter().any(|param| param == name) => {
                format!("<${name} as Mirror>::KIND")
            }
            _ => match self.alias(name) {
                Some(aliased) => self.kind(aliased)?,
                None => self.nested(name, &arguments)?,
            },
        })
    }

    /// What the namespace of the struct, or another by name, says of a name.
    fn find<'b, T>(&self, name: &'b str, has: impl Fn(&str, &'b str) -> Option<T>) -> Option<T> {
        match name.split_once("::") {
            Some((namespace, name)) => has(namespace, name),
            None => has(&self.of.namespace, name).or_else(|| has("", name)),
        }
    }

    fn nested(&self, name: &str, arguments: &[&str]) -> Option<String> {
        let found = self.find(name, |namespace, name| {
            let is = |of: &&Struct| of.namespace == namespace && of.name == name;
            self.structs.iter().filter(|of| self.files.contains(&of.file)).find(is)
        })?;
        let arguments = arguments.iter().map(|argument| self.kind(argument));
        let arguments = arguments.collect::<Option<Vec<_>>>()?.join(", ");
        Some(format!("Kind::Struct({:?}, {:?}, &[{arguments}])", found.file, found.name))
    }

    /// The type behind `using NAME = TYPE;` in any namespace.
    fn alias(&self, name: &str) -> Option<&str> {
        self.lines("").find_map(|line| {
            line.strip_prefix("using ")?.strip_prefix(name)?.strip_prefix(" = ")?.strip_suffix(';')
        })
    }

    /// The lines of the struct's file, and of those that it includes, in a namespace; without
    /// one, all.
    fn lines(&self, namespace: &str) -> impl Iterator<Item = &str> {
        let texts = self.files.iter().filter_map(|file| self.sources.get(file));
        let opening = format!("namespace {namespace} {{");
        let texts = texts.filter(move |text| namespace.is_empty() || text.contains(&opening));
        texts.flat_map(|text| text.lines())
    }

    /// A constant, an enumerator, or the quotient of two.
    fn number(&self, text: &str) -> Option<u32> {
        if let Some((a, b)) = text.split_once(" / ") {
            return self.number(a)?.checked_div(self.number(b)?);
        }
        if let Ok(number) = text.parse() {
            return Some(number);
        }
        let value = self.find(text, |namespace, name| {
            let value = |line: &str| {
                let line = line.strip_prefix("constexpr uint32_t ").unwrap_or(line.trim_start());
                let rest = line.strip_prefix(name)?.strip_prefix(" = ")?;
                Some(rest.split_once([';', ','])?.0.to_owned())
            };
            self.lines(namespace).find_map(value)
        })?;
        self.number(&value)
    }
}
