//! Many prefixes, or many wildcards, looked for in one pass over a string.
//!
//! The patterns are a tree of bytes, in which `*` leads to a node that every further byte leads back to. What is active
//! after a byte is one node for each pattern that could still match, but that those which begin alike share theirs. How
//! many nodes can be active at once follows from the tree and not from the string; a tree where that is too many is
//! refused.

/// A part of a wildcard.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Piece {
    Bytes(Vec<u8>),
    /// Any bytes, or none.
    Star,
}

#[derive(Default)]
struct Node {
    /// By byte, in order.
    next: Vec<(u8, u32)>,
    /// Where a `*` leads.
    star: Option<u32>,
    /// Found as soon as this node is reached.
    reached: Vec<u32>,
    /// Found when the string ends here.
    ended: Vec<u32>,
}

pub(super) struct Automaton {
    nodes: Vec<Node>,
}

impl Default for Automaton {
    fn default() -> Self {
        Self { nodes: vec![Node::default()] }
    }
}

impl Automaton {
    fn is_empty(&self) -> bool {
        let root = &self.nodes[0];
        self.nodes.len() == 1 && root.reached.is_empty() && root.ended.is_empty()
    }

    pub(super) fn insert_prefix(&mut self, bytes: impl Iterator<Item = u8>, atom: u32) {
        let node = self.path(0, bytes);
        self.nodes[node].reached.push(atom);
    }

    pub(super) fn insert_wildcard(&mut self, pieces: &[Piece], atom: u32) {
        // A `*` at the end takes whatever comes.
        let (pieces, is_open) = match pieces {
            [pieces @ .., Piece::Star] => (pieces, true),
            pieces => (pieces, false),
        };
        let mut node = 0;
        for piece in pieces {
            node = match piece {
                Piece::Bytes(bytes) => self.path(node, bytes.iter().copied()),
                Piece::Star => self.star(node),
            };
        }
        let node = &mut self.nodes[node];
        (if is_open { &mut node.reached } else { &mut node.ended }).push(atom);
    }

    fn path(&mut self, mut node: usize, bytes: impl Iterator<Item = u8>) -> usize {
        for byte in bytes {
            node = match self.nodes[node].next.binary_search_by_key(&byte, |(byte, _)| *byte) {
                Ok(at) => self.nodes[node].next[at].1 as usize,
                Err(at) => {
                    let new = self.nodes.len();
                    self.nodes[node].next.insert(at, (byte, new as u32));
                    self.nodes.push(Node::default());
                    new
                }
            };
        }
        node
    }

    fn star(&mut self, node: usize) -> usize {
        if let Some(star) = self.nodes[node].star {
            return star as usize;
        }
        let new = self.nodes.len();
        self.nodes[node].star = Some(new as u32);
        self.nodes.push(Node::default());
        new
    }

    /// How many nodes can be active at once. Below no `*` that is one way from the root, with the stars on it. Below a `*`
    /// it is one node for each length, as those are the last bytes of the same string, and all stars.
    pub(super) fn active_max(&self) -> usize {
        let mut height = vec![0_usize; self.nodes.len()];
        let mut all_stars = vec![0_usize; self.nodes.len()];
        let mut stars_on_way = vec![0_usize; self.nodes.len()];
        // Children come behind their parents.
        for (at, node) in self.nodes.iter().enumerate().rev() {
            for (_, child) in &node.next {
                let child = *child as usize;
                height[at] = height[at].max(height[child] + 1);
                all_stars[at] = all_stars[at].saturating_add(all_stars[child]);
                stars_on_way[at] = stars_on_way[at].max(stars_on_way[child]);
            }
            if let Some(star) = node.star {
                let star = star as usize;
                let below = all_stars[star].saturating_add(height[star] + 1);
                all_stars[at] = all_stars[at].saturating_add(below);
                stars_on_way[at] = stars_on_way[at].saturating_add(below);
            }
        }
        stars_on_way[0] + 1
    }

    pub(super) fn find(&self, bytes: impl Iterator<Item = u8>, hits: &mut Vec<u32>) {
        if self.is_empty() {
            return;
        }
        let mut run =
            Run { nodes: &self.nodes, active: Vec::new(), stars: Vec::new(), seen: Vec::new(), hits };
        run.enter(0);
        let mut before = Vec::new();
        for byte in bytes {
            if run.active.is_empty() && run.stars.is_empty() {
                return;
            }
            std::mem::swap(&mut before, &mut run.active);
            run.active.clear();
            for node in &before {
                run.step(*node, byte);
            }
            // Only stars that were there before this byte.
            for at in 0..run.stars.len() {
                let star = run.stars[at];
                run.step(star, byte);
            }
            for at in 0..run.active.len() {
                run.open_star(run.active[at]);
            }
        }
        for node in run.active.iter().chain(&run.stars) {
            run.hits.extend(&self.nodes[*node as usize].ended);
        }
    }
}

struct Run<'a> {
    nodes: &'a [Node],
    active: Vec<u32>,
    /// Once reached they stay, in order.
    stars: Vec<u32>,
    /// Nodes whose `reached` were found already, in order.
    seen: Vec<u32>,
    hits: &'a mut Vec<u32>,
}

impl Run<'_> {
    fn step(&mut self, node: u32, byte: u8) {
        let next = &self.nodes[node as usize].next;
        if let Ok(at) = next.binary_search_by_key(&byte, |(byte, _)| *byte) {
            let child = next[at].1;
            self.reach(child);
            self.active.push(child);
        }
    }

    fn reach(&mut self, node: u32) {
        let reached = &self.nodes[node as usize].reached;
        if let (false, Err(at)) = (reached.is_empty(), self.seen.binary_search(&node)) {
            self.seen.insert(at, node);
            self.hits.extend(reached);
        }
    }

    fn enter(&mut self, node: u32) {
        self.reach(node);
        self.active.push(node);
        self.open_star(node);
    }

    fn open_star(&mut self, node: u32) {
        if let Some(star) = self.nodes[node as usize].star
            && let Err(at) = self.stars.binary_search(&star)
        {
            self.stars.insert(at, star);
            self.reach(star);
        }
    }
}
