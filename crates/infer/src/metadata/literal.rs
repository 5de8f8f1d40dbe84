//! Literals of Python and JSON: what metadata is written in.

use std::iter::Peekable;
use std::str::Chars;

/// The deepest nesting that is read.
const MAX_DEPTH: usize = 4;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    /// An integer.
    Integer(i64),
    /// Text in quotes.
    Text(String),
    /// `[…]` or `(…)`.
    List(Vec<Literal>),
    /// `{key: value}`, in its order.
    Map(Vec<(Literal, Literal)>),
    /// A word or another number: `None`, `True`, `0.5`.
    Other,
}

impl Literal {
    /// Reads a whole text; `None` where it is no literal.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text.chars().peekable() };
        let value = parser.value(0)?;
        parser.skip_spaces();
        parser.rest.peek().is_none().then_some(value)
    }

    /// An integer, or text that is one: JSON has no other keys than text.
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            Self::Text(text) => text.parse().ok(),
            Self::List(_) | Self::Map(_) | Self::Other => None,
        }
    }

    /// Text, or an integer as text.
    pub(super) fn text(self) -> Option<String> {
        match self {
            Self::Integer(value) => Some(value.to_string()),
            Self::Text(text) => Some(text),
            Self::List(_) | Self::Map(_) | Self::Other => None,
        }
    }
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Parser<'_> {
    fn skip_spaces(&mut self) {
        while self.rest.next_if(|c| c.is_whitespace()).is_some() {}
    }

    /// Whether `wanted` is next behind spaces; if so, it is passed.
    fn takes(&mut self, wanted: char) -> bool {
        self.skip_spaces();
        self.rest.next_if_eq(&wanted).is_some()
    }

    fn value(&mut self, depth: usize) -> Option<Literal> {
        if depth == MAX_DEPTH {
            return None;
        }
        self.skip_spaces();
        let next = *self.rest.peek()?;
        match next {
            '{' => {
                self.rest.next();
                self.items('}', |parser| {
                    let key = parser.value(depth + 1)?;
                    parser.takes(':').then_some(())?;
                    Some((key, parser.value(depth + 1)?))
                })
                .map(Literal::Map)
            }
            open @ ('[' | '(') => {
                self.rest.next();
                let close = if open == '[' { ']' } else { ')' };
                self.items(close, |parser| parser.value(depth + 1)).map(Literal::List)
            }
            quote @ ('\'' | '"') => {
                self.rest.next();
                self.quoted(quote).map(Literal::Text)
            }
            _ => self.word(),
        }
    }

    /// Items between commas up to `close`; a comma may be last.
    fn items<T>(
        &mut self,
        close: char,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut items = Vec::new();
        while !self.takes(close) {
            items.push(item(self)?);
            if !self.takes(',') {
                return self.takes(close).then_some(items);
            }
        }
        Some(items)
    }

    fn quoted(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.rest.next()? {
                end if end == quote => return Some(text),
                '\\' => text.push(self.escaped()?),
                other => text.push(other),
            }
        }
    }

    fn escaped(&mut self) -> Option<char> {
        Some(match self.rest.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'x' => char::from_u32(self.hex(2)?)?,
            'U' => char::from_u32(self.hex(8)?)?,
            'u' => {
                let first = self.hex(4)?;
                match char::from_u32(first) {
                    Some(one) => one,
                    // Half of a pair in UTF-16.
                    None => {
                        (self.rest.next()? == '\\' && self.rest.next()? == 'u').then_some(())?;
                        let pair = [first as u16, self.hex(4)? as u16];
                        char::decode_utf16(pair).next()?.ok()?
                    }
                }
            }
            same @ ('\\' | '\'' | '"' | '/') => same,
            _ => return None,
        })
    }

    fn hex(&mut self, num_digits: usize) -> Option<u32> {
        let mut value = 0;
        for _ in 0..num_digits {
            value = value << 4 | self.rest.next()?.to_digit(16)?;
        }
        Some(value)
    }

    fn word(&mut self) -> Option<Literal> {
        let mut word = String::new();
        let is_of_word = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '+' | '.' | '_');
        while let Some(c) = self.rest.next_if(is_of_word) {
            word.push(c);
        }
        match word.parse() {
            Ok(integer) => Some(Literal::Integer(integer)),
            Err(_) => (!word.is_empty()).then_some(Literal::Other),
        }
    }
}
