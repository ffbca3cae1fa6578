//! Parses tokens to a tree, by binding power.
//!
//! The tree is still as written: a path is a chain of dots, a filter a pair of brackets. [`super::process`] decides
//! their meaning.

use super::error::{Error, Fallible};
use super::signature::Signature;
use super::token::{Lexer, Token};
use std::sync::Arc;

/// How deep an expression may nest. Deeper ones could not be evaluated anyway.
pub(super) const NESTING_MAX: u16 = 240;

/// Which raw node.
pub(super) type RawId = usize;

/// A node as it was written.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) kind: RawKind,
    pub(super) at: usize,
    pub(super) keep_array: bool,
    depth: u16,
}

#[derive(Debug)]
pub(super) enum RawKind {
    /// A name, a literal, a variable, an operator in the place of a value, or the end.
    Token(Token),
    Wildcard,
    Descendants,
    Parent,
    Binary(&'static str, RawId, RawId),
    Negate(RawId),
    Array(Vec<RawId>),
    Object(Vec<(RawId, RawId)>),
    Group(RawId, Vec<(RawId, RawId)>),
    Sort(RawId, Vec<(RawId, bool)>),
    /// `None`: a `?`, which makes the call partial.
    Call(RawId, Vec<Option<RawId>>),
    Lambda(Vec<Arc<str>>, Option<Arc<Signature>>, RawId),
    Block(Vec<RawId>),
    Condition(RawId, RawId, Option<RawId>),
    Transform(RawId, RawId, Option<RawId>),
}

/// Reads a whole expression; the last node is its root.
pub(super) fn parse(text: &str) -> Fallible<(Vec<Raw>, RawId)> {
    let mut parser =
        Parser { lexer: Lexer::new(text), token: Token::End, at: 0, nodes: Vec::new(), nesting: 0 };
    parser.advance(false)?;
    let root = parser.expression(0)?;
    if !matches!(parser.token, Token::End) {
        return Err(Error::new("S0201").value(parser.token.json()).at(parser.at));
    }
    Ok((parser.nodes, root))
}

struct Parser<'t> {
    lexer: Lexer<'t>,
    token: Token,
    at: usize,
    nodes: Vec<Raw>,
    nesting: u16,
}

/// How strongly a token binds to the expression before it; 0 for those that do not.
fn binding_power(token: &Token) -> u8 {
    let Token::Operator(symbol) = token else { return 0 };
    match *symbol {
        "[" | "(" | "@" | "#" => 80,
        "." => 75,
        "{" => 70,
        "*" | "/" | "%" => 60,
        "+" | "-" | "&" => 50,
        "=" | "<" | ">" | "^" | "!=" | "<=" | ">=" | "~>" | "in" => 40,
        "and" => 30,
        "or" => 25,
        "?" => 20,
        ":=" => 10,
        _ => 0,
    }
}

impl Parser<'_> {
    fn advance(&mut self, infix: bool) -> Fallible<()> {
        (self.token, self.at) = self.lexer.token(infix)?;
        match self.token {
            Token::Operator(symbol @ ("!" | "~")) => Err(Error::new("S0204").token(symbol).at(self.at)),
            _ => Ok(()),
        }
    }

    fn expect(&mut self, symbol: &'static str, infix: bool) -> Fallible<()> {
        if self.token.is(symbol) {
            return self.advance(infix);
        }
        let code = if matches!(self.token, Token::End) { "S0203" } else { "S0202" };
        Err(Error::new(code).token(symbol).value(self.token.json()).at(self.at))
    }

    fn node(&mut self, kind: RawKind, at: usize) -> Fallible<RawId> {
        let depth = self.depth_below(&kind) + 1;
        if depth > NESTING_MAX {
            return Err(too_deep(at));
        }
        self.nodes.push(Raw { kind, at, keep_array: false, depth });
        Ok(self.nodes.len() - 1)
    }

    fn depth_below(&self, kind: &RawKind) -> u16 {
        let depth_of = |id: &RawId| self.nodes[*id].depth;
        let deepest = |ids: &mut dyn Iterator<Item = &RawId>| ids.map(depth_of).max().unwrap_or(0);
        match kind {
            RawKind::Token(_) | RawKind::Wildcard | RawKind::Descendants | RawKind::Parent => 0,
            RawKind::Binary(_, a, b) => depth_of(a).max(depth_of(b)),
            RawKind::Negate(a) | RawKind::Lambda(_, _, a) => depth_of(a),
            RawKind::Array(items) | RawKind::Block(items) => deepest(&mut items.iter()),
            RawKind::Object(members) => deepest(&mut members.iter().flat_map(|(key, value)| [key, value])),
            RawKind::Group(a, members) => {
                deepest(&mut members.iter().flat_map(|(key, value)| [key, value])).max(depth_of(a))
            }
            RawKind::Sort(a, terms) => deepest(&mut terms.iter().map(|(term, _)| term)).max(depth_of(a)),
            RawKind::Call(a, arguments) => deepest(&mut arguments.iter().flatten()).max(depth_of(a)),
            RawKind::Condition(a, b, c) | RawKind::Transform(a, b, c) => {
                deepest(&mut c.iter()).max(depth_of(a)).max(depth_of(b))
            }
        }
    }

    fn expression(&mut self, power: u8) -> Fallible<RawId> {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            return Err(too_deep(self.at));
        }
        let (token, at) = (std::mem::replace(&mut self.token, Token::End), self.at);
        self.advance(true)?;
        let mut left = self.prefix(token, at)?;
        while power < binding_power(&self.token) {
            let Token::Operator(symbol) = self.token else { break };
            let at = self.at;
            self.advance(false)?;
            left = self.infix(symbol, at, left)?;
        }
        self.nesting -= 1;
        Ok(left)
    }

    fn prefix(&mut self, token: Token, at: usize) -> Fallible<RawId> {
        let Token::Operator(symbol) = token else { return self.node(RawKind::Token(token), at) };
        let kind = match symbol {
            "and" | "or" | "in" => RawKind::Token(token),
            "*" => RawKind::Wildcard,
            "**" => RawKind::Descendants,
            "%" => RawKind::Parent,
            "-" => RawKind::Negate(self.expression(70)?),
            "(" => RawKind::Block(self.block()?),
            "[" => RawKind::Array(self.elements()?),
            "{" => RawKind::Object(self.members()?),
            "|" => self.transform()?,
            _ => return Err(Error::new("S0211").token(symbol).at(at)),
        };
        self.node(kind, at)
    }

    fn block(&mut self) -> Fallible<Vec<RawId>> {
        let mut expressions = Vec::new();
        while !self.token.is(")") {
            expressions.push(self.expression(0)?);
            if !self.token.is(";") {
                break;
            }
            self.advance(false)?;
        }
        self.expect(")", true)?;
        Ok(expressions)
    }

    fn elements(&mut self) -> Fallible<Vec<RawId>> {
        let mut items = Vec::new();
        if !self.token.is("]") {
            loop {
                let mut item = self.expression(0)?;
                if self.token.is("..") {
                    let at = self.at;
                    self.advance(false)?;
                    let last = self.expression(0)?;
                    item = self.node(RawKind::Binary("..", item, last), at)?;
                }
                items.push(item);
                if !self.token.is(",") {
                    break;
                }
                self.advance(false)?;
            }
        }
        self.expect("]", true)?;
        Ok(items)
    }

    fn members(&mut self) -> Fallible<Vec<(RawId, RawId)>> {
        let mut members = Vec::new();
        if !self.token.is("}") {
            loop {
                let key = self.expression(0)?;
                self.expect(":", false)?;
                members.push((key, self.expression(0)?));
                if !self.token.is(",") {
                    break;
                }
                self.advance(false)?;
            }
        }
        self.expect("}", true)?;
        Ok(members)
    }

    fn transform(&mut self) -> Fallible<RawKind> {
        let pattern = self.expression(0)?;
        self.expect("|", false)?;
        let update = self.expression(0)?;
        let mut delete = None;
        if self.token.is(",") {
            self.advance(false)?;
            delete = Some(self.expression(0)?);
        }
        self.expect("|", false)?;
        Ok(RawKind::Transform(pattern, update, delete))
    }

    fn infix(&mut self, symbol: &'static str, at: usize, left: RawId) -> Fallible<RawId> {
        let kind = match symbol {
            "(" => return self.call(at, left),
            "[" if self.token.is("]") => {
                let mut step = left;
                while let RawKind::Binary("[", inner, _) = self.nodes[step].kind {
                    step = inner;
                }
                self.nodes[step].keep_array = true;
                self.advance(false)?;
                return Ok(left);
            }
            "[" => {
                let filter = self.expression(0)?;
                self.expect("]", true)?;
                RawKind::Binary("[", left, filter)
            }
            "{" => RawKind::Group(left, self.members()?),
            "^" => RawKind::Sort(left, self.terms()?),
            "?" => self.condition(at, left)?,
            ":=" => {
                if !matches!(self.nodes[left].kind, RawKind::Token(Token::Variable(_))) {
                    return Err(Error::new("S0212").at(self.nodes[left].at));
                }
                RawKind::Binary(":=", left, self.expression(9)?)
            }
            "@" | "#" => {
                let name = self.expression(80)?;
                if !matches!(self.nodes[name].kind, RawKind::Token(Token::Variable(_))) {
                    return Err(Error::new("S0214").token(symbol).at(self.nodes[name].at));
                }
                RawKind::Binary(symbol, left, name)
            }
            _ => {
                let right = self.expression(binding_power(&Token::Operator(symbol)))?;
                RawKind::Binary(symbol, left, right)
            }
        };
        self.node(kind, at)
    }

    fn condition(&mut self, at: usize, condition: RawId) -> Fallible<RawKind> {
        if let Token::Operator(symbol @ ("?" | ":")) = self.token {
            let hint = format!("; JSONata 2.0.6, which Step Functions runs, has no ?{symbol} operator");
            return Err(Error::new("S0211").token(symbol).text(hint).at(at));
        }
        let then = self.expression(0)?;
        let mut otherwise = None;
        if self.token.is(":") {
            self.advance(false)?;
            otherwise = Some(self.expression(0)?);
        }
        Ok(RawKind::Condition(condition, then, otherwise))
    }

    fn terms(&mut self) -> Fallible<Vec<(RawId, bool)>> {
        self.expect("(", false)?;
        let mut terms = Vec::new();
        loop {
            let descending = self.token.is(">");
            if descending || self.token.is("<") {
                self.advance(false)?;
            }
            terms.push((self.expression(0)?, descending));
            if !self.token.is(",") {
                break;
            }
            self.advance(false)?;
        }
        self.expect(")", false)?;
        Ok(terms)
    }

    fn call(&mut self, at: usize, left: RawId) -> Fallible<RawId> {
        let mut arguments = Vec::new();
        if !self.token.is(")") {
            loop {
                if self.token.is("?") {
                    arguments.push(None);
                    self.advance(false)?;
                } else {
                    arguments.push(Some(self.expression(0)?));
                }
                if !self.token.is(",") {
                    break;
                }
                self.advance(false)?;
            }
        }
        self.expect(")", true)?;
        match &self.nodes[left].kind {
            RawKind::Token(Token::Name(name)) if matches!(&**name, "function" | "λ") => {
                self.lambda(at, &arguments)
            }
            _ => self.node(RawKind::Call(left, arguments), at),
        }
    }

    fn lambda(&mut self, at: usize, arguments: &[Option<RawId>]) -> Fallible<RawId> {
        let mut parameters = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            match argument.map(|id| &self.nodes[id].kind) {
                Some(RawKind::Token(Token::Variable(name))) => parameters.push(name.clone()),
                _ => return Err(Error::new("S0208").value((index + 1).to_string()).at(at)),
            }
        }
        let signature = if self.token.is("<") { Some(Arc::new(self.signature()?)) } else { None };
        self.expect("{", false)?;
        let body = self.expression(0)?;
        self.expect("}", false)?;
        self.node(RawKind::Lambda(parameters, signature, body), at)
    }

    fn signature(&mut self) -> Fallible<Signature> {
        let at = self.at;
        let mut depth = 1;
        let mut text = String::from("<");
        while depth > 0 && !self.token.is("{") && !matches!(self.token, Token::End) {
            self.advance(false)?;
            if self.token.is(">") {
                depth -= 1;
            } else if self.token.is("<") {
                depth += 1;
            }
            text.push_str(&self.token.text());
        }
        self.expect(">", false)?;
        Signature::parse(&text).map_err(|error| error.at(at))
    }
}

fn too_deep(at: usize) -> Error {
    Error::plain(format!("The expression nests more than {NESTING_MAX} levels deep")).at(at)
}
