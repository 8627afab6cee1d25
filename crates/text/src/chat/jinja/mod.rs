//! The template language of chat templates: Jinja as Hugging Face runs it, in a sandbox.
//!
//! Why not a general engine: templates come inside downloaded models, and an error must stay an
//! error. In minijinja 3.0.5 `{% set ns.x = ns %}{{ ns }}` overflows the stack and ends the process,
//! `{{ ''[::-1] }}` panics, and its fuel counts instructions while a loop of `x ~ x` doubles memory
//! at each. Here every step and every byte of every value is paid for from a [`Limits`] budget,
//! values cannot form cycles and nest to a bounded depth. Nor does a general engine tell what the template wrote from
//! what it was given, see `marks`. The tests compare with Jinja2 itself.
//!
//! In the language: text, expressions, `if`, `for` (with a filter and `else`), `set` (also of
//! blocks and namespace attributes), `macro`, `call`, `filter`, `with`, `break`, `continue`, `raw`;
//! `generation` marks are read and ignored. Blocks and comments trim the newline after them and the
//! indentation before them. Values print as in Python. Not in it: inheritance, includes, imports,
//! recursive loops, unpacked arguments, changing of lists and mappings, autoescaping.

mod access;
mod arguments;
mod arithmetic;
mod ast;
mod budget;
mod checks;
mod compare;
mod error;
mod eval;
mod eval_expr;
mod filters;
mod functions;
mod lexer;
mod marks;
mod methods;
mod parse_expr;
mod parser;
mod print;
mod printf;
mod run;
mod text;
mod time;
mod value;

pub use budget::Limits;
pub use error::{Limit, TemplateError};

pub(super) use marks::Marked;

use super::words::Words;
use serde_json::Value as Json;
use std::time::SystemTime;

/// A template, parsed.
#[derive(Debug)]
pub(super) struct Template {
    body: Vec<ast::Stmt>,
    names: parser::Names,
}

impl Template {
    pub(super) fn parse(source: &str) -> Result<Template, TemplateError> {
        let (body, names) = parser::parse(source)?;
        Ok(Template { body, names })
    }

    /// Whether it reads a variable.
    pub(super) fn reads(&self, name: &str) -> bool {
        self.names.read.contains(name)
    }

    /// Whether it tests a variable, as those do that have something of their own in place of one that is missing.
    pub(super) fn tests(&self, name: &str) -> bool {
        self.names.tested.contains(name)
    }

    /// The text of the template with the given variables, and whose words these are.
    pub(super) fn render(
        &self,
        variables: &[(&str, &Json, Words)],
        limits: Limits,
        now: SystemTime,
    ) -> Result<Marked, TemplateError> {
        let globals = |budget: &mut budget::Budget| {
            let values = variables.iter().map(|(name, json, words)| {
                let value = value::Value::from_json(json, *words, budget)?;
                Ok(((*name).into(), value))
            });
            values.collect()
        };
        eval::run(&self.body, globals, limits, time::Moment::of(now))
    }
}

/// A time in UTC by a format of `strftime`; `None` if it is no such format.
pub(super) fn strftime(time: SystemTime, format: &str) -> Option<String> {
    time::Moment::of(time).format(format).ok()
}

#[cfg(test)]
mod tests;
