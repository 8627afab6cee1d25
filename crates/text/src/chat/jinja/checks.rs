//! Tests: `value is name`.

use super::arguments::Arguments;
use super::ast::Comparison;
use super::compare::holds;
use super::error::Fault;
use super::methods::is_cased;
use super::run::Run;
use super::value::Value;

pub(super) fn check(run: &mut Run, name: &str, value: &Value, args: Arguments) -> Result<bool, Fault> {
    let comparison = match name {
        "eq" | "equalto" | "sameas" => Some(Comparison::Equal),
        "ne" => Some(Comparison::NotEqual),
        "lt" | "lessthan" => Some(Comparison::Less),
        "le" => Some(Comparison::LessOrEqual),
        "gt" | "greaterthan" => Some(Comparison::Greater),
        "ge" => Some(Comparison::GreaterOrEqual),
        "in" => Some(Comparison::In),
        _ => None,
    };
    if let Some(comparison) = comparison {
        let [other] = args.bind(name, ["other"])?;
        let Some(other) = other else {
            return Fault::new(format!("the test {name:?} needs a value to compare with"));
        };
        // Identity tells values of different types apart that are equal, such as 1 and true.
        let same_type = name != "sameas" || value.type_name() == other.type_name();
        return Ok(same_type && holds(comparison, value, &other, &mut run.budget)?);
    }
    if name == "divisibleby" {
        let [divisor] = args.bind(name, ["num"])?;
        let divisor = divisor.and_then(|divisor| divisor.as_int());
        return match (value.as_int(), divisor) {
            (Some(value), Some(divisor)) if divisor != 0 => Ok(value.wrapping_rem(divisor) == 0),
            _ => Fault::new("divisibleby needs two whole numbers, the second not 0"),
        };
    }
    let [] = args.bind(name, [])?;
    let is_remainder = |remainder: f64| match value.as_float() {
        Some(float) => Ok(float.rem_euclid(2.0) == remainder),
        None => Fault::new(format!("a {} is neither odd nor even", value.type_name())),
    };
    let text = value.as_str().unwrap_or_default();
    Ok(match name {
        "defined" => !matches!(value, Value::Undefined(_)),
        "undefined" => matches!(value, Value::Undefined(_)),
        "none" => matches!(value, Value::None),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "number" => value.as_float().is_some(),
        "string" => matches!(value, Value::Str(_)),
        "mapping" => matches!(value, Value::Map(_)),
        "sequence" => matches!(value, Value::Str(_) | Value::List(_) | Value::Map(_)),
        "iterable" => matches!(value, Value::Str(_) | Value::List(_) | Value::Map(_) | Value::Undefined(_)),
        "callable" => matches!(value, Value::Macro(..) | Value::Function(_) | Value::Method),
        "odd" => is_remainder(1.0)?,
        "even" => is_remainder(0.0)?,
        "lower" => is_cased(text, char::is_lowercase, char::is_uppercase),
        "upper" => is_cased(text, char::is_uppercase, char::is_lowercase),
        "escaped" => false,
        _ => return Fault::new(format!("there is no test {name:?}")),
    })
}
