//! Strings, counted in characters.

use super::{Arguments, Builtin};
use crate::jsonata::error::Fallible;
use crate::jsonata::evaluate::Evaluator;
use crate::jsonata::text;
use crate::jsonata::value::{Text, Val};

impl Evaluator<'_> {
    pub(super) fn string(&self, args: Arguments<'_>) -> Fallible<Val> {
        match args.get(0) {
            Val::Undefined => Ok(Val::Undefined),
            Val::String(text) => Ok(Val::String(text.clone())),
            value => {
                let mut out = Text::new(&self.meter)?;
                text::write(value, matches!(args.get(1), Val::Bool(true)), &mut out)?;
                Ok(out.finish())
            }
        }
    }

    pub(super) fn substring(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        self.meter.text(8 * text.len())?;
        let count = text.chars().count() as f64;
        let mut start = args.number(1)?.unwrap_or(0.0);
        if count + start < 0.0 {
            start = 0.0;
        }
        let end = match args.number(2)? {
            Some(length) if length <= 0.0 || args.is_missing(1) => return Ok(Val::text("")),
            Some(length) if start >= 0.0 => start + length,
            Some(length) => count + start + length,
            None => count,
        };
        let (start, end) = (place(start, count), place(end, count));
        let piece: String = text.chars().skip(start).take(end.saturating_sub(start)).collect();
        Val::built(&self.meter, &piece)
    }

    pub(super) fn substring_beside(&self, builtin: Builtin, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        self.meter.text(text.len())?;
        let Some(mark) = args.text(1)? else { return Ok(args.get(0).clone()) };
        let piece = match text.find(&**mark) {
            Some(at) if builtin == Builtin::SubstringBefore => &text[..at],
            Some(at) => &text[at + mark.len()..],
            None => return Ok(args.get(0).clone()),
        };
        Val::built(&self.meter, piece)
    }

    pub(super) fn change_case(&self, builtin: Builtin, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        self.meter.text(8 * text.len())?;
        let changed = if builtin == Builtin::Uppercase { text.to_uppercase() } else { text.to_lowercase() };
        Val::built(&self.meter, &changed)
    }

    pub(super) fn length(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        self.meter.text(text.len())?;
        Ok(Val::count(text.chars().count()))
    }

    pub(super) fn trim(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        let mut out = Text::new(&self.meter)?;
        let words = text.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty());
        for (at, word) in words.enumerate() {
            if at > 0 {
                out.push(" ")?;
            }
            out.push(word)?;
        }
        Ok(out.finish())
    }

    pub(super) fn pad(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(text) = args.text(0)? else { return Ok(Val::Undefined) };
        self.meter.text(text.len())?;
        let width = args.number(1)?.unwrap_or(0.0);
        let filler = match args.text(2)? {
            Some(filler) if !filler.is_empty() => &**filler,
            _ => " ",
        };
        let missing = width.abs() - text.chars().count() as f64;
        if missing < 1.0 || missing.is_nan() {
            return Ok(args.get(0).clone());
        }
        let missing = missing as usize;
        let turn = filler.chars().count();
        let rest: String = filler.chars().take(missing % turn).collect();
        let mut out = Text::new(&self.meter)?;
        if width > 0.0 {
            out.push(text)?;
        }
        out.repeat(filler, missing / turn)?;
        out.push(&rest)?;
        if width < 0.0 {
            out.push(text)?;
        }
        Ok(out.finish())
    }

    pub(super) fn join(&self, args: Arguments<'_>) -> Fallible<Val> {
        let Some(parts) = args.array(0)? else { return Ok(Val::Undefined) };
        let separator = args.text(1)?.map_or("", |separator| &**separator);
        let mut out = Text::new(&self.meter)?;
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                out.push(separator)?;
            }
            if let Val::String(part) = &part {
                out.push(part)?;
            }
        }
        Ok(out.finish())
    }
}

/// An end of a slice, counted from the end of the text when negative.
fn place(at: f64, count: f64) -> usize {
    let at = at.trunc();
    let at = if at < 0.0 { (count + at).max(0.0) } else { at.min(count) };
    at as usize
}
