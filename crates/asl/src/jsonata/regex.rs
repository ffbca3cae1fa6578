//! Regular expressions with JavaScript's meaning.
//!
//! JSONata accepts JavaScript's expressions, with look-around and back references, which engines with linear time do
//! not have. So this one backtracks, as JavaScript does; but the [`Meter`] counts every step and the list of choices
//! has a limited length, so a pattern that would explode ends with an error instead.

mod compile;
mod pattern;

use super::error::{Error, Fallible};
use super::meter::Meter;
use compile::{Instruction, Program};
use pattern::{Assertion, Class};

/// How many choices a match may keep to return to.
const PENDING_MAX: usize = 400_000;

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Regex {
    source: Box<str>,
    program: Program,
}

/// One match: the bytes of the whole, and of each group that took part.
#[derive(Clone, Debug)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) groups: Vec<Option<(usize, usize)>>,
}

impl Regex {
    /// Compiles a pattern; of the flags `i` and `m` count. The error is JavaScript's reason.
    pub(super) fn new(source: &str, flags: &str) -> Result<Self, String> {
        let (pattern, groups) = pattern::parse(source)?;
        let program = compile::compile(&pattern, groups, flags.contains('i'), flags.contains('m'))?;
        Ok(Self { source: source.into(), program })
    }

    /// Its size, for compiling it while an expression runs.
    pub(super) fn weight(&self) -> usize {
        self.program.instructions.len()
    }

    /// The pattern as it was written.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// The first match that starts at `from` or later.
    pub(super) fn find(&self, text: &str, from: usize, meter: &Meter) -> Fallible<Option<Match>> {
        let mut machine = Machine {
            program: &self.program,
            text,
            meter,
            slots: vec![None; 2 * (self.program.groups + 1)],
            pending: Vec::new(),
            marks: Vec::new(),
        };
        let mut start = from;
        loop {
            machine.reset();
            if let Some(end) = machine.run(0, start)? {
                let groups = (1..=self.program.groups)
                    .map(|group| machine.slots[2 * group].zip(machine.slots[2 * group + 1]))
                    .collect();
                return Ok(Some(Match { start, end, groups }));
            }
            match text[start..].chars().next() {
                Some(skipped) => start += skipped.len_utf8(),
                None => return Ok(None),
            }
        }
    }
}

/// The action when a branch fails: undo, or continue elsewhere.
enum Pending {
    Try { at: usize, position: usize },
    Slot { slot: usize, was: Option<usize> },
    Mark { mark: usize, was: usize },
}

struct Machine<'m> {
    program: &'m Program,
    text: &'m str,
    meter: &'m Meter,
    /// Starts and ends of groups.
    slots: Vec<Option<usize>>,
    pending: Vec<Pending>,
    /// The beginning of each loop's current turn.
    marks: Vec<usize>,
}

impl Machine<'_> {
    fn reset(&mut self) {
        self.slots.fill(None);
        self.pending.clear();
        self.marks.clear();
        self.marks.resize(self.program.loops, usize::MAX);
    }

    fn push(&mut self, pending: Pending) -> Fallible<()> {
        if self.pending.len() >= PENDING_MAX {
            return Err(Error::memory());
        }
        self.pending.push(pending);
        Ok(())
    }

    fn set_slot(&mut self, slot: usize, value: Option<usize>) -> Fallible<()> {
        let was = std::mem::replace(&mut self.slots[slot], value);
        self.push(Pending::Slot { slot, was })
    }

    /// Returns to the last choice above `floor`. `None`: there is none left.
    fn back(&mut self, floor: usize) -> Option<(usize, usize)> {
        while self.pending.len() > floor {
            match self.pending.pop()? {
                Pending::Try { at, position } => return Some((at, position)),
                Pending::Slot { slot, was } => self.slots[slot] = was,
                Pending::Mark { mark, was } => self.marks[mark] = was,
            }
        }
        None
    }

    /// Runs from instruction `at`; the position at which it matched.
    fn run(&mut self, at: usize, position: usize) -> Fallible<Option<usize>> {
        let floor = self.pending.len();
        let (mut at, mut position) = (at, position);
        loop {
            self.meter.work(1)?;
            let next = match &self.program.instructions[at] {
                Instruction::Match => return Ok(Some(position)),
                Instruction::Consume { class, backward } => {
                    self.meter.work(class.weight())?;
                    self.step(position, *backward, class).map(|position| (at + 1, position))
                }
                Instruction::Jump(target) => Some((*target, position)),
                Instruction::Split { first, second } => {
                    self.push(Pending::Try { at: *second, position })?;
                    Some((*first, position))
                }
                Instruction::Save(slot) => {
                    self.set_slot(*slot, Some(position))?;
                    Some((at + 1, position))
                }
                Instruction::Forget { first, last } => {
                    for slot in 2 * first..2 * (last + 1) {
                        if self.slots[slot].is_some() {
                            self.set_slot(slot, None)?;
                        }
                    }
                    Some((at + 1, position))
                }
                Instruction::Mark(mark) => {
                    let was = std::mem::replace(&mut self.marks[*mark], position);
                    self.push(Pending::Mark { mark: *mark, was })?;
                    Some((at + 1, position))
                }
                Instruction::Advanced(mark) => (self.marks[*mark] != position).then_some((at + 1, position)),
                Instruction::Assert(assertion) => {
                    self.holds(*assertion, position).then_some((at + 1, position))
                }
                Instruction::Back { group, backward } => {
                    self.repeat(*group, position, *backward)?.map(|position| (at + 1, position))
                }
                Instruction::Look { negative, end } => {
                    let (negative, end) = (*negative, *end);
                    self.look(at + 1, position, negative)?.then_some((end, position))
                }
            };
            match next.or_else(|| self.back(floor)) {
                Some(next) => (at, position) = next,
                None => return Ok(None),
            }
        }
    }

    /// Tries the following instructions as a look-around. Its captures stay, unless it is negative; its choices do not.
    fn look(&mut self, at: usize, position: usize, negative: bool) -> Fallible<bool> {
        let floor = self.pending.len();
        let found = self.run(at, position)?.is_some();
        if negative || !found {
            while self.back(floor).is_some() {}
        } else {
            let mut kept = floor;
            for index in floor..self.pending.len() {
                if !matches!(self.pending[index], Pending::Try { .. }) {
                    self.pending.swap(kept, index);
                    kept += 1;
                }
            }
            self.pending.truncate(kept);
        }
        Ok(found != negative)
    }

    /// Takes one character of the class, in either direction.
    fn step(&self, position: usize, backward: bool, class: &Class) -> Option<usize> {
        let character = if backward {
            self.text[..position].chars().next_back()?
        } else {
            self.text[position..].chars().next()?
        };
        let taken = class.contains(character, self.program.ignore_case);
        let length = character.len_utf8();
        taken.then(|| if backward { position - length } else { position + length })
    }

    /// Matches the text of a group again. A group without a capture matches the empty text.
    fn repeat(&self, group: usize, position: usize, backward: bool) -> Fallible<Option<usize>> {
        let Some((start, end)) = self.slots[2 * group].zip(self.slots[2 * group + 1]) else {
            return Ok(Some(position));
        };
        self.meter.text(end - start)?;
        let mut at = position;
        let characters: Vec<char> = self.text[start..end].chars().collect();
        for index in 0..characters.len() {
            let index = if backward { characters.len() - 1 - index } else { index };
            match self.step(at, backward, &Class::one(characters[index])) {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    fn holds(&self, assertion: Assertion, position: usize) -> bool {
        let before = self.text[..position].chars().next_back();
        let after = self.text[position..].chars().next();
        let is_word = |character: Option<char>| character.is_some_and(pattern::is_word);
        match assertion {
            Assertion::Start => {
                before.is_none() || self.program.multiline && before.is_some_and(pattern::is_line_end)
            }
            Assertion::End => {
                after.is_none() || self.program.multiline && after.is_some_and(pattern::is_line_end)
            }
            Assertion::Boundary => is_word(before) != is_word(after),
            Assertion::NoBoundary => is_word(before) == is_word(after),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(pattern: &str, flags: &str, text: &str) -> Option<String> {
        let regex = Regex::new(pattern, flags).unwrap();
        let found = regex.find(text, 0, &Meter::within(u64::MAX)).unwrap()?;
        let mut shown = text[found.start..found.end].to_owned();
        for group in found.groups {
            shown.push('|');
            shown.push_str(group.map_or("-", |(start, end)| &text[start..end]));
        }
        Some(shown)
    }

    #[test]
    fn patterns_match_what_javascript_matches() {
        for (pattern, flags, text, expected) in [
            ("b+", "", "aabbbcc", Some("bbb")),
            ("b+?", "", "aabbbcc", Some("b")),
            ("(a)(b)?", "", "ac", Some("a|a|-")),
            ("(z)((a+)?(b+)?(c))*", "", "zaacbbbcac", Some("zaacbbbcac|z|ac|a|-|c")),
            ("(?:a|ab)(?:c|bcd)(?:d*)", "", "abcd", Some("abcd")),
            ("^x", "m", "a\nx", Some("x")),
            ("^x", "", "a\nx", None),
            ("HELLO", "i", "say hello", Some("hello")),
            ("[^a-c]", "", "abcd", Some("d")),
            ("[A-C]+", "i", "xabcx", Some("abc")),
            (r"\bfoo\b", "", "a foo b", Some("foo")),
            (r"\d{2,3}", "", "1 22 4444", Some("22")),
            (r"(\w+) \1", "", "the the cat", Some("the the|the")),
            (r"(?<year>\d{4})-\k<year>", "", "2020-2020", Some("2020-2020|2020")),
            ("a(?=b)", "", "acab", Some("a")),
            ("a(?!b)", "", "abac", Some("a")),
            (r"(?<=\$)\d+", "", "a1 $42", Some("42")),
            (r"(?<!\$)\b\d+", "", "$1 23", Some("23")),
            ("(?:)*x", "", "x", Some("x")),
            ("(a*)*b", "", "aab", Some("aab|aa")),
            ("a{,2}", "", "a{,2}", Some("a{,2}")),
            ("[]]", "", "]", None),
            ("[^]", "", "\n", Some("\n")),
            ("x.y", "", "x\ny x😀y", Some("x😀y")),
            (r"\u0041\x42\t", "", "AB\t", Some("AB\t")),
            ("(?=(a+))a*b\\1", "", "baaabac", Some("aba|a")),
        ] {
            assert_eq!(first(pattern, flags, text).as_deref(), expected, "/{pattern}/{flags} on {text:?}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for pattern in ["(", ")", "[a", "*a", "a**", "(?<n>a)(?<n>b)", "(?x)", "a{3,1}", "[b-a]", "\\"] {
            assert!(Regex::new(pattern, "").is_err(), "{pattern}");
        }
        assert!(Regex::new(&"(".repeat(100_000), "").is_err());
        assert!(Regex::new("(a{1000}){1000}", "").is_err());
    }

    #[test]
    fn a_pattern_that_explodes_ends_with_an_error() {
        let regex = Regex::new("(a+)+$", "").unwrap();
        let text = "a".repeat(100) + "b";
        assert!(regex.find(&text, 0, &Meter::within(u64::MAX)).is_err());
        let regex = Regex::new("(.|x)*y", "").unwrap();
        assert!(regex.find(&"x".repeat(1_000_000), 0, &Meter::within(u64::MAX)).is_err());
    }
}
