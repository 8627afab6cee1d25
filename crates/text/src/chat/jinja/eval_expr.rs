//! Running a template: expressions and calls.

use std::sync::Arc;

use super::access;
use super::arguments::Arguments;
use super::arithmetic;
use super::ast::{Args, Comparison, Expr, ExprKind};
use super::compare;
use super::error::Fault;
use super::run::Run;
use super::value::Value;
use super::{checks, filters, functions, methods};

impl Run {
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<Value, Fault> {
        self.enter()?;
        self.line = expr.line;
        let value = self.kind(expr)?;
        self.leave();
        Ok(value)
    }

    /// The value of a part of an expression on `line`, which is the current line again after it.
    fn part(&mut self, part: &Expr, line: u32) -> Result<Value, Fault> {
        let value = self.expr(part)?;
        self.line = line;
        Ok(value)
    }

    fn kind(&mut self, expr: &Expr) -> Result<Value, Fault> {
        let line = expr.line;
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(literal.into()),
            ExprKind::Name(name) => self.name(name),
            ExprKind::List(items) => {
                let items = self.exprs(items)?;
                Value::list(items, &mut self.budget)
            }
            ExprKind::Tuple(items) => {
                let items = self.exprs(items)?;
                Value::tuple(items, &mut self.budget)
            }
            ExprKind::Dict(entries) => self.dict(entries),
            ExprKind::Attribute(object, name) => {
                let object = self.part(object, line)?;
                access::attribute(&object, name, &mut self.budget)
            }
            ExprKind::Item(object, key) => {
                let object = self.expr(object)?;
                let key = self.part(key, line)?;
                access::item(&object, &key, &mut self.budget)
            }
            ExprKind::Slice(object, bounds) => self.slice(object, bounds),
            ExprKind::Call(callee, args) => self.call(callee, args, None),
            ExprKind::Filter(value, filter) => {
                let value = self.expr(value)?;
                let args = self.args(&filter.args)?;
                self.line = line;
                filters::apply(self, &filter.name, value, args)
            }
            ExprKind::Test { value, test, negated } => {
                let value = self.expr(value)?;
                let args = self.args(&test.args)?;
                self.line = line;
                let holds = checks::check(self, &test.name, &value, args)?;
                Ok(Value::Bool(holds != *negated))
            }
            ExprKind::Negative(operand) => negative(self.part(operand, line)?),
            ExprKind::Positive(operand) => match self.part(operand, line)? {
                number if number.as_float().is_some() => Ok(number),
                other => Fault::new(format!("a {} has no sign", other.type_name())),
            },
            ExprKind::Not(operand) => Ok(Value::Bool(!self.expr(operand)?.is_true())),
            ExprKind::Binary(op, a, b) => {
                let a = self.expr(a)?;
                let b = self.part(b, line)?;
                arithmetic::binary(*op, &a, &b, &mut self.budget)
            }
            ExprKind::Compare(first, rest) => self.compare(first, rest),
            ExprKind::And(a, b) => {
                let a = self.expr(a)?;
                if a.is_true() { self.expr(b) } else { Ok(a) }
            }
            ExprKind::Or(a, b) => {
                let a = self.expr(a)?;
                if a.is_true() { Ok(a) } else { self.expr(b) }
            }
            ExprKind::Conditional { condition, then, otherwise } => {
                if self.expr(condition)?.is_true() {
                    return self.expr(then);
                }
                match otherwise {
                    Some(otherwise) => self.expr(otherwise),
                    None => Ok(Value::undefined("a conditional expression without else")),
                }
            }
        }
    }

    fn name(&mut self, name: &Arc<str>) -> Result<Value, Fault> {
        if let Some(value) = self.lookup(name)? {
            return Ok(value);
        }
        Ok(match functions::named(name) {
            Some(function) => Value::Function(function),
            None => Value::Undefined(name.clone()),
        })
    }

    fn exprs(&mut self, exprs: &[Expr]) -> Result<Vec<Value>, Fault> {
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn dict(&mut self, entries: &[(Expr, Expr)]) -> Result<Value, Fault> {
        let mut dict: Vec<(Value, Value)> = vec![];
        for (key, value) in entries {
            let (key, value) = (self.expr(key)?, self.expr(value)?);
            functions::put(&mut dict, key, value, &mut self.budget)?;
        }
        Value::map(dict, &mut self.budget)
    }

    fn slice(&mut self, object: &Expr, bounds: &[Option<Box<Expr>>; 3]) -> Result<Value, Fault> {
        let object = self.expr(object)?;
        let mut places = [None; 3];
        for (place, bound) in places.iter_mut().zip(bounds) {
            let Some(bound) = bound else { continue };
            let value = self.expr(bound)?;
            *place = match value.as_int() {
                None if matches!(value, Value::None) => None,
                None => return Fault::new(format!("a {} cannot bound a slice", value.type_name())),
                int => int,
            };
        }
        access::slice(&object, places, &mut self.budget)
    }

    fn compare(&mut self, first: &Expr, rest: &[(Comparison, Expr)]) -> Result<Value, Fault> {
        let mut left = self.expr(first)?;
        for (comparison, right) in rest {
            let right = self.expr(right)?;
            if !compare::holds(*comparison, &left, &right, &mut self.budget)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    pub(super) fn args(&mut self, args: &Args) -> Result<Arguments, Fault> {
        let positional = self.exprs(&args.positional)?;
        let named = args.named.iter();
        let named = named.map(|(name, value)| Ok((name.clone(), self.expr(value)?)));
        let named = named.collect::<Result<_, Fault>>()?;
        Ok(Arguments { positional, named })
    }

    /// Calls the macro that `call` calls, with `caller` as its caller.
    pub(super) fn call_with_caller(&mut self, call: &Expr, caller: Value) -> Result<Value, Fault> {
        match &call.kind {
            ExprKind::Call(callee, args) => self.call(callee, args, Some(caller)),
            _ => Fault::new("a call block calls nothing"),
        }
    }

    fn call(&mut self, callee: &Expr, args: &Args, caller: Option<Value>) -> Result<Value, Fault> {
        let line = self.line;
        if let ExprKind::Attribute(object, method) = &callee.kind {
            let object = self.expr(object)?;
            let args = self.args(args)?;
            self.line = line;
            return match &object {
                Value::Namespace(_) => {
                    let value = access::attribute(&object, method, &mut self.budget)?;
                    self.call_value(&value, method, args, caller)
                }
                _ => methods::call(self, &object, method, args),
            };
        }
        let name = match &callee.kind {
            ExprKind::Name(name) => name.clone(),
            _ => "the value".into(),
        };
        let value = self.expr(callee)?;
        let args = self.args(args)?;
        self.line = line;
        self.call_value(&value, &name, args, caller)
    }

    fn call_value(
        &mut self,
        value: &Value,
        name: &str,
        args: Arguments,
        caller: Option<Value>,
    ) -> Result<Value, Fault> {
        match value {
            Value::Function(function) => functions::call(self, *function, args),
            Value::Macro(definition, scope) => {
                let params = &definition.params;
                if args.positional.len() > params.len() {
                    let (wanted, given) = (params.len(), args.positional.len());
                    return Fault::new(format!("macro {name:?} takes {wanted} arguments, not {given}"));
                }
                let mut bound: Vec<Option<Value>> = args.positional.into_iter().map(Some).collect();
                bound.resize(params.len(), None);
                for (arg, value) in args.named {
                    match params.iter().position(|(param, _)| *param == arg) {
                        Some(at) if bound[at].is_none() => bound[at] = Some(value),
                        Some(_) => return Fault::new(format!("macro {name:?} gets {arg:?} twice")),
                        None => return Fault::new(format!("macro {name:?} has no {arg:?}")),
                    }
                }
                self.call_macro(definition, *scope, bound, caller)
            }
            Value::Undefined(_) => Fault::new(format!("{name} is undefined and cannot be called")),
            other => Fault::new(format!("a {} cannot be called", other.type_name())),
        }
    }
}

fn negative(value: Value) -> Result<Value, Fault> {
    let negated = match &value {
        Value::Float(float) => Some(Value::Float(-float)),
        other => other.as_int().and_then(i64::checked_neg).map(Value::Int),
    };
    negated.map_or_else(|| Fault::new(format!("a {} cannot be negated", value.type_name())), Ok)
}
