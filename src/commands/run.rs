//! `plansmith run`.

use plansmith_tensor::{Batch, Session};

use crate::args::Run;
use crate::exit::{Failure, Outcome};
use crate::model::{Graph, Model};
use crate::output::Output;
use crate::text::TextModel;

/// Tokens of a prompt that are read at a time: scores of attention and logits of more would take gigabytes.
const PIECE: usize = 1024;

pub(crate) fn run(args: &Run, output: &Output) -> Result<Outcome, Failure> {
    let runtime = args.runtime.as_deref().map(str::parse).transpose()?;
    let model = Model::find(&args.path)?;
    let text = TextModel::find(&model.folders)?;
    let (prompt, special) = if args.chat { (text.chat(&args.prompt)?, false) } else { (args.prompt.clone(), true) };
    let mut ids = text.encode(&prompt, special)?;
    if ids.is_empty() {
        return Err(Failure::new("the prompt has no tokens").hint("give a longer --prompt"));
    }
    let lengths = model.lengths()?;
    let mut loaded = model.load(runtime, &args.tools)?;
    let prompt_length = ids.len();
    let mut shown = text.decode(&ids)?.len();

    let mut told = false;
    let mut tell = |tokens: usize| {
        if let Some(positions) = lengths.positions.filter(|&positions| !told && tokens > positions) {
            told = true;
            output.note(format!("the sequence, of {tokens}, is longer than the {positions} tokens that the graph was made for"));
        }
    };
    tell(ids.len());
    // A plan takes what its profiles take; behind a change of rotations no part of the prompt may have been cached before it.
    let in_pieces = !matches!(model.graph, Graph::Plans(_)) && lengths.switch.is_none_or(|switch| ids.len() <= switch);
    let piece = if in_pieces { PIECE } else { ids.len() };
    let mut next = 0;
    for ids in ids.chunks(piece) {
        next = step(&mut *loaded.session, ids)?;
    }
    for _ in 0..args.max_tokens {
        if text.eos.contains(&next) || output.is_closed() {
            break;
        }
        ids.push(next);
        if args.token_ids {
            output.write(&format!("{next} "))?;
        } else {
            let all = text.decode(&ids)?;
            // A character whose bytes are not complete yet decodes to U+FFFD: wait for the rest.
            if !all.ends_with('\u{fffd}') {
                output.write(all.get(shown..).unwrap_or_default())?;
                shown = all.len();
            }
        }
        if ids.len() - prompt_length == args.max_tokens {
            break;
        }
        tell(ids.len());
        next = if lengths.switch == Some(ids.len() - 1) {
            output.note(format!("rotations change beyond {} tokens: the cache is filled anew", ids.len() - 1));
            loaded.session.reset(1)?;
            step(&mut *loaded.session, &ids)?
        } else {
            step(&mut *loaded.session, &[next])?
        };
    }
    output.write("\n")?;
    Ok(Outcome::Done)
}

/// Appends `ids` and returns the likeliest next id.
fn step(session: &mut dyn Session, ids: &[u32]) -> Result<u32, Failure> {
    let batch = Batch::unpadded(1, ids.iter().map(|&id| i64::from(id)).collect(), session.past())?;
    let logits = session.step(&batch)?;
    let last = logits.at(0, logits.sequence - 1);
    if let Some(bad) = last.iter().position(|value| !value.is_finite()) {
        return Err(Failure::new(format!("the logit of token {bad} is {} at position {}", last[bad], session.past() - 1))
            .hint("16-bit arithmetic overflows in some models: run the fp32 graph, and verify this one"));
    }
    let best = last.iter().enumerate().max_by(|left, right| left.1.total_cmp(right.1).then(right.0.cmp(&left.0)));
    best.map(|(id, _)| id as u32).ok_or_else(|| Failure::new("the graph gave no logits"))
}
