//! The plan: requests and faults, drawn from the seed before the run.

use crate::dice::Dice;
use crate::machines::{Script, scripts};
use crate::receiver::Manners;
use crate::sim::Ways;
use crate::store::Rates;
use perdura_engine::KEPT_BYTES_MAX;
use std::sync::Arc;

/// Kinds of trouble that can be requested by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Receivers act and die before they answer, then refuse connections, then come back; or answer with a redirect or
    /// a conflict.
    Dying,
    /// Commands end with an exit code, before their effect or after it.
    Exits,
    /// Workers miss a heartbeat and answer late, while another works.
    Overlaps,
    /// A Parallel or a Map runs again while its branches are in doubt.
    Fans,
    /// A Distributed Map runs again while its children are in doubt, or is stopped while they are held or asleep.
    Spreads,
    /// Ended executions are swept at any moment, also right after a redrive.
    Sweeps,
    /// The wall clock is wrong when a process begins, and is set right a little later.
    Clocks,
    /// Several nodes hold some Shards each, and the messages between them are lost, doubled and late.
    Peers,
}

impl Trouble {
    pub const ALL: [Self; 8] = [
        Self::Dying,
        Self::Exits,
        Self::Overlaps,
        Self::Fans,
        Self::Spreads,
        Self::Sweeps,
        Self::Clocks,
        Self::Peers,
    ];
    /// The kinds that every run may have.
    const USUAL: [Self; 8] = Self::ALL;
}

impl std::str::FromStr for Trouble {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|one| format!("{one:?}") == name).ok_or(())
    }
}

/// Everything about a run that its seed decides in advance.
pub(crate) struct Plan {
    /// The machines.
    pub(crate) scripts: Vec<Script>,
    /// The trouble requested by name.
    pub(crate) trouble: Option<Trouble>,
    /// Only machines whose events follow from their input; the run is compared with one without faults.
    pub(crate) steadfast: bool,
    /// How many processes share the store.
    pub(crate) processes: usize,
    /// The number of Shards.
    pub(crate) shards: u16,
    /// Each process holds some of the Shards; otherwise one holds all.
    pub(crate) is_cluster: bool,
    /// The data is in a file.
    pub(crate) on_disk: bool,
    /// The executions to start.
    pub(crate) starts: Vec<PlannedStart>,
    /// Faults with a time of their own.
    pub(crate) faults: Vec<(i64, Fault)>,
    /// Random faults.
    pub(crate) weather: Weather,
    /// After this there are no faults.
    pub(crate) calm_from: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct PlannedStart {
    pub(crate) at: i64,
    pub(crate) script: usize,
    /// Its name; without one it is not started twice.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) input: Arc<str>,
    /// How many states one Turn may enter.
    pub(crate) turn_states_max: u32,
    /// How many bytes of completed calls are kept for another run of a Parallel or Map.
    pub(crate) kept_bytes_max: usize,
    /// How long after its start a client stops it.
    pub(crate) stopped_after: Option<i64>,
    /// How often a client redrives it after it failed.
    pub(crate) redriven: u32,
}

/// A fault at a planned time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// A process is killed.
    Crash(usize),
    /// A process ends in order, and begins again.
    Restart(usize),
    /// A process is paused.
    Pause(usize, i64),
    /// A process is paused, and another one begins in its place.
    Replace(usize, i64),
    /// The wall clock is set so far ahead of true time, or behind.
    SetWall(i64),
    /// A process is killed, and begins again while the wall clock is so far ahead of true time, or behind, for so long.
    BeginWrong(usize, i64, i64),
    /// The disk is full for a while.
    DiskFull(i64),
    /// Executions that ended so long ago are swept.
    Sweep(i64),
    /// Somebody pauses a machine, and resumes it after so long.
    Hold(Held, i64),
}

/// The target of a pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// Of which script; `None`: all machines.
    pub(crate) script: Option<usize>,
    /// With all that runs.
    pub(crate) now: bool,
}

/// Nothing, a call or two, or all of them.
const KEPT: [usize; 4] = [0, 60, KEPT_BYTES_MAX, KEPT_BYTES_MAX];

/// Steps with the policy `hold`.
pub(crate) const HELD: [&str; 3] = ["careful", "wary", "guarded"];

/// The rates of random faults, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    /// A process is killed at a boundary: before or after a commit, a reply, a call.
    pub(crate) crash: u32,
    /// A process hangs in the middle of its work.
    pub(crate) hang: u32,
    /// A process hangs with a group in hand, for so long that another takes its Shards.
    pub(crate) stall: u32,
    /// The clock is stepped in the middle of a process's work.
    pub(crate) step: u32,
    /// A commit takes long.
    pub(crate) slow_commit: u32,
    /// A read of the store takes long.
    pub(crate) slow_read: u32,
    pub(crate) disk: Rates,
    /// The network between nodes.
    pub(crate) ways: Ways,
    /// The receivers.
    pub(crate) manners: Manners,
}

impl Plan {
    /// From a seed, with this trouble in addition to the usual ones.
    pub(crate) fn of(seed: u64, trouble: Option<Trouble>) -> Self {
        let mut dice = Dice::new(seed, "plan");
        let scripts = scripts();
        let steadfast = dice.in_thousand(500) && trouble.is_none();
        let processes = if dice.in_thousand(400) { 2 } else { 1 };
        let shards = if processes == 1 { dice.between(1..=3) as u16 } else { 1 };
        let calm_from = dice.between(20_000..=400_000);
        let mut plan = Self {
            scripts,
            trouble,
            steadfast,
            processes,
            shards,
            is_cluster: false,
            on_disk: Dice::new(seed, "home").in_thousand(40),
            starts: Vec::new(),
            faults: Vec::new(),
            weather: Weather::default(),
            calm_from,
        };
        plan.draw_nodes(&mut Dice::new(seed, "nodes"));
        plan.draw_sweeps(&mut Dice::new(seed, "sweeps"));
        plan.draw_starts(&mut dice, &mut Dice::new(seed, "kept"));
        if Self::is_heavy(seed) {
            plan.draw_heap(&mut dice);
        }
        plan.draw_weather(&mut Dice::new(seed, "weather"));
        plan.draw_faults(&mut Dice::new(seed, "faults planned"));
        plan.draw_wrong_clocks(&mut Dice::new(seed, "wrong clocks"));
        plan.draw_probes(&mut Dice::new(seed, "probes"));
        plan.draw_ways(&mut Dice::new(seed, "ways"));
        plan.draw_holds(&mut Dice::new(seed, "holds"));
        plan
    }

    /// Whether this seed writes more than the journal keeps. That takes a while, so few seeds do.
    pub(crate) fn is_heavy(seed: u64) -> bool {
        Dice::new(seed, "heavy").in_thousand(2)
    }

    /// The same plan without faults.
    pub(crate) fn without_faults(mut self) -> Self {
        self.faults.clear();
        self.weather = Weather::default();
        self.processes = 1;
        self.is_cluster = false;
        self.on_disk = false;
        self
    }

    /// Whether workers are needed.
    pub(crate) fn has_activities(&self) -> bool {
        let script = |start: &PlannedStart| &self.scripts[start.script];
        let works = |script: &Script| script.name == "manager" || script.definition.contains(":activity:");
        self.starts.iter().any(|start| works(script(start)))
    }

    /// Whether held calls must be looked for.
    pub(crate) fn is_careful(&self) -> bool {
        let holds =
            |script: &Script| HELD.iter().any(|step| script.definition.contains(&format!(":::{step}")));
        let forgets = |start: &PlannedStart| start.kept_bytes_max < KEPT_BYTES_MAX;
        self.starts.iter().any(|start| forgets(start) || holds(&self.scripts[start.script]))
    }

    /// Whether this trouble may occur.
    pub(crate) fn has(&self, trouble: Trouble) -> bool {
        self.trouble == Some(trouble) || Trouble::USUAL.contains(&trouble)
    }

    /// Whether ended executions are swept.
    pub(crate) fn sweeps(&self) -> bool {
        self.faults.iter().any(|(_, fault)| matches!(fault, Fault::Sweep(_)))
    }

    /// Whether the wall clock is only ever wrong for a while, when a process begins.
    pub(crate) fn begins_wrong(&self) -> bool {
        self.faults.iter().any(|(_, fault)| matches!(fault, Fault::BeginWrong(..)))
    }

    /// How often a script is chosen.
    fn weight(&self, script: &Script) -> u32 {
        match script.trouble {
            Some(Trouble::Peers) if !self.is_cluster => 0,
            None => script.weight,
            Some(trouble) if self.trouble == Some(trouble) => script.weight * 10,
            Some(trouble) => script.weight * u32::from(self.has(trouble)),
        }
    }

    fn draw_starts(&mut self, dice: &mut Dice, kept: &mut Dice) {
        let weights: u32 = self.scripts.iter().map(|script| self.weight(script)).sum();
        for number in 0..dice.between(2..=9) {
            let script = loop {
                let mut at = dice.below(u64::from(weights)) as u32;
                let drawn = self.scripts.iter().position(|script| {
                    let weight = self.weight(script);
                    let found = at < weight;
                    at = at.saturating_sub(weight);
                    found
                });
                let drawn = drawn.expect("the weights add up");
                if self.scripts[drawn].steadfast || !self.steadfast {
                    break drawn;
                }
            };
            let named = self.steadfast || dice.in_thousand(700);
            let start = PlannedStart {
                at: dice.between(0..=self.calm_from / 2),
                script,
                name: named.then(|| format!("e{number}").into()),
                input: (self.scripts[script].input)(dice).into(),
                turn_states_max: *dice.pick(&[3, 20, 1_000]),
                kept_bytes_max: *kept.pick(&KEPT),
                stopped_after: None,
                redriven: 0,
            };
            self.starts.push(self.vary(start, dice));
            if dice.in_thousand(250) {
                let again = self.again(number as usize, dice);
                self.starts.push(again);
            }
        }
    }

    /// Writes so much while one execution waits for an answer that the journal must drop its Turns.
    fn draw_heap(&mut self, dice: &mut Dice) {
        for (number, (name, at)) in
            [("slow", 0), ("heap", 500), ("heap", 600), ("heap", 700)].into_iter().enumerate()
        {
            let script = self.scripts.iter().position(|script| script.name == name);
            let script = script.expect("it is one of the scripts");
            self.starts.push(PlannedStart {
                at,
                script,
                name: Some(format!("h{number}").into()),
                input: (self.scripts[script].input)(dice).into(),
                turn_states_max: 1_000,
                kept_bytes_max: KEPT_BYTES_MAX,
                stopped_after: None,
                redriven: 0,
            });
        }
    }

    fn vary(&self, mut start: PlannedStart, dice: &mut Dice) -> PlannedStart {
        if !self.steadfast {
            start.stopped_after = dice.in_thousand(150).then(|| dice.between(0..=40_000));
            start.redriven = u32::from(dice.in_thousand(500)) * dice.between(1..=2) as u32;
            if self.trouble == Some(Trouble::Spreads) && dice.in_thousand(700) {
                start.stopped_after = Some(dice.between(0..=20_000));
            }
            if self.trouble == Some(Trouble::Sweeps) {
                start.stopped_after = Some(dice.between(0..=20_000));
                start.redriven = 3;
            }
        }
        let has_child = self.scripts[start.script].definition.contains(":startExecution");
        if self.sweeps() && has_child {
            // If a parent has ended, its child may be swept before it, and a redrive would begin the child anew.
            start.stopped_after = None;
            start.redriven = 0;
        }
        start
    }

    /// A repeat of a start, or another input under the same name.
    fn again(&self, number: usize, dice: &mut Dice) -> PlannedStart {
        let name: Arc<str> = format!("e{number}").into();
        let first = self.starts.iter().rfind(|start| start.name.as_deref() == Some(&*name));
        let mut again = first.unwrap_or_else(|| self.starts.last().expect("one was just drawn")).clone();
        again.at += dice.between(0..=20_000);
        again.stopped_after = None;
        again.redriven = 0;
        if !self.steadfast && again.name.is_some() && dice.in_thousand(300) {
            again.input = r#"{"n":-1,"items":[],"end":0,"until":"2026-01-01T00:00:00Z"}"#.into();
        }
        again
    }

    fn draw_weather(&mut self, dice: &mut Dice) {
        // Each seed has a few kinds of trouble rather than a little of all.
        let mut rate = |of_thousand: u32, most: i64| {
            if dice.in_thousand(of_thousand) { dice.between(1..=most) as u32 } else { 0 }
        };
        self.weather = Weather {
            crash: rate(700, 60),
            hang: rate(300, 30),
            stall: rate(300, 25),
            step: rate(250, 20),
            slow_commit: rate(400, 200),
            disk: Rates {
                fails_before: rate(350, 80),
                fails_after: rate(350, 80),
                busy: rate(300, 300),
                read_fails: rate(200, 50),
            },
            ways: Ways::default(),
            manners: Manners {
                silent: rate(500, 300),
                lost: rate(500, 300),
                unsure_done: rate(500, 300),
                unsure: rate(500, 300),
                slow: rate(400, 200),
                dies: rate(800, 400),
                redirects: rate(600, 300),
                conflicts: rate(700, 500),
                refuses: rate(600, 500),
                exits: rate(800, 500),
            },
            slow_read: rate(400, 300),
        };
    }

    fn draw_faults(&mut self, dice: &mut Dice) {
        let kinds: Vec<u64> = (0..6).filter(|_| dice.in_thousand(450)).collect();
        if kinds.is_empty() {
            return;
        }
        for _ in 0..dice.between(1..=8) {
            let at = dice.between(0..=self.calm_from);
            let process = dice.below(self.processes as u64) as usize;
            let fault = match dice.pick(&kinds) {
                0 => Fault::Crash(process),
                1 => Fault::Restart(process),
                2 => Fault::Pause(process, dice.between(500..=40_000)),
                3 => Fault::Replace(process, dice.between(500..=20_000)),
                4 => Fault::SetWall(dice.between(-3_600_000..=3_600_000)),
                _ => Fault::DiskFull(dice.between(200..=15_000)),
            };
            self.faults.push((at, fault));
        }
    }

    /// Replaces other steps of the wall clock, so that true time shows which timers are early or late.
    fn draw_wrong_clocks(&mut self, dice: &mut Dice) {
        let is_likely = if self.trouble == Some(Trouble::Clocks) { 1_000 } else { 150 };
        // Two processes that take over from each other have two steady clocks, and a gap between them.
        let is_possible = self.processes == 1;
        if !self.has(Trouble::Clocks) || !is_possible || !dice.in_thousand(is_likely) {
            return;
        }
        self.weather.step = 0;
        self.faults.retain(|(_, fault)| !matches!(fault, Fault::SetWall(_)));
        // The clock is set right before the trouble ends.
        let latest = (self.calm_from - 40_000).max(0);
        for _ in 0..dice.between(1..=3) {
            // The very first process has nothing but the wall clock.
            let at = dice.between(1_000..=latest.max(1_000));
            let process = dice.below(self.processes as u64) as usize;
            let ahead_ms = *dice.pick(&[-3_600_000, 3_600_000]);
            let for_ms = dice.between(6_000..=30_000).min(self.calm_from - at - 1);
            self.faults.push((at, Fault::BeginWrong(process, ahead_ms, for_ms)));
        }
    }

    /// Several nodes with some Shards each.
    fn draw_nodes(&mut self, dice: &mut Dice) {
        let is_likely = if self.trouble == Some(Trouble::Peers) { 1_000 } else { 350 };
        if !self.has(Trouble::Peers) || !dice.in_thousand(is_likely) {
            return;
        }
        self.is_cluster = true;
        self.processes = dice.between(2..=3) as usize;
        self.shards = dice.between(2..=5) as u16;
    }

    /// After the faults end, clients repeat requests at any node.
    fn draw_probes(&mut self, dice: &mut Dice) {
        if !self.is_cluster {
            return;
        }
        let named: Vec<PlannedStart> =
            self.starts.iter().filter(|start| start.name.is_some()).cloned().collect();
        for start in named {
            let at = self.calm_from + dice.between(90_000..=120_000);
            self.starts.push(PlannedStart { at, stopped_after: None, redriven: 0, ..start });
        }
    }

    /// Machines that are started are paused now and then.
    fn draw_holds(&mut self, dice: &mut Dice) {
        // Seeds of one kind of trouble have that, and not this.
        if self.starts.is_empty() || self.trouble.is_some() || !dice.in_thousand(400) {
            return;
        }
        for _ in 0..dice.between(1..=3) {
            let at = dice.between(0..=self.calm_from);
            let script = self.starts[dice.below(self.starts.len() as u64) as usize].script;
            let script = (!dice.in_thousand(300)).then_some(script);
            let held = Held { script, now: dice.in_thousand(500) };
            self.faults.push((at, Fault::Hold(held, dice.between(0..=30_000))));
        }
    }

    fn draw_ways(&mut self, dice: &mut Dice) {
        let mut rate = |of_thousand: u32, most: i64| {
            if dice.in_thousand(of_thousand) { dice.between(1..=most) as u32 } else { 0 }
        };
        self.weather.ways = Ways { lost: rate(600, 300), doubled: rate(700, 500), slow: rate(500, 300) };
    }

    /// A swept execution cannot be compared with a run without faults.
    fn draw_sweeps(&mut self, dice: &mut Dice) {
        let is_likely = if self.trouble == Some(Trouble::Sweeps) { 1_000 } else { 400 };
        if !self.has(Trouble::Sweeps) || self.steadfast || !dice.in_thousand(is_likely) {
            return;
        }
        for _ in 0..dice.between(1..=6) {
            let at = dice.between(0..=self.calm_from);
            self.faults.push((at, Fault::Sweep(dice.between(0..=20_000))));
        }
    }
}
