//! The index that chooses the positions that attention reads (DeepSeek-V3.2): each token scores all positions before it by keys
//! that lie in a cache of their own, and reads the best.
//!
//! The score of a position is the sum over heads of a weight of the token times what is positive of the product of query and
//! key. Where tokens read the cache one by one, each gathers the rows that it has chosen; tokens of a run read all pages, in
//! which what each has not chosen counts nothing. Of equal scores the earlier position is chosen.

use super::past::Past;
use super::{Step, times};
use crate::best::Best;
use crate::cache::{Cache, CacheKind, PAGE};
use crate::config::{ConfigError, Index};
use compiler::{Dim, Tensor, dims};
use ir::{BinOp, DType};
use std::rc::Rc;

/// Epsilon of the norm of keys.
const EPS: f32 = 1e-6;

/// Tiles of a split at least: a fold over one is none, and folds are over what is counted.
const LEAST_TILES: i64 = 2;

/// What the index of a layer has chosen, which layers behind it may read too.
#[derive(Clone)]
pub(super) enum Chosen {
    /// Rows of the cache, where tokens read one by one.
    Rows(Rc<Past>),
    /// Whether a token of a run reads a position, `[runs, 1, 1, pages, PAGE, RUN]`.
    OfRuns(Tensor),
}

impl Step<'_> {
    /// What an index chooses in this layer, if one does: for tokens `x` `[T, hidden]`, with the bottleneck of their queries `a`.
    pub(super) fn chosen(
        &self,
        layer: i64,
        (x, a): (&Tensor, &Tensor),
        states: &mut Vec<Tensor>,
        before: &mut Option<Chosen>,
    ) -> Result<Option<Chosen>, ConfigError> {
        let Some(index) = self.c.index_among(self.positions) else { return Ok(None) };
        if index.own[layer as usize] {
            let name = |part: &str| format!("blk.{layer}.indexer.{part}");
            let rotation = self.rotation.with_halves(index.halves);
            let product = |x: &Tensor, part: &str, rows: i64| {
                let w = self.w.get(&name(&format!("{part}.weight")), &[rows, x.len(1)])?;
                self.scaled(x.linear(&w), &name(&format!("{part}.scale")))
            };
            let k = product(x, "attn_k", index.key)?;
            let k = k.layer_norm(Some(&self.w.get(&name("k_norm.weight"), &[index.key])?), EPS);
            let k = self.biased(k, &name("k_norm.bias"), index.key)?;
            let k = rotation.of_front(&k.unsqueeze(1)).reshape(&k.shape());
            let cache = self.store_as(self.cache.of_index(), layer, ".index", &k);
            states.extend(cache.states().cloned());
            *before = match self.chooses {
                true => {
                    let rows = index.heads * index.key;
                    let q = product(a, "attn_q_b", rows)?;
                    let q = rotation.of_front(&q.reshape(&[self.t, index.heads.into(), index.key.into()]));
                    let w = product(x, "proj", index.heads)?;
                    Some(self.best(index, &cache, &q, &times(w, 1.0 / (rows as f32).sqrt())))
                }
                false => None,
            };
        }
        Ok(before.clone())
    }

    /// The best positions for queries `[T, heads, key]` whose heads weigh `[T, heads]`.
    fn best(&self, index: &Index, cache: &Cache, q: &Tensor, w: &Tensor) -> Chosen {
        let (t, heads, key) = (self.t, index.heads, index.key);
        let zero = self.b.float(0.0);
        if let Some(runs) = &self.runs {
            let past = runs.past_of(false);
            let q = runs.queries(&q.reshape(dims![t, 1, heads, key]), 1.0, cache.kind() == CacheKind::F16);
            let keys = runs.pages_of(past, cache, 1, 0, key);
            let w = runs.lanes(w).unsqueeze(1).unsqueeze(3).unsqueeze(3);
            let scores = (&runs.scores(&keys, &q).maximum(&zero) * &w).sum(2);
            return Chosen::OfRuns(runs.best(&scores, index.top_k, self.positions));
        }
        let pages = self.positions / PAGE;
        let (page, len) = (self.b.iota(pages), self.b.int32(PAGE));
        let keys = cache.tiles_of(&self.table.pages(&self.segment, &page.unsqueeze(0)));
        let products = (&q.reshape(dims![t, 1, heads, 1, key]) * &keys.unsqueeze(2)).sum(4);
        let scores = (&products.maximum(&zero) * &w.reshape(dims![t, 1, heads, 1])).sum(2).unsqueeze(3);
        let first = page.binary(BinOp::Mul, &len).reshape(dims![1, pages, 1, 1]);
        let at = first.binary(BinOp::Add, &self.b.iota(PAGE).reshape(dims![1, 1, PAGE, 1]));
        let after = self.position.binary(BinOp::Add, &self.b.int32(1));
        let visible = at.lt(&after.reshape(dims![t, 1, 1, 1]));
        let best = Best::of(&scores, (&at, &visible), index.top_k, self.positions);
        let chosen = best.chosen(&at, &visible).reshape(dims![t, pages, PAGE]);
        Chosen::Rows(Rc::new(self.rows_of(&chosen, index.top_k)))
    }

    /// The rows of positions of which `most` at most are chosen, `[T, pages, PAGE]`, in the order of positions, as what each
    /// token reads: in the place of pages, `[T, splits, tiles, PAGE]`.
    fn rows_of(&self, chosen: &Tensor, most: i64) -> Past {
        let (b, t, pages) = (self.b, self.t, chosen.len(1));
        let int = |v: i64| b.int32(v);
        let add = |x: &Tensor, y: &Tensor| x.binary(BinOp::Add, y);
        let sub = |x: &Tensor, y: &Tensor| x.binary(BinOp::Sub, y);
        let mul = |x: &Tensor, y: i64| x.binary(BinOp::Mul, &int(y));
        let count = |x: &Tensor| x.cast(DType::I32).sum(x.rank() - 1);
        let chosen = chosen.cast(DType::I32);
        let of_page = chosen.sum(2);
        let (until, within) = (of_page.scan(1), chosen.scan(2));
        let total = of_page.sum(1);
        // Places in as many splits as a past of pages has, and the number of what is there; after the last, the last again.
        let all = (most + PAGE - 1) / PAGE;
        let splits = self.past.splits.min(all);
        let tiles = ((all + splits - 1) / splits).max(LEAST_TILES);
        let split = b.iota(splits).reshape(dims![1, splits, 1, 1]);
        let tile = mul(&b.iota(tiles), splits).reshape(dims![1, 1, tiles, 1]);
        let place = add(&mul(&add(&tile, &split), PAGE), &b.iota(PAGE).reshape(dims![1, 1, 1, PAGE]));
        let places = splits * tiles * PAGE;
        let number = add(&place.reshape(dims![1, places]), &int(1)).binary(BinOp::Min, &total.unsqueeze(1));
        // Its page is behind all pages by whose end there are fewer.
        let passed = until.unsqueeze(1).lt(&number.unsqueeze(2));
        let page = count(&passed);
        let before = passed.select(&of_page.unsqueeze(1), &int(0)).sum(2);
        let rows = within.reshape(&[b.length(BinOp::Mul, t, pages), PAGE.into()]);
        let row = add(&mul(&b.iota(t), pages).unsqueeze(1), &page);
        let offset = count(&rows.gather(&row).lt(&sub(&number, &before).unsqueeze(2)));
        let row = add(&mul(&self.table.pages(&self.segment, &page), PAGE), &offset);
        let by_tile = [t, splits.into(), tiles.into(), PAGE.into()];
        let last = sub(&total, &int(1)).binary(BinOp::Div, &int(PAGE)).unsqueeze(1);
        let n = int(splits);
        Past {
            page: row.reshape(&by_tile),
            tiles: sub(&add(&last, &n), &b.iota(splits).unsqueeze(0)).binary(BinOp::Div, &n),
            used: add(&last, &int(1)).binary(BinOp::Min, &n),
            visible: place.lt(&total.reshape(dims![t, 1, 1, 1])),
            at: place,
            unseen: f32::MIN,
            splits,
            most_tiles: Dim::Const(tiles),
        }
    }
}
