//! What lies in shared memory of a panel, and how threads copy it there.

use super::{Product, Sum};
use crate::gpu::align::align;
use crate::gpu::batch::held;
use crate::gpu::places::Copies;
use crate::gpu::threads::Tiler;
use crate::kernel::dot_pattern::{Parts, Scales};
use crate::kernel::expression::{by, divides, loads_in, or_last, outside, replace};
use crate::kernel::superword::Packer;
use ir::{BinOp, DType, Graph, Id, Op};
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes of a row of a panel at least.
const LEAST: i64 = 64;

/// Elements of a panel at most, of so many bytes each, by how many blocks there are, the longest first: of few tokens, a
/// thread has registers for longer panels, and waits less often in them. A block that has a multiprocessor for itself has
/// nothing else to do meanwhile. Shorter ones are for want of room.
pub(super) fn lengths(tokens: i64, alone: bool, bytes: i64) -> impl Iterator<Item = i64> {
    let longest = match tokens {
        ..=32 if alone => 512,
        ..=32 => 256,
        _ => 128,
    };
    [512, 256, 128, 64, 32].into_iter().filter(move |&length| length <= longest && length * bytes >= LEAST)
}

/// What a float is read along: `count` rows or tokens, from `first` on, of `all`.
#[derive(Clone, Copy)]
struct Along {
    dim: Id,
    first: i64,
    count: i64,
    all: i64,
}

/// What lies in shared memory of a panel.
pub(super) struct Panel {
    pub(super) codes: Id,
    pub(super) values: Id,
    pub(super) factor: [Option<Id>; 2],
    pub(super) rest: [Option<Id>; 2],
}

/// The codes of a row in stretches whose bits lie alike.
struct Stretches {
    step: Id,
    span: i64,
    /// Vectors of neighbours, with the first element of each.
    chunks: Vec<(i64, Id)>,
}

/// Lets threads take units in turns; `each` says what is stored of one, as buffers, indices and values. What is loaded
/// from memory goes to registers first.
pub(super) fn deal(
    t: &mut Tiler,
    g: &mut Graph,
    count: i64,
    all: &mut Copies,
    each: impl FnMut(&mut Graph, Id) -> Vec<(Id, Id, Id)>,
) {
    deal_from(t, g, (0, count), all, each);
}

/// The same from a thread on.
fn deal_from(
    t: &mut Tiler,
    g: &mut Graph,
    (first, count): (i64, i64),
    all: &mut Copies,
    mut each: impl FnMut(&mut Graph, Id) -> Vec<(Id, Id, Id)>,
) {
    let copies = t.in_turns_from(g, (first, count), |t, g, at| {
        let mut stored = each(g, at);
        let mut loads: Vec<Id> = stored.iter().flat_map(|s| from_memory(g, s.2)).collect();
        loads.sort_unstable();
        loads.dedup();
        let pairs = held(t, g, loads, stored.iter_mut().map(|s| &mut s.2));
        let sets = pairs.into_iter().map(|pair| t.set(g, vec![pair])).collect();
        let store = |(buffer, index, value)| g.make(Op::Store, DType::Index, vec![], vec![buffer, index, value]);
        let stores = stored.into_iter().map(store).collect();
        (sets, stores)
    });
    all.extend(copies);
}

/// What an expression loads from memory, without what addresses are made of.
pub(super) fn from_memory(g: &Graph, value: Id) -> Vec<Id> {
    let all: Vec<Id> = loads_in(g, value).into_iter().filter(|&l| outside(g, l)).collect();
    let inner: FxHashSet<Id> = all.iter().flat_map(|&l| loads_in(g, g.src(l)[1])).collect();
    all.into_iter().filter(|l| !inner.contains(l)).collect()
}

impl Product {
    /// A token; past the last one, the last one, and the first where there is none.
    pub(super) fn token_at(&self, g: &mut Graph, token: Id) -> Id {
        let last = or_last(g, token, self.token);
        by(g, BinOp::Max, last, 0)
    }

    /// `e` for the group and element of this offset in a stretch of `span` of the panel.
    fn at_element(&self, g: &mut Graph, e: Id, (panel, stretch): (Id, Id), span: i64, offset: i64) -> Id {
        let group = self.group_at(g, panel, stretch, span / self.width, offset / self.width);
        let element = g.int(offset % self.width);
        self.sums[0].p.at(g, e, (group, element), self.width)
    }

    /// Group `step * n + i` of a panel.
    fn group_at(&self, g: &mut Graph, panel: Id, step: Id, n: i64, i: i64) -> Id {
        let first = by(g, BinOp::Mul, panel, self.groups);
        let at = by(g, BinOp::Mul, step, n);
        let at = by(g, BinOp::Add, at, i);
        g.add(first, at)
    }

    /// Shared memory for a panel, and what is copied to it.
    pub(super) fn copies(&self, t: &mut Tiler, g: &mut Graph, panel: Id) -> Option<(Panel, Copies)> {
        let mut all = vec![];
        let codes = t.near(g, g.dtype(self.sums[0].p.code), self.rows * self.pitch(g))?;
        for sum in &self.sums {
            self.unpack(t, g, panel, sum, codes, &mut all)?;
        }
        let values = self.copy_values(t, g, panel, &mut all)?;
        let factor = self.copy_scales(t, g, panel, |scales| Some(&scales.factor), &mut all)?;
        let rest = self.copy_scales(t, g, panel, |scales| scales.rest.as_ref(), &mut all)?;
        Some((Panel { codes, values, factor, rest }, all))
    }

    /// A part of the scales, of rows and of tokens.
    fn copy_scales(
        &self,
        t: &mut Tiler,
        g: &mut Graph,
        panel: Id,
        part: impl Fn(&Scales) -> Option<&Parts>,
        all: &mut Copies,
    ) -> Option<[Option<Id>; 2]> {
        let parts = part(&self.sums[0].scales);
        let rows = match parts.and_then(|parts| parts.row) {
            Some(_) => Some(t.near(g, DType::F32, self.rows * self.groups)?),
            None => None,
        };
        let tokens = match parts.and_then(|parts| parts.token) {
            Some(_) => Some(t.near(g, DType::F32, self.tokens * self.groups)?),
            None => None,
        };
        for sum in &self.sums {
            let Some(parts) = part(&sum.scales) else { continue };
            if let (Some(buffer), Some(e)) = (rows, parts.row) {
                let along = Along { dim: sum.row, first: sum.first, count: sum.rows, all: self.rows };
                self.copy_floats(t, g, panel, (buffer, e), along, all);
            }
            if let (Some(buffer), Some(e), 0) = (tokens, parts.token, sum.first) {
                let along = Along { dim: self.token, first: 0, count: self.tokens, all: self.tokens };
                self.copy_floats(t, g, panel, (buffer, e), along, all);
            }
        }
        Some([rows, tokens])
    }

    /// Codes of the rows of a sum as bytes.
    fn unpack(&self, t: &mut Tiler, g: &mut Graph, panel: Id, sum: &Sum, buffer: Id, all: &mut Copies) -> Option<()> {
        let Stretches { step, span, chunks } = self.stretches(t, g, panel, sum)?;
        let across = self.length() / span;
        let pitch = self.pitch(g);
        let count = sum.rows * across;
        // Those begin that have no rows of the sums before.
        let first = if self.is_cooperative() { sum.first * across % t.target.plan.threads() } else { 0 };
        deal_from(t, g, (first, count), all, |g, at| {
            let (row, stretch) = (by(g, BinOp::Div, at, across), by(g, BinOp::Mod, at, across));
            let (to, from) = (by(g, BinOp::Mul, row, pitch), by(g, BinOp::Mul, stretch, span));
            let to = g.add(to, from);
            let to = by(g, BinOp::Add, to, sum.first * pitch);
            let mut m = FxHashMap::from_iter([(sum.row, row), (step, stretch)]);
            let stored = |&(first, v): &(i64, Id)| {
                let v = g.substitute(v, &mut m);
                (buffer, by(g, BinOp::Add, to, first), v)
            };
            chunks.iter().map(stored).collect()
        });
        Some(())
    }

    /// The codes of a row as vectors of neighbours.
    fn stretches(&self, t: &mut Tiler, g: &mut Graph, panel: Id, sum: &Sum) -> Option<Stretches> {
        let each = self.row(g);
        let mut last = None;
        for groups in [1, 2, 4, 8] {
            let span = groups * self.width;
            if self.groups % groups != 0 || span % each != 0 {
                continue;
            }
            let step = t.counted(g, self.groups / groups);
            let all: Vec<Id> = (0..span).map(|e| self.at_element(g, sum.p.code, (panel, step), span, e)).collect();
            let (mut chunks, mut packer) = (vec![], Packer::shifting());
            for (i, lanes) in all.chunks(each as usize).enumerate() {
                let v = packer.pack_vector(g, lanes);
                chunks.extend(v.map(|v| (i as i64 * each, align(g, v, t.target.plan.widest))));
            }
            let whole = chunks.len() as i64 * each == span && packer.gathered == 0;
            if !whole {
                continue;
            }
            let alike = !chunks.iter().any(|c| divides(g, c.1, step));
            let stretches = Stretches { step, span, chunks };
            if alike {
                return Some(stretches);
            }
            last = Some(stretches);
        }
        // The factors of blocks that are unpacked to numbers may lie differently in each stretch.
        last.filter(|_| self.factor(g) != DType::I8)
    }

    /// Codes of the tokens.
    fn copy_values(&self, t: &mut Tiler, g: &mut Graph, panel: Id, all: &mut Copies) -> Option<Id> {
        let p = &self.sums[0].p;
        let (each, pitch) = (self.row(g), self.pitch(g));
        let across = self.length() / each;
        let step = t.counted(g, across);
        let lanes: Vec<Id> = (0..each)
            .map(|e| {
                let at = by(g, BinOp::Mul, step, each);
                let at = by(g, BinOp::Add, at, e);
                let group = by(g, BinOp::Div, at, self.width);
                let first = by(g, BinOp::Mul, panel, self.groups);
                let place = (g.add(first, group), by(g, BinOp::Mod, at, self.width));
                p.at(g, p.x, place, self.width)
            })
            .collect();
        let mut packer = Packer::shifting();
        let v = packer.pack_vector(g, &lanes).filter(|_| packer.gathered == 0)?;
        let v = align(g, v, t.target.plan.widest);
        let buffer = t.near(g, self.factor(g), self.tokens * pitch)?;
        deal(t, g, self.tokens * across, all, |g, at| {
            let (token, part) = (by(g, BinOp::Div, at, across), by(g, BinOp::Mod, at, across));
            let (to, from) = (by(g, BinOp::Mul, token, pitch), by(g, BinOp::Mul, part, each));
            let last = self.token_at(g, token);
            let mut m = FxHashMap::from_iter([(self.token, last), (step, part)]);
            vec![(buffer, g.add(to, from), g.substitute(v, &mut m))]
        });
        Some(buffer)
    }

    /// A float of each row or token and group, those of a group beside each other.
    fn copy_floats(
        &self,
        t: &mut Tiler,
        g: &mut Graph,
        panel: Id,
        (buffer, e): (Id, Id),
        along: Along,
        all: &mut Copies,
    ) {
        let Along { dim, first: offset, count, all: pitch } = along;
        let n = [4, 2, 1].into_iter().find(|n| self.groups % n == 0).unwrap_or(1);
        let step = t.counted(g, self.groups / n);
        let lanes: Vec<Id> = (0..n)
            .map(|i| {
                let at = self.group_at(g, panel, step, n, i);
                replace(g, e, self.sums[0].p.group, at)
            })
            .collect();
        let mut packer = Packer::shifting();
        let packed = packer.pack_vector(g, &lanes).filter(|_| packer.gathered == 0 && n > 1);
        let packed = packed.map(|v| align(g, v, t.target.plan.widest));
        deal(t, g, count * (self.groups / n), all, |g, at| {
            let (of, part) = (by(g, BinOp::Mod, at, count), by(g, BinOp::Div, at, count));
            let source = if dim == self.token { self.token_at(g, of) } else { of };
            let mut m = FxHashMap::from_iter([(dim, source), (step, part)]);
            let first = by(g, BinOp::Mul, part, n * pitch);
            let first = g.add(first, of);
            let first = by(g, BinOp::Add, first, offset);
            let packed = packed.map(|v| g.substitute(v, &mut m));
            (0..n)
                .map(|i| {
                    let value = match packed {
                        Some(v) => g.make(Op::Extract(i as u16), DType::F32, vec![], vec![v]),
                        None => g.substitute(lanes[i as usize], &mut m),
                    };
                    (buffer, by(g, BinOp::Add, first, i * pitch), value)
                })
                .collect()
        });
    }
}
