//! Compiled grammars, each in a process: those in use, and some more for whoever sends the same schema again.
//!
//! Requests with the same source share one compile, also while it is under way: when the one that began it leaves, the
//! next begins anew.

use super::Failed;
use super::budget::{COMPILED, COMPILED_MIB, KEPT, KEPT_MIB};
use super::process::{ForkServer, GrammarProcess};
use super::rule::Source;
use super::turns::Turns;
use super::vocabulary::Vocabulary;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

/// A grammar that was compiled, or why it never will be.
type Verdict = Result<Arc<GrammarProcess>, Failed>;

/// Compiles each source once as long as it is kept.
pub struct Cache {
    server: ForkServer,
    turns: Turns,
    /// One for each compiled grammar.
    slots: Arc<Semaphore>,
    /// One for each MiB of them.
    memory: Arc<Semaphore>,
    /// The last that was asked for is the last.
    kept: Mutex<VecDeque<Entry>>,
}

struct Entry {
    source: Arc<Source>,
    verdict: Arc<OnceCell<Verdict>>,
}

impl Entry {
    /// Whether nobody but the cache has its grammar.
    fn is_idle(&self) -> bool {
        matches!(self.verdict.get(), Some(Ok(process)) if Arc::strong_count(process) == 1)
    }

    /// Whether it has a grammar that is no more.
    fn is_dead(&self) -> bool {
        matches!(self.verdict.get(), Some(Ok(process)) if !process.is_alive())
    }
}

impl Cache {
    /// An empty one.
    pub fn new(server: ForkServer) -> Cache {
        let [slots, memory] = [COMPILED, COMPILED_MIB as usize].map(|most| Arc::new(Semaphore::new(most)));
        Cache { server, turns: Turns::new(), slots, memory, kept: Mutex::default() }
    }

    /// The grammar of a source.
    pub async fn compiled(&self, vocabulary: &Arc<Vocabulary>, source: &Source) -> Verdict {
        let entry = self.entry(source);
        let verdict = entry.verdict.get_or_try_init(|| async {
            let _turn = self.turns.take().await?;
            let slot = self.room(&self.slots, 1)?;
            match self.server.compile(vocabulary, &entry.source, slot).await {
                Ok(mut process) => {
                    process.hold(self.room(&self.memory, process.mebibytes())?);
                    if process.mebibytes() > KEPT_MIB {
                        self.kept().retain(|kept| !Arc::ptr_eq(&kept.verdict, &entry.verdict));
                    }
                    Ok(Ok(Arc::new(process)))
                }
                Err(refused @ Failed::Refused(_)) => Ok(Err(refused)),
                // The next one may have more luck.
                Err(failed) => Err(failed),
            }
        });
        verdict.await?.clone()
    }

    /// The entry of a source, which is now the last.
    fn entry(&self, source: &Source) -> Entry {
        let mut kept = self.kept();
        kept.retain(|entry| !entry.is_dead());
        let found = kept.iter().position(|entry| *entry.source == *source).and_then(|at| kept.remove(at));
        let entry = found.unwrap_or_else(|| Entry { source: Arc::new(source.clone()), verdict: Arc::default() });
        let same = Entry { source: entry.source.clone(), verdict: entry.verdict.clone() };
        kept.push_back(entry);
        if kept.len() > KEPT {
            kept.pop_front();
        }
        same
    }

    /// So much room, be it that of grammars that nobody uses.
    fn room(&self, of: &Arc<Semaphore>, much: u32) -> Result<OwnedSemaphorePermit, Failed> {
        loop {
            if let Ok(room) = of.clone().try_acquire_many_owned(much) {
                return Ok(room);
            }
            let mut kept = self.kept();
            let idle = kept.iter().position(Entry::is_idle);
            let idle = idle.and_then(|at| kept.remove(at));
            drop(kept);
            if idle.is_none() {
                let problem = format!(
                    "grammars in use are {COMPILED}, or have {COMPILED_MIB} MiB, as many as may; try again later"
                );
                return Err(Failed::Busy(problem));
            }
        }
    }

    /// Nothing is half done under this lock.
    fn kept(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
