//! Steps whose program is not compiled yet, run by one that is.
//!
//! Compiling the kernels of a prompt takes seconds, those of a single token one or less, and an answer needs these in any
//! case. So a prompt may begin with the program of one token as its *stand-in*, token by token, while its own is compiled
//! behind it ([`super::behind`]); the rest of the step is run by that as soon as it is there. Results are those of either
//! program, which differ in the order of sums as programs of different numbers of tokens always do. A program that an
//! earlier process has compiled is loaded at once and needs no stand-in: only first runs have one.
//!
//! Where there is no compiler, and the kernels that came with the program are those of few tokens, others stand in for good:
//! a prompt is then read eight tokens at a time.

use super::behind::Behind;
use super::readiness::State;
use super::{Engine, Ready};
use crate::batch::Batch;
use crate::error::EngineError;
use crate::program_cache;
use crate::step::{Class, Output, Variant};
use device::CompileReport;
use std::time::{Duration, Instant};

/// What is left of a step waits for its own program if the stand-in would take longer for it than this, which is what
/// kernels of a prompt take to compile: waiting leaves the processors to the compiler.
const PATIENCE: Duration = Duration::from_secs(4);

/// What an engine has for steps whose program is not there.
pub(super) struct StandIn {
    behind: Behind,
    /// Programs that cannot be had, as nothing compiles their kernels.
    absent: Vec<Variant>,
    /// The output of the last step, if it was run in pieces.
    rows: Vec<f32>,
    /// The shortest time that the program of one token took for one; not the first, which brings in weights.
    fastest: Option<Duration>,
    begun: bool,
}

impl StandIn {
    /// The program of one token has run a step in this time.
    fn took(&mut self, time: Duration) {
        if std::mem::replace(&mut self.begun, true) {
            self.fastest = Some(self.fastest.map_or(time, |fastest| fastest.min(time)));
        }
    }

    /// Whether it would take long for so many tokens.
    fn is_slow_for(&self, tokens: usize) -> bool {
        self.fastest.is_some_and(|fastest| fastest.as_secs_f64() * tokens as f64 > PATIENCE.as_secs_f64())
    }
}

impl Engine {
    /// From now on, steps need not wait until their programs are compiled: those of one token stand in for others, which are
    /// compiled meanwhile. `told` hears of each, on another thread, when that is done or has failed. It has no effect on devices
    /// that cannot compile while they run steps, on engines whose results must not depend on such things, and on models whose
    /// tokens see what follows, which one token by itself does not.
    pub fn answer_early(&mut self, told: impl Fn(Variant, Result<&CompileReport, &EngineError>) + Send + 'static) {
        if self.device.compiles_beside() && !self.batch_invariant && self.config.causal {
            let new = |behind| StandIn { behind, absent: vec![], rows: vec![], fastest: None, begun: false };
            self.stand_in = Behind::start(self, told).map(new);
        }
    }

    /// Whether another program would have to stand in for this one, as no earlier process has made it.
    pub fn is_later(&self, variant: Variant) -> bool {
        self.stand_in.is_some()
            && !variant.class.takes_one()
            && !self.programs.contains_key(&variant)
            && self.device.kept(&self.follows_from(variant)).is_none()
    }

    /// Whether nothing compiles the kernels of a program.
    fn is_absent(&self, variant: Variant) -> bool {
        self.stand_in.as_ref().is_some_and(|stand_in| stand_in.absent.contains(&variant))
    }

    /// Whether a program is being compiled while others run the steps.
    fn is_making(&self, variant: Variant) -> bool {
        self.stand_in.as_ref().is_some_and(|stand_in| stand_in.behind.is_asked(variant))
    }

    /// Sees to it that a program is there, now or while others run the steps.
    ///
    /// # Errors
    /// As [`Engine::prepare`].
    pub fn expect(&mut self, variant: impl Into<Variant>) -> Result<(), EngineError> {
        let variant = variant.into();
        if self.may_run(variant)? { self.prepare(variant) } else { Ok(()) }
    }

    /// Whether a step may be run by its own program now. If not, that is being compiled.
    pub(super) fn may_run(&mut self, variant: Variant) -> Result<bool, EngineError> {
        if self.stand_in.is_none() || variant.class.takes_one() {
            return Ok(true);
        }
        self.adopt(false)?;
        if self.programs.contains_key(&variant) || self.ready.contains_key(&variant) {
            return Ok(true);
        }
        if self.is_making(variant) || self.is_absent(variant) {
            return Ok(false);
        }
        let follows_from = self.follows_from(variant);
        if let Some(kept) = program_cache::find(&*self.device, &follows_from) {
            self.ready.insert(variant, Ready::Kept(Box::new(kept)));
            return Ok(true);
        }
        let sizes = self.sharing.sizes(variant, &self.config, &self.options);
        self.readiness.note(variant, Some(State::Compiling));
        if let Some(stand_in) = &mut self.stand_in {
            stand_in.behind.ask(variant, sizes, follows_from);
        }
        Ok(false)
    }

    /// Loads the programs that have come; with `wait`, after the next one has.
    fn adopt(&mut self, mut wait: bool) -> Result<(), EngineError> {
        while let Some((variant, made)) = self.stand_in.as_mut().and_then(|stand_in| stand_in.behind.take(wait)) {
            match made {
                Ok(made) => {
                    self.ready.insert(variant, Ready::Made(made));
                    self.check_room(variant)?;
                    self.prepare(variant)?;
                }
                // Who ended the compilers has ended what was computed then, which may be over for long.
                Err(error) if error.is_stopped() && !wait => {}
                Err(error) if error.is_not_built() => {
                    if let Some(stand_in) = &mut self.stand_in {
                        stand_in.absent.push(variant);
                    }
                }
                Err(error) => return Err(error),
            }
            wait = false;
        }
        Ok(())
    }

    /// Checks that there is memory for a program beside those that run.
    fn check_room(&self, variant: Variant) -> Result<(), EngineError> {
        let needed = self.memory_plan(|many_tokens| self.device.workers(many_tokens)).allocated();
        match self.available_memory() {
            Some(available) if needed as u64 > available => {
                let purpose =
                    format!("the program for {variant} beside the others (a smaller context, -c, takes less)");
                Err(device::Error::OutOfMemory { purpose, bytes: needed }.into())
            }
            _ => Ok(()),
        }
    }

    /// Runs a batch whose own program is not there, piece by piece.
    pub(super) fn run_by_stand_in(&mut self, batch: &Batch) -> Result<(), EngineError> {
        // It makes the cache, too.
        self.prepare(Variant { class: Class::One, output: batch.output() })?;
        self.clear_begun(batch)?;
        let meant = self.variant(batch);
        let mut rows = vec![0.0; batch.rows() * batch.output().width(&self.config)];
        let mut piece = Batch::new(self.limits());
        let mut at = 0;
        while at < batch.tokens() {
            let rest = batch.tokens() - at;
            let awaited = self.best_of(meant);
            if awaited != meant {
                self.expect(awaited)?;
            }
            let waits = self.stand_in.as_ref().is_some_and(|stand_in| stand_in.is_slow_for(rest));
            self.adopt(waits && self.is_making(awaited) && self.fitting(meant, rest) == 1)?;
            let count = self.fitting(meant, rest);
            let wanted = piece.cut(batch, at..at + count);
            self.run_piece(&piece, meant, &wanted, &mut rows)?;
            at += count;
        }
        if let Some(stand_in) = &mut self.stand_in {
            stand_in.rows = rows;
        }
        Ok(())
    }

    /// The program that is worth waiting for: the one that is meant, or that of few tokens where there will be none.
    fn best_of(&self, meant: Variant) -> Variant {
        if self.is_absent(meant) { Variant { class: Class::Few, ..meant } } else { meant }
    }

    /// How many of so many tokens a program that is there can take at once.
    fn fitting(&self, meant: Variant, tokens: usize) -> usize {
        let is_there = |class| self.programs.contains_key(&Variant { class, ..meant });
        match tokens {
            9.. if is_there(Class::Many) || is_there(Class::Prompt) => tokens,
            9.. if is_there(Class::Several) => tokens.min(self.limits().reach.several()),
            2.. if is_there(Class::Few) => tokens.min(8),
            _ => 1,
        }
    }

    /// Runs a piece of a batch and takes over the rows that are `wanted`, as numbers of rows of the whole.
    fn run_piece(
        &mut self,
        piece: &Batch,
        meant: Variant,
        wanted: &[usize],
        rows: &mut [f32],
    ) -> Result<(), EngineError> {
        let own = self.variant(piece);
        // Who is cut for some dozen tokens has no more ([`Engine::fitting`]).
        let classes = [own.class, Class::Many, Class::Prompt, Class::Several];
        let there = |class: &Class| self.programs.contains_key(&Variant { class: *class, ..own });
        let class = if piece.tokens() > 8 { classes.into_iter().find(there).unwrap_or(own.class) } else { own.class };
        let variant = Variant { class, ..own };
        self.prepare(variant)?;
        let clock = Instant::now();
        self.execute(variant, piece, None)?;
        let width = piece.output().width(&self.config);
        let out = self.output(piece.output(), piece.rows())?;
        for (&row, values) in wanted.iter().zip(out.chunks_exact(width.max(1))) {
            rows[row * width..][..width].copy_from_slice(values);
        }
        if class != meant.class {
            self.readiness.count(piece.tokens());
        }
        if let Some(stand_in) = self.stand_in.as_mut().filter(|_| class.one()) {
            stand_in.took(clock.elapsed());
        }
        Ok(())
    }

    /// The output of the last step: of its program, or what was gathered of its pieces.
    pub(super) fn rows(&mut self, output: Output, rows: usize) -> Result<&[f32], EngineError> {
        if self.stand_in.as_ref().is_some_and(|stand_in| !stand_in.rows.is_empty()) {
            return Ok(&self.stand_in.as_ref().expect("seen above").rows);
        }
        self.output(output, rows)
    }

    /// Forgets what was gathered for the step before.
    pub(super) fn begin_step(&mut self) {
        if let Some(stand_in) = &mut self.stand_in {
            stand_in.rows.clear();
        }
    }
}
