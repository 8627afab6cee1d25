//! Methods of Python's strings, lists and dicts.

use super::arguments::Arguments;
use super::budget::Budget;
use super::compare;
use super::error::Fault;
use super::marks::Text;
use super::run::Run;
use super::text::{self, Ends};
use super::value::{List, Loop, Value};

pub(super) fn call(run: &mut Run, object: &Value, method: &str, args: Arguments) -> Result<Value, Fault> {
    let budget = &mut run.budget;
    let found = match object {
        Value::Undefined(name) => {
            return Fault::new(format!("{name} is undefined, so it has no method {method:?}"));
        }
        Value::Str(text) => string(text, method, args, budget)?,
        Value::List(_) => list(object, method, args, budget)?,
        Value::Map(_) => dict(object, method, args, budget)?,
        Value::Loop(state) => loop_method(state, method, args, budget)?,
        _ => None,
    };
    found.map_or_else(|| Fault::new(format!("a {} has no method {method:?}", object.type_name())), Ok)
}

fn string(text: &Text, method: &str, args: Arguments, budget: &mut Budget) -> Result<Option<Value>, Fault> {
    budget.read(text.len())?;
    let ends = match method.as_bytes().first() {
        Some(b'l') => Ends::Left,
        Some(b'r') => Ends::Right,
        _ => Ends::Both,
    };
    Ok(Some(match method {
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = args.bind(method, ["chars"])?;
            let chars = optional_text(&chars, method)?.map(|chars| &**chars);
            Value::part(text, text::strip(text, chars, ends), budget)?
        }
        "upper" | "lower" | "title" | "capitalize" | "casefold" | "swapcase" => {
            let [] = args.bind(method, [])?;
            let changed = match method {
                "upper" => text.to_uppercase(),
                "title" => text::title(text, char::is_alphabetic),
                "capitalize" => text::capitalize(text),
                "swapcase" => text.chars().map(swap_case).collect(),
                _ => text.to_lowercase(),
            };
            Value::string(text.made(changed), budget)?
        }
        "startswith" | "endswith" => {
            let [part] = args.bind(method, ["part"])?;
            let at_start = method == "startswith";
            let fits = |part: &str| {
                if at_start { text.starts_with(part) } else { text.ends_with(part) }
            };
            match part {
                Some(Value::Str(part)) => Value::Bool(fits(&part)),
                Some(Value::List(parts)) if parts.is_tuple => {
                    budget.steps(parts.items.len())?;
                    let mut parts = parts.items.iter().filter_map(Value::as_str);
                    Value::Bool(parts.any(fits))
                }
                _ => return Fault::new(format!("{method} needs a string or a tuple of strings")),
            }
        }
        "split" => {
            let [separator, count] = args.bind(method, ["sep", "maxsplit"])?;
            let separator = optional_text(&separator, method)?.map(|separator| &**separator);
            let pieces = text::split(text, separator, optional_int(&count, method)?, budget)?;
            Value::list(pieces, budget)?
        }
        "rsplit" => {
            let [separator, count] = args.bind(method, ["sep", "maxsplit"])?;
            let count = optional_int(&count, method)?;
            let pieces = match optional_text(&separator, method)? {
                Some(separator) => text::rsplit(text, separator, count, budget)?,
                None if count.is_none_or(|count| count < 0) => text::split(text, None, None, budget)?,
                None => return Fault::new("rsplit with a count needs a separator"),
            };
            Value::list(pieces, budget)?
        }
        "splitlines" => {
            let [keep] = args.bind(method, ["keepends"])?;
            let keep = keep.is_some_and(|keep| keep.is_true());
            let lines = text::split_lines(text, keep, budget)?;
            Value::list(lines, budget)?
        }
        "partition" | "rpartition" => {
            let [separator] = args.bind(method, ["sep"])?;
            let separator = needed_text(&separator, method)?;
            let first = method == "partition";
            let found = if first { text.find(&**separator) } else { text.rfind(&**separator) };
            let (start, end) = match found {
                Some(at) => (at, at + separator.len()),
                None if first => (text.len(), text.len()),
                None => (0, 0),
            };
            let parts = [0..start, start..end, end..text.len()].map(|part| Value::part(text, part, budget));
            let parts = parts.into_iter().collect::<Result<_, _>>()?;
            Value::tuple(parts, budget)?
        }
        "replace" => {
            let [old, new, count] = args.bind(method, ["old", "new", "count"])?;
            let (old, new) = (needed_text(&old, method)?, needed_text(&new, method)?);
            text::replace(text, old, new, optional_int(&count, method)?, budget)?
        }
        "removeprefix" | "removesuffix" => {
            let [part] = args.bind(method, ["part"])?;
            let part = needed_text(&part, method)?;
            let rest = if method == "removeprefix" {
                text.strip_prefix(&**part).map(|rest| text.len() - rest.len()..text.len())
            } else {
                text.strip_suffix(&**part).map(|rest| 0..rest.len())
            };
            Value::part(text, rest.unwrap_or(0..text.len()), budget)?
        }
        "find" | "rfind" | "index" | "rindex" => {
            let [part] = args.bind(method, ["part"])?;
            let part = needed_text(&part, method)?;
            let found = if method.starts_with('r') { text.rfind(&**part) } else { text.find(&**part) };
            match found {
                Some(at) => Value::Int(text[..at].chars().count() as i64),
                None if method.ends_with("find") => Value::Int(-1),
                None => return Fault::new("the substring is not there"),
            }
        }
        "count" => {
            let [part] = args.bind(method, ["part"])?;
            Value::Int(text.matches(&**needed_text(&part, method)?).count() as i64)
        }
        "join" => {
            let [items] = args.bind(method, ["items"])?;
            let items = items.unwrap_or(Value::None).items(budget)?;
            if let Some(other) = items.items.iter().find(|item| item.as_str().is_none()) {
                return Fault::new(format!("join needs strings, not a {}", other.type_name()));
            }
            join(&items, text, budget)?
        }
        "ljust" | "rjust" | "center" => {
            let [width, fill] = args.bind(method, ["width", "fillchar"])?;
            let width = optional_int(&width, method)?.unwrap_or(0);
            let blank = Text::own(" ");
            let fill = optional_text(&fill, method)?.unwrap_or(&blank);
            // Text that is adjusted to the left is filled on the right.
            let ends = match method {
                "ljust" => Ends::Right,
                "rjust" => Ends::Left,
                _ => Ends::Both,
            };
            text::pad(text, width, fill, ends, budget)?
        }
        "zfill" => {
            let [width] = args.bind(method, ["width"])?;
            let width = optional_int(&width, method)?.unwrap_or(0);
            text::pad(text, width, &Text::own("0"), Ends::Left, budget)?
        }
        "format" => format(text, args, budget)?,
        "isdigit" | "isnumeric" | "isdecimal" => all(text, char::is_numeric),
        "isalpha" => all(text, char::is_alphabetic),
        "isalnum" => all(text, char::is_alphanumeric),
        "isspace" => all(text, text::is_space),
        "isascii" => Value::Bool(text.is_ascii()),
        "isupper" => Value::Bool(is_cased(text, char::is_uppercase, char::is_lowercase)),
        "islower" => Value::Bool(is_cased(text, char::is_lowercase, char::is_uppercase)),
        _ => return Ok(None),
    }))
}

fn swap_case(ch: char) -> char {
    let mut swapped = if ch.is_uppercase() { ch.to_lowercase().to_string() } else { ch.to_uppercase().to_string() };
    // The few that become two letters stay.
    if swapped.chars().count() == 1 { swapped.pop().unwrap_or(ch) } else { ch }
}

fn all(text: &str, holds: fn(char) -> bool) -> Value {
    Value::Bool(!text.is_empty() && text.chars().all(holds))
}

pub(super) fn is_cased(text: &str, wanted: fn(char) -> bool, other: fn(char) -> bool) -> bool {
    text.chars().any(wanted) && !text.chars().any(other)
}

fn optional_text<'v>(value: &'v Option<Value>, method: &str) -> Result<Option<&'v Text>, Fault> {
    match value {
        None | Some(Value::None) => Ok(None),
        Some(Value::Str(text)) => Ok(Some(text)),
        Some(other) => Fault::new(format!("{method} needs a string, not a {}", other.type_name())),
    }
}

fn needed_text<'v>(value: &'v Option<Value>, method: &str) -> Result<&'v Text, Fault> {
    match optional_text(value, method)? {
        Some(text) => Ok(text),
        None => Fault::new(format!("{method} needs a string")),
    }
}

fn optional_int(value: &Option<Value>, method: &str) -> Result<Option<i64>, Fault> {
    match value {
        None | Some(Value::None) => Ok(None),
        Some(value) => match value.as_int() {
            Some(int) => Ok(Some(int)),
            None => Fault::new(format!("{method} needs a number, not a {}", value.type_name())),
        },
    }
}

/// The items of a list as text, with `separator` between.
pub(super) fn join(items: &List, separator: &Text, budget: &mut Budget) -> Result<Value, Fault> {
    let mut out = super::budget::Builder::new(budget);
    for (i, item) in items.items.iter().enumerate() {
        if i > 0 {
            out.push_text(separator)?;
        }
        super::print::print(item, &mut out)?;
    }
    Ok(Value::Str(out.finish()))
}

/// `'{} and {name}'.format(…)`, without format specifications.
fn format(text: &Text, args: Arguments, budget: &mut Budget) -> Result<Value, Fault> {
    let mut out = super::budget::Builder::new(budget);
    let mut rest = &**text;
    let mut next = 0;
    while let Some(at) = rest.find(['{', '}']) {
        let from = text.len() - rest.len();
        out.push_part(text, from..from + at)?;
        let (brace, after) = rest[at..].split_at(1);
        if after.starts_with(brace) {
            out.push_part(text, from + at..from + at + 1)?;
            rest = &after[1..];
            continue;
        }
        let Some((field, after)) = after.split_once('}').filter(|_| brace == "{") else {
            return Fault::new("a format has a brace without its partner");
        };
        rest = after;
        let value = if field.is_empty() {
            next += 1;
            args.positional.get(next - 1)
        } else if let Ok(place) = field.parse::<usize>() {
            args.positional.get(place)
        } else {
            let mut named = args.named.iter();
            named.find(|(name, _)| **name == *field).map(|(_, v)| v)
        };
        match value {
            Some(value) => super::print::print(value, &mut out)?,
            None => return Fault::new(format!("a format has no argument for {{{field}}}")),
        }
    }
    out.push_part(text, text.len() - rest.len()..text.len())?;
    Ok(Value::Str(out.finish()))
}

fn list(list: &Value, method: &str, args: Arguments, budget: &mut Budget) -> Result<Option<Value>, Fault> {
    let items = list.items(budget)?;
    let wanted = |args: Arguments| -> Result<Value, Fault> {
        let [value] = args.bind(method, ["value"])?;
        Ok(value.unwrap_or(Value::None))
    };
    Ok(Some(match method {
        "count" => {
            let wanted = wanted(args)?;
            let mut count = 0;
            for item in &items.items {
                count += i64::from(compare::equal(item, &wanted, budget)?);
            }
            Value::Int(count)
        }
        "index" => {
            let wanted = wanted(args)?;
            for (i, item) in items.items.iter().enumerate() {
                if compare::equal(item, &wanted, budget)? {
                    return Ok(Some(Value::Int(i as i64)));
                }
            }
            return Fault::new("the value is not in the list");
        }
        "copy" => list.clone(),
        "append" | "extend" | "insert" | "pop" | "remove" | "clear" | "sort" | "reverse" => {
            return Fault::new(format!("templates cannot change a list with {method:?}"));
        }
        _ => return Ok(None),
    }))
}

fn dict(dict: &Value, method: &str, args: Arguments, budget: &mut Budget) -> Result<Option<Value>, Fault> {
    Ok(Some(match method {
        "get" => {
            let [key, default] = args.bind(method, ["key", "default"])?;
            let found = dict.entry(&key.unwrap_or(Value::None), budget)?;
            found.or(default).unwrap_or(Value::None)
        }
        "items" => {
            let [] = args.bind(method, [])?;
            pairs(dict, budget)?
        }
        "keys" => {
            let [] = args.bind(method, [])?;
            let keys = dict.items(budget)?;
            Value::list(keys.items.clone(), budget)?
        }
        "values" => {
            let [] = args.bind(method, [])?;
            let Value::Map(map) = dict else {
                return Ok(None);
            };
            let values = map.entries.iter().map(|(_, value)| value.clone());
            Value::list(values.collect(), budget)?
        }
        "copy" => dict.clone(),
        "pop" | "popitem" | "update" | "setdefault" | "clear" => {
            return Fault::new(format!("templates cannot change a mapping with {method:?}"));
        }
        // A key that holds something to call.
        _ => match dict.named(method) {
            Some(_) => return Fault::new(format!("the entry {method:?} cannot be called")),
            None => return Ok(None),
        },
    }))
}

/// The entries of a mapping as pairs.
pub(super) fn pairs(dict: &Value, budget: &mut Budget) -> Result<Value, Fault> {
    let Value::Map(map) = dict else {
        return Fault::new(format!("a {} has no entries", dict.type_name()));
    };
    let mut pairs = Vec::with_capacity(map.entries.len());
    for (key, value) in &map.entries {
        pairs.push(Value::tuple(vec![key.clone(), value.clone()], budget)?);
    }
    Value::list(pairs, budget)
}

fn loop_method(state: &Loop, method: &str, args: Arguments, budget: &mut Budget) -> Result<Option<Value>, Fault> {
    match method {
        "cycle" => match args.positional.len() {
            0 => Fault::new("loop.cycle needs something to cycle through"),
            count => Ok(Some(args.positional[state.index % count].clone())),
        },
        "changed" => {
            let now = Value::tuple(args.positional, budget)?;
            let before = state.seen.borrow_mut().replace(now.clone());
            let same = match before {
                Some(before) => compare::equal(&before, &now, budget)?,
                None => false,
            };
            Ok(Some(Value::Bool(!same)))
        }
        _ => Fault::new(format!("loop has no method {method:?}")),
    }
}
