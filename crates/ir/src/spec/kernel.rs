//! The grammar of kernels.

use super::{Rule, SpecError, check_shared, describe, require, require_sources};
use crate::walk;
use crate::{Axis, DType, Graph, Id, Op, PRODUCT, Space, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;

/// Checks the kernel whose statements are those of the block `root`, or the kernels that are its parts.
///
/// # Errors
/// The first node that breaks a rule: nodes by themselves in topological order,
/// then what depends on the place of a statement, in the order of the text.
pub fn check_kernel(g: &Graph, root: Id) -> Result<(), SpecError> {
    let broken = |id: Id| move |rule: String| SpecError { node: describe(g, id), rule };
    if *g.op(root) == Op::Parts {
        let parts = g.src(root);
        parts.iter().try_for_each(|&part| check_kernel(g, part))?;
        let equal = parts.windows(2).all(|pair| threads(g, pair[0]) == threads(g, pair[1]));
        return require(equal && parts.len() > 1, || "its parts are several, with equally many warps and lanes".into())
            .map_err(broken(root));
    }
    let order = g.toposort(&[root]);
    require(*g.op(root) == Op::Block, || "a kernel is a block".into()).map_err(broken(root))?;
    let ranges = ranges_of(g, &order);
    let mut task = None;
    let mut threads: Vec<Id> = vec![];
    for &id in &order {
        check_node(g, id).map_err(broken(id))?;
        if let Op::Range(_, axis @ (Axis::Warp | Axis::Lane)) = *g.op(id) {
            let again = threads.iter().any(|&t| matches!(g.op(t), Op::Range(_, a) if *a == axis));
            require(!again, || "a block has one range of warps and one of lanes".into()).map_err(broken(id))?;
            threads.push(id);
        }
        if let Op::Range(number, Axis::Task) = *g.op(id) {
            let first = *task.get_or_insert(id);
            require(first == id && number == 0, || "there is one task range, and its number is 0".into())
                .map_err(broken(id))?;
            let extent = g.src(id)[0];
            let known = g.toposort(&[extent]).iter().all(|&n| is_known_at_launch(g, n));
            require(known, || "the number of tasks must be known at launch".into()).map_err(broken(id))?;
        }
    }
    let scope = task.into_iter().chain(threads.iter().copied()).collect();
    let mut walk = Walk { g, ranges: &ranges, scope, set: FxHashSet::default() };
    walk.statements(&[root])?;
    super::block::check_block(g, root, &order)
}

/// The warps of a block of a kernel, and the lanes of a warp: one of what it does not name.
fn threads(g: &Graph, root: Id) -> [i64; 2] {
    let all = g.toposort(&[root]);
    [Axis::Warp, Axis::Lane].map(|axis| super::extent_of(g, &all, axis).unwrap_or(1))
}

/// Checks the scalar expressions of a kernel before it has statements: the
/// values of the vocabulary of kernels, and reductions, whose sources are what
/// is reduced and the ranges of their loops. `open` are the ranges around them,
/// beside the tasks.
///
/// # Errors
/// The first node, in topological order, that breaks a rule.
pub fn check_scalars(g: &Graph, values: &[Id], open: &[Id]) -> Result<(), SpecError> {
    let order = g.toposort(values);
    let broken = |id: Id| move |rule: String| SpecError { node: describe(g, id), rule };
    let ranges = ranges_of(g, &order);
    for &id in &order {
        match g.op(id) {
            Op::Reduce(..) => check_scalar_reduction(g, id),
            op if is_statement(op) => Err("a statement is no value".into()),
            _ => check_node(g, id),
        }
        .map_err(broken(id))?;
        // The table of a look-up is all that has lanes.
        let scalar = g.ty(id).lanes == 1 || matches!(g.op(id), Op::Lanes(_));
        require(scalar, || "there are no lanes yet".into()).map_err(broken(id))?;
    }
    for &id in values {
        for &r in ranges[&id].iter() {
            let known = open.contains(&r) || matches!(g.op(r), Op::Range(_, Axis::Task));
            require(known, || format!("it uses {} outside of its loop", describe(g, r))).map_err(broken(id))?;
        }
    }
    Ok(())
}

fn check_scalar_reduction(g: &Graph, id: Id) -> Rule {
    let n = g.node(id);
    require(n.shape.is_empty(), || "a kernel has no tensors".into())?;
    require(n.src.len() > 1, || "it must have a value and ranges".into())?;
    require(g.ty(n.src[0]) == n.ty, || format!("a reduction of {} cannot be {}", g.ty(n.src[0]), n.ty))?;
    require(n.ty.base != DType::Bool, || "there is no reduction of truth values".into())?;
    for (i, &r) in n.src.iter().enumerate().skip(1) {
        let counts = matches!(g.op(r), Op::Range(_, Axis::Loop));
        require(counts, || format!("its source {i} must be a range of a loop"))?;
        require(!n.src[1..i].contains(&r), || format!("its range {i} is there twice"))?;
    }
    Ok(())
}

/// The ranges that each node depends on, ascending. A loop hides its own, and so does a reduction.
pub(crate) fn ranges_of(g: &Graph, order: &[Id]) -> FxHashMap<Id, Rc<[Id]>> {
    let none: Rc<[Id]> = Rc::new([]);
    let mut ranges: FxHashMap<Id, Rc<[Id]>> = FxHashMap::default();
    for &id in order {
        let mut all = none.clone();
        if let Op::Range(..) = g.op(id) {
            all = Rc::new([id]);
        } else {
            for s in g.src(id).iter().map(|s| &ranges[s]) {
                if all.is_empty() {
                    all = s.clone();
                } else if s.iter().any(|r| !all.contains(r)) {
                    let mut both: Vec<Id> = all.iter().chain(s.iter()).copied().collect();
                    both.sort_unstable();
                    both.dedup();
                    all = both.into();
                }
            }
            let own = match (g.op(id), g.src(id)) {
                (Op::Loop, [range, ..]) => std::slice::from_ref(range),
                (Op::Reduce(..), [_, ranges @ ..]) => ranges,
                _ => &[],
            };
            if !own.is_empty() {
                all = all.iter().copied().filter(|r| !own.contains(r)).collect();
            }
        }
        ranges.insert(id, all);
    }
    ranges
}

fn is_known_at_launch(g: &Graph, id: Id) -> bool {
    matches!(g.op(id), Op::Const(_) | Op::Var { .. }) || g.op(id).is_elementwise()
}

fn is_statement(op: &Op) -> bool {
    matches!(
        op,
        Op::Block
            | Op::Loop
            | Op::If
            | Op::Store
            | Op::StoreFragment { .. }
            | Op::Set
            | Op::Prefetch(_)
            | Op::Barrier { .. }
            | Op::Wait
            | Op::Trigger
    )
}

/// Rules of a node that do not depend on where it is used.
fn check_node(g: &Graph, id: Id) -> Rule {
    let n = g.node(id);
    require(n.shape.is_empty(), || "a kernel has no tensors".into())?;
    require(n.ty.lanes > 0, || "it has no lanes".into())?;
    let values = match &n.op {
        Op::Block => 0..0,
        Op::Loop | Op::If => 0..1.min(n.src.len()),
        _ => 0..n.src.len(),
    };
    for (i, &s) in n.src.iter().enumerate() {
        require(is_statement(g.op(s)) != values.contains(&i), || match values.contains(&i) {
            true => format!("its source {i} is a statement"),
            false => format!("its source {i} is not a statement"),
        })?;
        let is_buffer = matches!(g.op(s), Op::Buffer { .. });
        let takes_buffer = matches!(n.op, Op::Load | Op::Store | Op::StoreFragment { .. } | Op::Prefetch(_)) && i == 0;
        require(is_buffer == takes_buffer, || match is_buffer {
            true => format!("its source {i} is a buffer"),
            false => "it must be of a buffer".into(),
        })?;
    }
    let ty_of = |i: usize| g.ty(n.src[i]);
    let scalar = |i: usize, base: DType, what: &str| {
        require(ty_of(i) == Type::from(base), || format!("{what} is {}, not {base}", ty_of(i)))
    };
    match &n.op {
        Op::Const(_) | Op::Var { .. } | Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast => check_shared(g, id),
        Op::Range(_, axis) => {
            require_sources(g, id, 1)?;
            require(n.ty == Type::from(DType::Index), || "a loop counter is an index".into())?;
            scalar(0, DType::Index, "the extent")?;
            let count = g.as_int(n.src[0]);
            match axis {
                Axis::Lane => {
                    let some = count.is_some_and(|n| (1..=128).contains(&n) && n & (n - 1) == 0);
                    require(some, || "a warp has a power of two of lanes, at most 128".into())
                }
                Axis::Warp => {
                    require(count.is_some_and(|n| (1..=32).contains(&n)), || "a block has 1 to 32 warps".into())
                }
                _ => Ok(()),
            }
        }
        Op::Buffer { space, len, .. } => {
            require_sources(g, id, 0)?;
            require(n.ty.lanes == 1, || "a buffer holds scalars".into())?;
            require(!space.is_scratch() || *len > 0, || "scratch must have a length".into())
        }
        Op::Load => {
            require_sources(g, id, 2)?;
            scalar(1, DType::Index, "the index")?;
            let base = ty_of(0).base;
            require(base == n.ty.base || base == DType::U8, || format!("{} cannot be loaded from {base}", n.ty))
        }
        Op::Store => {
            let count = n.src.len();
            require(count == 3 || count == 4, || format!("it must have 3 or 4 sources, not {count}"))?;
            scalar(1, DType::Index, "the index")?;
            let (base, value) = (ty_of(0).base, ty_of(2));
            let input = matches!(g.op(n.src[0]), Op::Buffer { space, .. } if space.is_read_only());
            require(!input, || "an input cannot be written".into())?;
            require(base == value.base || base == DType::U8, || format!("{value} cannot be stored to {base}"))?;
            match count {
                4 => {
                    let c = ty_of(3);
                    let fits = c.base == DType::Bool && (c.lanes == 1 || c.lanes == value.lanes);
                    require(fits, || format!("the condition of {value} is {c}"))
                }
                _ => Ok(()),
            }
        }
        Op::Acc(_) => require_sources(g, id, 0),
        Op::Set => {
            require(!n.src.is_empty() && n.src.len().is_multiple_of(2), || "it must have pairs of sources".into())?;
            for (i, pair) in n.src.chunks_exact(2).enumerate() {
                require(matches!(g.op(pair[0]), Op::Acc(_)), || format!("the target {i} is not an accumulator"))?;
                let (to, from) = (g.ty(pair[0]), g.ty(pair[1]));
                require(to == from, || format!("the accumulator {i} is {to}, its value {from}"))?;
                let twice = n.src.chunks_exact(2).skip(i + 1).any(|p| p[0] == pair[0]);
                require(!twice, || format!("the accumulator {i} is set twice"))?;
            }
            Ok(())
        }
        Op::Loop => {
            require(!n.src.is_empty(), || "it must have a range".into())?;
            let counts = matches!(g.op(n.src[0]), Op::Range(_, Axis::Loop));
            require(counts, || "its first source must be a range of a loop".into())
        }
        Op::If => {
            require(!n.src.is_empty(), || "it must have a condition".into())?;
            scalar(0, DType::Bool, "the condition")
        }
        Op::Block => Ok(()),
        Op::Prefetch(level) => {
            require_sources(g, id, 2)?;
            require((1..=3).contains(level), || format!("there is no cache of level {level}"))?;
            scalar(1, DType::Index, "the index")
        }
        Op::Barrier { .. } | Op::Wait | Op::Trigger => require_sources(g, id, 0),
        Op::LaneXor(mask) => {
            require_sources(g, id, 1)?;
            require(ty_of(0) == n.ty, || format!("lanes of {} cannot be {}", ty_of(0), n.ty))?;
            require(*mask > 0, || format!("no two lanes differ in the bits {mask}"))
        }
        Op::Fragment { transposed } => {
            require_sources(g, id, 1)?;
            let holds = |space: Space| space == Space::Shared || space.is_read_only();
            let loads = *g.op(n.src[0]) == Op::Load
                && matches!(*g.op(g.src(n.src[0])[0]), Op::Buffer { space, .. } if holds(space));
            require(loads, || "rows of a matrix are loaded from shared memory, or from what is only read".into())?;
            let row = ty_of(0);
            let rows = [(DType::F16, 8), (DType::BF16, 8), (DType::U8, 16), (DType::I8, 16)]
                .map(|(ty, n)| Type::vector(ty, n));
            require(rows.contains(&row), || format!("a row of a matrix is 8 halves or 16 bytes, not {row}"))?;
            let fits = n.ty.base == row.base && matches!(n.ty.bytes(), 4 | 8 | 16);
            require(fits, || format!("{} is no fragment of one, two or four matrices", n.ty))?;
            require(!transposed || row.base.bytes() == 2, || "bytes cannot be transposed".into())
        }
        Op::WarpProduct => {
            require_sources(g, id, 3)?;
            let codes = if ty_of(1).base == DType::I8 { DType::I8 } else { DType::U8 };
            let halves = if ty_of(1).base == DType::BF16 { DType::BF16 } else { DType::F16 };
            let expected = match (n.ty.base, ty_of(1).lanes) {
                (DType::I32, 8) => [(DType::I32, 4), (codes, 8), (DType::I8, 4)],
                (DType::I32, _) => [(DType::I32, 4), (codes, 16), (DType::I8, 8)],
                _ => {
                    let beside = (usize::from(n.ty.lanes) / 4).max(1);
                    [(DType::F32, 4 * beside), (halves, 8), (halves, 4 * beside)]
                }
            };
            let expected = expected.map(|(ty, n)| Type::vector(ty, n));
            require(n.ty == expected[0], || format!("its sums are {}, not {}", expected[0], n.ty))?;
            for (i, want) in expected.iter().enumerate() {
                require(ty_of(i) == *want, || format!("its source {i} is {}, not {want}", ty_of(i)))?;
            }
            Ok(())
        }
        Op::StoreFragment { pitch } => {
            require_sources(g, id, 3)?;
            let to = matches!(g.op(n.src[0]), Op::Buffer { space: Space::Shared, .. });
            require(to && g.dtype(n.src[0]) == DType::F32, || "sums are stored to shared memory of f32".into())?;
            scalar(1, DType::Index, "the index")?;
            let sums = ty_of(2);
            let whole = sums.base == DType::F32 && sums.lanes > 0 && sums.lanes.is_multiple_of(4);
            require(whole, || format!("{sums} are no sums of a product of halves"))?;
            require(*pitch >= 16, || format!("columns of 16 rows lie {pitch} apart"))
        }
        Op::Splat => {
            require_sources(g, id, 1)?;
            scalar(0, n.ty.base, "the lane")
        }
        Op::Shuffle(map) => {
            require_sources(g, id, 1)?;
            let src = ty_of(0);
            require(src.base == n.ty.base, || format!("a shuffle of {src} cannot be {}", n.ty))?;
            require(map.len() == n.ty.lanes.into(), || format!("{} lanes for {}", map.len(), n.ty))?;
            require(map.iter().all(|&l| l < src.lanes), || format!("there are only {} lanes", src.lanes))
        }
        Op::Join => {
            require(!n.src.is_empty(), || "it must have a source".into())?;
            let lanes: usize = (0..n.src.len()).map(|i| usize::from(ty_of(i).lanes)).sum();
            let same = (0..n.src.len()).all(|i| ty_of(i).base == n.ty.base);
            require(same, || format!("a part is not {}", n.ty.base))?;
            require(lanes == n.ty.lanes.into(), || format!("the parts have {lanes} lanes, the whole {}", n.ty))
        }
        Op::Dot4 | Op::Dot2 => {
            require_sources(g, id, 3)?;
            let (products, [sums, a, b]) = match (&n.op, n.ty.base) {
                (Op::Dot4, _) if ty_of(1).base == DType::I8 => (4, [DType::I32, DType::I8, DType::I8]),
                (Op::Dot4, _) => (4, [DType::I32, DType::U8, DType::I8]),
                (_, DType::I16) => (2, [DType::I16, DType::U8, DType::I8]),
                _ => (2, [DType::I32, DType::I16, DType::I16]),
            };
            let lanes = usize::from(n.ty.lanes);
            let expected =
                [(sums, lanes), (a, products * lanes), (b, products * lanes)].map(|(ty, n)| Type::vector(ty, n));
            require(n.ty == expected[0], || format!("it makes {sums}, not {}", n.ty))?;
            for (i, want) in expected.iter().enumerate() {
                require(ty_of(i) == *want, || format!("its source {i} is {}, not {want}", ty_of(i)))?;
            }
            Ok(())
        }
        Op::Product => {
            require_sources(g, id, 3)?;
            let block = PRODUCT * PRODUCT;
            require(n.ty == Type::vector(DType::F32, block), || format!("a block of sums is not {}", n.ty))?;
            let (sums, rows, tokens) = (ty_of(0), ty_of(1), ty_of(2));
            require(sums == n.ty, || format!("its sums are {sums}, not {}", n.ty))?;
            let steps = usize::from(rows.lanes) / block;
            let panel = Type::vector(DType::BF16, steps * block);
            require(steps > 0 && rows == panel, || format!("its rows are {rows}: no whole steps of bf16"))?;
            require(tokens == rows, || format!("its tokens are {tokens}, its rows {rows}"))?;
            let loaded = n.src.iter().all(|&s| *g.op(s) == Op::Load);
            require(loaded, || "its sources are not loaded".into())
        }
        Op::Across(_) => {
            require_sources(g, id, 1)?;
            require(n.ty.base != DType::Bool, || "there is no reduction of truth values".into())?;
            require(n.ty == Type::from(ty_of(0).base), || format!("across {} is a scalar", ty_of(0)))
        }
        Op::Lanes(values) => {
            require_sources(g, id, 0)?;
            require(values.len() == n.ty.lanes.into(), || format!("{} constants for {}", values.len(), n.ty))
        }
        Op::Lookup => {
            require_sources(g, id, 2)?;
            let (table, index) = (ty_of(0), ty_of(1));
            require(table.lanes == 16, || format!("a table has 16 lanes, not {}", table.lanes))?;
            require(table.base == n.ty.base, || format!("a table of {} cannot give {}", table.base, n.ty))?;
            let integers = index.base.is_int() && index.base != DType::Index;
            require(integers && index.lanes == n.ty.lanes, || format!("an index of {index} for {}", n.ty))
        }
        Op::Extract(lane) => {
            require_sources(g, id, 1)?;
            require(n.ty == Type::from(ty_of(0).base), || format!("a lane of {} cannot be {}", ty_of(0), n.ty))?;
            require(*lane < ty_of(0).lanes, || format!("there are only {} lanes", ty_of(0).lanes))
        }
        op => Err(format!("{op:?} is not an operation of kernels")),
    }
}

/// Statements in the order of the text.
struct Walk<'g> {
    g: &'g Graph,
    ranges: &'g FxHashMap<Id, Rc<[Id]>>,
    /// The ranges whose loops are open.
    scope: Vec<Id>,
    /// Accumulators that some statement so far has set.
    set: FxHashSet<Id>,
}

impl Walk<'_> {
    fn statements(&mut self, statements: &[Id]) -> Result<(), SpecError> {
        for &id in statements {
            self.statement(id)?;
        }
        Ok(())
    }

    fn statement(&mut self, id: Id) -> Result<(), SpecError> {
        let g = self.g;
        let src = g.src(id);
        match g.op(id) {
            Op::Block => self.statements(src),
            Op::Loop => {
                let range = src[0];
                let reopened = self.scope.contains(&range);
                require(!reopened, || "the loop of its range is open already".into())
                    .map_err(|rule| self.broken(id, rule))?;
                self.value(id, g.src(range)[0])?;
                self.scope.push(range);
                self.statements(&src[1..])?;
                self.scope.pop();
                Ok(())
            }
            Op::If => {
                self.value(id, src[0])?;
                self.statements(&src[1..])
            }
            Op::Set => {
                src.iter().skip(1).step_by(2).try_for_each(|&v| self.value(id, v))?;
                self.set.extend(src.iter().step_by(2));
                Ok(())
            }
            _ => src.iter().try_for_each(|&v| self.value(id, v)),
        }
    }

    /// A value that a statement reads.
    fn value(&self, statement: Id, value: Id) -> Result<(), SpecError> {
        let g = self.g;
        if let Some(&r) = self.ranges[&value].iter().find(|r| !self.scope.contains(r)) {
            return Err(self.broken(statement, format!("it uses {} outside of its loop", describe(g, r))));
        }
        walk::try_reach([value], |id, more| {
            if matches!(g.op(id), Op::Acc(_)) && !self.set.contains(&id) {
                return Err(self.broken(statement, format!("it reads {} before it is set", describe(g, id))));
            }
            if !matches!(g.op(id), Op::Range(..)) {
                more.extend(g.src(id));
            }
            Ok(())
        })
    }

    fn broken(&self, id: Id, rule: String) -> SpecError {
        SpecError { node: describe(self.g, id), rule }
    }
}
