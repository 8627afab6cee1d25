//! What parameters are multiplied with: the sums of products in a graph that run over the last dimension of a parameter, as
//! [`Tensor::linear`] records them.

use super::{Builder, Tensor};
use ir::{BinOp, Id, Op, ReduceOp};

/// What a parameter is multiplied with in one product.
#[derive(Clone)]
pub struct Operand {
    /// Name of the parameter.
    pub name: String,
    /// What its rows are multiplied with, `[.., 1, columns]`: the dimension before the last is that of the rows.
    pub input: Tensor,
    /// If the product has only some of the parameter, which entries of its first dimension, `[..]`.
    pub index: Option<Tensor>,
}

impl Builder {
    /// The products of parameters that these tensors are computed from, those that others need first. Parameters whose
    /// last dimension is not the one that is summed are not among them.
    pub fn operands(&self, of: &[&Tensor]) -> Vec<Operand> {
        let roots: Vec<Id> = of.iter().map(|tensor| tensor.id).collect();
        let order = self.0.borrow().toposort(&roots);
        order.into_iter().filter_map(|id| self.operand(id)).collect()
    }

    /// That of a node, if it is such a product.
    fn operand(&self, id: Id) -> Option<Operand> {
        let g = self.0.borrow();
        let Op::Reduce(ReduceOp::Sum, axes) = g.op(id) else { return None };
        let product = g.src(id)[0];
        let (Op::Binary(BinOp::Mul), [a, b]) = (g.op(product), g.src(product)) else { return None };
        let last = g.shape(product).len() - 1;
        if last == 0 || axes != &[last] {
            return None;
        }
        let (a, b) = (*a, *b);
        drop(g);
        [(a, b), (b, a)].into_iter().find_map(|(input, weight)| {
            let (name, index) = self.rows_of(weight)?;
            let input = self.unexpanded(input);
            let one_row = self.0.borrow().as_int(self.0.borrow().shape(input)[last - 1]) == Some(1);
            let index = index.map(|index| self.tensor(index));
            one_row.then(|| Operand { name, input: self.tensor(input), index })
        })
    }

    /// The parameter whose rows a node has, whole or in part, in any order; and the index by which some were gathered.
    fn rows_of(&self, mut id: Id) -> Option<(String, Option<Id>)> {
        let g = self.0.borrow();
        let mut index = None;
        loop {
            let columns = |id: Id| g.shape(id).last().copied();
            let below = g.src(id).first().copied();
            match g.op(id) {
                Op::Param { name } => return Some((name.clone(), index)),
                Op::Expand | Op::Reshape if columns(id) != columns(below?) => return None,
                Op::Permute(order) if order.last() != Some(&(order.len() - 1)) => return None,
                Op::Slice { axis, .. } if axis + 1 == g.shape(id).len() => return None,
                Op::Gather if index.is_some() => return None,
                Op::Gather => index = Some(g.src(id)[1]),
                Op::Expand | Op::Reshape | Op::Permute(_) | Op::Slice { .. } | Op::Cast | Op::Dequant(..) => {}
                _ => return None,
            }
            id = below?;
        }
    }

    fn unexpanded(&self, id: Id) -> Id {
        let g = self.0.borrow();
        match g.op(id) {
            Op::Expand => g.src(id)[0],
            _ => id,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Builder, Dim, dims};
    use ir::DType;

    #[test]
    fn whole_parts_and_gathered_parameters_are_found_and_others_are_not() {
        let b = Builder::new();
        let t: Dim = b.var("t", 1, 9).into();
        let x = b.input("x", DType::F32, &[t, 8.into()]);
        let ids = b.input("ids", DType::I32, dims![t, 2]);
        let [whole, cut, each] = [("whole", dims![4, 8]), ("cut", dims![6, 8]), ("each", dims![3, 4, 8])]
            .map(|(n, s)| b.param(n, DType::F32, s));
        let turned = b.param("turned", DType::F32, dims![8, 5]).permute(&[1, 0]);
        let a = x.linear(&whole);
        let c = x.linear(&cut.slice(0, 2, 4));
        let d = x.unsqueeze(1).linear(&each.gather(&ids)).sum(1);
        let e = x.linear(&turned).sum(1).unsqueeze(1);
        let all = &(&(&a + &c) + &d) + &e;
        let found: Vec<_> =
            b.operands(&[&all]).into_iter().map(|o| (o.name, o.input.shape().len(), o.index.map(|i| i.id()))).collect();
        let expected = [("whole", 3, None), ("cut", 3, None), ("each", 4, Some(ids.id()))];
        assert_eq!(found, expected.map(|(name, rank, index)| (name.to_owned(), rank, index)));
        assert_eq!(b.operands(&[&a])[0].input.shape(), [t, 1.into(), 8.into()]);
    }
}
