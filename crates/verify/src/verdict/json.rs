//! How verdict.json is laid out: an entry a line, but arrays of plain values on one.

/// Joins the lines of arrays that hold neither arrays nor objects. `pretty` is what serde_json's pretty printer gives: it breaks lines nowhere
/// within a string, and none ends with a bracket there.
pub(super) fn joined(pretty: &str) -> String {
    let lines: Vec<&str> = pretty.lines().collect();
    let mut text = String::with_capacity(pretty.len());
    let mut index = 0;
    while let Some(line) = lines.get(index) {
        let bracket = |line: &&str| line.ends_with(['{', '[']) || line.trim_start().starts_with([']', '}']);
        let next = if line.ends_with('[') { lines[index + 1..].iter().position(bracket) } else { None };
        let end = next.map(|length| index + 1 + length).filter(|&end| lines[end].trim_start().starts_with(']'));
        text.push_str(line);
        if let Some(end) = end {
            let elements: Vec<&str> = lines[index + 1..end].iter().map(|line| line.trim_start()).collect();
            text.push_str(&elements.join(" "));
            text.push_str(lines[end].trim_start());
            index = end;
        }
        text.push('\n');
        index += 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn plain_arrays_are_on_one_line_and_nothing_else_changes() {
        let value = json!({ "a": [1, 2.5, null, "[", "],\n{"], "b": [{ "c": [] }, [["x"], []]], "d": {}, "e": "[" });
        let text = joined(&serde_json::to_string_pretty(&value).unwrap());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.contains("\n  \"a\": [1, 2.5, null, \"[\", \"],\\n{\"],\n"), "{text}");
        assert!(text.contains("\n      [\"x\"],\n"), "{text}");
    }
}
