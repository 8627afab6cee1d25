//! What /set changes: how tokens are chosen, how many, and whether thoughts are shown.

use crate::speaker::Speaker;
use crate::spelling::closest;
use crate::terminal;
use anyhow::{Context, anyhow, bail};
use std::str::FromStr;
use text::sampler::{SETTINGS, Sampler, SamplerConfig, Setting, Stage};

/// The names, as on the command line.
fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.flag).chain(["samplers", "seed", "n", "reasoning"])
}

/// Changes one. A value out of range changes nothing.
pub fn set(speaker: &mut Speaker, name: &str, value: &str) -> anyhow::Result<()> {
    let name = match name.replace('_', "-").as_str() {
        "predict" | "n-predict" => "n".to_owned(),
        other => Setting::named(other).map_or(other, |setting| setting.flag).to_owned(),
    };
    if !names().any(|known| known == name) {
        let near = closest(&name, names()).map(|best| format!("did you mean {best}?"));
        bail!("there is no setting '{name}'; {}", near.unwrap_or_else(|| names().collect::<Vec<_>>().join(", ")));
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
    let wrong = |problem: String| anyhow!("{problem} for {name}");
    match (Setting::named(name), name) {
        (Some(setting), _) => setting.parse(sampling, value).map_err(wrong)?,
        (None, "samplers") => sampling.order = Stage::list(value)?,
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
    let numbers = SETTINGS.iter().map(|setting| (setting.get(s) as f32).to_string());
    let order = s.order.iter().map(|stage| stage.name()).collect::<Vec<_>>().join(";");
    let values = numbers.chain([order, s.seed.to_string(), limit, reasoning.to_owned()]);
    let shown: Vec<String> = names().zip(values).map(|(name, value)| format!("{name} {value}")).collect();
    terminal::line(&shown.join(", "));
}
