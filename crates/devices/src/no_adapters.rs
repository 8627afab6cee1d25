//! In place of `adapters`: none can be had.

use crate::{Listed, Machine};
use device::{Error, Needs, Result};

pub fn open(ordinal: usize, _: usize) -> Result<Machine> {
    Err(Error::Unusable(format!("wgpu:{ordinal} is out of reach: this program was built without the feature wgpu")))
}

pub fn fitting(_: usize, _: Needs, _: &mut impl FnMut(String)) -> Option<Machine> {
    None
}

pub fn list() -> Vec<Listed> {
    vec![]
}
