//! `/api/chat`.

use super::line::Head;
use super::reply::{Form, Loaded, Reply};
use super::{format, keep_alive, options, think};
use crate::api::chat::{Begun, Rendered, functions, parses_special, render_conversation};
use crate::app::App;
use crate::body::Body;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Model;
use crate::settings::Settings;
use crate::stream::Prepared;
use crate::tools::{Choice, Tools};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use text::chat::{ChatTemplate, Conversation};

/// Prepares an answer.
///
/// # Errors
/// A request that makes no sense.
pub fn begin(app: &Arc<App>, model: &Arc<Model>, body: &Body) -> Result<Prepared, ApiError> {
    let fields = body.fields();
    let head = Head::new(fields, model)?;
    let mut settings = options::read(fields, model)?;
    settings.stay = keep_alive::stay(fields)?;
    let messages = fields.list("messages")?.unwrap_or_default();
    if messages.is_empty() {
        let loaded = Loaded { head, form: Form::Chat, unloads: keep_alive::unloads(settings.stay) };
        return Ok(Prepared { prompts: vec![], settings, protocol: Box::new(loaded) });
    }
    let rendered = render(messages, fields, model)?;
    settings.rule = format::read(fields, rendered.prompt.opens_reasoning)?;
    rendered.require_calls(&mut settings)?;
    let reply = reply(head, Form::Chat, &settings, &rendered, app, model);
    Ok(Prepared { prompts: vec![rendered.tokens], settings, protocol: Box::new(reply) })
}

/// How the answer to a rendered conversation is told. Calls come whole, as their arguments are an object.
pub(super) fn reply(
    head: Head,
    form: Form,
    settings: &Settings,
    rendered: &Rendered,
    app: &App,
    model: &Arc<Model>,
) -> Reply {
    let mut reply = Reply::new(head, form, settings.stream, rendered.parser(false));
    reply.scores_of = settings.sampling.logprobs.map(|_| model.clone());
    reply.ids = app.id("call_");
    reply
}

fn render(messages: &[Value], fields: Fields<'_>, model: &Model) -> Result<Rendered, ApiError> {
    let messages = messages.iter().map(message).collect::<Result<_, _>>()?;
    let mut conversation = Conversation::new(messages);
    let tools = Tools::choose(functions(fields)?, Choice::Auto)?;
    if !tools.functions.is_empty() && !model.template.as_ref().map_or(true, ChatTemplate::takes_tools) {
        return Err(ApiError::invalid(format!("\"{}\" does not support tools", model.name())));
    }
    conversation.tools.clone_from(&tools.functions);
    think::apply(&mut conversation, fields, model)?;
    conversation.parse_special = parses_special(fields, model)?;
    let begun = Begun::take(&mut conversation);
    render_conversation(&conversation, begun, tools, false, model)
}

/// A message in the form of templates.
fn message(given: &Value) -> Result<Value, ApiError> {
    let wrong = |problem: &str| ApiError::field("messages", problem);
    let fields = Fields::of(given).map_err(|_| wrong("a message is no object"))?;
    options::refuse_images(fields)?;
    let role = fields.text("role")?.ok_or_else(|| wrong("a message without a role"))?;
    let mut message = Map::new();
    message.insert("role".into(), role.into());
    message.insert("content".into(), fields.text("content")?.unwrap_or_default().into());
    if let Some(thinking) = fields.text("thinking")?.filter(|thinking| !thinking.is_empty()) {
        message.insert("reasoning_content".into(), thinking.into());
    }
    for (theirs, ours) in [("tool_name", "name"), ("tool_call_id", "tool_call_id")] {
        if let Some(text) = fields.text(theirs)? {
            message.insert(ours.into(), text.into());
        }
    }
    let calls = fields.list("tool_calls")?.unwrap_or_default();
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.iter().map(call).collect::<Result<_, _>>()?);
    }
    Ok(Value::Object(message))
}

/// A call in the form of OpenAI's chat, whose arguments are text.
fn call(given: &Value) -> Result<Value, ApiError> {
    let name = given["function"]["name"].as_str();
    let name = name.ok_or_else(|| ApiError::field("messages", "a call of a tool without a name"))?;
    let arguments = match &given["function"]["arguments"] {
        Value::String(text) => text.clone(),
        Value::Null => "{}".into(),
        object => object.to_string(),
    };
    let function = json!({ "name": name, "arguments": arguments });
    let id = given["id"].as_str().unwrap_or(name);
    Ok(json!({ "id": id, "type": "function", "function": function }))
}
