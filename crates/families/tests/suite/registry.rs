//! The list of families, and what is promised of their files.

use std::path::Path;

use plansmith_families::families;

#[test]
fn families_are_listed_by_name_and_once() {
    let names: Vec<_> = families().iter().map(|family| family.model_type).collect();
    let unsorted = names.windows(2).find(|pair| pair[0] >= pair[1]);
    assert_eq!(unsorted, None);
    for family in families() {
        let complete =
            !family.summary.is_empty() && family.architecture.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        assert!(complete, "{}", family.model_type);
    }
}

/// Each family is one file of under 150 lines.
#[test]
fn the_file_of_a_family_is_short() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut declared) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let Some(text) = path.extension().filter(|extension| *extension == "rs").map(|_| std::fs::read_to_string(&path).unwrap()) else {
            continue;
        };
        let families = text.matches("const ").count().min(text.matches(": Family =").count());
        if families > 0 {
            files += 1;
            declared += families;
            assert!(text.lines().count() < 150, "{} has {} lines", path.display(), text.lines().count());
        }
    }
    // A second name of a class may share its file.
    assert!(declared == families().len() && files + 3 >= declared, "{files} files, {declared} families, {} listed", families().len());
}
