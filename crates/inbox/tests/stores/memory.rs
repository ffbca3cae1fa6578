//! The memory of one process.

use crate::bench::memory;
use std::future::ready;

perdura_inbox::store_conformance!(|| ready(memory()));
