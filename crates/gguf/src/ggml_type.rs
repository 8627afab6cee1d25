//! The element types that a GGUF file can name.

use crate::format::{Format, rows};
use std::fmt;
use std::sync::LazyLock;

/// Ids that earlier versions of the container gave to types that no longer exist.
pub const REMOVED_IDS: [u32; 8] = [4, 5, 31, 32, 33, 36, 37, 38];

macro_rules! types {
    ($($name:ident = $id:literal, $block:literal, $bytes:literal;)*) => {
        /// Element type of a tensor, under its name in the file format; the discriminant is the id in the file.
        ///
        /// Every legal id is here, so that any file can be listed; [`GgmlType::format`] says which can be computed with.
        #[allow(non_camel_case_types, missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum GgmlType { $($name = $id,)* }

        impl GgmlType {
            /// Every type, by rising id.
            pub const ALL: &'static [GgmlType] = &[$(GgmlType::$name,)*];

            /// The type with this id; `None` for ids that were never given or were removed ([`REMOVED_IDS`]).
            pub const fn from_id(id: u32) -> Option<GgmlType> {
                match id {
                    $($id => Some(GgmlType::$name),)*
                    _ => None,
                }
            }

            /// The name in use in the field, such as `Q4_K`.
            pub const fn name(self) -> &'static str {
                match self { $(GgmlType::$name => stringify!($name),)* }
            }

            /// Values per block; 1 for plain types.
            pub const fn block_len(self) -> u32 {
                match self { $(GgmlType::$name => $block,)* }
            }

            /// Bytes per block.
            pub const fn block_bytes(self) -> u32 {
                match self { $(GgmlType::$name => $bytes,)* }
            }
        }
    };
}

// name = id, values per block, bytes per block
types! {
    F32 = 0, 1, 4;
    F16 = 1, 1, 2;
    Q4_0 = 2, 32, 18;
    Q4_1 = 3, 32, 20;
    Q5_0 = 6, 32, 22;
    Q5_1 = 7, 32, 24;
    Q8_0 = 8, 32, 34;
    Q8_1 = 9, 32, 36;
    Q2_K = 10, 256, 84;
    Q3_K = 11, 256, 110;
    Q4_K = 12, 256, 144;
    Q5_K = 13, 256, 176;
    Q6_K = 14, 256, 210;
    Q8_K = 15, 256, 292;
    IQ2_XXS = 16, 256, 66;
    IQ2_XS = 17, 256, 74;
    IQ3_XXS = 18, 256, 98;
    IQ1_S = 19, 256, 50;
    IQ4_NL = 20, 32, 18;
    IQ3_S = 21, 256, 110;
    IQ2_S = 22, 256, 82;
    IQ4_XS = 23, 256, 136;
    I8 = 24, 1, 1;
    I16 = 25, 1, 2;
    I32 = 26, 1, 4;
    I64 = 27, 1, 8;
    F64 = 28, 1, 8;
    IQ1_M = 29, 256, 56;
    BF16 = 30, 1, 2;
    TQ1_0 = 34, 256, 54;
    TQ2_0 = 35, 256, 66;
    MXFP4 = 39, 32, 17;
    NVFP4 = 40, 64, 36;
    Q1_0 = 41, 128, 18;
    Q2_0 = 42, 64, 18;
}

impl GgmlType {
    /// The id in the file.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// The type of this name, in any case.
    pub fn from_name(name: &str) -> Option<GgmlType> {
        Self::ALL.iter().copied().find(|ty| ty.name().eq_ignore_ascii_case(name))
    }

    /// The row of the table of formats, or `None` for types that kernels do not read; [`GgmlType::computed_as`] may have one.
    pub fn format(self) -> Option<&'static Format> {
        static BY_TYPE: LazyLock<Vec<Option<&'static Format>>> = LazyLock::new(|| {
            let row = |ty: &GgmlType| rows().iter().find(|format| format.name == ty.name());
            GgmlType::ALL.iter().map(row).collect()
        });
        let at = Self::ALL.iter().position(|&ty| ty == self)?;
        BY_TYPE[at]
    }

    /// The type whose blocks kernels read in place of this one's, with the same values: another one where codes are unpacked
    /// once ([`crate::ternary`]).
    pub const fn computed_as(self) -> GgmlType {
        match self {
            GgmlType::TQ1_0 => GgmlType::TQ2_0,
            other => other,
        }
    }

    /// Whether blocks are unpacked before kernels read them.
    pub fn is_unpacked(self) -> bool {
        self.computed_as() != self
    }

    /// Bytes of a row of `n` values, or `None` if `n` is not a whole number of blocks or the size overflows.
    pub const fn row_bytes(self, n: u64) -> Option<u64> {
        let block = self.block_len() as u64;
        if !n.is_multiple_of(block) {
            return None;
        }
        (n / block).checked_mul(self.block_bytes() as u64)
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_names_and_sizes_agree() {
        for id in 0..64 {
            let ty = GgmlType::from_id(id);
            assert_eq!(ty.is_none(), REMOVED_IDS.contains(&id) || id > 42, "id {id}");
            let Some(ty) = ty else { continue };
            assert_eq!(ty.id(), id);
            assert_eq!(GgmlType::from_name(&ty.name().to_lowercase()), Some(ty));
            if let Some(format) = ty.format() {
                assert_eq!(format.name, ty.name());
                assert_eq!((format.block_len(), format.block_bytes()), (ty.block_len(), ty.block_bytes()));
                assert_eq!(format.row_bytes(512), ty.row_bytes(512));
            }
        }
        assert_eq!(GgmlType::ALL.iter().filter(|ty| ty.format().is_some()).count(), rows().len());
    }

    #[test]
    fn rows_of_whole_blocks_only() {
        assert_eq!(GgmlType::Q4_K.row_bytes(512), Some(288));
        assert_eq!(GgmlType::Q4_K.row_bytes(511), None);
        assert_eq!(GgmlType::Q4_K.row_bytes(0), Some(0));
        assert_eq!(GgmlType::F64.row_bytes(u64::MAX), None);
    }
}
