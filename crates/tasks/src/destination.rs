//! Destinations: receivers and their policies.
//!
//! They are in `perdura.toml` and never in a definition: whether a receiver honours keys, how long it remembers them,
//! and what its statuses mean are facts about the receiver, for every caller. Finding one is pure.

mod place;
mod refused;
mod table;

pub(crate) use refused::Refusals;
pub use refused::RefusedWord;
pub(crate) use table::statuses;
pub use table::{DestinationTable, ShortForm};

use crate::functions::{function_of, plain_name};
use crate::http::Verdict;
use crate::settings::{Function, Means, Mistake};
use http::HeaderName;
use perdura_engine::Policy;
use perdura_engine::asl::json::Payload;
use perdura_engine::asl::resource::{Resource, TaskKind};
pub(crate) use place::{Hosts, Place};
use std::collections::BTreeMap;

/// The default header for the key.
const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The policy of one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// What to do about an unknown outcome.
    pub policy: Policy,
    pub header: HeaderName,
    /// Statuses with another meaning than usual.
    pub statuses: BTreeMap<u16, Verdict>,
}

impl Default for Destination {
    fn default() -> Self {
        Self { policy: Policy::default(), header: HEADER, statuses: BTreeMap::new() }
    }
}

/// All destinations, in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Destinations {
    rules: Vec<Rule>,
    /// The addresses of functions that have one.
    places: BTreeMap<String, Place>,
    usual: Destination,
}

/// A pattern for calls, and their destination.
#[derive(Clone, Debug)]
struct Rule {
    who: Who,
    destination: Destination,
}

#[derive(Clone, Debug)]
enum Who {
    /// Addresses at these hosts whose path begins with this.
    At { hosts: Hosts, path: String },
    /// A resource by its ARN, or a function by its name.
    Resource(String),
}

/// The call that rules are matched against.
struct Callee<'a> {
    /// The ARN of the task's resource.
    arn: &'a str,
    /// The function's name as written, if it is one.
    function: Option<&'a str>,
    place: Option<&'a Place>,
}

impl Destinations {
    /// Parses the tables. Settings at a function itself override those of its destination.
    pub(crate) fn check(
        tables: Vec<DestinationTable>,
        functions: &BTreeMap<String, Function>,
        short_forms: BTreeMap<String, ShortForm>,
    ) -> Result<Self, Mistake> {
        let rules = tables.into_iter().enumerate().map(|(at, table)| {
            let (who, destination) = table
                .check()
                .map_err(|what| Mistake::new(format!("destinations, number {} in the file", at + 1), what))?;
            Ok(Rule { who, destination })
        });
        let places = functions.iter().filter_map(|(name, function)| match &function.means {
            Means::Url(url) => Some((name.clone(), Place::of(url)?)),
            Means::Command(_) | Means::Lambda(_) => None,
        });
        let mut all = Self {
            rules: rules.collect::<Result<_, _>>()?,
            places: places.collect(),
            usual: Destination::default(),
        };
        let own: Vec<Rule> = short_forms
            .into_iter()
            .filter(|(_, short_form)| !short_form.is_empty())
            .map(|(name, short_form)| {
                let callee = Callee { arn: "", function: Some(&name), place: all.places.get(&name) };
                let destination = short_form.over(all.first(&callee).clone());
                Rule { who: Who::Resource(name), destination }
            })
            .collect();
        all.rules.splice(..0, own);
        Ok(all)
    }

    /// The first destination that matches a call, in the order of the file; otherwise the default.
    pub fn find(&self, resource: &Resource, input: &Payload) -> &Destination {
        if self.rules.is_empty() {
            return &self.usual;
        }
        let function = function_of(resource, input);
        let endpoint = (resource.kind == TaskKind::Http).then(|| Place::of_input(input)).flatten();
        let place = endpoint.as_ref().or_else(|| self.places.get(plain_name(function?)));
        self.first(&Callee { arn: &resource.arn, function, place })
    }

    fn first(&self, callee: &Callee<'_>) -> &Destination {
        let rule = self.rules.iter().find(|rule| rule.who.is(callee));
        rule.map_or(&self.usual, |rule| &rule.destination)
    }
}

impl Who {
    fn is(&self, callee: &Callee<'_>) -> bool {
        match self {
            Self::At { hosts, path } => {
                callee.place.is_some_and(|place| hosts.hold(place) && place.path.starts_with(path))
            }
            Self::Resource(name) => {
                // An ARN without a version or alias matches all of them.
                let is_qualified =
                    |arn: &str| arn.strip_prefix(&**name).is_some_and(|rest| rest.starts_with(':'));
                let is_function = |function: &str| {
                    function == name || plain_name(function) == name || is_qualified(function)
                };
                callee.arn == name || callee.function.is_some_and(is_function)
            }
        }
    }
}

#[cfg(test)]
mod tests;
