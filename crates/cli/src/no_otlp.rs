//! In place of `otlp`: no collector gets anything.

use serde_json::{Map, Value};
use std::convert::Infallible;
use std::time::SystemTime;

/// None can be had.
pub struct Traces(Infallible);

/// Nothing is left to be sent.
pub struct Flushed;

impl Traces {
    pub fn to(_: &str) -> anyhow::Result<Traces> {
        anyhow::bail!("this program was built without the feature otlp")
    }

    pub fn flushed_at_the_end(&self) -> Flushed {
        match self.0 {}
    }

    pub fn request(&self, _: SystemTime, _: &Map<String, Value>) {
        match self.0 {}
    }
}
