//! What tells the regions of a memory apart, and how they are found.

use std::collections::HashMap;

use crate::store::digest::Digest;

/// What identifies a region.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    Input(String),
    Output(String),
    State(String),
    Const(Digest),
    Arena,
    Scratch(usize),
}

impl Key {
    /// What errors call it.
    pub(super) fn purpose(&self) -> String {
        match self {
            Key::Input(name) => format!("input {name}"),
            Key::Output(name) => format!("output {name}"),
            Key::State(name) => format!("state {name}"),
            Key::Const(_) => "a table".into(),
            Key::Arena => "the arena".into(),
            Key::Scratch(worker) => format!("the scratch of worker {worker}"),
        }
    }
}

/// Finds regions. The host looks inputs and outputs up in every step, so that must not take a key that owns its name.
#[derive(Default)]
pub(super) struct Keys {
    pub(super) inputs: HashMap<String, usize>,
    pub(super) outputs: HashMap<String, usize>,
    pub(super) states: HashMap<String, usize>,
    unnamed: HashMap<Key, usize>,
}

impl Keys {
    pub(super) fn get(&self, key: &Key) -> Option<usize> {
        let found = match key {
            Key::Input(name) => self.inputs.get(name),
            Key::Output(name) => self.outputs.get(name),
            Key::State(name) => self.states.get(name),
            key => self.unnamed.get(key),
        };
        found.copied()
    }

    pub(super) fn insert(&mut self, key: Key, region: usize) {
        match key {
            Key::Input(name) => self.inputs.insert(name, region),
            Key::Output(name) => self.outputs.insert(name, region),
            Key::State(name) => self.states.insert(name, region),
            key => self.unnamed.insert(key, region),
        };
    }
}
