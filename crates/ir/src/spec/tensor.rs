//! The grammar of tensor graphs.

use super::{Rule, SpecError, check_shared, describe, require, require_sources};
use crate::fold::{Recurrence, body, merges, open_nodes};
use crate::index::{Linear, gcd};
use crate::{DType, Graph, Id, Op, Part, Type};

/// Checks a tensor graph against its grammar.
///
/// # Errors
/// The first node, in topological order, that breaks a rule.
pub fn check_tensor(g: &Graph, roots: &[Id]) -> Result<(), SpecError> {
    let order = g.toposort(roots);
    let broken = |id: Id, rule: String| SpecError { node: describe(g, id), rule };
    for &id in &order {
        check_node(g, id).map_err(|rule| broken(id, rule))?;
    }
    let open = open_nodes(g, &order);
    for &id in roots {
        require(!open.contains(&id), || "it depends on a placeholder of no fold".into()).map_err(|r| broken(id, r))?;
    }
    Ok(())
}

fn check_node(g: &Graph, id: Id) -> Rule {
    let n = g.node(id);
    require(n.ty.lanes == 1, || format!("a tensor has no lanes, and this is {}", n.ty))?;
    for &d in &n.shape {
        check_extent(g, d)?;
    }
    let shape = &n.shape[..];
    let of = |i: usize| g.shape(n.src[i]);
    let ty_of = |i: usize| g.ty(n.src[i]);
    match &n.op {
        Op::Unary(_) | Op::Binary(_) | Op::Where | Op::Cast => {
            check_shared(g, id)?;
            for i in 0..n.src.len() {
                same_shape(g, of(i), shape)?;
            }
            Ok(())
        }
        Op::Const(_) | Op::Var { .. } => {
            check_shared(g, id)?;
            require(shape.is_empty(), || "it is a scalar".into())
        }
        Op::Param { .. } | Op::State { .. } => require_sources(g, id, 0),
        Op::Reshape => {
            one_of_same_type(g, id)?;
            require(Product::of(g, of(0)) == Product::of(g, shape), || {
                format!("{} elements are not {}", dims(g, of(0)), dims(g, shape))
            })
        }
        Op::Permute(perm) => {
            one_of_same_type(g, id)?;
            let mut sorted = perm.clone();
            sorted.sort_unstable();
            require(sorted.iter().copied().eq(0..of(0).len()), || {
                format!("{perm:?} is not an order of {} dimensions", of(0).len())
            })?;
            let moved: Vec<Id> = perm.iter().map(|&p| of(0)[p]).collect();
            same_shape(g, &moved, shape)
        }
        Op::Expand => {
            one_of_same_type(g, id)?;
            let fits = |(&a, &b): (&Id, &Id)| a == b || g.as_int(a) == Some(1);
            require(of(0).len() == shape.len() && of(0).iter().zip(shape).all(fits), || {
                format!("{} cannot be expanded to {}", dims(g, of(0)), dims(g, shape))
            })
        }
        Op::Slice { axis, start } => {
            one_of_same_type(g, id)?;
            same_but(g, of(0), shape, *axis)?;
            require(*start >= 0, || format!("it starts at {start}"))?;
            if let (Some(len), Some(whole)) = (g.as_int(shape[*axis]), g.as_int(of(0)[*axis])) {
                require(start + len <= whole, || format!("{start}..{} of an extent of {whole}", start + len))?;
            }
            Ok(())
        }
        Op::Concat(axis) => {
            require(!n.src.is_empty(), || "it must have a source".into())?;
            for i in 0..n.src.len() {
                require(ty_of(i) == n.ty, || format!("a part is {}, the whole {}", ty_of(i), n.ty))?;
                same_but(g, of(i), shape, *axis)?;
            }
            let parts: Vec<Id> = (0..n.src.len()).map(|i| of(i)[*axis]).collect();
            require(difference(g, shape[*axis], &parts) == Some(0), || {
                format!("the parts {} do not add up to {}", dims(g, &parts), dims(g, shape))
            })
        }
        Op::Reduce(_, axes) => {
            one_of_same_type(g, id)?;
            require(n.ty.base != DType::Bool, || "there is no reduction of truth values".into())?;
            let ascending = axes.windows(2).all(|w| w[0] < w[1]);
            require(ascending && axes.last().is_some_and(|&a| a < of(0).len()), || {
                format!("{axes:?} are not some of {} dimensions in order", of(0).len())
            })?;
            let kept: Vec<Id> = (0..of(0).len()).filter(|d| !axes.contains(d)).map(|d| of(0)[d]).collect();
            same_shape(g, &kept, shape)
        }
        Op::Gather => {
            require_sources(g, id, 2)?;
            require(ty_of(0) == n.ty, || format!("rows of {} cannot be {}", ty_of(0), n.ty))?;
            require(ty_of(1).base.is_int(), || format!("the index is {}", ty_of(1)))?;
            require(!of(0).is_empty(), || "a scalar has no rows".into())?;
            let rows: Vec<Id> = of(1).iter().chain(&of(0)[1..]).copied().collect();
            same_shape(g, &rows, shape)
        }
        Op::Scatter => {
            require_sources(g, id, 3)?;
            let versioned = matches!(g.op(n.src[0]), Op::State { .. } | Op::Scatter);
            require(versioned, || "it must write a state, or a version of one".into())?;
            require(ty_of(0) == n.ty && ty_of(2) == n.ty, || {
                format!("rows of {} in a state of {}", ty_of(2), ty_of(0))
            })?;
            require(ty_of(1).base.is_int(), || format!("the index is {}", ty_of(1)))?;
            require(!of(0).is_empty(), || "a scalar has no rows".into())?;
            let rows: Vec<Id> = of(1).iter().chain(&of(0)[1..]).copied().collect();
            same_shape(g, &rows, of(2))?;
            same_shape(g, of(0), shape)
        }
        Op::Scan(axis) => {
            one_of_same_type(g, id)?;
            require(*axis < shape.len(), || format!("there is no dimension {axis}"))?;
            require(n.ty.base != DType::Bool, || "there is no sum of truth values".into())?;
            same_shape(g, of(0), shape)
        }
        Op::Dequant(format, part) => {
            require_sources(g, id, 1)?;
            let (row, format) = (*format, g.format(*format));
            require(ty_of(0).base == DType::U8, || format!("its source is {}, not bytes", ty_of(0)))?;
            let expected = match part {
                Part::Code => DType::U8,
                Part::Level => DType::I8,
                _ => DType::F32,
            };
            require(n.ty.base == expected, || format!("the part {part:?} is {expected}"))?;
            let has = match part {
                Part::Value => true,
                Part::Level => format.as_blocks().is_some_and(|blocks| blocks.level_shift().is_some()),
                _ => format.as_blocks().is_some(),
            };
            require(has, || format!("{} has no part {part:?}", format.name))?;
            let last = shape.len().checked_sub(1).ok_or("a scalar has no blocks")?;
            same_but(g, of(0), shape, last)?;
            let bytes = g.as_int(of(0)[last]).ok_or("a row of blocks has a constant length")?;
            let len = i64::from(format.block_len());
            let per_block = match part {
                Part::Value | Part::Code | Part::Level => len,
                Part::Scale | Part::Offset => len / g.format_group(row),
            };
            let block = i64::from(format.block_bytes());
            require(bytes % block == 0 && g.as_int(shape[last]) == Some(bytes / block * per_block), || {
                format!("{bytes} bytes of {} do not make {}", format.name, dims(g, &shape[last..]))
            })
        }
        Op::TopK(k) => {
            require_sources(g, id, 1)?;
            require(n.ty.base == DType::I32, || "indices are i32".into())?;
            let last = shape.len().checked_sub(1).ok_or("a scalar has no order")?;
            same_but(g, of(0), shape, last)?;
            require(g.as_int(shape[last]) == Some(*k as i64), || format!("the {k} largest are {}", dims(g, shape)))?;
            match g.as_int(of(0)[last]) {
                Some(whole) => require(*k as i64 <= whole, || format!("the {k} largest of {whole}")),
                None => Ok(()),
            }
        }
        Op::Fold { axis, part, parts } => check_fold(g, id, *axis, *part, *parts),
        Op::Recur { part, .. } => check_recurrence(g, id, *part),
        Op::Arg(_) => require_sources(g, id, 0),
        Op::Iota => {
            require_sources(g, id, 0)?;
            require(n.ty.base == DType::I32 && shape.len() == 1, || "it is i32 with one dimension".into())
        }
        Op::Choice { of: names, .. } => {
            require(!n.src.is_empty(), || "it must have an alternative".into())?;
            require(names.len() == n.src.len(), || format!("{} names for {} alternatives", names.len(), n.src.len()))?;
            for i in 0..n.src.len() {
                require(ty_of(i) == n.ty, || format!("an alternative is {}, not {}", ty_of(i), n.ty))?;
                same_shape(g, of(i), shape)?;
            }
            Ok(())
        }
        Op::Prefix(axis) => {
            require_sources(g, id, 2)?;
            require(ty_of(0) == n.ty, || format!("a prefix of {} cannot be {}", ty_of(0), n.ty))?;
            require(ty_of(1).base.is_int(), || format!("the counts are {}", ty_of(1)))?;
            require(*axis < shape.len(), || format!("no dimension {axis}"))?;
            same_shape(g, of(0), shape)?;
            same_shape(g, of(1), &shape[..*axis])
        }
        Op::Fence => {
            one_of_same_type(g, id)?;
            same_shape(g, of(0), shape)
        }
        Op::Call { tasks, .. } => require(*tasks > 0, || format!("{tasks} tasks")),
        op => Err(format!("{op:?} is not an operation on tensors")),
    }
}

fn check_fold(g: &Graph, id: Id, axis: usize, part: usize, parts: usize) -> Rule {
    require(part < parts, || format!("there is no part {part} of {parts}"))?;
    require_sources(g, id, 3 * parts + 1)?;
    let src = g.src(id);
    let carried = |i: usize| -> Result<Vec<Id>, String> {
        let mut shape = g.shape(src[i]).to_vec();
        require(axis < shape.len(), || format!("the part {i} has no dimension {axis}"))?;
        shape.remove(axis);
        Ok(shape)
    };
    let first = g.shape(src[0]);
    for i in 0..parts {
        let (shape, ty) = (carried(i)?, g.ty(src[i]));
        same_shape(g, &g.shape(src[i])[..=axis], &first[..=axis])?;
        let (merge, identity) = (src[parts + i], src[2 * parts + i]);
        require(g.ty(merge) == ty, || format!("part {i} is {ty}, merged {}", g.ty(merge)))?;
        same_shape(g, g.shape(merge), &shape)?;
        let scalar = matches!(g.op(identity), Op::Const(_)) && g.ty(identity) == ty;
        require(scalar, || format!("the identity of part {i} is not a constant {ty}"))?;
    }
    let count = src[3 * parts];
    require(g.dtype(count).is_int(), || format!("the number of steps is {}", g.ty(count)))?;
    same_shape(g, g.shape(count), &first[..axis])?;
    check_placeholders(g, &src[parts..2 * parts], |n| {
        let i = n % parts;
        (n < 2 * parts).then(|| Ok((g.ty(src[i]), carried(i)?)))
    })?;
    require(g.ty(id) == g.ty(src[part]), || format!("part {part} is {}", g.ty(src[part])))?;
    same_shape(g, &carried(part)?, g.shape(id))
}

fn check_recurrence(g: &Graph, id: Id, part: usize) -> Rule {
    let r = Recurrence::of(g, id).ok_or("it has too few sources")?;
    r.check_reads(g)?;
    let yielded = match part {
        0 => Some(&r.next),
        given => r.given.get(given - 1),
    };
    let &yielded = yielded.ok_or_else(|| format!("there is no part {part} of {}", r.given.len() + 1))?;
    let steps = g.shape(r.begins);
    require(steps.len() == 1, || format!("its steps are {}", dims(g, steps)))?;
    for run in [r.begins, r.ends, r.run] {
        require(g.dtype(run) == DType::I32, || format!("its runs are {}", g.ty(run)))?;
        same_shape(g, g.shape(run), steps)?;
    }
    for &stream in r.inputs.iter().chain([&r.start]) {
        same_shape(g, &g.shape(stream)[..g.shape(stream).len().min(1)], steps)?;
    }
    let carried = g.shape(r.next);
    require(g.ty(r.start) == g.ty(r.next), || format!("{} begins, {} is carried", g.ty(r.start), g.ty(r.next)))?;
    same_shape(g, &g.shape(r.start)[1..], carried)?;
    for &given in r.given {
        same_shape(g, g.shape(given), &carried[..g.shape(given).len().min(carried.len())])?;
    }
    check_placeholders(g, &g.src(id)[merges(g, id)], |n| match n {
        _ if n == 0 || n == r.inputs.len() + 1 => Some(Ok((g.ty(r.next), carried.to_vec()))),
        n => r.inputs.get(n - 1).map(|&input| Ok((g.ty(input), g.shape(input)[1..].to_vec()))),
    })?;
    require(g.ty(id) == g.ty(yielded), || format!("part {part} is {}", g.ty(yielded)))?;
    let shape = g.shape(id);
    require(!shape.is_empty(), || "it has a dimension of runs or of steps".into())?;
    same_shape(g, g.shape(yielded), &shape[1..])?;
    if part > 0 { same_shape(g, steps, &shape[..1]) } else { Ok(()) }
}

/// Every placeholder of a merge is like what it stands for.
fn check_placeholders(
    g: &Graph,
    merge: &[Id],
    like: impl Fn(usize) -> Option<Result<(Type, Vec<Id>), String>>,
) -> Rule {
    let order = g.toposort(merge);
    let open = open_nodes(g, &order);
    for id in body(g, &open, merge) {
        let Op::Arg(n) = g.op(id) else { continue };
        let (ty, shape) = like(*n).ok_or_else(|| format!("there is no placeholder {n}"))??;
        require(g.ty(id) == ty, || format!("placeholder {n} is {}, not {ty}", g.ty(id)))?;
        same_shape(g, g.shape(id), &shape)?;
    }
    Ok(())
}

/// Extents are index arithmetic of constants and variables.
fn check_extent(g: &Graph, d: Id) -> Rule {
    let wrong = || format!("the extent {} is not an index", describe(g, d));
    require(g.dtype(d) == DType::Index && g.shape(d).is_empty(), wrong)?;
    match g.op(d) {
        Op::Const(c) => require(c.as_int() >= 0, || format!("an extent is {}", c.as_int())),
        Op::Var { .. } => Ok(()),
        Op::Binary(_) => {
            // A term of an extent may be negative, so only its form is checked.
            let leaf = |id: &Id| g.op(*id).is_elementwise() || matches!(g.op(*id), Op::Const(_) | Op::Var { .. });
            require(g.toposort(&[d]).iter().all(leaf), wrong)
        }
        _ => Err(wrong()),
    }
}

fn one_of_same_type(g: &Graph, id: Id) -> Rule {
    require_sources(g, id, 1)?;
    let src = g.ty(g.src(id)[0]);
    require(src == g.ty(id), || format!("a movement of {src} cannot be {}", g.ty(id)))
}

fn dims(g: &Graph, shape: &[Id]) -> String {
    let dims: Vec<String> = shape.iter().map(|&d| crate::print::extent(g, d)).collect();
    format!("[{}]", dims.join(", "))
}

fn same_shape(g: &Graph, found: &[Id], expected: &[Id]) -> Rule {
    let same = found.len() == expected.len()
        && found.iter().zip(expected).all(|(&a, &b)| a == b || Linear::of(g, a) == Linear::of(g, b));
    require(same, || format!("{} is not {}", dims(g, found), dims(g, expected)))
}

/// Equal shapes, one dimension excepted.
fn same_but(g: &Graph, found: &[Id], expected: &[Id], axis: usize) -> Rule {
    let fits = found.len() == expected.len() && axis < found.len();
    require(fits, || format!("there is no dimension {axis} in {} and {}", dims(g, found), dims(g, expected)))?;
    same_shape(g, &found[..axis], &expected[..axis])?;
    same_shape(g, &found[axis + 1..], &expected[axis + 1..])
}

/// `whole - sum of parts`, if it is a constant.
fn difference(g: &Graph, whole: Id, parts: &[Id]) -> Option<i64> {
    let mut terms = Linear::of(g, whole).terms;
    let mut constant = Linear::of(g, whole).constant;
    for &p in parts {
        let part = Linear::of(g, p);
        constant -= part.constant;
        terms.extend(part.terms.iter().map(|t| (t.0, -t.1)));
    }
    terms.sort_unstable_by_key(|t| t.0);
    let mut rest: Vec<(Id, i64)> = vec![];
    for (t, k) in terms {
        match rest.last_mut() {
            Some(last) if last.0 == t => last.1 += k,
            _ => rest.push((t, k)),
        }
    }
    rest.iter().all(|t| t.1 == 0).then_some(constant)
}

/// A product of extents: a constant times factors that no constant divides.
#[derive(PartialEq, Debug)]
struct Product {
    constant: i64,
    factors: Vec<(Vec<(Id, i64)>, i64)>,
}

impl Product {
    fn of(g: &Graph, shape: &[Id]) -> Product {
        let mut p = Product { constant: 1, factors: vec![] };
        shape.iter().for_each(|&d| p.times(g, d));
        p.factors.sort();
        p
    }

    fn times(&mut self, g: &Graph, d: Id) {
        let l = Linear::of(g, d);
        let common = l.terms.iter().fold(l.constant.abs(), |c, t| gcd(c, t.1)).max(1);
        self.constant *= common;
        match &l.terms[..] {
            [] => self.constant *= l.constant / common,
            [(t, k)] if l.constant == 0 => {
                self.constant *= k / common;
                match g.op(*t) {
                    Op::Binary(crate::BinOp::Mul) => {
                        self.times(g, g.src(*t)[0]);
                        self.times(g, g.src(*t)[1]);
                    }
                    _ => self.factors.push((vec![(*t, 1)], 0)),
                }
            }
            terms => {
                self.factors.push((terms.iter().map(|t| (t.0, t.1 / common)).collect(), l.constant / common));
            }
        }
    }
}
