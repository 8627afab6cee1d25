//! What a request's text has to follow, read and translated but not compiled: nothing here takes longer than reading
//! the request did, and nothing recurses deeper than a named number.

use super::budget::{LARK_BYTES, SOURCE_BYTES};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::tools::{self, Tools};
use crate::{gbnf, schema};
use serde_json::{Value, json};
use text::chat::CallForm;

/// Spaces at the beginning of a line of an object at most: some models would never write anything else.
pub(super) const MOST_SPACES: usize = 32;

/// A grammar in one of the languages that `llguidance` reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Its dialect of Lark.
    Lark(String),
    /// A JSON schema.
    Schema(String),
}

/// What a text has to follow.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The field that asks for it.
    pub field: String,
    /// The grammar.
    pub source: Source,
    /// Whether the model thinks first.
    pub after_thought: bool,
}

impl Rule {
    /// What a request asks for, if anything. `after_thought` says that the model thinks first.
    ///
    /// # Errors
    /// A schema or grammar that cannot be read or is too large, with the reason.
    pub fn read(fields: Fields<'_>, after_thought: bool) -> Result<Option<Rule>, ApiError> {
        let rule = |field: &str, source| Rule { field: field.into(), source, after_thought };
        if let Some(format) = fields.object("response_format")? {
            return Ok(of_format("response_format", format)?.map(|source| rule("response_format", source)));
        }
        if let Some(format) = fields.object("text")?.map(|text| text.object("format")).transpose()?.flatten() {
            return Ok(of_format("text.format", format)?.map(|source| rule("text.format", source)));
        }
        if let Some(schema) = fields.get("json_schema") {
            return Ok(Some(rule("json_schema", of_schema("json_schema", schema.clone())?)));
        }
        match fields.text("grammar")?.filter(|grammar| !grammar.trim().is_empty()) {
            Some(source) => Ok(Some(rule("grammar", of_gbnf(source)?))),
            None => Ok(None),
        }
    }

    /// That a text is JSON by this schema, which this field has.
    ///
    /// # Errors
    /// A schema that is none or is too large.
    pub fn of_schema(field: &str, schema: Value, after_thought: bool) -> Result<Rule, ApiError> {
        Ok(Rule { field: field.into(), source: of_schema(field, schema)?, after_thought })
    }

    /// Nothing but calls of these tools, in the form in which the model writes them.
    ///
    /// # Errors
    /// Parameters that no grammar can be made of.
    pub fn of_tools(tools: &Tools, form: CallForm, after_thought: bool) -> Result<Rule, ApiError> {
        let lark = tools::grammar(tools, form).map_err(|problem| ApiError::field("tools", problem))?;
        Ok(Rule { field: "tools".into(), source: Source::Lark(lark), after_thought })
    }
}

fn of_gbnf(source: &str) -> Result<Source, ApiError> {
    let wrong = |problem: String| ApiError::field("grammar", problem);
    if source.len() > SOURCE_BYTES {
        return Err(wrong(format!("it is longer than {SOURCE_BYTES} bytes")));
    }
    let lark = gbnf::to_lark(source).map_err(wrong)?;
    if lark.len() > LARK_BYTES {
        return Err(wrong(format!("it becomes longer than {LARK_BYTES} bytes when it is translated")));
    }
    Ok(Source::Lark(lark))
}

fn of_format(field: &str, format: Fields<'_>) -> Result<Option<Source>, ApiError> {
    let schema = match format.text("type")?.unwrap_or("text") {
        "text" => return Ok(None),
        "json_object" => format.get("schema").cloned().unwrap_or_else(|| json!({ "type": "object" })),
        "json_schema" => {
            // Chat has the schema one object deeper than responses.
            let within = format.object("json_schema")?.unwrap_or(format);
            let schema = within.get("schema").cloned();
            schema.ok_or_else(|| ApiError::field(field, "it has no schema"))?
        }
        other => return Err(ApiError::field(field, format!("there is no type '{other}'"))),
    };
    of_schema(field, schema).map(Some)
}

fn of_schema(field: &str, mut schema: Value) -> Result<Source, ApiError> {
    let wrong = |problem: String| ApiError::field(field, problem);
    if !schema.is_object() && !schema.is_boolean() {
        return Err(wrong("the schema is not an object".into()));
    }
    if schema == json!(true) {
        schema = json!({});
    }
    schema::check(&schema).map_err(|problem| wrong(format!("the schema {problem}")))?;
    schema::close(&mut schema);
    if let Some(schema) = schema.as_object_mut() {
        // Between two parts: nothing, a space, or a new line, as in llama-server. What the request says under this name
        // is the library's business and not a client's.
        let spaces = json!({ "whitespace_pattern": format!("( |\\n{{1,2}}[ \\t]{{0,{MOST_SPACES}}})?") });
        schema.insert("x-guidance".into(), spaces);
    }
    Ok(Source::Schema(schema.to_string()))
}
