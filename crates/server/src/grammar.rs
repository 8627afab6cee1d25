//! Output that follows a JSON schema or a grammar: which tokens may come next is asked of `llguidance`.
//!
//! A grammar rules what the model says, not what it thinks: after a prompt that opens the thinking tag, everything goes
//! until that tag is closed. What a grammar may use is bounded, and one that needs more is refused.

use crate::error::ApiError;
use crate::fields::Fields;
use crate::gbnf;
use crate::schema;
use crate::tools::{self, Tools};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use model::chat::CallForm;
use model::scheduler::Constraint;
use model::tokenizer::{TokenKind, Tokenizer};
use serde_json::{Value, json};
use std::sync::Arc;

/// Bytes of a schema or a grammar at most.
const MOST_BYTES: usize = 1 << 20;

/// Spaces at the beginning of a line of an object at most: some models would never write anything else.
const MOST_SPACES: usize = 32;

const CLOSE: &[u8] = b"</think>";

/// What `llguidance` needs of a vocabulary, made once.
pub struct Grammars {
    factory: ParserFactory,
    /// The bytes of each token.
    pieces: Arc<[Box<[u8]>]>,
    ends: Arc<[u32]>,
    eos: u32,
}

/// A grammar that was understood.
#[derive(Clone)]
pub struct Grammar {
    matcher: Matcher,
    pieces: Arc<[Box<[u8]>]>,
    ends: Arc<[u32]>,
    eos: u32,
    after_thought: bool,
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammar").field("after_thought", &self.after_thought).finish_non_exhaustive()
    }
}

impl Grammars {
    /// For a vocabulary.
    ///
    /// # Errors
    /// A vocabulary without an end, or one that `llguidance` cannot use.
    pub fn new(tokenizer: &Tokenizer) -> Result<Grammars, String> {
        let ends: Arc<[u32]> = Arc::from(tokenizer.end_tokens());
        let eos = tokenizer.eos().or(ends.first().copied()).ok_or("the vocabulary has no end token")?;
        let count = tokenizer.vocab_len();
        let pieces: Vec<Box<[u8]>> =
            (0..count as u32).map(|id| Box::from(tokenizer.token_bytes(id).unwrap_or_default())).collect();
        let word = |id: usize| match tokenizer.kind(id as u32) {
            Some(TokenKind::Normal | TokenKind::Byte | TokenKind::UserDefined) => pieces[id].to_vec(),
            // Calls of tools are written with these.
            _ if CallForm::TAGS.iter().any(|tag| tag.as_bytes() == &*pieces[id]) => pieces[id].to_vec(),
            // Not text: no grammar of text can ask for it.
            _ => [&[0xff][..], &pieces[id]].concat(),
        };
        let words: Vec<Vec<u8>> = (0..count).map(word).collect();
        let trie = TokTrie::from(&TokRxInfo::new(count as u32, eos), &words);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&environment).map_err(|e| e.to_string())?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(Grammars { factory, pieces: pieces.into(), ends, eos })
    }

    /// The grammar that a request asks for, if any. `after_thought` says that the model thinks first.
    ///
    /// # Errors
    /// A schema or grammar that cannot be used, with the reason.
    pub fn read(&self, fields: Fields<'_>, after_thought: bool) -> Result<Option<Grammar>, ApiError> {
        if let Some(format) = fields.object("response_format")? {
            return self.of_format("response_format", format, after_thought);
        }
        if let Some(format) = fields.object("text")?.map(|text| text.object("format")).transpose()?.flatten() {
            return self.of_format("text.format", format, after_thought);
        }
        if let Some(schema) = fields.get("json_schema") {
            return self.of_schema("json_schema", schema.clone(), after_thought).map(Some);
        }
        match fields.text("grammar")?.filter(|grammar| !grammar.trim().is_empty()) {
            Some(source) => self.of_gbnf(source, after_thought).map(Some),
            None => Ok(None),
        }
    }

    /// Nothing but calls of these tools, in the form in which the model writes them.
    ///
    /// # Errors
    /// Parameters that no grammar can be made of.
    pub fn of_tools(&self, tools: &Tools, form: CallForm, after_thought: bool) -> Result<Grammar, ApiError> {
        let lark = tools::grammar(tools, form);
        if lark.len() > MOST_BYTES {
            return Err(ApiError::field("tools", format!("their parameters are longer than {MOST_BYTES} bytes")));
        }
        self.compile("tools", TopLevelGrammar::from_lark(lark), after_thought)
    }

    fn of_gbnf(&self, source: &str, after_thought: bool) -> Result<Grammar, ApiError> {
        if source.len() > MOST_BYTES {
            return Err(ApiError::field("grammar", format!("it is longer than {MOST_BYTES} bytes")));
        }
        let lark = gbnf::to_lark(source).map_err(|problem| ApiError::field("grammar", problem))?;
        self.compile("grammar", TopLevelGrammar::from_lark(lark), after_thought)
    }

    fn of_format(&self, field: &str, format: Fields<'_>, after_thought: bool) -> Result<Option<Grammar>, ApiError> {
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
        self.of_schema(field, schema, after_thought).map(Some)
    }

    fn of_schema(&self, field: &str, mut schema: Value, after_thought: bool) -> Result<Grammar, ApiError> {
        if !schema.is_object() && !schema.is_boolean() {
            return Err(ApiError::field(field, "the schema is not an object"));
        }
        if schema.to_string().len() > MOST_BYTES {
            return Err(ApiError::field(field, format!("the schema is longer than {MOST_BYTES} bytes")));
        }
        if schema == json!(true) {
            schema = json!({});
        }
        schema::close(&mut schema);
        if let Some(schema) = schema.as_object_mut() {
            // Between two parts: nothing, a space, or a new line, as in llama-server.
            let spaces = json!({ "whitespace_pattern": format!("( |\\n{{1,2}}[ \\t]{{0,{MOST_SPACES}}})?") });
            schema.entry("x-guidance").or_insert(spaces);
        }
        self.compile(field, TopLevelGrammar::from_json_schema(schema), after_thought)
    }

    fn compile(&self, field: &str, grammar: TopLevelGrammar, after_thought: bool) -> Result<Grammar, ApiError> {
        let matcher = Matcher::new(self.factory.create_parser(grammar));
        if let Some(problem) = matcher.get_error() {
            let problem = problem.lines().next().unwrap_or_default().to_owned();
            return Err(ApiError::field(field, format!("it cannot be used: {problem}")));
        }
        let (pieces, ends) = (self.pieces.clone(), self.ends.clone());
        Ok(Grammar { matcher, pieces, ends, eos: self.eos, after_thought })
    }
}

impl Grammar {
    /// Rules one text from its beginning.
    pub fn begin(&self) -> Box<dyn Constraint> {
        Box::new(Ruled {
            matcher: self.matcher.deep_clone(),
            pieces: self.pieces.clone(),
            ends: self.ends.clone(),
            eos: self.eos,
            thought: self.after_thought.then(Vec::new),
        })
    }
}

/// One text under a grammar.
struct Ruled {
    matcher: Matcher,
    pieces: Arc<[Box<[u8]>]>,
    ends: Arc<[u32]>,
    eos: u32,
    /// The end of what the model thinks, as long as it does.
    thought: Option<Vec<u8>>,
}

impl Constraint for Ruled {
    fn mask(&mut self, logits: &mut [f32]) -> Result<(), String> {
        if self.thought.is_some() {
            // Whoever ends here never says anything.
            self.ends.iter().for_each(|&id| logits[id as usize] = f32::NEG_INFINITY);
            return Ok(());
        }
        let mask = self.matcher.compute_mask_or_eos().map_err(|e| format!("the grammar allows nothing: {e}"))?;
        let may_end = mask.is_allowed(self.eos);
        let kept: Vec<(u32, f32)> = match may_end {
            true => self.ends.iter().map(|&id| (id, logits[id as usize])).collect(),
            false => vec![],
        };
        let known = self.pieces.len().min(logits.len());
        for (id, logit) in logits.iter_mut().enumerate() {
            if id >= known || !mask.is_allowed(id as u32) {
                *logit = f32::NEG_INFINITY;
            }
        }
        kept.into_iter().for_each(|(id, logit)| logits[id as usize] = logit);
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<(), String> {
        if let Some(thought) = &mut self.thought {
            thought.extend_from_slice(self.pieces.get(token as usize).map_or(&[][..], |piece| piece));
            let over = thought.windows(CLOSE.len()).any(|window| window == CLOSE);
            let beginning = thought.len().saturating_sub(CLOSE.len());
            thought.drain(..beginning);
            if over {
                self.thought = None;
            }
            return Ok(());
        }
        self.matcher.consume_token(token).map_err(|e| format!("the grammar does not go on: {e}"))
    }
}

#[cfg(test)]
mod tests;
