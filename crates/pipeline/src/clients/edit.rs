//! Setting keys of a JSON object in its text, so that everything else stays as it was written, numbers included.

use std::ops::Range;

use serde_json::Value;

/// A member of an object: its key, where the whole member lies (from the key's quote to the value's end), and where its value does.
struct Member {
    key: String,
    whole: Range<usize>,
    value: Range<usize>,
}

/// `text` with each key set to its value, or taken away where that is `None`. `text` must be a JSON object that serde has parsed.
pub(super) fn edited(text: &str, changes: &[(&str, Option<Value>)]) -> String {
    changes.iter().fold(text.to_owned(), |text, (key, value)| one(&text, key, value.as_ref()))
}

fn one(text: &str, key: &str, value: Option<&Value>) -> String {
    let members = members(text);
    let found = members.iter().position(|member| member.key == key);
    match (found, value) {
        (None, None) => text.to_owned(),
        (Some(index), Some(value)) => {
            let place = &members[index].value;
            let same = serde_json::from_str::<Value>(&text[place.clone()]).is_ok_and(|found| found == *value);
            if same { text.to_owned() } else { format!("{}{value}{}", &text[..place.start], &text[place.end..]) }
        }
        (Some(index), None) => {
            // With the comma before it, or the one behind it where it is the first.
            let range = match (index.checked_sub(1), members.get(index + 1)) {
                (Some(before), _) => members[before].whole.end..members[index].whole.end,
                (None, Some(after)) => members[index].whole.start..after.whole.start,
                (None, None) => members[index].whole.clone(),
            };
            format!("{}{}", &text[..range.start], &text[range.end..])
        }
        (None, Some(value)) => {
            let member = format!("\n  {}: {value}", Value::from(key));
            match members.last() {
                Some(last) => format!("{},{member}{}", &text[..last.whole.end], &text[last.whole.end..]),
                None => format!("{{{member}\n}}\n"),
            }
        }
    }
}

/// The members of the outermost object, in order.
fn members(text: &str) -> Vec<Member> {
    let bytes = text.as_bytes();
    let (mut members, mut depth, mut at) = (Vec::new(), 0usize, 0usize);
    let mut key: Option<Range<usize>> = None;
    let mut value = None;
    while at < bytes.len() {
        let start = at;
        at += 1;
        match bytes[start] {
            b'"' => {
                while bytes.get(at).is_some_and(|&byte| byte != b'"') {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                if depth == 1 && key.is_none() {
                    key = Some(start..at);
                } else if depth == 1 {
                    value = Some(value.map_or(start, |(first, _)| first)).map(|first| (first, at));
                }
            }
            b'{' | b'[' => {
                depth += 1;
                if depth == 2 {
                    value = Some((start, at));
                }
            }
            byte @ (b'}' | b']' | b',') => {
                if byte != b',' {
                    depth = depth.saturating_sub(1);
                    if depth == 1 {
                        value = value.map(|(first, _)| (first, at));
                        continue;
                    }
                }
                let ends = depth == if byte == b',' { 1 } else { 0 };
                if ends && let (Some(name), Some((first, last))) = (key.take(), value.take()) {
                    let key = serde_json::from_str(&text[name.clone()]).unwrap_or_default();
                    members.push(Member { key, whole: name.start..last, value: first..last });
                }
            }
            b' ' | b'\n' | b'\r' | b'\t' | b':' => {}
            _ if depth == 1 => value = Some((value.map_or(start, |(first, _)| first), at)),
            _ => {}
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::edited;
    use serde_json::{Value, json};

    const TEXT: &str =
        "{\n  \"a\": 9.999999747378752e-6,\n  \"b\": {\"a\": [1, {\"c\": \"}\\\"\"}]},\n  \"c\": \"x, \\\"a\\\": 2\", \"d\": null\n}\n";

    #[test]
    fn what_is_not_named_keeps_its_bytes() {
        assert_eq!(edited(TEXT, &[("a", Some(json!(1)))]), TEXT.replace("9.999999747378752e-6", "1"));
        assert_eq!(edited(TEXT, &[("c", Some(json!("y")))]), TEXT.replace("\"x, \\\"a\\\": 2\"", "\"y\""));
        assert_eq!(edited(TEXT, &[("d", None)]), TEXT.replace(", \"d\": null", ""));
        assert_eq!(edited(TEXT, &[("a", None)]), TEXT.replace("\"a\": 9.999999747378752e-6,\n  ", ""));
        assert_eq!(edited(TEXT, &[("x", None), ("d", Some(Value::Null))]), TEXT);
        assert_eq!(edited(TEXT, &[("e", Some(json!([2])))]), TEXT.replace("null\n", "null,\n  \"e\": [2]\n"));
    }

    #[test]
    fn every_edit_is_what_serde_reads() {
        for (text, key) in [(TEXT, "b"), (TEXT, "new"), ("{}", "a"), ("{\"a\":1}", "a"), ("{ \"a\" : [ ] }", "b")] {
            let mut wanted: Value = serde_json::from_str(text).unwrap();
            wanted[key] = json!({"k": "v"});
            assert_eq!(serde_json::from_str::<Value>(&edited(text, &[(key, Some(json!({"k": "v"})))])).unwrap(), wanted, "{text}");
            wanted.as_object_mut().unwrap().remove(key);
            assert_eq!(serde_json::from_str::<Value>(&edited(text, &[(key, None)])).unwrap(), wanted, "{text}");
        }
    }
}
