use super::*;

#[test]
fn preview() {
    let Ok(path) = std::env::var("V4_PREVIEW") else { return };
    for part in path.split(',') {
        let text = std::fs::read_to_string(format!("{part}.json")).unwrap();
        let verdict: Verdict = serde_json::from_str(&text).unwrap();
        std::fs::write(format!("{part}.html"), verdict.to_html()).unwrap();
    }
}
