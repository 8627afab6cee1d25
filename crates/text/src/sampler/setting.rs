//! The settings of sampling that are numbers, as a table: programs have a flag for each row, requests a field, and what
//! reads or shows them reads or shows all.

use super::config::SamplerConfig;

/// A number that can be set.
#[derive(Debug)]
pub struct Setting {
    /// The field of a request, which is llama-server's.
    pub name: &'static str,
    /// The flag of a program, and `/set` of a chat.
    pub flag: &'static str,
    /// Other names of the flag.
    pub aliases: &'static [&'static str],
    /// What the help calls its value.
    pub value: &'static str,
    /// What it does.
    pub help: &'static str,
    /// Whether it is a whole number.
    pub whole: bool,
    get: fn(&SamplerConfig) -> f64,
    set: fn(&mut SamplerConfig, f64),
}

impl Setting {
    /// The setting of a field or of a flag.
    pub fn named(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|s| s.name == name || s.flag == name || s.aliases.contains(&name))
    }

    /// Its value. A window without end is -1.
    pub fn get(&self, config: &SamplerConfig) -> f64 {
        (self.get)(config)
    }

    /// Sets it; [`SamplerConfig::check`] says whether the value makes sense.
    pub fn set(&self, config: &mut SamplerConfig, value: f64) {
        (self.set)(config, value);
    }

    /// Sets it to a number that is written out.
    ///
    /// # Errors
    /// No number, or none that is whole where only that makes sense.
    pub fn parse(&self, config: &mut SamplerConfig, text: &str) -> Result<(), String> {
        let number = if self.whole { text.parse::<i64>().map(|n| n as f64).ok() } else { text.parse::<f64>().ok() };
        match number.filter(|n| n.is_finite()) {
            Some(number) => {
                self.set(config, number);
                Ok(())
            }
            None => Err(format!("'{text}' is no {}", if self.whole { "whole number" } else { "number" })),
        }
    }
}

/// A length of text: below zero is all of it.
fn length(value: f64) -> usize {
    if value < 0.0 { usize::MAX } else { value as usize }
}

fn of_length(length: usize) -> f64 {
    if length > u32::MAX as usize { -1.0 } else { length as f64 }
}

macro_rules! settings {
    ($($name:literal, $flag:literal, [$($alias:literal),*], $value:literal, $whole:literal, $help:literal,
       $get:expr, $set:expr;)*) => {
        /// All of them.
        pub static SETTINGS: &[Setting] = &[$(Setting {
            name: $name,
            flag: $flag,
            aliases: &[$($alias),*],
            value: $value,
            help: $help,
            whole: $whole,
            get: $get,
            set: $set,
        }),*];
    };
}

settings! {
    "temperature", "temp", ["temperature"], "T", false, "Divides the logits; 0 always takes the likeliest token",
        |c| c.temperature.into(), |c, v| c.temperature = v as f32;
    "top_k", "top-k", [], "K", true, "Keep this many of the likeliest tokens; 0 keeps all",
        |c| c.top_k as f64, |c, v| c.top_k = v.max(0.0) as usize;
    "top_p", "top-p", [], "P", false, "Keep the likeliest tokens up to this probability; 1 keeps all",
        |c| c.top_p.into(), |c, v| c.top_p = v as f32;
    "min_p", "min-p", [], "P", false, "Keep tokens this fraction as likely as the likeliest; 0 keeps all",
        |c| c.min_p.into(), |c, v| c.min_p = v as f32;
    "typical_p", "typical", ["typical-p"], "P", false,
        "Keep tokens about as likely as is expected, up to this probability; 1 keeps all",
        |c| c.typical_p.into(), |c, v| c.typical_p = v as f32;
    "top_n_sigma", "top-n-sigma", ["top-nsigma"], "N", false,
        "Keep logits within this many standard deviations of the best; 0 keeps all",
        |c| c.top_n_sigma.into(), |c, v| c.top_n_sigma = v as f32;
    "xtc_probability", "xtc-probability", [], "P", false,
        "How often, of several likely tokens, only the least likely is kept; 0 is never",
        |c| c.xtc_probability.into(), |c, v| c.xtc_probability = v as f32;
    "xtc_threshold", "xtc-threshold", [], "P", false, "The probability from which a token is a likely one for that",
        |c| c.xtc_threshold.into(), |c, v| c.xtc_threshold = v as f32;
    "dynatemp_range", "dynatemp-range", [], "X", false,
        "How far the temperature moves to both sides with the entropy; 0 leaves it",
        |c| c.dynatemp_range.into(), |c, v| c.dynatemp_range = v as f32;
    "dynatemp_exponent", "dynatemp-exp", ["dynatemp-exponent"], "X", false, "The power of the entropy for that",
        |c| c.dynatemp_exponent.into(), |c, v| c.dynatemp_exponent = v as f32;
    "mirostat", "mirostat", [], "V", true, "Keep the surprise of tokens near a wish, by version 1 or 2; 0 is off",
        |c| c.mirostat.into(), |c, v| c.mirostat = v as i32;
    "mirostat_tau", "mirostat-ent", ["mirostat-tau"], "BITS", false, "The surprise that mirostat aims at",
        |c| c.mirostat_tau.into(), |c, v| c.mirostat_tau = v as f32;
    "mirostat_eta", "mirostat-lr", ["mirostat-eta"], "X", false, "How fast mirostat learns",
        |c| c.mirostat_eta.into(), |c, v| c.mirostat_eta = v as f32;
    "repeat_penalty", "repeat-penalty", [], "X", false, "Makes tokens of the recent text less likely; 1 is off",
        |c| c.repeat_penalty.into(), |c, v| c.repeat_penalty = v as f32;
    "frequency_penalty", "frequency-penalty", [], "X", false,
        "Subtracted from a logit for every time the token occurs in the recent text",
        |c| c.frequency_penalty.into(), |c, v| c.frequency_penalty = v as f32;
    "presence_penalty", "presence-penalty", [], "X", false,
        "Subtracted from the logit of tokens that occur in the recent text",
        |c| c.presence_penalty.into(), |c, v| c.presence_penalty = v as f32;
    "repeat_last_n", "repeat-last-n", [], "N", true, "Length of the recent text in tokens; -1 is all of it",
        |c| of_length(c.penalty_window), |c, v| c.penalty_window = length(v);
    "dry_multiplier", "dry-multiplier", [], "X", false,
        "What a token costs that would go on repeating a passage; 0 is off",
        |c| c.dry.multiplier.into(), |c, v| c.dry.multiplier = v as f32;
    "dry_base", "dry-base", [], "X", false, "By what that grows with each token of the passage",
        |c| c.dry.base.into(), |c, v| c.dry.base = v as f32;
    "dry_allowed_length", "dry-allowed-length", [], "N", true, "Tokens of a passage that cost nothing more",
        |c| c.dry.allowed_length as f64, |c, v| c.dry.allowed_length = v.max(0.0) as usize;
    "dry_penalty_last_n", "dry-penalty-last-n", [], "N", true,
        "How many of the last tokens are searched for it; -1 is all of them",
        |c| of_length(c.dry.window), |c, v| c.dry.window = length(v);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_what_is_read() {
        for (i, setting) in SETTINGS.iter().enumerate() {
            let mut config = SamplerConfig::default();
            let before = setting.get(&config);
            let other = if before == 2.0 { 3 } else { 2 };
            setting.parse(&mut config, &other.to_string()).unwrap();
            assert_eq!(setting.get(&config), f64::from(other), "{}", setting.name);
            assert_ne!(config, SamplerConfig::default(), "{}", setting.name);
            setting.set(&mut config, before);
            assert_eq!(config, SamplerConfig::default(), "{}", setting.name);
            assert!(setting.parse(&mut config, "x").is_err() && setting.parse(&mut config, "inf").is_err());
            assert_eq!(setting.parse(&mut config, "0.5").is_err(), setting.whole, "{}", setting.name);
            for name in [setting.name, setting.flag] {
                assert!(std::ptr::eq(Setting::named(name).unwrap(), &SETTINGS[i]), "{name} is no other one");
            }
        }
    }
}
