//! The arguments of calls, filters and tests.

use std::sync::Arc;

use super::error::Fault;
use super::value::Value;

/// The arguments of a call.
#[derive(Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<Value>,
    pub(super) named: Vec<(Arc<str>, Value)>,
}

impl Arguments {
    /// The arguments as the parameters of `what`, in order.
    pub(super) fn bind<const N: usize>(self, what: &str, params: [&str; N]) -> Result<[Option<Value>; N], Fault> {
        let mut bound = [const { None }; N];
        if self.positional.len() > N {
            let given = self.positional.len();
            return Fault::new(format!("{what} takes {N} arguments at most, not {given}"));
        }
        for (slot, value) in bound.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.named {
            match params.iter().position(|param| **param == *name) {
                Some(at) if bound[at].is_none() => bound[at] = Some(value),
                Some(_) => return Fault::new(format!("{what} gets {name:?} twice")),
                None => return Fault::new(format!("{what} has no parameter {name:?}")),
            }
        }
        Ok(bound)
    }
}
