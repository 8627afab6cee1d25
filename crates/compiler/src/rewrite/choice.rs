//! Alternatives of equal meaning: which of them a program takes, by price.
//!
//! Model code ([`Tensor::choice`](crate::Tensor::choice)) and rules offer alternatives. What one of them is worth depends
//! on what it fuses with, so each is priced with its neighbours and after all other passes: the program is cut down to
//! one instance of each class of equal choices and what lies within a few matrix products of it, and that is rewritten
//! and scheduled once for every combination of alternatives.
//!
//! Two choices are *alike* if they are equal up to the names of parameters and to what all their alternatives read: the
//! layers of a model are decided once. What this cannot see is an instance whose neighbours differ from those of the
//! one that is priced, the middle one.

use crate::log::Log;
use crate::options::Options;
use crate::rewrite::passes::{LAYOUT, applied, rewritten};
use crate::rewrite::price::price;
use crate::schedule::roles::base;
use crate::schedule::schedule;
use ir::{Graph, Id, Op, ReduceOp, Type, walk};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Combinations of alternatives that are priced at most.
const COMBINATIONS: usize = 64;

/// Products with matrices between a choice and the farthest neighbour that is priced with it.
const REACH: usize = 2;

/// What a price must be of another to be better: prices tell no less apart, and of alternatives as good the first is taken.
const BETTER: f64 = 0.99;

/// Nodes before and after a choice among which its neighbours are looked for.
const AROUND: u32 = 4096;

/// Takes an alternative of every choice under `roots`; nothing happens where there is none.
pub(crate) fn resolve(g: &mut Graph, roots: &[Id], options: &Options, log: &mut Log) -> Vec<Id> {
    let live = g.toposort(roots);
    let choices: Vec<Id> = live.iter().copied().filter(|&id| alternatives(g, id).is_some()).collect();
    if choices.is_empty() {
        return roots.to_vec();
    }
    let context = Context::new(g, &live, roots);
    let mut classes = classes(g, &context, &choices, options);
    if options.allows("choice") {
        let mut budget = COMBINATIONS;
        for cluster in clusters(g, &context, &classes) {
            decide(g, &context, &mut classes, cluster, options, &mut budget, log);
        }
    }
    let decisions = decisions(&classes);
    let needed = needed(g, roots, &decisions);
    for class in classes.iter().filter(|class| class.instances.iter().any(|id| needed.contains(id))) {
        let label = &class.labels[class.taken];
        let alike = class.instances.len();
        log.choices.push(match class.prices.is_empty() {
            true => format!("choice {}: {label}, for {alike}", class.name),
            false => format!("choice {}: {} -> {label}, for {alike}", class.name, class.prices.join(", ")),
        });
    }
    taken(g, roots, &decisions)
}

/// The names of the alternatives of a choice.
fn alternatives(g: &Graph, id: Id) -> Option<(&str, &[String])> {
    match g.op(id) {
        Op::Choice { name, of } => Some((name, of)),
        _ => None,
    }
}

/// Choices that are alike.
struct Class {
    /// What is chosen, with a star for the number of a layer.
    name: String,
    /// Names of the alternatives.
    labels: Vec<String>,
    /// Alternatives that are not left out by name.
    open: Vec<usize>,
    /// In the order of the program.
    instances: Vec<Id>,
    /// Nodes that only alternatives of the middle instance need.
    own: FxHashSet<Id>,
    taken: usize,
    /// Of each open alternative, for the log.
    prices: Vec<String>,
}

impl Class {
    fn middle(&self) -> usize {
        self.instances.len() / 2
    }
}

/// The alternative of each choice.
fn decisions(classes: &[Class]) -> FxHashMap<Id, usize> {
    classes.iter().flat_map(|c| c.instances.iter().map(|&id| (id, c.taken))).collect()
}

/// What is known of a whole program.
struct Context {
    /// Nodes that are made of parameters without any reduction: views, masks, indices. Whoever needs one can have it.
    closed: Closed,
    users: FxHashMap<Id, Vec<Id>>,
    roots: FxHashSet<Id>,
}

/// A set of nodes.
struct Closed(Vec<bool>);

impl Closed {
    fn contains(&self, id: &Id) -> bool {
        self.0[id.0 as usize]
    }
}

impl Context {
    fn new(g: &Graph, live: &[Id], roots: &[Id]) -> Context {
        let mut closed = Closed(vec![false; g.len()]);
        let mut users: FxHashMap<Id, Vec<Id>> = FxHashMap::default();
        for &id in live {
            let op = g.op(id);
            let leaf = matches!(
                op,
                Op::Const(_) | Op::Var { .. } | Op::Param { .. } | Op::State { .. } | Op::Iota | Op::Arg(_)
            );
            let simple = op.is_elementwise() || op.is_movement() || matches!(op, Op::Dequant(..) | Op::Gather);
            if leaf || simple && g.src(id).iter().all(|s| closed.contains(s)) {
                closed.0[id.0 as usize] = true;
            }
            for &s in g.src(id) {
                users.entry(s).or_default().push(id);
            }
        }
        Context { closed, users, roots: roots.iter().copied().collect() }
    }

    fn users(&self, id: Id) -> &[Id] {
        self.users.get(&id).map_or(&[], Vec::as_slice)
    }
}

/// The nodes that one alternative alone needs: those that are not common to several, nor closed.
fn own_nodes(g: &Graph, context: &Context, choice: Id) -> FxHashSet<Id> {
    // By whom each node is needed, a bit an alternative.
    let mut open: BTreeMap<Id, u64> = BTreeMap::new();
    let mut own = FxHashSet::default();
    let need = |open: &mut BTreeMap<Id, u64>, id: Id, by: u64| {
        if !context.closed.contains(&id) {
            *open.entry(id).or_default() |= by;
        }
    };
    for (i, &source) in g.src(choice).iter().enumerate() {
        need(&mut open, source, 1 << i.min(63));
    }
    while open.values().any(|by| by.is_power_of_two()) {
        // Users have larger numbers than what they use: all that need the largest are known.
        let Some((id, by)) = open.pop_last() else { break };
        if by.is_power_of_two() {
            own.insert(id);
        }
        g.src(id).iter().for_each(|&source| need(&mut open, source, by));
    }
    own
}

/// A node without names, with its sources by their places before it.
type Unnamed = (Op, Type, Vec<Id>, Vec<usize>);

/// What alike choices have in common.
struct Likeness<'a> {
    g: &'a Graph,
    context: &'a Context,
    own: &'a FxHashSet<Id>,
    steps: Vec<Unnamed>,
    place: FxHashMap<Id, usize>,
}

impl Likeness<'_> {
    fn visit(&mut self, id: Id) -> usize {
        if let Some(&place) = self.place.get(&id) {
            return place;
        }
        let (ty, shape) = (self.g.ty(id), self.g.shape(id).to_vec());
        let inside = self.own.contains(&id) || self.context.closed.contains(&id);
        let step = if inside {
            let sources = self.g.src(id).iter().map(|&s| self.visit(s)).collect();
            (nameless(self.g.op(id)), ty, shape, sources)
        } else {
            // Common to all alternatives: whatever it is.
            (Op::Fence, ty, shape, vec![])
        };
        self.steps.push(step);
        self.place.insert(id, self.steps.len() - 1);
        self.steps.len() - 1
    }
}

fn nameless(op: &Op) -> Op {
    match op {
        Op::Param { .. } => Op::Param { name: String::new() },
        Op::State { .. } => Op::State { name: String::new() },
        Op::Choice { name, of } => Op::Choice { name: of_any_layer(name), of: of.clone() },
        op => op.clone(),
    }
}

/// A name without the number of a layer.
fn of_any_layer(name: &str) -> String {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    name.split('.').map(|part| if number(part) { "*" } else { part }).collect::<Vec<_>>().join(".")
}

/// Choices by likeness, in the order of the program.
fn classes(g: &Graph, context: &Context, choices: &[Id], options: &Options) -> Vec<Class> {
    let mut classes: Vec<Class> = vec![];
    let mut known: FxHashMap<Vec<Unnamed>, usize> = FxHashMap::default();
    for &id in choices {
        let own = own_nodes(g, context, id);
        let mut likeness = Likeness { g, context, own: &own, steps: vec![], place: FxHashMap::default() };
        // The choice itself comes last, after what its alternatives are made of.
        let sources: Vec<usize> = g.src(id).iter().map(|&s| likeness.visit(s)).collect();
        likeness.steps.push((nameless(g.op(id)), g.ty(id), g.shape(id).to_vec(), sources));
        let steps = likeness.steps;
        let class = *known.entry(steps).or_insert_with(|| {
            let (name, of) = alternatives(g, id).expect("a choice");
            let mut open: Vec<usize> = (0..of.len()).filter(|&i| options.allows(&of[i])).collect();
            if open.is_empty() {
                open.push(0);
            }
            classes.push(Class {
                name: of_any_layer(name),
                labels: of.to_vec(),
                taken: open[0],
                open,
                instances: vec![],
                own: FxHashSet::default(),
                prices: vec![],
            });
            classes.len() - 1
        });
        classes[class].instances.push(id);
    }
    for class in &mut classes {
        class.own = own_nodes(g, context, class.instances[class.middle()]);
    }
    classes
}

/// Classes whose neighbours meet, and these neighbours: they are priced together.
struct Cluster {
    classes: Vec<usize>,
    nodes: FxHashSet<Id>,
}

fn clusters(g: &Graph, context: &Context, classes: &[Class]) -> Vec<Cluster> {
    let mut all: Vec<Cluster> = vec![];
    let holds = |nodes: &FxHashSet<Id>, of: &[usize]| {
        of.iter().any(|&c| classes[c].instances.iter().any(|id| nodes.contains(id)))
    };
    for (i, class) in classes.iter().enumerate().filter(|(_, class)| class.open.len() > 1) {
        // A choice inside of an alternative has the neighbours of that.
        let inside = classes.iter().any(|outer| outer.open.len() > 1 && holds(&outer.own, &[i]));
        let nodes = if inside { FxHashSet::default() } else { neighbours(g, context, class) };
        let mut cluster = Cluster { classes: vec![i], nodes };
        let (with, without) = all.into_iter().partition(|other: &Cluster| {
            !other.nodes.is_disjoint(&cluster.nodes)
                || holds(&other.nodes, &cluster.classes)
                || holds(&cluster.nodes, &other.classes)
        });
        all = without;
        let with: Vec<Cluster> = with;
        for other in with {
            cluster.classes.extend(other.classes);
            cluster.nodes.extend(other.nodes);
        }
        cluster.classes.sort_unstable();
        all.push(cluster);
    }
    all.sort_by_key(|cluster| cluster.classes[0]);
    all
}

/// The middle instance of a class, what is its own, and what lies around it: what that is made of, and what can be made
/// of all this, up to [`REACH`] products with matrices away. What attention costs does not depend on its neighbours, so
/// it is left out on both sides: nothing goes past a fold, or reads what was written to a state. But if an alternative merges
/// parts by a fold of its own, so does what the others read, and who merges them is the difference.
fn neighbours(g: &Graph, context: &Context, class: &Class) -> FxHashSet<Id> {
    let at = class.middle();
    let choice = class.instances[at];
    let before = at.checked_sub(1).map_or(0, |i| class.instances[i].0 + 1).max(choice.0.saturating_sub(AROUND));
    let after = class.instances.get(at + 1).map_or(u32::MAX, |id| id.0).min(choice.0.saturating_add(AROUND));
    let mut far: FxHashMap<Id, usize> = class.own.iter().chain([&choice]).map(|&id| (id, 0)).collect();
    let parts_of = |id: Id| -> &[Id] {
        match *g.op(id) {
            Op::Fold { parts, .. } => &g.src(id)[..parts],
            _ => &[],
        }
    };
    let merged: FxHashSet<Id> = class.own.iter().flat_map(|&id| parts_of(id)).map(|&part| base(g, part)).collect();
    let ends = |id: Id| parts_of(id).iter().any(|&part| !merged.contains(&base(g, part)));
    // Upwards; what is too far is read as if it were there already.
    let mut there: FxHashSet<Id> = FxHashSet::default();
    let mut open: VecDeque<Id> = far.keys().copied().collect();
    while let Some(id) = open.pop_front() {
        let here = far[&id];
        for &source in g.src(id).iter().filter(|s| !context.closed.contains(s)) {
            let products = here + usize::from(multiplies(g, context, source));
            if source.0 < before || products > REACH || ends(source) {
                there.insert(source);
            } else if far.get(&source).is_none_or(|&known| products < known) {
                far.insert(source, products);
                if products == here { open.push_front(source) } else { open.push_back(source) }
            }
        }
    }
    // Downwards, and aside, in the order of the program.
    let mut waiting: BTreeSet<Id> = far.keys().flat_map(|id| context.users(*id)).copied().collect();
    while let Some(id) = waiting.pop_first() {
        let sources = || g.src(id).iter().filter(|s| !context.closed.contains(s));
        let known = far.contains_key(&id) || context.closed.contains(&id) || id.0 >= after;
        let attends = ends(id) || sources().any(|&s| *g.op(s) == Op::Scatter);
        if known || attends || !sources().all(|s| far.contains_key(s) || there.contains(s)) {
            continue;
        }
        let Some(here) = sources().filter_map(|s| far.get(s)).min() else { continue };
        let products = here + usize::from(multiplies(g, context, id));
        if products <= REACH {
            far.insert(id, products);
            waiting.extend(context.users(id));
        }
    }
    // What only a sum that is too far would read exists inside of its loop, and not at all here.
    let mut order: Vec<Id> = far.keys().copied().collect();
    order.sort_unstable();
    for id in order.into_iter().rev() {
        let op = g.op(id);
        let part =
            op.is_elementwise() || op.is_movement() || matches!(op, Op::Gather | Op::Dequant(..) | Op::Prefix(_));
        let end = !context.users(id).iter().any(|user| far.contains_key(user));
        if end && part && !context.roots.contains(&id) && !class.own.contains(&id) {
            far.remove(&id);
        }
    }
    far.into_keys().collect()
}

/// Whether a node is a sum of products with a matrix of weights or with rows of a state.
fn multiplies(g: &Graph, context: &Context, id: Id) -> bool {
    if !matches!(g.op(id), Op::Reduce(ReduceOp::Sum, _)) {
        return false;
    }
    walk::any([g.src(id)[0]], |id, more| {
        let op = g.op(id);
        if context.closed.contains(&id) || op.is_elementwise() || op.is_movement() || *op == Op::Gather {
            more.extend(if *op == Op::Gather { &g.src(id)[..1] } else { g.src(id) });
        }
        matches!(op, Op::Param { .. } | Op::State { .. } | Op::Scatter) && g.shape(id).len() > 1
    })
}

/// Some nodes of a program as a program of their own.
struct Cut {
    graph: Graph,
    roots: Vec<Id>,
    /// The choices in it, by their numbers in the whole program.
    choices: Vec<(Id, Id)>,
}

impl Cut {
    fn new(g: &Graph, context: &Context, nodes: &FxHashSet<Id>) -> Cut {
        let mut order: Vec<Id> = nodes.iter().copied().collect();
        order.sort_unstable();
        let mut copy = Copy { from: g, to: Graph::with_formats_of(g), new: FxHashMap::default(), stubs: 0 };
        let (mut roots, mut choices) = (vec![], vec![]);
        for id in order {
            let sources = g
                .src(id)
                .iter()
                .map(|&s| if nodes.contains(&s) || context.closed.contains(&s) { copy.whole(s) } else { copy.stub(s) });
            let sources = sources.collect();
            let new = copy.node(id, sources);
            if alternatives(g, id).is_some() {
                choices.push((id, new));
            }
            if context.users(id).iter().any(|user| !nodes.contains(user)) || context.roots.contains(&id) {
                roots.push(new);
            }
        }
        Cut { graph: copy.to, roots, choices }
    }
}

struct Copy<'a> {
    from: &'a Graph,
    to: Graph,
    new: FxHashMap<Id, Id>,
    stubs: usize,
}

impl Copy<'_> {
    /// A node with all that it is made of.
    fn whole(&mut self, id: Id) -> Id {
        if let Some(&new) = self.new.get(&id) {
            return new;
        }
        let sources = self.from.src(id).iter().map(|&s| self.whole(s)).collect();
        self.node(id, sources)
    }

    fn node(&mut self, id: Id, sources: Vec<Id>) -> Id {
        let (op, ty, shape) = (self.from.op(id).clone(), self.from.ty(id), self.shape(id));
        let new = self.to.make(op, ty, shape, sources);
        self.new.insert(id, new);
        new
    }

    fn shape(&mut self, id: Id) -> Vec<Id> {
        self.from.shape(id).iter().map(|&d| self.whole(d)).collect()
    }

    /// Stands for a value that is computed elsewhere, and is there.
    fn stub(&mut self, id: Id) -> Id {
        if let Some(&new) = self.new.get(&id) {
            return new;
        }
        let (ty, shape, name) = (self.from.ty(id), self.shape(id), format!("stub.{}", self.stubs));
        self.stubs += 1;
        let new = match self.from.op(id) {
            Op::Scatter => self.to.state(&name, ty.base, shape),
            _ => {
                let tensor = self.to.param(&name, ty.base, shape.clone());
                self.to.make(Op::Fence, ty, shape, vec![tensor])
            }
        };
        self.new.insert(id, new);
        new
    }
}

/// Prices the combinations of alternatives of a cluster and takes the best; of equals the first.
fn decide(
    g: &Graph,
    context: &Context,
    classes: &mut [Class],
    cluster: Cluster,
    options: &Options,
    budget: &mut usize,
    log: &mut Log,
) {
    let cut = Cut::new(g, context, &cluster.nodes);
    let of = &cluster.classes;
    let mut priced: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
    let mut price = |combination: &[usize], classes: &mut [Class]| -> Option<f64> {
        of.iter().zip(combination).for_each(|(&c, &i)| classes[c].taken = classes[c].open[i]);
        let by_whole = decisions(classes);
        let decisions = cut.choices.iter().map(|(whole, new)| (*new, by_whole[whole])).collect();
        // A choice in what is not taken makes no difference.
        let needed = needed(&cut.graph, &cut.roots, &decisions);
        let met = |c: &usize| {
            cut.choices.iter().any(|(whole, new)| needed.contains(new) && classes[*c].instances.contains(whole))
        };
        let same: Vec<usize> = of.iter().zip(combination).map(|(c, &i)| if met(c) { i } else { 0 }).collect();
        if let Some(&known) = priced.get(&same) {
            return Some(known);
        }
        *budget = budget.checked_sub(1)?;
        let price = price_of(&cut, &decisions, options);
        priced.insert(same, price);
        Some(price)
    };
    let sizes: Vec<usize> = of.iter().map(|&c| classes[c].open.len()).collect();
    let mut best = vec![0; of.len()];
    let mut least = price(&best, classes).unwrap_or(f64::INFINITY);
    let all = sizes.iter().try_fold(1usize, |n, &size| n.checked_mul(size)).filter(|&n| n <= COMBINATIONS);
    if let Some(all) = all {
        // In the order of an odometer.
        for number in 1..all {
            let mut rest = number;
            let mut combination: Vec<usize> = sizes.iter().rev().map(|size| (rest % size, rest /= size).0).collect();
            combination.reverse();
            match price(&combination, classes) {
                Some(now) if now < BETTER * least => (best, least) = (combination, now),
                Some(_) => {}
                None => break,
            }
        }
    } else {
        // One class after the other, until none gains or the budget is spent.
        let mut gained = true;
        while std::mem::take(&mut gained) {
            for class in 0..of.len() {
                for i in 0..sizes[class] {
                    let mut other = best.clone();
                    other[class] = i;
                    if let Some(now) = price(&other, classes)
                        && now < BETTER * least
                    {
                        (best, least, gained) = (other, now, true);
                    }
                }
            }
        }
    }
    for (at, &c) in of.iter().enumerate() {
        let class = &mut classes[c];
        class.taken = class.open[best[at]];
        for (i, &alternative) in class.open.iter().enumerate() {
            let with = priced.iter().filter(|(combination, _)| combination[at] == i).map(|(_, &price)| price);
            let least = with.min_by(f64::total_cmp).map_or("not priced".into(), |price| format!("{price:.1} us"));
            class.prices.push(format!("{} {least}", class.labels[alternative]));
        }
    }
    if of.len() > 1 {
        for (combination, price) in &priced {
            let labels = combination.iter().zip(of).map(|(&i, &c)| {
                let class = &classes[c];
                format!("{} {}", class.name, class.labels[class.open[i]])
            });
            log.choices.push(format!("price of {}: {price:.1} us", labels.collect::<Vec<_>>().join(", ")));
        }
    }
}

/// Microseconds of a cut program with these alternatives; endless where it cannot be compiled.
fn price_of(cut: &Cut, decisions: &FxHashMap<Id, usize>, options: &Options) -> f64 {
    let mut g = cut.graph.clone();
    let roots = taken(&mut g, &cut.roots, decisions);
    let log = &mut Log::default();
    let roots = rewritten(&mut g, roots, options, log).and_then(|roots| applied(&mut g, &LAYOUT, roots, options, log));
    let Ok(roots) = roots else { return f64::INFINITY };
    match schedule(&mut g, &roots, &options.prices) {
        Ok(s) => price(&mut g, &s, &options.prices.profile, options.target().has_matrix_unit()),
        Err(_) => f64::INFINITY,
    }
}

/// The nodes under the roots with these alternatives.
fn needed(g: &Graph, roots: &[Id], decisions: &FxHashMap<Id, usize>) -> FxHashSet<Id> {
    let mut needed = FxHashSet::default();
    walk::reach(roots.iter().copied(), |id, more| {
        needed.insert(id);
        match decisions.get(&id) {
            Some(&i) => more.push(g.src(id)[i]),
            None => more.extend(g.src(id)),
        }
    });
    needed
}

/// The roots with these alternatives in the place of choices.
fn taken(g: &mut Graph, roots: &[Id], decisions: &FxHashMap<Id, usize>) -> Vec<Id> {
    let mut order: Vec<Id> = needed(g, roots, decisions).into_iter().collect();
    order.sort_unstable();
    let mut new: FxHashMap<Id, Id> = FxHashMap::default();
    for id in order {
        let now = match decisions.get(&id) {
            Some(&i) => new[&g.src(id)[i]],
            None => {
                let sources: Vec<Id> = g.src(id).iter().map(|s| new[s]).collect();
                if sources == g.src(id) { id } else { g.rebuild(id, sources) }
            }
        };
        new.insert(id, now);
    }
    roots.iter().map(|r| new[r]).collect()
}
