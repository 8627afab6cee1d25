//! Equality, order, membership, and what is found by them.

use std::cmp::Ordering;

use super::ast::Comparison;
use super::budget::Budget;
use super::error::Fault;
use super::value::Value;

pub(super) fn equal(a: &Value, b: &Value, budget: &mut Budget) -> Result<bool, Fault> {
    budget.step()?;
    Ok(match (a, b) {
        (Value::Undefined(_), Value::Undefined(_)) | (Value::None, Value::None) => true,
        (Value::Str(a), Value::Str(b)) => {
            budget.read(a.len().min(b.len()))?;
            **a == **b
        }
        (Value::List(a), Value::List(b)) => {
            if a.items.len() != b.items.len() || a.is_tuple != b.is_tuple {
                return Ok(false);
            }
            for (a, b) in a.items.iter().zip(&b.items) {
                if !equal(a, b, budget)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(left), Value::Map(right)) => {
            if left.entries.len() != right.entries.len() {
                return Ok(false);
            }
            for (key, value) in &left.entries {
                match b.entry(key, budget)? {
                    Some(other) if equal(value, &other, budget)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Function(a), Value::Function(b)) => a == b,
        (Value::Namespace(a), Value::Namespace(b)) => std::rc::Rc::ptr_eq(a, b),
        _ => numbers(a, b) == Some(Ordering::Equal),
    })
}

fn numbers(a: &Value, b: &Value) -> Option<Ordering> {
    match (a.as_int(), b.as_int()) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_float()?.partial_cmp(&b.as_float()?),
    }
}

/// How two values order; `None` for NaN.
pub(super) fn order(a: &Value, b: &Value, budget: &mut Budget) -> Result<Option<Ordering>, Fault> {
    budget.step()?;
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => {
            budget.read(a.len().min(b.len()))?;
            Ok(Some((**a).cmp(&**b)))
        }
        (Value::List(a), Value::List(b)) if a.is_tuple == b.is_tuple => {
            for (a, b) in a.items.iter().zip(&b.items) {
                if !equal(a, b, budget)? {
                    return order(a, b, budget);
                }
            }
            Ok(Some(a.items.len().cmp(&b.items.len())))
        }
        _ if a.as_float().is_some() && b.as_float().is_some() => Ok(numbers(a, b)),
        _ => {
            let (a, b) = (a.type_name(), b.type_name());
            Fault::new(format!("a {a} and a {b} have no order"))
        }
    }
}

impl Value {
    /// The value of a key, found by equality.
    pub(super) fn entry(&self, key: &Value, budget: &mut Budget) -> Result<Option<Value>, Fault> {
        let Value::Map(map) = self else {
            return Ok(None);
        };
        budget.steps(map.entries.len() / 8)?;
        for (other, value) in &map.entries {
            let same = match (key, other) {
                (Value::Str(a), Value::Str(b)) => **a == **b,
                _ => equal(key, other, budget)?,
            };
            if same {
                return Ok(Some(value.clone()));
            }
        }
        Ok(None)
    }
}

/// `needle in haystack`
pub(super) fn contains(haystack: &Value, needle: &Value, budget: &mut Budget) -> Result<bool, Fault> {
    match haystack {
        Value::Str(text) => match needle {
            Value::Str(part) => {
                budget.read(text.len())?;
                Ok(text.contains(&**part))
            }
            other => Fault::new(format!("a string holds no {}", other.type_name())),
        },
        Value::List(list) => {
            for item in &list.items {
                if equal(item, needle, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(_) => Ok(haystack.entry(needle, budget)?.is_some()),
        Value::Undefined(_) => Ok(false),
        other => Fault::new(format!("nothing is in a {}", other.type_name())),
    }
}

/// `a comparison b`
pub(super) fn holds(comparison: Comparison, a: &Value, b: &Value, budget: &mut Budget) -> Result<bool, Fault> {
    Ok(match comparison {
        Comparison::Equal => equal(a, b, budget)?,
        Comparison::NotEqual => !equal(a, b, budget)?,
        Comparison::In => contains(b, a, budget)?,
        Comparison::NotIn => !contains(b, a, budget)?,
        Comparison::Less => order(a, b, budget)?.is_some_and(|o| o.is_lt()),
        Comparison::LessOrEqual => order(a, b, budget)?.is_some_and(|o| o.is_le()),
        Comparison::Greater => order(a, b, budget)?.is_some_and(|o| o.is_gt()),
        Comparison::GreaterOrEqual => order(a, b, budget)?.is_some_and(|o| o.is_ge()),
    })
}

/// Sorts pairs by the [`order`] of their first; pairs of equal firsts keep their order.
///
/// A merge sort of its own, because a comparison can fail.
pub(super) fn sort_by_key(
    mut items: Vec<(Value, Value)>,
    reverse: bool,
    budget: &mut Budget,
) -> Result<Vec<(Value, Value)>, Fault> {
    if items.len() < 2 {
        return Ok(items);
    }
    let right = items.split_off(items.len() / 2);
    let mut left = sort_by_key(items, reverse, budget)?.into_iter().peekable();
    let mut right = sort_by_key(right, reverse, budget)?.into_iter().peekable();
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let later = if reverse { Ordering::Less } else { Ordering::Greater };
    while let (Some((a, _)), Some((b, _))) = (left.peek(), right.peek()) {
        let takes_right = order(a, b, budget)? == Some(later);
        merged.extend(if takes_right { right.next() } else { left.next() });
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}
