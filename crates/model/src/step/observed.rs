//! What the matrices of a model are multiplied with, as outputs of a step: for each column the sum of the squares of what
//! it met, which is what an importance matrix is made of ([`crate::importance`]). Follows from the tensor code of the step,
//! whatever the family.

use compiler::tensor::Operand;
use compiler::{Builder, Dim, Tensor};
use gguf::Gguf;
use ir::DType;
use std::collections::{BTreeMap, HashMap};

/// What a step tells of one matrix, or of one for each expert or head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Its name in the file.
    pub(crate) tensor: String,
    /// How many matrices the tensor has.
    pub(crate) matrices: usize,
    /// Columns of each.
    pub(crate) columns: usize,
    /// Output with the sums of squares, `[matrices, columns]`.
    pub(crate) sums: String,
    /// How many rows were summed.
    pub(crate) counts: Counts,
}

/// How many rows a matrix met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// So many for each token.
    OfToken(usize),
    /// What an output says, `[matrices]`.
    Output(String),
}

/// Outputs by name, and what they are, of the matrices of all blocks that `out` is computed from. Of a tensor that several
/// products read, or several ways to compute one, the first counts.
pub(super) fn observe(file: &Gguf, b: &Builder, out: &Tensor) -> (Vec<(String, Tensor)>, Vec<Observed>) {
    let mut outputs = Outputs::default();
    let mut observed: BTreeMap<String, Observed> = BTreeMap::new();
    for operand in b.operands(&[out]) {
        let Some(tensor) = file.tensor(&operand.name) else { continue };
        let of_block = operand.name.starts_with("blk.") && operand.name.ends_with(".weight");
        if !of_block || tensor.n_dims < 2 || observed.contains_key(&operand.name) {
            continue;
        }
        let (columns, matrices) = (tensor.dims[0] as i64, tensor.dims[2] as i64);
        if let Some((sums, counts)) = squares(b, &operand, matrices, columns) {
            let counts = match counts {
                Rows::OfToken(n) => Counts::OfToken(n),
                Rows::Counted(counts) => Counts::Output(outputs.name(counts)),
            };
            let (matrices, columns) = (matrices as usize, columns as usize);
            let told = Observed { tensor: operand.name.clone(), matrices, columns, sums: outputs.name(sums), counts };
            observed.insert(operand.name, told);
        }
    }
    (outputs.all, observed.into_values().collect())
}

/// Outputs, each once, as matrices that read the same have the same sums.
#[derive(Default)]
struct Outputs {
    all: Vec<(String, Tensor)>,
    names: HashMap<ir::Id, String>,
}

impl Outputs {
    fn name(&mut self, tensor: Tensor) -> String {
        let known = self.names.entry(tensor.id()).or_insert_with(|| {
            let name = format!("observed.{}", self.all.len());
            self.all.push((name.clone(), tensor));
            name
        });
        known.clone()
    }
}

enum Rows {
    OfToken(usize),
    Counted(Tensor),
}

/// Sums of squares `[matrices, columns]` of what a tensor is multiplied with, and how many rows they are of.
fn squares(b: &Builder, operand: &Operand, matrices: i64, columns: i64) -> Option<(Tensor, Rows)> {
    let x = &operand.input;
    let squared = x * x;
    let (shape, row) = (x.shape(), x.rank() - 2);
    let known = |dim: &Dim| match dim {
        Dim::Const(n) => Some(*n),
        Dim::Sym(_) => None,
    };
    // Before the rows: tokens first, then what the matrices are told apart by.
    let (tokens, others) = shape[..row].split_first()?;
    let others: Vec<i64> = others.iter().map(known).collect::<Option<_>>()?;
    if shape.last() != Some(&Dim::Const(columns)) {
        return None;
    }
    let Some(index) = &operand.index else {
        let apart = if matrices > 1 { 1 } else { 0 };
        if matrices > 1 && others.last() != Some(&matrices) {
            return None;
        }
        let all: Vec<usize> = (0..row - apart).chain([row]).collect();
        let rows = others[..others.len() - apart].iter().product::<i64>() as usize;
        let sums = squared.sum_over(&all).reshape(&[matrices.into(), columns.into()]);
        return Some((sums, Rows::OfToken(rows)));
    };
    // Tokens that choose several matrices each, `[T, k]`.
    let ([_, k], [together]) = (&index.shape()[..], &others[..]) else { return None };
    let chosen = known(k)?;
    let hit = index.unsqueeze(2).equal(&b.iota(matrices)).cast(DType::F32);
    let counts = hit.sum_over(&[0, 1]);
    let sums = match *together {
        // All of a token's read the same.
        1 => (&hit.sum(1).unsqueeze(2) * &squared.reshape(&[*tokens, 1.into(), columns.into()])).sum(0),
        each if each == chosen => (&hit.unsqueeze(3) * &squared).sum_over(&[0, 1]),
        _ => return None,
    };
    Some((sums, Rows::Counted(counts)))
}
