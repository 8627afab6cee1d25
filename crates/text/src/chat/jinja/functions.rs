//! The functions that every template can call.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::arguments::Arguments;
use super::budget::Budget;
use super::compare::equal;
use super::error::Fault;
use super::marks::Text;
use super::print::to_text;
use super::run::Run;
use super::value::{Function, Value};

pub(super) fn named(name: &str) -> Option<Function> {
    Some(match name {
        "range" => Function::Range,
        "dict" => Function::Dict,
        "namespace" => Function::Namespace,
        "raise_exception" => Function::RaiseException,
        "strftime_now" => Function::StrftimeNow,
        _ => return None,
    })
}

pub(super) fn call(run: &mut Run, function: Function, args: Arguments) -> Result<Value, Fault> {
    match function {
        Function::Range => range(run, args),
        Function::Dict => {
            let mut entries = entries_of(run, &args.positional)?;
            for (name, value) in args.named {
                put(&mut entries, Value::Str(Text::own(name)), value, &mut run.budget)?;
            }
            Value::map(entries, &mut run.budget)
        }
        Function::Namespace => {
            let mut entries: Vec<(Arc<str>, Value)> = vec![];
            for (key, value) in entries_of(run, &args.positional)? {
                entries.push((Arc::from(&*to_text(&key, &mut run.budget)?), value));
            }
            entries.extend(args.named);
            if let Some((_, value)) = entries.iter().find(|(_, value)| !value.is_free()) {
                let kind = value.type_name();
                return Fault::new(format!("a namespace cannot hold a {kind} of this kind"));
            }
            run.budget.make(64 * (entries.len() + 1))?;
            Ok(Value::Namespace(Rc::new(RefCell::new(entries))))
        }
        Function::RaiseException => {
            let [message] = args.bind("raise_exception", ["message"])?;
            let message = message.unwrap_or_else(|| Value::own("no reason given"));
            Err(Fault::Raised(to_text(&message, &mut run.budget)?.to_string()))
        }
        Function::StrftimeNow => {
            let [format] = args.bind("strftime_now", ["format"])?;
            let Some(Value::Str(format)) = format else {
                return Fault::new("strftime_now needs a format");
            };
            let text = run.now.format(&format)?;
            Value::string(format.made(text), &mut run.budget)
        }
    }
}

/// The entries of the mapping that is the first argument, if there is one.
fn entries_of(run: &mut Run, args: &[Value]) -> Result<Vec<(Value, Value)>, Fault> {
    match args {
        [] => Ok(vec![]),
        [Value::Map(map)] => {
            run.budget.make(64 * map.entries.len())?;
            Ok(map.entries.clone())
        }
        [pairs @ Value::List(_)] => {
            let mut entries = vec![];
            for pair in &pairs.items(&mut run.budget)?.items {
                let pair = pair.items(&mut run.budget)?;
                let [key, value] = &pair.items[..] else {
                    return Fault::new("a mapping is made of pairs");
                };
                put(&mut entries, key.clone(), value.clone(), &mut run.budget)?;
            }
            Ok(entries)
        }
        _ => Fault::new("a mapping is made of another mapping, of pairs or of named values"),
    }
}

/// Sets the value of a key.
pub(super) fn put(
    entries: &mut Vec<(Value, Value)>,
    key: Value,
    value: Value,
    budget: &mut Budget,
) -> Result<(), Fault> {
    if !matches!(key, Value::Str(_) | Value::Int(_) | Value::Bool(_) | Value::None | Value::Float(_)) {
        return Fault::new(format!("a {} cannot be a key", key.type_name()));
    }
    for (other, slot) in entries.iter_mut() {
        if equal(other, &key, budget)? {
            *slot = value;
            return Ok(());
        }
    }
    entries.push((key, value));
    Ok(())
}

fn range(run: &mut Run, args: Arguments) -> Result<Value, Fault> {
    let [a, b, step] = args.bind("range", ["start", "stop", "step"])?;
    let int = |value: Option<Value>, default: i64| match value {
        None => Ok(default),
        Some(value) => match value.as_int() {
            Some(int) => Ok(int),
            None => Fault::new(format!("a range has no {}", value.type_name())),
        },
    };
    let (start, stop) = if b.is_some() { (int(a, 0)?, int(b, 0)?) } else { (0, int(a, 0)?) };
    let step = int(step, 1)?;
    if step == 0 {
        return Fault::new("a range cannot have a step of 0");
    }
    let distance = if step > 0 { i128::from(stop) - i128::from(start) } else { i128::from(start) - i128::from(stop) };
    let stride = i128::from(step.unsigned_abs());
    let count = (distance.max(0) + stride - 1) / stride;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    run.budget.make(count.saturating_mul(std::mem::size_of::<Value>()))?;
    let items = (0..count).map(|i| Value::Int(start + i as i64 * step));
    Value::list(items.collect(), &mut run.budget)
}
