//! Buffers of a program: what is bound from outside, and where values between
//! kernels lie in the arena.

use crate::placement::{ALWAYS, Life, place};
use crate::program::{Buffer, BufferKind};
use crate::schedule::Schedule;
use crate::tensor::Builder;
use gguf::format::Planes;
use ir::{Graph, Id, Op, index};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Lays out the memory of a schedule.
pub struct Layout {
    outputs: Vec<(String, Id)>,
    inputs: BTreeSet<String>,
    tables: BTreeMap<String, Vec<u8>>,
    planes: BTreeMap<String, Arc<Planes>>,
    /// First and last stage in which each stored value is alive.
    lives: FxHashMap<Id, Life>,
    buffers: Vec<Buffer>,
    index: FxHashMap<Id, usize>,
    in_arena: Vec<(usize, Id)>,
    /// Bytes at whose multiples values lie.
    alignment: usize,
}

impl Layout {
    /// Names of the parameters that the host fills for each step.
    pub(crate) fn inputs(&self) -> &BTreeSet<String> {
        &self.inputs
    }

    /// Finds how long each stored value lives. `planes` are the tensors that are repacked.
    pub fn new(
        g: &Graph,
        s: &Schedule,
        outputs: &[(String, Id)],
        builder: &Builder,
        planes: BTreeMap<String, Arc<Planes>>,
        alignment: usize,
    ) -> Layout {
        let mut lives: FxHashMap<Id, Life> = FxHashMap::default();
        for &m in &s.stored {
            if let Some(&h) = s.home.get(&m) {
                lives.insert(m, (s.groups[h].level, s.groups[h].level));
            }
        }
        for gr in s.groups.iter().filter(|gr| !gr.dead) {
            for &m in &gr.members {
                for r in s.reads(g, m) {
                    if let Some(l) = lives.get_mut(&r) {
                        l.1 = l.1.max(gr.level);
                    }
                }
            }
        }
        let sources = builder.1.borrow();
        Layout {
            outputs: outputs.iter().map(|(n, id)| (n.clone(), crate::schedule::roles::base(g, *id))).collect(),
            inputs: sources.inputs.clone(),
            tables: sources.tables.clone(),
            planes,
            lives,
            buffers: vec![],
            index: FxHashMap::default(),
            in_arena: vec![],
            alignment,
        }
    }

    /// The buffer of a tensor.
    pub fn buffer(&mut self, g: &mut Graph, id: Id) -> usize {
        if let Some(&i) = self.index.get(&id) {
            return i;
        }
        let shape = g.shape(id).to_vec();
        let elems: i64 = shape.iter().map(|&d| index::bounds(g, d).1).product();
        let bytes = elems as usize * g.dtype(id).bytes();
        let output = self.outputs.iter().find(|o| o.1 == id);
        let (kind, name) = match g.op(id) {
            Op::Param { name } if self.inputs.contains(name) => (BufferKind::Input(name.clone()), name.clone()),
            Op::Param { name } => match self.tables.get(name) {
                Some(b) => (BufferKind::Const(b.clone()), name.clone()),
                None if self.planes.contains_key(name) => {
                    let planes = self.planes[name].clone();
                    (BufferKind::Planes { name: name.clone(), planes }, name.clone())
                }
                None => (BufferKind::Weight(name.clone()), name.clone()),
            },
            Op::State { name } => (BufferKind::State(name.clone()), name.clone()),
            _ => match output {
                Some((n, _)) => (BufferKind::Output(n.clone()), n.clone()),
                None => {
                    self.in_arena.push((self.buffers.len(), id));
                    (BufferKind::Arena(0), format!("t{}", id.0))
                }
            },
        };
        self.buffers.push(Buffer { kind, bytes, name });
        self.index.insert(id, self.buffers.len() - 1);
        self.buffers.len() - 1
    }

    /// Places the values of the arena, largest first.
    pub fn finish(mut self) -> (Vec<Buffer>, usize) {
        let mut order = self.in_arena.clone();
        order.sort_by_key(|(b, id)| (std::cmp::Reverse(self.buffers[*b].bytes), *id));
        let sized = |&(b, id): &(usize, Id)| {
            let bytes = self.buffers[b].bytes.next_multiple_of(self.alignment).max(self.alignment);
            (bytes, self.lives.get(&id).copied().unwrap_or(ALWAYS))
        };
        let (offsets, total) = place(order.iter().map(sized));
        for ((b, _), at) in order.into_iter().zip(offsets) {
            self.buffers[b].kind = BufferKind::Arena(at);
        }
        (self.buffers, total)
    }
}
