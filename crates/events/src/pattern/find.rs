//! From the tests that hold to the patterns that match.

use super::walk::Element;
use std::collections::BTreeMap;
use std::ops::Range;

/// A tree of fields, in which each pattern is a way from the root. It is walked along fields that match.
#[derive(Default)]
pub(super) struct FieldNode {
    /// By field, in order.
    pub(super) next: Vec<(u32, u32)>,
    /// The patterns whose fields these were.
    pub(super) patterns: Vec<u32>,
}

/// The fields that match in a message.
pub(super) struct Matched<'a> {
    /// Each field in order, with its part of `places`.
    fields: Vec<(u32, Range<usize>)>,
    /// The elements in which a field matches.
    places: Vec<(u32, u32)>,
    elements: &'a [Element],
}

impl<'a> Matched<'a> {
    /// `places` are fields, each with an element in which it matches.
    pub(super) fn new(mut places: Vec<(u32, u32)>, elements: &'a [Element]) -> Self {
        places.sort_unstable();
        places.dedup();
        let mut fields: Vec<(u32, Range<usize>)> = Vec::new();
        for (at, (field, _)) in places.iter().enumerate() {
            match fields.last_mut() {
                Some((last, range)) if last == field => range.end = at + 1,
                _ => fields.push((*field, at..at + 1)),
            }
        }
        Self { fields, places, elements }
    }

    /// Adds the patterns that match.
    pub(super) fn find(&self, tree: &[FieldNode], patterns: &mut Vec<u32>) {
        // Each open node with the fields on the way to it, as places in `fields`.
        let mut open: Vec<(u32, usize)> = vec![(0, 0)];
        let mut way: Vec<usize> = Vec::new();
        while let Some((node, length)) = open.pop() {
            way.truncate(length);
            if node & ENTER != 0 {
                way.push((node & !ENTER) as usize);
                continue;
            }
            let node = &tree[node as usize];
            if !node.patterns.is_empty() && self.is_consistent(&way) {
                patterns.extend(&node.patterns);
            }
            let mut step = |at: usize, child: u32| {
                // Taken from the end: first the field is put on the way, then its node is looked at.
                open.push((child, way.len() + 1));
                open.push((at as u32 | ENTER, way.len()));
            };
            if node.next.len() < self.fields.len() {
                for (field, child) in &node.next {
                    if let Ok(at) = self.fields.binary_search_by_key(field, |(field, _)| *field) {
                        step(at, *child);
                    }
                }
            } else {
                for (at, (field, _)) in self.fields.iter().enumerate() {
                    if let Ok(next) = node.next.binary_search_by_key(field, |(field, _)| *field) {
                        step(at, node.next[next].1);
                    }
                }
            }
        }
    }

    /// Whether these fields match together: no two of them in different elements of one list.
    fn is_consistent(&self, way: &[usize]) -> bool {
        let places = |at: &usize| &self.places[self.fields[*at].1.clone()];
        // A field that matches outside of all lists is no matter.
        let in_lists: Vec<_> = way.iter().map(places).filter(|places| places[0].1 != 0).collect();
        if in_lists.len() < 2 {
            return true;
        }
        let mut chains = Vec::new();
        for (field, places) in in_lists.iter().enumerate() {
            chains.extend(places.iter().map(|(_, element)| (self.chain(*element), field)));
        }
        chains.sort_unstable();
        self.can_choose(&chains, 0, &(0..in_lists.len()).collect::<Vec<_>>())
    }

    /// The elements that an element is in, the outermost first, and itself.
    fn chain(&self, mut element: u32) -> Vec<u32> {
        let mut chain = Vec::new();
        while element != 0 {
            chain.push(element);
            element = self.elements[element as usize].parent;
        }
        chain.reverse();
        chain
    }

    /// Whether an element can be chosen of each list so that all fields match in those. The chains are the same up to
    /// `level`. A field has one path, so here it is in one list.
    fn can_choose(&self, chains: &[(Vec<u32>, usize)], level: usize, fields: &[usize]) -> bool {
        let is_here =
            |field: &usize| chains.iter().any(|(chain, other)| other == field && chain.len() == level);
        let wanted: Vec<usize> = fields.iter().copied().filter(|field| !is_here(field)).collect();
        let mut by_list: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for field in &wanted {
            let deeper = chains.iter().find(|(chain, other)| other == field && chain.len() > level);
            let Some((chain, _)) = deeper else { return false };
            by_list.entry(self.elements[chain[level] as usize].list).or_default().push(*field);
        }
        by_list.iter().all(|(list, wanted)| {
            let deeper = chains.iter().position(|(chain, _)| chain.len() > level).unwrap_or(chains.len());
            chains[deeper..].chunk_by(|(a, _), (b, _)| a[level] == b[level]).any(|element| {
                self.elements[element[0].0[level] as usize].list == *list
                    && self.can_choose(element, level + 1, wanted)
            })
        })
    }
}

/// Marks a field on the way among nodes.
const ENTER: u32 = 1 << 31;
