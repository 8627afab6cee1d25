//! Whether the parameters of a tool are a JSON Schema at all: that its keywords have values of the kinds that they need.
//!
//! What the keywords mean, and words that no standard knows, are not looked at: a model reads those, too. Recursion ends
//! with the depth that bodies have.

use serde_json::Value;

/// What is wrong with a schema, and where in it.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(schema: &Value) -> Result<(), String> {
    let fields = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(fields) => fields,
        _ => return Err("it is neither an object nor true or false".into()),
    };
    fields.iter().try_for_each(|(key, value)| keyword(key, value).map_err(|problem| format!("{key}: {problem}")))
}

fn keyword(key: &str, value: &Value) -> Result<(), String> {
    let texts = |what: &Value| what.as_array().is_some_and(|all| all.iter().all(Value::is_string));
    let need = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("it is not {what}")) };
    match key {
        "type" => need(value.is_string() || texts(value), "a string or a list of strings"),
        "enum" => need(value.is_array(), "a list"),
        // Before 2019 a property said so of itself.
        "required" => need(texts(value) || value.is_boolean(), "a list of strings"),
        "$ref" | "pattern" | "format" | "description" | "title" => {
            need(value.is_string() || value.is_null(), "a string")
        }
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            let all = value.as_object().ok_or("it is not an object of schemas")?;
            all.iter().try_for_each(|(name, schema)| check(schema).map_err(|problem| format!("{name}: {problem}")))
        }
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
            value.as_array().ok_or("it is not a list of schemas")?.iter().try_for_each(check)
        }
        "items" => match value {
            Value::Array(all) => all.iter().try_for_each(check),
            one => check(one),
        },
        "additionalProperties" | "not" | "contains" | "propertyNames" | "if" | "then" | "else" => check(value),
        "minimum" | "maximum" | "multipleOf" | "minLength" | "maxLength" | "minItems" | "maxItems"
        | "minProperties" | "maxProperties" => need(value.is_number() || value.is_null(), "a number"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_that_clients_send_pass() {
        for schema in [
            json!({}),
            json!(true),
            json!({ "type": "object", "properties": {} }),
            json!({ "type": ["object", "null"], "required": [], "$schema": "x", "strict": true, "title": "f" }),
            json!({ "properties": { "a": { "type": "date" }, "b": true, "type": { "type": "string" } } }),
            json!({ "properties": { "a": { "type": "string", "required": true, "description": null, "default": [1] } } }),
            json!({ "$defs": { "n": { "anyOf": [{ "$ref": "#/$defs/n" }, { "const": 1 }] } }, "items": [{}, true] }),
            json!({ "additionalProperties": false, "exclusiveMinimum": true, "x-own": [5], "enum": [null, 1] }),
        ] {
            assert_eq!(check(&schema), Ok(()), "{schema}");
        }
    }

    #[test]
    fn what_is_no_schema_is_said_with_its_place() {
        for (schema, place) in [
            (json!(5), "it is neither"),
            (json!("object"), "it is neither"),
            (json!([]), "it is neither"),
            (json!({ "type": 5 }), "type: "),
            (json!({ "type": ["string", 5] }), "type: "),
            (json!({ "properties": [] }), "properties: "),
            (json!({ "properties": { "a": "string" } }), "properties: a: it is neither"),
            (json!({ "properties": { "a": { "items": 1 } } }), "properties: a: items: "),
            (json!({ "required": "a" }), "required: "),
            (json!({ "required": [1] }), "required: "),
            (json!({ "anyOf": {} }), "anyOf: "),
            (json!({ "enum": 3 }), "enum: "),
            (json!({ "additionalProperties": "no" }), "additionalProperties: "),
            (json!({ "minimum": "3" }), "minimum: "),
            (json!({ "$ref": {} }), "$ref: "),
        ] {
            let problem = check(&schema).expect_err("no schema");
            assert!(problem.starts_with(place), "{schema}: {problem}");
        }
    }
}
