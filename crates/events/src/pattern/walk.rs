//! One pass over a message: along the paths that patterns name, past everything else.

use super::values::{Leaf, Values};
use crate::event::Event;
use perdura_canonical::{Fault, Kind, Scanner};

/// The paths that patterns name, as a tree. The first node is the message.
#[derive(Default)]
pub(super) struct Paths {
    pub(super) nodes: Vec<PathNode>,
}

#[derive(Default)]
pub(super) struct PathNode {
    /// In order.
    children: Vec<(Box<str>, u32)>,
    pub(super) values: Option<Values>,
}

impl Paths {
    /// The node of a path, which is made where it is new.
    pub(super) fn insert(&mut self, path: &[Box<str>]) -> u32 {
        if self.nodes.is_empty() {
            self.nodes.push(PathNode::default());
        }
        let mut node = 0;
        for name in path {
            let new = self.nodes.len() as u32;
            let children = &mut self.nodes[node as usize].children;
            node = match children.binary_search_by(|(child, _)| child.cmp(name)) {
                Ok(at) => children[at].1,
                Err(at) => {
                    children.insert(at, (name.clone(), new));
                    self.nodes.push(PathNode::default());
                    new
                }
            };
        }
        node
    }

    fn child(&self, node: u32, name: &[u8]) -> Option<u32> {
        let children = &self.nodes.get(node as usize)?.children;
        let at = children.binary_search_by(|(child, _)| child.as_bytes().cmp(name)).ok()?;
        Some(children[at].1)
    }
}

/// An element of a list of the message, for patterns that ask for two things of one element. They are numbered as they are
/// read, so what is within one has the numbers up to its end.
pub(super) struct Element {
    pub(super) parent: u32,
    /// The path of the list. With the parent it tells the list.
    pub(super) list: u32,
    pub(super) end: u32,
}

/// The result of one pass.
pub(super) struct Found {
    /// Tests that hold, each with the element that its value is in. The first element is the message.
    pub(super) tests: Vec<(u32, u32)>,
    pub(super) elements: Vec<Element>,
    /// The paths at which there is a value, in the order of the message.
    pub(super) present: Vec<u32>,
}

impl Found {
    fn nothing() -> Self {
        Self {
            tests: Vec::new(),
            elements: vec![Element { parent: 0, list: 0, end: u32::MAX }],
            present: Vec::new(),
        }
    }
}

pub(super) fn walk(paths: &Paths, event: &Event) -> Found {
    let mut walk = Walk { paths, found: Found::nothing(), holding: Vec::new() };
    if let (Some(node), Some(json)) = (paths.child(0, b"data"), event.json())
        && walk.document(json, node).is_err()
    {
        // Half a document says nothing.
        walk.found = Found::nothing();
    }
    for (name, value) in
        [("type", event.kind()), ("source", event.source())].into_iter().chain(event.attributes())
    {
        if let Some(node) = paths.child(0, name.as_bytes()) {
            walk.attribute(name, value, node);
        }
    }
    walk.found
}

struct Walk<'a> {
    paths: &'a Paths,
    found: Found,
    holding: Vec<u32>,
}

impl Walk<'_> {
    fn document(&mut self, json: &[u8], node: u32) -> Result<(), Fault> {
        let mut scan = Scanner::new(json)?;
        self.value(&mut scan, node, 0)?;
        scan.finish()
    }

    /// The attribute `resources` is a list, as text.
    fn attribute(&mut self, name: &str, value: &str, node: u32) {
        if name == "resources" && value.starts_with('[') {
            let (tests, present) = (self.found.tests.len(), self.found.present.len());
            if self.document(value.as_bytes(), node).is_ok() {
                return;
            }
            self.found.tests.truncate(tests);
            self.found.present.truncate(present);
        }
        self.leaf(&Leaf::Text(value.as_bytes()), node, 0);
    }

    fn value(&mut self, scan: &mut Scanner<'_>, node: u32, element: u32) -> Result<(), Fault> {
        let paths = self.paths;
        let here = &paths.nodes[node as usize];
        match scan.kind()? {
            Kind::Object if here.children.is_empty() => scan.skip().map(|_| ()),
            Kind::Object => scan.members(|scan, name| match paths.child(node, name) {
                Some(child) => self.value(scan, child, element),
                None => scan.skip().map(|_| ()),
            }),
            Kind::List => scan.elements(|scan| {
                if let Kind::Text | Kind::Number | Kind::Word = scan.kind()? {
                    return self.value(scan, node, element);
                }
                let inner = self.found.elements.len();
                self.found.elements.push(Element { parent: element, list: node, end: 0 });
                self.value(scan, node, inner as u32)?;
                self.found.elements[inner].end = self.found.elements.len() as u32;
                Ok(())
            }),
            Kind::Text | Kind::Number | Kind::Word if here.values.is_none() => scan.skip().map(|_| ()),
            Kind::Text => {
                let text = scan.string()?;
                self.leaf(&Leaf::Text(&text), node, element);
                Ok(())
            }
            Kind::Number => {
                let text = scan.skip()?;
                self.leaf(&Leaf::Number(text), node, element);
                Ok(())
            }
            Kind::Word => {
                let text = scan.skip()?;
                self.leaf(&Leaf::Word(text[0]), node, element);
                Ok(())
            }
        }
    }

    fn leaf(&mut self, leaf: &Leaf<'_>, node: u32, element: u32) {
        let Some(values) = &self.paths.nodes[node as usize].values else { return };
        self.found.present.push(node);
        self.holding.clear();
        values.find(leaf, &mut self.holding);
        self.found.tests.extend(self.holding.iter().map(|test| (*test, element)));
    }
}
