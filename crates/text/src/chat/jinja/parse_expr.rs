//! Tokens to expressions, with the precedence of Jinja: `~` binds closer than `+`, and a filter
//! closer than any operator.

use std::sync::Arc;

use super::ast::{Applied, Args, Binary, Comparison, Expr, ExprKind, Literal};
use super::budget::MAX_CHAIN;
use super::lexer::Token;
use super::parser::{Parsed, Parser};

/// How close an operator binds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Or,
    And,
    Not,
    Compare,
    Add,
    Concat,
    Multiply,
    Power,
    Unary,
}

impl Level {
    fn tighter(self) -> Level {
        match self {
            Level::Or => Level::And,
            Level::And => Level::Not,
            Level::Not => Level::Compare,
            Level::Compare => Level::Add,
            Level::Add => Level::Concat,
            Level::Concat => Level::Multiply,
            Level::Multiply => Level::Power,
            Level::Power | Level::Unary => Level::Unary,
        }
    }
}

enum Infix {
    Or,
    And,
    Compare(Comparison),
    Operate(Binary),
}

impl Parser {
    /// A whole expression, `a if b else c` included.
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.enter()?;
        let mut value = self.infix(Level::Or)?;
        while self.is_name("if") {
            let line = self.line();
            self.next();
            let condition = Box::new(self.infix(Level::Or)?);
            let otherwise = if self.take_name("else") { Some(Box::new(self.expr()?)) } else { None };
            let depths = [value.depth, condition.depth];
            let depth = otherwise.as_ref().map_or(0, |e| e.depth);
            let depth = depths.into_iter().fold(depth, usize::max);
            let kind = ExprKind::Conditional { condition, then: Box::new(value), otherwise };
            value = self.node(line, depth, kind)?;
        }
        self.leave();
        Ok(value)
    }

    /// An expression that does not end in `if`.
    pub(super) fn or_expr(&mut self) -> Parsed<Expr> {
        self.infix(Level::Or)
    }

    /// An expression, or several with commas between.
    pub(super) fn tuple_or_expr(&mut self) -> Parsed<Expr> {
        self.tuple_of(Parser::expr)
    }

    pub(super) fn tuple_of(&mut self, item: fn(&mut Parser) -> Parsed<Expr>) -> Parsed<Expr> {
        let line = self.line();
        let first = item(self)?;
        if !self.is_op(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.take_op(",") {
            let ended = matches!(self.peek(), None | Some(Token::PrintEnd | Token::BlockEnd | Token::Op(")")));
            if ended {
                break;
            }
            items.push(item(self)?);
        }
        let depth = deepest(&items);
        self.node(line, depth, ExprKind::Tuple(items))
    }

    fn node(&self, line: u32, below: usize, kind: ExprKind) -> Parsed<Expr> {
        let depth = below + 1;
        if depth > MAX_CHAIN {
            return Err(self.too_deep());
        }
        Ok(Expr { line, depth, kind })
    }

    fn infix(&mut self, level: Level) -> Parsed<Expr> {
        let line = self.line();
        let mut left = if level <= Level::Not && self.take_name("not") {
            self.enter()?;
            let operand = self.infix(Level::Not)?;
            self.leave();
            self.node(line, operand.depth, ExprKind::Not(Box::new(operand)))?
        } else {
            self.unary(true)?
        };
        while let Some((infix, op_level, tokens)) = self.peek_infix()
            && op_level >= level
        {
            let line = self.line();
            (0..tokens).for_each(|_| drop(self.next()));
            self.enter()?;
            let right = self.infix(op_level.tighter())?;
            self.leave();
            let depth = left.depth.max(right.depth);
            let (left_box, right_box) = (Box::new(left), Box::new(right));
            let kind = match infix {
                Infix::Or => ExprKind::Or(left_box, right_box),
                Infix::And => ExprKind::And(left_box, right_box),
                Infix::Operate(op) => ExprKind::Binary(op, left_box, right_box),
                Infix::Compare(op) => {
                    let mut rest = vec![(op, *right_box)];
                    self.compare_on(&mut rest)?;
                    ExprKind::Compare(left_box, rest)
                }
            };
            left = self.node(line, depth, kind)?;
        }
        Ok(left)
    }

    /// Goes on with `… < c < d`.
    fn compare_on(&mut self, rest: &mut Vec<(Comparison, Expr)>) -> Parsed<()> {
        while let Some((Infix::Compare(op), _, tokens)) = self.peek_infix() {
            (0..tokens).for_each(|_| drop(self.next()));
            rest.push((op, self.infix(Level::Compare.tighter())?));
        }
        Ok(())
    }

    /// The operator that comes next, its level, and how many tokens it has.
    fn peek_infix(&self) -> Option<(Infix, Level, usize)> {
        use {Comparison::*, Infix::*};
        Some(match self.peek()? {
            Token::Name(name) => match name.as_str() {
                "or" => (Or, Level::Or, 1),
                "and" => (And, Level::And, 1),
                "in" => (Compare(In), Level::Compare, 1),
                "not" if matches!(self.peek_after(1), Some(Token::Name(n)) if n == "in") => {
                    (Compare(NotIn), Level::Compare, 2)
                }
                _ => return None,
            },
            Token::Op(op) => match *op {
                "==" => (Compare(Equal), Level::Compare, 1),
                "!=" => (Compare(NotEqual), Level::Compare, 1),
                "<" => (Compare(Less), Level::Compare, 1),
                "<=" => (Compare(LessOrEqual), Level::Compare, 1),
                ">" => (Compare(Greater), Level::Compare, 1),
                ">=" => (Compare(GreaterOrEqual), Level::Compare, 1),
                "+" => (Operate(Binary::Add), Level::Add, 1),
                "-" => (Operate(Binary::Subtract), Level::Add, 1),
                "~" => (Operate(Binary::Concat), Level::Concat, 1),
                "*" => (Operate(Binary::Multiply), Level::Multiply, 1),
                "/" => (Operate(Binary::Divide), Level::Multiply, 1),
                "//" => (Operate(Binary::FloorDivide), Level::Multiply, 1),
                "%" => (Operate(Binary::Modulo), Level::Multiply, 1),
                "**" => (Operate(Binary::Power), Level::Power, 1),
                _ => return None,
            },
            _ => return None,
        })
    }

    fn unary(&mut self, with_filters: bool) -> Parsed<Expr> {
        let line = self.line();
        let mut value = if self.is_op("-") || self.is_op("+") {
            let negative = self.is_op("-");
            self.next();
            self.enter()?;
            let operand = self.unary(false)?;
            self.leave();
            let depth = operand.depth;
            let operand = Box::new(operand);
            let kind = if negative { ExprKind::Negative(operand) } else { ExprKind::Positive(operand) };
            self.node(line, depth, kind)?
        } else {
            let primary = self.primary()?;
            self.postfix(primary)?
        };
        if !with_filters {
            return Ok(value);
        }
        loop {
            let line = self.line();
            if self.take_op("|") {
                self.note_tested(&value);
                let filter = self.applied()?;
                let depth = value.depth.max(args_depth(&filter.args));
                value = self.node(line, depth, ExprKind::Filter(Box::new(value), filter))?;
            } else if self.take_name("is") {
                self.note_tested(&value);
                let negated = self.take_name("not");
                let test = self.test()?;
                let depth = value.depth.max(args_depth(&test.args));
                let kind = ExprKind::Test { value: Box::new(value), test, negated };
                value = self.node(line, depth, kind)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn note_tested(&mut self, value: &Expr) {
        if let ExprKind::Name(name) = &value.kind {
            self.names.tested.insert(name.clone());
        }
    }

    /// A filter's name and arguments.
    pub(super) fn applied(&mut self) -> Parsed<Applied> {
        let name = self.expect_name("the name of a filter")?;
        let args = if self.is_op("(") { self.args()? } else { Args::default() };
        Ok(Applied { name, args })
    }

    /// A test's name and arguments; a single argument needs no brackets.
    fn test(&mut self) -> Parsed<Applied> {
        let name = self.expect_name("the name of a test")?;
        let bare = match self.peek() {
            Some(Token::Name(name)) => {
                let goes_on = ["else", "or", "and", "if", "in", "not", "is", "recursive"];
                !goes_on.contains(&name.as_str())
            }
            Some(Token::Str(_) | Token::Int(_) | Token::Float(_)) => true,
            Some(Token::Op(op)) => matches!(*op, "[" | "{"),
            _ => false,
        };
        let mut args = Args::default();
        if self.is_op("(") {
            args = self.args()?;
        } else if bare {
            self.enter()?;
            let primary = self.primary()?;
            args.positional.push(self.postfix(primary)?);
            self.leave();
        }
        Ok(Applied { name, args })
    }

    fn args(&mut self) -> Parsed<Args> {
        self.expect_op("(")?;
        let mut args = Args::default();
        let mut first = true;
        while !self.take_op(")") {
            if !first {
                self.expect_op(",")?;
                if self.take_op(")") {
                    break;
                }
            }
            first = false;
            if self.is_op("*") || self.is_op("**") {
                return self.error("unpacked arguments are not supported");
            }
            let is_named = matches!(self.peek_after(1), Some(Token::Op("=")));
            if is_named && let Some(Token::Name(name)) = self.peek() {
                let name: Arc<str> = name.as_str().into();
                self.next();
                self.next();
                args.named.push((name, self.expr()?));
            } else if args.named.is_empty() {
                args.positional.push(self.expr()?);
            } else {
                return self.error("a positional argument follows a named one");
            }
        }
        Ok(args)
    }

    fn postfix(&mut self, mut value: Expr) -> Parsed<Expr> {
        loop {
            let line = self.line();
            if self.take_op(".") {
                let depth = value.depth;
                let object = Box::new(value);
                let kind = match self.next() {
                    Some(Token::Name(name)) => ExprKind::Attribute(object, name.into()),
                    Some(Token::Int(index)) => {
                        let kind = ExprKind::Literal(Literal::Int(index));
                        ExprKind::Item(object, Box::new(self.node(line, 0, kind)?))
                    }
                    _ => return self.error("an attribute has no name"),
                };
                value = self.node(line, depth, kind)?;
            } else if self.take_op("[") {
                value = self.subscript(line, value)?;
            } else if self.is_op("(") {
                let args = self.args()?;
                let depth = value.depth.max(args_depth(&args));
                value = self.node(line, depth, ExprKind::Call(Box::new(value), args))?;
            } else {
                return Ok(value);
            }
        }
    }

    /// `[index]` or `[start:stop:step]` after its opening bracket.
    fn subscript(&mut self, line: u32, object: Expr) -> Parsed<Expr> {
        let mut depth = object.depth;
        let object = Box::new(object);
        let mut parts: [Option<Box<Expr>>; 3] = [None, None, None];
        let mut part = 0;
        while !self.take_op("]") {
            if self.take_op(":") {
                part += 1;
                if part > 2 {
                    return self.error("a slice has three parts at most");
                }
                continue;
            }
            if parts[part].is_some() {
                return self.unexpected("\"]\"");
            }
            let value = self.expr()?;
            depth = depth.max(value.depth);
            parts[part] = Some(Box::new(value));
        }
        let kind = match (part, parts) {
            (0, [Some(index), ..]) => ExprKind::Item(object, index),
            (0, _) => return self.error("an index is missing"),
            (_, parts) => ExprKind::Slice(object, parts),
        };
        self.node(line, depth, kind)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let line = self.line();
        let literal = |literal| ExprKind::Literal(literal);
        let kind = match self.peek() {
            Some(Token::Name(name)) => {
                let kind = match name.as_str() {
                    "true" | "True" => literal(Literal::Bool(true)),
                    "false" | "False" => literal(Literal::Bool(false)),
                    "none" | "None" => literal(Literal::None),
                    "if" | "else" | "and" | "or" | "not" | "in" | "is" => {
                        return self.unexpected("a value");
                    }
                    name => {
                        let name: Arc<str> = name.into();
                        self.names.read.insert(name.clone());
                        ExprKind::Name(name)
                    }
                };
                self.next();
                kind
            }
            Some(Token::Str(_)) => {
                let mut text = String::new();
                // Strings beside each other are one.
                while let Some(Token::Str(part)) = self.peek() {
                    text.push_str(part);
                    self.next();
                }
                literal(Literal::Str(text.into()))
            }
            Some(&Token::Int(int)) => {
                self.next();
                literal(Literal::Int(int))
            }
            Some(&Token::Float(float)) => {
                self.next();
                literal(Literal::Float(float))
            }
            Some(Token::Op("(")) => return self.bracketed(line),
            Some(Token::Op("[")) => {
                self.next();
                let items = self.items("]")?;
                let depth = deepest(&items);
                return self.node(line, depth, ExprKind::List(items));
            }
            Some(Token::Op("{")) => return self.dict(line),
            _ => return self.unexpected("a value"),
        };
        self.node(line, 0, kind)
    }

    /// `()`, `(value)` or `(value, value)`.
    fn bracketed(&mut self, line: u32) -> Parsed<Expr> {
        self.next();
        if self.take_op(")") {
            return self.node(line, 0, ExprKind::Tuple(vec![]));
        }
        let value = self.tuple_or_expr()?;
        self.expect_op(")")?;
        Ok(value)
    }

    fn items(&mut self, end: &str) -> Parsed<Vec<Expr>> {
        let mut items = vec![];
        while !self.take_op(end) {
            if !items.is_empty() {
                self.expect_op(",")?;
                if self.take_op(end) {
                    break;
                }
            }
            items.push(self.expr()?);
        }
        Ok(items)
    }

    fn dict(&mut self, line: u32) -> Parsed<Expr> {
        self.next();
        let mut entries: Vec<(Expr, Expr)> = vec![];
        let mut depth = 0;
        while !self.take_op("}") {
            if !entries.is_empty() {
                self.expect_op(",")?;
                if self.take_op("}") {
                    break;
                }
            }
            let key = self.expr()?;
            self.expect_op(":")?;
            let value = self.expr()?;
            depth = depth.max(key.depth).max(value.depth);
            entries.push((key, value));
        }
        self.node(line, depth, ExprKind::Dict(entries))
    }
}

fn deepest(items: &[Expr]) -> usize {
    items.iter().map(|item| item.depth).max().unwrap_or(0)
}

fn args_depth(args: &Args) -> usize {
    let named = args.named.iter().map(|(_, value)| value.depth).max();
    deepest(&args.positional).max(named.unwrap_or(0))
}
