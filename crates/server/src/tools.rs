//! Which tools a model may call, and whether it must: `tool_choice` of the APIs as one thing, and a grammar that allows
//! nothing but calls in the form in which the model writes them.

use crate::error::ApiError;
use crate::fields::Fields;
use crate::grammar::budget::LARK_BYTES;
use crate::schema;
use model::chat::CallForm;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::fmt::Write;

/// The tools of a request.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// Those that the model may call, in the form of OpenAI's chat.
    pub functions: Vec<Value>,
    /// Whether it has to call one.
    pub required: bool,
    /// Whether one call is all that is wanted.
    pub one_call: bool,
}

impl Tools {
    /// The functions that the choice leaves, and whether one must be called.
    ///
    /// # Errors
    /// A function that is wanted and not there, or a choice that is none.
    pub fn choose(mut functions: Vec<Value>, choice: Choice<'_>) -> Result<Tools, ApiError> {
        let required = match choice {
            Choice::None => {
                functions.clear();
                false
            }
            Choice::Auto => false,
            Choice::Any if functions.is_empty() => {
                return Err(ApiError::field("tool_choice", "a call is required and there is no function"));
            }
            Choice::Any => true,
            Choice::One(name) => {
                functions.retain(|tool| tool["function"]["name"] == name);
                if functions.is_empty() {
                    return Err(ApiError::field("tool_choice", format!("there is no function '{name}'")));
                }
                true
            }
        };
        Ok(Tools { functions, required, one_call: matches!(choice, Choice::One(_)) })
    }

    /// Of a request to OpenAI's chat or responses, whose functions are these.
    ///
    /// # Errors
    /// As [`Tools::choose`].
    pub fn of_openai(fields: Fields<'_>, functions: Vec<Value>) -> Result<Tools, ApiError> {
        let wrong = |what: &Value| ApiError::field("tool_choice", format!("there is no choice {what}"));
        let choice = match fields.get("tool_choice") {
            None => Choice::Auto,
            Some(Value::String(word)) => match word.as_str() {
                "none" => Choice::None,
                "auto" => Choice::Auto,
                "required" | "any" => Choice::Any,
                _ => return Err(wrong(&Value::from(word.as_str()))),
            },
            Some(object @ Value::Object(_)) => match object["function"]["name"].as_str().or(object["name"].as_str()) {
                Some(name) => Choice::One(name),
                // A choice among tools of the service, or a list of those that are allowed.
                None => match object["mode"].as_str() {
                    Some("required") => Choice::Any,
                    _ => Choice::Auto,
                },
            },
            Some(other) => return Err(wrong(other)),
        };
        let mut tools = Tools::choose(functions, choice)?;
        tools.one_call |= !fields.flag("parallel_tool_calls")?.unwrap_or(true);
        Ok(tools)
    }
}

/// What a request says about calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// None may be called.
    None,
    /// The model decides.
    Auto,
    /// Some function must be called.
    Any,
    /// This one must be called.
    One(&'a str),
}

/// The function of a tool that has its schema under `parameters`, in the form of OpenAI's chat.
///
/// # Errors
/// A tool without a name.
pub fn function(tool: &Value, parameters: &str) -> Result<Value, ApiError> {
    if !tool["name"].is_string() {
        return Err(ApiError::field("tools", "a function without a name"));
    }
    let keys = [("name", "name"), ("description", "description"), (parameters, "parameters")];
    let known =
        keys.into_iter().filter_map(|(key, name)| Some((name, tool.get(key).filter(|value| !value.is_null())?)));
    let function: Map<String, Value> = known.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    Ok(json!({ "type": "function", "function": function }))
}

/// A function of a tool, without what is null: templates print that as text.
pub fn without_nulls(tool: &Value) -> Value {
    let mut tool = tool.clone();
    if let Some(function) = tool.get_mut("function").and_then(Value::as_object_mut) {
        function.retain(|_, value| !value.is_null());
    }
    tool
}

/// A grammar, in the Lark dialect of `llguidance`, of nothing but calls of these tools.
///
/// # Errors
/// Parameters that are too large or too deep.
pub fn grammar(tools: &Tools, form: CallForm) -> Result<String, String> {
    let mut rules = String::new();
    let mut names = vec![];
    for (at, tool) in tools.functions.iter().enumerate() {
        let name = tool["function"]["name"].as_str().unwrap_or_default();
        let parameters = &tool["function"]["parameters"];
        schema::check(parameters).map_err(|problem| format!("a schema of parameters {problem}"))?;
        let rule = match form {
            CallForm::Pairs => pairs(&mut rules, at, name, parameters)?,
            CallForm::Tagged => object("<tool_call>", name, "arguments", parameters, "</tool_call>"),
            CallForm::TaggedLines => object("<tool_call>\n", name, "arguments", parameters, "\n</tool_call>"),
            CallForm::Bare => object("", name, "parameters", parameters, ""),
        };
        let _ = writeln!(rules, "call{at}: {rule}");
        room(&rules)?;
        names.push(format!("call{at}"));
    }
    let more = match form {
        // Llama 3 has no form for several.
        _ if tools.one_call => "",
        CallForm::Bare => "",
        CallForm::Pairs => " call*",
        CallForm::Tagged | CallForm::TaggedLines => " (\"\\n\" call)*",
    };
    // After its thoughts a model often begins a new line.
    Ok(format!("start: /\\n{{0,2}}/ call{more}\ncall: {}\n{rules}", names.join(" | ")))
}

/// Refuses rules that are too long already: definitions are repeated for each property.
fn room(rules: &str) -> Result<(), String> {
    match rules.len() > LARK_BYTES {
        true => Err(format!("the grammar of their parameters is longer than {LARK_BYTES} bytes")),
        false => Ok(()),
    }
}

/// `{"name": …, "arguments": {…}}` between an opening and a closing.
fn object(open: &str, name: &str, key: &str, parameters: &Value, close: &str) -> String {
    let before = format!("{open}{{\"name\": {}, \"{key}\": ", Value::from(name));
    format!("{} {} {}", literal(&before), arguments(parameters), literal(&format!("}}{close}")))
}

/// A name and its arguments as pairs, those that may be missing with a question mark.
fn pairs(rules: &mut String, at: usize, name: &str, parameters: &Value) -> Result<String, String> {
    let none = Map::new();
    let properties = parameters["properties"].as_object().unwrap_or(&none);
    let required = parameters["required"].as_array().into_iter().flatten();
    let required: HashSet<&str> = required.filter_map(Value::as_str).collect();
    let mut out = literal(&format!("<tool_call>{name}"));
    for (number, (key, kind)) in properties.iter().enumerate() {
        let rule = format!("pair{at}_{number}");
        let open = literal(&format!("<arg_key>{key}</arg_key><arg_value>"));
        let close = literal("</arg_value>");
        let texts = kind["enum"].as_array().filter(|all| all.iter().all(Value::is_string));
        let body = match (&kind["type"], texts) {
            (_, Some(texts)) => {
                let texts: Vec<String> = texts.iter().filter_map(Value::as_str).map(literal).collect();
                format!("{open} ({}) {close}", texts.join(" | "))
            }
            (Value::String(kind), None) if kind == "string" => {
                let _ = writeln!(rules, "value{at}_{number}[suffix=\"</arg_value>\"]: /(?s:.*)/");
                format!("{open} value{at}_{number}")
            }
            _ => format!("{open} {} {close}", with_root(kind, parameters)),
        };
        let _ = writeln!(rules, "{rule}: {body}");
        let _ = write!(out, " {rule}{}", if required.contains(&**key) { "" } else { "?" });
        room(rules)?;
    }
    Ok(out + " " + &literal("</tool_call>"))
}

/// The arguments of a call as a part of a rule.
fn arguments(parameters: &Value) -> String {
    match parameters {
        // A function without parameters has none.
        Value::Null => json_rule(json!({ "type": "object", "properties": {}, "additionalProperties": false })),
        Value::Object(fields) => {
            let mut fields = fields.clone();
            fields.insert("type".into(), "object".into());
            json_rule(Value::Object(fields))
        }
        other => json_rule(json!({ "allOf": [other, { "type": "object" }] })),
    }
}

/// A property's schema, which may refer to definitions of the whole.
fn with_root(kind: &Value, parameters: &Value) -> String {
    let mut kind = kind.clone();
    if let Some(fields) = kind.as_object_mut() {
        for key in ["$defs", "definitions"] {
            if let Some(definitions) = parameters.get(key) {
                fields.insert(key.into(), definitions.clone());
            }
        }
    }
    json_rule(kind)
}

/// JSON as templates write it, without room for endless white space. What a schema has beyond what can be followed is
/// no reason to refuse the tool.
fn json_rule(mut schema: Value) -> String {
    schema::close(&mut schema);
    if let Some(fields) = schema.as_object_mut() {
        let style =
            json!({ "whitespace_flexible": false, "item_separator": ", ", "key_separator": ": ", "lenient": true });
        fields.insert("x-guidance".into(), style);
    }
    format!("%json {schema}")
}

/// Text as a string of the grammar.
fn literal(text: &str) -> String {
    if text.is_empty() { "\"\"".into() } else { Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_of_openai() {
        let function = |name: &str| json!({ "type": "function", "function": { "name": name } });
        let read =
            |body: Value| Tools::of_openai(Fields::of(&body).expect("an object"), vec![function("f"), function("g")]);
        let told = |body: Value| {
            let tools = read(body).expect("tools");
            (tools.functions.len(), tools.required, tools.one_call)
        };
        assert_eq!(told(json!({})), (2, false, false));
        assert_eq!(told(json!({ "tool_choice": "none" })), (0, false, false));
        assert_eq!(told(json!({ "tool_choice": "auto", "parallel_tool_calls": false })), (2, false, true));
        assert_eq!(told(json!({ "tool_choice": "required" })), (2, true, false));
        let chat = json!({ "tool_choice": { "type": "function", "function": { "name": "g" } } });
        assert_eq!(told(chat), (1, true, true));
        assert_eq!(told(json!({ "tool_choice": { "type": "function", "name": "f" } })), (1, true, true));
        assert_eq!(told(json!({ "tool_choice": { "type": "allowed_tools", "mode": "required" } })), (2, true, false));
        for wrong in [json!("maybe"), json!(5), json!({ "type": "function", "function": { "name": "h" } })] {
            assert!(read(json!({ "tool_choice": wrong })).is_err(), "{wrong}");
        }
        let none = Tools::of_openai(Fields::of(&json!({ "tool_choice": "required" })).expect("an object"), vec![]);
        assert!(none.is_err());
    }
}
