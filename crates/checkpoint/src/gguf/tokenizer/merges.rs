//! The merges of BPE, in order of rank: listed in the file, or implied by its scores.

use indexmap::IndexMap;

use super::Problem;

/// Merges as the file lists them: two tokens with a space between.
pub(super) fn listed(lines: &[String], vocab: &IndexMap<String, u32>) -> Result<Vec<(String, String)>, Problem> {
    let mut merges = Vec::with_capacity(lines.len());
    for (rank, line) in lines.iter().enumerate() {
        let wrong = |why: String| Problem::Tokenizer(format!("merge {rank}, `{line}`, {why}"));
        let (left, right) = line
            .split_once(' ')
            .filter(|(left, right)| !left.is_empty() && !right.is_empty() && !right.contains(' '))
            .ok_or_else(|| wrong("is not two tokens with a space between".to_owned()))?;
        if let Some(absent) = [left, right, &format!("{left}{right}")].into_iter().find(|&token| !vocab.contains_key(token)) {
            return Err(wrong(format!("needs the token `{absent}`, which is not in the vocabulary")));
        }
        merges.push((left.to_owned(), right.to_owned()));
    }
    Ok(merges)
}

/// Every way to cut a token into two others, the best score first.
///
/// Source: transformers `tokenization_utils_base.py`, `generate_merges`: ties go to the longer left part, then the longer right one
/// (in characters), then the order of tokens; within a token, to the lower ids.
pub(super) fn implied(tokens: &[String], scores: &[f64], vocab: &IndexMap<String, u32>) -> Result<Vec<(String, String)>, Problem> {
    if scores.len() != tokens.len() {
        return Err(Problem::Tokenizer(format!("{} scores for {} tokens", scores.len(), tokens.len())));
    }
    let mut by_token: IndexMap<&str, f64> = IndexMap::with_capacity(tokens.len());
    for (token, &score) in tokens.iter().zip(scores) {
        if score.is_nan() {
            return Err(Problem::Tokenizer(format!("the score of token `{token}` is not a number")));
        }
        by_token.insert(token, score);
    }
    let mut merges = Vec::new();
    for (token, score) in by_token {
        let mut cuts: Vec<Cut<'_>> = token
            .char_indices()
            .skip(1)
            .map(|(at, _)| token.split_at(at))
            .filter_map(|(left, right)| Some(Cut { left, right, ids: (*vocab.get(left)?, *vocab.get(right)?), score }))
            .collect();
        cuts.sort_by_key(|cut| cut.ids);
        merges.extend(cuts);
    }
    let length = |text: &str| text.chars().count();
    // Stable, and the comparison turned round: equal ones keep their order.
    merges.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then_with(|| length(b.left).cmp(&length(a.left))).then_with(|| length(b.right).cmp(&length(a.right)))
    });
    Ok(merges.into_iter().map(|cut| (cut.left.to_owned(), cut.right.to_owned())).collect())
}

struct Cut<'a> {
    left: &'a str,
    right: &'a str,
    ids: (u32, u32),
    score: f64,
}
