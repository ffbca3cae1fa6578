//! From the tests that hold to the patterns that match.

use super::walk::Element;
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
        let fields: Vec<_> = way.iter().map(|at| &self.places[self.fields[*at].1.clone()]).collect();
        self.can_choose(0, &fields)
    }

    /// Whether within this element one can be chosen of each list so that all fields match there. The places of a field
    /// are in order, so those within an element are together.
    fn can_choose(&self, within: u32, fields: &[&[(u32, u32)]]) -> bool {
        // A field that matches outside of all lists goes with every choice.
        let mut wanted: Vec<_> = fields.iter().filter(|places| places[0].1 != within).copied().collect();
        // A field has one path, so within one element it is in one list.
        let list = |places: &[(u32, u32)]| self.elements[self.child(within, places[0].1) as usize].list;
        wanted.sort_unstable_by_key(|places| (list(places), places.len()));
        wanted.chunk_by(|a, b| list(a) == list(b)).all(|fields| {
            let [fewest, others @ ..] = fields else { return true };
            others.is_empty() || self.is_in_one_element(within, fewest, others)
        })
    }

    /// Whether an element of a list has all these fields.
    fn is_in_one_element(&self, within: u32, fewest: &[(u32, u32)], others: &[&[(u32, u32)]]) -> bool {
        let mut left = fewest;
        while let Some((_, place)) = left.first() {
            let element = self.child(within, *place);
            let end = self.elements[element as usize].end;
            let part = |places: &&[(u32, u32)]| -> Range<usize> {
                let from = places.partition_point(|(_, place)| *place < element);
                let to = places.partition_point(|(_, place)| *place < end);
                from..to
            };
            let behind = left.partition_point(|(_, place)| *place < end);
            let mut here = vec![&left[..behind]];
            here.extend(others.iter().map(|places| &places[part(places)]));
            if here.iter().all(|places| !places.is_empty()) && self.can_choose(element, &here) {
                return true;
            }
            left = &left[behind.max(1)..];
        }
        false
    }

    /// The outermost element within another that a place is in.
    fn child(&self, within: u32, mut place: u32) -> u32 {
        loop {
            let parent = self.elements[place as usize].parent;
            if parent == within {
                return place;
            }
            assert!(parent < place, "an element is read before what is within it, so this ends");
            place = parent;
        }
    }
}

/// Marks a field on the way among nodes.
const ENTER: u32 = 1 << 31;
