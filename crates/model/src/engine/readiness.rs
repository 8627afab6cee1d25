//! Which programs an engine has, for whoever reports it beside the thread that runs the steps.

use crate::step::{Output, Variant};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far a program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being compiled; another stands in for it.
    Compiling,
    /// It runs the steps that are its own.
    Ready,
}

/// What an engine has come to.
#[derive(Debug, Default)]
pub struct Readiness {
    programs: Mutex<BTreeMap<Variant, State>>,
    stood_in: AtomicU64,
}

impl Readiness {
    /// The programs that were asked for so far.
    pub fn programs(&self) -> Vec<(Variant, State)> {
        self.lock().iter().map(|(&variant, &state)| (variant, state)).collect()
    }

    /// Tokens that were computed by another program than the one that is meant for their step.
    pub fn stood_in(&self) -> u64 {
        self.stood_in.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, tokens: usize) {
        self.stood_in.fetch_add(tokens as u64, Ordering::Relaxed);
    }

    /// A program is as far as this; `None` if it failed.
    pub(super) fn note(&self, variant: Variant, state: Option<State>) {
        match state {
            Some(state) => self.lock().insert(variant, state),
            None => self.lock().remove(&variant),
        };
    }

    /// Nothing is half done under this lock.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Variant, State>> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            State::Compiling => "compiling",
            State::Ready => "ready",
        })
    }
}

/// What a program is for, in words: `2 to 8 tokens`, `prompts, hidden states`.
impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.class.words())?;
        match self.output {
            Output::Logits => Ok(()),
            Output::Hidden => f.write_str(", hidden states"),
            Output::Scores => f.write_str(", scores of texts"),
            Output::Likeliest => f.write_str(", the likeliest next"),
            Output::Drawn => f.write_str(", the next drawn"),
        }
    }
}
