//! Values as text: as Python prints them, and as JSON.

use super::budget::{Budget, Builder};
use super::error::Fault;
use super::marks::Text;
use super::value::Value;

/// `str(value)`
pub(super) fn to_text(value: &Value, budget: &mut Budget) -> Result<Text, Fault> {
    let mut out = Builder::new(budget);
    print(value, &mut out)?;
    Ok(out.finish())
}

pub(super) fn print(value: &Value, out: &mut Builder) -> Result<(), Fault> {
    match value {
        Value::Str(text) => out.push_text(text),
        Value::Undefined(_) => Ok(()),
        other => repr(other, out),
    }
}

/// `repr(value)`. If there is data in it, all of it is.
pub(super) fn repr(value: &Value, out: &mut Builder) -> Result<(), Fault> {
    let from = out.len();
    write_repr(value, out)?;
    out.spread(from);
    Ok(())
}

fn write_repr(value: &Value, out: &mut Builder) -> Result<(), Fault> {
    out.budget.step()?;
    match value {
        Value::Undefined(_) => out.push("Undefined"),
        Value::None => out.push("None"),
        Value::Bool(true) => out.push("True"),
        Value::Bool(false) => out.push("False"),
        Value::Int(int) => out.push(&int.to_string()),
        Value::Float(float) => out.push(&float_text(*float)),
        Value::Str(text) => quoted(text, out),
        Value::List(list) => {
            let (open, close) = if list.is_tuple { ("(", ")") } else { ("[", "]") };
            out.push(open)?;
            for (i, item) in list.items.iter().enumerate() {
                if i > 0 {
                    out.push(", ")?;
                }
                repr(item, out)?;
            }
            if list.is_tuple && list.items.len() == 1 {
                out.push(",")?;
            }
            out.push(close)
        }
        Value::Map(map) => {
            out.push("{")?;
            for (i, (key, value)) in map.entries.iter().enumerate() {
                if i > 0 {
                    out.push(", ")?;
                }
                repr(key, out)?;
                out.push(": ")?;
                repr(value, out)?;
            }
            out.push("}")
        }
        other => {
            out.push("<")?;
            out.push(other.type_name())?;
            out.push(">")
        }
    }
}

fn quoted(text: &Text, out: &mut Builder) -> Result<(), Fault> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push_char(quote)?;
    for (at, ch) in text.char_indices() {
        match ch {
            '\n' => out.push("\\n")?,
            '\r' => out.push("\\r")?,
            '\t' => out.push("\\t")?,
            '\\' => out.push("\\\\")?,
            ch if ch == quote => {
                out.push("\\")?;
                out.push_char(ch)?;
            }
            ch if ch.is_control() && u32::from(ch) < 0x100 => {
                out.push(&format!("\\x{:02x}", u32::from(ch)))?;
            }
            ch => out.push_part(text, at..at + ch.len_utf8())?,
        }
    }
    out.push_char(quote)
}

/// The shortest digits that read back, in Python's notation.
pub(super) fn float_text(float: f64) -> String {
    if float.is_nan() {
        return "nan".into();
    }
    if float.is_infinite() {
        return if float > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let fixed = format!("{float}");
        if fixed.contains('.') { fixed } else { fixed + ".0" }
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    }
}

/// How `tojson` writes.
pub(super) struct JsonStyle {
    /// Spaces of indentation; `None` writes one line.
    pub(super) indent: Option<usize>,
    pub(super) ensure_ascii: bool,
    pub(super) sort_keys: bool,
    pub(super) item_separator: Text,
    pub(super) key_separator: Text,
}

/// `json.dumps(value)`, which escapes nothing for HTML. If there is data in it, all of it is.
pub(super) fn json(value: &Value, style: &JsonStyle, level: usize, out: &mut Builder) -> Result<(), Fault> {
    let from = out.len();
    write_json(value, style, level, out)?;
    out.spread(from);
    Ok(())
}

fn write_json(value: &Value, style: &JsonStyle, level: usize, out: &mut Builder) -> Result<(), Fault> {
    out.budget.step()?;
    match value {
        Value::None => out.push("null"),
        Value::Bool(bool) => out.push(if *bool { "true" } else { "false" }),
        Value::Int(int) => out.push(&int.to_string()),
        Value::Float(float) if float.is_nan() => out.push("NaN"),
        Value::Float(float) if float.is_infinite() => out.push(if *float > 0.0 { "Infinity" } else { "-Infinity" }),
        Value::Float(float) => out.push(&float_text(*float)),
        Value::Str(text) => json_string(text, style.ensure_ascii, out),
        Value::List(list) if list.items.is_empty() => out.push("[]"),
        Value::List(list) => {
            out.push("[")?;
            for (i, item) in list.items.iter().enumerate() {
                json_gap(i, style, level + 1, out)?;
                json(item, style, level + 1, out)?;
            }
            json_end(style, level, out)?;
            out.push("]")
        }
        Value::Map(map) if map.entries.is_empty() => out.push("{}"),
        Value::Map(map) => {
            let mut entries: Vec<&(Value, Value)> = map.entries.iter().collect();
            if style.sort_keys {
                out.budget.steps(entries.len())?;
                entries.sort_by(|a, b| a.0.as_str().cmp(&b.0.as_str()));
            }
            out.push("{")?;
            for (i, (key, value)) in entries.into_iter().enumerate() {
                json_gap(i, style, level + 1, out)?;
                match key {
                    Value::Str(text) => json_string(text, style.ensure_ascii, out)?,
                    Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                        out.push("\"")?;
                        json(key, style, level, out)?;
                        out.push("\"")?;
                    }
                    other => return Fault::new(format!("a {} is no JSON key", other.type_name())),
                }
                out.push_text(&style.key_separator)?;
                json(value, style, level + 1, out)?;
            }
            json_end(style, level, out)?;
            out.push("}")
        }
        Value::Undefined(name) => Fault::new(format!("{name} is undefined and has no JSON")),
        other => Fault::new(format!("a {} has no JSON", other.type_name())),
    }
}

fn json_gap(index: usize, style: &JsonStyle, level: usize, out: &mut Builder) -> Result<(), Fault> {
    if index > 0 {
        out.push_text(&style.item_separator)?;
    }
    new_line(style, level, out)
}

fn json_end(style: &JsonStyle, level: usize, out: &mut Builder) -> Result<(), Fault> {
    new_line(style, level, out)
}

fn new_line(style: &JsonStyle, level: usize, out: &mut Builder) -> Result<(), Fault> {
    if let Some(indent) = style.indent {
        out.push("\n")?;
        out.repeat(&Text::own(" "), indent.saturating_mul(level))?;
    }
    Ok(())
}

fn json_string(text: &Text, ensure_ascii: bool, out: &mut Builder) -> Result<(), Fault> {
    out.push("\"")?;
    let mut plain = 0;
    for (at, ch) in text.char_indices() {
        let escape = match ch {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\0'..='\u{1f}' => "",
            '\u{7f}'.. if ensure_ascii => "",
            _ => continue,
        };
        out.push_part(text, plain..at)?;
        plain = at + ch.len_utf8();
        if !escape.is_empty() {
            out.push(escape)?;
            continue;
        }
        for unit in ch.encode_utf16(&mut [0; 2]) {
            out.push(&format!("\\u{unit:04x}"))?;
        }
    }
    out.push_part(text, plain..text.len())?;
    out.push("\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::jinja::budget::Limits;

    #[test]
    fn floats_are_pythons() {
        for (float, text) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-0.0, "-0.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float_text(float), text);
        }
    }

    #[test]
    fn strings_are_quoted_as_python_does() {
        let mut budget = Budget::new(Limits::default());
        for (text, expected) in
            [("a'b", r#""a'b""#), ("a\"b", r#"'a"b'"#), ("a'\"b", r#"'a\'"b'"#), ("\n\\é\u{1}", r"'\n\\é\x01'")]
        {
            let mut out = Builder::new(&mut budget);
            repr(&Value::own(text), &mut out).unwrap();
            assert_eq!(&*out.finish(), expected);
        }
    }
}
