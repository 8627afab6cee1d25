//! Running a template: statements and macros. Expressions are in `eval_expr.rs`.

use std::rc::Rc;
use std::sync::Arc;

use super::ast::{Applied, For, Macro, Stmt, StmtKind, Target};
use super::budget::{Budget, Builder, Limits};
use super::error::{Fault, TemplateError};
use super::filters;
use super::marks::{Marked, Text};
use super::print::print;
use super::run::Run;
use super::time::Moment;
use super::value::{Loop, Value};

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
    let mut run = Run::new(limits, now);
    let result = globals(&mut run.budget).and_then(|variables| {
        run.begin(variables);
        run.statements(body)
    });
    match result {
        Ok(_) => Ok(run.result()),
        Err(fault) => Err(fault.at(run.line)),
    }
}

impl Run {
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
                let value = self.filtered(text, filters)?;
                self.assign(target, value)?;
            }
            StmtKind::Macro(definition) => {
                let scope = self.scope();
                let value = Value::Macro(definition.clone(), scope);
                self.store(&definition.name, value)?;
            }
            StmtKind::CallBlock { call, caller } => self.call_block(call, caller)?,
            StmtKind::FilterBlock { filters, body } => {
                let text = self.captured(|run| run.scoped(None, |run| run.body(body)))?;
                let value = self.filtered(text, filters)?;
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

    /// The value after all of `filters`.
    fn filtered(&mut self, mut value: Value, filters: &[Applied]) -> Result<Value, Fault> {
        for filter in filters {
            let args = self.args(&filter.args)?;
            value = filters::apply(self, &filter.name, value, args)?;
        }
        Ok(value)
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
        let scope = self.scope();
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
