//! A pattern as JSON, before it is understood.

use super::PatternError;
use perdura_canonical::{Fault, Kind, Scanner, form};

pub(super) enum Value {
    Object(Vec<(String, Value)>),
    List(Vec<Value>),
    Text(String),
    /// The canonical form.
    Number(Vec<u8>),
    Word(Vec<u8>),
}

impl Value {
    pub(super) fn parse(text: &str) -> Result<Self, PatternError> {
        let read = || -> Result<Self, Fault> {
            let mut scan = Scanner::new(text.as_bytes())?;
            let value = Self::read(&mut scan)?;
            scan.finish()?;
            Ok(value)
        };
        read().map_err(|fault| PatternError { place: String::new(), what: fault.to_string() })
    }

    fn read(scan: &mut Scanner<'_>) -> Result<Self, Fault> {
        match scan.kind()? {
            Kind::Object => {
                let mut members: Vec<(String, Self)> = Vec::new();
                scan.members(|scan, name| {
                    let name = String::from_utf8_lossy(name).into_owned();
                    members.push((name, Self::read(scan)?));
                    Ok::<_, Fault>(())
                })?;
                let mut names: Vec<_> = members.iter().map(|(name, _)| name).collect();
                names.sort_unstable();
                if names.windows(2).any(|pair| pair[0] == pair[1]) {
                    return Err(scan.fault("the object that ends here has a name twice"));
                }
                Ok(Self::Object(members))
            }
            Kind::List => {
                let mut elements = Vec::new();
                scan.elements(|scan| {
                    elements.push(Self::read(scan)?);
                    Ok::<_, Fault>(())
                })?;
                Ok(Self::List(elements))
            }
            Kind::Text => scan.text().map(Self::Text),
            Kind::Number => Ok(Self::Number(canonical(scan)?)),
            Kind::Word => Ok(Self::Word(canonical(scan)?)),
        }
    }
}

fn canonical(scan: &mut Scanner<'_>) -> Result<Vec<u8>, Fault> {
    let before = scan.fault("the exponent of a number has more than 18 digits");
    let text = scan.skip()?;
    form(text).map_err(|_| before)
}
