//! The conditions of a request: `If-Match` and `If-None-Match` (RFC 9110, 13.1).
//!
//! A condition of a change is asked in the same step in which the change is made, so that of two callers who saw the same
//! one is refused.

use super::asked::Asked;
use super::problem::{Code, Problem};
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};

/// The tags of one of the two headers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Tags {
    /// `*`
    Any,
    Some(Vec<String>),
}

impl Tags {
    fn of(asked: &Asked, name: &HeaderName) -> Option<Self> {
        let lines = asked.headers.get_all(name).iter().map(|line| line.to_str().unwrap_or_default());
        let lines: Vec<&str> = lines.collect();
        match &lines[..] {
            [] => None,
            [any] if any.trim() == "*" => Some(Self::Any),
            // None of our tags has a comma in it.
            _ => Some(Self::Some(lines.join(",").split(',').map(|one| one.trim().to_owned()).collect())),
        }
    }

    /// Weak tags match nothing here.
    fn has(&self, tag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Some(tags) => !tag.starts_with("W/") && tags.iter().any(|one| one == tag),
        }
    }

    /// Whether one is weak makes no difference here.
    fn has_weakly(&self, tag: &str) -> bool {
        let plain = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
        match self {
            Self::Any => true,
            Self::Some(tags) => tags.iter().any(|one| plain(one) == plain(tag)),
        }
    }
}

/// The conditions of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conditions {
    matches: Option<Tags>,
    none_match: Option<Tags>,
}

impl Conditions {
    pub(super) fn of(asked: &Asked) -> Self {
        Self { matches: Tags::of(asked, &IF_MATCH), none_match: Tags::of(asked, &IF_NONE_MATCH) }
    }

    /// Whether the caller of a GET has what has this tag.
    pub(super) fn has(&self, tag: &str) -> bool {
        self.none_match.as_ref().is_some_and(|tags| tags.has_weakly(tag))
    }

    /// Refuses the change of a thing that has this tag now; `None`: there is no such thing.
    pub(super) fn check(&self, tag: Option<&str>) -> Result<(), Problem> {
        let refused =
            |what: &str| Err(Problem::new(Code::Changed, what).but("look at it again: GET gives its ETag"));
        match (&self.matches, &self.none_match, tag) {
            (Some(_), _, None) => refused("it is gone, or was never there"),
            (Some(tags), _, Some(tag)) if !tags.has(tag) => refused("it has changed since"),
            (_, Some(Tags::Any), Some(_)) => refused("it is there already"),
            (_, Some(tags), Some(tag)) if tags.has_weakly(tag) => refused("it is as it was"),
            (_, _, _) => Ok(()),
        }
    }
}
