//! The lists of docs/api.md, made of the table.

use super::problem::Code;
use super::shape::Field;
use super::table::{Answers, Mode, OPERATIONS, Operation, Reads};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The lists, as Markdown.
pub fn lists() -> String {
    let mut page = String::from("## Operations\n\n| Request | Role | Key | |\n|---|---|---|---|\n");
    for Operation { method, path, role, mode, summary, .. } in OPERATIONS {
        let (method, role, mode) = (method.name(), role.name(), mode.map_or("", Mode::name));
        writeln!(page, "| `{method} {path}` | {role} | {mode} | {summary} |").expect("a text takes all");
    }
    page.push_str("\n## Queries\n\n| Request | Parameter | Is | |\n|---|---|---|---|\n");
    for Operation { method, path, query, .. } in OPERATIONS {
        for Field { name, is, about, .. } in *query {
            let (method, words) = (method.name(), is.words());
            writeln!(page, "| `{method} {path}` | `{name}` | {words} | {about} |").expect("a text takes all");
        }
    }
    page.push_str("\n## Problems\n\n| `code` | Status | Title |\n|---|---|---|\n");
    for code in Code::ALL {
        writeln!(page, "| `{}` | {} | {} |", code.name(), code.status(), code.title())
            .expect("a text takes all");
    }
    page.push_str("\n## Bodies and answers\n\nA member in italics may be absent.\n");
    let mut shapes = BTreeMap::new();
    for operation in OPERATIONS {
        if let Reads::Members(shape) = operation.reads {
            shape.all(&mut shapes);
        }
        match operation.answers {
            Answers::A(shape) | Answers::Made(shape) | Answers::Perhaps(shape) | Answers::PageOf(shape) => {
                shape.all(&mut shapes);
            }
            Answers::Nothing | Answers::PageOfDocuments | Answers::Document | Answers::Events => {}
        }
    }
    for (name, shape) in shapes.into_iter().filter(|(_, shape)| !shape.fields.is_empty()) {
        write!(page, "\n### {name}\n\n| Member | Is | |\n|---|---|---|\n").expect("a text takes all");
        for Field { name, is, is_needed, about } in shape.fields {
            let name = if *is_needed { format!("`{name}`") } else { format!("*`{name}`*") };
            writeln!(page, "| {name} | {} | {about} |", is.words()).expect("a text takes all");
        }
    }
    page
}
