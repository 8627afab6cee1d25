//! Downloads that are under way: one for each model, however many wait for it, and none for whom nobody waits.

use crate::budget::PULLS;
use crate::error::ApiError;
use crate::library::{Library, PullStep, Told};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// How far a download is.
#[derive(Clone, Debug)]
pub struct State {
    /// What happens now.
    pub step: PullStep,
    /// How it ended, once it has.
    pub end: Option<Result<(), ApiError>>,
}

/// Downloads by what names of their models have in common.
#[derive(Debug, Default)]
pub struct Pulls(Mutex<HashMap<String, Arc<watch::Sender<State>>>>);

/// The side of the download.
struct Pull {
    pulls: Arc<Pulls>,
    key: String,
    sender: Arc<watch::Sender<State>>,
}

impl Pulls {
    /// Waits for the download of a model, which begins if it is not under way. It stops when all who wait are dropped.
    ///
    /// # Errors
    /// A name that is none, and 429 if too many others are under way.
    pub fn join(self: &Arc<Pulls>, library: &Arc<dyn Library>, name: &str) -> Result<watch::Receiver<State>, ApiError> {
        let key = library.key(name)?;
        let mut all = self.lock();
        if let Some(sender) = all.get(&key) {
            return Ok(sender.subscribe());
        }
        if all.len() >= PULLS {
            return Err(ApiError::busy(format!("{PULLS} models are downloaded already, as many as may")));
        }
        let (sender, receiver) = watch::channel(State { step: PullStep::Listing, end: None });
        let pull = Pull { pulls: self.clone(), key: key.clone(), sender: Arc::new(sender) };
        all.insert(key, pull.sender.clone());
        drop(all);
        let (library, name) = (library.clone(), name.to_owned());
        let thread = std::thread::Builder::new().name("pull".into());
        let run = move || {
            let told = Box::new(Pull { pulls: pull.pulls.clone(), key: pull.key.clone(), sender: pull.sender.clone() });
            let end = catch_unwind(AssertUnwindSafe(|| library.pull(&name, told)));
            let broken = || Err(ApiError::server("the model could not be downloaded (internal error)"));
            pull.forget(&mut pull.pulls.lock());
            pull.sender.send_modify(|state| state.end = Some(end.unwrap_or_else(|_| broken())));
        };
        match thread.spawn(run) {
            Ok(_) => Ok(receiver),
            Err(error) => Err(ApiError::unavailable(format!("there is no thread for a download: {error}"))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<watch::Sender<State>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pull {
    /// Nobody joins it any more. Another download of the same model may have begun meanwhile, and stays.
    fn forget(&self, all: &mut HashMap<String, Arc<watch::Sender<State>>>) {
        if all.get(&self.key).is_some_and(|sender| Arc::ptr_eq(sender, &self.sender)) {
            all.remove(&self.key);
        }
    }
}

impl Told for Pull {
    fn hear(&self, step: PullStep) {
        self.sender.send_modify(|state| state.step = step);
    }

    fn waits(&self) -> bool {
        if self.sender.receiver_count() > 0 {
            return true;
        }
        // Whoever joins does so under the lock: from here on he begins a download of his own.
        let mut all = self.pulls.lock();
        let waits = self.sender.receiver_count() > 0;
        if !waits {
            self.forget(&mut all);
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::Kept;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// Downloads that end when nobody waits, or when they are told to.
    #[derive(Debug, Default)]
    struct Shelf {
        begun: AtomicUsize,
        stopped: AtomicUsize,
        may_end: AtomicUsize,
    }

    impl Library for Shelf {
        fn list(&self) -> Vec<Kept> {
            vec![]
        }

        fn key(&self, name: &str) -> Result<String, ApiError> {
            if name.is_empty() { Err(ApiError::not_found("no name")) } else { Ok(name.to_lowercase()) }
        }

        fn pull(&self, name: &str, told: Box<dyn Told>) -> Result<(), ApiError> {
            self.begun.fetch_add(1, Ordering::SeqCst);
            assert!(name != "panics");
            told.hear(PullStep::Remark(name.to_owned()));
            while self.may_end.load(Ordering::SeqCst) == 0 {
                if !told.waits() {
                    self.stopped.fetch_add(1, Ordering::SeqCst);
                    return Err(ApiError::unavailable("stopped"));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        }

        fn delete(&self, _: &str) -> Result<(), ApiError> {
            Ok(())
        }
    }

    async fn ended(mut receiver: watch::Receiver<State>) -> Result<(), ApiError> {
        let state = receiver.wait_for(|state| state.end.is_some()).await.expect("it ends").clone();
        state.end.expect("an end")
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn two_who_want_a_model_share_a_download_that_stops_when_both_have_left() {
        let shelf = Arc::new(Shelf::default());
        let library: Arc<dyn Library> = shelf.clone();
        let pulls = Arc::new(Pulls::default());
        assert_eq!(pulls.join(&library, "").expect_err("no name").status.as_u16(), 404);
        let (first, second) = (pulls.join(&library, "a").expect("one"), pulls.join(&library, "A").expect("the same"));
        let mut other = pulls.join(&library, "b").expect("another");
        other.wait_for(|state| state.step == PullStep::Remark("b".into())).await.expect("it begins");
        drop(first);
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(shelf.stopped.load(Ordering::SeqCst), 0, "somebody waits");
        drop(second);
        while shelf.stopped.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(shelf.begun.load(Ordering::SeqCst), 2);
        let again = pulls.join(&library, "a").expect("a new one");
        shelf.may_end.store(1, Ordering::SeqCst);
        assert_eq!((ended(again).await, ended(other).await), (Ok(()), Ok(())));
        assert_eq!(shelf.begun.load(Ordering::SeqCst), 3);
        assert!(pulls.lock().is_empty());
        let panics = ended(pulls.join(&library, "panics").expect("it begins")).await;
        assert_eq!(panics.expect_err("it failed").status.as_u16(), 500);
    }

    #[tokio::test]
    async fn there_are_so_many_downloads_at_a_time() {
        let library: Arc<dyn Library> = Arc::new(Shelf::default());
        let pulls = Arc::new(Pulls::default());
        let all: Vec<_> = (0..PULLS).map(|i| pulls.join(&library, &i.to_string()).expect("a place")).collect();
        assert_eq!(pulls.join(&library, "more").expect_err("too many").status.as_u16(), 429);
        pulls.join(&library, "0").expect("one that is under way");
        drop(all);
    }
}
