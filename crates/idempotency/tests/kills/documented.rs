//! What must come of each story: the tables in `docs/idempotency.md`, so that nothing else is documented than was seen.

use crate::caller::Route;
use crate::place::Store;

/// The columns of a table, as far as this store has them.
fn column(route: Route) -> usize {
    match route {
        Route::Payments => 0,
        Route::Transfers => 1,
        Route::Orders => 2,
        Route::Levels | Route::Naive | Route::KeylessOrders | Route::UnfencedLevels => {
            panic!("{} is in no table", route.name())
        }
    }
}

/// The text of a cell. `group`: which three of the row's columns.
pub(crate) fn cell(store: Store, row: &str, group: usize, route: Route) -> &'static str {
    let text = include_str!("../../../../docs/idempotency.md");
    let (_, section) = text.split_once("\n## The fault matrix\n").expect("the section is there");
    let section = section.split("\n## ").next().expect("it has an end");
    let start = format!("| {row} |");
    let mut lines = section.lines().filter_map(|line| line.strip_prefix(&start));
    let (Some(cells), None) = (lines.next(), lines.next()) else { panic!("{row:?} should be one row there") };
    let cell = cells.split('|').nth(3 * group + column(route)).expect("it has a cell for each").trim();
    // The text says it: in a server, one that is stopped in its transaction holds up nobody.
    let is_stopped_in_a_server = store != Store::Sqlite && group == 1;
    if is_stopped_in_a_server { cell.strip_prefix("waits → ").unwrap_or(cell) } else { cell }
}
