//! docs/troubleshooting.md explains everything that the node reports.
//!
//! The texts are read from the sources: a message that is added to the
//! diagnostics, a reason, a counter, a state or an exit code without a line
//! there fails.

use std::fs;

use det_post::ErrorKind;
use det_post::runtime::supervisor::Health;
use det_post_types::Count;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprMethodCall, ItemMod, LitStr, Token};

use super::root;

/// Files whose texts become diagnostics.
const DIAGNOSTICS: [&str; 5] = [
    "src/node/diagnostics.rs",
    "src/node/status.rs",
    "src/node/calibration.rs",
    "src/node/live/health.rs",
    "src/node/live/graph.rs",
];

/// Text literals of a file, tests and documentation aside.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    /// Last names of statuses.
    statuses: Vec<String>,
    /// Formats of warnings and errors of the log.
    logged: Vec<String>,
}

impl Visit<'_> for Texts {
    fn visit_attribute(&mut self, _: &Attribute) {}

    fn visit_item_mod(&mut self, module: &ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_expr_method_call(&mut self, call: &ExprMethodCall) {
        if (call.method == "status" || call.method == "part")
            && let Some(Expr::Lit(name)) = call.args.first()
            && let syn::Lit::Str(name) = &name.lit
        {
            self.statuses.push(name.value());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, call: &syn::Macro) {
        let name = call.path.segments.last().map(|segment| segment.ident.to_string());
        if name.is_some_and(|name| name == "warn" || name == "error") {
            // Fields that precede the format are no expressions: the format is the first literal.
            let literals = call.tokens.clone().into_iter();
            let mut texts = literals.filter_map(|token| syn::parse2::<LitStr>(token.into()).ok());
            self.logged.extend(texts.next().map(|text| text.value()));
        }
        let arguments = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
        for argument in arguments.iter().flatten() {
            self.visit_expr(argument);
        }
    }

    fn visit_lit_str(&mut self, text: &LitStr) {
        self.all.push(text.value());
    }
}

fn texts(file: &str) -> Texts {
    let source = fs::read_to_string(root().join(file)).unwrap();
    let mut texts = Texts::default();
    texts.visit_file(&syn::parse_file(&source).unwrap());
    texts
}

/// The parts of a format string between its values that are several words.
fn phrases(format: &str) -> Vec<String> {
    let mut text = String::new();
    let mut depth = 0;
    for c in format.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ if depth == 0 => text.push(c),
            _ => {}
        }
        if c == '}' {
            text.push('\0');
        }
    }
    let is_edge = |c: char| c.is_whitespace() || ":;,".contains(c);
    let parts = text.split('\0').map(|part| part.trim_matches(is_edge).to_owned());
    parts.filter(|part| part.contains(' ')).collect()
}

fn page() -> String {
    let page = fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn phrases_leave_out_values() {
    assert_eq!(phrases("{} messages refused: {reasons}"), ["messages refused"]);
    assert_eq!(
        phrases("p99 latency {p99:.1} ms exceeds the {b} ms budget"),
        ["p99 latency", "ms exceeds the", "ms budget"]
    );
    assert!(phrases("{:.1} Hz").is_empty());
}

#[test]
fn every_diagnostics_message_and_status_is_explained() {
    let page = page();
    let mut missing = Vec::new();
    let mut num_statuses = 0;
    for file in DIAGNOSTICS {
        let texts = texts(file);
        assert!(!texts.all.is_empty(), "{file} has no texts");
        let phrases = texts.all.iter().flat_map(|text| phrases(text));
        missing.extend(
            phrases.filter(|phrase| !page.contains(phrase)).map(|p| format!("{file}: {p}")),
        );
        num_statuses += texts.statuses.len();
        let headings = texts.statuses.iter().map(|name| format!("### `NODE: NAME: {name}`"));
        missing.extend(headings.filter(|heading| !page.contains(heading)));
    }
    assert!(num_statuses >= 5, "{num_statuses} statuses found");
    assert!(page.contains("### `NODE: node`"));
    assert!(missing.is_empty(), "not in docs/troubleshooting.md:\n{}", missing.join("\n"));
}

#[test]
fn every_warning_and_error_of_the_log_is_explained() {
    let page = page();
    let mut missing = Vec::new();
    let mut num_logged = 0;
    for path in super::source_files() {
        let file = super::relative(&path);
        let texts = texts(&file);
        num_logged += texts.logged.len();
        let phrases = texts.logged.iter().flat_map(|text| phrases(text));
        let unknown = phrases.filter(|phrase| !page.contains(phrase));
        missing.extend(unknown.map(|phrase| format!("{file}: {phrase}")));
    }
    assert!(num_logged >= 60, "{num_logged} found");
    assert!(missing.is_empty(), "not in docs/troubleshooting.md:\n{}", missing.join("\n"));
}

#[test]
fn every_reason_counter_state_and_exit_code_is_explained() {
    let page = page();
    let reasons = ErrorKind::ALL.map(ErrorKind::reason);
    let names = reasons.into_iter().chain(Count::ALL.map(Count::name));
    for name in names.chain(Health::ALL.map(Health::name)) {
        assert!(page.contains(&format!("`{name}`")), "docs/troubleshooting.md lacks `{name}`");
    }
    let exit = fs::read_to_string(root().join("src/cli/exit.rs")).unwrap();
    let codes: Vec<&str> = exit
        .lines()
        .filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "))
        .map(|(_, code)| code)
        .collect();
    assert!(codes.len() >= 5, "{codes:?}");
    for code in codes {
        assert!(
            page.contains(&format!("| {code} | ")),
            "docs/troubleshooting.md lacks code {code}"
        );
    }
}
