//! What `llguidance` does for us, in whichever process: a vocabulary is prepared, a grammar compiled, a mask computed.
//!
//! Its time and its memory cannot be bounded from within, and it recurses; see [`super::fork_server`].

use super::budget::{ERROR_BYTES, LEXER_FUEL, LEXER_STATES, STEP_FUEL, STEP_ITEMS, SYMBOLS};
use super::rule::Source;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher as Parser, ParserFactory};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Says that the library gave up in a way that it did not foresee.
const TOO_COMPLEX: &str = "it is too complex for the grammar library";

/// Compiles grammars for a vocabulary.
pub struct Compiler {
    factory: ParserFactory,
}

/// A grammar at some place of a text.
#[derive(Clone)]
pub struct Matcher(Parser);

impl Compiler {
    /// For these words, of which one ends a text.
    ///
    /// # Errors
    /// A vocabulary that cannot be used.
    pub fn new(words: &[Vec<u8>], eos: u32) -> Result<Compiler, String> {
        let trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, eos), words);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&environment).map_err(|e| cleaned(&e.to_string()))?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        limits.initial_lexer_fuel = LEXER_FUEL;
        limits.step_lexer_fuel = STEP_FUEL;
        limits.step_max_items = STEP_ITEMS;
        limits.max_lexer_states = LEXER_STATES;
        limits.max_grammar_size = SYMBOLS;
        Ok(Compiler { factory })
    }

    /// Compiles a grammar.
    ///
    /// # Errors
    /// Why it cannot be used, in one line.
    pub fn compile(&self, source: &Source) -> Result<Matcher, String> {
        let grammar = match source {
            Source::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
            Source::Schema(text) => {
                TopLevelGrammar::from_json_schema(serde_json::from_str(text).map_err(|e| cleaned(&e.to_string()))?)
            }
        };
        let parser = catch_unwind(AssertUnwindSafe(|| Parser::new(self.factory.create_parser(grammar))));
        let parser = parser.map_err(|_| TOO_COMPLEX)?;
        match parser.get_error() {
            Some(problem) => Err(cleaned(&problem)),
            None => Ok(Matcher(parser)),
        }
    }
}

impl Matcher {
    /// One that goes on by itself.
    pub fn begin(&self) -> Matcher {
        Matcher(self.0.deep_clone())
    }

    /// Which tokens may come next: bit `id % 32` of word `id / 32`.
    ///
    /// # Errors
    /// Why nothing can come.
    pub fn mask(&mut self) -> Result<Vec<u32>, String> {
        let mask = self.0.compute_mask_or_eos();
        Ok(mask.map_err(|e| format!("the grammar allows nothing: {}", cleaned(&e.to_string())))?.as_slice().to_vec())
    }

    /// A token was taken.
    ///
    /// # Errors
    /// Why it should not have been.
    pub fn accept(&mut self, token: u32) -> Result<(), String> {
        let taken = self.0.consume_token(token);
        taken.map_err(|e| format!("the grammar does not go on: {}", cleaned(&e.to_string())))
    }
}

/// The first line of what the library says, in bounds; its panics are nobody's business.
fn cleaned(problem: &str) -> String {
    if problem.contains("panic: ") {
        return TOO_COMPLEX.into();
    }
    let line: String = problem.lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().find(|(at, c)| at + c.len_utf8() > ERROR_BYTES) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
