//! Many patterns as one.

use super::below;
use super::find::{FieldNode, Matched};
use super::values::Values;
use super::walk::{Paths, walk};
use super::{Field, Pattern, Test};
use crate::event::Event;
use std::collections::BTreeMap;

/// How many fields all patterns may have together, when each `$or` is multiplied out.
const FIELDS_MAX: usize = 1_000_000;
/// How many states the wildcards of one field may keep alive at once: what a byte of a hostile value costs.
const ACTIVE_MAX: usize = 4_096;

/// Patterns, each with what it is known by.
///
/// ```
/// use perdura_events::{Event, Pattern, Patterns};
///
/// let patterns = Patterns::new([
///     ("orders", Pattern::parse(r#"{"source": ["shop"], "detail-type": [{"prefix": "order."}]}"#).unwrap()),
///     ("everything", Pattern::parse(r#"{"source": [{"exists": true}]}"#).unwrap()),
/// ])
/// .unwrap();
/// let event = Event::new("order.placed", "shop").unwrap();
/// assert_eq!(patterns.matching(&event).collect::<Vec<_>>(), [&"orders", &"everything"]);
/// ```
pub struct Patterns<K> {
    keys: Vec<K>,
    paths: Paths,
    /// For each test, the fields that have it.
    fields_of: Vec<Vec<u32>>,
    /// Tests that ask for there being no value, with their path.
    absent: Vec<(u32, u32)>,
    tree: Vec<FieldNode>,
}

/// Together the patterns would cost too much.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the patterns are too complex at `{place}`: {what}")]
pub struct TooComplex {
    /// The field, as a JSON Pointer into the message; empty for all of them.
    pub place: String,
    /// The sentence about it.
    pub what: String,
}

impl<K> Patterns<K> {
    /// Puts patterns together. It takes time in proportion to their size; a change makes a new set.
    pub fn new(patterns: impl IntoIterator<Item = (K, Pattern)>) -> Result<Self, TooComplex> {
        let mut keys = Vec::new();
        let mut alternatives = Vec::new();
        let mut fields = 0;
        for (key, pattern) in patterns {
            for alternative in pattern.alternatives {
                fields += alternative.len();
                alternatives.push((keys.len() as u32, alternative));
            }
            keys.push(key);
            if fields > FIELDS_MAX {
                let what = format!("they have more than {FIELDS_MAX} fields, with each `$or` multiplied out");
                return Err(TooComplex { place: String::new(), what });
            }
        }
        let mut build = Build::default();
        let mut ways: Vec<(u32, Vec<u32>)> = Vec::with_capacity(alternatives.len());
        for (key, alternative) in alternatives {
            let mut way: Vec<u32> = alternative.into_iter().map(|field| build.field(field)).collect();
            way.sort_unstable();
            way.dedup();
            ways.push((key, way));
        }
        build.index()?;
        Ok(Self {
            keys,
            tree: tree(ways, build.fields.len()),
            paths: build.paths,
            fields_of: build.fields_of,
            absent: build.absent,
        })
    }

    /// How many patterns there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// What the patterns are known by that a message matches, in the order in which they were given.
    pub fn matching(&self, event: &Event) -> impl Iterator<Item = &K> {
        let mut found = walk(&self.paths, event);
        if !self.absent.is_empty() {
            found.present.sort_unstable();
            for (node, test) in &self.absent {
                if found.present.binary_search(node).is_err() {
                    found.tests.push((*test, 0));
                }
            }
        }
        found.tests.sort_unstable();
        found.tests.dedup();
        let mut places = Vec::new();
        for (test, element) in &found.tests {
            places.extend(self.fields_of[*test as usize].iter().map(|field| (*field, *element)));
        }
        let mut patterns = Vec::new();
        Matched::new(places, &found.elements).find(&self.tree, &mut patterns);
        patterns.sort_unstable();
        patterns.dedup();
        patterns.into_iter().map(|at| &self.keys[at as usize])
    }
}

/// Gives numbers to paths, tests and fields, so that those which patterns share are one.
#[derive(Default)]
struct Build {
    paths: Paths,
    tests: BTreeMap<(u32, Test), u32>,
    fields: BTreeMap<Vec<u32>, u32>,
    fields_of: Vec<Vec<u32>>,
    absent: Vec<(u32, u32)>,
    places: BTreeMap<u32, String>,
}

impl Build {
    fn field(&mut self, field: Field) -> u32 {
        let node = self.paths.insert(&field.path);
        self.places
            .entry(node)
            .or_insert_with(|| field.path.iter().fold(String::new(), |place, name| below(&place, name)));
        let mut tests = Vec::with_capacity(field.tests.len());
        for test in field.tests {
            let new = self.tests.len() as u32;
            let is_absent = test == Test::Exists(false);
            let number = *self.tests.entry((node, test)).or_insert(new);
            if number == new {
                self.fields_of.push(Vec::new());
                if is_absent {
                    self.absent.push((node, number));
                }
            }
            tests.push(number);
        }
        tests.sort_unstable();
        let new = self.fields.len() as u32;
        if let Some(field) = self.fields.get(&tests) {
            return *field;
        }
        for test in &tests {
            self.fields_of[*test as usize].push(new);
        }
        self.fields.insert(tests, new);
        new
    }

    fn index(&mut self) -> Result<(), TooComplex> {
        let mut by_node: BTreeMap<u32, Vec<(&Test, u32)>> = BTreeMap::new();
        for ((node, test), number) in &self.tests {
            by_node.entry(*node).or_default().push((test, *number));
        }
        for (node, tests) in by_node {
            let values = Values::new(tests);
            let active = values.active_max();
            if active > ACTIVE_MAX {
                let what = format!(
                    "its wildcards can keep {active} states alive at once, and {ACTIVE_MAX} are allowed; use fewer \
                     `*`, or begin them differently"
                );
                return Err(TooComplex { place: self.places[&node].clone(), what });
            }
            self.paths.nodes[node as usize].values = Some(values);
        }
        Ok(())
    }
}

/// The tree of fields. A pattern's way begins with the field that the fewest patterns have, because that is the one that
/// most messages do not match.
fn tree(mut ways: Vec<(u32, Vec<u32>)>, fields: usize) -> Vec<FieldNode> {
    let mut users = vec![0_u32; fields];
    for (_, way) in &ways {
        for field in way {
            users[*field as usize] += 1;
        }
    }
    let mut tree = vec![FieldNode::default()];
    for (pattern, way) in &mut ways {
        way.sort_unstable_by_key(|field| (users[*field as usize], *field));
        let mut node = 0;
        for field in way.iter() {
            let new = tree.len() as u32;
            let next = &mut tree[node].next;
            node = match next.binary_search_by_key(field, |(field, _)| *field) {
                Ok(at) => next[at].1 as usize,
                Err(at) => {
                    next.insert(at, (*field, new));
                    tree.push(FieldNode::default());
                    new as usize
                }
            };
        }
        tree[node].patterns.push(*pattern);
    }
    tree
}
