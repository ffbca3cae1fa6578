//! The stores that live in a server: they keep the promises of the suite, and what servers add to them. Run through
//! `scripts/with-servers`.

mod crashes;
mod cuts;
mod damaged;
mod failovers;
mod fitness;
mod handlers;
mod kit;
mod pg;
mod pg_server;
mod pg_suite;
mod proxy;
mod races;
mod redis_server;
mod redis_suite;
mod stalls;
