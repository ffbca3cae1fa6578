//! Array and object constructors, and grouping.

use super::{Evaluator, Fallible};
use crate::jsonata::ast::{Kind, Node, NodeId};
use crate::jsonata::error::Error;
use crate::jsonata::function::Env;
use crate::jsonata::meter::Charge;
use crate::jsonata::text;
use crate::jsonata::value::{Array, Flags, List, Record, Val};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The items that one key collects.
enum Group {
    One(Val),
    Many(List),
}

impl Evaluator<'_> {
    pub(super) fn array(&self, node: &Node, items: &[NodeId], input: &Val, env: &Env) -> Fallible<Val> {
        let flags = if node.cons_array { Flags::CONS } else { Flags::PLAIN };
        if let [only] = items
            && !matches!(self.ast.node(*only).kind, Kind::Array(_))
        {
            // Brackets around an array change only its flags, not its elements.
            return match self.evaluate(*only, input, env)? {
                Val::Array(array) => Ok(Val::Array(array.with(flags))),
                Val::Undefined => Ok(List::new(&self.meter)?.finish(flags)),
                single => Ok(List::of(&self.meter, single)?.finish(flags)),
            };
        }
        let level = self.depth.get();
        let mut result = List::new(&self.meter)?;
        for id in items {
            self.apart(items.len());
            let value = self.evaluate(*id, input, env)?;
            self.depth.set(level);
            match value {
                Val::Undefined => {}
                // An array that is written inside an array stays one; any other loses its brackets.
                value if matches!(self.ast.node(*id).kind, Kind::Array(_)) => result.push(value)?,
                value => result.append(value)?,
            }
        }
        Ok(result.finish(flags))
    }

    /// Builds one object of all items: the items of equal keys are collected.
    pub(super) fn group(&self, pairs: &[(NodeId, NodeId)], input: &Val, env: &Env) -> Fallible<Val> {
        let stream = matches!(input, Val::Array(array) if array.flags.has(Flags::TUPLES));
        let mut groups = Groups { entries: Vec::new(), index: BTreeMap::new(), keys: self.meter.hold(0)? };
        let nothing = [Val::Undefined];
        let items: Vec<Val> = match input {
            Val::Array(array) if array.is_empty() => nothing.to_vec(),
            Val::Array(array) => array.iter().collect(),
            single => vec![single.clone()],
        };
        let level = self.depth.get();
        for item in items {
            let (context, scope) = if stream {
                (Self::tuple_value(&item), Self::tuple_scope(env, &item)?)
            } else {
                (item.clone(), env.clone())
            };
            for (index, (key, _)) in pairs.iter().enumerate() {
                let key = match self.evaluate(*key, &context, &scope)? {
                    Val::Undefined => continue,
                    Val::String(key) => key.shared(),
                    other => return Err(Error::new("T1003").value(text::render(&other))),
                };
                self.meter.work(24 + key.len() as u64 / 4)?;
                self.add(&mut groups, key, index, item.clone())?;
            }
        }
        let mut result = Record::new(&self.meter)?;
        let count = groups.entries.len();
        for (key, pair, data) in groups.entries {
            let data = match data {
                Group::One(value) => value,
                Group::Many(list) => list.finish(Flags::PLAIN),
            };
            self.apart(count);
            let value = if stream {
                let mut tuple = self.reduce(&data)?;
                let context = tuple.get("@").cloned().unwrap_or(Val::Undefined);
                tuple.remove("@");
                let scope = Self::tuple_scope(env, &tuple.finish())?;
                self.evaluate(pairs[pair].1, &context, &scope)?
            } else {
                self.evaluate(pairs[pair].1, &data, env)?
            };
            self.depth.set(level);
            if !value.is_undefined() {
                result.set(key, value)?;
            }
        }
        Ok(result.finish())
    }

    fn add(&self, groups: &mut Groups, key: Arc<str>, pair: usize, item: Val) -> Fallible<()> {
        let Some(at) = groups.index.get(&key).copied() else {
            groups.keys.grow(key.len())?;
            groups.index.insert(key.clone(), groups.entries.len());
            groups.entries.push((key, pair, Group::One(item)));
            return Ok(());
        };
        let (_, first, data) = &mut groups.entries[at];
        if *first != pair {
            return Err(Error::new("D1009").quoted(&key));
        }
        let placeholder = Group::One(Val::Undefined);
        *data = match (std::mem::replace(data, placeholder), item) {
            (Group::One(Val::Undefined), item) => Group::One(item),
            (known, Val::Undefined) => known,
            (Group::Many(mut list), item) => {
                list.append(item)?;
                Group::Many(list)
            }
            (Group::One(known), item) => {
                let mut list = List::new(&self.meter)?;
                list.append(known)?;
                list.append(item)?;
                Group::Many(list)
            }
        };
        Ok(())
    }

    /// Several tuples as one, whose names refer to all of their values.
    fn reduce(&self, data: &Val) -> Fallible<Record> {
        let Val::Array(tuples) = data else { return self.record_of(data) };
        let mut result = self.record_of(&tuples.get(0))?;
        for tuple in tuples.iter().skip(1) {
            if let Val::Object(object) = &tuple {
                for (key, value) in object.members() {
                    let joined = match result.get(&key) {
                        Some(known) => self.append(known, &value)?,
                        None => value,
                    };
                    result.set(key, joined)?;
                }
            }
        }
        Ok(result)
    }

    /// `$append`: both as one array, unless one of them is undefined.
    pub(in crate::jsonata) fn append(&self, first: &Val, second: &Val) -> Fallible<Val> {
        if first.is_undefined() {
            return Ok(second.clone());
        }
        if second.is_undefined() {
            return Ok(first.clone());
        }
        let mut list = List::new(&self.meter)?;
        list.append(first.clone())?;
        list.append(second.clone())?;
        // The reference treats a single first value as a sequence of one, but joining makes it a plain array.
        Ok(Val::Array(list.array(Flags::PLAIN)))
    }
}

struct Groups {
    entries: Vec<(Arc<str>, usize, Group)>,
    index: BTreeMap<Arc<str>, usize>,
    keys: Charge,
}

impl Evaluator<'_> {
    /// The elements of an array in another order or number.
    pub(in crate::jsonata) fn rearranged(&self, items: Vec<Val>, flags: Flags) -> Fallible<Array> {
        Ok(List::arranged(&self.meter, items)?.array(flags))
    }
}
