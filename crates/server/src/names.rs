//! Which names machines, executions, activities and connections may have.

use crate::Refusal;
use perdura_engine::{NAME_MAX, is_allowed_in_name};

/// Refuses names that Step Functions refuses.
pub fn check(whose: &str, name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.chars().count() > NAME_MAX {
        return Err(Refusal::invalid(format!("the name of {whose} has 1 to {NAME_MAX} characters")));
    }
    match name.chars().find(|char| !is_allowed_in_name(*char)) {
        Some(char) => Err(Refusal::invalid(format!("the name of {whose} cannot have {char:?} in it"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_aws_takes() {
        for good in ["a", "order-17_b.c", "é", &"x".repeat(80)] {
            assert!(check("an execution", good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "a/b", "a:b", "a*", "a\u{7}", &"x".repeat(81)] {
            assert!(check("an execution", bad).is_err(), "{bad}");
        }
    }
}
