//! What /set changes: how tokens are chosen, how many, and whether thoughts are shown.

use crate::speaker::Speaker;
use crate::spelling::closest;
use crate::terminal;
use anyhow::{Context, bail};
use std::str::FromStr;
use text::sampler::{Sampler, SamplerConfig};

/// The names, as on the command line.
const NAMES: [&str; 11] = [
    "temp",
    "top-k",
    "top-p",
    "min-p",
    "repeat-penalty",
    "frequency-penalty",
    "presence-penalty",
    "repeat-last-n",
    "seed",
    "n",
    "reasoning",
];

/// Changes one. A value out of range changes nothing.
pub fn set(speaker: &mut Speaker, name: &str, value: &str) -> anyhow::Result<()> {
    let name = match name.replace('_', "-").as_str() {
        "temperature" => "temp".to_owned(),
        "predict" | "n-predict" => "n".to_owned(),
        other => other.to_owned(),
    };
    if !NAMES.contains(&name.as_str()) {
        let near = closest(&name, NAMES.into_iter()).map(|best| format!("did you mean {best}?"));
        bail!("there is no setting '{name}'; {}", near.unwrap_or_else(|| NAMES.join(", ")));
    }
    match name.as_str() {
        "n" => speaker.limit = usize::try_from(number::<i64>(&name, value)?).ok(),
        "reasoning" => {
            speaker.shows_thoughts = match value {
                "show" => true,
                "hide" => false,
                _ => bail!("'{value}' is no value for reasoning (show, hide)"),
            }
        }
        _ => {
            let mut sampling = speaker.sampling.clone();
            change(&mut sampling, &name, value)?;
            Sampler::new(sampling.clone(), speaker.opened.engine.config().vocab as usize)?;
            speaker.sampling = sampling;
        }
    }
    Ok(())
}

fn change(sampling: &mut SamplerConfig, name: &str, value: &str) -> anyhow::Result<()> {
    match name {
        "temp" => sampling.temperature = number(name, value)?,
        "top-k" => sampling.top_k = number(name, value)?,
        "top-p" => sampling.top_p = number(name, value)?,
        "min-p" => sampling.min_p = number(name, value)?,
        "repeat-penalty" => sampling.repeat_penalty = number(name, value)?,
        "frequency-penalty" => sampling.frequency_penalty = number(name, value)?,
        "presence-penalty" => sampling.presence_penalty = number(name, value)?,
        "repeat-last-n" => sampling.penalty_window = number(name, value)?,
        _ => sampling.seed = number(name, value)?,
    }
    Ok(())
}

fn number<T: FromStr>(name: &str, value: &str) -> anyhow::Result<T> {
    value.parse().ok().with_context(|| format!("'{value}' is no value for {name}"))
}

/// Prints all of them.
pub fn show(speaker: &Speaker) {
    let s = &speaker.sampling;
    let limit = speaker.limit.map_or("-1".to_owned(), |n| n.to_string());
    let reasoning = if speaker.shows_thoughts { "show" } else { "hide" };
    let values = [
        s.temperature.to_string(),
        s.top_k.to_string(),
        s.top_p.to_string(),
        s.min_p.to_string(),
        s.repeat_penalty.to_string(),
        s.frequency_penalty.to_string(),
        s.presence_penalty.to_string(),
        s.penalty_window.to_string(),
        s.seed.to_string(),
        limit,
        reasoning.to_owned(),
    ];
    let shown: Vec<String> = NAMES.iter().zip(values).map(|(name, value)| format!("{name} {value}")).collect();
    terminal::line(&shown.join(", "));
}
