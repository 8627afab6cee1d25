//! The state of a rendering: budget, scopes of variables, output.

use std::sync::Arc;

use super::budget::{Budget, Limits, MAX_DEPTH};
use super::error::{Fault, Limit};
use super::marks::{Marked, RANGE_BYTES, Text};
use super::time::Moment;
use super::value::Value;

/// One rendering.
pub(super) struct Run {
    pub(super) budget: Budget,
    pub(super) now: Moment,
    /// The line being run, for errors.
    pub(super) line: u32,
    scopes: Vec<Scope>,
    /// Where output goes: the result, and on top of it the captures of macros and blocks.
    outputs: Vec<Marked>,
    longest_output: usize,
    depth: usize,
    /// Loops around what is being run.
    pub(super) loops: usize,
}

#[derive(Default)]
struct Scope {
    variables: Vec<(Arc<str>, Value)>,
    /// The scope that sees through to this one's outside.
    parent: Option<usize>,
}

impl Run {
    /// A rendering that has not begun.
    pub(super) fn new(limits: Limits, now: Moment) -> Run {
        Run {
            budget: Budget::new(limits),
            now,
            line: 1,
            scopes: vec![],
            outputs: vec![Marked::default()],
            longest_output: limits.output,
            depth: 0,
            loops: 0,
        }
    }

    /// Opens the outermost scope.
    pub(super) fn begin(&mut self, variables: Vec<(Arc<str>, Value)>) {
        self.scopes.push(Scope { variables, parent: None });
    }

    /// What was written.
    pub(super) fn result(mut self) -> Marked {
        self.outputs.swap_remove(0)
    }

    /// The innermost scope.
    pub(super) fn scope(&self) -> usize {
        self.scopes.len() - 1
    }

    /// Goes one level down; the caller comes back up with [`leave`](Self::leave).
    pub(super) fn enter(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Limit::Depth.into());
        }
        self.budget.step()
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// The variable of this name, from the innermost scope outwards.
    pub(super) fn lookup(&mut self, name: &str) -> Result<Option<Value>, Fault> {
        let mut at = self.scopes.len().checked_sub(1);
        while let Some(scope) = at.and_then(|at| self.scopes.get(at)) {
            self.budget.steps(1 + scope.variables.len() / 8)?;
            let mut variables = scope.variables.iter();
            if let Some((_, value)) = variables.find(|(other, _)| &**other == name) {
                return Ok(Some(value.clone()));
            }
            at = scope.parent;
        }
        Ok(None)
    }

    /// Sets a variable of the innermost scope.
    pub(super) fn store(&mut self, name: &Arc<str>, value: Value) -> Result<(), Fault> {
        let Some(scope) = self.scopes.last_mut() else {
            return Ok(());
        };
        self.budget.steps(1 + scope.variables.len() / 8)?;
        match scope.variables.iter_mut().find(|(other, _)| other == name) {
            Some((_, slot)) => *slot = value,
            None => scope.variables.push((name.clone(), value)),
        }
        Ok(())
    }

    /// Runs `inside` in a scope of its own, below the current one or below `parent`.
    pub(super) fn scoped<T>(
        &mut self,
        parent: Option<usize>,
        inside: impl FnOnce(&mut Run) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let last = self.scopes.len().checked_sub(1);
        // A macro may have outlived the scope it was defined in; it then sees the current one.
        let parent = parent.filter(|&at| Some(at) <= last).or(last);
        self.scopes.push(Scope { parent, ..Scope::default() });
        let result = inside(self);
        self.scopes.pop();
        result
    }

    /// Writes to the result, or to the capture on top of it.
    pub(super) fn write(&mut self, text: &Text) -> Result<(), Fault> {
        self.budget.make(text.len())?;
        let is_result = self.outputs.len() == 1;
        if let Some(output) = self.outputs.last_mut() {
            if is_result && output.text.len() + text.len() > self.longest_output {
                return Err(Limit::Output.into());
            }
            let marks = output.data.len();
            output.push_part(text, 0..text.len());
            self.budget.make((output.data.len() - marks).saturating_mul(RANGE_BYTES))?;
        }
        Ok(())
    }

    /// The output of `inside`.
    pub(super) fn captured(&mut self, inside: impl FnOnce(&mut Run) -> Result<(), Fault>) -> Result<Value, Fault> {
        self.outputs.push(Marked::default());
        let result = inside(self);
        let output = self.outputs.pop().unwrap_or_default();
        result.map(|()| Value::Str(output.into()))
    }
}
