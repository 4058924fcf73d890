//! Tables that become cards where a page is narrow: every cell knows its heading.

use super::html::{Html, classed, element, plain};

/// A column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heading {
    name: &'static str,
    /// What a pointer shows on it.
    meaning: &'static str,
    /// How the style sheet treats its cells: `text`, `number`, `minor` (left out where a page is narrow) or `outcome` (beside the name there).
    kind: &'static str,
}

impl Heading {
    pub(super) const fn text(name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning, kind: "text" }
    }

    pub(super) const fn number(name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning, kind: "number" }
    }

    pub(super) const fn minor(name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning, kind: "minor" }
    }

    pub(super) const fn outcome(name: &'static str) -> Self {
        Self { name, meaning: "", kind: "outcome" }
    }
}

/// A line of a table.
pub(super) struct Line {
    /// As many as there are headings.
    pub(super) cells: Vec<Html>,
    /// What is said below it, over the whole width.
    pub(super) note: Html,
}

/// The first column names the line.
pub(super) fn table(headings: &[Heading], lines: Vec<Line>) -> Html {
    if lines.is_empty() {
        return Html::default();
    }
    let heading = |Heading { name, meaning, kind }: &Heading| match *meaning {
        "" => element("th", &[("scope", &"col"), ("class", kind)], *name),
        _ => element("th", &[("scope", &"col"), ("class", kind), ("title", meaning)], *name),
    };
    let head = plain("thead", plain("tr", headings.iter().map(heading).collect::<Html>()));
    let body: Html = lines.into_iter().map(|line| row(headings, line)).collect();
    plain("table", head.then(plain("tbody", body)))
}

fn row(headings: &[Heading], line: Line) -> Html {
    let cell = |(index, (cell, Heading { name, kind, .. })): (usize, (Html, &Heading))| match index {
        0 => element("th", &[("scope", &"row")], cell),
        _ => element("td", &[("class", kind), ("data-label", name)], cell),
    };
    let cells: Html = line.cells.into_iter().zip(headings).enumerate().map(cell).collect();
    let note = if line.note.is_empty() {
        Html::default()
    } else {
        classed("tr", "note", element("td", &[("colspan", &headings.len())], line.note))
    };
    plain("tr", cells).then(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_know_their_heading() {
        let lines = vec![Line { cells: vec!["<a>".into(), "1".into()], note: "why".into() }];
        let html = table(&[Heading::text("check", ""), Heading::minor("figure", "what it \"means\"")], lines).into_string();
        assert!(html.contains("<th scope=\"row\">&lt;a&gt;</th><td class=\"minor\" data-label=\"figure\">1</td>"), "{html}");
        assert!(
            html.contains("title=\"what it &quot;means&quot;\"") && html.contains("<tr class=\"note\"><td colspan=\"2\">why</td></tr>"),
            "{html}"
        );
        assert!(table(&[Heading::text("check", "")], vec![]).is_empty());
    }
}
