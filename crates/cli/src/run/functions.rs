//! Functions as local commands: a bounded number at once, each ended when nobody waits for it.

use super::config::Config;
use super::driver::{ExecutionNo, Message};
use super::process::{self, Ended, Group};
use perdura_engine::asl::json::Payload;
use perdura_engine::{By, Call, EffectKey, Outcome, StrandId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

mod outcome;
mod wanted;

pub(crate) use outcome::{Shape, missing, outcome as outcome_of, timed_out};
pub(crate) use wanted::{Wanted, wanted};

/// How many commands run at once; further calls wait for a place.
pub(crate) const AT_ONCE_MAX: usize = 32;

/// All calls of functions.
#[derive(Debug)]
pub(crate) struct Functions {
    config: Config,
    bytes_max: usize,
    inbox: Sender<Message>,
    last: u64,
    running: BTreeMap<u64, Running>,
    waiting: VecDeque<(u64, Job)>,
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) execution: ExecutionNo,
    pub(crate) call: Call,
    pub(crate) function: Arc<str>,
    pub(crate) payload: Payload,
    pub(crate) shape: Shape,
}

#[derive(Debug)]
struct Running {
    job: Job,
    group: Group,
    ends: Option<(Instant, Duration)>,
}

impl Functions {
    /// Those of a configuration; how they end is sent to `inbox`.
    pub(crate) fn new(config: Config, bytes_max: usize, inbox: Sender<Message>) -> Self {
        Self { config, bytes_max, inbox, last: 0, running: BTreeMap::new(), waiting: VecDeque::new() }
    }

    /// Whether there is such a function.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.config.functions.contains_key(name)
    }

    /// Where functions are configured, for a sentence.
    pub(crate) fn file(&self) -> String {
        self.config.file.as_ref().map_or_else(|| "perdura.toml".into(), |file| file.display().to_string())
    }

    /// Whether nothing is under way.
    pub(crate) fn are_idle(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }

    /// Calls a function, now or when there is a place.
    pub(crate) fn call(&mut self, job: Job) {
        self.last += 1;
        self.waiting.push_back((self.last, job));
        self.start_more();
    }

    fn start_more(&mut self) {
        while self.running.len() < AT_ONCE_MAX
            && let Some((number, job)) = self.waiting.pop_front()
        {
            let Some(function) = self.config.functions.get(&*job.function).cloned() else { continue };
            let group = Group::default();
            let ends = function.timeout.and_then(|most| Some((Instant::now().checked_add(most)?, most)));
            let (inbox, shared, bytes_max) = (self.inbox.clone(), group.clone(), self.bytes_max);
            let (key, input) = (job.call.key.wire().to_string(), job.payload.text().clone());
            let started = thread::Builder::new().name(job.function.to_string()).spawn({
                let inbox = inbox.clone();
                move || {
                    let ended = process::run(&function, &key, input, bytes_max, &shared);
                    // The execution may have ended meanwhile, and nobody listens.
                    let _ = inbox.send(Message::Ended { number, ended });
                }
            });
            self.running.insert(number, Running { job, group, ends });
            if let Err(error) = started {
                let reason = format!("cannot start a thread for it: {error}");
                let _ = inbox.send(Message::Ended { number, ended: Ended::NotStarted { reason } });
            }
        }
    }

    /// A command ended. `None`: nobody waits for it any more.
    pub(crate) fn ended(&mut self, number: u64, ended: &Ended) -> Option<(ExecutionNo, By, Outcome)> {
        let Running { job, .. } = self.running.remove(&number)?;
        self.start_more();
        Some(job.settled(ended))
    }

    /// Nobody waits for this call any more.
    pub(crate) fn cancel(&mut self, execution: ExecutionNo, strand: StrandId, key: &EffectKey) {
        self.drop_those(|job| {
            job.execution == execution && job.call.strand == strand && job.call.key == *key
        });
    }

    /// Nobody waits for anything that these executions called.
    pub(crate) fn cancel_all(&mut self, executions: &BTreeSet<ExecutionNo>) {
        self.drop_those(|job| executions.contains(&job.execution));
    }

    fn drop_those(&mut self, is_meant: impl Fn(&Job) -> bool) {
        self.waiting.retain(|(_, job)| !is_meant(job));
        // What comes of it is not waited for: a retry has the same key, and must not be given this outcome.
        for (_, running) in self.running.extract_if(.., |_, running| is_meant(&running.job)) {
            running.group.kill();
        }
        self.start_more();
    }

    /// When the next one will have taken too long.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.running.values().filter_map(|running| running.ends.map(|(at, _)| at)).min()
    }

    /// Ends one that took too long, if there is one.
    pub(crate) fn time_out(&mut self, now: Instant) -> Option<(ExecutionNo, By, Outcome)> {
        let late = |running: &Running| running.ends.is_some_and(|(at, _)| at <= now);
        let number = *self.running.iter().find(|(_, running)| late(running))?.0;
        let Running { job, group, ends } = self.running.remove(&number)?;
        group.kill();
        self.start_more();
        let most = ends.map(|(_, most)| most).unwrap_or_default();
        Some((job.execution, job.by(), timed_out(most)))
    }

    /// Ends all of them.
    pub(crate) fn kill_all(&mut self) {
        self.waiting.clear();
        for running in std::mem::take(&mut self.running).into_values() {
            running.group.kill();
        }
    }
}

impl Job {
    fn by(&self) -> By {
        By::Key { strand: self.call.strand, key: self.call.key.clone() }
    }

    fn settled(self, ended: &Ended) -> (ExecutionNo, By, Outcome) {
        let outcome = outcome_of(ended, &self.call.resource.arn, self.shape);
        (self.execution, self.by(), outcome)
    }
}

/// The function that a name means: bare, with an alias or version behind it, or as an ARN.
pub(crate) fn plain_name(name: &str) -> &str {
    let name = name.rsplit_once("function:").map_or(name, |(_, name)| name);
    name.split(':').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_known_by_its_bare_name() {
        for name in [
            "charge",
            "charge:live",
            "arn:aws:lambda:us-east-1:123456789012:function:charge",
            "arn:aws:lambda:us-east-1:123456789012:function:charge:7",
            "123456789012:function:charge",
        ] {
            assert_eq!(plain_name(name), "charge", "{name}");
        }
    }
}
