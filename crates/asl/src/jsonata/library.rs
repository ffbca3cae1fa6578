//! The functions that every expression may call: those of JSONata 2.0.6 without `$eval`, and the six of Step
//! Functions.

mod arrays;
mod dates;
mod encoding;
mod format_number;
mod integers;
mod numbers;
mod objects;
mod patterns;
mod states;
mod strings;
mod timestamps;

use super::error::{Error, Fallible};
use super::evaluate::Evaluator;
use super::function::Function;
use super::meter::DICE;
use super::signature::Signature;
use super::value::{Array, Str, Val, truth};
use std::rc::Rc;
use std::sync::LazyLock;

macro_rules! builtins {
    ($($variant:ident $name:literal $signature:literal $arity:literal,)*) => {
        /// One function of the library.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Builtin { $($variant,)* }

        impl Builtin {
            /// The function of this name, without its `$`.
            pub(super) fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            /// How many arguments the reference's own implementation names.
            pub(super) fn arity(self) -> usize {
                match self { $(Self::$variant => $arity,)* }
            }
        }

        static SIGNATURES: LazyLock<Vec<Signature>> = LazyLock::new(|| {
            [$($signature),*].iter().map(|text| Signature::parse(text).expect("our own signatures are well formed")).collect()
        });
    };
}

builtins! {
    Sum "sum" "<a<n>:n>" 1,
    Count "count" "<a:n>" 1,
    Max "max" "<a<n>:n>" 1,
    Min "min" "<a<n>:n>" 1,
    Average "average" "<a<n>:n>" 1,
    String "string" "<x-b?:s>" 1,
    Substring "substring" "<s-nn?:s>" 3,
    SubstringBefore "substringBefore" "<s-s:s>" 2,
    SubstringAfter "substringAfter" "<s-s:s>" 2,
    Lowercase "lowercase" "<s-:s>" 1,
    Uppercase "uppercase" "<s-:s>" 1,
    Length "length" "<s-:n>" 1,
    Trim "trim" "<s-:s>" 1,
    Pad "pad" "<s-ns?:s>" 3,
    Match "match" "<s-f<s:o>n?:a<o>>" 3,
    Contains "contains" "<s-(sf):b>" 2,
    Replace "replace" "<s-(sf)(sf)n?:s>" 4,
    Split "split" "<s-(sf)n?:a<s>>" 3,
    Join "join" "<a<s>s?:s>" 2,
    FormatNumber "formatNumber" "<n-so?:s>" 3,
    FormatBase "formatBase" "<n-n?:s>" 2,
    FormatInteger "formatInteger" "<n-s:s>" 2,
    ParseInteger "parseInteger" "<s-s:n>" 2,
    Number "number" "<(nsb)-:n>" 1,
    Floor "floor" "<n-:n>" 1,
    Ceil "ceil" "<n-:n>" 1,
    Round "round" "<n-n?:n>" 2,
    Abs "abs" "<n-:n>" 1,
    Sqrt "sqrt" "<n-:n>" 1,
    Power "power" "<n-n:n>" 2,
    Boolean "boolean" "<x-:b>" 1,
    Not "not" "<x-:b>" 1,
    Map "map" "<af>" 2,
    Zip "zip" "<a+>" 0,
    Filter "filter" "<af>" 2,
    Single "single" "<af?>" 2,
    Reduce "reduce" "<afj?:j>" 3,
    Sift "sift" "<o-f?:o>" 2,
    Keys "keys" "<x-:a<s>>" 1,
    Lookup "lookup" "<x-s:x>" 2,
    Append "append" "<xx:a>" 2,
    Exists "exists" "<x:b>" 1,
    Spread "spread" "<x-:a<o>>" 1,
    Merge "merge" "<a<o>:o>" 1,
    Reverse "reverse" "<a:a>" 1,
    Each "each" "<o-f:a>" 2,
    Error "error" "<s?:x>" 1,
    Assert "assert" "<bs?:x>" 2,
    Type "type" "<x:s>" 1,
    Sort "sort" "<af?:a>" 2,
    Shuffle "shuffle" "<a:a>" 1,
    Distinct "distinct" "<x:x>" 1,
    Base64Encode "base64encode" "<s-:s>" 1,
    Base64Decode "base64decode" "<s-:s>" 1,
    EncodeUrlComponent "encodeUrlComponent" "<s-:s>" 1,
    EncodeUrl "encodeUrl" "<s-:s>" 1,
    DecodeUrlComponent "decodeUrlComponent" "<s-:s>" 1,
    DecodeUrl "decodeUrl" "<s-:s>" 1,
    ToMillis "toMillis" "<s-s?:n>" 2,
    FromMillis "fromMillis" "<n-s?s?:s>" 3,
    Clone "clone" "<(oa)-:o>" 1,
    Now "now" "<s?s?:s>" 2,
    Millis "millis" "<:n>" 0,
    Partition "partition" "<x?n?:a>" 2,
    Range "range" "<nnn?:a<n>>" 3,
    Hash "hash" "<ss?:s>" 2,
    Random "random" "<n?:n>" 1,
    Uuid "uuid" "<:s>" 0,
    Parse "parse" "<s?:x>" 1,
}

impl Builtin {
    pub(super) fn signature(self) -> &'static Signature {
        &SIGNATURES[self as usize]
    }
}

/// Arguments after the signature; an unexpected type is an error of that argument.
#[derive(Clone, Copy)]
struct Arguments<'a>(&'a [Val]);

impl<'a> Arguments<'a> {
    fn get(self, at: usize) -> &'a Val {
        self.0.get(at).unwrap_or(&Val::Undefined)
    }

    fn is_missing(self, at: usize) -> bool {
        self.get(at).is_undefined()
    }

    /// `None`: not given.
    fn number(self, at: usize) -> Fallible<Option<f64>> {
        match self.get(at) {
            Val::Undefined => Ok(None),
            value => value.number().map(Some).ok_or_else(|| Error::argument(at + 1)),
        }
    }

    fn text(self, at: usize) -> Fallible<Option<&'a Str>> {
        match self.get(at) {
            Val::Undefined => Ok(None),
            Val::String(text) => Ok(Some(text)),
            _ => Err(Error::argument(at + 1)),
        }
    }

    fn array(self, at: usize) -> Fallible<Option<&'a Array>> {
        match self.get(at) {
            Val::Undefined => Ok(None),
            Val::Array(array) => Ok(Some(array)),
            _ => Err(Error::argument(at + 1)),
        }
    }

    fn function(self, at: usize) -> Fallible<&'a Rc<Function>> {
        match self.get(at) {
            Val::Function(function) => Ok(function),
            _ => Err(Error::argument(at + 1)),
        }
    }
}

impl Evaluator<'_> {
    /// Calls a function of the library.
    pub(super) fn library(&self, builtin: Builtin, arguments: &[Val]) -> Fallible<Val> {
        let args = Arguments(arguments);
        match builtin {
            Builtin::Sum | Builtin::Max | Builtin::Min | Builtin::Average => self.aggregate(builtin, args),
            Builtin::Count => Ok(Val::count(args.array(0)?.map_or(0, Array::len))),
            Builtin::String => self.string(args),
            Builtin::Substring => self.substring(args),
            Builtin::SubstringBefore | Builtin::SubstringAfter => self.substring_beside(builtin, args),
            Builtin::Lowercase | Builtin::Uppercase => self.change_case(builtin, args),
            Builtin::Length => self.length(args),
            Builtin::Trim => self.trim(args),
            Builtin::Pad => self.pad(args),
            Builtin::Join => self.join(args),
            Builtin::Match => self.match_all(args),
            Builtin::Contains => self.contains(args),
            Builtin::Replace => self.replace(args),
            Builtin::Split => self.split(args),
            Builtin::FormatNumber => self.format_number(args),
            Builtin::FormatBase => self.format_base(args),
            Builtin::FormatInteger => self.format_integer(args),
            Builtin::ParseInteger => self.parse_integer(args),
            Builtin::Number => self.number(args),
            Builtin::Floor => numeric(args, f64::floor),
            Builtin::Ceil => numeric(args, f64::ceil),
            Builtin::Abs => numeric(args, f64::abs),
            Builtin::Round => {
                self.meter.work(128)?;
                numbers::round(args)
            }
            Builtin::Sqrt => numbers::sqrt(args),
            Builtin::Power => numbers::power(args),
            Builtin::Boolean | Builtin::Not => match args.get(0) {
                Val::Undefined => Ok(Val::Undefined),
                value => Ok(Val::Bool(truth(value, &self.meter)? == (builtin == Builtin::Boolean))),
            },
            Builtin::Exists => Ok(Val::Bool(!args.is_missing(0))),
            Builtin::Type => type_of(args.get(0)),
            Builtin::Map => self.map(args),
            Builtin::Filter => self.filter_items(args),
            Builtin::Single => self.single(args),
            Builtin::Reduce => self.reduce_items(args),
            Builtin::Zip => self.zip(args),
            Builtin::Append => self.append(args.get(0), args.get(1)),
            Builtin::Reverse => self.reverse(args),
            Builtin::Sort => self.sort(args),
            Builtin::Shuffle => self.shuffle(args),
            Builtin::Distinct => self.distinct(args),
            Builtin::Sift => self.sift(args),
            Builtin::Each => self.each(args),
            Builtin::Keys => self.keys(args.get(0)),
            Builtin::Lookup => match args.text(1)? {
                Some(key) => {
                    self.meter.text(key.len())?;
                    self.member(args.get(0), key)
                }
                None => Ok(Val::Undefined),
            },
            Builtin::Spread => self.spread(args.get(0)),
            Builtin::Merge => self.merge_objects(args),
            Builtin::Clone => self.copy(args.get(0)),
            Builtin::Error => {
                let text = args.text(0)?.filter(|text| !text.is_empty());
                Err(Error::custom(text.map_or("$error() function evaluated", |text| text)))
            }
            Builtin::Assert => {
                if let Val::Bool(true) = args.get(0) {
                    return Ok(Val::Undefined);
                }
                let text = args.text(1)?.filter(|text| !text.is_empty());
                Err(Error::new("D3141").text(text.map_or("$assert() statement failed", |text| text)))
            }
            Builtin::Base64Encode => self.base64_encode(args),
            Builtin::Base64Decode => self.base64_decode(args),
            Builtin::EncodeUrlComponent | Builtin::EncodeUrl => self.encode_url(builtin, args),
            Builtin::DecodeUrlComponent | Builtin::DecodeUrl => self.decode_url(builtin, args),
            Builtin::ToMillis => self.to_millis(args),
            Builtin::FromMillis => self.date_of_millis(args),
            Builtin::Now => self.now(args),
            Builtin::Millis => Ok(Val::Number(self.scope.dice.now_ms() as f64)),
            Builtin::Partition => self.partition(args),
            Builtin::Range => self.step_range(args),
            Builtin::Hash => self.hash(args),
            Builtin::Random => self.random(args),
            Builtin::Uuid => {
                self.meter.work(2 * DICE)?;
                Ok(Val::text(self.scope.dice.uuid()))
            }
            Builtin::Parse => self.parse(args),
        }
    }
}

fn numeric(args: Arguments<'_>, operation: impl Fn(f64) -> f64) -> Fallible<Val> {
    Ok(args.number(0)?.map_or(Val::Undefined, |number| Val::Number(operation(number))))
}

fn type_of(value: &Val) -> Fallible<Val> {
    value.is_numeric()?;
    Ok(match value {
        Val::Undefined => return Ok(Val::Undefined),
        Val::Null => Val::text("null"),
        Val::Bool(_) => Val::text("boolean"),
        Val::Number(_) | Val::Exact(_) => Val::text("number"),
        Val::String(_) => Val::text("string"),
        Val::Array(_) => Val::text("array"),
        Val::Object(_) => Val::text("object"),
        Val::Function(_) => Val::text("function"),
    })
}
