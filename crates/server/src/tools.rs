//! Which tools a model may call, and whether it must: `tool_choice` of the APIs as one thing, and a grammar that allows
//! nothing but calls in the form in which the model writes them.

use crate::budget::NAME_BYTES;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::grammar::budget::LARK_BYTES;
use crate::schema;
use crate::tool_schema;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::fmt::Write;
use text::chat::CallForm;

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
        let mut functions = functions;
        let choice = match fields.get("tool_choice") {
            None => Choice::Auto,
            Some(Value::String(word)) => Choice::of_word(word)?,
            Some(object @ Value::Object(_)) => match kind(object)? {
                "function" => Choice::One(wanted(object)?),
                "allowed_tools" => {
                    // Chat has them one level deeper than responses.
                    let allowed = object.get("allowed_tools").unwrap_or(object);
                    retain(&mut functions, allowed)?;
                    let mode = allowed["mode"].as_str();
                    Choice::of_word(
                        mode.ok_or_else(|| ApiError::field("tool_choice", "allowed tools without a mode"))?,
                    )?
                }
                // A tool of the service that the client thinks of, which is none of ours.
                kind if has_kind(fields, kind)? => Choice::Auto,
                kind => return Err(ApiError::field("tool_choice", format!("there is no tool of type '{kind}'"))),
            },
            Some(_) => return Err(ApiError::field("tool_choice", "it is neither a string nor an object")),
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

impl Choice<'_> {
    fn of_word(word: &str) -> Result<Choice<'static>, ApiError> {
        match word {
            "none" => Ok(Choice::None),
            "auto" => Ok(Choice::Auto),
            "required" | "any" => Ok(Choice::Any),
            _ => Err(ApiError::field("tool_choice", format!("there is no choice '{word}'"))),
        }
    }
}

/// What an object chooses; without a word, a function.
fn kind(choice: &Value) -> Result<&str, ApiError> {
    match &choice["type"] {
        Value::Null => Ok("function"),
        Value::String(kind) => Ok(kind),
        _ => Err(ApiError::field("tool_choice", "its type is no string")),
    }
}

/// The name of a function that is chosen.
fn wanted(choice: &Value) -> Result<&str, ApiError> {
    let name = choice["function"]["name"].as_str().or(choice["name"].as_str());
    name.ok_or_else(|| ApiError::field("tool_choice", "a function without a name"))
}

/// Leaves the functions that are allowed: those of a list, or all if there is none.
fn retain(functions: &mut Vec<Value>, allowed: &Value) -> Result<(), ApiError> {
    let wrong = |problem: String| ApiError::field("tool_choice", problem);
    let Some(tools) = allowed.get("tools") else { return Ok(()) };
    let tools = tools.as_array().ok_or_else(|| wrong("the allowed tools are no list".into()))?;
    let mut names = vec![];
    for tool in tools {
        if kind(tool)? == "function" {
            let name = wanted(tool)?;
            if !functions.iter().any(|tool| tool["function"]["name"] == name) {
                return Err(wrong(format!("there is no function '{name}'")));
            }
            names.push(name);
        }
    }
    functions.retain(|tool| names.iter().any(|&name| tool["function"]["name"] == name));
    Ok(())
}

/// Whether one of the tools is of this type.
fn has_kind(fields: Fields<'_>, kind: &str) -> Result<bool, ApiError> {
    Ok(fields.list("tools")?.unwrap_or_default().iter().any(|tool| tool["type"] == kind))
}

/// The tools of a request, of which each must be an object and, if it has a type, say so in a string.
///
/// # Errors
/// What is no tool.
pub fn listed(fields: Fields<'_>) -> Result<&[Value], ApiError> {
    let tools = fields.list("tools")?.unwrap_or_default();
    for (at, tool) in tools.iter().enumerate() {
        if !tool.is_object() || !matches!(tool["type"], Value::Null | Value::String(_)) {
            return Err(ApiError::field("tools", format!("number {at} is no object with a type")));
        }
    }
    Ok(tools)
}

/// Whether a tool is a function that the client runs.
pub fn is_function(tool: &Value) -> bool {
    tool["type"].is_null() || tool["type"] == "function"
}

/// The function of a tool that has its name and its schema, under `parameters`, in itself; in the form of OpenAI's chat.
///
/// # Errors
/// A function without a name, or whose parameters are no schema.
pub fn function(tool: &Value, parameters: &str) -> Result<Value, ApiError> {
    check(tool, parameters)?;
    let keys = [("name", "name"), ("description", "description"), (parameters, "parameters")];
    let known =
        keys.into_iter().filter_map(|(key, name)| Some((name, tool.get(key).filter(|value| !value.is_null())?)));
    let function: Map<String, Value> = known.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    Ok(json!({ "type": "function", "function": function }))
}

/// The function of a tool in the form of OpenAI's chat, without what is null: templates print that as text.
///
/// # Errors
/// As [`function`].
pub fn chat_function(tool: &Value) -> Result<Value, ApiError> {
    check(&tool["function"], "parameters")?;
    let mut tool = tool.clone();
    if let Some(function) = tool.get_mut("function").and_then(Value::as_object_mut) {
        function.retain(|_, value| !value.is_null());
    }
    Ok(tool)
}

fn check(function: &Value, parameters: &str) -> Result<(), ApiError> {
    let wrong = |problem: String| ApiError::field("tools", problem);
    let name = function["name"].as_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| wrong("a function without a name".into()))?;
    if name.len() > NAME_BYTES {
        return Err(wrong(format!("the name of a function is longer than {NAME_BYTES} bytes")));
    }
    match &function[parameters] {
        Value::Null => Ok(()),
        schema => tool_schema::check(schema).map_err(|problem| wrong(format!("{parameters} of '{name}': {problem}"))),
    }
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
        let allowed = |tools: Value| json!({ "type": "allowed_tools", "mode": "required", "tools": tools });
        let one = json!([{ "type": "function", "name": "g" }, { "type": "web_search" }]);
        assert_eq!(told(json!({ "tool_choice": allowed(one) })), (1, true, false));
        let chat = json!([{ "type": "function", "function": { "name": "f" } }]);
        let chat = json!({ "type": "allowed_tools", "allowed_tools": { "mode": "auto", "tools": chat } });
        assert_eq!(told(json!({ "tool_choice": chat })), (1, false, false));
        let hosted = json!({ "tool_choice": { "type": "web_search" }, "tools": [{ "type": "web_search" }] });
        assert_eq!(told(hosted), (2, false, false));
        for wrong in [
            json!("maybe"),
            json!(""),
            json!(5),
            json!(true),
            json!([]),
            json!({}),
            json!({ "type": 5 }),
            json!({ "type": "web_search" }),
            json!({ "type": "function" }),
            json!({ "type": "function", "name": 5 }),
            json!({ "type": "function", "function": {} }),
            json!({ "type": "function", "function": "f" }),
            json!({ "type": "function", "function": { "name": "h" } }),
            json!({ "type": "allowed_tools", "mode": "required", "tools": "f" }),
            json!({ "type": "allowed_tools", "tools": [] }),
            json!({ "type": "allowed_tools", "mode": "maybe", "tools": [] }),
            allowed(json!([{ "type": "function", "name": "h" }])),
            allowed(json!([])),
        ] {
            let error = read(json!({ "tool_choice": wrong })).expect_err(&wrong.to_string());
            assert_eq!(error.param.as_deref(), Some("tool_choice"));
        }
        let none = Tools::of_openai(Fields::of(&json!({ "tool_choice": "required" })).expect("an object"), vec![]);
        assert!(none.is_err());
    }

    #[test]
    fn functions_have_names_and_schemas() {
        for parameters in [json!(null), json!({}), json!({ "type": "object" }), json!(true)] {
            let tool = json!({ "name": "f", "input_schema": parameters, "parameters": parameters });
            assert!(function(&tool, "input_schema").is_ok() && chat_function(&json!({ "function": tool })).is_ok());
        }
        let long = "f".repeat(NAME_BYTES + 1);
        for tool in [
            json!({}),
            json!(null),
            json!("f"),
            json!({ "name": null }),
            json!({ "name": "" }),
            json!({ "name": 5 }),
            json!({ "name": long }),
            json!({ "name": "f", "parameters": "none" }),
            json!({ "name": "f", "parameters": [] }),
            json!({ "name": "f", "parameters": { "type": 5 } }),
        ] {
            for refused in [function(&tool, "parameters"), chat_function(&json!({ "function": tool }))] {
                let error = refused.expect_err(&tool.to_string());
                assert!(error.param.as_deref() == Some("tools") && error.message.len() < 200, "{error:?}");
            }
        }
        for wrong in [json!([5]), json!([null]), json!(["f"]), json!([{ "type": 5 }])] {
            let body = json!({ "tools": wrong });
            assert!(listed(Fields::of(&body).expect("an object")).is_err(), "{body}");
        }
    }
}
