//! The flags of the sampler.

use std::hash::{BuildHasher, RandomState};
use text::sampler::SamplerConfig;

/// How tokens are chosen.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Sampling")]
pub struct Sampling {
    /// Divides the logits; 0 always takes the likeliest token
    #[arg(long, alias = "temperature", value_name = "T", default_value = "0.8")]
    pub temp: f32,
    /// Keep this many of the likeliest tokens; 0 keeps all
    #[arg(long, value_name = "K", default_value = "40")]
    pub top_k: usize,
    /// Keep the likeliest tokens up to this probability; 1 keeps all
    #[arg(long, value_name = "P", default_value = "0.95")]
    pub top_p: f32,
    /// Keep tokens this fraction as likely as the likeliest; 0 keeps all
    #[arg(long, value_name = "P", default_value = "0.05")]
    pub min_p: f32,
    /// Makes tokens of the recent text less likely; 1 is off
    #[arg(long, value_name = "X", default_value = "1")]
    pub repeat_penalty: f32,
    /// Subtracted from a logit for every time the token occurs in the recent text
    #[arg(long, value_name = "X", default_value = "0", allow_negative_numbers = true)]
    pub frequency_penalty: f32,
    /// Subtracted from the logit of tokens that occur in the recent text
    #[arg(long, value_name = "X", default_value = "0", allow_negative_numbers = true)]
    pub presence_penalty: f32,
    /// Length of the recent text in tokens
    #[arg(long, value_name = "N", default_value = "64")]
    pub repeat_last_n: usize,
    /// Seed of the random numbers [default: another each time]
    #[arg(short, long, value_name = "S")]
    pub seed: Option<u64>,
    /// Text that ends the answer; may be given several times
    #[arg(long, alias = "reverse-prompt", value_name = "TEXT", allow_hyphen_values = true)]
    pub stop: Vec<String>,
}

impl Sampling {
    /// As the sampler wants it.
    pub fn config(&self) -> SamplerConfig {
        SamplerConfig {
            temperature: self.temp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repeat_penalty: self.repeat_penalty,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            penalty_window: self.repeat_last_n,
            seed: self.seed.unwrap_or_else(|| RandomState::new().hash_one(0)),
            ..SamplerConfig::default()
        }
    }
}
