//! Attributes, items and slices.

use super::budget::Budget;
use super::error::Fault;
use super::value::{Loop, Value};

/// Methods of Python's dict: they hide keys of the same name from `.name`, not from `['name']`.
const DICT_METHODS: [&str; 8] = ["items", "keys", "values", "get", "copy", "pop", "update", "setdefault"];

/// `object.name`
pub(super) fn attribute(object: &Value, name: &str, budget: &mut Budget) -> Result<Value, Fault> {
    match object {
        Value::Undefined(what) => Fault::new(format!("{what} is undefined, so it has no {name:?}")),
        Value::Map(_) if DICT_METHODS.contains(&name) => Ok(Value::Method),
        Value::Map(map) => {
            budget.steps(map.entries.len() / 8)?;
            let found = object.named(name).cloned();
            Ok(found.unwrap_or_else(|| Value::undefined(name)))
        }
        Value::Namespace(entries) => {
            let entries = entries.borrow();
            let found = entries.iter().find(|(other, _)| &**other == name);
            Ok(found.map_or_else(|| Value::undefined(name), |(_, value)| value.clone()))
        }
        Value::Loop(state) => Ok(loop_attribute(state, name)),
        _ => Ok(Value::undefined(name)),
    }
}

fn loop_attribute(state: &Loop, name: &str) -> Value {
    let Loop { index, items, .. } = state;
    let items = &items.items;
    let count = items.len();
    let neighbour = |at: Option<usize>| {
        let item = at.and_then(|at| items.get(at)).cloned();
        item.unwrap_or_else(|| Value::undefined(name))
    };
    match name {
        "index" => Value::Int(*index as i64 + 1),
        "index0" => Value::Int(*index as i64),
        "revindex" => Value::Int((count - index) as i64),
        "revindex0" => Value::Int((count - index) as i64 - 1),
        "first" => Value::Bool(*index == 0),
        "last" => Value::Bool(index + 1 == count),
        "length" => Value::Int(count as i64),
        "depth" => Value::Int(state.depth as i64),
        "depth0" => Value::Int(state.depth as i64 - 1),
        "previtem" => neighbour(index.checked_sub(1)),
        "nextitem" => neighbour(Some(index + 1)),
        _ => Value::undefined(name),
    }
}

/// `object[key]`
pub(super) fn item(object: &Value, key: &Value, budget: &mut Budget) -> Result<Value, Fault> {
    let missing = |budget: &mut Budget| {
        let name = super::print::to_text(key, budget)?;
        Ok(Value::undefined(&name))
    };
    match object {
        Value::Undefined(what) => Fault::new(format!("{what} is undefined, so it has no items")),
        Value::Map(_) => match object.entry(key, budget)? {
            Some(value) => Ok(value),
            None => missing(budget),
        },
        Value::List(list) => match key.as_int().and_then(|at| place(at, list.items.len())) {
            Some(at) => Ok(list.items[at].clone()),
            None => missing(budget),
        },
        Value::Str(text) => {
            let Some(at) = key.as_int() else {
                return missing(budget);
            };
            budget.read(text.len())?;
            let found = place(at, text.chars().count()).and_then(|at| text.char_indices().nth(at));
            match found {
                Some((at, ch)) => Value::part(text, at..at + ch.len_utf8(), budget),
                None => missing(budget),
            }
        }
        other => match key {
            Value::Str(name) => attribute(other, name, budget),
            _ => missing(budget),
        },
    }
}

/// Place of index `at`, where negative ones count from the end.
fn place(at: i64, count: usize) -> Option<usize> {
    let at = if at < 0 { at + count as i64 } else { at };
    usize::try_from(at).ok().filter(|&at| at < count)
}

/// `object[start:stop:step]`
pub(super) fn slice(object: &Value, bounds: [Option<i64>; 3], budget: &mut Budget) -> Result<Value, Fault> {
    match object {
        Value::List(list) => {
            let places = slice_places(bounds, list.items.len())?;
            let items = places.map(|at| list.items[at].clone()).collect();
            Value::sequence(items, list.is_tuple, budget)
        }
        Value::Str(text) => {
            // Four bytes a character while they lie spread out.
            budget.make(text.len().saturating_mul(4))?;
            let chars: Vec<char> = text.chars().collect();
            let places = slice_places(bounds, chars.len())?;
            if !matches!(bounds[2], None | Some(1)) {
                let taken = text.made(places.map(|at| chars[at]).collect());
                return Value::string(taken, budget);
            }
            let bytes = |chars: &[char]| chars.iter().map(|ch| ch.len_utf8()).sum::<usize>();
            let mut places = places;
            let Some(first) = places.next() else {
                return Ok(Value::own(""));
            };
            let last = places.last().unwrap_or(first);
            let start = bytes(&chars[..first]);
            Value::part(text, start..start + bytes(&chars[first..=last]), budget)
        }
        Value::Undefined(what) => Fault::new(format!("{what} is undefined and cannot be sliced")),
        other => Fault::new(format!("a {} cannot be sliced", other.type_name())),
    }
}

/// The places that a slice takes, in its order; by Python's rules.
fn slice_places([start, stop, step]: [Option<i64>; 3], count: usize) -> Result<impl Iterator<Item = usize>, Fault> {
    let step = step.unwrap_or(1);
    if step == 0 {
        return Fault::new("a slice cannot have a step of 0");
    }
    let count = count as i64;
    // Going down, the end before the first place is -1.
    let (low, high) = if step > 0 { (0, count) } else { (-1, count - 1) };
    let bound = |bound: Option<i64>, default: i64| match bound {
        None => default,
        Some(at) if at < 0 => at.saturating_add(count).clamp(low, high),
        Some(at) => at.clamp(low, high),
    };
    let (first, end) = if step > 0 { (low, high) } else { (high, low) };
    let (start, stop) = (bound(start, first), bound(stop, end));
    let distance = if step > 0 { stop - start } else { start - stop };
    let stride = step.unsigned_abs();
    let places = (distance.max(0) as u64).div_ceil(stride);
    Ok((0..places).map(move |i| (start + i as i64 * step) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_pythons() {
        let taken = |start, stop, step| {
            let places = slice_places([start, stop, step], 5).unwrap();
            places.collect::<Vec<_>>()
        };
        assert_eq!(taken(None, None, None), [0, 1, 2, 3, 4]);
        assert_eq!(taken(None, None, Some(-1)), [4, 3, 2, 1, 0]);
        assert_eq!(taken(Some(1), Some(-1), None), [1, 2, 3]);
        assert_eq!(taken(Some(-2), None, None), [3, 4]);
        assert_eq!(taken(Some(3), Some(1), Some(-1)), [3, 2]);
        assert_eq!(taken(Some(9), Some(-9), Some(-2)), [4, 2, 0]);
        assert_eq!(taken(Some(1), Some(9), Some(3)), [1, 4]);
        assert_eq!(taken(Some(3), Some(1), None), [0; 0]);
        assert_eq!(taken(Some(0), Some(5), Some(-1)), [0; 0]);
        let extremes = [i64::MIN, i64::MAX].map(Some);
        for step in extremes {
            for start in extremes {
                for stop in extremes {
                    slice_places([start, stop, step], 5).unwrap().count();
                    slice_places([start, stop, step], 0).unwrap().count();
                }
            }
        }
        assert!(slice_places([None, None, Some(0)], 5).is_err());
        assert_eq!(slice_places([None, None, Some(-1)], 0).unwrap().count(), 0);
    }
}
