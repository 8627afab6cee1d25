//! Tokens to statements. Expressions are in `parse_expr.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ast::{Applied, Expr, For, Macro, Stmt, StmtKind, Target};
use super::budget::{MAX_NESTING, MAX_SOURCE_BYTES};
use super::error::{Limit, TemplateError};
use super::lexer::{Token, tokenize};

pub(super) type Parsed<T> = Result<T, TemplateError>;

/// The names in a template.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Those whose value is read somewhere.
    pub(super) read: BTreeSet<Arc<str>>,
    /// Those that a test or a filter is applied to, such as `is defined`.
    pub(super) tested: BTreeSet<Arc<str>>,
}

/// The statements of a template and the names in them.
pub(super) fn parse(source: &str) -> Parsed<(Vec<Stmt>, Names)> {
    if source.len() > MAX_SOURCE_BYTES {
        return Err(TemplateError::Limit { line: 1, limit: Limit::Source });
    }
    let mut parser = Parser { tokens: tokenize(source)?, at: 0, depth: 0, names: Names::default() };
    let (body, _) = parser.body(&[])?;
    Ok((body, parser.names))
}

pub(super) struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    depth: usize,
    pub(super) names: Names,
}

impl Parser {
    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    pub(super) fn peek_after(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead).map(|(token, _)| token)
    }

    pub(super) fn line(&self) -> u32 {
        let here = self.tokens.get(self.at).or(self.tokens.last());
        here.map_or(1, |&(_, line)| line)
    }

    pub(super) fn next(&mut self) -> Option<Token> {
        let (token, _) = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token.clone())
    }

    pub(super) fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(TemplateError::Syntax { line: self.line(), message: message.into() })
    }

    pub(super) fn is_op(&self, op: &str) -> bool {
        matches!(self.peek(), Some(Token::Op(found)) if *found == op)
    }

    pub(super) fn is_name(&self, name: &str) -> bool {
        matches!(self.peek(), Some(Token::Name(found)) if found == name)
    }

    pub(super) fn take_op(&mut self, op: &str) -> bool {
        let found = self.is_op(op);
        self.at += usize::from(found);
        found
    }

    pub(super) fn take_name(&mut self, name: &str) -> bool {
        let found = self.is_name(name);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect_op(&mut self, op: &str) -> Parsed<()> {
        if self.take_op(op) {
            return Ok(());
        }
        self.unexpected(&format!("{op:?}"))
    }

    pub(super) fn expect_name(&mut self, what: &str) -> Parsed<Arc<str>> {
        match self.peek() {
            Some(Token::Name(name)) => {
                let name = name.as_str().into();
                self.at += 1;
                Ok(name)
            }
            _ => self.unexpected(what),
        }
    }

    pub(super) fn unexpected<T>(&self, wanted: &str) -> Parsed<T> {
        let found = match self.peek() {
            None => "the end of the template".into(),
            Some(Token::Text(_)) => "text".into(),
            Some(Token::PrintStart | Token::BlockStart) => "the start of a tag".into(),
            Some(Token::PrintEnd | Token::BlockEnd) => "the end of the tag".into(),
            Some(Token::Name(name)) => format!("{name:?}"),
            Some(Token::Str(_)) => "a string".into(),
            Some(Token::Int(_) | Token::Float(_)) => "a number".into(),
            Some(Token::Op(op)) => format!("{op:?}"),
        };
        self.error(format!("expected {wanted}, found {found}"))
    }

    /// Goes one level down; the caller comes back up with [`leave`](Self::leave).
    pub(super) fn enter(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(self.too_deep());
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn too_deep(&self) -> TemplateError {
        TemplateError::Limit { line: self.line(), limit: Limit::Depth }
    }

    fn end_block(&mut self) -> Parsed<()> {
        if matches!(self.peek(), Some(Token::BlockEnd)) {
            self.at += 1;
            return Ok(());
        }
        self.unexpected("the end of the tag")
    }

    /// Statements up to a block whose name is in `ends`, which is taken with its start but not its
    /// end; with no `ends`, up to the end of the template.
    fn body(&mut self, ends: &[&str]) -> Parsed<(Vec<Stmt>, String)> {
        self.enter()?;
        let mut body = vec![];
        loop {
            let line = self.line();
            let kind = match self.next() {
                None if ends.is_empty() => {
                    self.leave();
                    return Ok((body, String::new()));
                }
                None => return self.error(format!("{:?} is missing", ends[ends.len() - 1])),
                Some(Token::Text(text)) => StmtKind::Text(text.into()),
                Some(Token::PrintStart) => {
                    let value = self.tuple_or_expr()?;
                    if !matches!(self.next(), Some(Token::PrintEnd)) {
                        self.at -= 1;
                        return self.unexpected("the end of the tag");
                    }
                    StmtKind::Emit(value)
                }
                Some(Token::BlockStart) => {
                    let name = self.expect_name("a statement")?;
                    if ends.contains(&&*name) {
                        self.leave();
                        return Ok((body, name.to_string()));
                    }
                    match self.statement(&name)? {
                        Some(kind) => kind,
                        None => continue,
                    }
                }
                Some(_) => return self.error("a tag is missing"),
            };
            body.push(Stmt { line, kind });
        }
    }

    /// The statements up to `end`, whose tag is taken whole.
    fn body_until(&mut self, end: &str) -> Parsed<Vec<Stmt>> {
        let (body, _) = self.body(&[end])?;
        // `endmacro name` and the like are allowed.
        if matches!(self.peek(), Some(Token::Name(_))) {
            self.at += 1;
        }
        self.end_block()?;
        Ok(body)
    }

    fn statement(&mut self, name: &str) -> Parsed<Option<StmtKind>> {
        Ok(Some(match name {
            "if" => self.if_statement()?,
            "for" => self.for_statement()?,
            "set" => self.set_statement()?,
            "macro" => {
                let name = self.expect_name("the name of the macro")?;
                let params = self.params()?;
                self.end_block()?;
                let body = self.body_until("endmacro")?;
                StmtKind::Macro(Arc::new(Macro { name, params, body }))
            }
            "call" => self.call_statement()?,
            "filter" => {
                let mut filters = vec![self.applied()?];
                filters.extend(self.filters()?);
                self.end_block()?;
                let body = self.body_until("endfilter")?;
                StmtKind::FilterBlock { filters, body }
            }
            "with" => self.with_statement()?,
            "break" => {
                self.end_block()?;
                StmtKind::Break
            }
            "continue" => {
                self.end_block()?;
                StmtKind::Continue
            }
            // Marks what the assistant wrote, for training; it prints its body.
            "generation" | "endgeneration" => {
                self.end_block()?;
                return Ok(None);
            }
            "include" | "import" | "from" | "extends" | "block" | "autoescape" | "do" => {
                return self.error(format!("chat templates have no {name:?}"));
            }
            other => return self.error(format!("unknown statement {other:?}")),
        }))
    }

    fn if_statement(&mut self) -> Parsed<StmtKind> {
        let mut branches = vec![];
        loop {
            let condition = self.expr()?;
            self.end_block()?;
            let (body, end) = self.body(&["elif", "else", "endif"])?;
            branches.push((condition, body));
            if end == "elif" {
                continue;
            }
            self.end_block()?;
            let otherwise = if end == "else" { self.body_until("endif")? } else { vec![] };
            return Ok(StmtKind::If { branches, otherwise });
        }
    }

    fn for_statement(&mut self) -> Parsed<StmtKind> {
        let target = self.target()?;
        if !self.take_name("in") {
            return self.unexpected("\"in\"");
        }
        // A conditional expression would take the `if` of the filter.
        let items = self.tuple_of(Parser::or_expr)?;
        let condition = if self.take_name("if") { Some(self.expr()?) } else { None };
        if self.is_name("recursive") {
            return self.error("recursive loops are not supported");
        }
        self.end_block()?;
        let (body, end) = self.body(&["else", "endfor"])?;
        self.end_block()?;
        let otherwise = if end == "else" { self.body_until("endfor")? } else { vec![] };
        Ok(StmtKind::For(For { target, items, condition, body, otherwise }))
    }

    fn set_statement(&mut self) -> Parsed<StmtKind> {
        let target = self.target()?;
        if self.take_op("=") {
            let value = self.tuple_or_expr()?;
            self.end_block()?;
            return Ok(StmtKind::Set(target, value));
        }
        let filters = self.filters()?;
        self.end_block()?;
        let body = self.body_until("endset")?;
        Ok(StmtKind::SetBlock { target, filters, body })
    }

    fn call_statement(&mut self) -> Parsed<StmtKind> {
        let params = if self.is_op("(") { self.params()? } else { vec![] };
        let call = self.expr()?;
        self.end_block()?;
        let body = self.body_until("endcall")?;
        let name = "caller".into();
        let caller = Arc::new(Macro { name, params, body });
        Ok(StmtKind::CallBlock { call, caller })
    }

    fn with_statement(&mut self) -> Parsed<StmtKind> {
        let mut assignments = vec![];
        while !matches!(self.peek(), Some(Token::BlockEnd) | None) {
            if !assignments.is_empty() {
                self.expect_op(",")?;
            }
            let name = self.expect_name("a variable")?;
            self.expect_op("=")?;
            assignments.push((Target::Name(name), self.expr()?));
        }
        self.end_block()?;
        let body = self.body_until("endwith")?;
        Ok(StmtKind::With { assignments, body })
    }

    fn params(&mut self) -> Parsed<Vec<(Arc<str>, Option<Expr>)>> {
        self.expect_op("(")?;
        let mut params = vec![];
        while !self.take_op(")") {
            if !params.is_empty() {
                self.expect_op(",")?;
                if self.take_op(")") {
                    break;
                }
            }
            let name = self.expect_name("a parameter")?;
            let default = if self.take_op("=") { Some(self.expr()?) } else { None };
            params.push((name, default));
        }
        Ok(params)
    }

    /// `|name(args)|name…`
    fn filters(&mut self) -> Parsed<Vec<Applied>> {
        let mut filters = vec![];
        while self.take_op("|") {
            filters.push(self.applied()?);
        }
        Ok(filters)
    }

    fn target(&mut self) -> Parsed<Target> {
        let first = self.target_item()?;
        if !self.is_op(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.take_op(",") && matches!(self.peek(), Some(Token::Name(_) | Token::Op("("))) {
            items.push(self.target_item()?);
        }
        Ok(Target::Tuple(items))
    }

    fn target_item(&mut self) -> Parsed<Target> {
        if self.take_op("(") {
            self.enter()?;
            let inner = self.target()?;
            self.leave();
            self.expect_op(")")?;
            return Ok(inner);
        }
        let name = self.expect_name("a variable")?;
        if self.take_op(".") {
            return Ok(Target::Attribute(name, self.expect_name("an attribute")?));
        }
        Ok(Target::Name(name))
    }
}
