//! Which type each tensor of a quantised file has.
//!
//! The rules are those of llama.cpp's quantiser: more bits for the output, for some of the
//! layers of the values and of the down projections, and another type where a row is not a whole number of blocks.
//! MXFP4 is the exception, as is NVFP4, which it does not write: here every matrix has them, there only experts do.

use gguf::GgmlType;

/// What a matrix does, as far as the choice of its type goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Not a matrix to be quantised.
    Plain,
    Embedding,
    Output,
    Key,
    /// Values, alone or together with keys.
    Value,
    AttentionOutput,
    Down,
    /// Any other.
    Other,
}

/// The matrices of time mixing that are quantised.
const TIME_MIXING: [&str; 5] =
    ["time_mix_receptance", "time_mix_key", "time_mix_value", "time_mix_gate", "time_mix_output"];

impl Role {
    /// The role of a tensor by its name in the file.
    pub(crate) fn of(name: &str) -> Role {
        let name = name.strip_suffix(".weight");
        let part = name.map(|name| name.rsplit('.').next().unwrap_or(name));
        match part {
            None | Some("ffn_gate_inp" | "rope_freqs" | "ffn_gate_inp_shexp") => Role::Plain,
            Some(part) if part.ends_with("norm") || part == "conv" || part.starts_with("ssm_conv1d") => Role::Plain,
            // Places, and small matrices beside those of time mixing, which llama.cpp keeps too.
            Some(part) if part.starts_with("time_mix_") && !TIME_MIXING.contains(&part) => Role::Plain,
            Some(part) if part.starts_with("channel_mix_lerp_") => Role::Plain,
            Some("attn_rel_b") => Role::Plain,
            Some("token_embd" | "per_layer_token_embd") => Role::Embedding,
            Some("per_layer_model_proj") => Role::Plain,
            Some("output") => Role::Output,
            Some("attn_k" | "attn_kv_a_mqa") => Role::Key,
            Some("attn_v" | "attn_kv_b" | "attn_qkv") => Role::Value,
            Some("attn_output") => Role::AttentionOutput,
            Some("ffn_down" | "ffn_down_exps" | "ffn_down_shexp") => Role::Down,
            Some(_) => Role::Other,
        }
    }
}

/// What the choice of types depends on besides the tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// Wanted.
    pub(crate) quant: Quant,
    /// Blocks of the model.
    pub(crate) layers: u32,
    /// Whether the embedding is the output too.
    pub(crate) tied: bool,
    /// Whether four or more query heads share a value.
    pub(crate) shared_values: bool,
    /// Whether values have importances.
    pub(crate) weighted: bool,
}

macro_rules! quants {
    ($($variant:ident = $name:literal, $base:ident, $file_type:literal;)*) => {
        /// A quantisation of a whole file, by its name in the field.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Quant { $($variant,)* }

        impl Quant {
            /// Every quantisation.
            pub const ALL: &'static [Quant] = &[$(Quant::$variant,)*];

            /// The name, in small letters.
            pub const fn name(self) -> &'static str {
                match self { $(Quant::$variant => $name,)* }
            }

            /// The type of most matrices.
            pub const fn base(self) -> GgmlType {
                match self { $(Quant::$variant => GgmlType::$base,)* }
            }

            /// `general.file_type`.
            pub const fn file_type(self) -> u32 {
                match self { $(Quant::$variant => $file_type,)* }
            }
        }
    };
}

// name, type of most matrices, general.file_type
quants! {
    F32 = "f32", F32, 0;
    F16 = "f16", F16, 1;
    Bf16 = "bf16", BF16, 32;
    Q4_0 = "q4_0", Q4_0, 2;
    Q4_1 = "q4_1", Q4_1, 3;
    Q5_0 = "q5_0", Q5_0, 8;
    Q5_1 = "q5_1", Q5_1, 9;
    Q8_0 = "q8_0", Q8_0, 7;
    Q2K = "q2_k", Q2_K, 10;
    Q3KM = "q3_k_m", Q3_K, 12;
    Q4KM = "q4_k_m", Q4_K, 15;
    Q5KM = "q5_k_m", Q5_K, 17;
    Q6K = "q6_k", Q6_K, 18;
    Iq4Nl = "iq4_nl", IQ4_NL, 25;
    Iq4Xs = "iq4_xs", IQ4_XS, 30;
    Tq1_0 = "tq1_0", TQ1_0, 36;
    Tq2_0 = "tq2_0", TQ2_0, 37;
    Mxfp4 = "mxfp4", MXFP4, 38;
    Nvfp4 = "nvfp4", NVFP4, 39;
    Q1_0 = "q1_0", Q1_0, 40;
    Q2_0 = "q2_0", Q2_0, 41;
}

impl Quant {
    /// The quantisation of this name, in any case.
    pub fn named(name: &str) -> Option<Quant> {
        Quant::ALL.iter().copied().find(|quant| quant.name().eq_ignore_ascii_case(name))
    }

    /// Whether every matrix has the same type.
    fn is_uniform(self) -> bool {
        self.base().block_len() == 1 || matches!(self, Quant::Mxfp4 | Quant::Nvfp4)
    }
}

impl Mix {
    /// The type of a tensor of this role, in this block, with rows of so many values.
    pub(crate) fn type_of(&self, role: Role, layer: u32, columns: u64) -> GgmlType {
        match role {
            Role::Plain => GgmlType::F32,
            _ if self.quant.is_uniform() => fitting(self.quant.base(), columns),
            role => fitting(self.chosen(role, layer), columns),
        }
    }

    fn chosen(&self, role: Role, layer: u32) -> GgmlType {
        use GgmlType::{Q3_K, Q4_1, Q4_K, Q5_1, Q5_K, Q6_K, Q8_0};
        let Mix { quant, layers, tied, shared_values, weighted } = *self;
        let is_output = role == Role::Output || tied && role == Role::Embedding;
        match (quant, role) {
            (Quant::Q8_0, _) => Q8_0,
            _ if is_output => Q6_K,
            (Quant::Tq1_0 | Quant::Tq2_0 | Quant::Q2_0, Role::Embedding) => Q4_K,
            (Quant::Q2K, Role::Value) if shared_values => Q4_K,
            (Quant::Q2K, Role::Value | Role::Down | Role::AttentionOutput) => Q3_K,
            (Quant::Q3KM, Role::Value) if layer < 2 => Q5_K,
            (Quant::Q3KM, Role::Down) if layer < layers / 16 => Q5_K,
            (Quant::Q3KM, Role::Value | Role::Down | Role::AttentionOutput) => Q4_K,
            (Quant::Q4KM | Quant::Q5KM, Role::Value | Role::Down) if has_more(layer, layers) => Q6_K,
            (Quant::Iq4Nl | Quant::Iq4Xs, Role::Value) if shared_values => Q5_K,
            (Quant::Iq4Nl | Quant::Iq4Xs, Role::Down) if layer < layers / 8 && !weighted => Q5_K,
            (Quant::Q4_0, Role::Down) if layer < layers / 8 && weighted => Q4_1,
            (Quant::Q5_0, Role::Down) if layer < layers / 8 && weighted => Q5_1,
            _ => quant.base(),
        }
    }
}

/// Whether a layer is one of those that get more bits: the first and last eighth, and every third between.
fn has_more(layer: u32, layers: u32) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

/// The type itself, or the one that takes its place in rows of `columns` values.
pub(crate) fn fitting(ty: GgmlType, columns: u64) -> GgmlType {
    use GgmlType::*;
    let fits = |ty: GgmlType| columns.is_multiple_of(u64::from(ty.block_len()));
    let shorter = match ty {
        Q2_K | Q3_K | TQ1_0 | TQ2_0 | Q2_0 => Q4_0,
        Q4_K => Q5_0,
        Q5_K => Q5_1,
        Q6_K => Q8_0,
        IQ4_XS => IQ4_NL,
        other => other,
    };
    match ty {
        ty if fits(ty) => ty,
        _ if fits(shorter) => shorter,
        _ => F16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for &quant in Quant::ALL {
            assert_eq!(Quant::named(quant.name()), Some(quant));
            assert_eq!(Quant::named(&quant.name().to_uppercase()), Some(quant));
        }
    }

    #[test]
    fn layers_with_more_bits() {
        let count = |layers| (0..layers).filter(|&l| has_more(l, layers)).count();
        assert_eq!([47, 27, 32].map(count), [23, 13, 16]);
    }

    #[test]
    fn rows_that_do_not_fit() {
        use GgmlType::*;
        assert_eq!([Q4_K, Q5_K, Q6_K].map(|t| fitting(t, 192)), [Q5_0, Q5_1, Q8_0]);
        assert_eq!([Q2_K, Q3_K, IQ4_XS].map(|t| fitting(t, 96)), [Q4_0, Q4_0, IQ4_NL]);
        assert_eq!([Q4_0, Q4_K, MXFP4, BF16].map(|t| fitting(t, 48)), [F16, F16, F16, BF16]);
    }
}
