//! Which type each tensor has.
//!
//! The rules are those of llama.cpp's quantiser without an importance matrix: more bits for the output, for some of the
//! layers of the values and of the down projections, and another type where a row is not a whole number of blocks.
//! MXFP4 is the exception: here every matrix has it, there only experts do.

use super::tensors::{Role, Spec};
use super::{Shape, SynthError, SynthOptions, join};
use crate::config::Attention;
use gguf::GgmlType;

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
    Mxfp4 = "mxfp4", MXFP4, 38;
}

impl Quant {
    /// The quantisation of this name, in any case.
    ///
    /// # Errors
    /// [`SynthError::UnknownQuant`] with the names there are.
    pub fn named(name: &str) -> Result<Quant, SynthError> {
        let found = |q: &&Quant| q.name().eq_ignore_ascii_case(name);
        let unknown =
            || SynthError::UnknownQuant { name: name.to_owned(), known: join(Quant::ALL.iter().map(|q| q.name())) };
        Quant::ALL.iter().find(found).copied().ok_or_else(unknown)
    }

    /// Whether every matrix has the same type.
    fn is_uniform(self) -> bool {
        self.base().block_len() == 1 || self == Quant::Mxfp4
    }
}

/// The type of a tensor.
pub(super) fn type_of(quant: Quant, tensor: &Spec, shape: &Shape, layers: u32, options: &SynthOptions) -> GgmlType {
    let ty = match tensor.role {
        Role::Plain => return GgmlType::F32,
        role if options.mixed && (role == Role::Key || tensor.shared) => other(quant.base()),
        _ if quant.is_uniform() => quant.base(),
        _ => chosen(quant, tensor, shape, layers),
    };
    fitting(ty, tensor.shape[0])
}

fn chosen(quant: Quant, tensor: &Spec, shape: &Shape, layers: u32) -> GgmlType {
    use GgmlType::{Q3_K, Q4_K, Q5_K, Q6_K, Q8_0};
    let (layer, base) = (tensor.layer, quant.base());
    let is_output = tensor.role == Role::Output || shape.tied && tensor.role == Role::Embedding;
    // Values are small where four or more query heads share one.
    let shared_values = match shape.attention {
        Attention::Grouped { kv_heads, .. } => shape.heads / kv_heads >= 4,
        Attention::Latent { .. } => false,
    };
    match (quant, tensor.role) {
        (Quant::Q8_0, _) => Q8_0,
        _ if is_output => Q6_K,
        (Quant::Q2K, Role::Value) if shared_values => Q4_K,
        (Quant::Q2K, Role::Value | Role::Down | Role::AttentionOutput) => Q3_K,
        (Quant::Q3KM, Role::Value) if layer < 2 => Q5_K,
        (Quant::Q3KM, Role::Down) if layer < layers / 16 => Q5_K,
        (Quant::Q3KM, Role::Value | Role::Down | Role::AttentionOutput) => Q4_K,
        (Quant::Q4KM | Quant::Q5KM, Role::Value | Role::Down) if has_more(layer, layers) => Q6_K,
        (Quant::Iq4Nl | Quant::Iq4Xs, Role::Value) if shared_values => Q5_K,
        (Quant::Iq4Nl | Quant::Iq4Xs, Role::Down) if layer < layers / 8 => Q5_K,
        _ => base,
    }
}

/// Whether a layer is one of those that get more bits: the first and last eighth, and every third between.
fn has_more(layer: u32, layers: u32) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

/// Another type than `base`, of blocks as short as any.
fn other(base: GgmlType) -> GgmlType {
    match base {
        GgmlType::Q8_0 => GgmlType::Q4_0,
        _ => GgmlType::Q8_0,
    }
}

/// The type itself, or the one that takes its place in rows of `columns` values.
fn fitting(ty: GgmlType, columns: u64) -> GgmlType {
    use GgmlType::*;
    let fits = |ty: GgmlType| columns.is_multiple_of(u64::from(ty.block_len()));
    let shorter = match ty {
        Q2_K | Q3_K => Q4_0,
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
            assert_eq!(Quant::named(quant.name()).unwrap(), quant);
            assert_eq!(Quant::named(&quant.name().to_uppercase()).unwrap(), quant);
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
