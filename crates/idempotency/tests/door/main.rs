//! What the layer promises at the door, through a real router, on every store. Run through `scripts/with-servers`.

mod asks;
mod bodies;
#[path = "../stores/clock.rs"]
mod clock;
mod digests;
mod duplicates;
mod faulty;
mod floods;
mod grounds;
mod identity;
mod keeping;
mod keys;
mod leases;
mod logs;
mod misplaced;
mod modes;
mod named;
mod operators;
mod outages;
mod outcomes;
#[allow(dead_code, reason = "it is shared with the tests of the stores in servers")]
#[path = "../servers/pg.rs"]
mod pg;
#[allow(dead_code, reason = "it is shared with the tests of the stores in servers")]
#[path = "../servers/redis_server.rs"]
mod redis_server;
mod replays;
mod rights;
mod secrets;
mod shop;
mod starting;
mod wire;
