//! Tables for people: columns as wide as needed, without control characters.

use crate::terminal::{self, harmless};
use anyhow::Result;
use perdura_engine::Labels;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

/// Prints rows under a head, columns two spaces apart.
pub(crate) fn print(head: &[&str], rows: &[Vec<String>]) -> Result<()> {
    let head = head.iter().map(ToString::to_string).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = std::iter::once(head)
        .chain(rows.iter().map(|row| row.iter().map(|cell| harmless(cell)).collect()))
        .collect();
    terminal::print(lines(&rows).as_bytes())
}

/// Prints names with their values, one on a line.
pub(crate) fn print_pairs(pairs: &[(&str, String)]) -> Result<()> {
    let rows: Vec<Vec<String>> =
        pairs.iter().map(|(name, value)| vec![(*name).to_owned(), harmless(value)]).collect();
    terminal::print(lines(&rows).as_bytes())
}

/// Labels as they are given on the command line.
pub(crate) fn labels(labels: &Labels) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// Prints one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    terminal::print(&json_line(value)?)
}

/// One line of JSON.
pub(crate) fn json_line(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

fn lines(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.width()));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_in_line_whatever_is_in_them() {
        let rows = [vec!["a", "long name", "x"], vec!["日本", "b", "y"], vec!["c", "", ""]];
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect();
        assert_eq!(lines(&rows), "a     long name  x\n日本  b          y\nc\n");
    }
}
