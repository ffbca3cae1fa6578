//! Parses the XML of services: elements with text or with elements in them. It ignores attributes.

use quick_xml::Reader;
use quick_xml::events::Event;

/// How deep elements may stand in each other.
const DEPTH_MAX: usize = 64;

/// One element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) children: Vec<Element>,
}

impl Element {
    /// The first element of this name in it.
    pub(crate) fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the first element of this name in it.
    pub(crate) fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.as_str())
    }
}

/// The outermost element of a document.
pub(crate) fn read(body: &[u8]) -> Result<Element, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the answer is not UTF-8 text")?;
    let mut reader = Reader::from_str(text);
    let mut open = vec![Element::default()];
    let wrong = |what: &dyn std::fmt::Display| format!("the answer is no XML: {what}");
    loop {
        let event = reader.read_event().map_err(|error| wrong(&error))?;
        let innermost = open.last_mut().expect("the document itself stays open");
        match event {
            Event::Start(start) => {
                if open.len() > DEPTH_MAX {
                    return Err(wrong(&format_args!("more than {DEPTH_MAX} elements stand in each other")));
                }
                let name = String::from_utf8_lossy(start.local_name().as_ref()).into_owned();
                open.push(Element { name, ..Element::default() });
            }
            Event::Empty(start) => {
                let name = String::from_utf8_lossy(start.local_name().as_ref()).into_owned();
                innermost.children.push(Element { name, ..Element::default() });
            }
            Event::End(_) => {
                let ended = open.pop().expect("the reader checks that ends have starts");
                open.last_mut().ok_or_else(|| wrong(&"an end too many"))?.children.push(ended);
            }
            Event::Text(text) => {
                innermost.text.push_str(&text.decode().map_err(|error| wrong(&error))?);
            }
            Event::CData(text) => {
                innermost.text.push_str(&text.decode().map_err(|error| wrong(&error))?);
            }
            Event::GeneralRef(reference) => {
                let character = match reference.resolve_char_ref().map_err(|error| wrong(&error))? {
                    Some(character) => Some(character),
                    None => named(&reference.decode().map_err(|error| wrong(&error))?),
                };
                innermost.text.push(character.ok_or_else(|| wrong(&"an unknown entity"))?);
            }
            Event::Eof => break,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
    if open.len() > 1 {
        return Err(wrong(&"it ends too early"));
    }
    let document = open.pop().expect("the document itself stays open");
    let mut root = document.children.into_iter().next().ok_or_else(|| wrong(&"there is no element"))?;
    tidy(&mut root);
    Ok(root)
}

fn named(entity: &str) -> Option<char> {
    Some(match entity {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => return None,
    })
}

/// Space between elements is not text.
fn tidy(element: &mut Element) {
    if !element.children.is_empty() {
        element.text.clear();
        element.children.iter_mut().for_each(tidy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_hold_text_or_elements() {
        let text = "<?xml version=\"1.0\"?>\n<a xmlns=\"urn:x\"><b>1 &lt; 2 &#233;</b><c/><d>\n <e>x</e>\n</d><f><![CDATA[<g>]]></f></a>";
        let root = read(text.as_bytes()).unwrap();
        assert_eq!(root.name, "a");
        assert_eq!(root.text_of("b"), Some("1 < 2 é"));
        assert_eq!(root.child("c"), Some(&Element { name: "c".into(), ..Element::default() }));
        assert_eq!(root.child("d").map(|d| (d.text.as_str(), d.text_of("e"))), Some(("", Some("x"))));
        assert_eq!(root.text_of("f"), Some("<g>"));
        assert_eq!(root.text_of("h"), None);
    }

    #[test]
    fn what_is_no_xml_is_refused_and_depth_is_bounded() {
        let deep = "<a>".repeat(100_000);
        let closed = "<a>".repeat(100) + &"</a>".repeat(100);
        for text in ["", "plain", "<a>", "<a></b>", "</a>", "<a>&nope;</a>", &deep, &closed] {
            assert!(read(text.as_bytes()).is_err(), "{}", text.chars().take(40).collect::<String>());
        }
        assert!(read(b"\xff").is_err());
    }
}
