//! Settings, and backups into the folder that is configured for them.

use super::asked::Asked;
use super::problem::{Code, Problem};
use super::shapes::BACK_UP;
use super::{Desk, Told};
use crate::data::Data;
use perdura_store::audit::{Entry, Subject, Verb};
use serde_json::json;

/// The longest name of a backup.
const NAME_MAX: usize = 128;

pub(super) fn settings(desk: &Desk, asked: &Asked) -> Told {
    let prefix = asked.query("prefix").unwrap_or_default();
    let all = desk.data.house().settings.iter();
    let items: Vec<_> = all.filter(|setting| setting.name.starts_with(prefix)).collect();
    Told::json(json!({ "items": items }).to_string())
}

/// Copies everything. Who did that is on the audit before it is done: a copy has all that anybody could read.
pub(super) async fn back_up(desk: &Desk, asked: Asked) -> Result<Told, Problem> {
    let given = asked.members(&BACK_UP)?.text("name");
    let at = desk.data.moment().now.to_string();
    let name = given.unwrap_or_else(|| format!("perdura-{}", at.replace([':', '.'], "-")));
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.');
    if name.is_empty() || name.len() > NAME_MAX || name.starts_with('.') || !name.chars().all(is_plain) {
        let what =
            format!("the name of a backup has up to {NAME_MAX} letters, digits, and - _ . but not first");
        return Err(Problem::invalid(what));
    }
    let Some(make) = desk.data.house().backups.clone() else {
        let what = "no folder for backups is configured";
        return Err(
            Problem::new(Code::Conflict, what).but("set serve.backup_folder, or run `perdura backup` there")
        );
    };
    if let Some(by) = desk.data.door().origin() {
        let told = desk.data.door().witness(Entry::done(by, Verb::Read, Subject::Installation)).await;
        told.map_err(|why| Problem::from(crate::Refusal::from(why)))?;
    }
    let made = desk.threads.changing.run(move || make(&name)).await??;
    tracing::info!(file = made.file, bytes = made.bytes, "backed up");
    Ok(Told::json(json!(made).to_string()))
}
