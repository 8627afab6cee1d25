//! Output that follows a JSON schema or a grammar: which tokens may come next is asked of `llguidance`.
//!
//! A grammar rules what the model says, not what it thinks: after a prompt that opens the thinking tag, everything goes
//! until that tag is closed. What a grammar may use is bounded, and one that needs more is refused.

use crate::error::ApiError;
use crate::fields::Fields;
use crate::gbnf;
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

    fn of_schema(&self, field: &str, schema: Value, after_thought: bool) -> Result<Grammar, ApiError> {
        if !schema.is_object() && !schema.is_boolean() {
            return Err(ApiError::field(field, "the schema is not an object"));
        }
        if schema.to_string().len() > MOST_BYTES {
            return Err(ApiError::field(field, format!("the schema is longer than {MOST_BYTES} bytes")));
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
mod tests {
    use super::*;
    use crate::tools::Choice;
    use model::chat::{Delta, OutputParser};
    use model::tokenizer::TokenizerData;

    /// Tokens of one character, and those of which calls are made.
    fn tokenizer() -> Tokenizer {
        let mut data = TokenizerData {
            model: "llama".into(),
            architecture: "llama".into(),
            bos: Some(0),
            eos: Some(1),
            add_space_prefix: Some(false),
            ..TokenizerData::default()
        };
        let mut add = |token: &str, kind: i32| {
            data.tokens.push(token);
            data.token_type.push(kind);
            data.scores.push(0.0);
        };
        ["<s>", "</s>"].iter().for_each(|token| add(token, 3));
        // In some files these are control tokens, in others words that a user defined.
        CallForm::TAGS.iter().enumerate().for_each(|(at, tag)| add(tag, if at % 2 == 0 { 3 } else { 4 }));
        add("</think>", 3);
        (b' '..=b'~').for_each(|byte| add(&char::from(byte).to_string().replace(' ', "▁"), 1));
        ["\n", "\t", "é", "\": ", "weather"].iter().for_each(|token| add(token, 1));
        Tokenizer::new(data).expect("a tokenizer")
    }

    fn functions() -> Vec<Value> {
        let properties = json!({
            "city": { "type": "string" },
            "unit": { "type": "string", "enum": ["C", "F"] },
            "days": { "type": "integer" },
            "when": { "$ref": "#/$defs/when" },
        });
        let definitions = json!({ "when": { "type": "array", "items": { "type": "boolean" }, "maxItems": 3 } });
        let parameters = json!({ "type": "object", "properties": properties, "required": ["city", "days"],
            "$defs": definitions, "additionalProperties": false });
        vec![
            json!({ "type": "function", "function": { "name": "weather", "parameters": parameters } }),
            json!({ "type": "function", "function": { "name": "now", "description": "the \"time\"" } }),
        ]
    }

    /// A text of tokens that are chosen by chance among those that may come; long texts go for the end.
    fn written(grammar: &Grammar, tokenizer: &Tokenizer, seed: u64) -> String {
        let mut constraint = grammar.begin();
        let mut random = seed;
        let mut text = vec![];
        for step in 0..4000 {
            let mut logits = vec![0.0; tokenizer.vocab_len()];
            constraint.mask(&mut logits).expect("something may come");
            let may: Vec<u32> = (0..logits.len() as u32).filter(|&id| logits[id as usize] == 0.0).collect();
            if may.contains(&1) && (may.len() == 1 || step % 3 == 0) {
                return String::from_utf8(text).expect("text");
            }
            let may: Vec<u32> = may.into_iter().filter(|&id| id != 1).collect();
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let short = |id: &&u32| match tokenizer.token_bytes(**id).unwrap_or_default() {
                b"</arg_value>" | b"</think>" => true,
                bytes => matches!(bytes, b"\"" | b"}" | b"]" | b"," | b"\": "),
            };
            let ends: Vec<&u32> = may.iter().filter(short).collect();
            let take = (random >> 33) as usize;
            let id = if !ends.is_empty() && take.is_multiple_of(4) {
                *ends[take / 4 % ends.len()]
            } else {
                may[take % may.len()]
            };
            constraint.accept(id).expect("it may come");
            text.extend_from_slice(tokenizer.token_bytes(id).unwrap_or_default());
        }
        panic!("no end: {}", String::from_utf8_lossy(&text))
    }

    /// The calls of a text, and all that is no call.
    fn calls(text: &str, tools: &Tools, pieces: bool, thinks: bool) -> (Vec<(String, Value)>, String) {
        let parser = OutputParser::new(thinks, &tools.functions);
        let mut parser = if pieces { parser.in_pieces() } else { parser };
        let (mut calls, mut rest) = (vec![], String::new());
        for delta in parser.push(text).into_iter().chain(parser.finish()) {
            match delta {
                Delta::Call(name) => calls.push((name, String::new())),
                Delta::Arguments(more) => calls.last_mut().expect("a call").1 += &more,
                Delta::Content(text) => rest += &text,
                Delta::Reasoning(_) => {}
            }
        }
        let object = |text: String| serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        (calls.into_iter().map(|(name, text)| (name, object(text))).collect(), rest)
    }

    fn check_weather(arguments: &Value) {
        // For a schema, -0.0 is an integer.
        let is_whole = arguments["days"].as_f64().is_some_and(|days| days.fract() == 0.0);
        assert!(arguments["city"].is_string() && is_whole, "{arguments}");
        assert!(arguments.get("unit").is_none_or(|unit| unit == "C" || unit == "F"), "{arguments}");
        let flags = arguments.get("when").map(|when| when.as_array().expect("a list"));
        assert!(flags.is_none_or(|flags| flags.len() <= 3 && flags.iter().all(Value::is_boolean)), "{arguments}");
    }

    #[test]
    fn whatever_comes_under_a_required_choice_is_a_call() {
        let tokenizer = tokenizer();
        let grammars = Grammars::new(&tokenizer).expect("grammars");
        for form in [CallForm::Tagged, CallForm::TaggedLines, CallForm::Pairs, CallForm::Bare] {
            for (choice, thinks) in [(Choice::Any, false), (Choice::Any, true), (Choice::One("weather"), false)] {
                let tools = Tools::choose(functions(), choice).expect("tools");
                let grammar = grammars.of_tools(&tools, form, thinks).expect("a grammar");
                let mut several = 0;
                for seed in 0..12 {
                    let text = written(&grammar, &tokenizer, seed);
                    let (whole, rest) = calls(&text, &tools, false, thinks);
                    assert!(!whole.is_empty() && rest.trim().is_empty(), "{form:?}: {text}");
                    assert_eq!(whole, calls(&text, &tools, true, thinks).0, "{form:?}: {text}");
                    several += usize::from(whole.len() > 1);
                    for (name, arguments) in &whole {
                        match name.as_str() {
                            "weather" => check_weather(arguments),
                            name => assert_eq!((name, arguments, choice), ("now", &json!({}), Choice::Any)),
                        }
                    }
                }
                assert!(several == 0 || !tools.one_call, "one call is all that was wanted");
            }
        }
    }

    #[test]
    fn odd_parameters_are_no_reason_to_refuse_a_tool() {
        let tokenizer = tokenizer();
        let grammars = Grammars::new(&tokenizer).expect("grammars");
        for parameters in [
            json!({}),
            json!({ "type": "object" }),
            json!({ "type": "object", "properties": { "a\"b": { "type": ["string", "null"] }, "c": {} } }),
            json!({ "type": "object", "properties": { "u": { "type": "string", "format": "nonsense", "x-y": 1 } } }),
            json!(true),
        ] {
            let tool = json!({ "type": "function", "function": { "name": "f", "parameters": parameters } });
            let tools = Tools::choose(vec![tool], Choice::Any).expect("tools");
            for form in [CallForm::Tagged, CallForm::Pairs, CallForm::Bare] {
                let grammar = grammars.of_tools(&tools, form, false).unwrap_or_else(|e| panic!("{parameters}: {e:?}"));
                written(&grammar, &tokenizer, 3);
            }
        }
    }
}
