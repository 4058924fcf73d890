//! Graphs that others made, or in their style, against logits that transformers computed from the same weights.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and shows what it found")]

mod common;

use common::{Golden, agrees, alone, decode, fixture, open_file, prefill};
use plansmith_runtime::{Error, GraphSource, NameMap, OpenOptions, RuntimeKind, Session, load, open};
use plansmith_tensor::{Batch, DType, SessionError};

const RTEN: RuntimeKind = RuntimeKind::Rten;
const ORT: RuntimeKind = RuntimeKind::Ort;

fn golden(folder: &str) -> Golden {
    Golden::read(&fixture(folder).join("golden.safetensors"))
}

fn exported(kind: RuntimeKind, name: &str) -> Box<dyn Session> {
    open_file(kind, &fixture("exported").join(name))
}

fn unsupported(result: Result<impl Sized, SessionError>) -> String {
    match result {
        Err(SessionError::Unsupported(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was done"),
    }
}

/// Other names, int32 and bool inputs, one tensor for keys and values, a branch for each of a cache and none, positions counted in the graph.
fn styles_agree(kind: RuntimeKind) {
    for style in ["named", "bool_mask", "stacked", "merged", "counted"] {
        agrees(kind, &format!("f32/{style}.onnx"), 1e-4);
    }
}

#[test]
fn styles_agree_on_rten() {
    styles_agree(RTEN);
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn styles_agree_on_onnx_runtime() {
    styles_agree(ORT);
    agrees(ORT, "f16/half_logits.onnx", 2e-2);
}

#[test]
fn logits_in_fp16_are_widened_by_rten() {
    agrees(RTEN, "f16/half_logits.onnx", 1e-4);
}

fn every_kind_of_padding(kind: RuntimeKind, names: &[&str]) {
    let golden = golden("exported");
    for name in names {
        let mut session = exported(kind, name);
        let session = &mut *session;
        let worst = prefill(session, &golden).max(decode(session, &golden)).max(alone(session, &golden));
        println!("{kind} {name}: max_rel {worst:.1e}");
        assert!(worst <= 1e-4, "{kind} {name}: {worst}");
        assert_eq!(session.cache().unwrap().len(), 2);
    }
}

/// optimum-onnx, and torch.onnx, whose outputs bear the names of nodes.
#[test]
fn graphs_of_other_exporters_agree_on_rten() {
    every_kind_of_padding(RTEN, &["optimum.onnx"]);
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn graphs_of_other_exporters_agree_on_onnx_runtime() {
    every_kind_of_padding(ORT, &["optimum.onnx"]);
    let golden = golden("exported");
    for name in ["torch_dynamo.onnx", "torch_script.onnx"] {
        let mut session = exported(ORT, name);
        let worst = alone(&mut *session, &golden).max(decode_one_row(&mut *session, &golden));
        println!("{name}: max_rel {worst:.1e}");
        assert!(worst <= 1e-4, "{name}: {worst}");
    }
}

/// The row without padding by itself, its second half token by token.
fn decode_one_row(session: &mut dyn Session, golden: &Golden) -> f32 {
    let row = golden.batch - 1;
    session.reset(1).unwrap();
    let part = golden.sequence / 2;
    let mut worst = golden.max_rel(&session.step(&golden.batch(row..row + 1, 0, 0, part)).unwrap(), row, 0);
    for position in part..golden.sequence {
        let logits = session.step(&golden.batch(row..row + 1, 0, position, position + 1)).unwrap();
        worst = worst.max(golden.max_rel(&logits, row, position));
    }
    worst
}

/// The operator rotates by its own count: right without padding, wrong with it on ONNX Runtime, refused with it by rten.
#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn rotation_inside_group_query_attention_cannot_express_left_padding() {
    let golden = golden("exported");
    for name in ["genai/model.onnx", "mobius.onnx"] {
        for kind in [ORT, RTEN] {
            let mut session = exported(kind, name);
            let session = &mut *session;
            let worst = alone(session, &golden).max(decode_one_row(session, &golden));
            assert!(worst <= 1e-4, "{kind} {name}: {worst}");
            assert_eq!(session.cache().unwrap()[1].key.shape, [1, 2, 10, 16], "the head dimension is open in the graph");
        }
        let padded = prefill(&mut *exported(ORT, name), &golden);
        assert!(padded > 0.1, "{name}: {padded}");
        let mut session = exported(RTEN, name);
        session.reset(golden.batch).unwrap();
        let why = unsupported(session.step(&golden.batch(0..golden.batch, 0, 0, golden.sequence)));
        assert!(why.starts_with("rten takes no such padding: "), "{why}");

        // A row without tokens, as in a first chunk that is all padding, is refused by ONNX Runtime too.
        let mut session = exported(ORT, name);
        session.reset(1).unwrap();
        let nothing = Batch { batch: 1, sequence: 2, input_ids: vec![0; 2], attention_mask: vec![0; 2], position_ids: vec![0; 2] };
        let why = unsupported(session.step(&nothing));
        assert!(why.starts_with("ort takes no such padding: "), "{why}");
    }
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn the_builder_s_fp16_graph_agrees_as_far_as_fp16_goes() {
    let path = fixture("exported/genai_fp16/model.onnx");
    let mut loaded = load(ORT, GraphSource::File(&path), &OpenOptions::default()).unwrap();
    assert_eq!(loaded.facts.compute, DType::F16);
    let worst = alone(&mut *loaded.session, &golden("exported"));
    println!("max_rel {worst:.1e}");
    assert!(worst <= 2e-2, "{worst}");
}

fn no_mask(kind: RuntimeKind) {
    let golden = golden("f32");
    let mut session = open_file(kind, &fixture("f32/maskless.onnx"));
    assert!(alone(&mut *session, &golden) <= 1e-4);
    assert!(decode_one_row(&mut *session, &golden) <= 1e-4);
    session.reset(golden.batch).unwrap();
    let why = unsupported(session.step(&golden.batch(0..golden.batch, 0, 0, golden.sequence)));
    assert_eq!(why, "it takes no attention_mask, so that every token is attended");
    let mut batch = Batch::unpadded(3, vec![1; 6], 0).unwrap();
    batch.position_ids[1] = 7;
    assert_eq!(unsupported(session.step(&batch)), "it takes no position_ids, and these are no count of the attended tokens");
}

#[test]
fn a_graph_without_a_mask_refuses_padding() {
    no_mask(RTEN);
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn a_graph_without_a_mask_refuses_padding_on_onnx_runtime() {
    no_mask(ORT);
}

#[test]
fn a_graph_without_a_cache_prefills() {
    let golden = golden("exported");
    let mut session = exported(RTEN, "optimum_prefill.onnx");
    assert!(prefill(&mut *session, &golden) <= 1e-4);
    let why = unsupported(session.step(&Batch::unpadded(3, vec![1; 3], 10).unwrap()));
    assert_eq!(why, "it takes no cache, so that it can only prefill");
    assert_eq!(unsupported(session.cache()), "it gives no keys and values");
}

/// Two rows of eight tokens, made from one example: fewer rows and tokens are filled up, more are refused.
fn fixed_sizes(kind: RuntimeKind) {
    let golden = golden("exported");
    let mut session = exported(kind, "torch_fixed.onnx");
    for (row, rows) in [(2, 1), (1, 2)] {
        session.reset(rows).unwrap();
        let (batch, first) = if rows == 1 { (golden.batch(2..3, 0, 0, 5), 2) } else { (two_rows(&golden), 2) };
        let logits = session.step(&batch).unwrap();
        assert_eq!((logits.batch, logits.sequence), (rows, batch.sequence), "{row}");
        for row in 0..rows {
            let one = plansmith_tensor::Logits {
                batch: 1,
                data: (0..logits.sequence).flat_map(|position| logits.at(row, position).to_vec()).collect(),
                ..logits.clone()
            };
            assert!(golden.max_rel(&one, first, 0) <= 1e-4, "row {row} of {rows} on {kind}");
        }
    }
    let why = unsupported(session.reset(3));
    assert_eq!(why, "3 rows were asked for; `input_ids` has 2, fixed in the graph");
    session.reset(1).unwrap();
    let why = unsupported(session.step(&golden.batch(2..3, 0, 0, 10)));
    assert_eq!(why, "`input_ids` would be [2, 10]; the graph takes [2, 8]");
}

/// The row without padding twice, eight tokens each.
fn two_rows(golden: &Golden) -> Batch {
    let ids = golden.batch(2..3, 0, 0, 8).input_ids;
    Batch::unpadded(2, [ids.clone(), ids].concat(), 0).unwrap()
}

#[test]
fn fixed_sizes_are_filled_up_on_rten() {
    fixed_sizes(RTEN);
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn fixed_sizes_are_filled_up_on_onnx_runtime() {
    fixed_sizes(ORT);
}

#[test]
fn a_fixed_batch_with_a_cache_is_filled_up_and_cut() {
    let golden = golden("f32");
    let mut session = open_file(RTEN, &fixture("f32/last_flat.onnx"));
    session.reset(1).unwrap();
    let logits = session.step(&golden.batch(2..3, 0, 0, 6)).unwrap();
    assert_eq!((logits.batch, logits.sequence), (1, 1), "[rows, vocab] is the last position");
    assert!(golden.max_rel(&logits, 2, 5) <= 1e-4);
    let logits = session.step(&golden.batch(2..3, 0, 6, 7)).unwrap();
    assert!(golden.max_rel(&logits, 2, 6) <= 1e-4);
    assert_eq!(session.cache().unwrap()[0].value.shape, [1, 2, 7, 16]);
}

const MAPPED: [&str; 8] = [
    "input_ids=a",
    "attention_mask=b",
    "position_ids=c",
    "past_key_values.*.key=state.*.x",
    "past_key_values.*.value=state.*.y",
    "logits=out",
    "present.*.key=next.*.x",
    "present.*.value=next.*.y",
];

#[test]
fn names_that_do_not_tell_are_mapped_by_hand() {
    let path = fixture("f32/opaque.onnx");
    let options = OpenOptions { names: NameMap::parse(MAPPED).unwrap(), ..OpenOptions::default() };
    let mut session = open(RTEN, GraphSource::File(&path), &options).unwrap();
    assert!(decode(&mut *session, &golden("f32")) <= 1e-4);
    // Outputs alone can be followed: a Concat joins each past and its present.
    let options = OpenOptions { names: NameMap::parse(MAPPED[..5].iter().copied()).unwrap(), ..OpenOptions::default() };
    let mut session = open(RTEN, GraphSource::File(&path), &options).unwrap();
    assert!(decode(&mut *session, &golden("f32")) <= 1e-4);
}

#[test]
fn what_cannot_be_recognised_is_listed_with_the_way_out() {
    let path = fixture("f32/opaque.onnx");
    let error = open(RTEN, GraphSource::File(&path), &OpenOptions::default()).err().unwrap();
    assert!(error.to_string().ends_with("is not a decoder graph that can be driven: input `a` is none that we know"), "{error}");
    let hint = error.hint().unwrap();
    for line in [
        "--map 'past_key_values.*.key=past.*.k'",
        "\n  input  a I64[batch_size, sequence_length]\n",
        "\n  input  state.*.x F32[batch_size, 2, past_sequence_length, 16] (2 of them)\n",
        "\n  output out F32[batch_size, sequence_length, 64]\n",
    ] {
        assert!(hint.contains(line), "{line} is not in {hint}");
    }
    let options = OpenOptions { names: NameMap::parse(["input_ids=x"]).unwrap(), ..OpenOptions::default() };
    let error = open(RTEN, GraphSource::File(&path), &options).err().unwrap();
    assert!(error.to_string().ends_with("`--map input_ids=x`: it has no input `x`"), "{error}");
}

#[test]
fn an_operator_that_a_runtime_lacks_is_told_from_a_broken_graph() {
    let mut model = plansmith_onnx::load(&fixture("f32/primitive.onnx")).unwrap();
    let node = model.graph.as_mut().unwrap().node.iter_mut().find(|node| node.op_type() == "Sigmoid").unwrap();
    node.op_type = Some("Swizzle".to_owned());
    let folder = fixture("f32");
    match open(RTEN, GraphSource::Memory { model: &model, folder: &folder }, &OpenOptions::default()).err().unwrap() {
        error @ Error::Unsupported { .. } => {
            assert!(
                error.to_string().contains("rten cannot run the graph in memory: ") && error.to_string().contains("Swizzle"),
                "{error}"
            );
            assert_eq!(error.hint().as_deref(), Some("try --runtime ort"));
        }
        other => panic!("{other}"),
    }
}

#[test]
#[ignore = "needs ONNX Runtime: run by cargo xtask test"]
fn an_operator_that_onnx_runtime_lacks_is_told_from_a_broken_graph() {
    let path = fixture("bf16/compute_bf16.onnx");
    match open(ORT, GraphSource::File(&path), &OpenOptions::default()).err().unwrap() {
        error @ Error::Unsupported { .. } => assert_eq!(error.hint().as_deref(), Some("try --runtime rten")),
        other => panic!("{other}"),
    }
}

#[test]
fn padding_is_refused_where_only_rows_without_are_fed() {
    let golden = golden("f32");
    let path = fixture("f32/portable.onnx");
    let options = OpenOptions { unpadded: true, ..OpenOptions::default() };
    let mut session = open(RTEN, GraphSource::File(&path), &options).unwrap();
    session.reset(golden.batch).unwrap();
    let why = unsupported(session.step(&golden.batch(0..3, 0, 0, 4)));
    assert_eq!(why, "rows with padding are not to be tried (--unpadded)");
    assert!(alone(&mut *session, &golden) <= 1e-4);
}
