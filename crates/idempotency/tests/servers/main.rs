//! The stores that live in a server: they keep the promises of the suite, and what servers add to them. Run through
//! `scripts/with-servers`.

mod pg;
mod pg_suite;
mod redis_server;
mod redis_suite;
