//! TEMP
use perdura_asl::json::Payload;
use perdura_asl::resource::Resource;
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Policy {
    pub uncertain: Uncertain,
    pub key_memory_ms: i64,
}
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Uncertain {
    Retry,
    Hold,
}
impl Default for Policy {
    fn default() -> Self {
        Self { uncertain: Uncertain::Retry, key_memory_ms: 86_400_000 }
    }
}
#[allow(missing_docs)]
pub trait Destinations: Send + Sync {
    fn policy(&self, resource: &Resource, input: &Payload) -> Policy;
}
