//! A workflow: a typed list of steps, or a definition in the States Language. Both become a definition.

use crate::step::{IntoStep, Parts, Retry, Step};
use perdura_engine::{NAME_MAX, is_allowed_in_name};
use serde_json::{Map, Value, json};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Steps from an input of type `I` to an output of type `O`.
///
/// The compiler checks a list of steps: the output of a step is the input of the next.
///
/// ```
/// use perdura::Workflow;
///
/// async fn parse(text: String) -> Result<u32, std::num::ParseIntError> {
///     text.parse()
/// }
/// async fn double(number: u32) -> Result<u32, std::num::ParseIntError> {
///     Ok(number * 2)
/// }
///
/// let workflow: Workflow<String, u32> = Workflow::new("double").step(parse).step(double);
/// ```
///
/// Steps that do not fit do not compile:
///
/// ```compile_fail,E0277
/// # use perdura::Workflow;
/// # async fn parse(text: String) -> Result<u32, std::num::ParseIntError> { text.parse() }
/// # async fn double(number: u32) -> Result<u32, std::num::ParseIntError> { Ok(number * 2) }
/// // `double` gives a number, and `parse` takes a text: "this step cannot come here".
/// let workflow = Workflow::new("double").step(double).step(parse);
/// ```
///
/// Nor does a start with another input:
///
/// ```compile_fail,E0308
/// # use perdura::{Perdura, Workflow};
/// # async fn double(number: u32) -> Result<u32, std::num::ParseIntError> { Ok(number * 2) }
/// # async fn start(perdura: Perdura) {
/// let workflow = Workflow::new("double").step(double);
/// perdura.start(&workflow, "first", "a text").await;
/// # }
/// ```
///
/// # A changed list
///
/// The list is stored as a definition with a revision. Another list under the same name makes a new revision when it is
/// [opened](crate::Perdura::open); executions under way keep theirs. So keep the functions that those still need
/// registered, by [`Opening::step`](crate::Opening::step) under `WORKFLOW.STEP`, until they have ended. If one is
/// missing all the same:
///
/// | The step | What follows |
/// |---|---|
/// | was being called when the process ended | it is held, because the call may have been made; with the function back, a person [resolves](crate::Run::resolve) it |
/// | had not been called yet | the execution fails with `States.Runtime`; with the function back, [`redrive`](crate::Run::redrive) goes on from there |
///
/// The functions of the old version wrote the data of executions under way. Give a new field of a type a default
/// (`#[serde(default)]`); a step that cannot parse its input fails with `Perdura.InputMismatch`, before it is called.
pub struct Workflow<I, O> {
    pub(crate) name: Arc<str>,
    pub(crate) body: Body,
    /// Made once: each start compares it with the deployed one.
    definition: OnceLock<Arc<str>>,
    types: PhantomData<fn(I) -> O>,
}

/// Where the definition comes from.
#[derive(Clone)]
pub(crate) enum Body {
    List(Vec<Parts>),
    Definition(Arc<str>),
    /// A step was added to a definition; opening reports that as a mistake.
    Mixed,
}

impl<T> Workflow<T, T> {
    /// An empty list under this name.
    ///
    /// ```
    /// # use perdura::Workflow;
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// let workflow = Workflow::new("double").step(double);
    /// # drop(workflow);
    /// ```
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self::of(name.into(), Body::List(Vec::new()))
    }
}

impl<I, O> Workflow<I, O> {
    /// A workflow in the States Language, as JSON. Its tasks call steps as `arn:perdura:step:::NAME`, under the names
    /// by which [`Opening::step`](crate::Opening::step) registered them. The types describe its input and its output;
    /// they are checked when it runs.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use perdura::{Perdura, StepError, Workflow};
    ///
    /// async fn double(number: u32) -> Result<u32, StepError> {
    ///     Ok(number * 2)
    /// }
    ///
    /// let each = Workflow::<Vec<u32>, Vec<u32>>::from_definition("each", r#"{
    ///     "StartAt": "Each",
    ///     "States": {"Each": {"Type": "Map", "End": true, "ItemProcessor": {
    ///         "StartAt": "Double",
    ///         "States": {"Double": {"Type": "Task", "Resource": "arn:perdura:step:::double", "End": true}}
    ///     }}}
    /// }"#);
    /// let perdura = Perdura::in_memory().step("double", double).workflow(&each).await?;
    /// assert_eq!(perdura.start(&each, "first", vec![1, 2, 3]).await?.await?, [2, 4, 6]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn from_definition(name: impl Into<Arc<str>>, definition: impl Into<Arc<str>>) -> Self {
        Self::of(name.into(), Body::Definition(definition.into()))
    }

    /// One more step, named after its function. Its input is the output of the step before.
    ///
    /// ```
    /// # use perdura::Workflow;
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// # async fn show(number: u32) -> Result<String, std::io::Error> { Ok(number.to_string()) }
    /// let workflow: Workflow<u32, String> = Workflow::new("double").step(double).step(show);
    /// ```
    pub fn step<S, M>(self, step: S) -> Workflow<I, S::Output>
    where
        S: IntoStep<O, M>,
    {
        self.with(step.into_step())
    }

    /// One more step, under this name: for closures, and for a function that is used twice.
    ///
    /// ```
    /// # use perdura::{StepError, Workflow};
    /// let rate = 3;
    /// let scale = move |number: u32| async move { Ok::<_, StepError>(number * rate) };
    /// let workflow: Workflow<u32, u32> = Workflow::new("scale").named("Once", scale).named("Twice", scale);
    /// ```
    pub fn named<S, M>(self, name: impl Into<String>, step: S) -> Workflow<I, S::Output>
    where
        S: IntoStep<O, M>,
    {
        self.with(step.into_step().named(name))
    }

    fn with<T>(self, step: Step<O, T>) -> Workflow<I, T> {
        let body = match self.body {
            Body::List(mut steps) => {
                steps.push(step.parts);
                Body::List(steps)
            }
            Body::Definition(_) | Body::Mixed => Body::Mixed,
        };
        Workflow::of(self.name, body)
    }

    /// Its name.
    ///
    /// ```
    /// # use perdura::Workflow;
    /// assert_eq!(Workflow::<u32, u32>::new("double").name(), "double");
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The workflow in the States Language, as it is stored and as `perdura validate` reads it.
    ///
    /// ```
    /// # use perdura::Workflow;
    /// # async fn double(number: u32) -> Result<u32, std::io::Error> { Ok(number * 2) }
    /// let definition = Workflow::new("double").step(double).definition();
    /// assert!(definition.contains("arn:perdura:step:::double.double"));
    /// ```
    pub fn definition(&self) -> Arc<str> {
        self.definition.get_or_init(|| self.body.definition(&self.name)).clone()
    }

    fn of(name: Arc<str>, body: Body) -> Self {
        Self { name, body, definition: OnceLock::new(), types: PhantomData }
    }
}

impl<I, O> Clone for Workflow<I, O> {
    fn clone(&self) -> Self {
        Self { definition: self.definition.clone(), ..Self::of(self.name.clone(), self.body.clone()) }
    }
}

impl<I, O> fmt::Debug for Workflow<I, O> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Workflow({})", self.name)
    }
}

impl Body {
    pub(crate) fn definition(&self, workflow: &str) -> Arc<str> {
        match self {
            Self::List(steps) => list(workflow, steps).to_string().into(),
            Self::Definition(text) => text.clone(),
            Self::Mixed => "{}".into(),
        }
    }

    /// The mistakes in the list, before it is parsed.
    pub(crate) fn problems(&self, workflow: &str) -> Vec<String> {
        let mut problems: Vec<String> = bad_name("workflow", workflow).into_iter().collect();
        match self {
            Self::Definition(_) => {}
            Self::Mixed => problems.push(format!(
                "the workflow {workflow:?} is a definition, and a step was added to it: write a Task state into the definition"
            )),
            Self::List(steps) if steps.is_empty() => {
                problems.push(format!("the workflow {workflow:?} has no steps: add one with `.step(function)`"));
            }
            Self::List(steps) => {
                let unnamed = steps.iter().filter(|step| step.name.is_none()).count();
                if unnamed > 0 {
                    problems.push(format!(
                        "the workflow {workflow:?} has a closure without a name: add it with `.named(\"Name\", closure)`"
                    ));
                }
                for (at, step) in steps.iter().enumerate() {
                    let Some(name) = &step.name else { continue };
                    problems.extend(bad_name("step", name));
                    if steps[..at].iter().any(|other| other.name.as_ref() == Some(name)) {
                        problems.push(format!(
                            "the workflow {workflow:?} has two steps {name:?}: give one another name with `.named(\"Name\", function)`"
                        ));
                    }
                }
            }
        }
        problems
    }
}

/// The name under which a step of a list is registered, with the workflow's name: two workflows may each have a
/// `validate`.
pub(crate) fn registered(workflow: &str, step: &Parts) -> String {
    format!("{workflow}.{}", step.name.as_deref().unwrap_or_default())
}

/// Why Step Functions would refuse this name.
pub(crate) fn bad_name(whose: &str, name: &str) -> Option<String> {
    if name.is_empty() || name.chars().count() > NAME_MAX {
        return Some(format!("the name of a {whose} has 1 to {NAME_MAX} characters, and {name:?} has not"));
    }
    let bad = name.chars().find(|char| !is_allowed_in_name(*char))?;
    Some(format!("the name of a {whose} cannot have {bad:?} in it, as {name:?} has"))
}

/// A list as a machine: one Task for each step, in a row. The same list gives the same text.
fn list(workflow: &str, steps: &[Parts]) -> Value {
    let name = |at: usize| steps.get(at).map(|step| step.name.clone().unwrap_or_default());
    let mut states = Map::new();
    for (at, step) in steps.iter().enumerate() {
        let mut state = Map::new();
        state.insert("Type".into(), "Task".into());
        state.insert("Resource".into(), format!("arn:perdura:step:::{}", registered(workflow, step)).into());
        if let Some(timeout) = step.timeout {
            state.insert("TimeoutSeconds".into(), whole_seconds(timeout).into());
        }
        if let Some(retry) = &step.retry {
            state.insert("Retry".into(), json!([retrier(retry)]));
        }
        match name(at + 1) {
            Some(next) => state.insert("Next".into(), next.into()),
            None => state.insert("End".into(), true.into()),
        };
        states.insert(name(at).unwrap_or_default(), state.into());
    }
    json!({"StartAt": name(0), "States": states})
}

fn retrier(retry: &Retry) -> Value {
    let mut retrier = json!({
        "ErrorEquals": ["States.ALL"],
        "IntervalSeconds": whole_seconds(retry.first),
        "MaxAttempts": retry.times,
        "BackoffRate": retry.rate,
    });
    if let Some(most) = retry.most {
        retrier["MaxDelaySeconds"] = whole_seconds(most).into();
    }
    retrier
}

/// The States Language has whole seconds, at least 1.
fn whole_seconds(duration: Duration) -> u64 {
    (duration.as_secs() + u64::from(duration.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step_error::StepError;

    async fn parse(text: String) -> Result<u32, StepError> {
        Ok(text.parse()?)
    }

    async fn double(number: u32) -> Result<u32, StepError> {
        Ok(number * 2)
    }

    #[test]
    fn a_list_is_a_row_of_tasks_with_what_was_said_of_each() {
        let retry = Retry::times(3).first_after(Duration::from_millis(1_500)).at_most(Duration::from_mins(1));
        let careful = Step::new(double).retry(retry).timeout(Duration::from_secs(30));
        let workflow = Workflow::new("math").step(parse).step(careful).named("Again", double);
        let expected = json!({"StartAt": "parse", "States": {
            "parse": {"Type": "Task", "Resource": "arn:perdura:step:::math.parse", "Next": "double"},
            "double": {
                "Type": "Task",
                "Resource": "arn:perdura:step:::math.double",
                "TimeoutSeconds": 30,
                "Retry": [{
                    "ErrorEquals": ["States.ALL"],
                    "IntervalSeconds": 2,
                    "MaxAttempts": 3,
                    "BackoffRate": 2.0,
                    "MaxDelaySeconds": 60,
                }],
                "Next": "Again",
            },
            "Again": {"Type": "Task", "Resource": "arn:perdura:step:::math.Again", "End": true},
        }});
        assert_eq!(serde_json::from_str::<Value>(&workflow.definition()).unwrap(), expected);
        assert_eq!(workflow.definition(), workflow.clone().definition());
    }

    #[test]
    fn a_mistake_in_a_list_is_told_with_its_remedy() {
        let closure = |number: u32| async move { Ok::<_, StepError>(number) };
        let cases = [
            (Workflow::<u32, u32>::new("empty"), "has no steps: add one"),
            (Workflow::new("a b").step(double), "cannot have ' ' in it"),
            (Workflow::new("").step(double), "has 1 to 80 characters"),
            (Workflow::new("twice").step(double).step(double), "two steps \"double\""),
            (Workflow::new("closure").step(closure), "closure without a name"),
            (Workflow::new("colon").named("a:b", double), "cannot have ':' in it"),
            (Workflow::from_definition("mixed", "{}").step(double), "write a Task state"),
        ];
        for (workflow, expected) in cases {
            let problems = workflow.body.problems(&workflow.name);
            assert!(problems.len() == 1 && problems[0].contains(expected), "{workflow:?}: {problems:?}");
        }
        let good = Workflow::new("good").step(parse).step(double).named("again", double);
        assert_eq!(good.body.problems("good"), [] as [String; 0]);
    }
}
