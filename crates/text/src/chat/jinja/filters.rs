//! Filters: `value|name(args)`.

use super::access;
use super::arguments::Arguments;
use super::ast::Binary;
use super::budget::{Budget, Builder};
use super::compare::{self, sort_by_key};
use super::error::Fault;
use super::marks::Text;
use super::methods::{join, pairs};
use super::print::{JsonStyle, json, to_text};
use super::run::Run;
use super::text::{self, Ends};
use super::value::Value;
use super::{arithmetic, checks, printf};

pub(super) fn apply(run: &mut Run, name: &str, value: Value, args: Arguments) -> Result<Value, Fault> {
    if let Some(result) = of_text(run, name, &value, &args)? {
        return Ok(result);
    }
    match name {
        "default" | "d" => {
            let [default, for_false] = args.bind(name, ["default_value", "boolean"])?;
            let for_false = for_false.is_some_and(|flag| flag.is_true());
            let missing = matches!(value, Value::Undefined(_)) || for_false && !value.is_true();
            let default = default.unwrap_or_else(|| Value::own(""));
            Ok(if missing { default } else { value })
        }
        "tojson" => tojson(run, &value, args),
        "length" | "count" => length(&value),
        "first" | "last" => {
            let items = value.items(&mut run.budget)?;
            let item = match name {
                "first" => items.items.first(),
                _ => items.items.last(),
            };
            Ok(item.cloned().unwrap_or_else(|| Value::undefined("the item of an empty list")))
        }
        "join" => {
            let [separator, attribute] = args.bind(name, ["d", "attribute"])?;
            let items = match attribute {
                Some(attribute) => {
                    let items = mapped_by_attribute(run, &value, &attribute, None)?;
                    Value::list(items, &mut run.budget)?
                }
                None => value,
            };
            let separator = to_text(&separator.unwrap_or_else(|| Value::own("")), &mut run.budget)?;
            let items = items.items(&mut run.budget)?;
            join(&items, &separator, &mut run.budget)
        }
        "list" => {
            let items = value.items(&mut run.budget)?;
            Value::list(items.items.clone(), &mut run.budget)
        }
        "items" => match value {
            Value::Undefined(_) => Value::list(vec![], &mut run.budget),
            value => pairs(&value, &mut run.budget),
        },
        "dictsort" => dictsort(run, &value, args),
        "reverse" => {
            if let Value::Str(text) = &value {
                return Value::string(text.made(text.chars().rev().collect()), &mut run.budget);
            }
            let items = value.items(&mut run.budget)?;
            let reversed = items.items.iter().rev().cloned();
            Value::list(reversed.collect(), &mut run.budget)
        }
        "sort" | "unique" | "min" | "max" | "sum" => ordered(run, name, &value, args),
        // What is nothing has no items to Jinja2 here, and here only.
        "map" | "select" | "reject" | "selectattr" | "rejectattr" if !value.is_true() => {
            Value::list(vec![], &mut run.budget)
        }
        "map" => map(run, &value, args),
        "select" | "reject" => select(run, name == "select", &value, None, args),
        "selectattr" | "rejectattr" => {
            let mut args = args;
            if args.positional.is_empty() {
                return Fault::new(format!("{name} needs an attribute"));
            }
            let attribute = args.positional.remove(0);
            select(run, name == "selectattr", &value, Some(attribute), args)
        }
        "batch" => batch(run, &value, args),
        "abs" => match &value {
            Value::Float(float) => Ok(Value::Float(float.abs())),
            other => match other.as_int().and_then(i64::checked_abs) {
                Some(int) => Ok(Value::Int(int)),
                None => Fault::new(format!("a {} has no absolute value", other.type_name())),
            },
        },
        "int" => {
            let [default] = args.bind(name, ["default"])?;
            let text = value.as_str().map(str::trim);
            let parsed = text.and_then(|t| t.parse().ok().or(t.parse::<f64>().ok().map(|f| f as i64)));
            let int = value.as_int().or(value.as_float().map(|f| f as i64)).or(parsed);
            Ok(int.map_or_else(|| default.unwrap_or(Value::Int(0)), Value::Int))
        }
        "float" => {
            let [default] = args.bind(name, ["default"])?;
            let parsed = value.as_str().and_then(|text| text.trim().parse().ok());
            let float = value.as_float().or(parsed);
            Ok(float.map_or_else(|| default.unwrap_or(Value::Float(0.0)), Value::Float))
        }
        "round" => {
            let [precision, _method] = args.bind(name, ["precision", "method"])?;
            let precision = precision.and_then(|p| p.as_int()).unwrap_or(0);
            let Some(float) = value.as_float() else {
                return Fault::new(format!("a {} cannot be rounded", value.type_name()));
            };
            if value.as_int().is_some() && precision >= 0 {
                return Ok(value);
            }
            let scale = 10f64.powi(precision.clamp(-300, 300) as i32);
            Ok(Value::Float((float * scale).round_ties_even() / scale))
        }
        "attr" => {
            let [attribute] = args.bind(name, ["name"])?;
            let attribute = to_text(&attribute.unwrap_or(Value::None), &mut run.budget)?;
            access::attribute(&value, &attribute, &mut run.budget)
        }
        _ => Fault::new(format!("there is no filter {name:?}")),
    }
}

/// The filters that work on the text of a value.
fn of_text(run: &mut Run, name: &str, value: &Value, args: &Arguments) -> Result<Option<Value>, Fault> {
    let is_one = matches!(
        name,
        "string"
            | "safe"
            | "trim"
            | "upper"
            | "lower"
            | "capitalize"
            | "title"
            | "replace"
            | "indent"
            | "center"
            | "escape"
            | "e"
            | "format"
            | "wordcount"
    );
    if !is_one {
        return Ok(None);
    }
    let args = Arguments { positional: args.positional.clone(), named: args.named.clone() };
    let text = to_text(value, &mut run.budget)?;
    let budget = &mut run.budget;
    Ok(Some(match name {
        "string" | "safe" => Value::Str(text),
        "trim" => {
            let [chars] = args.bind(name, ["chars"])?;
            let chars = chars.as_ref().and_then(Value::as_str);
            Value::part(&text, text::strip(&text, chars, Ends::Both), budget)?
        }
        "upper" => Value::string(text.made(text.to_uppercase()), budget)?,
        "lower" => Value::string(text.made(text.to_lowercase()), budget)?,
        "capitalize" => Value::string(text.made(text::capitalize(&text)), budget)?,
        "title" => {
            let in_word = |ch: char| !ch.is_whitespace() && !"-({[<".contains(ch);
            Value::string(text.made(text::title(&text, in_word)), budget)?
        }
        "replace" => {
            let [old, new, count] = args.bind(name, ["s", "new", "count"])?;
            let [Some(old), Some(new)] = [old, new] else {
                return Fault::new("replace needs what to replace and what with");
            };
            let (old, new) = (to_text(&old, budget)?, to_text(&new, budget)?);
            let count = count.and_then(|count| count.as_int());
            text::replace(&text, &old, &new, count, budget)?
        }
        "indent" => indent(&text, args, budget)?,
        "center" => {
            let [width] = args.bind(name, ["width"])?;
            let width = width.and_then(|width| width.as_int()).unwrap_or(80);
            text::pad(&text, width, &Text::own(" "), Ends::Both, budget)?
        }
        "escape" | "e" => {
            let mut out = Builder::new(budget);
            for (at, ch) in text.char_indices() {
                match ch {
                    '&' => out.push("&amp;")?,
                    '<' => out.push("&lt;")?,
                    '>' => out.push("&gt;")?,
                    '"' => out.push("&#34;")?,
                    '\'' => out.push("&#39;")?,
                    ch => out.push_part(&text, at..at + ch.len_utf8())?,
                }
            }
            if text.has_data() {
                out.spread(0);
            }
            Value::Str(out.finish())
        }
        "format" => {
            let values = Value::tuple(args.positional, budget)?;
            printf::percent_format(&text, &values, budget)?
        }
        _ => Value::Int(text.split_whitespace().count() as i64),
    }))
}

fn length(value: &Value) -> Result<Value, Fault> {
    let length = match value {
        Value::Str(text) => text.chars().count(),
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.entries.len(),
        Value::Undefined(_) => 0,
        other => return Fault::new(format!("a {} has no length", other.type_name())),
    };
    Ok(Value::Int(length as i64))
}

fn tojson(run: &mut Run, value: &Value, args: Arguments) -> Result<Value, Fault> {
    let params = ["indent", "ensure_ascii", "separators", "sort_keys"];
    let [indent, ensure_ascii, separators, sort_keys] = args.bind("tojson", params)?;
    let flag = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let indent = match indent {
        None | Some(Value::None) => None,
        Some(indent) => match indent.as_int() {
            Some(indent) => Some(usize::try_from(indent).unwrap_or(0)),
            None => return Fault::new("tojson needs a number to indent by"),
        },
    };
    let mut style = JsonStyle {
        indent,
        ensure_ascii: flag(ensure_ascii),
        sort_keys: flag(sort_keys),
        item_separator: Text::own(if indent.is_some() { "," } else { ", " }),
        key_separator: Text::own(": "),
    };
    if let Some(separators) = separators.filter(|s| !matches!(s, Value::None)) {
        let separators = separators.items(&mut run.budget)?;
        let [Value::Str(item), Value::Str(key)] = &separators.items[..] else {
            return Fault::new("tojson needs two separators");
        };
        style.item_separator = item.clone();
        style.key_separator = key.clone();
    }
    let mut out = Builder::new(&mut run.budget);
    json(value, &style, 0, &mut out)?;
    Ok(Value::Str(out.finish()))
}

fn indent(text: &Text, args: Arguments, budget: &mut Budget) -> Result<Value, Fault> {
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"])?;
    let flag = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let (first, blank) = (flag(first), flag(blank));
    let margin = match width {
        Some(Value::Str(margin)) => margin,
        width => {
            let width = width.map_or(Some(4), |width| width.as_int()).unwrap_or(4);
            let width = usize::try_from(width).unwrap_or(0);
            let mut margin = Builder::new(budget);
            margin.repeat(&Text::own(" "), width)?;
            margin.finish()
        }
    };
    let mut out = Builder::new(budget);
    // As Jinja2 does it: an ending newline starts a last, empty line.
    let lines = text::lines(text).map(|(line, _)| line);
    let ended = text.ends_with('\n') || text.is_empty();
    for (i, line) in lines.chain(ended.then_some(0..0)).enumerate() {
        if i > 0 {
            out.push("\n")?;
        }
        if (i > 0 || first) && (blank || !line.is_empty()) {
            out.push_text(&margin)?;
        }
        out.push_part(text, line)?;
    }
    Ok(Value::Str(out.finish()))
}

/// The attribute `path`, such as `function.name`, of a value.
fn by_path(value: &Value, path: &str, budget: &mut Budget) -> Result<Value, Fault> {
    let mut value = value.clone();
    for part in path.split('.') {
        value = match part.parse() {
            Ok(index) => access::item(&value, &Value::Int(index), budget)?,
            Err(_) => access::item(&value, &Value::own(part), budget)?,
        };
    }
    Ok(value)
}

fn attribute_of(run: &mut Run, item: &Value, attribute: &Value) -> Result<Value, Fault> {
    match attribute {
        Value::Str(path) => by_path(item, path, &mut run.budget),
        index => access::item(item, index, &mut run.budget),
    }
}

fn mapped_by_attribute(
    run: &mut Run,
    value: &Value,
    attribute: &Value,
    default: Option<&Value>,
) -> Result<Vec<Value>, Fault> {
    let items = value.items(&mut run.budget)?;
    let mut out = Vec::with_capacity(items.items.len());
    for item in &items.items {
        let found = attribute_of(run, item, attribute)?;
        out.push(match (found, default) {
            (Value::Undefined(_), Some(default)) => default.clone(),
            (found, _) => found,
        });
    }
    Ok(out)
}

fn map(run: &mut Run, value: &Value, mut args: Arguments) -> Result<Value, Fault> {
    if args.positional.is_empty() {
        let [attribute, default] = args.bind("map", ["attribute", "default"])?;
        let Some(attribute) = attribute else {
            return Fault::new("map needs a filter or an attribute");
        };
        let items = mapped_by_attribute(run, value, &attribute, default.as_ref())?;
        return Value::list(items, &mut run.budget);
    }
    let filter = to_text(&args.positional.remove(0), &mut run.budget)?;
    let items = value.items(&mut run.budget)?;
    let mut out = Vec::with_capacity(items.items.len());
    // A filter may map in turn, with its name as the next argument.
    run.enter()?;
    for item in &items.items {
        run.budget.step()?;
        let args = Arguments { positional: args.positional.clone(), named: args.named.clone() };
        out.push(apply(run, &filter, item.clone(), args)?);
    }
    run.leave();
    Value::list(out, &mut run.budget)
}

/// `select`, `reject` and their kin with an attribute.
fn select(
    run: &mut Run,
    keeps: bool,
    value: &Value,
    attribute: Option<Value>,
    mut args: Arguments,
) -> Result<Value, Fault> {
    let test =
        if args.positional.is_empty() { None } else { Some(to_text(&args.positional.remove(0), &mut run.budget)?) };
    let items = value.items(&mut run.budget)?;
    let mut kept = vec![];
    for item in &items.items {
        run.budget.step()?;
        let tested = match &attribute {
            Some(attribute) => attribute_of(run, item, attribute)?,
            None => item.clone(),
        };
        let holds = match &test {
            None => tested.is_true(),
            Some(test) => {
                let args = Arguments { positional: args.positional.clone(), named: args.named.clone() };
                // Operators are tests too.
                let test = match &**test {
                    "==" => "eq",
                    "!=" => "ne",
                    "<" => "lt",
                    "<=" => "le",
                    ">" => "gt",
                    ">=" => "ge",
                    name => name,
                };
                checks::check(run, test, &tested, args)?
            }
        };
        if holds == keeps {
            kept.push(item.clone());
        }
    }
    Value::list(kept, &mut run.budget)
}

/// `sort`, `unique`, `min`, `max` and `sum`.
fn ordered(run: &mut Run, name: &str, value: &Value, args: Arguments) -> Result<Value, Fault> {
    let (attribute, reverse, case_sensitive, start) = match name {
        "sort" => {
            let params = ["reverse", "case_sensitive", "attribute"];
            let [reverse, case, attribute] = args.bind(name, params)?;
            (attribute, reverse, case, None)
        }
        "sum" => {
            let [attribute, start] = args.bind(name, ["attribute", "start"])?;
            (attribute, None, None, start)
        }
        _ => {
            let [case, attribute] = args.bind(name, ["case_sensitive", "attribute"])?;
            (attribute, None, case, None)
        }
    };
    let flag = |value: &Option<Value>| value.as_ref().is_some_and(Value::is_true);
    let items = value.items(&mut run.budget)?;
    let mut keyed = Vec::with_capacity(items.items.len());
    for item in &items.items {
        let key = match &attribute {
            Some(attribute) => attribute_of(run, item, attribute)?,
            None => item.clone(),
        };
        let key = match &key {
            Value::Str(text) if !flag(&case_sensitive) && name != "sum" => {
                Value::string(text.made(text.to_lowercase()), &mut run.budget)?
            }
            _ => key,
        };
        keyed.push((key, item.clone()));
    }
    match name {
        "sum" => {
            let mut sum = start.unwrap_or(Value::Int(0));
            for (value, _) in keyed {
                sum = arithmetic::binary(Binary::Add, &sum, &value, &mut run.budget)?;
            }
            Ok(sum)
        }
        "unique" => {
            let mut kept: Vec<(Value, Value)> = vec![];
            'items: for (key, item) in keyed {
                for (other, _) in &kept {
                    if compare::equal(&key, other, &mut run.budget)? {
                        continue 'items;
                    }
                }
                kept.push((key, item));
            }
            let kept = kept.into_iter().map(|(_, item)| item);
            Value::list(kept.collect(), &mut run.budget)
        }
        "sort" => {
            let sorted = sort_by_key(keyed, flag(&reverse), &mut run.budget)?;
            let sorted = sorted.into_iter().map(|(_, item)| item);
            Value::list(sorted.collect(), &mut run.budget)
        }
        _ => {
            let sorted = sort_by_key(keyed, name == "max", &mut run.budget)?;
            let first = sorted.into_iter().next().map(|(_, item)| item);
            Ok(first.unwrap_or_else(|| Value::undefined("the item of an empty list")))
        }
    }
}

fn dictsort(run: &mut Run, value: &Value, args: Arguments) -> Result<Value, Fault> {
    let [case, by, reverse] = args.bind("dictsort", ["case_sensitive", "by", "reverse"])?;
    let by_value = by.as_ref().and_then(Value::as_str) == Some("value");
    let case_sensitive = case.is_some_and(|case| case.is_true());
    let pairs = pairs(value, &mut run.budget)?.items(&mut run.budget)?;
    let mut keyed = vec![];
    for pair in &pairs.items {
        let parts = pair.items(&mut run.budget)?;
        let key = match &parts.items[usize::from(by_value)] {
            Value::Str(text) if !case_sensitive => Value::string(text.made(text.to_lowercase()), &mut run.budget)?,
            key => key.clone(),
        };
        keyed.push((key, pair.clone()));
    }
    let reverse = reverse.is_some_and(|reverse| reverse.is_true());
    let sorted = sort_by_key(keyed, reverse, &mut run.budget)?;
    let sorted = sorted.into_iter().map(|(_, pair)| pair);
    Value::list(sorted.collect(), &mut run.budget)
}

fn batch(run: &mut Run, value: &Value, args: Arguments) -> Result<Value, Fault> {
    let [size, fill] = args.bind("batch", ["linecount", "fill_with"])?;
    let size = size.and_then(|size| size.as_int()).unwrap_or(0);
    let Ok(size @ 1..) = usize::try_from(size) else {
        return Fault::new("batch needs a size");
    };
    let items = value.items(&mut run.budget)?;
    let mut batches = vec![];
    for chunk in items.items.chunks(size) {
        let mut chunk = chunk.to_vec();
        if let Some(fill) = fill.as_ref().filter(|fill| !matches!(fill, Value::None)) {
            run.budget.make(size.saturating_mul(std::mem::size_of::<Value>()))?;
            chunk.resize(size, fill.clone());
        }
        batches.push(Value::list(chunk, &mut run.budget)?);
    }
    Value::list(batches, &mut run.budget)
}
