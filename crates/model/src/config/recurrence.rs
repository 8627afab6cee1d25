//! Layers that remember: which they are, and the sizes of what they keep.

use super::keys::{Keys, out_of_range};
use super::{ConfigError, MOST_HEAD, MOST_HEADS, MOST_WIDTH};
use crate::family::{Family, Recurrence as Kind, Remembering};
use gguf::Error as GgufError;
use serde::{Deserialize, Serialize};

/// Tokens that a convolution reads at most.
const MOST_TAPS: i64 = 64;

/// Values that the steps of [`Kind::SelectiveHeads`] are made of at least, and of how many values of the residual there is one.
const LEAST_RANK: i64 = 64;
const HIDDEN_OF_RANK: i64 = 16;

/// By what the tokens of a layer come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mixer {
    /// Attention.
    Attention,
    /// A state.
    Recurrence,
    /// The sum of both.
    Both,
    /// A matrix in place of attention: they do not.
    Matrix,
    /// Nothing: it has a feed-forward alone.
    None,
}

impl Mixer {
    /// Whether it has attention.
    pub fn attends(self) -> bool {
        matches!(self, Mixer::Attention | Mixer::Both)
    }

    /// Whether it has a state.
    pub fn remembers(self) -> bool {
        matches!(self, Mixer::Recurrence | Mixer::Both)
    }
}

/// What a layer remembers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Recurrence {
    /// The last inputs of a convolution that is as wide as the residual.
    Convolution {
        /// Tokens that it reads.
        taps: i64,
    },
    /// A matrix for each head, which decays and takes the products of inputs and keys.
    StateSpace {
        /// Heads.
        heads: i64,
        /// Inputs of a head.
        head: i64,
        /// Groups of heads that share keys and queries.
        groups: i64,
        /// Length of a key.
        state: i64,
        /// Tokens that the convolution before it reads.
        taps: i64,
    },
    /// A row for each channel, of which each value decays at its own pace.
    SelectiveScan {
        /// Channels.
        inner: i64,
        /// Length of a key.
        state: i64,
        /// Values that the steps of all channels are made of.
        rank: i64,
        /// Tokens that the convolution before it reads.
        taps: i64,
        /// Whether steps, keys and queries have norms without weights, where the file has none with some.
        bare_norms: bool,
    },
    /// As [`Recurrence::StateSpace`], with one key and one query for all heads, which are made of what the convolution gives.
    SelectiveHeads {
        /// Heads.
        heads: i64,
        /// Inputs of a head.
        head: i64,
        /// Length of a key.
        state: i64,
        /// Values that the steps of all heads are made of.
        rank: i64,
        /// Tokens that the convolution before it reads.
        taps: i64,
    },
    /// A matrix for each head, which decays and learns what it does not know of a value by its key.
    DeltaRule {
        /// Heads of values.
        heads: i64,
        /// Heads of keys and queries, each for as many of values.
        key_heads: i64,
        /// Length of a key.
        key: i64,
        /// Length of a value.
        value: i64,
        /// Tokens that the convolution before it reads.
        taps: i64,
    },
    /// As [`Recurrence::DeltaRule`], but each value of a key is forgotten at its own pace.
    KeyedDeltaRule {
        /// Heads.
        heads: i64,
        /// Length of keys and values.
        head: i64,
        /// Tokens that the convolutions before it read.
        taps: i64,
        /// Logarithm of what is left at least, if there is such a bound: it is a share of that, by a sigmoid.
        bound: Option<f32>,
    },
    /// A matrix for each head, of which each value of a key decays as the token says, and which takes the products of values and
    /// keys; the inputs of the token before.
    TimeMixing {
        /// Heads.
        heads: i64,
        /// Heads of keys and values, each for as many.
        kv_heads: i64,
        /// Length of keys and values.
        head: i64,
        /// Values that each place between a token and the one before it is made of.
        mix_rank: i64,
        /// Values that decays are made of.
        decay_rank: i64,
        /// Inputs of the token before: that of this, and in models that mix channels that of the feed-forward.
        shifts: i64,
    },
    /// The same with a delta rule.
    DeltaTimeMixing {
        /// Heads.
        heads: i64,
        /// Length of keys and values.
        head: i64,
        /// Values that decays are made of.
        decay_rank: i64,
        /// Values that rates of learning are made of.
        rate_rank: i64,
        /// Values that shares of the values of the first layer are made of.
        value_rank: i64,
        /// Values that gates are made of, if there are gates.
        gate_rank: i64,
        /// As in [`Recurrence::TimeMixing`].
        shifts: i64,
    },
    /// A matrix for each head, which decays at a pace of its own and takes the products of values and keys.
    LinearAttention {
        /// Heads.
        heads: i64,
        /// Length of keys and values.
        head: i64,
    },
}

impl Recurrence {
    /// Values that a layer keeps of a sequence, in a model of this residual width.
    pub fn values(&self, hidden: i64) -> i64 {
        match *self {
            Recurrence::Convolution { taps } => (taps - 1) * hidden,
            Recurrence::StateSpace { heads, head, groups, state, taps } => {
                heads * head * state + (taps - 1) * (heads * head + 2 * groups * state)
            }
            Recurrence::SelectiveScan { inner, state, taps, .. } => inner * (state + taps - 1),
            Recurrence::SelectiveHeads { heads, head, state, taps, .. } => heads * head * (state + taps - 1),
            Recurrence::DeltaRule { heads, key_heads, key, value, taps } => {
                heads * key * value + (taps - 1) * (heads * value + 2 * key_heads * key)
            }
            Recurrence::KeyedDeltaRule { heads, head, taps, .. } => heads * head * (head + 3 * (taps - 1)),
            Recurrence::TimeMixing { heads, head, shifts, .. }
            | Recurrence::DeltaTimeMixing { heads, head, shifts, .. } => heads * head * head + shifts * hidden,
            Recurrence::LinearAttention { heads, head } => heads * head * head,
        }
    }
}

/// The layers of a model.
pub(super) struct Kinds {
    pub(super) recurrence: Option<Recurrence>,
    pub(super) mixers: Vec<Mixer>,
    pub(super) feeds: Vec<bool>,
}

/// What the layers of a file are.
pub(super) fn kinds(k: &Keys<'_>, family: &Family, layers: i64) -> Result<Kinds, ConfigError> {
    let n = layers as usize;
    if family.layers_differ {
        let (headless, keyless) = (k.lacking("attention.head_count")?, k.lacking("attention.head_count_kv")?);
        let mixer = |(&headless, &keyless): (&bool, &bool)| match (headless, keyless) {
            (true, _) => Mixer::None,
            (false, true) => Mixer::Matrix,
            (false, false) => Mixer::Attention,
        };
        let mixers = headless.iter().zip(&keyless).take(n).map(mixer).collect();
        let feeds = k.lacking("feed_forward_length")?[..n].iter().map(|unfed| !unfed).collect();
        return Ok(Kinds { recurrence: None, mixers, feeds });
    }
    let Some((kind, which)) = family.recurrence else {
        return Ok(Kinds { recurrence: None, mixers: vec![Mixer::Attention; n], feeds: vec![true; n] });
    };
    let of = |remembers: &[bool]| -> Vec<Mixer> {
        let mixer = |&remembers: &bool| if remembers { Mixer::Recurrence } else { Mixer::Attention };
        remembers[..n].iter().map(mixer).collect()
    };
    let (mixers, feeds) = match which {
        Remembering::All => (vec![Mixer::Recurrence; n], vec![false; n]),
        Remembering::AllFed => (vec![Mixer::Recurrence; n], vec![true; n]),
        Remembering::Beside => (vec![Mixer::Both; n], vec![true; n]),
        Remembering::WithoutKeys => (of(&k.lacking("attention.head_count_kv")?), vec![true; n]),
        Remembering::Alone => {
            let (keyless, unfed) = (k.lacking("attention.head_count_kv")?, k.lacking("feed_forward_length")?);
            let mixer = |(&keyless, &unfed): (&bool, &bool)| match (keyless, unfed) {
                (true, true) => Mixer::Recurrence,
                (false, true) => Mixer::Attention,
                _ => Mixer::None,
            };
            let feeds = unfed[..n].iter().map(|unfed| !unfed).collect();
            (keyless.iter().zip(&unfed).take(n).map(mixer).collect(), feeds)
        }
        Remembering::AllBut(every) => {
            let every = k.within("full_attention_interval", 1, layers.max(every))?.unwrap_or(every);
            let remembers = match k.flags("attention.recurrent_layers")? {
                Some(of_file) => of_file,
                None => (1..=k.blocks).map(|layer| layer % every != 0).collect(),
            };
            (of(&remembers), vec![true; n])
        }
    };
    Ok(Kinds { recurrence: Some(recurrence(k, kind, family)?), mixers, feeds })
}

/// The logarithm of what is left at least, in a model that has one.
fn bound(k: &Keys<'_>) -> Result<f32, ConfigError> {
    let key = "kda.safe_gate";
    if k.flag(key)? == Some(false) {
        return Err(out_of_range(&k.key(key), false, "expected a bound of what is forgotten"));
    }
    let key = "kda.gate_lower_bound";
    let bound = k.float(key, -1e3, -1e-6)?.ok_or_else(|| GgufError::MissingKey { key: k.key(key) })?;
    Ok(bound as f32)
}

/// The sizes of what is kept.
fn recurrence(k: &Keys<'_>, kind: Kind, family: &Family) -> Result<Recurrence, ConfigError> {
    let required = |name: &str, least: i64, most: i64| -> Result<i64, ConfigError> {
        k.positive(name, most)?;
        Ok(k.within(name, least, most)?.unwrap_or(least))
    };
    if matches!(kind, Kind::TimeMixing | Kind::DeltaTimeMixing) {
        return time_mixing(k, kind, if family.mixes_channels { 2 } else { 1 });
    }
    if kind == Kind::Convolution {
        return Ok(Recurrence::Convolution { taps: required("shortconv.l_cache", 2, MOST_TAPS)? });
    }
    if kind == Kind::LinearAttention {
        let heads = k.positive("attention.head_count", MOST_HEADS)?;
        let key = "attention.key_length";
        let head = match k.int(key)? {
            Some(head) => head,
            None => k.positive("embedding_length", MOST_WIDTH)? / heads,
        };
        if !(1..=MOST_HEAD).contains(&head) {
            return Err(out_of_range(&k.key(key), head, &format!("a head of 1 to {MOST_HEAD} values")));
        }
        return Ok(Recurrence::LinearAttention { heads, head });
    }
    let taps = required("ssm.conv_kernel", 2, MOST_TAPS)?;
    if matches!(kind, Kind::KeyedDeltaRule | Kind::BoundedDeltaRule) {
        let heads = k.positive("attention.head_count", MOST_HEADS)?;
        let bound = if kind == Kind::BoundedDeltaRule { Some(bound(k)?) } else { None };
        return Ok(Recurrence::KeyedDeltaRule { heads, head: k.positive("kda.head_dim", MOST_HEAD)?, taps, bound });
    }
    let inner = k.positive("ssm.inner_size", MOST_WIDTH)?;
    let state = k.positive("ssm.state_size", MOST_HEAD)?;
    let heads = k.positive("ssm.time_step_rank", MOST_HEADS)?;
    if kind == Kind::SelectiveScan {
        let bare_norms = k.flag("ssm.dt_b_c_rms")?.unwrap_or(false);
        return Ok(Recurrence::SelectiveScan { inner, state, rank: heads, taps, bare_norms });
    }
    let groups = match kind {
        Kind::SelectiveHeads => 1,
        _ => k.positive("ssm.group_count", MOST_HEADS)?,
    };
    for (name, count, whole) in [("ssm.time_step_rank", heads, inner), ("ssm.group_count", groups, heads)] {
        if whole % count != 0 {
            return Err(out_of_range(&k.key(name), count, &format!("expected a divisor of {whole}")));
        }
    }
    let head = inner / heads;
    Ok(match kind {
        Kind::SelectiveHeads => {
            let rank = (k.positive("embedding_length", MOST_WIDTH)? / HIDDEN_OF_RANK).max(LEAST_RANK);
            Recurrence::SelectiveHeads { heads, head, state, rank, taps }
        }
        Kind::DeltaRule => Recurrence::DeltaRule { heads, key_heads: groups, key: state, value: head, taps },
        _ => Recurrence::StateSpace { heads, head, groups, state, taps },
    })
}

/// The sizes of time mixing, in a model that keeps so many inputs of the token before.
fn time_mixing(k: &Keys<'_>, kind: Kind, shifts: i64) -> Result<Recurrence, ConfigError> {
    let of_file = k.int("token_shift_count")?.unwrap_or(2);
    if of_file != shifts {
        return Err(out_of_range(&k.key("token_shift_count"), of_file, &format!("expected {shifts}")));
    }
    let width = k.positive("embedding_length", MOST_WIDTH)?;
    let head = k.positive("wkv.head_size", MOST_HEAD)?;
    let heads = width / head;
    if heads * head != width || heads > MOST_HEADS {
        return Err(out_of_range(&k.key("wkv.head_size"), head, &format!("expected a divisor of {width}")));
    }
    let rank = |name: &str| k.positive(name, MOST_WIDTH);
    if kind == Kind::DeltaTimeMixing {
        return Ok(Recurrence::DeltaTimeMixing {
            heads,
            head,
            decay_rank: rank("attention.decay_lora_rank")?,
            rate_rank: rank("attention.iclr_lora_rank")?,
            value_rank: rank("attention.value_residual_mix_lora_rank")?,
            gate_rank: k.within("attention.gate_lora_rank", 0, MOST_WIDTH)?.unwrap_or(0),
            shifts,
        });
    }
    let kv_heads =
        k.within("attention.head_count_kv", 0, MOST_HEADS)?.filter(|&kv_heads| kv_heads > 0).unwrap_or(heads);
    if heads % kv_heads != 0 {
        return Err(out_of_range(
            &k.key("attention.head_count_kv"),
            kv_heads,
            &format!("expected a divisor of {heads}"),
        ));
    }
    let (mix_rank, decay_rank) = (rank("time_mix_extra_dim")?, rank("time_decay_extra_dim")?);
    Ok(Recurrence::TimeMixing { heads, kv_heads, head, mix_rank, decay_rank, shifts })
}
