//! Faults that no spec can have: in the cache, in the mask, in the weights' bytes, in the wiring.

use crate::fault::Place::{Layer, Outside};
use crate::fault::{Fault, Place, Seeding};
use crate::surgery::{Surgery, int, set_float};

const fn operation(
    checkpoint: &'static str,
    name: &'static str,
    place: Place,
    operation: fn(&mut Surgery<'_>) -> Result<(), String>,
) -> Fault {
    Fault { checkpoint, name, place, seeding: Seeding::Graph(operation) }
}

const ATTENTION: &str = "self_attn";
const MLP: &str = "mlp";

/// The number of tokens in the cache, a scalar.
const PAST: &str = "/sizes/Squeeze_output_0";

/// All of them.
pub(crate) const OPERATIONS: &[Fault] = &[
    operation("llama", "kv heads tiled instead of repeated in layer 1", Layer(1, ATTENTION), tiled),
    operation("llama", "a query does not see its own token once there is a cache", Layer(0, ATTENTION), |s| shifted_mask(s, "Sub")),
    operation("llama", "a query sees the next token once there is a cache", Layer(0, ATTENTION), |s| shifted_mask(s, "Add")),
    operation("llama", "the last row of a batch is taken for padding", Layer(0, ATTENTION), last_row_padded),
    operation("llama", "every query sees the future", Layer(0, ATTENTION), |s| {
        s.node("/model/mask/And")?.input[1] = "/model/mask/Or_output_0".to_owned();
        Ok(())
    }),
    operation("llama", "padding is attended", Layer(0, ATTENTION), |s| {
        s.node("/model/mask/And")?.input[0] = "/model/mask/LessOrEqual_output_0".to_owned();
        Ok(())
    }),
    operation("llama", "padding is attended once there is a cache", Layer(0, ATTENTION), |s| {
        s.before("/model/mask/And", "/model/mask/Or_output_0", |t, seen| {
            let none = t.integer(0);
            let cached = t.node("Greater", &[PAST, &none], Vec::new());
            t.node("Or", &[&seen, &cached], Vec::new())
        })
    }),
    operation("llama", "every row has the cached keys of the first in layer 1", Layer(1, ATTENTION), |s| {
        s.before("/model/layers.1/self_attn/Concat", "past_key_values.1.key", |t, past| {
            let (rows, zero) = (t.row_numbers(), t.integer(0));
            let first = t.node("Mul", &[&rows, &zero], Vec::new());
            t.node("Gather", &[&past, &first], vec![int("axis", 0)])
        })
    }),
    operation("llama", "the cache of layer 1 holds the values of layer 0", Layer(1, ATTENTION), |s| {
        s.output("present.1.value", "Identity", &["present.0.value"], Vec::new());
        Ok(())
    }),
    operation("llama", "the cache of layer 2 holds keys before rotation", Layer(2, ATTENTION), |s| {
        let inputs = ["past_key_values.2.key", "/model/layers.2/self_attn/Transpose_1_output_0"];
        s.output("present.2.key", "Concat", &inputs, vec![int("axis", 2)]);
        Ok(())
    }),
    operation("llama", "keys are not rotated in layer 1", Layer(1, ATTENTION), |s| {
        let concat = s.node("/model/layers.1/self_attn/Concat")?;
        concat.input[1] = "/model/layers.1/self_attn/Transpose_1_output_0".to_owned();
        Ok(())
    }),
    operation("llama", "rotation turns the other way", Layer(0, ATTENTION), |s| {
        s.after("/model/rotary_emb/Sin", |t, sine| t.node("Neg", &[&sine], Vec::new()))
    }),
    operation("llama", "angles of the rotation in fp16", Layer(0, ATTENTION), |s| {
        s.after("/model/rotary_emb/Mul", |t, angles| t.rounded(&angles))
    }),
    operation("llama", "positions counted by column, not by mask", Layer(0, ATTENTION), by_column),
    operation("llama", "an initialiser shifted by one element in layer 1", Layer(1, MLP), |s| {
        let name = "model.layers.1.mlp.down_proj.weight";
        let mut place = s.place(name)?;
        place.offset -= 4;
        s.replace(name, &place)
    }),
    operation("llama", "an initialiser cut off: its second half is zero, in layer 1", Layer(1, ATTENTION), |s| {
        s.rewrite("model.layers.1.self_attn.q_proj.weight", |values| {
            let half = values.len() / 2;
            values[half..].fill(0.0);
        })
    }),
    operation("llama", "an initialiser that is the next layer's, in layer 1", Layer(1, ATTENTION), |s| {
        let next = s.place("model.layers.2.self_attn.v_proj.weight")?;
        s.replace("model.layers.1.self_attn.v_proj.weight", &next)
    }),
    operation("llama", "a square matrix not transposed in layer 2", Layer(2, ATTENTION), |s| {
        s.node("/model/layers.2/self_attn/q_proj/Gemm")?.attribute.clear();
        Ok(())
    }),
    operation("llama", "one weight of layer 2 with the wrong sign", Layer(2, ATTENTION), |s| {
        s.rewrite("model.layers.2.self_attn.o_proj.weight", |values| values[77] = -values[77])
    }),
    operation("llama", "one weight of the head with the wrong sign", Outside("head"), |s| {
        s.rewrite("lm_head.weight", |values| values[777] = -values[777])
    }),
    operation("llama", "the row of one token is zero", Outside("embedding"), |s| {
        s.rewrite("model.embed_tokens.weight", |values| values[100 * 32..101 * 32].fill(0.0))
    }),
    operation("llama", "residual dropped after attention in layer 1", Layer(1, MLP), |s| {
        let add = s.node("/model/layers.1/Add")?;
        add.op_type = Some("Identity".to_owned());
        add.input.remove(0);
        Ok(())
    }),
    operation("llama", "residual dropped after the MLP in layer 1", Layer(1, "residual"), |s| {
        let add = s.node("/model/layers.1/Add_1")?;
        add.op_type = Some("Identity".to_owned());
        add.input.remove(0);
        Ok(())
    }),
    operation("llama", "scores scaled twice in layer 2", Layer(2, ATTENTION), |s| {
        set_float(s.node("/model/layers.2/self_attn/Attention")?, "scale", |scale| scale * scale)
    }),
    operation("llama", "heads rounded to fp16 in layer 1", Layer(1, ATTENTION), |s| {
        s.after("/model/layers.1/self_attn/Reshape_3", |t, merged| t.rounded(&merged))
    }),
    operation("llama", "logits rounded to fp16", Outside("head"), |s| s.after("/lm_head/Gemm", |t, logits| t.rounded(&logits))),
    operation("llama", "logits 1 % too large", Outside("head"), |s| {
        s.after("/lm_head/Gemm", |t, logits| {
            let factor = t.float(1.01);
            t.node("Mul", &[&logits, &factor], Vec::new())
        })
    }),
    operation("gpt2", "positions from 1", Outside("embedding"), |s| {
        s.input("position_ids", |t, positions| {
            let one = t.integer(1);
            t.node("Add", &[&positions, &one], Vec::new())
        });
        Ok(())
    }),
    operation("gpt2", "positions counted by column, not by mask", Outside("embedding"), by_column),
    operation("gpt2", "positions start anew with every step", Outside("embedding"), |s| {
        s.input("position_ids", |t, positions| {
            let shape = t.node("Shape", &["past_key_values.0.key"], vec![int("start", 2), int("end", 3)]);
            let later = t.node("Sub", &[&positions, &shape], Vec::new());
            let none = t.integer(0);
            t.node("Max", &[&later, &none], Vec::new())
        });
        Ok(())
    }),
    operation("gpt2", "the cache of layer 1 is not read", Layer(1, ATTENTION), |s| {
        s.before("/model/layers.1/self_attn/Concat_1", "past_key_values.1.value", |t, past| {
            let zero = t.float(0.0);
            t.node("Mul", &[&past, &zero], Vec::new())
        })
    }),
    operation("qwen3", "the window is one narrower once there is a cache", Layer(1, ATTENTION), |s| {
        s.before("/model/mask/Greater", "/model/mask/Sub_output_0", |t, first| {
            let one = t.integer(1);
            let cached = t.node("Min", &[PAST, &one], Vec::new());
            t.node("Add", &[&first, &cached], Vec::new())
        })
    }),
];

/// With 4 heads over 2: head `h` reads key head `h mod 2`, where `h / 2` is right.
fn tiled(s: &mut Surgery<'_>) -> Result<(), String> {
    let node = "/model/layers.1/self_attn/Attention";
    let query = s.node(node)?.input[0].clone();
    s.before(node, &query, |t, query| {
        let order = t.integers(&[0, 2, 1, 3]);
        t.node("Gather", &[&query, &order], vec![int("axis", 1)])
    })?;
    s.after(node, |t, mixed| {
        let order = t.integers(&[0, 2, 1, 3]);
        t.node("Gather", &[&mixed, &order], vec![int("axis", 1)])
    })
}

/// Queries count as one column earlier or later than they are, where there is a cache.
fn shifted_mask(s: &mut Surgery<'_>, op: &str) -> Result<(), String> {
    s.after("/model/mask/Range", |t, queries| {
        let one = t.integer(1);
        let cached = t.node("Min", &[PAST, &one], Vec::new());
        t.node(op, &[&queries, &cached], Vec::new())
    })
}

fn last_row_padded(s: &mut Surgery<'_>) -> Result<(), String> {
    s.after("/model/mask/Cast", |t, attended| {
        let (numbers, rows, one) = (t.row_numbers(), t.rows(), t.integer(1));
        let last = t.node("Sub", &[&rows, &one], Vec::new());
        let end = t.node("Max", &[&last, &one], Vec::new());
        let kept = t.node("Less", &[&numbers, &end], Vec::new());
        let axis = t.integers(&[1]);
        let kept = t.node("Unsqueeze", &[&kept, &axis], Vec::new());
        t.node("And", &[&attended, &kept], Vec::new())
    })
}

fn by_column(s: &mut Surgery<'_>) -> Result<(), String> {
    s.input("position_ids", |t, positions| {
        let (zero, one) = (t.integer(0), t.integer(1));
        let nothing = t.node("Mul", &[&positions, &zero], Vec::new());
        let size = |t: &mut crate::surgery::Theatre<'_, '_>, of: &str, axis: i64| {
            let shape = t.node("Shape", &[of], vec![int("start", axis), int("end", axis + 1)]);
            let first = t.integers(&[0]);
            t.node("Squeeze", &[&shape, &first], Vec::new())
        };
        let (past, total) = (size(t, "past_key_values.0.key", 2), size(t, "attention_mask", 1));
        let columns = t.node("Range", &[&past, &total, &one], Vec::new());
        t.node("Add", &[&nothing, &columns], Vec::new())
    });
    Ok(())
}
