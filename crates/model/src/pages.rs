//! Who has which pages of the cache, and what finished sequences left in them.
//!
//! Pages hold [`PAGE`] positions. Those that are full, and the last one of a sequence that has ended, are kept in a
//! tree: a page under another holds the tokens that followed it, so a path from the root is a text that was computed.
//! A new sequence begins with the longest path that its prompt follows. Pages of a path are shared; the end of a path
//! that nobody uses may be taken over although only its beginning fits, since a cache may be overwritten from any
//! position on. Tokens are compared themselves, so nobody is ever given what another text left.
//!
//! When pages run out, those that nobody uses go, from the ends of paths and the one used longest ago first. As long as
//! there is room beside the device they are *spilled*: they stay in the tree, and what they hold is moved there; where there
//! is none, the end of a path beside the device that was used longest ago is forgotten. So what hangs under a spilled page
//! is spilled, too. A sequence that follows such a path gets it back ([`Pages::restore`]).
//!
//! What is in the pages is not known here. Whoever knows carries out the moves, in their order and before the next step
//! ([`Pages::moves`]).

use crate::cache::PAGE;
use std::collections::BTreeSet;

const BLOCK: usize = PAGE as usize;

/// The pages of a cache.
#[derive(Debug)]
pub struct Pages {
    /// Those of the device, and behind them those beside it that there were so far.
    pages: Vec<Page>,
    /// How many the device has.
    near: u32,
    /// All that there may be.
    most: usize,
    /// Whether what has to go is spilled.
    spills: bool,
    free: Vec<u32>,
    /// The same of those beside the device.
    free_beside: Vec<u32>,
    /// First pages of all paths.
    roots: Vec<u32>,
    /// Pages of the device that nobody uses and that no other of the device follows, by the time of their last use.
    ends: BTreeSet<(u64, u32)>,
    /// Pages beside the device that none follows, likewise.
    ends_beside: BTreeSet<(u64, u32)>,
    /// Pages of the device in the tree that nobody uses.
    unused: usize,
    moves: Vec<Move>,
    clock: u64,
}

/// What a page holds is to be moved, or is found in another one. Pages beside the device have numbers of their own, from 0 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// From the device.
    Out {
        /// Its page.
        page: u32,
        /// The page beside it.
        to: u32,
    },
    /// To the device.
    In {
        /// The page beside it.
        from: u32,
        /// Its page.
        page: u32,
    },
    /// Nowhere: two pages of the device hold the same, and the first is free.
    Join {
        /// Its page.
        page: u32,
        /// The page that is read instead.
        into: u32,
    },
}

#[derive(Debug, Default)]
struct Page {
    /// Sequences that have it.
    users: u32,
    /// The tokens in it, if it is in the tree.
    tokens: Vec<u32>,
    kept: bool,
    parent: Option<u32>,
    children: Vec<u32>,
    used: u64,
}

/// The pages of one sequence, in the order of its positions. To be given back with [`Pages::release`].
#[derive(Debug, Default)]
pub struct Lease {
    pages: Vec<u32>,
    /// So many of the first are in the tree.
    kept: usize,
}

impl Lease {
    /// Page `p / 64` of position `p`.
    pub fn pages(&self) -> &[u32] {
        &self.pages
    }
}

impl Pages {
    /// So many pages of a device, all free. There is no room beside it yet ([`Pages::set_room`]).
    pub fn new(count: usize) -> Pages {
        let near = count as u32;
        Pages {
            pages: (0..near).map(|_| Page::default()).collect(),
            near,
            most: count,
            spills: false,
            // The lowest are taken first.
            free: (0..near).rev().collect(),
            free_beside: vec![],
            roots: vec![],
            ends: BTreeSet::new(),
            ends_beside: BTreeSet::new(),
            unused: 0,
            moves: vec![],
            clock: 0,
        }
    }

    /// All pages of the device.
    pub fn total(&self) -> usize {
        self.near as usize
    }

    /// Pages beside the device that hold something.
    pub fn spilled(&self) -> usize {
        self.pages.len() - self.total() - self.free_beside.len()
    }

    /// Pages that have to go are spilled from now on, as far as there is room for so many, which is never less than before;
    /// without any they are forgotten.
    pub fn set_room(&mut self, room: Option<usize>) {
        self.spills = room.is_some();
        let all = room.map_or(0, |beside| self.total().saturating_add(beside));
        self.most = self.most.max(all.min(u32::MAX as usize));
    }

    /// Whether more than half of the pages hold something.
    pub fn is_filling(&self) -> bool {
        self.free.len() < self.total() / 2
    }

    /// The moves that are due before the next step.
    pub fn moves(&mut self) -> Vec<Move> {
        std::mem::take(&mut self.moves)
    }

    /// Pages that a sequence could get: free ones, and those kept for nobody in particular.
    pub fn available(&self) -> usize {
        self.free.len() + self.unused
    }

    /// Pages that sequences have.
    pub fn in_use(&self) -> usize {
        self.total() - self.available()
    }

    /// Pages for a new sequence that begins with these tokens, and how many of them need not be computed: never the
    /// last, whose logits are wanted. What was spilled comes by [`Pages::restore`].
    pub fn acquire(&mut self, tokens: &[u32]) -> (Lease, usize) {
        let (mut path, end) = self.find(tokens);
        path.truncate(path.iter().take_while(|&&page| self.is_near(page)).count());
        path.iter().for_each(|&page| self.take(page));
        let mut cached = path.len() * BLOCK;
        let mut lease = Lease { kept: path.len(), pages: path };
        if let Some((page, same)) = end.filter(|&(page, _)| self.is_near(page)) {
            self.forget(page);
            self.pages[page as usize].users = 1;
            lease.pages.push(page);
            cached += same;
        }
        (lease, cached)
    }

    /// Gets back what was spilled of the path of a sequence that has just been given the rest of it, as far as there are
    /// pages; with how many of its tokens need not be computed before and after.
    pub fn restore(&mut self, lease: &mut Lease, tokens: &[u32], mut cached: usize) -> usize {
        let (path, end) = self.find(tokens);
        self.clock += 1;
        path.into_iter().chain(end.map(|(page, _)| page)).for_each(|page| self.touch(page));
        // An end that was taken over has left the tree: no path goes on from there.
        while lease.pages.len() == lease.kept {
            let rest = &tokens[lease.kept * BLOCK..tokens.len().saturating_sub(1)];
            let before = lease.pages.last().copied();
            let next = rest.get(..BLOCK).and_then(|block| self.child(before, |p| p.tokens == block));
            let known = next.map(|page| (page, BLOCK)).or_else(|| self.best_end(before, rest));
            let Some((spilled, same)) = known.filter(|&(page, _)| !self.is_near(page)) else { break };
            // It must not be forgotten for what makes room for it.
            self.ends_beside.remove(&(self.pages[spilled as usize].used, spilled));
            let Some(page) = self.free.pop().or_else(|| self.evict()) else {
                self.mark_end(spilled);
                break;
            };
            self.moves.push(Move::In { from: spilled - self.near, page });
            if next.is_some() {
                self.relocate(spilled, page);
                lease.kept += 1;
            } else {
                self.forget(spilled);
            }
            self.free_beside.push(spilled);
            self.pages[page as usize].users = 1;
            lease.pages.push(page);
            cached += same;
        }
        cached
    }

    /// How many tokens [`Pages::acquire`] and [`Pages::restore`] would find computed.
    pub fn known(&self, tokens: &[u32]) -> usize {
        self.path(tokens).1
    }

    /// The pages in which they would find them, those beside the device counted behind those of it, and how many they hold.
    pub fn path(&self, tokens: &[u32]) -> (Vec<u32>, usize) {
        let (mut path, end) = self.find(tokens);
        let known = path.len() * BLOCK + end.map_or(0, |(_, same)| same);
        path.extend(end.map(|(page, _)| page));
        (path, known)
    }

    /// The full pages that all but the last of the tokens begin with, and the end of a path that may be taken over behind
    /// them, with how many more it has.
    fn find(&self, tokens: &[u32]) -> (Vec<u32>, Option<(u32, usize)>) {
        let rest = &tokens[..tokens.len().saturating_sub(1)];
        let (blocks, _) = rest.as_chunks::<BLOCK>();
        let mut path: Vec<u32> = vec![];
        for block in blocks {
            let Some(page) = self.child(path.last().copied(), |p| p.tokens == block) else { break };
            path.push(page);
        }
        let end = self.best_end(path.last().copied(), &rest[path.len() * BLOCK..]);
        (path, end)
    }

    /// Makes sure that there are pages for so many positions. `false` if there are none left; the lease then has what
    /// there was.
    pub fn grow(&mut self, lease: &mut Lease, positions: usize) -> bool {
        while lease.pages.len() * BLOCK < positions {
            let Some(page) = self.free.pop().or_else(|| self.evict()) else { return false };
            self.pages[page as usize].users = 1;
            lease.pages.push(page);
        }
        true
    }

    /// Puts full pages into the tree. `tokens` are all that were computed so far.
    pub fn computed(&mut self, lease: &mut Lease, tokens: &[u32]) {
        while let Some(block) = tokens.get(lease.kept * BLOCK..(lease.kept + 1) * BLOCK) {
            let parent = lease.kept.checked_sub(1).map(|before| lease.pages[before]);
            let own = lease.pages[lease.kept];
            match self.child(parent, |p| p.tokens == block) {
                // Another sequence has computed the same: one of the two is enough.
                Some(same) if self.is_near(same) => {
                    self.take(same);
                    lease.pages[lease.kept] = same;
                    self.pages[own as usize].users = 0;
                    self.free.push(own);
                    self.moves.push(Move::Join { page: own, into: same });
                }
                Some(spilled) => {
                    self.relocate(spilled, own);
                    self.free_beside.push(spilled);
                    self.pages[own as usize].users = 1;
                }
                None => self.keep(own, parent, block),
            }
            lease.kept += 1;
        }
    }

    /// Ends the use of the pages. `tokens` are all that were computed; what they are is remembered.
    pub fn release(&mut self, mut lease: Lease, tokens: &[u32]) {
        self.computed(&mut lease, tokens);
        let rest = tokens.get(lease.kept * BLOCK..).unwrap_or_default();
        if !rest.is_empty() && lease.pages.len() > lease.kept {
            let parent = lease.kept.checked_sub(1).map(|before| lease.pages[before]);
            let own = lease.pages[lease.kept];
            if self.child(parent, |p| p.tokens.starts_with(rest)).is_none() {
                self.keep(own, parent, rest);
                lease.kept += 1;
            }
        }
        self.clock += 1;
        for (place, &page) in lease.pages.iter().enumerate() {
            let clock = self.clock;
            let p = &mut self.pages[page as usize];
            p.users -= 1;
            p.used = clock;
            if place >= lease.kept {
                self.free.push(page);
            } else if p.users == 0 {
                self.unused += 1;
                self.mark_end(page);
            }
        }
    }

    /// Forgets everything that nobody uses.
    pub fn clear(&mut self) {
        while let Some(&(_, page)) = self.ends_beside.first() {
            self.forget(page);
            self.free_beside.push(page);
        }
        while let Some(&(_, page)) = self.ends.first() {
            self.forget(page);
            self.free.push(page);
        }
    }

    fn is_near(&self, page: u32) -> bool {
        page < self.near
    }

    fn children(&self, of: Option<u32>) -> &[u32] {
        of.map_or(&self.roots, |page| &self.pages[page as usize].children)
    }

    fn child(&self, of: Option<u32>, fits: impl Fn(&Page) -> bool) -> Option<u32> {
        self.children(of).iter().copied().find(|&page| fits(&self.pages[page as usize]))
    }

    /// The unused end of a path that agrees longest with the tokens, and how long.
    fn best_end(&self, of: Option<u32>, tokens: &[u32]) -> Option<(u32, usize)> {
        let end = |&page: &u32| {
            let p = &self.pages[page as usize];
            let same = p.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
            (same > 0 && p.users == 0 && p.children.is_empty()).then_some((page, same))
        };
        self.children(of).iter().filter_map(end).max_by_key(|&(_, same)| same)
    }

    /// One user more of a page of the tree.
    fn take(&mut self, page: u32) {
        let p = &mut self.pages[page as usize];
        if p.users == 0 {
            self.ends.remove(&(p.used, page));
            self.unused -= 1;
        }
        p.users += 1;
    }

    /// Puts a page that is in use into the tree.
    fn keep(&mut self, page: u32, parent: Option<u32>, tokens: &[u32]) {
        let p = &mut self.pages[page as usize];
        p.kept = true;
        p.parent = parent;
        p.tokens.clear();
        p.tokens.extend_from_slice(tokens);
        match parent {
            Some(parent) => self.pages[parent as usize].children.push(page),
            None => self.roots.push(page),
        }
    }

    /// Takes an unused end of a path out of the tree.
    fn forget(&mut self, page: u32) {
        let p = &mut self.pages[page as usize];
        debug_assert!(p.kept && p.users == 0 && p.children.is_empty());
        p.kept = false;
        p.tokens.clear();
        let (used, parent) = (p.used, p.parent.take());
        self.unmark(page, used);
        match parent {
            Some(parent) => {
                self.pages[parent as usize].children.retain(|&child| child != page);
                self.mark_end(parent);
            }
            None => self.roots.retain(|&root| root != page),
        }
    }

    /// Puts an unused page of the tree among the ends if it is one.
    fn mark_end(&mut self, page: u32) {
        let p = &self.pages[page as usize];
        let beside = !self.is_near(page);
        if p.users == 0 && p.children.iter().all(|&child| !beside && !self.is_near(child)) {
            let ends = if beside { &mut self.ends_beside } else { &mut self.ends };
            ends.insert((p.used, page));
        }
    }

    /// A page beside the device is used.
    fn touch(&mut self, page: u32) {
        if !self.is_near(page) {
            self.unmark(page, self.pages[page as usize].used);
            self.pages[page as usize].used = self.clock;
            self.mark_end(page);
        }
    }

    /// An unused page leaves the tree, or its place.
    fn unmark(&mut self, page: u32, used: u64) {
        if self.is_near(page) {
            self.ends.remove(&(used, page));
            self.unused -= 1;
        } else {
            self.ends_beside.remove(&(used, page));
        }
    }

    /// Lets another page have the place of an unused one in the tree.
    fn relocate(&mut self, from: u32, to: u32) {
        let page = std::mem::take(&mut self.pages[from as usize]);
        self.unmark(from, page.used);
        page.children.iter().for_each(|&child| self.pages[child as usize].parent = Some(to));
        let beside = match page.parent {
            Some(parent) => &mut self.pages[parent as usize].children,
            None => &mut self.roots,
        };
        beside.iter_mut().filter(|page| **page == from).for_each(|page| *page = to);
        self.pages[to as usize] = page;
    }

    /// Frees the page of the device that was used longest ago among the ends.
    fn evict(&mut self) -> Option<u32> {
        let &(_, page) = self.ends.first()?;
        match self.room_beside() {
            Some(to) => {
                let parent = self.pages[page as usize].parent;
                self.relocate(page, to);
                self.mark_end(to);
                parent.into_iter().for_each(|parent| self.mark_end(parent));
                self.moves.push(Move::Out { page, to: to - self.near });
            }
            None => {
                self.forget_below(page);
                self.forget(page);
            }
        }
        Some(page)
    }

    /// A page beside the device, if pages are to be spilled.
    fn room_beside(&mut self) -> Option<u32> {
        if !self.spills {
            return None;
        }
        if let Some(page) = self.free_beside.pop() {
            return Some(page);
        }
        if self.pages.len() < self.most {
            self.pages.push(Page::default());
            return Some(self.pages.len() as u32 - 1);
        }
        let &(_, page) = self.ends_beside.first()?;
        self.forget(page);
        Some(page)
    }

    /// Forgets all that was spilled and follows a page.
    fn forget_below(&mut self, page: u32) {
        while let Some(&child) = self.pages[page as usize].children.last() {
            self.forget_below(child);
            self.forget(child);
            self.free_beside.push(child);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(seed: u32, len: usize) -> Vec<u32> {
        (0..len as u32).map(|i| seed * 1000 + i).collect()
    }

    /// Computes tokens to the end and gives the pages back.
    fn run(pages: &mut Pages, tokens: &[u32]) -> (usize, Vec<u32>) {
        let (mut lease, cached) = pages.acquire(tokens);
        assert!(pages.grow(&mut lease, tokens.len()));
        pages.computed(&mut lease, tokens);
        let list = lease.pages().to_vec();
        pages.release(lease, tokens);
        (cached, list)
    }

    #[test]
    fn a_text_that_goes_on_is_found_again() {
        let mut pages = Pages::new(8);
        let first = text(1, 100);
        assert_eq!(run(&mut pages, &first), (0, vec![0, 1]));
        let mut longer = first.clone();
        longer.extend(text(2, 40));
        assert_eq!(run(&mut pages, &longer), (100, vec![0, 1, 2]));
        // The same again: all but the last token, in place.
        assert_eq!(run(&mut pages, &longer).0, 139);
        // Another ending: shared until the fork, as the page after it belongs to no end of a path.
        let mut other = first[..90].to_vec();
        other.extend(text(3, 60));
        assert_eq!(run(&mut pages, &other).0, 64);
        assert_eq!((pages.in_use(), pages.available()), (0, 8));
    }

    #[test]
    fn pages_in_use_are_shared_but_never_taken_over() {
        let mut pages = Pages::new(8);
        let tokens = text(1, 130);
        let (mut a, _) = pages.acquire(&tokens);
        pages.grow(&mut a, 130);
        pages.computed(&mut a, &tokens);
        let (mut b, cached) = pages.acquire(&tokens);
        assert_eq!((cached, b.pages()), (128, &a.pages()[..2]));
        assert!(pages.grow(&mut b, 130));
        assert_ne!(a.pages()[2], b.pages()[2]);
        assert_eq!(pages.in_use(), 4);
        pages.release(a, &tokens);
        assert_eq!(pages.in_use(), 3);
        pages.release(b, &tokens);
        assert_eq!(pages.in_use(), 0);
    }

    #[test]
    fn equal_pages_computed_at_a_time_become_one() {
        let mut pages = Pages::new(4);
        let tokens = text(1, 64);
        let (mut a, _) = pages.acquire(&tokens);
        let (mut b, _) = pages.acquire(&tokens);
        assert!(pages.grow(&mut a, 64) && pages.grow(&mut b, 64));
        pages.computed(&mut a, &tokens);
        pages.computed(&mut b, &tokens);
        assert_eq!((a.pages(), pages.in_use()), (b.pages(), 1));
        pages.release(a, &tokens);
        pages.release(b, &tokens);
        assert_eq!(pages.available(), 4);
    }

    #[test]
    fn the_text_used_longest_ago_goes_first_and_from_its_end() {
        let mut pages = Pages::new(4);
        run(&mut pages, &text(1, 128));
        run(&mut pages, &text(2, 128));
        run(&mut pages, &text(1, 128));
        assert_eq!(run(&mut pages, &text(3, 64)).0, 0);
        assert_eq!(run(&mut pages, &text(1, 128)).0, 127, "used last, so still there");
        // One page of the second text is left: its first.
        let (lease, cached) = pages.acquire(&text(2, 128));
        assert_eq!(cached, 64);
        pages.release(lease, &text(2, 64));
    }

    #[test]
    fn there_is_an_end_to_pages() {
        let mut pages = Pages::new(2);
        let (mut a, _) = pages.acquire(&text(1, 65));
        assert!(pages.grow(&mut a, 128));
        let (mut b, _) = pages.acquire(&text(2, 10));
        assert!(!pages.grow(&mut b, 10) && !pages.grow(&mut a, 129));
        pages.release(a, &[]);
        assert!(pages.grow(&mut b, 10));
        pages.release(b, &text(2, 10));
        pages.clear();
        assert_eq!((pages.available(), pages.acquire(&text(2, 10)).1), (2, 0));
    }

    #[test]
    fn what_has_to_go_is_spilled_and_comes_back() {
        let mut pages = Pages::new(4);
        pages.set_room(Some(3));
        let (first, second) = (text(1, 150), text(2, 190));
        run(&mut pages, &first);
        assert_eq!(run(&mut pages, &second), (0, vec![3, 2, 1]));
        // From the end on: page 0 stays, as there was one free page.
        let moves = [Move::Out { page: 2, to: 0 }, Move::Out { page: 1, to: 1 }];
        assert_eq!((pages.moves(), pages.spilled()), (moves.to_vec(), 2));
        assert_eq!(pages.known(&first), 149);
        // What is missing is told apart from what is there.
        let (mut lease, cached) = pages.acquire(&first);
        assert_eq!((cached, lease.pages()), (64, &[0][..]));
        assert_eq!(pages.restore(&mut lease, &first, cached), 149);
        let moves = [
            Move::Out { page: 1, to: 2 },
            Move::In { from: 1, page: 1 },
            Move::Out { page: 2, to: 1 },
            Move::In { from: 0, page: 2 },
        ];
        assert_eq!((pages.moves(), lease.pages(), pages.spilled()), (moves.to_vec(), &[0, 1, 2][..], 2));
        pages.release(lease, &first);
        // Nothing is spilled where that does not pay; what follows what is forgotten is, too.
        pages.set_room(None);
        assert_eq!(run(&mut pages, &text(3, 256)).0, 0);
        assert_eq!((pages.moves(), pages.spilled(), pages.known(&first), pages.known(&second)), (vec![], 0, 0, 0));
        assert_eq!(pages.available(), 4);
    }

    #[test]
    fn room_beside_the_device_goes_to_what_was_used_last() {
        let mut pages = Pages::new(2);
        pages.set_room(Some(3));
        run(&mut pages, &text(1, 128));
        run(&mut pages, &text(2, 128));
        run(&mut pages, &text(3, 128));
        assert_eq!([1, 2, 3].map(|seed| pages.known(&text(seed, 128))), [64, 127, 127]);
        // A text that is computed again, as nobody asked for what was spilled of it, takes its place in the tree.
        let again = text(2, 128);
        let (mut lease, _) = pages.acquire(&[]);
        assert!(pages.grow(&mut lease, 128));
        pages.computed(&mut lease, &again);
        assert_eq!(pages.spilled(), 2);
        pages.release(lease, &again);
        assert_eq!(pages.known(&again), 127);
        pages.clear();
        assert_eq!((pages.spilled(), pages.available(), pages.known(&again)), (0, 2, 0));
    }

    proptest! {
        /// Random sequences over few tokens: nothing is lost, nothing is shared that differs.
        #[test]
        fn pages_are_neither_lost_nor_mixed_up(
            beside in 0usize..8,
            steps in prop::collection::vec((0usize..4, 0u32..3, 1usize..200, prop::bool::weighted(0.9)), 1..60),
        ) {
            let mut pages = Pages::new(6);
        pages.set_room(Some(beside));
            // What would have been written to a device and beside it: the path of tokens of each page.
            let mut written: Vec<Vec<u32>> = vec![vec![]; 6];
            let mut spilled: Vec<Vec<u32>> = vec![vec![]; beside];
            let mut live: Vec<Option<(Lease, Vec<u32>)>> = (0..4).map(|_| None).collect();
            for (who, seed, len, spills) in steps {
                pages.set_room(spills.then_some(beside));
                if let Some((lease, tokens)) = live[who].take() {
                    pages.release(lease, &tokens);
                    continue;
                }
                let tokens: Vec<u32> = (0..len as u32).map(|i| if i < 70 { 1 } else { seed + i / 90 }).collect();
                let known = pages.known(&tokens);
                let (mut lease, near) = pages.acquire(&tokens);
                let cached = pages.restore(&mut lease, &tokens, near);
                prop_assert!(near <= cached && cached < tokens.len());
                let grown = pages.grow(&mut lease, len);
                for step in pages.moves() {
                    match step {
                        Move::Out { page, to } => spilled[to as usize] = written[page as usize].clone(),
                        Move::In { from, page } => written[page as usize] = spilled[from as usize].clone(),
                        Move::Join { page, into } => prop_assert_eq!(&written[page as usize], &written[into as usize]),
                    }
                }
                for at in 0..cached {
                    let page = lease.pages()[at / BLOCK] as usize;
                    prop_assert_eq!(written[page][at % BLOCK], tokens[at]);
                }
                if !grown {
                    pages.release(lease, &tokens[..cached]);
                    continue;
                }
                prop_assert!(cached == known || beside > 0, "nothing had to go for it");
                for at in cached..len {
                    let page = &mut written[lease.pages()[at / BLOCK] as usize];
                    page.truncate(at % BLOCK);
                    page.push(tokens[at]);
                }
                pages.computed(&mut lease, &tokens);
                live[who] = Some((lease, tokens));
                for (lease, tokens) in live.iter().flatten() {
                    for (at, token) in tokens.iter().enumerate() {
                        prop_assert_eq!(written[lease.pages()[at / BLOCK] as usize][at % BLOCK], *token);
                    }
                }
            }
            for (lease, tokens) in live.into_iter().flatten() {
                pages.release(lease, &tokens);
            }
            prop_assert_eq!(pages.available(), 6);
            pages.clear();
            prop_assert_eq!((pages.free.len(), pages.spilled()), (6, 0));
        }
    }
}
