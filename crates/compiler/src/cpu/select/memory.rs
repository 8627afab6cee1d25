//! Loads, stores and tables.

use super::inst::{Inst, call, infix, integer, numbers, prefix, type_name, value};
use super::masks;
use ir::{DType, Graph, Id, Op, PRODUCT, Type};

/// An element, or lanes that lie one after another.
pub(super) fn load(g: &mut Graph, id: Id) -> Option<Inst> {
    let (Op::Load, ty, &[buffer, at]) = (g.op(id), g.ty(id), g.src(id)) else { return None };
    let place = Inst::Address(buffer, at);
    Some(match ty {
        Type { base: DType::Bool, lanes } if lanes > 1 => prefix("-", call(format!("kl_load_i8x{lanes}"), [place])),
        Type { base, lanes: 1 } if base == g.dtype(buffer) => Inst::Element(buffer, at),
        Type { base, lanes: 1 } => call(format!("kl_load_{base}"), [place]),
        _ => call(format!("kl_load_{}", type_name(ty)), [place]),
    })
}

/// A call of the matrix unit, which is stored where its sums come from.
pub(super) fn product(g: &mut Graph, id: Id) -> Option<Inst> {
    let (Op::Store, &[_, _, product]) = (g.op(id), g.src(id)) else { return None };
    if *g.op(product) != Op::Product {
        return None;
    }
    let loads = g.src(product);
    let places = loads.iter().map(|&load| Inst::Address(g.src(load)[0], g.src(load)[1]));
    let steps = usize::from(g.ty(loads[1]).lanes) / (PRODUCT * PRODUCT);
    Some(call("kl_product", places.chain([integer(steps as i64)]).collect::<Vec<_>>()))
}

/// An element, or lanes one after another.
pub(super) fn store(g: &mut Graph, id: Id) -> Option<Inst> {
    let (Op::Store, &[buffer, at, stored]) = (g.op(id), g.src(id)) else { return None };
    let (ty, place) = (g.ty(stored), Inst::Address(buffer, at));
    Some(match (ty.lanes, ty.base) {
        (1, _) => infix(Inst::Element(buffer, at), "=", value(stored)),
        (n, DType::Bool) => {
            let bytes = masks::widened(value(stored), masks::bits(g, stored), 8, n);
            call(format!("kl_store_i8x{n}"), [place, prefix("-", bytes)])
        }
        _ => call(format!("kl_store_{}", type_name(ty)), [place, value(stored)]),
    })
}

/// A line that will be read, with a locality of 3 for the nearest cache.
pub(super) fn prefetch(g: &mut Graph, id: Id) -> Option<Inst> {
    let (&Op::Prefetch(level), &[buffer, at]) = (g.op(id), g.src(id)) else { return None };
    let place = Inst::Address(buffer, at);
    Some(call("__builtin_prefetch", [place, integer(0), integer(4 - i64::from(level))]))
}

/// Entries of a table of 16 bytes.
pub(super) fn lookup(g: &mut Graph, id: Id) -> Option<Inst> {
    let (Op::Lookup, &[table, at]) = (g.op(id), g.src(id)) else { return None };
    let Op::Lanes(table) = g.op(table) else { return None };
    Some(match g.ty(id).lanes {
        1 => Inst::Entry(table.clone(), Box::new(value(at))),
        n => {
            let table = numbers(Type::vector(DType::U8, 16), table.iter().copied());
            call(format!("kl_lookup_{n}"), [table, value(at)])
        }
    })
}
