//! A model that remembers through pages: each next token depends on all before it, as read from the cache, so a wrong page
//! gives a wrong text.

use super::*;
use crate::batch::Room;
use crate::error::EngineError;
use crate::pages::Move;
use crate::sent::Arriving;
use crate::snapshot::Snapshot;
use compiler::program::Program;
use device::{Executable, Memory};

/// The logit of the token that comes; those of others are 0.
pub(super) const LIKELY: f32 = 5.0;

pub(super) struct Paged {
    pub(super) limits: Limits,
    pub(super) cache: Vec<i32>,
    /// Pages that were moved beside the device.
    pub(super) beside: Vec<Vec<i32>>,
    /// Whether that takes long.
    pub(super) slow: Arc<AtomicBool>,
    pub(super) logits: Vec<f32>,
    /// Tokens and sequences of every step.
    pub(super) steps: Arc<Mutex<Vec<(usize, usize)>>>,
    pub(super) fail: Arc<AtomicBool>,
    /// Steps that may be sent ahead.
    pub(super) ahead: usize,
    /// What the last step chose.
    pub(super) chosen: Vec<u32>,
    /// What a model that remembers has read, place by place.
    pub(super) read: Option<Vec<Vec<i32>>>,
}

/// Tokens that arrive at once.
struct Chosen(Vec<u32>);

impl Arriving for Chosen {
    fn tokens(self: Box<Self>) -> Result<Vec<Option<u32>>, EngineError> {
        Ok(self.0.into_iter().map(Some).collect())
    }
}

/// The token after these.
pub(super) fn next(history: impl IntoIterator<Item = u32>) -> u32 {
    let hash = history.into_iter().fold(7u64, |h, t| (h ^ u64::from(t)).wrapping_mul(0x100_0000_01b3).rotate_left(17));
    (hash % VOCAB as u64) as u32
}

/// What a prompt goes on with.
pub(super) fn alone(prompt: &[u32], limit: usize, context: usize) -> Vec<u32> {
    let mut tokens = prompt.to_vec();
    while tokens.len() - prompt.len() < limit && tokens.len() <= context {
        match next(tokens.iter().copied()) {
            END => break,
            token => tokens.push(token),
        }
    }
    tokens.split_off(prompt.len())
}

impl Batches for Paged {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn prepare(&mut self, _: usize) -> Result<(), EngineError> {
        Ok(())
    }

    fn run(&mut self, batch: &Batch) -> Result<&[f32], EngineError> {
        if self.fail.swap(false, Ordering::SeqCst) {
            return Err(EngineError::Batch("a test".into()));
        }
        self.steps.lock().unwrap().push((batch.tokens(), batch.segments()));
        assert!(batch.rows() <= self.limits.rows_of(batch.output()));
        let input = |name| batch.input(name).unwrap();
        let (table, width) = (input("page_table"), self.limits.row_pages());
        let place = |segment: i32, at: i32| {
            let page = table[segment as usize * width + (at as i64 / PAGE) as usize];
            (page as i64 * PAGE + at as i64 % PAGE) as usize
        };
        let (token, position, segment) = (input("token"), input("position"), input("segment"));
        for i in 0..token.len() {
            let chosen = |row: i32| self.chosen[row as usize] as i32;
            self.cache[place(segment[i], position[i])] = if token[i] < 0 { chosen(-1 - token[i]) } else { token[i] };
        }
        let mut first = 0;
        for (number, (at, positions)) in batch.places().enumerate() {
            let written = positions.clone().map(|p| self.cache[place(number as i32, p as i32)]);
            if let Some(read) = self.read.as_mut().map(|places| &mut places[at]) {
                if positions.start == 0 {
                    read.clear();
                }
                assert_eq!(read.len(), positions.start, "it goes on from where it is");
                read.extend(written);
                let all = (0..positions.end).map(|p| self.cache[place(number as i32, p as i32)]);
                assert!(all.eq(read.iter().copied()), "what was read is what the pages hold");
            }
            first += positions.len();
        }
        assert_eq!(first, batch.tokens());
        self.logits.clear();
        self.chosen.clear();
        for &row in input("rows") {
            let row = row as usize;
            let likely = next((0..=position[row]).map(|at| self.cache[place(segment[row], at)] as u32));
            match batch.output() {
                Output::Logits => {
                    self.logits.extend((0..VOCAB).map(|id| if id == likely as usize { LIKELY } else { 0.0 }))
                }
                Output::Hidden | Output::Scores => self.logits.extend([likely as f32, position[row] as f32]),
                Output::Likeliest | Output::Drawn => self.chosen.push(likely),
            }
        }
        Ok(&self.logits)
    }

    fn rewinds(&self) -> bool {
        self.read.is_none()
    }

    fn remember(&mut self, place: usize) -> Result<Option<Snapshot>, EngineError> {
        let tokens = self.read.as_ref().map(|places| &places[place]);
        let rows = |tokens: &Vec<i32>| tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        Ok(tokens.map(|tokens| Snapshot::new(tokens.len(), rows(tokens))))
    }

    fn recall(&mut self, place: usize, snapshot: &Snapshot) -> Result<(), EngineError> {
        let (words, _) = snapshot.rows().as_chunks();
        let tokens = words.iter().map(|word| i32::from_le_bytes(*word)).collect();
        self.read.as_mut().expect("a model that remembers")[place] = tokens;
        Ok(())
    }

    fn room_beside(&mut self, most: u64, taken: usize) -> Result<Room, EngineError> {
        // There is always room for one text more.
        let most = most as usize / PAGE_BYTES;
        self.beside.resize(most.min(taken + 4).max(self.beside.len()), vec![]);
        let time = if self.slow.load(Ordering::SeqCst) { Duration::from_secs(3600) } else { Duration::ZERO };
        Ok(Room { pages: self.beside.len(), time })
    }

    fn carry(&mut self, moves: &[Move]) -> Result<(), EngineError> {
        for step in moves {
            let page_of = |page: u32| page as usize * BLOCK..(page as usize + 1) * BLOCK;
            match *step {
                Move::Out { page, to } => self.beside[to as usize] = self.cache[page_of(page)].to_vec(),
                Move::In { from, page } => self.cache[page_of(page)].copy_from_slice(&self.beside[from as usize]),
                Move::Join { page, into } => assert_eq!(self.cache[page_of(page)], self.cache[page_of(into)]),
            }
        }
        Ok(())
    }

    fn ahead(&self) -> usize {
        self.ahead
    }

    fn send(&mut self, batch: &Batch) -> Result<Box<dyn Arriving>, EngineError> {
        self.run(batch)?;
        Ok(Box::new(Chosen(self.chosen.clone())))
    }

    fn device(&self) -> Arc<dyn Device> {
        Arc::new(Threads)
    }
}

/// A thread for each call.
struct Threads;

impl Device for Threads {
    fn name(&self) -> String {
        "threads".into()
    }

    fn load(&self, _: Arc<Program>, _: &mut Memory) -> device::Result<Box<dyn Executable>> {
        unreachable!("nobody loads anything")
    }

    fn parallel_for(&self, count: usize, job: &(dyn Fn(usize) + Sync)) -> device::Result<()> {
        let panicked = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count).map(|i| scope.spawn(move || job(i))).collect();
            threads.into_iter().filter_map(|thread| thread.join().err()).count()
        });
        match panicked {
            0 => Ok(()),
            n => Err(device::Error::WorkerPanicked { message: format!("{n} calls") }),
        }
    }
}
