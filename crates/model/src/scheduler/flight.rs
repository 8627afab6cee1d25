//! Steps that are sent before the tokens of the one before are known.

use super::{Failure, Scheduler};
use crate::sent::Arriving;
use crate::sequence::Finish;
use std::time::Instant;

/// A step whose tokens are not known yet.
pub(super) struct Flight {
    arriving: Box<dyn Arriving>,
    shares: Vec<Share>,
    /// When nothing was left but to wait for it.
    began: Instant,
}

/// What a sequence has in it.
struct Share {
    /// Of the sequence.
    ticket: u64,
    /// Tokens.
    count: usize,
    /// The row that chooses its next token.
    row: Option<usize>,
}

impl Scheduler {
    /// Whether the next step may be sent before the tokens of this one are known: nothing but the device chooses any.
    pub(super) fn sends(&self) -> bool {
        let chosen = self.engine.ahead() > 0 && self.running.iter().all(|(_, task)| task.is_drawn());
        chosen && !self.running.is_empty() && !self.waits_for_snapshot()
    }

    /// Sends the batch, and takes the tokens of the step before.
    pub(super) fn send(&mut self) -> bool {
        let (mut rows, mut shares) = (0, vec![]);
        for &(at, count) in &self.parts {
            let task = &self.running[at].1;
            let row = (task.rows(count).len() == 1).then_some(rows);
            rows += task.rows(count).len();
            shares.push((at, Share { ticket: task.ticket, count, row }));
        }
        if let Err(error) = self.carry() {
            return self.fail(&error.to_string());
        }
        let began = Instant::now();
        let arriving = match self.engine.send(&self.batch) {
            Ok(arriving) => arriving,
            Err(error) => return self.fail(&error.to_string()),
        };
        for (at, share) in &shares {
            let task = &mut self.running[*at].1;
            task.sent += share.count;
            task.row = share.row;
        }
        let shares = shares.into_iter().map(|(_, share)| share).collect();
        match self.flight.replace(Flight { arriving, shares, began }) {
            Some(before) => self.land(before),
            None => true,
        }
    }

    /// Waits for the tokens of a step that was sent and gives each sequence its own.
    pub(super) fn land(&mut self, flight: Flight) -> bool {
        let Flight { arriving, shares, began } = flight;
        let tokens = match arriving.tokens() {
            Ok(tokens) => tokens,
            Err(error) => return self.fail(&error.to_string()),
        };
        let (now, context) = (Instant::now(), self.limits.context);
        let (mut prompt_tokens, mut ended) = (0, vec![]);
        for share in &shares {
            // Who is gone, or had to make room, has no use for its token.
            let Some(at) = self.running.iter().position(|(_, task)| task.ticket == share.ticket) else { continue };
            let task = &mut self.running[at].1;
            task.sent -= share.count;
            prompt_tokens += task.advance(share.count, &mut self.pages, &mut self.stats);
            let flies_on = |next: &Flight| next.shares.iter().any(|other| other.ticket == share.ticket);
            if !self.flight.as_ref().is_some_and(flies_on) {
                task.row = None;
            }
            if let Some(finish) = task.land(share.row.map(|row| tokens[row]), context) {
                ended.push((at, finish));
            }
        }
        self.stats.count(shares.len(), prompt_tokens, now - began);
        // The step in flight was waited for from now on.
        self.flight.iter_mut().for_each(|next| next.began = next.began.max(now));
        self.leave(ended);
        true
    }

    /// Takes sequences that are over from their places.
    pub(super) fn leave(&mut self, mut ended: Vec<(usize, Result<Finish, Failure>)>) {
        ended.sort_unstable_by_key(|(at, _)| *at);
        for (at, finish) in ended.into_iter().rev() {
            let (place, task) = self.running.remove(at);
            self.keep_leaving(place, &task);
            self.end(task, finish);
        }
        if self.running.is_empty() {
            // Nobody reads what is still in flight.
            self.flight = None;
        }
    }
}
