//! Models by name: which file a name stands for, whether it is in the cache, and how it gets there.
//!
//! A name goes through [`name`] (paths, addresses, `user/repo:QUANT`) with the help of one [`table`], and becomes a
//! [`Source`]. [`cache`] looks for it in the folders that Hugging Face's tools share; [`pull`] gets what is missing:
//! it lists a repository ([`listing`]), chooses a file ([`quant`]), and has [`download`] bring it in, resumed and
//! checked. [`Hub`] is all of this together.
//!
//! Nothing here knows what is in a model file, or prints anything.

pub mod cache;
pub mod client;
pub mod download;
pub mod error;
pub mod listing;
pub mod name;
pub mod pull;
pub mod quant;
pub mod remove;
pub mod settings;
pub mod table;
pub mod watch;

pub use cache::{Cache, Entry, Partial};
pub use error::Error;
pub use name::{Source, Wanted};
pub use pull::{Hub, Pulled};
pub use settings::Settings;
pub use watch::{Event, Silent, Watch};
