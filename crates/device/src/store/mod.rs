//! What later processes find on disk: compiled kernels, programs that launch them, and plans that a search has found.
//!
//! [`cache`] is the folder of the processor's kernels and [`blobs`] that of other devices; `programs` and [`tuned`] lie
//! beside them. Names are digests of what a file follows from (`digest`). Files appear whole ([`publish`]), in folders
//! whose code may be loaded ([`folder`]), and what is read back must be what root or the user wrote ([`trust`]). A folder
//! of kernels as one file, as it comes with the program, is a [`pack`].

pub mod blobs;
pub mod cache;
pub(crate) mod digest;
pub mod folder;
pub mod pack;
pub(crate) mod programs;
pub mod publish;
pub(crate) mod shared_object;
pub mod trust;
pub mod tuned;
