//! Source to tokens, with the whitespace control of chat templates: `trim_blocks` (the newline
//! after a block or comment goes), `lstrip_blocks` (so does the indentation before one), and the
//! signs that override them.

use super::error::TemplateError;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// Text outside of tags.
    Text(String),
    /// `{{`
    PrintStart,
    /// `}}`
    PrintEnd,
    /// `{%`
    BlockStart,
    /// `%}`
    BlockEnd,
    Name(String),
    Str(String),
    Int(i64),
    Float(f64),
    Op(&'static str),
}

/// Longest first, so that the first that fits is the one meant.
const OPERATORS: [&str; 26] = [
    "**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ".",
    ",", ":", "|", ";",
];

/// Tokens with their lines.
pub(super) fn tokenize(source: &str) -> Result<Vec<(Token, u32)>, TemplateError> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let source = source.strip_suffix('\n').unwrap_or(&source);
    let mut lexer = Lexer { source, at: 0, line: 1, line_starting: true, tokens: Vec::new() };
    while lexer.at < source.len() {
        lexer.text_and_tag()?;
    }
    Ok(lexer.tokens)
}

struct Lexer<'s> {
    source: &'s str,
    at: usize,
    line: u32,
    /// Whether the text at `at` starts a line of the source.
    line_starting: bool,
    tokens: Vec<(Token, u32)>,
}

impl<'s> Lexer<'s> {
    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn advance(&mut self, bytes: usize) {
        let passed = &self.source[self.at..self.at + bytes];
        self.line += passed.matches('\n').count() as u32;
        self.at += bytes;
    }

    fn push(&mut self, token: Token) {
        self.tokens.push((token, self.line));
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, TemplateError> {
        Err(TemplateError::Syntax { line: self.line, message: message.into() })
    }

    /// Takes the text up to the next tag, and the tag.
    fn text_and_tag(&mut self) -> Result<(), TemplateError> {
        let rest = self.rest();
        let tags = ["{{", "{%", "{#"];
        let Some(open) = rest
            .match_indices('{')
            .map(|(open, _)| open)
            .find(|&open| tags.iter().any(|tag| rest[open..].starts_with(tag)))
        else {
            self.emit_text(rest);
            self.advance(rest.len());
            return Ok(());
        };
        let tag = &rest[open..open + 2];
        let sign = rest[open + 2..].chars().next();
        let text = &rest[..open];
        self.emit_text(match sign {
            Some('-') => text.trim_end(),
            Some('+') => text,
            _ if tag == "{{" => text,
            _ => self.without_indentation(text),
        });
        self.advance(open + 2);
        if matches!(sign, Some('-' | '+')) && (tag != "{{" || sign == Some('-')) {
            self.advance(1);
        }
        match tag {
            "{#" => self.comment(),
            "{%" if self.raw_start().is_some() => self.raw(),
            "{%" => self.tag(Token::BlockStart, "%}", Token::BlockEnd),
            _ => self.tag(Token::PrintStart, "}}", Token::PrintEnd),
        }
    }

    fn emit_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(Token::Text(text.to_owned()));
        }
    }

    /// `lstrip_blocks`: drops the spaces between the start of the line and the tag.
    fn without_indentation<'t>(&self, text: &'t str) -> &'t str {
        let line = text.rfind('\n').map_or(0, |newline| newline + 1);
        let whole_line = line > 0 || self.line_starting;
        if whole_line && text[line..].trim().is_empty() { &text[..line] } else { text }
    }

    /// Takes the end of a tag, of two bytes, and the whitespace it removes.
    fn end_tag(&mut self, sign: Option<char>, trims_newline: bool) {
        self.advance(usize::from(sign.is_some()) + 2);
        let rest = self.rest();
        let removed = match sign {
            Some('-') => rest.len() - rest.trim_start().len(),
            None if trims_newline && rest.starts_with('\n') => 1,
            _ => 0,
        };
        self.line_starting = rest[..removed].ends_with('\n');
        self.advance(removed);
    }

    fn comment(&mut self) -> Result<(), TemplateError> {
        let Some(end) = self.rest().find("#}") else {
            return self.error("a comment is not closed");
        };
        let sign = self.rest()[..end].chars().next_back();
        let sign = sign.filter(|sign| matches!(sign, '-' | '+'));
        self.advance(end - usize::from(sign.is_some()));
        self.end_tag(sign, true);
        Ok(())
    }

    /// Length of `raw` and the end of its tag, if that is what comes next.
    fn raw_start(&self) -> Option<(usize, Option<char>)> {
        block_name_end(self.rest(), "raw")
    }

    /// Takes `{% raw %}` … `{% endraw %}`, the start of whose first tag is passed.
    fn raw(&mut self) -> Result<(), TemplateError> {
        if let Some((len, sign)) = self.raw_start() {
            self.advance(len);
            self.end_tag(sign, true);
        }
        let rest = self.rest();
        let closing = rest.match_indices("{%").find_map(|(open, _)| {
            let inner = &rest[open + 2..];
            let sign = inner.chars().next().filter(|c| matches!(c, '-' | '+'));
            let skipped = usize::from(sign.is_some());
            let (len, end) = block_name_end(&inner[skipped..], "endraw")?;
            Some((open, sign, open + 2 + skipped + len, end))
        });
        let Some((open, sign, end, end_sign)) = closing else {
            return self.error("a raw block is not closed");
        };
        let text = &rest[..open];
        self.emit_text(match sign {
            Some('-') => text.trim_end(),
            Some(_) => text,
            None => self.without_indentation(text),
        });
        self.advance(end);
        self.end_tag(end_sign, true);
        Ok(())
    }

    /// Takes the tokens of a tag whose start is passed.
    fn tag(&mut self, start: Token, end: &str, end_token: Token) -> Result<(), TemplateError> {
        self.push(start);
        let mut open_brackets = 0usize;
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.advance(rest.len() - trimmed.len());
            let rest = trimmed;
            let Some(first) = rest.chars().next() else {
                return self.error("a tag is not closed");
            };
            let sign = Some(first).filter(|c| matches!(c, '-' | '+'));
            let sign = sign.filter(|sign| *sign == '-' || end == "%}");
            if open_brackets == 0 && rest[usize::from(sign.is_some())..].starts_with(end) {
                self.push(end_token);
                self.end_tag(sign, end == "%}");
                return Ok(());
            }
            if first.is_alphabetic() || first == '_' {
                let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                self.push(Token::Name(rest[..len].to_owned()));
                self.advance(len);
            } else if first.is_ascii_digit() {
                self.number()?;
            } else if first == '\'' || first == '"' {
                self.string(first)?;
            } else if let Some(op) = OPERATORS.into_iter().find(|op| rest.starts_with(op)) {
                match op {
                    "(" | "[" | "{" => open_brackets += 1,
                    ")" | "]" | "}" => open_brackets = open_brackets.saturating_sub(1),
                    _ => {}
                }
                self.push(Token::Op(op));
                self.advance(op.len());
            } else {
                return self.error(format!("unexpected character {first:?}"));
            }
        }
    }

    fn number(&mut self) -> Result<(), TemplateError> {
        let rest = self.rest();
        let digits = |from: usize| {
            let tail = &rest[from..];
            let len = tail.find(|c: char| !c.is_ascii_digit() && c != '_');
            from + len.unwrap_or(tail.len())
        };
        let mut end = digits(0);
        let mut is_float = false;
        let next_is_digit = |at: usize| rest[at..].starts_with(|c: char| c.is_ascii_digit());
        if rest[end..].starts_with('.') && next_is_digit(end + 1) {
            is_float = true;
            end = digits(end + 1);
        }
        if rest[end..].starts_with(['e', 'E']) {
            let signed = rest[end + 1..].starts_with(['+', '-']);
            let exponent = end + 1 + usize::from(signed);
            if next_is_digit(exponent) {
                is_float = true;
                end = digits(exponent);
            }
        }
        let text = rest[..end].replace('_', "");
        let token = if is_float { text.parse().ok().map(Token::Float) } else { text.parse().ok().map(Token::Int) };
        match token {
            Some(token) => self.push(token),
            None => return self.error(format!("{text} is not a number that fits")),
        }
        self.advance(end);
        Ok(())
    }

    fn string(&mut self, quote: char) -> Result<(), TemplateError> {
        let body = &self.rest()[1..];
        let mut text = String::new();
        let mut chars = body.char_indices();
        while let Some((at, ch)) = chars.next() {
            if ch == quote {
                self.push(Token::Str(text));
                self.advance(at + 2);
                return Ok(());
            }
            if ch != '\\' {
                text.push(ch);
                continue;
            }
            let Some((_, escaped)) = chars.next() else {
                break;
            };
            let hex_digits = match escaped {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => 0,
            };
            if hex_digits > 0 {
                let digits = chars.as_str().get(..hex_digits);
                let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                let Some(ch) = code.and_then(char::from_u32) else {
                    return self.error("a string has a broken escape");
                };
                text.push(ch);
                chars.nth(hex_digits - 1);
                continue;
            }
            match escaped {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                'b' => text.push('\u{8}'),
                'f' => text.push('\u{c}'),
                'v' => text.push('\u{b}'),
                '0' => text.push('\0'),
                '\n' => {}
                '\\' | '\'' | '"' => text.push(escaped),
                other => text.extend(['\\', other]),
            }
        }
        self.error("a string is not closed")
    }
}

/// If `text` is ` name %}`: the length up to the end tag, and the sign of that.
fn block_name_end(text: &str, name: &str) -> Option<(usize, Option<char>)> {
    let rest = text.trim_start().strip_prefix(name)?.trim_start();
    let sign = rest.chars().next().filter(|c| matches!(c, '-' | '+'));
    let end = &rest[usize::from(sign.is_some())..];
    end.starts_with("%}").then_some((text.len() - rest.len(), sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> String {
        let tokens = tokenize(source).unwrap();
        let shown = tokens.into_iter().map(|(token, _)| match token {
            Token::Text(text) => format!("<{text}>"),
            Token::Name(name) => name,
            Token::Str(text) => format!("{text:?}"),
            Token::Op(op) => op.to_owned(),
            Token::Int(int) => int.to_string(),
            Token::Float(float) => float.to_string(),
            _ => String::new(),
        });
        shown.collect()
    }

    #[test]
    fn blocks_take_their_newline_and_their_indentation() {
        assert_eq!(texts("a\n  {% x %}\n  b"), "<a\n>x<  b>");
        assert_eq!(texts("a {% x %} b\n"), "<a >x< b>");
        assert_eq!(texts("  {{ x }}\n b"), "<  >x<\n b>");
        assert_eq!(texts("a\n  {# x #}\n  b"), "<a\n><  b>");
        assert_eq!(texts("{% x %}\n  {% y %}"), "xy");
        assert_eq!(texts("{% x %}  {% y %}"), "x<  >y");
    }

    #[test]
    fn signs_override() {
        assert_eq!(texts("a \n {%- x -%} \n b"), "<a>x<b>");
        assert_eq!(texts("a \n {%+ x +%}\n b"), "<a \n >x<\n b>");
        assert_eq!(texts("a {{- x -}} \nb"), "<a>x<b>");
        assert_eq!(texts("a {#- c -#} b"), "<a><b>");
        assert_eq!(texts("{{ -1 }}{{ +1 }}{{+1 }}"), "-1+1+1");
    }

    #[test]
    fn raw_blocks_are_text() {
        assert_eq!(texts("a {% raw %}\n{{ x }}{% y %}{% endraw %}\nb"), "<a ><{{ x }}{% y %}><b>");
        assert_eq!(texts("{%- raw -%} {{ {%- endraw -%} b"), "<{{><b>");
    }

    #[test]
    fn strings_numbers_and_brackets() {
        assert_eq!(texts(r#"{{ 'a\n\'"' ~ "\u00e9\q" }}"#), "\"a\\n'\\\"\"~\"é\\\\q\"");
        assert_eq!(texts("{{ 1_000 1.5 2e3 x.1 }}"), "10001.52000x.1");
        assert_eq!(texts("{{ {'a': {}} }}b"), "{\"a\":{}}<b>");
        assert_eq!(texts("{{ '}}' }}"), "\"}}\"");
    }

    #[test]
    fn lines_are_counted() {
        let tokens = tokenize("a\r\nb {%- if\n x %}\n{{ y }}").unwrap();
        let line = |name: &str| {
            let named = tokens.iter().find(|(t, _)| *t == Token::Name(name.into()));
            named.unwrap().1
        };
        assert_eq!((line("if"), line("x"), line("y")), (2, 3, 4));
    }

    #[test]
    fn broken_sources_are_errors_with_a_line() {
        for source in ["\n{{ x", "\n{% x", "\n{# x", "\n{{ 'x }}", "\n{{ § }}", "\n{% raw %}x"] {
            match tokenize(source) {
                Err(TemplateError::Syntax { line: 2, .. }) => {}
                other => panic!("{source:?}: {other:?}"),
            }
        }
        assert!(tokenize("\n{{ 99999999999999999999 }}").is_err());
        assert!(tokenize(r"{{ '\ud800' }}").is_err());
        assert!(tokenize(r"{{ '\x").is_err());
    }
}
