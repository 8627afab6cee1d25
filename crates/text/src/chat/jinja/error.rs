//! What can go wrong with a template.

use gguf::plain::{QUOTE, lines};
use thiserror::Error;

/// A template that cannot be read or rendered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// The source is not a template of the supported language.
    #[error("chat template, line {line}: {}", lines(message, QUOTE))]
    Syntax {
        /// Line of the template, from 1.
        line: u32,
        /// What is wrong there.
        message: String,
    },
    /// An expression has no value.
    #[error("chat template, line {line}: {}", lines(message, QUOTE))]
    Evaluation {
        /// Line of the template, from 1.
        line: u32,
        /// What is wrong there.
        message: String,
    },
    /// The template called `raise_exception`: it does not accept these messages.
    #[error("the chat template refuses the conversation: {}", lines(message, QUOTE))]
    Raised {
        /// Line of the template, from 1.
        line: u32,
        /// The template's own words.
        message: String,
    },
    /// The template used more than it may.
    #[error("chat template, line {line}: {limit}")]
    Limit {
        /// Line of the template, from 1.
        line: u32,
        /// What it used up.
        limit: Limit,
    },
}

/// The limits that a template can run into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Limit {
    /// Steps of evaluation.
    #[error("the template takes too many steps")]
    Steps,
    /// Bytes of all values made.
    #[error("the template uses too much memory")]
    Memory,
    /// Bytes of output.
    #[error("the template writes too much")]
    Output,
    /// Macros, blocks and expressions inside each other.
    #[error("the template nests too deeply")]
    Depth,
    /// Bytes of source.
    #[error("the template is too long")]
    Source,
}

/// An error on its way to the line it gets reported with.
#[derive(Debug)]
pub(super) enum Fault {
    Message(String),
    Raised(String),
    Limit(Limit),
}

impl From<Limit> for Fault {
    fn from(limit: Limit) -> Fault {
        Fault::Limit(limit)
    }
}

impl Fault {
    pub(super) fn new<T>(message: impl Into<String>) -> Result<T, Fault> {
        Err(Fault::Message(message.into()))
    }

    pub(super) fn at(self, line: u32) -> TemplateError {
        match self {
            Fault::Message(message) => TemplateError::Evaluation { line, message },
            Fault::Raised(message) => TemplateError::Raised { line, message },
            Fault::Limit(limit) => TemplateError::Limit { line, limit },
        }
    }
}
