//! Fields that do not count: a time of sending, a counter of attempts, whatever differs between two copies of one
//! message.
//!
//! A field is named by a JSON Pointer (RFC 6901), in which `*` stands for any member or element and `**` for any number
//! of levels, none among them: `/sentAt`, `/lines/*/price`, `/**/timestamp`. A `*` in a name is written `~2`.

use crate::Parts;
use std::fmt::Write;

/// How many paths there may be.
const PATHS_MAX: usize = 64;
/// How long one may be.
const PATH_BYTES_MAX: usize = 1024;
/// How many levels one may go down.
const SEGMENTS_MAX: usize = 32;

/// The fields that do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Without {
    /// In order, and each once: the order in which they are listed says nothing.
    paths: Vec<(Box<str>, Vec<Segment>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Name(Box<[u8]>),
    /// `*`
    One,
    /// `**`
    Many,
}

/// Why a list of fields is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// It is no pointer.
    #[error("`{path}` {why}")]
    Path { path: String, why: &'static str },
    /// Nothing would be left.
    #[error("`{path}` leaves out everything, so that all messages would be one; name the fields that differ")]
    Everything { path: String },
    /// There are too many.
    #[error(
        "there are {paths} fields to leave out, and {PATHS_MAX} are allowed; `*` and `**` stand for several"
    )]
    TooMany { paths: usize },
}

impl Without {
    /// Reads a list of paths.
    ///
    /// ```
    /// use perdura_canonical::{Without, form, form_without};
    ///
    /// let without = Without::new(["/sentAt", "/lines/*/price"]).unwrap();
    /// let text = br#"{"sentAt":"09:00","lines":[{"sku":1,"price":2}]}"#;
    /// assert_eq!(form_without(text, &without).unwrap().bytes, form(br#"{"lines":[{"sku":1}]}"#).unwrap());
    /// assert!(Without::new(["/*"]).is_err());
    /// ```
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<Self, PathFault> {
        let mut read = Vec::new();
        for path in paths {
            read.push((path.into(), segments(path)?));
        }
        if read.len() > PATHS_MAX {
            return Err(PathFault::TooMany { paths: read.len() });
        }
        read.sort_by(|(a, _): &(Box<str>, _), (b, _)| a.cmp(b));
        read.dedup();
        Ok(Self { paths: read })
    }

    /// Whether all fields count.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The paths, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(|(path, _)| &**path)
    }

    /// A version under which nothing matches what was compared with another list.
    pub fn version(&self, version: &str) -> String {
        let mut out = version.to_owned();
        if !self.is_empty() {
            let mut parts = Parts::new(b"without");
            self.paths().for_each(|path| parts.add(path.as_bytes()));
            out.push_str(";without=");
            for byte in parts.finish() {
                write!(out, "{byte:02x}").expect("a String takes all");
            }
        }
        out
    }

    pub(crate) fn start(&self) -> States {
        let mut states = States { open: Vec::new(), frames: vec![0] };
        for path in 0..self.paths.len() {
            states.push(self, path, 0);
        }
        states
    }
}

fn segments(path: &str) -> Result<Vec<Segment>, PathFault> {
    let fault = |why| PathFault::Path { path: path.chars().take(80).collect(), why };
    if path.len() > PATH_BYTES_MAX {
        return Err(fault("is longer than 1024 bytes"));
    }
    let Some(rest) = path.strip_prefix('/') else {
        return Err(if path.is_empty() {
            PathFault::Everything { path: String::new() }
        } else {
            fault("does not begin with a `/`, as a JSON Pointer does")
        });
    };
    let segments: Vec<_> = rest
        .split('/')
        .map(|segment| match segment {
            "*" => Ok(Segment::One),
            "**" => Ok(Segment::Many),
            name if name.contains('*') => {
                Err(fault("has a `*` within a name; a `*` that is meant is written `~2`"))
            }
            name => unescaped(name)
                .map(Segment::Name)
                .ok_or_else(|| fault("has a `~` without 0, 1 or 2 behind it")),
        })
        .collect::<Result<_, _>>()?;
    if segments.len() > SEGMENTS_MAX {
        return Err(fault("goes down more than 32 levels"));
    }
    let firm: Vec<_> = segments.iter().filter(|segment| **segment != Segment::Many).collect();
    if matches!(firm[..], [] | [Segment::One]) {
        return Err(PathFault::Everything { path: path.to_owned() });
    }
    Ok(segments)
}

fn unescaped(name: &str) -> Option<Box<[u8]>> {
    let mut out = String::new();
    let mut characters = name.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '~' => match characters.next()? {
                '0' => '~',
                '1' => '/',
                '2' => '*',
                _ => return None,
            },
            other => other,
        });
    }
    Some(out.into_bytes().into())
}

/// Which paths lead here, and how far each has come: one frame for each level that is open.
pub(crate) struct States {
    open: Vec<(usize, usize)>,
    frames: Vec<usize>,
}

impl States {
    fn push(&mut self, without: &Without, path: usize, at: usize) {
        let frame = self.frames.last().copied().unwrap_or(0);
        if self.open[frame..].contains(&(path, at)) {
            return;
        }
        self.open.push((path, at));
        if without.paths[path].1.get(at) == Some(&Segment::Many) {
            self.push(without, path, at + 1);
        }
    }

    fn step(&mut self, without: &Without, is_named: impl Fn(&[u8]) -> bool) {
        let from = self.frames.last().copied().unwrap_or(0)..self.open.len();
        self.frames.push(self.open.len());
        for state in from {
            let (path, at) = self.open[state];
            match without.paths[path].1.get(at) {
                Some(Segment::Many) => self.push(without, path, at),
                Some(Segment::One) => self.push(without, path, at + 1),
                Some(Segment::Name(name)) if is_named(name) => self.push(without, path, at + 1),
                Some(Segment::Name(_)) | None => {}
            }
        }
    }

    pub(crate) fn step_to_member(&mut self, without: &Without, name: &[u8]) {
        self.step(without, |wanted| wanted == name);
    }

    pub(crate) fn step_to_element(&mut self, without: &Without, index: usize) {
        self.step(without, |wanted| {
            std::str::from_utf8(wanted).is_ok_and(|wanted| {
                wanted.parse() == Ok(index) && (wanted == "0" || !wanted.starts_with(['0', '+']))
            })
        });
    }

    pub(crate) fn step_back(&mut self) {
        let frame = self.frames.pop().expect("each step back has a step before it");
        self.open.truncate(frame);
    }

    /// Whether a path ends here.
    pub(crate) fn is_at_end(&self, without: &Without) -> bool {
        let frame = self.frames.last().copied().unwrap_or(0);
        self.open[frame..].iter().any(|(path, at)| *at == without.paths[*path].1.len())
    }
}

#[cfg(test)]
mod tests;
