//! The flags of the sampler.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, value_parser};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use text::sampler::{BREAKERS, Breakers, SETTINGS, SamplerConfig, Stage};
use text::tokenizer::Tokenizer;

/// How tokens are chosen.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Sampling")]
pub struct Sampling {
    #[command(flatten)]
    numbers: Numbers,
    /// Text that ends a passage which repeats; may be given several times, in place of '\n', ':', '"' and '*'; none is "none"
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    dry_sequence_breaker: Vec<String>,
    /// The samplers in their order, with a semicolon between two
    #[arg(long, value_name = "NAMES", value_parser = |names: &str| Stage::list(names).map(Order), default_value_t)]
    samplers: Order,
    /// The same with a letter for each
    #[arg(long, alias = "sampler-seq", value_name = "LETTERS", value_parser = |letters: &str| Stage::letters(letters).map(Order), conflicts_with = "samplers")]
    sampling_seq: Option<Order>,
    /// Seed of the random numbers [default: another each time]
    #[arg(short, long, value_name = "S")]
    pub seed: Option<u64>,
    /// Text that ends the answer; may be given several times
    #[arg(long, alias = "reverse-prompt", value_name = "TEXT", allow_hyphen_values = true)]
    pub stop: Vec<String>,
}

impl Sampling {
    /// As the sampler wants it, but for texts that a vocabulary spells.
    pub fn numbers(&self) -> SamplerConfig {
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        let order = self.sampling_seq.as_ref().unwrap_or(&self.samplers).0.clone();
        SamplerConfig { seed, order, ..self.numbers.0.clone() }
    }

    /// As the sampler wants it.
    pub fn config(&self, tokenizer: &Tokenizer) -> SamplerConfig {
        let mut config = self.numbers();
        if config.dry.multiplier > 0.0 {
            config.dry.breakers = match self.dry_sequence_breaker.as_slice() {
                [] => Breakers::of(&BREAKERS, tokenizer),
                [none] if none == "none" => Breakers::default(),
                texts => Breakers::of(texts, tokenizer),
            };
        }
        config
    }
}

/// The samplers in their order.
#[derive(Clone, Debug)]
struct Order(Vec<Stage>);

impl Default for Order {
    fn default() -> Order {
        Order(Stage::USUAL.to_vec())
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|stage| stage.name()).collect::<Vec<_>>().join(";"))
    }
}

/// What is a number, with a flag for each row of the table.
#[derive(Clone, Debug)]
struct Numbers(SamplerConfig);

impl Args for Numbers {
    fn augment_args(command: Command) -> Command {
        let usual = SamplerConfig::usual();
        command.args(SETTINGS.iter().map(|setting| {
            let arg = Arg::new(setting.name)
                .long(setting.flag)
                .aliases(setting.aliases)
                .value_name(setting.value)
                .help(setting.help)
                .default_value((setting.get(&usual) as f32).to_string())
                .allow_negative_numbers(true);
            if setting.whole { arg.value_parser(value_parser!(i64)) } else { arg.value_parser(value_parser!(f32)) }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Numbers::augment_args(command)
    }
}

impl FromArgMatches for Numbers {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Numbers, clap::Error> {
        let mut numbers = Numbers(SamplerConfig::usual());
        numbers.update_from_arg_matches(matches)?;
        Ok(numbers)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for setting in SETTINGS {
            let given = match setting.whole {
                true => matches.get_one::<i64>(setting.name).map(|n| *n as f64),
                false => matches.get_one::<f32>(setting.name).map(|n| f64::from(*n)),
            };
            if let Some(value) = given {
                setting.set(&mut self.0, value);
            }
        }
        Ok(())
    }
}
