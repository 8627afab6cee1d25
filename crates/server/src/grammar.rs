//! Output that follows a JSON schema or a grammar: which tokens may come next is asked of `llguidance`.
//!
//! A request's grammar is a [`Rule`] at first, read within the bounds of [`budget`]; [`Grammars`] compiles it to a
//! [`Grammar`], of which each text begins one of its own. `llguidance` recurses and takes what time and memory it wants,
//! so it runs in processes that may end ([`fork_server`]). Where there are none ([`Isolation::Here`]), a grammar can take
//! the server with it.

pub mod budget;
#[cfg(unix)]
mod cache;
#[cfg(unix)]
pub mod fork_server;
mod matcher;
#[cfg(unix)]
mod process;
mod rule;
mod ruled;
#[cfg(unix)]
mod system;
mod turns;
mod vocabulary;
mod wire;

pub use rule::{Rule, Source};

use crate::error::ApiError;
use axum::http::StatusCode;
#[cfg(unix)]
use cache::Cache;
use matcher::{Compiler, Matcher};
use model::scheduler::Constraint;
#[cfg(unix)]
use process::{ForkServer, GrammarProcess, TextProcess};
use ruled::{Ruled, Text};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use text::tokenizer::Tokenizer;
use turns::Turns;
use vocabulary::Vocabulary;

/// Where grammars are compiled and followed.
#[derive(Clone, Debug, Default)]
pub enum Isolation {
    /// In this process: nothing but the limits of `llguidance` and of [`budget`] for sources protects it.
    #[default]
    Here,
    /// In processes of their own, which this program makes.
    #[cfg(unix)]
    Processes(Program),
}

/// How to start a fork server.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// What makes it call [`fork_server::main`].
    pub arguments: Vec<OsString>,
}

#[cfg(unix)]
impl Program {
    /// This program, which calls [`fork_server::main`] for [`fork_server::COMMAND`].
    ///
    /// # Errors
    /// A program that does not know where it lies.
    pub fn this() -> std::io::Result<Program> {
        // What runs, even when its file was replaced meanwhile.
        let path = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
        Ok(Program { path, arguments: vec![fork_server::COMMAND.into()] })
    }
}

/// Why there is no grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failed {
    /// It cannot be used, and never will be.
    Refused(String),
    /// It needs more than it may have.
    OutOfBudget(String),
    /// Too many others want the same.
    Busy(String),
    /// Our own fault, or the machine's.
    Unwell(String),
}

/// Compiles grammars for a vocabulary.
pub struct Grammars {
    vocabulary: Arc<Vocabulary>,
    compiles: Compiles,
}

/// Who compiles.
enum Compiles {
    /// This process, with what is made when it is first needed.
    Here(Arc<OnceLock<Result<Compiler, String>>>, Turns),
    #[cfg(unix)]
    Processes(Cache),
}

/// A grammar that was understood.
#[derive(Clone)]
pub struct Grammar {
    compiled: Kind,
    vocabulary: Arc<Vocabulary>,
    after_thought: bool,
}

#[derive(Clone)]
enum Kind {
    Here(Box<Matcher>),
    #[cfg(unix)]
    Process(Arc<GrammarProcess>),
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
    /// A vocabulary without an end.
    pub fn new(tokenizer: &Tokenizer, isolation: Isolation) -> Result<Grammars, String> {
        let vocabulary = Arc::new(Vocabulary::of(tokenizer)?);
        let compiles = match isolation {
            Isolation::Here => Compiles::Here(Arc::default(), Turns::new()),
            #[cfg(unix)]
            Isolation::Processes(program) => Compiles::Processes(Cache::new(ForkServer::new(program))),
        };
        Ok(Grammars { vocabulary, compiles })
    }

    /// Compiles a rule. To drop the future ends the compile, but in [`Isolation::Here`].
    ///
    /// # Errors
    /// 400 for a grammar that cannot be used or needs more than it may have, 429 when too many others want the same.
    pub async fn compile(&self, rule: &Rule) -> Result<Grammar, ApiError> {
        let vocabulary = self.vocabulary.clone();
        let compiled = match &self.compiles {
            Compiles::Here(compiler, turns) => here(compiler, turns, &vocabulary, &rule.source).await.map(Kind::Here),
            #[cfg(unix)]
            Compiles::Processes(cache) => cache.compiled(&vocabulary, &rule.source).await.map(Kind::Process),
        };
        let after_thought = rule.after_thought;
        match compiled {
            Ok(compiled) => Ok(Grammar { compiled, vocabulary, after_thought }),
            Err(failed) => Err(failed.told(&rule.field)),
        }
    }
}

/// Compiles in this process, on a thread with a deep stack.
async fn here(
    compiler: &Arc<OnceLock<Result<Compiler, String>>>,
    turns: &Turns,
    vocabulary: &Arc<Vocabulary>,
    source: &Source,
) -> Result<Box<Matcher>, Failed> {
    let _turn = turns.take().await?;
    let (compiler, vocabulary, source) = (compiler.clone(), vocabulary.clone(), source.clone());
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let compile = move || {
        let words = || vocabulary.words().map(Vec::from).collect::<Vec<_>>();
        let compiled = match compiler.get_or_init(|| Compiler::new(&words(), vocabulary.eos)) {
            Ok(compiler) => compiler.compile(&source).map(Box::new).map_err(Failed::Refused),
            Err(why) => Err(Failed::Unwell(why.clone())),
        };
        // Whoever has left does not want it.
        let _ = sender.send(compiled);
    };
    let thread = std::thread::Builder::new().name("grammar".into()).stack_size(budget::STACK).spawn(compile);
    thread.map_err(|error| Failed::Unwell(error.to_string()))?;
    receiver.await.unwrap_or_else(|_| Err(Failed::Unwell("the grammar was not compiled (internal error)".into())))
}

impl Failed {
    /// As an error of a request that asked by this field.
    fn told(self, field: &str) -> ApiError {
        match self {
            Failed::Refused(problem) | Failed::OutOfBudget(problem) => {
                ApiError::field(field, format!("it cannot be used: {problem}"))
            }
            Failed::Busy(problem) => {
                let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", problem);
                ApiError { retry_after: Some(1), ..error }
            }
            Failed::Unwell(problem) => ApiError::unavailable(problem),
        }
    }
}

impl Grammar {
    /// Rules one text from its beginning.
    pub fn begin(&self) -> Box<dyn Constraint> {
        let text = match &self.compiled {
            Kind::Here(matcher) => Text::Here(Box::new(matcher.begin())),
            #[cfg(unix)]
            Kind::Process(grammar) => Text::Process(TextProcess::new(grammar.clone())),
        };
        Box::new(Ruled::new(text, self.vocabulary.clone(), self.after_thought))
    }
}

#[cfg(test)]
mod tests;
