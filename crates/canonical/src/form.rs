//! JSON by its value: one form for all spellings of a value, and another for every other value.
//!
//! RFC 8785 is not used because it is defined on IEEE doubles, where 9007199254740993 and 9007199254740992 are one
//! number: two amounts of money would be one request. Here a number is its exact decimal. Names are in the order of
//! their UTF-16 code units; two equal names in one object are refused, because readers do not agree on which counts.
//! Unicode is compared as it is, not normalised.
//!
//! The form is only hashed, so it need not be JSON. Every value begins with a byte that says what it is and ends
//! where it can be seen to end: a string with 0xFF, which no UTF-8 holds, a list and an object with their bracket, a
//! number before the next byte that no number holds. It is written in one pass; an object whose members come in
//! another order is put in order when it closes.

use crate::number;
use crate::scan::{Fault, Halves, Kind, Scanner, plain_bytes_of};
use crate::without::{States, Without};
use std::cmp::Ordering;
use std::ops::Range;

/// Ends a string; never part of UTF-8.
const STRING_END: u8 = 0xFF;

/// The canonical form of a JSON text.
pub fn form(text: &[u8]) -> Result<Vec<u8>, Fault> {
    Reader::new(text, None)?.read().map(|form| form.bytes)
}

/// The canonical form of a JSON text without some of its fields.
pub fn form_without(text: &[u8], without: &Without) -> Result<Form, Fault> {
    Reader::new(text, (!without.is_empty()).then_some(without))?.read()
}

/// A canonical form, and whether it says anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// The form.
    pub bytes: Vec<u8>,
    /// There were values, and all of them were left out: every text with these fields has this form.
    pub is_nothing_left: bool,
}

/// Where a member of an open object was written.
#[derive(Clone, Copy)]
struct Member {
    /// The beginning of the name as a number, so that most comparisons look at nothing else.
    head: u64,
    start: usize,
    name_end: usize,
    end: usize,
}

impl Member {
    fn name(self) -> Range<usize> {
        self.start + 1..self.name_end
    }

    /// The order of two members by their names, which were written there.
    fn order(self, other: Self, out: &[u8]) -> Ordering {
        self.head.cmp(&other.head).then_with(|| utf16_order(&out[self.name()], &out[other.name()]))
    }
}

/// The first eight bytes of a name, so that numbers are in the order of names. A shorter one ends in zeros.
fn head(name: &[u8], text_from_name: &[u8]) -> u64 {
    // A load of eight bytes from the text is much cheaper than one of bytes that were just written. As far as nothing is
    // escaped the name stands there as it is.
    let bytes = match text_from_name.first_chunk() {
        Some(bytes) if plain_bytes_of(*bytes) >= name.len().min(8) => *bytes,
        _ => {
            let mut bytes = [0; 8];
            let length = name.len().min(8);
            bytes[..length].copy_from_slice(&name[..length]);
            bytes
        }
    };
    let beyond = 8 * (8 - name.len().min(8) as u32);
    let number = u64::from_be_bytes(bytes).checked_shr(beyond).and_then(|number| number.checked_shl(beyond));
    let number = number.unwrap_or(0);
    if number & 0x8080_8080_8080_8080 == 0 {
        number
    } else {
        u64::from_be_bytes(number.to_be_bytes().map(weight))
    }
}

struct Reader<'a> {
    scan: Scanner<'a>,
    out: Vec<u8>,
    /// The members of all objects that are open, the innermost last.
    members: Vec<Member>,
    scratch: Vec<u8>,
    leaving_out: Option<LeavingOut<'a>>,
}

/// How far the reading of fields to leave out has come.
struct LeavingOut<'a> {
    without: &'a Without,
    states: States,
    /// Values that hold no others: how many of those read so far stay, and whether any did not.
    leaves: usize,
    left_out: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a [u8], without: Option<&'a Without>) -> Result<Self, Fault> {
        Ok(Self {
            scan: Scanner::new(text)?,
            out: Vec::with_capacity(text.len() + text.len() / 4),
            members: Vec::new(),
            scratch: Vec::new(),
            leaving_out: without.map(|without| LeavingOut {
                without,
                states: without.start(),
                leaves: 0,
                left_out: false,
            }),
        })
    }

    fn read(mut self) -> Result<Form, Fault> {
        self.value()?;
        self.scan.finish()?;
        let is_nothing_left =
            self.leaving_out.as_ref().is_some_and(|leaving| leaving.left_out && leaving.leaves == 0);
        Ok(Form { bytes: self.out, is_nothing_left })
    }

    fn value(&mut self) -> Result<(), Fault> {
        match self.scan.kind()? {
            Kind::Object => return self.object(),
            Kind::List => return self.list(),
            Kind::Text => self.string()?,
            Kind::Number => match number::write_number(&self.scan.text[self.scan.at..], &mut self.out) {
                Ok(length) => self.scan.at += length,
                Err(what) => return Err(self.scan.fault(what)),
            },
            Kind::Word => self.out.push(self.scan.word()?),
        }
        self.leaf();
        Ok(())
    }

    fn leaf(&mut self) {
        if let Some(leaving) = &mut self.leaving_out {
            leaving.leaves += 1;
        }
    }

    fn list(&mut self) -> Result<(), Fault> {
        self.scan.open()?;
        self.out.push(b'[');
        if self.scan.peek() == Some(b']') {
            self.leaf();
        } else {
            for index in 0.. {
                let start = self.out.len();
                self.within(start, |leaving| leaving.states.step_to_element(leaving.without, index))?;
                if !self.scan.passes(b',') {
                    break;
                }
            }
        }
        self.scan.close(b']')?;
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self) -> Result<(), Fault> {
        self.scan.open()?;
        self.out.push(b'{');
        if self.scan.peek() == Some(b'}') {
            self.leaf();
        } else {
            let first = self.members.len();
            let mut is_in_order = true;
            loop {
                is_in_order &= self.member(first)?;
                if !self.scan.passes(b',') {
                    break;
                }
            }
            if !is_in_order {
                self.put_in_order(first)?;
            }
            self.members.truncate(first);
        }
        self.scan.close(b'}')?;
        self.out.push(b'}');
        Ok(())
    }

    /// Reads a member; says whether its name comes after the one before it.
    fn member(&mut self, first: usize) -> Result<bool, Fault> {
        self.scan.begins_name()?;
        let start = self.out.len();
        let text = &self.scan.text[self.scan.at + 1..];
        self.string()?;
        let name_end = self.out.len() - 1;
        let mut member = Member { head: head(&self.out[start + 1..name_end], text), start, name_end, end: 0 };
        self.scan.colon()?;
        let name = member.name();
        let stays = match &mut self.leaving_out {
            None => {
                self.value()?;
                true
            }
            Some(leaving) => {
                leaving.states.step_to_member(leaving.without, &self.out[name]);
                self.after_step(start)?
            }
        };
        if !stays {
            return Ok(true);
        }
        let is_in_order = match self.members[first..].last() {
            Some(last) => last.order(member, &self.out) == Ordering::Less,
            None => true,
        };
        member.end = self.out.len();
        self.members.push(member);
        Ok(is_in_order)
    }

    /// Reads an element, which is left out if the step to it says so.
    fn within(&mut self, start: usize, step: impl FnOnce(&mut LeavingOut<'a>)) -> Result<(), Fault> {
        match &mut self.leaving_out {
            None => self.value(),
            Some(leaving) => {
                step(leaving);
                self.after_step(start).map(|_| ())
            }
        }
    }

    /// Reads the value that a step leads to, and steps back. Says whether it stays; else it is no longer written.
    fn after_step(&mut self, start: usize) -> Result<bool, Fault> {
        let leaves = self.leaving_out.as_ref().map_or(0, |leaving| leaving.leaves);
        self.value()?;
        let Some(leaving) = &mut self.leaving_out else { return Ok(true) };
        let is_left_out = leaving.states.is_at_end(leaving.without);
        leaving.states.step_back();
        if is_left_out {
            leaving.left_out = true;
            leaving.leaves = leaves;
            self.out.truncate(start);
        }
        Ok(!is_left_out)
    }

    /// Sorts what was written for an object, from its `first` member on.
    fn put_in_order(&mut self, first: usize) -> Result<(), Fault> {
        let start = self.members[first].start;
        let out = &self.out;
        self.members[first..].sort_unstable_by(|a, b| a.order(*b, out));
        if self.members[first..].windows(2).any(|pair| pair[0].order(pair[1], out) == Ordering::Equal) {
            return Err(self.scan.fault("the object that ends here has a name twice"));
        }
        self.scratch.clear();
        for member in &self.members[first..] {
            self.scratch.extend_from_slice(&self.out[member.start..member.end]);
        }
        self.out[start..].copy_from_slice(&self.scratch);
        Ok(())
    }

    fn string(&mut self) -> Result<(), Fault> {
        self.out.push(b'"');
        self.scan.write_string(&mut self.out, Halves::Refuse)?;
        self.out.push(STRING_END);
        Ok(())
    }
}

fn weight(byte: u8) -> u8 {
    if byte == 0xEE || byte == 0xEF { byte + 0x10 } else { byte }
}

/// The order of two UTF-8 strings by their UTF-16 code units. It is the order of the bytes, but that the characters
/// from U+E000 to U+FFFF, which begin with 0xEE and 0xEF, come after those that take two code units.
fn utf16_order(a: &[u8], b: &[u8]) -> Ordering {
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((a, b)) => weight(*a).cmp(&weight(*b)),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests;
