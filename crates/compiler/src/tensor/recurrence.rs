//! Values that are carried from step to step.

use super::{Dim, Tensor};
use ir::{DType, Op, Recurrence};

/// Steps one after another, in runs.
#[derive(Clone)]
pub struct Runs {
    /// Whether a run begins at each step, `[steps]`; one does at the first.
    pub begins: Tensor,
    /// Whether a run ends at each step, `[steps]`.
    pub ends: Tensor,
    /// The run of each step, `[steps]`.
    pub run: Tensor,
    /// How many there are.
    pub count: Dim,
}

impl Runs {
    /// What each run carries on from its last step, `[count, ..]`, and what is given at each step, `[steps, ..]`. A run begins
    /// with a row of `start`, `[steps, ..]`. `next` is told what is carried so far, and the `inputs`, `[steps, ..]`, of the
    /// step; what it returns is carried on. `given` is told both, and the inputs; the leading dimensions of what it returns are
    /// those of what is carried. The dimension of steps is missing in all that they see.
    ///
    /// # Panics
    /// If they read what is carried otherwise than a recurrence can ([`Op::Recur`]).
    pub fn carry<const N: usize>(
        &self,
        start: &Tensor,
        inputs: [&Tensor; N],
        next: impl FnOnce(&Tensor, [Tensor; N]) -> Tensor,
        given: impl FnOnce([&Tensor; 2], [Tensor; N]) -> Tensor,
    ) -> [Tensor; 2] {
        let b = &start.builder;
        let arg = |n: usize, t: &Tensor| {
            let (ty, shape) = (t.dtype(), b.dims(&t.shape()[1..]));
            let id = b.0.borrow_mut().make(Op::Arg(n), ty, shape, vec![]);
            b.tensor(id)
        };
        let of_step: [Tensor; N] = std::array::from_fn(|i| arg(i + 1, inputs[i]));
        let so_far = arg(0, start);
        let next = next(&so_far, of_step.clone());
        let given = given([&so_far, &arg(N + 1, start)], of_step);
        let flags = [&self.begins, &self.ends].map(|flag| flag.cast(DType::I32).id);
        let sources = flags.into_iter().chain([self.run.id, start.id]).chain(inputs.map(|t| t.id));
        let sources: Vec<_> = sources.chain([next.id, given.id]).collect();
        [(0, &next, self.count), (1, &given, self.begins.shape()[0])].map(|(part, like, first)| {
            let mut shape = b.dims(&like.shape());
            shape.insert(0, b.dims(&[first])[0]);
            let ty = like.dtype();
            let mut g = b.0.borrow_mut();
            let id = g.make(Op::Recur { inputs: N, part }, ty, shape, sources.clone());
            if let Some(Err(why)) = Recurrence::of(&g, id).map(|r| r.check_reads(&g)) {
                panic!("a recurrence: {why}");
            }
            b.tensor(id)
        })
    }
}
