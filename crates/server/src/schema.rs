//! Schemas as people mean them: an object has the properties that are named, as in llama-server.

use crate::grammar::budget::{SCHEMA_DEPTH, SOURCE_BYTES};
use serde_json::{Map, Value};
use std::io;

/// Where what one part of a schema names is unknown to another part.
const COMBINING: [&str; 4] = ["allOf", "if", "dependentSchemas", "unevaluatedProperties"];

/// Whether a schema is one that the rest may look at, which goes down into it by recursion.
///
/// # Errors
/// What it is too much of.
pub fn check(schema: &Value) -> Result<(), String> {
    let mut next = vec![(schema, 0)];
    while let Some((value, depth)) = next.pop() {
        if depth > SCHEMA_DEPTH {
            return Err(format!("is more than {SCHEMA_DEPTH} deep"));
        }
        match value {
            Value::Object(fields) => next.extend(fields.values().map(|value| (value, depth + 1))),
            Value::Array(all) => next.extend(all.iter().map(|value| (value, depth + 1))),
            _ => {}
        }
    }
    match serde_json::to_writer(Room(SOURCE_BYTES), schema) {
        Ok(()) => Ok(()),
        Err(_) => Err(format!("is longer than {SOURCE_BYTES} bytes")),
    }
}

/// So many bytes may be written.
struct Room(usize);

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Closes the objects of a schema that name properties and do not say whether there may be others; who names properties
/// wants an object. A schema that combines parts stays as it is.
pub fn close(schema: &mut Value) {
    if !combines(schema) {
        close_objects(schema);
    }
}

fn combines(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.iter().any(|(key, value)| COMBINING.contains(&&**key) || combines(value)),
        Value::Array(all) => all.iter().any(combines),
        _ => false,
    }
}

fn close_objects(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let named = fields.contains_key("properties");
    let has_more = ["anyOf", "oneOf", "$ref"].iter().any(|key| fields.contains_key(*key));
    if named && has_more {
        return;
    }
    if named {
        fields.entry("type").or_insert("object".into());
        if !says_more(fields) {
            fields.insert("additionalProperties".into(), false.into());
        }
    }
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(all)) => {
                all.values_mut().for_each(close_objects);
            }
            ("anyOf" | "oneOf" | "prefixItems", Value::Array(all)) => all.iter_mut().for_each(close_objects),
            ("items" | "additionalProperties", within) => close_objects(within),
            _ => {}
        }
    }
}

/// Whether an object says something about properties beside those that it names.
fn says_more(fields: &Map<String, Value>) -> bool {
    let says =
        ["additionalProperties", "patternProperties", "minProperties"].iter().any(|key| fields.contains_key(*key));
    let is_named = |name: &Value| name.as_str().is_some_and(|name| fields["properties"].get(name).is_some());
    says || fields.get("required").and_then(Value::as_array).is_some_and(|all| !all.iter().all(is_named))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_have_what_is_named() {
        let closed = |mut schema: Value| {
            close(&mut schema);
            schema
        };
        let plain = json!({ "properties": { "a": { "type": "string" } }, "required": ["a"] });
        assert_eq!(
            (&closed(plain.clone())["additionalProperties"], &closed(plain.clone())["type"]),
            (&json!(false), &json!("object"))
        );
        let within =
            closed(json!({ "type": "object", "properties": { "list": { "items": plain }, "or": { "anyOf": [plain] } },
            "$defs": { "d": plain } }));
        for at in ["", "/properties/list/items", "/properties/or/anyOf/0", "/$defs/d"] {
            assert_eq!(within.pointer(at).expect("it is there")["additionalProperties"], false, "{at}");
        }
    }

    #[test]
    fn what_is_too_deep_or_too_long_is_refused_by_its_limit() {
        let nested = |depth: usize| (0..depth).fold(json!({}), |within, _| json!({ "items": within }));
        assert_eq!(check(&nested(SCHEMA_DEPTH)), Ok(()));
        assert!(check(&nested(SCHEMA_DEPTH + 1)).unwrap_err().contains("100 deep"));
        assert!(check(&json!({ "enum": ["x".repeat(SOURCE_BYTES)] })).unwrap_err().contains("1048576 bytes"));
        assert_eq!(check(&json!({ "enum": ["x".repeat(SOURCE_BYTES - 13)] })), Ok(()));
    }

    #[test]
    fn what_says_otherwise_stays() {
        for schema in [
            json!({ "type": "object" }),
            json!({ "type": "object", "properties": {}, "additionalProperties": true }),
            json!({ "type": "object", "properties": {}, "additionalProperties": { "type": "string" } }),
            json!({ "type": ["object", "null"], "properties": { "a": {} }, "required": ["b"] }),
            json!({ "type": "object", "properties": { "a": {} }, "minProperties": 2 }),
            json!({ "properties": { "a": {} }, "oneOf": [{ "properties": { "b": {} } }] }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "allOf": [{ "properties": {} }, { "properties": {} }] } } }),
            json!({ "const": { "properties": {} } }),
            json!(true),
        ] {
            let mut after = schema.clone();
            close(&mut after);
            assert_eq!(after, schema);
        }
    }
}
