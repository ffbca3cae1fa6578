//! Paths: steps that map over sequences, filters, and streams of tuples.

use super::{Evaluator, Fallible};
use crate::json::Value;
use crate::jsonata::ast::{Kind, Node, NodeId, Stage};
use crate::jsonata::function::Env;
use crate::jsonata::plain::{self, Plain};
use crate::jsonata::value::{Array, Flags, List, Object, Record, Val, truth};
use std::sync::Arc;

/// A sequence of tuples.
const STREAM: Flags = Flags::SEQUENCE.and(Flags::TUPLES);

/// The result of one step, for the next.
enum Sequence {
    /// A sequence of one.
    One(Val),
    Many(Array),
}

impl Sequence {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Many(array) if array.is_empty())
    }

    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(array) => array.len(),
        }
    }

    fn get(&self, at: usize) -> Val {
        match self {
            Self::One(value) => value.clone(),
            Self::Many(array) => array.get(at),
        }
    }

    /// The result of a step, as the input of the next.
    fn of(value: Val) -> Self {
        match value {
            Val::Array(array) if !array.flags.has(Flags::CONS) => Self::Many(array.with(Flags::SEQUENCE)),
            single => Self::One(single),
        }
    }
}

impl Evaluator<'_> {
    pub(super) fn path(&self, node: &Node, input: &Val, env: &Env) -> Fallible<Val> {
        let Kind::Path { steps, keep_singleton, plain } = &node.kind else { return Ok(Val::Undefined) };
        let mut taken = 0;
        let mut sequence = match input {
            Val::Array(array) if !matches!(self.ast.node(steps[0]).kind, Kind::Variable { .. }) => {
                Sequence::Many(array.clone())
            }
            other => Sequence::One(other.clone()),
        };
        if let Some(plain) = plain {
            // Counts the variable and the plain steps, each a level of its own if they were evaluated one by one.
            self.meter.work(plain.steps.len() as u64)?;
            self.enter().map(|outside| self.depth.set(outside))?;
            if let Some((count, value)) = self.plain(plain, env) {
                if node.group.is_none() && (count == steps.len() || value.is_undefined()) {
                    let wrap = *keep_singleton && value.array().is_none() && !value.is_undefined();
                    return if wrap { self.kept(value) } else { Ok(value) };
                }
                taken = count;
                sequence = if value.is_undefined() {
                    taken = steps.len();
                    Sequence::Many(List::new(&self.meter)?.array(Flags::SEQUENCE))
                } else {
                    Sequence::of(value)
                };
            }
        }
        let mut tuples: Option<Array> = None;
        let mut is_stream = false;
        for (at, id) in steps.iter().enumerate().skip(taken) {
            let step = self.ast.node(*id);
            is_stream |= step.tuple;
            let mut result = None;
            if at == 0 && step.cons_array {
                result = Some(match self.evaluate(*id, &Val::Array(sequence.get_all(self)?), env)? {
                    Val::Array(array) => Sequence::Many(array),
                    _ => Sequence::Many(List::new(&self.meter)?.array(Flags::SEQUENCE)),
                });
            } else if is_stream {
                tuples = Some(self.tuple_step(*id, step, &sequence, tuples, env)?);
            } else {
                result = Some(self.step(*id, step, &sequence, env, at + 1 == steps.len())?);
            }
            if let Some(result) = result {
                if !is_stream && result.is_empty() {
                    sequence = result;
                    break;
                }
                if step.focus.is_none() {
                    sequence = result;
                }
            }
        }
        let mut result = match &tuples {
            Some(tuples) if node.tuple => Val::Array(tuples.clone()),
            Some(tuples) => {
                let mut values = List::new(&self.meter)?;
                for tuple in tuples.iter() {
                    values.push(Self::tuple_value(&tuple))?;
                }
                values.finish(Flags::SEQUENCE)
            }
            None => match sequence {
                // Unwrapped here, where the reference would wrap it and unwrap it again.
                Sequence::One(value) if !*keep_singleton && !node.keep_array && node.group.is_none() => {
                    return Ok(value);
                }
                Sequence::One(value) => self.sequence(value)?,
                Sequence::Many(array) => Val::Array(array),
            },
        };
        if *keep_singleton && let Val::Array(array) = &mut result {
            if array.flags.has(Flags::CONS) && !array.is_sequence() {
                result = self.kept(result)?;
            } else {
                array.flags = array.flags.and(Flags::KEEP);
            }
        }
        match &node.group {
            Some(group) => self.group(group, tuples.map(Val::Array).as_ref().unwrap_or(&result), env),
            None => Ok(result),
        }
    }

    /// A sequence of one that stays an array.
    fn kept(&self, value: Val) -> Fallible<Val> {
        Ok(List::of(&self.meter, value)?.finish(Flags::SEQUENCE.and(Flags::KEEP)))
    }

    /// The plain beginning of a path: how many steps it has, and its value.
    fn plain(&self, plain: &Plain, env: &Env) -> Option<(usize, Val)> {
        let walked =
            |walked: plain::Walked<'_>| (walked.steps + 1, walked.value.map_or(Val::Undefined, Val::from));
        if let Some(local) = env.lookup(&plain.root) {
            // From a variable of the expression, as far as it passes through values from outside.
            let Val::Object(Object::Json(map)) = local else { return None };
            if !plain.indices.is_empty() {
                return None;
            }
            return Some(walked(plain.walk(Some(&Value::Object(map)), 0)));
        }
        if &*plain.root == "states" && plain.indices.is_empty() {
            let member = &*plain.steps[0].name;
            if member == "context"
                && let Some(names) = plain.names(1)
                && let Some(hidden) = self.scope.context.hidden(&names)
            {
                return Some((plain.steps.len() + 1, Val::from(&hidden)));
            }
            let value = self.state(member).and_then(|value| plain::select(value, &plain.steps[0].indices));
            return Some(walked(plain.walk(value, 1)));
        }
        let value = self.given(&plain.root).and_then(|value| plain::select(value, &plain.indices));
        value.map(|value| walked(plain.walk(Some(value), 0)))
    }

    /// One step over all items of a sequence.
    fn step(
        &self,
        id: NodeId,
        step: &Node,
        input: &Sequence,
        env: &Env,
        is_last: bool,
    ) -> Fallible<Sequence> {
        if let Kind::Sort(terms) = &step.kind {
            let sorted = self.sort_step(terms, input.get_all(self)?, env)?;
            return Ok(Sequence::Many(self.stages(&step.stages, sorted, env)?));
        }
        let mut first: Option<Val> = None;
        let mut list: Option<List> = None;
        for at in 0..input.len() {
            let mut result = self.evaluate(id, &input.get(at), env)?;
            for stage in &step.stages {
                if let Stage::Filter(filter) = stage {
                    result = self.filter(*filter, result, env)?;
                }
            }
            if result.is_undefined() {
                continue;
            }
            match (&mut list, first.take()) {
                (Some(list), _) => collect(list, result)?,
                (None, None) => first = Some(result),
                (None, Some(before)) => {
                    let mut both = List::new(&self.meter)?;
                    collect(&mut both, before)?;
                    collect(&mut both, result)?;
                    list = Some(both);
                }
            }
        }
        Ok(match (list, first) {
            (Some(list), _) => Sequence::Many(list.array(Flags::SEQUENCE)),
            (None, Some(Val::Array(array))) if is_last && !array.is_sequence() => Sequence::Many(array),
            (None, Some(value)) => Sequence::of(value),
            (None, None) => Sequence::Many(List::new(&self.meter)?.array(Flags::SEQUENCE)),
        })
    }

    fn stages(&self, stages: &[Stage], input: Array, env: &Env) -> Fallible<Array> {
        let mut result = input;
        for stage in stages {
            match stage {
                Stage::Filter(filter) => {
                    if let Val::Array(array) = self.filter(*filter, Val::Array(result), env)? {
                        result = array;
                    } else {
                        return Ok(List::new(&self.meter)?.array(Flags::SEQUENCE));
                    }
                }
                Stage::Index(name) => {
                    let mut numbered = List::new(&self.meter)?;
                    for (at, tuple) in result.iter().enumerate() {
                        let mut record = self.record_of(&tuple)?;
                        record.set(name.clone(), Val::count(at))?;
                        numbered.push(record.finish())?;
                    }
                    result = numbered.array(result.flags);
                }
            }
        }
        Ok(result)
    }

    /// A copy of an object, to be changed.
    pub(super) fn record_of(&self, value: &Val) -> Fallible<Record> {
        let mut record = Record::new(&self.meter)?;
        if let Val::Object(object) = value {
            for (key, value) in object.members() {
                record.set(key, value)?;
            }
        }
        Ok(record)
    }

    /// The beginning of a stream: each value as a tuple, with its position where that has a name.
    fn tuples(&self, values: &Sequence, index: Option<&Arc<str>>) -> Fallible<Array> {
        let mut tuples = List::new(&self.meter)?;
        for at in 0..values.len() {
            let mut tuple = Record::new(&self.meter)?;
            tuple.set("@".into(), values.get(at))?;
            if let Some(index) = index {
                tuple.set(index.clone(), Val::count(at))?;
            }
            tuples.push(tuple.finish())?;
        }
        Ok(tuples.array(STREAM))
    }

    /// One step over a stream of tuples; each result is a tuple with all that was bound before.
    fn tuple_step(
        &self,
        id: NodeId,
        step: &Node,
        input: &Sequence,
        tuples: Option<Array>,
        env: &Env,
    ) -> Fallible<Array> {
        if let Kind::Sort(terms) = &step.kind {
            let sorted = if let Some(tuples) = tuples {
                self.sort_step(terms, tuples, env)?.with_tuples()
            } else {
                let sorted = self.sort_step(terms, input.get_all(self)?, env)?;
                self.tuples(&Sequence::Many(sorted), step.index.as_ref())?
            };
            return self.stages(&step.stages, sorted, env);
        }
        let tuples = if let Some(tuples) = tuples { tuples } else { self.tuples(input, None)? };
        let mut results = List::new(&self.meter)?;
        for tuple in tuples.iter() {
            let value = Self::tuple_value(&tuple);
            let found = match self.evaluate(id, &value, &Self::tuple_scope(env, &tuple)?)? {
                Val::Undefined => continue,
                Val::Array(array) => array,
                single => List::of(&self.meter, single)?.array(Flags::PLAIN),
            };
            for (at, item) in found.iter().enumerate() {
                let mut record = self.record_of(&tuple)?;
                if found.flags.has(Flags::TUPLES) {
                    if let Val::Object(object) = &item {
                        for (key, value) in object.members() {
                            record.set(key, value)?;
                        }
                    }
                } else {
                    match &step.focus {
                        Some(focus) => record.set(focus.clone(), item)?,
                        None => record.set("@".into(), item)?,
                    }
                    if let Some(index) = &step.index {
                        record.set(index.clone(), Val::count(at))?;
                    }
                    if let Some(label) = &step.ancestor {
                        record.set(label.clone(), value.clone())?;
                    }
                }
                results.push(record.finish())?;
            }
        }
        self.stages(&step.stages, results.array(STREAM), env)
    }

    /// Keeps the items that match a filter: a number is a position, any other value a condition.
    pub(super) fn filter(&self, filter: NodeId, input: Val, env: &Env) -> Fallible<Val> {
        let stream = match &input {
            Val::Array(array) => array.flags.has(Flags::TUPLES),
            _ => false,
        };
        let flags = if stream { STREAM } else { Flags::SEQUENCE };
        let items = Sequence::from_filtered(input);
        let mut results = List::new(&self.meter)?;
        if let Kind::Number(index) = self.ast.node(filter).kind {
            let item = plain::place(index, items.len()).map_or(Val::Undefined, |at| items.get(at));
            match item {
                Val::Undefined => {}
                Val::Array(array) => return Ok(Val::Array(array)),
                single => results.push(single)?,
            }
            return Ok(results.finish(flags));
        }
        for at in 0..items.len() {
            let item = items.get(at);
            let answer = if stream {
                self.evaluate(filter, &Self::tuple_value(&item), &Self::tuple_scope(env, &item)?)?
            } else {
                self.evaluate(filter, &item, env)?
            };
            for _ in 0..self.times(&answer, at, items.len())? {
                results.push(item.clone())?;
            }
        }
        Ok(results.finish(flags))
    }

    /// How often a filter's result selects position `at`: numbers are positions, other values are true or not.
    fn times(&self, answer: &Val, at: usize, length: usize) -> Fallible<usize> {
        let here = |value: &Val| value.number().is_some_and(|index| plain::place(index, length) == Some(at));
        if answer.is_numeric()? {
            return Ok(usize::from(here(answer)));
        }
        if let Val::Array(array) = answer {
            self.meter.work(array.len() as u64)?;
            let mut times = 0;
            let mut all_numbers = true;
            for item in array.iter() {
                all_numbers &= item.is_numeric()?;
                times += usize::from(here(&item));
            }
            if all_numbers {
                return Ok(times);
            }
        }
        truth(answer, &self.meter).map(usize::from)
    }
}

impl Sequence {
    /// The items of a filter: the elements of an array, or the one value.
    fn from_filtered(input: Val) -> Self {
        match input {
            Val::Array(array) => Self::Many(array),
            single => Self::One(single),
        }
    }

    fn get_all(&self, evaluator: &Evaluator<'_>) -> Fallible<Array> {
        Ok(match self {
            Self::One(value) => List::of(&evaluator.meter, value.clone())?.array(Flags::SEQUENCE),
            Self::Many(array) => array.clone(),
        })
    }
}

impl Array {
    fn with_tuples(&self) -> Self {
        self.with(self.flags.and(Flags::TUPLES))
    }
}

/// Adds one result of a step: arrays are flattened by one level, unless they were written as a step.
fn collect(list: &mut List, result: Val) -> Fallible<()> {
    match result {
        Val::Array(array) if !array.flags.has(Flags::CONS) => list.extend(&array),
        single => list.push(single),
    }
}
