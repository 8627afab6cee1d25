//! Rewrite rules on tensors, as data: what they match and what they make.
//!
//! Rules marked [`Kind::Reassociating`](ir::rewrite::Kind) are equal in real arithmetic only. `movement` looks through
//! reshapes and repetitions for all of them.

use crate::options::Options;

mod algebra;
mod codes;
mod halves;
mod int8;
mod integer_dots;
mod movement;
pub(crate) mod planes;
mod scan;
mod split_k;
mod topk;

pub use algebra::{FACTOR, NEUTRAL, SPLIT_SUM};
pub use codes::CODES;
pub use halves::{BF16, BF16_BLOCKS, F16, F16_BLOCKS};
pub use int8::{INT8, LEVELS, code_bias};
pub use integer_dots::ACTIVATION_BLOCK;
pub use planes::PLANES;
pub use scan::SCAN;
pub use split_k::SPLIT_K;
pub use topk::TOPK;

/// A rule of this compiler, which may ask what a program is for.
pub type Rule = ir::rewrite::Rule<Options>;
