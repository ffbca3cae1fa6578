//! The text of a regular expression to a tree.

use std::sync::Arc;

/// How deep groups may nest.
const NESTING_MAX: usize = 50;

/// A tree of what to match.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    Class(Arc<Class>),
    Assert(Assertion),
    Concat(Vec<Pattern>),
    Alternatives(Vec<Pattern>),
    Group(usize, Box<Pattern>),
    Back(usize),
    Look { behind: bool, negative: bool, inner: Box<Pattern> },
    Repeat { inner: Box<Pattern>, min: u32, max: Option<u32>, greedy: bool, groups: (usize, usize) },
}

/// A condition on a position between two characters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Assertion {
    Start,
    End,
    Boundary,
    NoBoundary,
}

/// A set of characters.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    ranges: Vec<(char, char)>,
    negated: bool,
}

impl Class {
    pub(super) fn one(character: char) -> Self {
        Self { ranges: vec![(character, character)], negated: false }
    }

    /// The cost of a lookup in it, beyond the minimum.
    pub(super) fn weight(&self) -> u64 {
        self.ranges.len() as u64 / 8
    }

    pub(super) fn contains(&self, character: char, ignore_case: bool) -> bool {
        let within = |c: char| self.ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
        let mut found = within(character);
        if !found && ignore_case {
            let folded = fold(character);
            found = within(folded)
                || character.to_lowercase().any(within)
                || self.ranges.iter().any(|(low, high)| low == high && fold(*low) == folded);
        }
        found != self.negated
    }

    fn digit() -> Self {
        Self { ranges: vec![('0', '9')], negated: false }
    }

    fn word() -> Self {
        Self { ranges: vec![('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')], negated: false }
    }

    fn space() -> Self {
        let ranges = vec![
            ('\t', '\r'),
            (' ', ' '),
            ('\u{a0}', '\u{a0}'),
            ('\u{1680}', '\u{1680}'),
            ('\u{2000}', '\u{200a}'),
            ('\u{2028}', '\u{2029}'),
            ('\u{202f}', '\u{202f}'),
            ('\u{205f}', '\u{205f}'),
            ('\u{3000}', '\u{3000}'),
            ('\u{feff}', '\u{feff}'),
        ];
        Self { ranges, negated: false }
    }

    fn any_but_line_ends() -> Self {
        let ranges = vec![('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')];
        Self { ranges, negated: true }
    }

    /// Its ranges, turned inside out where it is negated.
    fn plain_ranges(mut self) -> Vec<(char, char)> {
        if !self.negated {
            return self.ranges;
        }
        self.ranges.sort_unstable();
        let mut outside = Vec::new();
        let mut next = Some('\0');
        for (low, high) in self.ranges {
            if let Some(from) = next
                && from < low
            {
                outside.push((from, previous(low)));
            }
            next = next.max(following(high));
        }
        outside.extend(next.map(|from| (from, char::MAX)));
        outside
    }
}

fn following(character: char) -> Option<char> {
    ((character as u32 + 1)..=0x10_ffff).find_map(char::from_u32)
}

fn previous(character: char) -> char {
    (0..character as u32).rev().find_map(char::from_u32).unwrap_or('\0')
}

/// Upper case where that is one character and does not turn into ASCII, as JavaScript folds.
fn fold(character: char) -> char {
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(single), None) if character.is_ascii() || !single.is_ascii() => single,
        _ => character,
    }
}

pub(super) fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

pub(super) fn is_line_end(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

/// Reads a pattern; also how many groups it has.
pub(super) fn parse(source: &str) -> Result<(Pattern, usize), String> {
    let mut parser =
        Parser { rest: source.chars().collect(), at: 0, groups: 0, names: Vec::new(), depth: 0, total: 0 };
    parser.total = parser.count_groups();
    let pattern = parser.alternatives()?;
    if parser.at < parser.rest.len() {
        return Err("Unmatched ')'".into());
    }
    Ok((pattern, parser.groups))
}

struct Parser {
    rest: Vec<char>,
    at: usize,
    groups: usize,
    names: Vec<(String, usize)>,
    depth: usize,
    /// How many groups there are in all: `\2` means one only if there are two.
    total: usize,
}

impl Parser {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn eat(&mut self, expected: &str) -> bool {
        let fits = expected.chars().enumerate().all(|(i, c)| self.rest.get(self.at + i) == Some(&c));
        if fits {
            self.at += expected.chars().count();
        }
        fits
    }

    fn count_groups(&self) -> usize {
        let mut count = 0;
        let mut in_class = false;
        let mut at = 0;
        while at < self.rest.len() {
            match self.rest[at] {
                '\\' => at += 1,
                '[' => in_class = true,
                ']' => in_class = false,
                '(' if !in_class => {
                    let named = self.rest.get(at + 1..at + 3) == Some(&['?', '<'])
                        && !matches!(self.rest.get(at + 3), Some('=' | '!'));
                    count += usize::from(named || self.rest.get(at + 1) != Some(&'?'));
                }
                _ => {}
            }
            at += 1;
        }
        count
    }

    fn alternatives(&mut self) -> Result<Pattern, String> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return Err("groups nest too deep".into());
        }
        let mut branches = vec![self.concat()?];
        while self.eat("|") {
            branches.push(self.concat()?);
        }
        self.depth -= 1;
        Ok(if branches.len() == 1 { branches.remove(0) } else { Pattern::Alternatives(branches) })
    }

    fn concat(&mut self) -> Result<Pattern, String> {
        let mut items = Vec::new();
        while let Some(next) = self.peek() {
            if next == '|' || next == ')' {
                break;
            }
            let first_group = self.groups + 1;
            let item = self.atom()?;
            items.push(self.quantified(item, first_group)?);
        }
        Ok(Pattern::Concat(items))
    }

    fn quantified(&mut self, item: Pattern, first_group: usize) -> Result<Pattern, String> {
        let (min, max) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => match self.counts() {
                Some(counts) => counts,
                None => return Ok(item),
            },
            _ => return Ok(item),
        };
        // `counts` leaves the closing brace to be passed like the other signs.
        self.at += 1;
        if matches!(item, Pattern::Assert(_) | Pattern::Look { behind: true, .. }) {
            return Err("Nothing to repeat".into());
        }
        if max.is_some_and(|max| max < min) {
            return Err("numbers out of order in {} quantifier".into());
        }
        let greedy = !self.eat("?");
        let groups = (first_group, self.groups);
        Ok(Pattern::Repeat { inner: Box::new(item), min, max, greedy, groups })
    }

    /// `{n}`, `{n,}` or `{n,m}` up to its closing brace; anything else in braces stands for itself.
    fn counts(&mut self) -> Option<(u32, Option<u32>)> {
        let close = self.rest[self.at..].iter().position(|c| *c == '}')? + self.at;
        let inside: String = self.rest[self.at + 1..close].iter().collect();
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().unwrap_or(u32::MAX))
        };
        let counts = match inside.split_once(',') {
            None => number(&inside).map(|exact| (exact, Some(exact))),
            Some((min, "")) => number(min).map(|min| (min, None)),
            Some((min, max)) => number(min).zip(number(max)).map(|(min, max)| (min, Some(max))),
        }?;
        self.at = close;
        Some(counts)
    }

    fn atom(&mut self) -> Result<Pattern, String> {
        let character = self.peek().unwrap_or_default();
        self.at += 1;
        Ok(match character {
            '^' => Pattern::Assert(Assertion::Start),
            '$' => Pattern::Assert(Assertion::End),
            '.' => Pattern::Class(Class::any_but_line_ends().into()),
            '(' => self.group()?,
            '[' => Pattern::Class(self.class()?.into()),
            '\\' => self.escape()?,
            '*' | '+' | '?' => return Err("Nothing to repeat".into()),
            '{' => {
                self.at -= 1;
                if self.counts().is_some() {
                    return Err("Nothing to repeat".into());
                }
                self.at += 1;
                Pattern::Class(Class::one('{').into())
            }
            other => Pattern::Class(Class::one(other).into()),
        })
    }

    fn group(&mut self) -> Result<Pattern, String> {
        let look = [("?=", false, false), ("?!", false, true), ("?<=", true, false), ("?<!", true, true)];
        for (sign, behind, negative) in look {
            if self.eat(sign) {
                let inner = Box::new(self.rest_of_group()?);
                return Ok(Pattern::Look { behind, negative, inner });
            }
        }
        if self.eat("?:") {
            return self.rest_of_group();
        }
        self.groups += 1;
        let number = self.groups;
        if self.eat("?<") {
            let name = self.name()?;
            if self.names.iter().any(|(known, _)| *known == name) {
                return Err("Duplicate capture group name".into());
            }
            self.names.push((name, number));
        } else if self.peek() == Some('?') {
            return Err("Invalid group".into());
        }
        Ok(Pattern::Group(number, Box::new(self.rest_of_group()?)))
    }

    fn rest_of_group(&mut self) -> Result<Pattern, String> {
        let inner = self.alternatives()?;
        if self.eat(")") { Ok(inner) } else { Err("Unterminated group".into()) }
    }

    fn name(&mut self) -> Result<String, String> {
        let start = self.at;
        while self.peek().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
            self.at += 1;
        }
        let name: String = self.rest[start..self.at].iter().collect();
        if name.is_empty() || !self.eat(">") { Err("Invalid capture group name".into()) } else { Ok(name) }
    }

    fn escape(&mut self) -> Result<Pattern, String> {
        let Some(kind) = self.peek() else { return Err("\\ at end of pattern".into()) };
        match kind {
            'b' | 'B' => {
                self.at += 1;
                let assertion = if kind == 'b' { Assertion::Boundary } else { Assertion::NoBoundary };
                return Ok(Pattern::Assert(assertion));
            }
            '1'..='9' => {
                let digits: String =
                    self.rest[self.at..].iter().take_while(|c| c.is_ascii_digit()).take(4).collect();
                if let Ok(number) = digits.parse::<usize>()
                    && number <= self.total
                {
                    self.at += digits.len();
                    return Ok(Pattern::Back(number));
                }
            }
            'k' if self.rest.get(self.at + 1) == Some(&'<') => {
                self.at += 2;
                let name = self.name()?;
                let known = self.names.iter().find(|(known, _)| *known == name);
                let Some((_, number)) = known else { return Err("Invalid named capture referenced".into()) };
                return Ok(Pattern::Back(*number));
            }
            _ => {}
        }
        Ok(Pattern::Class(self.class_escape()?.into()))
    }

    /// The meaning of a backslash inside and outside of brackets.
    fn class_escape(&mut self) -> Result<Class, String> {
        let Some(kind) = self.peek() else { return Err("\\ at end of pattern".into()) };
        self.at += 1;
        let negated = |class: Class| Class { negated: true, ..class };
        Ok(match kind {
            'd' => Class::digit(),
            'D' => negated(Class::digit()),
            'w' => Class::word(),
            'W' => negated(Class::word()),
            's' => Class::space(),
            'S' => negated(Class::space()),
            't' => Class::one('\t'),
            'n' => Class::one('\n'),
            'r' => Class::one('\r'),
            'v' => Class::one('\u{b}'),
            'f' => Class::one('\u{c}'),
            '0' => Class::one('\0'),
            'x' => Class::one(self.hex(2).unwrap_or('x')),
            'u' => Class::one(self.hex(4).unwrap_or('u')),
            'c' if self.peek().is_some_and(|c| c.is_ascii_alphabetic()) => {
                let letter = self.peek().unwrap_or_default();
                self.at += 1;
                Class::one(char::from(letter as u8 % 32))
            }
            other => Class::one(other),
        })
    }

    fn hex(&mut self, digits: usize) -> Option<char> {
        let text: String = self.rest.get(self.at..self.at + digits)?.iter().collect();
        if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let unit = u32::from_str_radix(&text, 16).ok()?;
        self.at += digits;
        Some(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn class(&mut self) -> Result<Class, String> {
        let negated = self.eat("^");
        let mut ranges = Vec::new();
        loop {
            match self.peek() {
                None => return Err("Unterminated character class".into()),
                Some(']') => {
                    self.at += 1;
                    return Ok(Class { ranges, negated });
                }
                Some(_) => {}
            }
            let low = self.class_atom()?;
            let is_range =
                self.peek() == Some('-') && !matches!(self.rest.get(self.at + 1), None | Some(']'));
            if !is_range {
                ranges.extend(low.plain_ranges());
                continue;
            }
            self.at += 1;
            let high = self.class_atom()?;
            match (single(&low), single(&high)) {
                (Some(from), Some(to)) if from <= to => ranges.push((from, to)),
                (Some(_), Some(_)) => return Err("Range out of order in character class".into()),
                _ => {
                    ranges.extend(low.plain_ranges());
                    ranges.push(('-', '-'));
                    ranges.extend(high.plain_ranges());
                }
            }
        }
    }

    fn class_atom(&mut self) -> Result<Class, String> {
        let character = self.peek().unwrap_or_default();
        self.at += 1;
        match character {
            '\\' if self.peek() == Some('b') => {
                self.at += 1;
                Ok(Class::one('\u{8}'))
            }
            '\\' => self.class_escape(),
            other => Ok(Class::one(other)),
        }
    }
}

fn single(class: &Class) -> Option<char> {
    match class.ranges[..] {
        [(low, high)] if low == high && !class.negated => Some(low),
        _ => None,
    }
}
