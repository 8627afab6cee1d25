//! Who has which pages of the cache, and what finished sequences left in them.
//!
//! Pages hold [`PAGE`] positions. Those that are full, and the last one of a sequence that has ended, are kept in a
//! tree: a page under another holds the tokens that followed it, so a path from the root is a text that was computed.
//! A new sequence begins with the longest path that its prompt follows. Pages of a path are shared; the end of a path
//! that nobody uses may be taken over although only its beginning fits, since a cache may be overwritten from any
//! position on. Tokens are compared themselves, so nobody is ever given what another text left.
//!
//! When pages run out, those that nobody uses go, from the ends of paths and the one used longest ago first. What is
//! in the pages is not known here.

use crate::cache::PAGE;
use std::collections::BTreeSet;

const BLOCK: usize = PAGE as usize;

/// The pages of a cache.
#[derive(Debug)]
pub struct Pages {
    pages: Vec<Page>,
    free: Vec<u32>,
    /// First pages of all paths.
    roots: Vec<u32>,
    /// Ends of paths that nobody uses, by the time of their last use.
    ends: BTreeSet<(u64, u32)>,
    /// Pages of the tree that nobody uses.
    unused: usize,
    clock: u64,
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
    /// So many pages, all free.
    pub fn new(count: usize) -> Pages {
        Pages {
            pages: (0..count).map(|_| Page::default()).collect(),
            // The lowest are taken first.
            free: (0..count as u32).rev().collect(),
            roots: vec![],
            ends: BTreeSet::new(),
            unused: 0,
            clock: 0,
        }
    }

    /// All pages.
    pub fn total(&self) -> usize {
        self.pages.len()
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
    /// last, whose logits are wanted.
    pub fn acquire(&mut self, tokens: &[u32]) -> (Lease, usize) {
        let (path, end) = self.find(tokens);
        path.iter().for_each(|&page| self.take(page));
        let mut cached = path.len() * BLOCK;
        let mut lease = Lease { kept: path.len(), pages: path };
        if let Some((page, same)) = end {
            self.forget(page);
            self.pages[page as usize].users = 1;
            lease.pages.push(page);
            cached += same;
        }
        (lease, cached)
    }

    /// How many tokens [`Pages::acquire`] would find computed.
    pub fn known(&self, tokens: &[u32]) -> usize {
        let (path, end) = self.find(tokens);
        path.len() * BLOCK + end.map_or(0, |(_, same)| same)
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
            if let Some(same) = self.child(parent, |p| p.tokens == block) {
                // Another sequence has computed the same: one of the two is enough.
                self.take(same);
                lease.pages[lease.kept] = same;
                self.pages[own as usize].users = 0;
                self.free.push(own);
            } else {
                self.keep(own, parent, block);
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
                if p.children.is_empty() {
                    self.ends.insert((clock, page));
                }
            }
        }
    }

    /// Forgets everything that nobody uses.
    pub fn clear(&mut self) {
        while let Some(page) = self.evict() {
            self.free.push(page);
        }
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
        self.ends.remove(&(p.used, page));
        self.unused -= 1;
        p.kept = false;
        p.tokens.clear();
        let Some(parent) = p.parent.take() else {
            self.roots.retain(|&root| root != page);
            return;
        };
        let above = &mut self.pages[parent as usize];
        above.children.retain(|&child| child != page);
        if above.users == 0 && above.children.is_empty() {
            self.ends.insert((above.used, parent));
        }
    }

    /// Frees the end of a path that was used longest ago.
    fn evict(&mut self) -> Option<u32> {
        let &(_, page) = self.ends.first()?;
        self.forget(page);
        Some(page)
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

    proptest! {
        /// Random sequences over few tokens: nothing is lost, nothing is shared that differs.
        #[test]
        fn pages_are_neither_lost_nor_mixed_up(steps in prop::collection::vec((0usize..4, 0u32..3, 1usize..200), 1..60)) {
            let mut pages = Pages::new(6);
            // What a device would have written: the path of tokens of each page.
            let mut written: Vec<Vec<u32>> = vec![vec![]; 6];
            let mut live: Vec<Option<(Lease, Vec<u32>)>> = (0..4).map(|_| None).collect();
            for (who, seed, len) in steps {
                if let Some((lease, tokens)) = live[who].take() {
                    pages.release(lease, &tokens);
                    continue;
                }
                let tokens: Vec<u32> = (0..len as u32).map(|i| if i < 70 { 1 } else { seed + i / 90 }).collect();
                let known = pages.known(&tokens);
                let (mut lease, cached) = pages.acquire(&tokens);
                prop_assert!(cached < tokens.len() && cached == known);
                for at in 0..cached {
                    let page = lease.pages()[at / BLOCK] as usize;
                    prop_assert_eq!(written[page][at % BLOCK], tokens[at]);
                }
                if !pages.grow(&mut lease, len) {
                    pages.release(lease, &tokens[..cached]);
                    continue;
                }
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
            prop_assert_eq!(pages.free.len(), 6);
        }
    }
}
