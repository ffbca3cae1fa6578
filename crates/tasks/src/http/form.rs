//! URL encoding of query parameters and of form bodies.

use super::arguments::{ArrayFormat, scalar};
use perdura_engine::asl::json::{Map, Value};
use perdura_sigv4::escaped;

/// The form is larger than a payload may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// Encodes an object as a form. Nested members are named as in `a[b]`. A name is repeated for each value under it, so a
/// small document can make a long form: it ends at `bytes_max`.
pub(super) fn encode(body: &Value, format: ArrayFormat, bytes_max: usize) -> Result<String, TooLong> {
    let mut form = Form { text: String::new(), format, bytes_max };
    for (name, value) in body.as_object().into_iter().flat_map(Map::iter) {
        form.add(&escaped(&**name, false), value)?;
    }
    Ok(form.text)
}

struct Form {
    text: String,
    format: ArrayFormat,
    bytes_max: usize,
}

impl Form {
    fn add(&mut self, name: &str, value: &Value) -> Result<(), TooLong> {
        match value {
            Value::Object(members) => {
                members.iter().try_for_each(|(inner, value)| self.add(&nested(name, inner), value))
            }
            Value::Array(items) => self.add_all(name, items),
            Value::Null => self.pair(name, ""),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.pair(name, &escaped(&*scalar(value).unwrap_or_default(), false))
            }
        }
    }

    fn add_all(&mut self, name: &str, items: &[Value]) -> Result<(), TooLong> {
        if self.format == ArrayFormat::Commas && !items.is_empty() {
            let texts: Option<Vec<_>> =
                items.iter().map(|item| scalar(item).map(|text| escaped(&*text, false))).collect();
            if let Some(texts) = texts {
                return self.pair(name, &texts.join(","));
            }
        }
        for (at, item) in items.iter().enumerate() {
            match self.format {
                ArrayFormat::Repeat => self.add(name, item)?,
                ArrayFormat::Brackets => self.add(&nested(name, ""), item)?,
                // A list of values cannot show where an object in it begins, so objects get their index.
                ArrayFormat::Indices | ArrayFormat::Commas => {
                    self.add(&nested(name, &at.to_string()), item)?;
                }
            }
        }
        Ok(())
    }

    fn pair(&mut self, name: &str, value: &str) -> Result<(), TooLong> {
        if self.text.len() + name.len() + value.len() + 2 > self.bytes_max {
            return Err(TooLong);
        }
        if !self.text.is_empty() {
            self.text.push('&');
        }
        self.text.push_str(name);
        self.text.push('=');
        self.text.push_str(value);
        Ok(())
    }
}

fn nested(outer: &str, inner: &str) -> String {
    format!("{outer}%5B{}%5D", escaped(inner, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_engine::asl::json::parse;

    #[test]
    fn arrays_are_named_in_four_ways() {
        use ArrayFormat::{Brackets, Commas, Indices, Repeat};
        let table = [
            (r#"{"a":["x","y"]}"#, Indices, "a%5B0%5D=x&a%5B1%5D=y"),
            (r#"{"a":["x","y"]}"#, Repeat, "a=x&a=y"),
            (r#"{"a":["x","y"]}"#, Commas, "a=x,y"),
            (r#"{"a":["x","y"]}"#, Brackets, "a%5B%5D=x&a%5B%5D=y"),
            (r#"{"a":["x,1","y z"]}"#, Commas, "a=x%2C1,y%20z"),
            (r#"{"a":[{"b":1},{"b":2}]}"#, Commas, "a%5B0%5D%5Bb%5D=1&a%5B1%5D%5Bb%5D=2"),
            (r#"{"a":[]}"#, Commas, ""),
            (r#"{"a":[[1,2],[3]]}"#, Indices, "a%5B0%5D%5B0%5D=1&a%5B0%5D%5B1%5D=2&a%5B1%5D%5B0%5D=3"),
            (r#"{"b":true,"n":1.50,"s":"ñ&=","z":null}"#, Indices, "b=true&n=1.50&s=%C3%B1%26%3D&z="),
            (
                r#"{"description":"Monthly subscription","metadata":{"order_details":"monthly report"}}"#,
                Indices,
                "description=Monthly%20subscription&metadata%5Border_details%5D=monthly%20report",
            ),
            ("{}", Indices, ""),
        ];
        for (body, format, expected) in table {
            let value = parse(body).expect(body);
            assert_eq!(encode(&value, format, 1_000).as_deref(), Ok(expected), "{body} {format:?}");
        }
    }

    #[test]
    fn a_form_ends_at_its_bound() {
        let value = parse(r#"{"name":{"a":1,"b":2}}"#).expect("JSON");
        let form = "name%5Ba%5D=1&name%5Bb%5D=2";
        assert_eq!(encode(&value, ArrayFormat::Indices, form.len()).as_deref(), Ok(form));
        assert_eq!(encode(&value, ArrayFormat::Indices, form.len() - 1), Err(TooLong));
    }
}
