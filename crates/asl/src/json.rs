//! JSON as the States Language needs it.
//!
//! A [`Value`] is cheap to clone (its large parts are shared), keeps the order of keys, and keeps numbers as they are:
//! `1` stays `1`, and an integer of any length keeps its digits. A [`Payload`] is a document as text, as values, or as
//! both: a state that only passes its input on never parses it, and one that only builds its output never prints it
//! twice.

mod lexer;
mod map;
mod number;
mod parse;
mod payload;
mod value;

pub use lexer::{Lexer, SyntaxError, Token, without_mark};
pub use map::Map;
pub use number::Number;
pub(crate) use parse::parse_without_signed_zeros;
pub use parse::{DEPTH_MAX, parse};
pub use payload::Payload;
pub use value::Value;

/// Builds a [`Map`] from literal keys: `members! {"a" => 1, "b" => "text"}`.
#[macro_export]
macro_rules! members {
    ($($key:literal => $value:expr),* $(,)?) => {{
        #[allow(unused_mut)]
        let mut map = $crate::json::Map::new();
        $(map.insert($key, $crate::json::Value::from($value));)*
        map
    }};
}

/// The same as an object [`Value`].
#[macro_export]
macro_rules! object {
    ($($member:tt)*) => {
        $crate::json::Value::from($crate::members! { $($member)* })
    };
}
