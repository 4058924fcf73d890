//! Markup that foreign text cannot break out of.

use std::fmt::{Display, Write as _};

/// A piece of a page: fixed markup, escaped text, and elements made of both. There is no other way to make one, so that a file's or a
/// tensor's name can never become a tag, an attribute or a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Html(String);

impl Html {
    /// Markup that stands in the source of this program.
    pub(super) fn fixed(markup: &'static str) -> Self {
        Self(markup.to_owned())
    }

    /// Anything as text.
    pub(super) fn text(text: impl Display) -> Self {
        let mut html = String::new();
        escape(&text.to_string(), &mut html);
        Self(html)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends.
    #[must_use]
    pub(super) fn then(mut self, more: impl Into<Self>) -> Self {
        self.0.push_str(&more.into().0);
        self
    }

    pub(super) fn into_string(self) -> String {
        self.0
    }
}

impl From<&str> for Html {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Html {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl From<&String> for Html {
    fn from(text: &String) -> Self {
        Self::text(text)
    }
}

impl FromIterator<Html> for Html {
    fn from_iter<T: IntoIterator<Item = Html>>(pieces: T) -> Self {
        Self(pieces.into_iter().map(|piece| piece.0).collect())
    }
}

/// Attributes of an element: names are fixed, values are escaped.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a dyn Display)];

/// `<name attributes>content</name>`.
pub(super) fn element(name: &'static str, attributes: Attributes<'_>, content: impl Into<Html>) -> Html {
    let mut html = format!("<{name}");
    for (key, value) in attributes {
        let _ = write!(html, " {key}=\"");
        escape(&value.to_string(), &mut html);
        html.push('"');
    }
    html.push('>');
    html.push_str(&content.into().0);
    let _ = write!(html, "</{name}>");
    Html(html)
}

/// An element with a class.
pub(super) fn classed(name: &'static str, class: &str, content: impl Into<Html>) -> Html {
    element(name, &[("class", &class)], content)
}

/// An element with nothing but content.
pub(super) fn plain(name: &'static str, content: impl Into<Html>) -> Html {
    element(name, &[], content)
}

/// A sentence of ours in which backticks stand around names.
pub(super) fn prose(text: &str) -> Html {
    let parts = text.split('`').collect::<Vec<_>>();
    if parts.len() % 2 == 0 {
        return Html::text(text);
    }
    let part = |(index, part): (usize, &&str)| if index % 2 == 0 { Html::text(part) } else { plain("code", *part) };
    parts.iter().enumerate().map(part).collect()
}

/// Escapes what is markup in text or in a quoted attribute; control characters, which browsers drop or obey, are written out.
fn escape(text: &str, html: &mut String) {
    for character in text.chars() {
        match character {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            '\n' | '\t' => html.push(character),
            _ if character.is_control() || is_direction(character) => {
                let _ = write!(html, "\\u{{{:x}}}", u32::from(character));
            }
            _ => html.push(character),
        }
    }
}

/// Characters that turn the direction of what follows, so that a name could be shown as another.
fn is_direction(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_in_content_and_attributes() {
        let hostile = "</style><script>alert('1')</script>&\"\u{202e}\u{1b}";
        let html = element("td", &[("title", &hostile), ("data-n", &1.5)], hostile).into_string();
        let escaped = "&lt;/style&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;\\u{202e}\\u{1b}";
        assert_eq!(html, format!("<td title=\"{escaped}\" data-n=\"1.5\">{escaped}</td>"));
    }

    #[test]
    fn names_in_sentences_are_set_apart_and_escaped() {
        assert_eq!(prose("in `<a>` and `b`").into_string(), "in <code>&lt;a&gt;</code> and <code>b</code>");
        assert_eq!(prose("one ` alone").into_string(), "one ` alone");
    }

    #[test]
    fn pieces_are_joined_as_they_are() {
        let list: Html = ["a", "<b>"].into_iter().map(|name| plain("li", name)).collect();
        assert_eq!(classed("ul", "x y", list).into_string(), "<ul class=\"x y\"><li>a</li><li>&lt;b&gt;</li></ul>");
    }
}
