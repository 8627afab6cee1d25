//! The operators with two operands that are not comparisons.

use super::ast::Binary;
use super::budget::{Budget, Builder};
use super::error::Fault;
use super::print::print;
use super::printf::percent_format;
use super::value::Value;

pub(super) fn binary(op: Binary, a: &Value, b: &Value, budget: &mut Budget) -> Result<Value, Fault> {
    match (op, a, b) {
        (Binary::Concat, ..) => {
            let mut out = Builder::new(budget);
            print(a, &mut out)?;
            print(b, &mut out)?;
            Ok(Value::Str(out.finish()))
        }
        (_, Value::Undefined(name), _) | (_, _, Value::Undefined(name)) => {
            Fault::new(format!("{name} is undefined and cannot be an operand"))
        }
        (Binary::Add, Value::Str(a), Value::Str(b)) => {
            let mut out = Builder::new(budget);
            out.push_text(a)?;
            out.push_text(b)?;
            Ok(Value::Str(out.finish()))
        }
        (Binary::Add, Value::List(a), Value::List(b)) if a.is_tuple == b.is_tuple => {
            budget.make((a.items.len() + b.items.len()) * std::mem::size_of::<Value>())?;
            let items = a.items.iter().chain(&b.items).cloned().collect();
            Value::sequence(items, a.is_tuple, budget)
        }
        (Binary::Multiply, Value::Str(text), count) | (Binary::Multiply, count, Value::Str(text))
            if count.as_int().is_some() =>
        {
            let count = usize::try_from(count.as_int().unwrap_or(0)).unwrap_or(0);
            let mut out = Builder::new(budget);
            out.repeat(text, count)?;
            Ok(Value::Str(out.finish()))
        }
        (Binary::Multiply, Value::List(list), count) | (Binary::Multiply, count, Value::List(list))
            if count.as_int().is_some() =>
        {
            let count = usize::try_from(count.as_int().unwrap_or(0)).unwrap_or(0);
            let total = list.items.len().saturating_mul(count);
            budget.make(total.saturating_mul(std::mem::size_of::<Value>()))?;
            let items = std::iter::repeat_n(&list.items, count).flatten().cloned();
            Value::sequence(items.collect(), list.is_tuple, budget)
        }
        (Binary::Modulo, Value::Str(format), args) => percent_format(format, args, budget),
        _ => number(op, a, b),
    }
}

fn number(op: Binary, a: &Value, b: &Value) -> Result<Value, Fault> {
    let by_zero = || Fault::new("division by zero");
    if let (Some(a), Some(b)) = (a.as_int(), b.as_int()) {
        let result = match op {
            Binary::Add => a.checked_add(b),
            Binary::Subtract => a.checked_sub(b),
            Binary::Multiply => a.checked_mul(b),
            Binary::FloorDivide | Binary::Modulo | Binary::Divide if b == 0 => return by_zero(),
            Binary::FloorDivide => floor_divide(a, b),
            Binary::Modulo => floor_divide(a, b).map(|q| a.wrapping_sub(q.wrapping_mul(b))),
            Binary::Divide => return Ok(Value::Float(a as f64 / b as f64)),
            Binary::Power => match u32::try_from(b) {
                Ok(b) => a.checked_pow(b),
                Err(_) => return Ok(Value::Float((a as f64).powf(b as f64))),
            },
            Binary::Concat => None,
        };
        return match result {
            Some(int) => Ok(Value::Int(int)),
            None => Fault::new("a whole number is too large"),
        };
    }
    let (Some(x), Some(y)) = (a.as_float(), b.as_float()) else {
        let (a, b) = (a.type_name(), b.type_name());
        return Fault::new(format!("{op:?} does not work on a {a} and a {b}"));
    };
    Ok(Value::Float(match op {
        Binary::Add => x + y,
        Binary::Subtract => x - y,
        Binary::Multiply => x * y,
        Binary::FloorDivide | Binary::Modulo | Binary::Divide if y == 0.0 => return by_zero(),
        Binary::Divide => x / y,
        Binary::FloorDivide => (x / y).floor(),
        Binary::Modulo => x - y * (x / y).floor(),
        Binary::Power | Binary::Concat => x.powf(y),
    }))
}

/// The quotient rounded down; `None` if it does not fit.
fn floor_divide(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let rounded_up = a % b != 0 && (a < 0) != (b < 0);
    quotient.checked_sub(i64::from(rounded_up))
}
