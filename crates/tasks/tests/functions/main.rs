//! Functions against a receiver of their own, on the real client and real processes.

mod durably;
mod kinds;
mod receiver;
