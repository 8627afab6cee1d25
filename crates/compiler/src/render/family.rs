//! What the languages of the C family share: scopes, names, temporaries and statements.
//!
//! A [`Language`] says what differs: types, constants, how a value becomes lines, and the statements that only it has.
//! What none of them knows is an error, so that no kernel silently does less than its graph.

use crate::kernel::expression::collect_loads;
use crate::render::rounds;
use ir::{BinOp, Const, DType, Graph, Id, Op, Space, Type};
use rustc_hash::FxHashMap;

/// Something that a language has no words for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{language} has no words for {operation}")]
pub struct Unwritable {
    /// The language.
    pub language: &'static str,
    /// The operation, with its type.
    pub operation: String,
}

/// A language of the C family.
pub(crate) trait Language: Sized {
    /// What errors call it.
    const NAME: &'static str;

    /// Whether several rounds of a loop that loads are written together.
    const UNROLLS: bool = false;

    /// The type of a register or of an element in memory.
    fn type_name(ty: Type) -> String;

    /// The type that a value is declared with.
    fn type_of(g: &mut Graph, id: Id) -> String;

    /// How many names a value of this type has: languages without vectors have one for each part.
    fn parts(ty: Type) -> usize {
        let _ = ty;
        1
    }

    /// The name of a part.
    fn part(name: &str, ty: Type, part: usize) -> String {
        let _ = (ty, part);
        name.into()
    }

    /// The line that gives an expression a name.
    fn definition(ty: &str, name: &str, text: &str) -> String {
        format!("const {ty} {name} = {text};")
    }

    /// A line before a loop of which all rounds are to be one after another, if its compiler is told so.
    const UNROLL_LINE: Option<&'static str> = None;

    /// What is in the parentheses of a loop from 0 on.
    fn counting(ty: &str, name: &str, end: &str, step: i64) -> String {
        let next = if step == 1 { "++".into() } else { format!(" += {step}") };
        format!("{ty} {name} = 0; {name} < {end}; {name}{next}")
    }

    /// What the name of a parameter says about its elements.
    fn tag(ty: DType) -> String;

    /// A constant.
    fn constant(c: Const, ty: DType) -> String;

    /// The variable of this number.
    fn variable(g: &mut Graph, id: Id, number: usize) -> String;

    /// Values that are computed before any of these statements, which are all of a kernel or of a round of a loop.
    fn first(&self, g: &Graph, statements: &[Id]) -> Vec<Id> {
        let _ = (g, statements);
        vec![]
    }

    /// Writes what computes a value that is no leaf, and returns the name that it has from then on.
    fn define(r: &mut Renderer<'_, Self>, g: &mut Graph, id: Id) -> String;

    /// What is before the braces of a branch that is taken under a condition.
    fn branch(r: &mut Renderer<'_, Self>, g: &Graph, id: Id, condition: &str) -> String {
        let _ = (r, g, id);
        format!("if ({condition}) ")
    }

    /// The line that sets an accumulator which has no parts that a value could be given to.
    fn set_whole(r: &mut Renderer<'_, Self>, g: &mut Graph, acc: Id, value: Id) -> Option<String> {
        let _ = (r, g, acc, value);
        None
    }

    /// Writes what a store needs, and returns the line that stores.
    fn store(r: &mut Renderer<'_, Self>, g: &mut Graph, id: Id) -> String;

    /// Writes a statement that not all languages have.
    fn statement(r: &mut Renderer<'_, Self>, g: &mut Graph, id: Id);
}

/// The text of a function in the making.
pub(crate) struct Renderer<'a, L> {
    /// What the language keeps about the kernel.
    pub(crate) language: L,
    vars: &'a [String],
    out: String,
    depth: usize,
    temps: usize,
    /// Names of values, one map for each open scope.
    names: Vec<FxHashMap<Id, String>>,
    unwritable: Option<Unwritable>,
}

impl<'a, L: Language> Renderer<'a, L> {
    /// The body of a function, `depth` blocks inside it; `vars` names the variables in the order of their numbers.
    pub(crate) fn new(language: L, vars: &'a [String], depth: usize) -> Self {
        let names = vec![FxHashMap::default()];
        Renderer { language, vars, out: String::new(), depth, temps: 0, names, unwritable: None }
    }

    /// The text so far.
    ///
    /// # Errors
    /// The first thing that the language has no words for.
    pub(crate) fn finish(self) -> Result<String, Unwritable> {
        self.unwritable.map_or(Ok(self.out), Err)
    }

    /// Notes that the language has no words for a node, which makes the whole kernel an error.
    pub(crate) fn unknown(&mut self, g: &Graph, id: Id) -> String {
        let operation = format!("{:?} of {}", g.op(id), g.ty(id));
        self.unwritable.get_or_insert(Unwritable { language: L::NAME, operation });
        String::new()
    }

    // ---- lines, scopes and names ----

    pub(crate) fn line(&mut self, text: &str) {
        for _ in 0..=self.depth {
            self.out.push_str("  ");
        }
        self.out.push_str(text);
        self.out.push('\n');
    }

    /// A block; what is named inside is unknown behind it.
    pub(crate) fn scope(&mut self, head: &str, body: impl FnOnce(&mut Self)) {
        self.line(&format!("{head}{{"));
        self.depth += 1;
        self.names.push(FxHashMap::default());
        body(self);
        self.names.pop();
        self.depth -= 1;
        self.line("}");
    }

    /// Has the values named so far in the innermost scope computed again.
    fn forget(&mut self) {
        self.names.last_mut().expect("a scope").clear();
    }

    /// Has a value known by a name in the innermost scope.
    pub(crate) fn name(&mut self, id: Id, name: &str) {
        self.names.last_mut().expect("a scope").insert(id, name.into());
    }

    /// A name that is not used yet.
    pub(crate) fn temp(&mut self) -> String {
        self.temps += 1;
        format!("t{}", self.temps)
    }

    /// Gives an expression a name that is not used yet.
    pub(crate) fn hold(&mut self, ty: &str, text: &str) -> String {
        let name = self.temp();
        self.line(&L::definition(ty, &name, text));
        name
    }

    /// The expression of a value. What is no leaf gets a name in the innermost scope, so that it is computed once.
    pub(crate) fn value(&mut self, g: &mut Graph, id: Id) -> String {
        if let Some(name) = self.names.iter().rev().find_map(|names| names.get(&id)) {
            return name.clone();
        }
        match g.op(id) {
            Op::Const(c) => L::constant(*c, g.dtype(id)),
            Op::Acc(n) => format!("a{n}"),
            Op::Range(n, _) => format!("r{n}"),
            Op::Var { name, .. } => {
                let number = self.vars.iter().position(|v| v == name).expect("a declared variable");
                L::variable(g, id, number)
            }
            _ => {
                let name = L::define(self, g, id);
                self.name(id, &name);
                name
            }
        }
    }

    // ---- statements ----

    /// All statements of a kernel, or of a round of a loop.
    pub(crate) fn body(&mut self, g: &mut Graph, list: &[Id]) {
        for value in self.language.first(g, list) {
            self.value(g, value);
        }
        self.statements(g, list);
    }

    /// Statements one after another. Stores that follow each other may compute their values together, so that what they
    /// share is computed once, as long as none of them reads what another one writes.
    pub(crate) fn statements(&mut self, g: &mut Graph, list: &[Id]) {
        let mut rest = list;
        while let Some((&first, others)) = rest.split_first() {
            let run = independent_stores(g, rest);
            if run < 2 {
                self.statement(g, first);
                rest = others;
                continue;
            }
            let (together, others) = rest.split_at(run);
            self.scope("", |r| {
                let stores: Vec<String> = together.iter().map(|&s| L::store(r, g, s)).collect();
                stores.iter().for_each(|text| r.line(text));
            });
            rest = others;
        }
    }

    fn statement(&mut self, g: &mut Graph, id: Id) {
        let src = g.src(id).to_vec();
        match g.op(id) {
            Op::Block => self.statements(g, &src),
            Op::Loop => self.counted(g, src[0], &src[1..]),
            Op::If => self.scope("", |r| {
                let condition = r.value(g, src[0]);
                r.forget();
                let head = L::branch(r, g, id, &condition);
                r.scope(&head, |r| r.statements(g, &src[1..]));
            }),
            Op::Set => self.scope("", |r| r.set(g, &src)),
            Op::Store => self.scope("", |r| {
                let text = L::store(r, g, id);
                r.line(&text);
            }),
            _ => L::statement(self, g, id),
        }
    }

    fn counted(&mut self, g: &mut Graph, range: Id, body: &[Id]) {
        let Op::Range(n, _) = *g.op(range) else { panic!("loop without a range") };
        let ty = L::type_of(g, range);
        self.scope("", |r| {
            let extent = r.value(g, g.src(range)[0]);
            r.line(&L::definition(&ty, &format!("e{n}"), &extent));
            // The body may store to what the extent was loaded from.
            r.forget();
            let together = if L::UNROLLS { rounds::together(g, range, body) } else { 1 };
            if let Some(line) = L::UNROLL_LINE.filter(|_| rounds::multiplies(g, range, body)) {
                r.line(line);
            }
            let counting = L::counting(&ty, &format!("r{n}"), &format!("e{n}"), together);
            r.scope(&format!("for ({counting}) "), |r| {
                r.body(g, body);
                for round in 1..together {
                    r.scope("", |r| {
                        let at = r.hold(&ty, &format!("r{n} + {round}"));
                        r.name(range, &at);
                        r.statements(g, body);
                    });
                }
            });
        });
    }

    /// Computes all values before it writes any of them: the others may read it.
    fn set(&mut self, g: &mut Graph, pairs: &[Id]) {
        let (mut whole, mut values) = (vec![], vec![]);
        for pair in pairs.chunks_exact(2) {
            match L::set_whole(self, g, pair[0], pair[1]) {
                Some(line) => whole.push(line),
                None => values.push((pair[0], self.value(g, pair[1]))),
            }
        }
        let mut held = vec![];
        for (acc, value) in values {
            let Op::Acc(n) = *g.op(acc) else { panic!("set of no accumulator") };
            let ty = g.ty(acc);
            for part in 0..L::parts(ty) {
                let [to, from] = [format!("a{n}"), value.clone()].map(|name| L::part(&name, ty, part));
                held.push((to, self.hold(&L::type_name(ty), &from)));
            }
        }
        for (to, value) in held {
            self.line(&format!("{to} = {value};"));
        }
        whole.iter().for_each(|line| self.line(line));
    }
}

/// What a buffer is called.
pub(crate) fn buffer<L: Language>(g: &Graph, id: Id) -> String {
    let Op::Buffer { slot, space, .. } = *g.op(id) else { panic!("not a buffer") };
    match space {
        Space::Task | Space::Shared => format!("s{slot}"),
        Space::Input | Space::Weight => format!("i{slot}_{}", L::tag(g.dtype(id))),
        Space::Output => format!("o{slot}_{}", L::tag(g.dtype(id))),
    }
}

/// The sign between two operands.
pub(crate) fn sign(op: BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Add => "+",
        BinOp::Sub => "-",
        BinOp::Mul => "*",
        BinOp::And => "&",
        BinOp::Or => "|",
        BinOp::Xor => "^",
        BinOp::Shl => "<<",
        BinOp::Shr => ">>",
        BinOp::Lt => "<",
        BinOp::Eq => "==",
        BinOp::Div | BinOp::Mod | BinOp::Min | BinOp::Max => return None,
    })
}

/// Whether arithmetic on a scalar is done in a wider type, and the result is to be narrowed.
pub(crate) fn is_promoted(ty: Type) -> bool {
    ty.lanes == 1 && ty.base.bytes() < 4 && ty.base != DType::Bool
}

/// How many of the first statements are stores that may compute their values together.
fn independent_stores(g: &Graph, list: &[Id]) -> usize {
    let place = |buffer: Id| match *g.op(buffer) {
        Op::Buffer { slot, space, .. } => (slot, space),
        _ => panic!("not a buffer"),
    };
    let mut written = vec![];
    for (n, &s) in list.iter().enumerate() {
        let src = g.src(s);
        if *g.op(s) != Op::Store || *g.op(src[2]) == Op::Product {
            return n;
        }
        let mut loads = vec![];
        src[1..].iter().for_each(|&e| collect_loads(g, e, &mut loads));
        if loads.iter().any(|&l| written.contains(&place(g.src(l)[0]))) {
            return n;
        }
        written.push(place(src[0]));
    }
    list.len()
}
