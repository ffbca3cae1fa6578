//! What the layer promises at the door, through a real router, on every store. Run through `scripts/with-servers`.

mod asks;
mod at_rest;
#[path = "../stores/bench.rs"]
mod bench;
mod bodies;
mod commits;
mod costs;
mod damage;
mod digests;
mod duplicates;
#[allow(dead_code, reason = "the tests of the histories use the rest")]
#[path = "../faulty/mod.rs"]
mod faulty;
mod floods;
mod grounds;
mod idempot;
mod identity;
mod keeping;
mod keys;
mod leases;
mod locals;
mod logs;
mod misplaced;
mod modes;
mod named;
mod numbers;
mod operators;
mod outages;
mod outcomes;
#[allow(dead_code, reason = "it is shared with the tests of the stores in servers")]
#[path = "../servers/pg.rs"]
mod pg;
mod protocols;
mod ready;
#[allow(dead_code, reason = "it is shared with the tests of the stores in servers")]
#[path = "../servers/redis_server.rs"]
mod redis_server;
mod replays;
mod rights;
mod routing;
mod secrets;
mod shop;
mod spans;
mod starting;
mod trailers;
mod wire;
