//! Tokens of steps that were sent, before the host knows them.

use crate::error::EngineError;
use device::Pending;

/// Tokens that were sent for.
pub trait Arriving: Send {
    /// Waits for them, one for each row that was asked for; there is none where no logit is above minus infinity.
    ///
    /// # Errors
    /// Of the device.
    fn tokens(self: Box<Self>) -> Result<Vec<Option<u32>>, EngineError>;
}

/// Tokens that an engine's step chooses.
pub struct Sent(Pending<i32>);

impl Sent {
    /// What a step writes, negative where it found no token.
    pub(crate) fn new(ids: Pending<i32>) -> Sent {
        Sent(ids)
    }
}

impl Arriving for Sent {
    fn tokens(self: Box<Self>) -> Result<Vec<Option<u32>>, EngineError> {
        Ok(self.0.wait()?.into_iter().map(|id| u32::try_from(id).ok()).collect())
    }
}
