//! Compiled grammars, each in a process: those in use, and some more for whoever sends the same schema again.
//!
//! Requests with the same source share one compile, also while it is under way: when the one that began it leaves, the
//! next begins anew.

use super::Failed;
use super::budget::{COMPILED, KEPT};
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
        let slots = Arc::new(Semaphore::new(COMPILED));
        Cache { server, turns: Turns::new(), slots, kept: Mutex::default() }
    }

    /// The grammar of a source.
    pub async fn compiled(&self, vocabulary: &Arc<Vocabulary>, source: &Source) -> Verdict {
        let entry = self.entry(source);
        let verdict = entry.verdict.get_or_try_init(|| async {
            let _turn = self.turns.take().await?;
            match self.server.compile(vocabulary, &entry.source, self.slot()?).await {
                Ok(process) => Ok(Ok(Arc::new(process))),
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

    /// Room for one grammar more, be it that of one that nobody uses.
    fn slot(&self) -> Result<OwnedSemaphorePermit, Failed> {
        loop {
            if let Ok(slot) = self.slots.clone().try_acquire_owned() {
                return Ok(slot);
            }
            let mut kept = self.kept();
            let idle = kept.iter().position(Entry::is_idle);
            let idle = idle.and_then(|at| kept.remove(at));
            drop(kept);
            if idle.is_none() {
                return Err(Failed::Busy(format!("{COMPILED} grammars are in use already; try again later")));
            }
        }
    }

    /// Nothing is half done under this lock.
    fn kept(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
