//! All tests of one field, asked at once.

use super::automaton::Automaton;
use super::network::Networks;
use super::number::Ranges;
use super::{Atom, Case, Shape, Test, folded};
use perdura_canonical::write_number;
use std::collections::BTreeMap;

/// A value that holds no others, as it stands in a message.
pub(super) enum Leaf<'a> {
    /// The characters of a string.
    Text(&'a [u8]),
    /// The text of a number.
    Number(&'a [u8]),
    /// The first letter of `true`, `false` or `null`.
    Word(u8),
}

/// What the tests of one field are looked up in. They are known by numbers that the set gave them.
#[derive(Default)]
pub(super) struct Values {
    exact: BTreeMap<Box<[u8]>, u32>,
    exact_folded: BTreeMap<Box<[u8]>, u32>,
    begins: Automaton,
    begins_folded: Automaton,
    /// Read from the end.
    ends: Automaton,
    ends_folded: Automaton,
    ranges: Ranges,
    networks: Networks,
    has_folded: bool,
    /// For each atom, what it is part of.
    uses: Vec<Uses>,
    /// Tests that hold unless one of their atoms does.
    anything_but: Vec<u32>,
    /// Those that hold for every value.
    exists: Vec<u32>,
}

#[derive(Default)]
struct Uses {
    /// Tests that hold where the atom does.
    is: Vec<u32>,
    /// Places in `anything_but`.
    not: Vec<u32>,
}

impl Values {
    pub(super) fn new<'a>(tests: impl IntoIterator<Item = (&'a Test, u32)>) -> Self {
        let mut values = Self::default();
        let mut atoms: BTreeMap<&Atom, u32> = BTreeMap::new();
        for (test, number) in tests {
            match test {
                Test::Is(atom) => {
                    values.uses_of(atom, &mut atoms).is.push(number);
                }
                Test::AnythingBut(but) => {
                    let place = values.anything_but.len() as u32;
                    for atom in but {
                        values.uses_of(atom, &mut atoms).not.push(place);
                    }
                    values.anything_but.push(number);
                }
                Test::Exists(true) => values.exists.push(number),
                // Asked of a message, and of no value in it.
                Test::Exists(false) => {}
            }
        }
        let mut ranges = Vec::new();
        for (atom, at) in atoms {
            values.insert(atom, at, &mut ranges);
        }
        values.ranges = Ranges::new(&ranges);
        values
    }

    fn uses_of<'a>(&mut self, atom: &'a Atom, atoms: &mut BTreeMap<&'a Atom, u32>) -> &mut Uses {
        let new = self.uses.len();
        let at = *atoms.entry(atom).or_insert(new as u32) as usize;
        if at == new {
            self.uses.push(Uses::default());
        }
        &mut self.uses[at]
    }

    fn insert(&mut self, atom: &Atom, at: u32, ranges: &mut Vec<(super::Range, u32)>) {
        match atom {
            Atom::Exact(form) => {
                self.exact.insert(form.clone(), at);
            }
            Atom::Number(range) => ranges.push((range.clone(), at)),
            Atom::Network(network) => self.networks.insert(*network, at),
            Atom::Text { case, shape } => {
                let is_folded = *case == Case::Ignored;
                self.has_folded |= is_folded;
                let begins = if is_folded { &mut self.begins_folded } else { &mut self.begins };
                let ends = if is_folded { &mut self.ends_folded } else { &mut self.ends };
                match shape {
                    Shape::Whole(text) => {
                        self.exact_folded.insert(text.as_bytes().into(), at);
                    }
                    Shape::Prefix(text) => begins.insert_prefix(text.bytes(), at),
                    Shape::Suffix(text) => ends.insert_prefix(text.bytes().rev(), at),
                    Shape::Wildcard(pieces) => begins.insert_wildcard(pieces, at),
                }
            }
        }
    }

    /// How many states a string can keep alive at once.
    pub(super) fn active_max(&self) -> usize {
        self.begins.active_max()
    }

    /// Adds the tests that hold for a value.
    pub(super) fn find(&self, leaf: &Leaf<'_>, found: &mut Vec<u32>) {
        let mut hits = Vec::new();
        self.hits(leaf, &mut hits);
        found.extend(&self.exists);
        let mut not: Vec<u32> = Vec::new();
        for hit in &hits {
            let uses = &self.uses[*hit as usize];
            found.extend(&uses.is);
            not.extend(&uses.not);
        }
        if self.anything_but.is_empty() {
            return;
        }
        not.sort_unstable();
        let holds = |at: &u32| not.binary_search(at).is_err();
        found.extend(
            (0..self.anything_but.len() as u32).filter(holds).map(|at| self.anything_but[at as usize]),
        );
    }

    fn hits(&self, leaf: &Leaf<'_>, hits: &mut Vec<u32>) {
        match leaf {
            Leaf::Word(letter) => hits.extend(self.exact.get(&[*letter][..])),
            Leaf::Number(text) => {
                let mut form = Vec::with_capacity(text.len() + 1);
                // A number too large to be written in its canonical form equals none that a pattern can have.
                if write_number(text, &mut form).is_ok() {
                    hits.extend(self.exact.get(form.as_slice()));
                    self.ranges.find(&form, hits);
                }
            }
            Leaf::Text(text) => {
                if !self.exact.is_empty() {
                    let mut form = Vec::with_capacity(text.len() + 1);
                    form.push(b'"');
                    form.extend_from_slice(text);
                    hits.extend(self.exact.get(form.as_slice()));
                }
                self.begins.find(text.iter().copied(), hits);
                self.ends.find(text.iter().rev().copied(), hits);
                let characters = String::from_utf8_lossy(text);
                self.networks.find(&characters, hits);
                if self.has_folded {
                    let folded = folded(&characters);
                    hits.extend(self.exact_folded.get(folded.as_bytes()));
                    self.begins_folded.find(folded.bytes(), hits);
                    self.ends_folded.find(folded.bytes().rev(), hits);
                }
            }
        }
    }
}
