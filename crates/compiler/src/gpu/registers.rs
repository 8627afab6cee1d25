//! Stashes in registers.
//!
//! Items of few elements give each to a thread, or to several in a row that all compute it. Where what reads a stash
//! finds every element in its own thread, the stash is a register there: nothing goes through shared memory, and no
//! barrier is needed. Sums over neighbours are butterflies, after which all lanes that took part have the result; a
//! short sum that all threads need is computed by each warp for itself. What some reader needs from another thread lies
//! in shared memory as well. Items in serial loops do without.

use crate::gpu::places::{Held, Spread};
use crate::gpu::threads::{Shares, Tiler};
use crate::kernel::expression::{collect_loads, combine, has_reduction, is_scratch, reads, reads_scratch, replace};
use crate::lower::Item;
use ir::index::{Linear, unflatten};
use ir::{BinOp, DType, Graph, Id, Op, ReduceOp, Space};
use rustc_hash::FxHashMap;

/// How an item is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// By the first path that fits.
    Any,
    /// No sum: each element by the threads that have it.
    Map(Spread),
    /// A sum over as many neighbours.
    Butterfly(i64),
    /// A short sum, by every warp.
    Everywhere,
}

/// A sum of more elements is divided among warps.
const SHORT: i64 = 1024;

/// Decides how each item of the plain phases is computed, and which stashes lie in registers.
pub(super) fn plan(t: &mut Tiler, g: &mut Graph, phases: &[(Option<Id>, Vec<Item>)]) -> Vec<Form> {
    let mut writers: FxHashMap<Id, usize> = FxHashMap::default();
    phases.iter().flat_map(|p| &p.1).for_each(|item| *writers.entry(item.buffer).or_default() += 1);
    let mut forms = vec![];
    for (serial, items) in phases {
        for item in items {
            let form = if serial.is_none() { t.form(g, item) } else { Form::Any };
            forms.push(form);
            if serial.is_none() && writers[&item.buffer] == 1 {
                t.hold(g, item, form);
            }
        }
    }
    // What is read from another thread.
    let mut from_shared = vec![];
    let mut each = forms.iter();
    for (serial, items) in phases {
        let mut values: Vec<Id> = serial.iter().map(|&r| g.src(r)[0]).collect();
        for item in items {
            values.extend(item.dims.iter().map(|&d| g.src(d)[0]));
            match each.next().and_then(|&form| t.places(g, item, form)) {
                Some(p) => {
                    let all = [item.index, item.value].map(|e| t.at(g, e, &p));
                    values.extend(all);
                }
                None => values.extend([item.index, item.value]),
            }
        }
        values.iter().for_each(|&v| collect_loads(g, v, &mut from_shared));
    }
    for load in from_shared {
        if let Some(held) = t.target.held.get_mut(&g.src(load)[0]) {
            held.shared = true;
        }
    }
    forms
}

/// Where the elements of an item are computed.
struct Places {
    /// What stands for its dimensions, and for the range of a butterfly.
    at: FxHashMap<Id, Id>,
    /// Whether a thread has an element at all, if some have none.
    has: Option<Id>,
    /// Whether it is the one of several that stores it.
    first: Option<Id>,
    /// Ranges that are zero for all threads that have one: few are of the first warp.
    zero: Vec<Id>,
}

impl Tiler {
    /// How an item outside of serial loops is computed.
    fn form(&self, g: &mut Graph, item: &Item) -> Form {
        let Some(n) = elements(g, item) else { return Form::Any };
        if let Op::Reduce(..) = *g.op(item.value) {
            return self.sum_form(g, item, n);
        }
        if has_reduction(g, item.value) {
            return Form::Any;
        }
        let mut spreads: Vec<Spread> = self.held_by(g, item.value).into_iter().map(|h| h.spread).collect();
        if n == 1 {
            spreads.insert(0, Spread::All);
        }
        spreads.push(Spread::Every(1));
        let whole = |t: &Tiler, g: &mut Graph, spread: Spread| {
            let places = t.places(g, item, Form::Map(spread))?;
            let value = t.at(g, item.value, &places);
            (!reads_scratch(g, value)).then_some(Form::Map(spread))
        };
        let found = spreads.into_iter().find_map(|spread| whole(self, g, spread));
        found.unwrap_or(if n <= self.target.plan.threads() { Form::Map(Spread::Every(1)) } else { Form::Any })
    }

    fn sum_form(&self, g: &mut Graph, item: &Item, n: i64) -> Form {
        let src = g.src(item.value).to_vec();
        let lens: Option<Vec<i64>> = src[1..].iter().map(|&r| g.as_int(g.src(r)[0])).collect();
        let Some(lens) = lens.filter(|_| !has_reduction(g, src[0])) else { return Form::Any };
        let total: i64 = lens.iter().product();
        let scratch = reads_scratch(g, src[0]);
        if n == 1 && total <= SHORT && is_scratch(g, item.buffer) && reads_inputs_only(g, src[0]) {
            return Form::Everywhere;
        }
        let (form, lanes) = (Form::Butterfly(total), self.target.plan.lanes);
        let fits = lens.len() == 1 && (2..=lanes).contains(&total) && (total as u64).is_power_of_two();
        if scratch
            && fits
            && n * total % lanes == 0
            && let Some(places) = self.places(g, item, form)
        {
            let body = self.at(g, src[0], &places);
            if !reads_scratch(g, body) {
                return form;
            }
        }
        Form::Any
    }

    /// Lets a stash lie in registers, if its item has all of it.
    fn hold(&mut self, g: &mut Graph, item: &Item, form: Form) {
        let (Some(n), true) = (elements(g, item), is_scratch(g, item.buffer)) else { return };
        let spread = match form {
            Form::Map(spread) => spread,
            Form::Butterfly(n) => Spread::Every(n),
            Form::Everywhere => Spread::All,
            // All paths leave an element to the thread of its number, and one to all.
            Form::Any if n == 1 => Spread::All,
            Form::Any if n <= self.target.plan.threads() => Spread::Every(1),
            Form::Any => return,
        };
        let Some(places) = self.places(g, item, Form::Map(spread)) else { return };
        let index = g.substitute(item.index, &mut places.at.clone());
        if g.dtype(item.buffer) != DType::Bool && self.is_own(g, index, spread, &places.zero) {
            let acc = self.acc(g, g.dtype(item.buffer));
            self.target.held.insert(item.buffer, Held { acc, spread, shared: false });
        }
    }

    /// The element that a thread has.
    fn element(&self, g: &mut Graph, spread: Spread) -> Id {
        match spread {
            Spread::All => g.int(0),
            Spread::Every(n) if n == self.target.plan.lanes => self.target.warp,
            Spread::Every(n) => {
                let (number, n) = (self.target.number(g), g.int(n));
                g.binary(BinOp::Div, number, n)
            }
        }
    }

    /// Whether an index is that of the element that a thread has for which these ranges are zero.
    fn is_own(&self, g: &mut Graph, index: Id, spread: Spread, zero: &[Id]) -> bool {
        let (element, none) = (self.element(g, spread), g.int(0));
        let [a, b] = [index, element].map(|e| zero.iter().fold(e, |e, &range| replace(g, e, range, none)));
        let (a, b) = (Linear::of(g, a), Linear::of(g, b));
        (a.terms, a.constant) == (b.terms, b.constant)
    }

    fn places(&self, g: &mut Graph, item: &Item, form: Form) -> Option<Places> {
        let n = elements(g, item)?;
        let (spread, len) = match form {
            Form::Map(spread) => (spread, 1),
            Form::Butterfly(len) => (Spread::Every(len), len),
            Form::Any | Form::Everywhere => return None,
        };
        let number = self.target.number(g);
        let element = self.element(g, spread);
        let extents: Vec<Id> = item.dims.iter().map(|&d| g.src(d)[0]).collect();
        let at = unflatten(g, &extents, element);
        let mut at: FxHashMap<Id, Id> = item.dims.iter().copied().zip(at).collect();
        if let (Form::Butterfly(_), [_, range]) = (form, g.src(item.value)) {
            let (range, len) = (*range, g.int(len));
            at.insert(range, g.binary(BinOp::Mod, number, len));
        }
        let zero = g.int(0);
        let Spread::Every(each) = spread else {
            return (n == 1).then_some(Places {
                at,
                has: None,
                first: Some(g.binary(BinOp::Eq, number, zero)),
                zero: vec![],
            });
        };
        let (active, warp) = (n * each, self.target.plan.lanes);
        if active > self.target.plan.threads() {
            return None;
        }
        let has = (active < self.target.plan.threads()).then(|| {
            let (of, most) = if active % warp == 0 { (self.target.warp, active / warp) } else { (number, active) };
            let most = g.int(most);
            g.binary(BinOp::Lt, of, most)
        });
        let first = (each > 1).then(|| {
            let each = g.int(each);
            let rest = g.binary(BinOp::Mod, self.target.lane, each);
            g.binary(BinOp::Eq, rest, zero)
        });
        let zero = match active {
            1 => vec![self.target.warp, self.target.lane],
            _ if active <= warp => vec![self.target.warp],
            _ => vec![],
        };
        Some(Places { at, has, first, zero })
    }

    /// An expression at a place, with what lies in registers of the thread read there.
    fn at(&self, g: &mut Graph, value: Id, places: &Places) -> Id {
        let value = g.substitute(value, &mut places.at.clone());
        let mut loads = vec![];
        collect_loads(g, value, &mut loads);
        let mut map = FxHashMap::default();
        for load in loads {
            let (buffer, index) = (g.src(load)[0], g.src(load)[1]);
            if let Some(held) = self.target.held.get(&buffer)
                && self.is_own(g, index, held.spread, &places.zero)
            {
                map.insert(load, held.acc);
            }
        }
        g.substitute(value, &mut map)
    }

    fn held_by(&self, g: &Graph, value: Id) -> Vec<&Held> {
        let mut loads = vec![];
        collect_loads(g, value, &mut loads);
        loads.sort_unstable();
        loads.iter().filter_map(|&l| self.target.held.get(&g.src(l)[0])).collect()
    }

    /// Whether the stash of an item lies in registers.
    pub(super) fn holds(&self, item: &Item) -> bool {
        self.target.held.contains_key(&item.buffer)
    }

    /// The elements of an item along these dimensions, shared out among the threads; or left to all of them, if they
    /// shall have it.
    pub(super) fn shares_of(&mut self, g: &mut Graph, item: &Item, dims: &[Id]) -> Shares {
        match self.target.held.get(&item.buffer) {
            Some(Held { spread: Spread::All, .. }) => {
                let zero = g.int(0);
                Shares { outer: vec![], has: None, at: dims.iter().map(|&d| (d, zero)).collect() }
            }
            _ => self.share(g, dims),
        }
    }

    /// Statements that put an element where it belongs: into a register, into memory, or into both.
    pub(super) fn put(&self, g: &mut Graph, item: &Item, index: Id, value: Id, condition: Option<Id>) -> Vec<Id> {
        let Some(held) = self.target.held.get(&item.buffer) else {
            return vec![self.store_if(g, item.buffer, index, value, condition)];
        };
        let value = g.cast(value, g.dtype(item.buffer));
        let condition = condition.or_else(|| {
            let (number, zero) = (self.target.number(g), g.int(0));
            (held.spread == Spread::All).then(|| g.binary(BinOp::Eq, number, zero))
        });
        let mut all = vec![self.set(g, vec![(held.acc, value)])];
        if held.shared {
            all.push(self.store_if(g, item.buffer, index, held.acc, condition));
        }
        all
    }

    /// Statements that are due before an item, or all.
    pub(super) fn due(&mut self, g: &Graph, before: Option<&Item>) -> Vec<Id> {
        let pending = &mut self.target.pending;
        match before {
            Some(item) if pending.iter().all(|p| !reads(g, item, p.0)) => vec![],
            _ => std::mem::take(pending).into_iter().flat_map(|p| p.1).collect(),
        }
    }

    /// Statements of an item without a sum.
    pub(super) fn mapped(&self, g: &mut Graph, item: &Item, spread: Spread) -> Option<Vec<Id>> {
        let places = self.places(g, item, Form::Map(spread))?;
        let (value, index) = (self.at(g, item.value, &places), self.at(g, item.index, &places));
        let body = self.put(g, item, index, value, places.first);
        Some(self.only(g, places.has, body))
    }

    /// Statements of a sum over neighbours.
    pub(super) fn butterfly(&mut self, g: &mut Graph, item: &Item, op: ReduceOp, len: i64) -> Option<Vec<Id>> {
        let places = self.places(g, item, Form::Butterfly(len))?;
        let body = g.src(item.value)[0];
        let mut sum = self.at(g, body, &places);
        let ty = g.ty(sum);
        let mut mask = len / 2;
        while mask > 0 {
            let other = g.make(Op::LaneXor(mask as u16), ty, vec![], vec![sum]);
            sum = combine(g, op, sum, other);
            mask /= 2;
        }
        let index = self.at(g, item.index, &places);
        let body = self.put(g, item, index, sum, places.first);
        Some(self.only(g, places.has, body))
    }
}

/// Elements of an item, if their number is known.
fn elements(g: &Graph, item: &Item) -> Option<i64> {
    item.dims.iter().map(|&d| g.as_int(g.src(d)[0])).product()
}

fn reads_inputs_only(g: &Graph, value: Id) -> bool {
    let mut loads = vec![];
    collect_loads(g, value, &mut loads);
    let input = |&l: &Id| matches!(g.op(g.src(l)[0]), Op::Buffer { space: Space::Input, .. });
    loads.iter().all(input)
}
