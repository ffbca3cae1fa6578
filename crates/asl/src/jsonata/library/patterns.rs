//! `$match`, `$contains`, `$replace` and `$split`, with strings, regular expressions or functions that match.

use super::Arguments;
use crate::jsonata::error::{Error, Fallible};
use crate::jsonata::evaluate::Evaluator;
use crate::jsonata::function::{Function, FunctionKind};
use crate::jsonata::regex::Regex;
use crate::jsonata::value::{Array, Flags, List, Record, Str, Text, Val};
use std::rc::Rc;
use std::sync::Arc;

/// One match: its bytes in the text, and the object of a matcher function.
struct Found {
    start: usize,
    end: usize,
    groups: Vec<Option<(usize, usize)>>,
    object: Option<Val>,
}

impl Found {
    fn member(&self, name: &str) -> Val {
        if let Some(Val::Object(object)) = &self.object { object.get(name) } else { Val::Undefined }
    }

    fn group_count(&self) -> usize {
        match &self.object {
            Some(_) => self.member("groups").array().map_or(0, Array::len),
            None => self.groups.len(),
        }
    }

    /// Writes what it matched, or one of its groups, counted from 1.
    fn push(&self, group: usize, text: &str, out: &mut Text) -> Fallible<()> {
        if self.object.is_none() {
            let range = if group == 0 { Some((self.start, self.end)) } else { self.groups[group - 1] };
            return range.map_or(Ok(()), |(start, end)| out.push(&text[start..end]));
        }
        let value = match group.checked_sub(1) {
            None => self.member("match"),
            Some(at) => self.member("groups").array().map_or(Val::Undefined, |groups| groups.get(at)),
        };
        value.str().map_or(Ok(()), |value| out.push(value))
    }
}

/// The source of matches.
enum Source {
    Regex {
        regex: Arc<Regex>,
        from: usize,
    },
    /// A function that is called with the text, or the one that finds the next match.
    Function(Option<Rc<Function>>),
}

/// Matches one after the other.
struct Matches<'m> {
    text: &'m Str,
    source: Source,
    /// How many more matches are wanted; `None`: all.
    limit: Option<f64>,
    count: usize,
    /// The number of UTF-16 units up to some byte.
    counted: (usize, usize),
}

impl<'m> Matches<'m> {
    fn new(matcher: &Rc<Function>, text: &'m Str, limit: Option<f64>) -> Self {
        let source = match &matcher.kind {
            FunctionKind::Regex(regex) => Source::Regex { regex: regex.clone(), from: 0 },
            _ => Source::Function(Some(matcher.clone())),
        };
        Self { text, source, limit, count: 0, counted: (0, 0) }
    }

    fn is_exhausted(&self) -> bool {
        self.limit.is_some_and(|limit| self.count as f64 >= limit)
    }

    /// The next match, as long as the limit allows.
    fn next(&mut self, evaluator: &Evaluator<'_>) -> Fallible<Option<Found>> {
        if self.is_exhausted() {
            return Ok(None);
        }
        evaluator.meter.work(16)?;
        let is_first = self.count == 0;
        let text = self.text;
        let found = match &mut self.source {
            Source::Regex { from, .. } if !is_first && *from >= text.len() => None,
            Source::Regex { regex, from } => {
                let found = regex.find(text, *from, &evaluator.meter)?;
                if let Some(found) = &found {
                    if !is_first && found.start == found.end {
                        return Err(Error::new("D1004"));
                    }
                    *from = found.end;
                }
                found.map(|found| Found {
                    start: found.start,
                    end: found.end,
                    groups: found.groups,
                    object: None,
                })
            }
            Source::Function(next) => {
                let Some(function) = next.take() else { return Ok(None) };
                let arguments = if is_first { vec![Val::String(text.clone())] } else { Vec::new() };
                let told = evaluator.invoke(&function, arguments)?;
                self.told(evaluator, told)?
            }
        };
        self.count += usize::from(found.is_some());
        Ok(found)
    }

    /// A match as returned by a matcher function.
    fn told(&mut self, evaluator: &Evaluator<'_>, told: Val) -> Fallible<Option<Found>> {
        let Val::Object(object) = &told else {
            return if told.is_undefined() { Ok(None) } else { Err(Error::new("T1010")) };
        };
        let is_match = object.get("start").number().is_some()
            || object.get("groups").array().is_some()
            || object.get("next").is_function();
        if !is_match {
            return Err(Error::new("T1010"));
        }
        if let Val::Function(next) = object.get("next") {
            self.source = Source::Function(Some(next));
        }
        let start = self.place(evaluator, &object.get("start"))?;
        let end = self.place(evaluator, &object.get("end"))?.max(start);
        Ok(Some(Found { start, end, groups: Vec::new(), object: Some(told) }))
    }

    /// A position in UTF-16 units, as functions count, in bytes.
    fn place(&self, evaluator: &Evaluator<'_>, units: &Val) -> Fallible<usize> {
        let units = units.number().unwrap_or(0.0).max(0.0) as usize;
        evaluator.meter.work(self.text.len() as u64 / 2)?;
        let mut passed = 0;
        for (at, character) in self.text.char_indices() {
            if passed >= units {
                return Ok(at);
            }
            passed += character.len_utf16();
        }
        Ok(self.text.len())
    }

    /// A position in bytes, in UTF-16 units. Positions must not go back.
    fn units(&mut self, evaluator: &Evaluator<'_>, bytes: usize) -> Fallible<Val> {
        let (from, units) = self.counted;
        let piece = self.text.get(from..bytes).unwrap_or_default();
        evaluator.meter.work(piece.len() as u64 / 2)?;
        self.counted = (bytes, units + piece.encode_utf16().count());
        Ok(Val::count(self.counted.1))
    }
}

impl Evaluator<'_> {
    pub(super) fn contains(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        self.meter.text(text.len())?;
        match args.get(1) {
            Val::String(part) => Ok(Val::Bool(text.contains(&**part))),
            Val::Function(function) => {
                if let FunctionKind::Regex(regex) = &function.kind {
                    return Ok(Val::Bool(regex.find(text, 0, &self.meter)?.is_some()));
                }
                Ok(Val::Bool(Matches::new(function, text, None).next(self)?.is_some()))
            }
            _ => Err(Error::argument(2)),
        }
    }

    pub(super) fn match_all(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        let limit = limit(args, 2, "D3040")?;
        let mut result = List::new(&self.meter)?;
        let mut matches = Matches::new(args.function(1)?, text, limit);
        while let Some(found) = matches.next(self)? {
            let mut entry = Record::new(&self.meter)?;
            if found.object.is_some() {
                for (key, member) in [("match", "match"), ("index", "start"), ("groups", "groups")] {
                    entry.set(key.into(), found.member(member))?;
                }
            } else {
                entry.set("match".into(), Val::built(&self.meter, &text[found.start..found.end])?)?;
                entry.set("index".into(), matches.units(self, found.start)?)?;
                entry.set("groups".into(), self.group_list(&found.groups, text)?)?;
            }
            result.push(entry.finish())?;
        }
        Ok(result.finish(Flags::SEQUENCE))
    }

    pub(super) fn split(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        let limit = limit(args, 2, "D3020")?;
        let mut result = List::new(&self.meter)?;
        match args.get(1) {
            Val::String(separator) => {
                self.meter.text(text.len())?;
                let limit = limit.map_or(usize::MAX, |limit| limit as usize);
                if separator.is_empty() {
                    for character in text.chars().take(limit) {
                        self.meter.work(16)?;
                        result.push(Val::text(character.encode_utf8(&mut [0; 4]) as &str))?;
                    }
                } else {
                    for part in text.split(&**separator).take(limit) {
                        result.push(Val::built(&self.meter, part)?)?;
                    }
                }
            }
            Val::Function(function) => {
                let mut start = 0;
                let mut matches = Matches::new(function, text, limit);
                while let Some(found) = matches.next(self)? {
                    result.push(Val::built(&self.meter, &text[start.min(found.start)..found.start])?)?;
                    start = found.end;
                }
                if !matches.is_exhausted() {
                    result.push(Val::built(&self.meter, &text[start..])?)?;
                }
            }
            _ => return Err(Error::argument(2)),
        }
        Ok(result.finish(Flags::PLAIN))
    }

    pub(super) fn replace(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        if matches!(args.get(1), Val::String(pattern) if pattern.is_empty()) {
            return Err(Error::new("D3010"));
        }
        let limit = limit(args, 3, "D3011")?;
        self.meter.text(text.len())?;
        let mut out = Text::new(&self.meter)?;
        let mut from = 0;
        match args.get(1) {
            Val::String(pattern) => {
                let mut count = 0;
                while limit.is_none_or(|limit| f64::from(count) < limit)
                    && let Some(at) = text[from..].find(&**pattern)
                {
                    let Val::String(replacement) = args.get(2) else { return Err(Error::new("D3012")) };
                    out.push(&text[from..from + at])?;
                    out.push(replacement)?;
                    from += at + pattern.len();
                    count += 1;
                }
            }
            Val::Function(function) => {
                let mut matches = Matches::new(function, text, limit);
                while let Some(found) = matches.next(self)? {
                    out.push(&text[from.min(found.start)..found.start])?;
                    match args.get(2) {
                        Val::String(replacement) => substitute(replacement, &found, text, &mut out)?,
                        Val::Function(replacement) => {
                            let told = match &found.object {
                                Some(object) => object.clone(),
                                None => self.match_object(&found, &mut matches)?,
                            };
                            match self.invoke(replacement, vec![told])? {
                                Val::String(replaced) => out.push(&replaced)?,
                                _ => return Err(Error::new("D3012")),
                            }
                        }
                        _ => return Err(Error::new("D3012")),
                    }
                    from = found.end;
                }
            }
            _ => return Err(Error::argument(2)),
        }
        out.push(&text[from..])?;
        Ok(out.finish())
    }
}

/// A limit that is not negative.
fn limit(args: Arguments<'_>, at: usize, code: &'static str) -> Fallible<Option<f64>> {
    match args.number(at)? {
        Some(limit) if limit < 0.0 => Err(Error::new(code)),
        limit => Ok(limit),
    }
}

impl Evaluator<'_> {
    fn group_list(&self, groups: &[Option<(usize, usize)>], text: &str) -> Fallible<Val> {
        let mut list = List::new(&self.meter)?;
        for group in groups {
            list.push(match group {
                Some((start, end)) => Val::built(&self.meter, &text[*start..*end])?,
                None => Val::Undefined,
            })?;
        }
        Ok(list.finish(Flags::PLAIN))
    }

    /// A match of a regular expression as an object, for functions that get it.
    fn match_object(&self, found: &Found, matches: &mut Matches<'_>) -> Fallible<Val> {
        let text = matches.text;
        let mut object = Record::new(&self.meter)?;
        object.set("match".into(), Val::built(&self.meter, &text[found.start..found.end])?)?;
        object.set("start".into(), matches.units(self, found.start)?)?;
        object.set("end".into(), matches.units(self, found.end)?)?;
        object.set("groups".into(), self.group_list(&found.groups, text)?)?;
        if let Source::Regex { regex, from } = &matches.source {
            let next = FunctionKind::Next { regex: regex.clone(), text: text.clone(), from: *from };
            object.set("next".into(), self.function(next, 1)?)?;
        }
        Ok(object.finish())
    }

    /// The result of calling a regular expression: a match as an object, with a function that finds the next.
    pub(in crate::jsonata) fn find_match(
        &self,
        regex: &Arc<Regex>,
        text: &Str,
        from: usize,
        is_further: bool,
    ) -> Fallible<Val> {
        let mut matches = Matches {
            text,
            source: Source::Regex { regex: regex.clone(), from },
            limit: None,
            count: usize::from(is_further),
            counted: (0, 0),
        };
        match matches.next(self)? {
            Some(found) => self.match_object(&found, &mut matches),
            None => Ok(Val::Undefined),
        }
    }
}

/// Writes a replacement: `$0` is the match, `$1` the first group, `$$` a dollar.
fn substitute(replacement: &str, found: &Found, text: &str, out: &mut Text) -> Fallible<()> {
    let groups = found.group_count();
    let digits_max = groups.max(1).ilog10() as usize + 1;
    let mut rest = replacement;
    while let Some(dollar) = rest.find('$') {
        out.push(&rest[..dollar])?;
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push("$")?;
            rest = after;
        } else if let Some(after) = rest.strip_prefix('0') {
            found.push(0, text, out)?;
            rest = after;
        } else {
            let digits = rest.bytes().take(digits_max).take_while(u8::is_ascii_digit).count();
            let read = |digits: usize| rest[..digits].parse::<usize>().ok();
            let mut number = read(digits);
            if digits_max > 1 && number.is_some_and(|number| number > groups) {
                number = read(digits.min(digits_max - 1));
            }
            match number {
                Some(number) => {
                    if (1..=groups).contains(&number) {
                        found.push(number, text, out)?;
                    }
                    rest = &rest[number.to_string().len().min(rest.len())..];
                }
                None => out.push("$")?,
            }
        }
    }
    out.push(rest)
}
