//! Text of kernels: one line for each statement, loops and branches indented.
//!
//! A value that is used more than once gets a line and a name. A name is an
//! abbreviation: what reads memory or an accumulator is named for one statement
//! only, since the next statement would read anew.

use super::{buffer_name, extent, infix, space_name};
use crate::walk::post_order;
use crate::{Axis, DType, Graph, Id, Op};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write;

/// A kernel, from the block that is its root, or its parts one after another.
pub fn kernel(g: &Graph, root: Id) -> String {
    if *g.op(root) == Op::Parts {
        return g.src(root).iter().map(|&part| kernel(g, part)).collect();
    }
    let order = g.toposort(&[root]);
    let mut p = Printer {
        g,
        out: String::new(),
        depth: 1,
        volatile: FxHashSet::default(),
        uses: FxHashMap::default(),
        scopes: vec![FxHashMap::default()],
        numbers: [0; 3],
    };
    let mut buffers = vec![];
    let mut tasks = "1".to_string();
    let mut threads = String::new();
    for &id in &order {
        let src = g.src(id);
        match g.op(id) {
            Op::Buffer { slot, space, .. } => buffers.push((*space, *slot, g.dtype(id), buffer_name(g, id))),
            Op::Range(_, Axis::Task) => {
                p.scopes[0].insert(id, "task".into());
                tasks = extent(g, src[0]);
            }
            Op::Range(_, Axis::Warp) => {
                p.scopes[0].insert(id, "warp".into());
                threads = format!(" of {} warps", extent(g, src[0]));
            }
            Op::Range(_, Axis::Lane) => drop(p.scopes[0].insert(id, "lane".into())),
            _ => {}
        }
        let reads = matches!(g.op(id), Op::Load | Op::Acc(_));
        if reads || !matches!(g.op(id), Op::Range(..)) && src.iter().any(|s| p.volatile.contains(s)) {
            p.volatile.insert(id);
        }
        count_uses(g, id, &mut p.uses);
    }
    buffers.sort();
    let buffers: Vec<String> = buffers.into_iter().map(|b| b.3).collect();
    p.out = format!("kernel of {tasks} tasks{threads} ({})\n", buffers.join(", "));
    for &s in g.src(root) {
        p.statement(s);
    }
    p.out
}

/// Counts the edges to the sources of a node.
fn count_uses(g: &Graph, id: Id, uses: &mut FxHashMap<Id, usize>) {
    for &s in g.src(id) {
        *uses.entry(s).or_default() += 1;
    }
}

struct Printer<'g> {
    g: &'g Graph,
    out: String,
    depth: usize,
    /// Nodes that read memory or an accumulator.
    volatile: FxHashSet<Id>,
    /// Edges to each node in the whole kernel.
    uses: FxHashMap<Id, usize>,
    /// Names by block, the innermost last.
    scopes: Vec<FxHashMap<Id, String>>,
    /// Names given to values, loops and accumulators.
    numbers: [usize; 3],
}

const VALUES: usize = 0;
const LOOPS: usize = 1;
const ACCUMULATORS: usize = 2;

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", 2 * self.depth);
    }

    fn number(&mut self, kind: usize) -> usize {
        self.numbers[kind] += 1;
        self.numbers[kind] - 1
    }

    fn name(&self, id: Id) -> Option<String> {
        self.scopes.iter().rev().find_map(|s| s.get(&id).cloned())
    }

    fn block(&mut self, statements: &[Id]) {
        self.depth += 1;
        for &s in statements {
            self.statement(s);
        }
        self.depth -= 1;
    }

    fn statement(&mut self, id: Id) {
        let g = self.g;
        let src = g.src(id);
        match g.op(id) {
            Op::Block => {
                self.line("block");
                self.scopes.push(FxHashMap::default());
                self.block(src);
                self.scopes.pop();
            }
            Op::Loop => {
                let names = self.open(&[g.src(src[0])[0]]);
                let end = self.text(g.src(src[0])[0]);
                self.close(&names);
                let counter = format!("i{}", self.number(LOOPS));
                self.line(&format!("loop {counter} < {end}"));
                self.scopes.push(FxHashMap::from_iter([(src[0], counter)]));
                self.block(&src[1..]);
                self.scopes.pop();
            }
            Op::If => {
                let names = self.open(&src[..1]);
                let condition = self.text(src[0]);
                self.close(&names);
                self.line(&format!("if {condition}"));
                self.scopes.push(FxHashMap::default());
                self.block(&src[1..]);
                self.scopes.pop();
            }
            Op::Store => {
                let names = self.open(&src[1..]);
                let (place, value) = (self.place(src[0], src[1], src[2]), self.text(src[2]));
                let condition = src.get(3).map_or(String::new(), |&c| format!(" if {}", self.text(c)));
                self.close(&names);
                self.line(&format!("{place} = {value}{condition}"));
            }
            Op::Set => {
                let names = self.open(src);
                let targets: Vec<String> = src.iter().step_by(2).map(|&a| self.text(a)).collect();
                let values: Vec<String> = src.iter().skip(1).step_by(2).map(|&v| self.text(v)).collect();
                self.close(&names);
                self.line(&format!("{} = {}", targets.join(", "), values.join(", ")));
            }
            Op::Prefetch(level) => {
                let names = self.open(&src[1..]);
                let text = format!("prefetch {level} {}", self.place(src[0], src[1], src[0]));
                self.close(&names);
                self.line(&text);
            }
            _ => {
                let text = self.text(id);
                self.line(&text);
            }
        }
    }

    /// Names what the values of a statement share, and returns the names that
    /// end with it.
    fn open(&mut self, values: &[Id]) -> Vec<Id> {
        let g = self.g;
        let mut local: FxHashMap<Id, usize> = FxHashMap::default();
        values.iter().for_each(|&v| *local.entry(v).or_default() += 1);
        let order = post_order(values, |id| {
            if self.name(id).is_some() {
                return None;
            }
            if matches!(g.op(id), Op::Range(..)) {
                return Some(&[][..]);
            }
            count_uses(g, id, &mut local);
            Some(g.src(id))
        });
        let mut ending = vec![];
        for id in order {
            if let Op::Acc(_) = g.op(id) {
                let name = format!("a{}", self.number(ACCUMULATORS));
                self.scopes[0].insert(id, name);
                continue;
            }
            let volatile = self.volatile.contains(&id);
            let shared = if volatile { local.get(&id) } else { self.uses.get(&id) }.is_some_and(|&n| n > 1);
            if !shared || self.is_short(id) {
                continue;
            }
            let text = self.text(id);
            let name = format!("v{}", self.number(VALUES));
            self.line(&format!("{name}: {} = {text}", g.ty(id)));
            if volatile {
                ending.push(id);
            }
            self.scopes.last_mut().expect("a scope").insert(id, name);
        }
        ending
    }

    fn close(&mut self, names: &[Id]) {
        let scope = self.scopes.last_mut().expect("a scope");
        for id in names {
            scope.remove(id);
        }
    }

    /// Whether a value is about as short as a name: a leaf, one in every lane,
    /// or one operation on indices.
    fn is_short(&self, id: Id) -> bool {
        let g = self.g;
        let leaf = |id: Id| {
            matches!(g.op(id), Op::Const(_) | Op::Var { .. } | Op::Range(..) | Op::Buffer { .. } | Op::Acc(_))
                || self.name(id).is_some()
        };
        let simple = g.dtype(id) == DType::Index && g.op(id).is_elementwise() || *g.op(id) == Op::Splat;
        let uniform = matches!(g.op(id), Op::Lanes(v) if v.windows(2).all(|w| w[0] == w[1]));
        leaf(id) || uniform || simple && g.src(id).iter().all(|&s| leaf(s))
    }

    fn text(&self, id: Id) -> String {
        infix(self.g, id, 0, &mut |n| self.leaf(n))
    }

    fn leaf(&self, id: Id) -> Option<String> {
        match self.g.op(id) {
            Op::Load => self.name(id).or_else(|| Some(self.place(self.g.src(id)[0], self.g.src(id)[1], id))),
            // A loop that is not open: the text of a broken kernel.
            Op::Range(n, _) => self.name(id).or_else(|| Some(format!("range {n}"))),
            _ => self.name(id),
        }
    }

    /// An element of a buffer; the type is written where it is not the buffer's.
    fn place(&self, buffer: Id, index: Id, value: Id) -> String {
        let g = self.g;
        let Op::Buffer { slot, space, .. } = g.op(buffer) else { return format!("{buffer:?}") };
        let ty = if g.ty(value) == g.ty(buffer) { String::new() } else { format!(".{}", g.ty(value)) };
        format!("{}{slot}{ty}[{}]", space_name(*space), self.text(index))
    }
}
