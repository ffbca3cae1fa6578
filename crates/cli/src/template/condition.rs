//! Conditions: whether a resource or a value exists.

use super::Problem;
use super::resolve::{Resolved, Resolver, as_list, as_text, of_list};
use perdura_asl::json::Value;

impl Resolver<'_> {
    /// Whether a condition of the template is true.
    pub(super) fn condition(&self, name: &str, path: &str) -> Resolved<bool> {
        let written = self.part("Conditions", name);
        let written = written.ok_or_else(|| {
            Problem::new(path, format!("Conditions has no {name:?}"), "see how it is spelt")
        })?;
        self.holds(written, &format!("Conditions/{name}"), 0)
    }

    fn holds(&self, written: &Value, path: &str, depth: u32) -> Resolved<bool> {
        // Conditions that refer to each other in a circle.
        if depth > 50 {
            return Err(Problem::new(path, "it leads back to itself", "name each condition once"));
        }
        let unknown =
            || Problem::new(path, "this is no condition", "use Fn::Equals, Fn::And, Fn::Or or Fn::Not");
        let members = written.as_object().filter(|members| members.len() == 1);
        let (function, argument) = members.and_then(|members| members.iter().next()).ok_or_else(unknown)?;
        let each = || as_list(argument, path)?.iter().map(|one| self.holds(one, path, depth + 1)).collect();
        let each: &dyn Fn() -> Resolved<Vec<bool>> = &each;
        match &**function {
            "Fn::Equals" => {
                let [one, other] = of_list(argument, path)?;
                Ok(self.text(one, path)? == self.text(other, path)?)
            }
            "Fn::And" => Ok(!each()?.contains(&false)),
            "Fn::Or" => Ok(each()?.contains(&true)),
            "Fn::Not" => {
                let [one] = of_list(argument, path)?;
                Ok(!self.holds(one, path, depth + 1)?)
            }
            "Condition" => {
                let name = as_text(Some(argument), path)?;
                let named = self.part("Conditions", &name).ok_or_else(unknown)?;
                self.holds(named, &format!("Conditions/{name}"), depth + 1)
            }
            _ => Err(unknown()),
        }
    }
}
