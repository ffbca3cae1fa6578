//! The play: what is started, who works on it, when the server is killed, and what a person does in the end.

use crate::books::{Memory, mix};
use crate::common::Scene;
use crate::common::server::Server;
use crate::door::{Caller, Door};
use crate::kinds::{CALL, Kind, To, Wanted, config};
use crate::receiver::Receiver;
use crate::workers::Workers;
use perdura_asl::json::Payload;
use perdura_asl::machine::MachineType;
use perdura_server::RefusalKind;
use perdura_server::control::{LedgerEntry, Request, Resolving};
use std::thread;

/// What chance there is follows from this.
const SEED: u64 = 4;
/// Who starts executions, and who works on each activity.
pub(crate) const THREADS: usize = 4;

/// A folder with a server that comes and goes, two receivers, and the workers for each.
pub(crate) struct World {
    pub(crate) scene: Scene,
    pub(crate) door: Door,
    /// Who honours keys.
    pub(crate) a: Receiver,
    /// Who does not.
    pub(crate) b: Receiver,
    workers_of_a: Workers,
    workers_of_b: Workers,
}

impl World {
    pub(crate) fn new(name: &str, memory_of_a: Memory) -> Self {
        let (a, b) = (Receiver::listen(SEED, memory_of_a), Receiver::listen(SEED, Memory::None));
        let scene =
            Scene::new(name).file("call.sh", CALL).file("perdura.toml", &config(a.address, b.address));
        let door = Door::new(scene.path("data"));
        let (workers_of_a, workers_of_b) = Default::default();
        Self { scene, door, a, b, workers_of_a, workers_of_b }
    }

    pub(crate) fn workers(&self, to: To) -> &Workers {
        match to {
            To::A => &self.workers_of_a,
            To::B => &self.workers_of_b,
        }
    }

    fn receiver(&self, to: To) -> &Receiver {
        match to {
            To::A => &self.a,
            To::B => &self.b,
        }
    }

    pub(crate) fn serve(&self) -> Server {
        let server = Server::start(&self.scene, &["--log", "warn"]);
        self.door.open();
        server
    }

    /// Kills the server, and starts another in its place.
    pub(crate) fn kill(&self, server: &mut Option<Server>) {
        server.take().expect("there is a server").end("-KILL");
        *server = Some(self.serve());
    }

    pub(crate) fn deploy(&self) {
        let mut caller = self.door.caller();
        for to in [To::A, To::B] {
            for kind in Kind::ALL {
                let definition = kind.definition(to, self.receiver(to).address);
                caller.ask(&Request::Deploy {
                    machine: kind.machine(to),
                    kind: MachineType::Standard,
                    definition,
                    role: None,
                });
            }
        }
    }

    /// Starts these, each as often as it takes: the second start under a name finds the first, and is refused where
    /// that has ended already.
    fn start(&self, wanted: &[&Wanted]) {
        let mut caller = self.door.caller();
        for wanted in wanted {
            let start = Request::Start {
                machine: wanted.machine.clone(),
                name: Some(wanted.name.clone()),
                input: Payload::from_text(wanted.input.to_string()).expect("it is JSON"),
                strict: false,
                labels: perdura_engine::Labels::default(),
                key: None,
            };
            match caller.try_ask(&start).expect("there is a server") {
                Ok(_) => {}
                Err(refusal) => assert_eq!(refusal.kind, RefusalKind::Conflict, "{}: {refusal}", wanted.name),
            }
        }
    }

    /// Works on an activity until there are no more servers.
    pub(crate) fn work(&self, to: To) {
        self.workers(to).work(&self.door, self.receiver(to), to);
    }

    /// Two hundred executions for each kill, started while the server is killed.
    pub(crate) fn kill_and_start(&self, server: &mut Option<Server>, kills: usize) -> Vec<Wanted> {
        let mut all = Vec::new();
        for kill in 0..kills {
            let batch = batch(kill);
            // Less than what is new in this batch, so that the moment comes.
            let moment = self.a.books().asked() + mix(SEED ^ mix(kill as u64)) as usize % 100;
            thread::scope(|scope| {
                for part in 0..THREADS {
                    let part: Vec<&Wanted> = batch.iter().skip(part).step_by(THREADS).collect();
                    scope.spawn(move || self.start(&part));
                }
                self.a.until(|books| books.asked() >= moment);
                self.kill(server);
            });
            all.extend(batch);
        }
        all
    }

    /// Says how a call went: its worker does, where one is only late, and else a person, as the receiver has it.
    pub(crate) fn resolve(&self, caller: &mut Caller<'_>, deed: &str, entry: &LedgerEntry) {
        if self.workers_of_b.let_who_holds_answer(caller, deed, entry) {
            return;
        }
        let was_done = self.b.books().settle(&entry.wire_key);
        let output = Payload::from_text(answer(deed)).expect("it is JSON");
        let resolving = Resolving {
            key: entry.key.to_string(),
            completed: was_done.then_some(output),
            failed: (!was_done).then(|| ("NotDone".to_owned(), None)),
            again: false,
            reason: "the receiver says so".into(),
        };
        let told = caller.try_ask(&Request::Resolve(resolving)).expect("there is a server");
        // It is refused where an answer came after all, or where the server was killed between doing it and saying so.
        if let Err(refusal) = told {
            assert_eq!(refusal.kind, RefusalKind::Conflict, "{deed}: {refusal}");
        }
    }

    /// The same by the command.
    pub(crate) fn resolve_by_command(&self, deed: &str, entry: &LedgerEntry) {
        let answer = answer(deed);
        let was_done = self.b.books().settle(&entry.wire_key);
        let how = if was_done { ["--completed", &answer] } else { ["--failed", "NotDone"] };
        let mut resolve = vec!["ledger", "resolve", &entry.key, "--reason", "the receiver says so"];
        resolve.extend(how);
        assert_eq!(self.scene.one(&resolve)["id"], entry.execution.to_string());
    }
}

/// What a receiver answers when it was done.
pub(crate) fn answer(deed: &str) -> String {
    format!(r#"{{"done":"{deed}"}}"#)
}

/// The executions that are started around one kill, kinds mixed.
fn batch(kill: usize) -> Vec<Wanted> {
    let kinds = [To::A, To::B].into_iter().flat_map(|to| Kind::ALL.map(|kind| (kind, to)));
    let mut batch: Vec<Wanted> = kinds
        .flat_map(|(kind, to)| {
            let share = kind.share(to);
            (0..share).map(move |number| Wanted::new(kind, to, kill * share + number))
        })
        .collect();
    batch.sort_by_key(|wanted| wanted.name.bytes().fold(SEED, |drawn, byte| mix(drawn ^ u64::from(byte))));
    batch
}
