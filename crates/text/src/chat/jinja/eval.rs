//! Running a template: statements and scopes. Expressions are in `eval_expr.rs`.

use std::rc::Rc;
use std::sync::Arc;

use super::ast::{For, Macro, Stmt, StmtKind, Target};
use super::budget::{Budget, Builder, Limits, MAX_DEPTH};
use super::error::{Fault, Limit, TemplateError};
use super::filters;
use super::marks::{Marked, RANGE_BYTES, Text};
use super::print::print;
use super::time::Moment;
use super::value::{Loop, Value};

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
    loops: usize,
}

#[derive(Default)]
struct Scope {
    variables: Vec<(Arc<str>, Value)>,
    /// The scope that sees through to this one's outside.
    parent: Option<usize>,
}

/// How a statement ends.
enum Flow {
    Next,
    Break,
    Continue,
}

/// Renders `body` with `globals`.
pub(super) fn run(
    body: &[Stmt],
    globals: impl FnOnce(&mut Budget) -> Result<Vec<(Arc<str>, Value)>, Fault>,
    limits: Limits,
    now: Moment,
) -> Result<Marked, TemplateError> {
    let mut run = Run {
        budget: Budget::new(limits),
        now,
        line: 1,
        scopes: vec![],
        outputs: vec![Marked::default()],
        longest_output: limits.output,
        depth: 0,
        loops: 0,
    };
    let result = globals(&mut run.budget).and_then(|variables| {
        run.scopes.push(Scope { variables, parent: None });
        run.statements(body)
    });
    match result {
        Ok(_) => Ok(run.outputs.swap_remove(0)),
        Err(fault) => Err(fault.at(run.line)),
    }
}

impl Run {
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

    fn store(&mut self, name: &Arc<str>, value: Value) -> Result<(), Fault> {
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

    fn write(&mut self, text: &Text) -> Result<(), Fault> {
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

    pub(super) fn body(&mut self, body: &[Stmt]) -> Result<(), Fault> {
        self.statements(body).map(drop)
    }

    fn statements(&mut self, body: &[Stmt]) -> Result<Flow, Fault> {
        self.enter()?;
        for statement in body {
            self.line = statement.line;
            self.budget.step()?;
            match self.statement(&statement.kind)? {
                Flow::Next => {}
                flow => {
                    self.leave();
                    return Ok(flow);
                }
            }
        }
        self.leave();
        Ok(Flow::Next)
    }

    fn statement(&mut self, kind: &StmtKind) -> Result<Flow, Fault> {
        match kind {
            StmtKind::Text(text) => self.write(&Text::own(text.clone()))?,
            StmtKind::Emit(value) => {
                let value = self.expr(value)?;
                self.emit(&value)?;
            }
            StmtKind::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if self.expr(condition)?.is_true() {
                        return self.statements(body);
                    }
                }
                return self.statements(otherwise);
            }
            StmtKind::For(each) => self.for_loop(each)?,
            StmtKind::Set(target, value) => {
                let value = self.expr(value)?;
                self.assign(target, value)?;
            }
            StmtKind::SetBlock { target, filters, body } => {
                let text = self.captured(|run| run.scoped(None, |run| run.body(body)))?;
                let value = filters::apply_all(self, text, filters)?;
                self.assign(target, value)?;
            }
            StmtKind::Macro(definition) => {
                let scope = self.scopes.len() - 1;
                let value = Value::Macro(definition.clone(), scope);
                self.store(&definition.name, value)?;
            }
            StmtKind::CallBlock { call, caller } => self.call_block(call, caller)?,
            StmtKind::FilterBlock { filters, body } => {
                let text = self.captured(|run| run.scoped(None, |run| run.body(body)))?;
                let value = filters::apply_all(self, text, filters)?;
                self.emit(&value)?;
            }
            StmtKind::With { assignments, body } => {
                return self.scoped(None, |run| {
                    for (target, value) in assignments {
                        let value = run.expr(value)?;
                        run.assign(target, value)?;
                    }
                    run.statements(body)
                });
            }
            StmtKind::Break => return Ok(Flow::Break),
            StmtKind::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn emit(&mut self, value: &Value) -> Result<(), Fault> {
        if let Value::Str(text) = value {
            return self.write(text);
        }
        let mut out = Builder::new(&mut self.budget);
        print(value, &mut out)?;
        let text = out.finish();
        self.write(&text)
    }

    fn assign(&mut self, target: &Target, value: Value) -> Result<(), Fault> {
        match target {
            Target::Name(name) => self.store(name, value),
            Target::Tuple(targets) => {
                let items = value.items(&mut self.budget)?;
                if items.items.len() != targets.len() {
                    let (found, wanted) = (items.items.len(), targets.len());
                    return Fault::new(format!("{found} values cannot fill {wanted} variables"));
                }
                for (target, item) in targets.iter().zip(&items.items) {
                    self.assign(target, item.clone())?;
                }
                Ok(())
            }
            Target::Attribute(object, attribute) => {
                let Some(Value::Namespace(entries)) = self.lookup(object)? else {
                    return Fault::new(format!("{object:?} is not a namespace: it cannot be changed"));
                };
                if !value.is_free() {
                    let kind = value.type_name();
                    return Fault::new(format!("a namespace cannot hold a {kind} of this kind"));
                }
                self.budget.steps(entries.borrow().len() / 8)?;
                let mut entries = entries.borrow_mut();
                match entries.iter_mut().find(|(other, _)| other == attribute) {
                    Some((_, slot)) => *slot = value,
                    None => entries.push((attribute.clone(), value)),
                }
                Ok(())
            }
        }
    }

    fn for_loop(&mut self, each: &For) -> Result<(), Fault> {
        let items = self.expr(&each.items)?.items(&mut self.budget)?;
        let items = match &each.condition {
            None => items,
            Some(condition) => {
                let mut kept = vec![];
                for item in &items.items {
                    let keep = self.scoped(None, |run| {
                        run.assign(&each.target, item.clone())?;
                        run.expr(condition)
                    })?;
                    if keep.is_true() {
                        kept.push(item.clone());
                    }
                }
                Value::list(kept, &mut self.budget)?.items(&mut self.budget)?
            }
        };
        if items.items.is_empty() {
            return self.scoped(None, |run| run.body(&each.otherwise));
        }
        self.loops += 1;
        let seen = Rc::default();
        let name: Arc<str> = "loop".into();
        for (index, item) in items.items.iter().enumerate() {
            let state =
                Value::Loop(Rc::new(Loop { index, items: items.clone(), depth: self.loops, seen: Rc::clone(&seen) }));
            let flow = self.scoped(None, |run| {
                run.store(&name, state)?;
                run.assign(&each.target, item.clone())?;
                run.statements(&each.body)
            })?;
            if let Flow::Break = flow {
                break;
            }
        }
        self.loops -= 1;
        Ok(())
    }

    fn call_block(&mut self, call: &super::ast::Expr, caller: &Arc<Macro>) -> Result<(), Fault> {
        let scope = self.scopes.len() - 1;
        let caller = Value::Macro(caller.clone(), scope);
        let value = self.call_with_caller(call, caller)?;
        self.emit(&value)
    }

    /// The output of a macro. `args` are its parameters in order; what is `None` takes its default.
    pub(super) fn call_macro(
        &mut self,
        definition: &Macro,
        scope: usize,
        args: Vec<Option<Value>>,
        caller: Option<Value>,
    ) -> Result<Value, Fault> {
        self.enter()?;
        let line = self.line;
        let text = self.captured(|run| {
            run.scoped(Some(scope), |run| {
                if let Some(caller) = caller {
                    run.store(&"caller".into(), caller)?;
                }
                for ((name, default), arg) in definition.params.iter().zip(args) {
                    let value = match (arg, default) {
                        (Some(value), _) => value,
                        (None, Some(default)) => run.expr(default)?,
                        (None, None) => Value::undefined(name),
                    };
                    run.store(name, value)?;
                }
                run.body(&definition.body)
            })
        })?;
        self.line = line;
        self.leave();
        Ok(text)
    }
}
