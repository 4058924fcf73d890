"""Configurations of the sweep (`sweep.py`): small sizes for every class, random options, and variants written by hand for dense families.

A variant is a dict of config keys; keys that start with `_` are for the sweep itself:
`_layout` (`v5` as saved; `v4`, `v4-type`: `rope_theta` and `rope_scaling` on top), `_absent` (keys left out of config.json),
`_sparse` (all keys equal to the class default left out), `_set` (keys written into config.json after saving), `_prompt` (its length),
`_original` (False: tensors under the names of the class, not those of the hub), `_dtype` (stored), `_prefix` (False: the base model's
prefix cut from the tensor names).
"""

import dataclasses

DENSE = """llama mistral ministral ministral3 qwen2 qwen3 gemma gemma2 gemma3_text vaultgemma phi phi3 gpt2 gpt-sw3 gpt_neo gptj gpt_neox
gpt_neox_japanese gpt_bigcode codegen opt bloom mpt falcon stablelm starcoder2 olmo olmo2 olmo3 cohere cohere2 granite granite_swa nemotron
smollm3 glm glm4 helium exaone exaone4 ernie4_5 hunyuan_v1_dense hyperclovax arcee apertus seed_oss persimmon biogpt xglm internlm3
iquestcoder diffllama cwm jais2 nanochat bitnet modernbert-decoder openai-gpt ctrl emu3 minicpm3 youtu apertus1p5_text cohere_compass_text""".split()

VOCAB, POSITIONS = 128, 128
IDS = dict(
    vocab_size=VOCAB, bos_token_id=1, eos_token_id=2, pad_token_id=0, sep_token_id=2, cls_token_id=1, eod_token_id=2, decoder_start_token_id=2, mask_token_id=3,
    mask_index=5, unk_index=3, pad_index=0, bos_index=0, eos_index=1, image_token_id=120, video_token_id=121, audio_token_id=122, image_token_index=120, boi_token_id=123,
    eoi_token_id=124, boa_token_id=125, eoa_token_id=126, boi_token_index=123, eoi_token_index=124, eoa_token_index=126, vision_start_token_id=123,
    vision_end_token_id=124, unpadded_vocab_size=VOCAB, vocab_size_per_layer_input=VOCAB, output_vocab_size=None, decoder_vocab_size=VOCAB, forced_eos_token_id=2, pronunciation_vocab_size=16,
    shape_vocab_size=16, encoder_hash_byte_group_vocab=64, begin_suppress_tokens=None, lang_id=0, audio_vocab_size=VOCAB,
)
# Sizes that no attention head depends on.
SMALL = dict(
    intermediate_size=48, ffn_dim=48, n_inner=48, dff=48, ffn_hidden_size=48, dim_ff=48, d_inner=48, decoder_ffn_dim=48, encoder_ffn_dim=48, feed_forward_size=48,
    expert_ffn_hidden_size=16, moe_intermediate_size=16, shared_expert_intermediate_size=16, shared_experts_intermediate_size=16, shared_intermediate_size=16,
    moe_shared_expert_intermediate_size=16, dense_intermediate_size=32, intermediate_size_mlp=32, prefix_dense_intermediate_size=32, intermediate_multiple_size=1,
    num_experts=4, n_routed_experts=4, num_local_experts=4, moe_num_experts=4, num_experts_per_tok=2, top_k_experts=2, moe_topk=2, moe_k=2, n_shared_experts=1, num_shared_experts=1,
    moe_num_shared_experts=1, n_group=1, topk_group=1, first_k_dense_replace=1, num_dense_layers=1, moe_layer_start_index=1, zero_expert_num=2, moe_layer_end_index=-1,
    max_position_embeddings=POSITIONS, n_positions=POSITIONS, n_ctx=POSITIONS, max_seq_len=POSITIONS, max_source_positions=32, max_target_positions=POSITIONS, context_length=POSITIONS,
    sliding_window=8, sliding_window_size=8, window_size=8, local_attention=8, attention_window_size=8, attention_chunk_size=16, local_attention_window_len=16, swa_window=8,
    type_vocab_size=2, mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_num_heads=4, mamba_head_dim=16, mamba_chunk_size=16,
    mamba_dt_rank=4, mamba_n_groups=1, ssm_state_size=8, state_size=8, time_step_rank=4, expand=2, n_groups=1, n_mamba_heads=2, mamba_ngroups=1, chunk_size=16, adapter_rank=8,
    linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_head_dim=16, linear_num_heads=4, linear_conv_kernel_dim=4,
    q_lora_rank=24, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16, qk_head_dim=24, o_lora_rank=8, o_groups=2, index_head_dim=16, index_n_heads=2, index_topk=8,
    indexer_n_heads=2, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=8, index_block_size=8, index_topk_blocks=4, hc_mult=2, hc_count=2, hc_lowrank=8, gated_norm_rank=4,
    num_mtp_layers=0, num_nextn_predict_layers=0, hidden_size_per_layer_input=8, laurel_rank=8, altup_num_inputs=2, num_kv_shared_layers=0, lru_width=64, conv1d_width=4,
    embedding_size=32, input_embedding_size=32, output_embedding_size=32, word_embed_proj_dim=None, pronunciation_embed_dim=16, shape_embed_dim=16, prompt_length=4, prompt_mid_dim=16,
    prompt_types=4, segment_types=4, dim_model_base=32, position_bias_num_buckets=16, position_bias_max_distance=64, num_buckets=8, block_size=8, num_random_blocks=1,
    attention_type="original_full", d_rel=4, rel_extent=64, log_scaling_n_floor=16, loop_layer_index_start=0, loop_layer_index_end=1, loop_num_passes=2, loop_gate_rank=4,
    n_layers_per_attn_res_block=1, n_input_layers=1, n_recurrent_layers=1, n_output_layers=1, H_cycles=1, L_cycles=1, num_layers_per_stack=1, conv_L_cache=3,
    block_multiple_of=16, router_hidden_size=16, attention_head_size=16, axial_pos_shape=(8, 16), axial_pos_embds_dim=(32, 32), local_attn_chunk_length=16, lsh_attn_chunk_length=16,
    attn_layers=("local", "local"), compress_rates=None, floor_scale=8, num_centroids=8, backbone_hidden_size=64, num_codebooks=2, num_mem_blocks=1, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2,
    expert_layer_offset=1, is_decoder=True, causal=True, rotary_dim=8, default_language="en_XX", keep_window_size=64, ngram_vocab_size_base=64, split_ngram_parts=4, ple_embed_dim=8, heads_per_ngram=2, qk_dim_factor=0.5,
    ffn_round_up_to_multiple_of=16, mem_len=None, num_mel_bins=8, image_size=16, patch_size=8, max_window_layers=1, global_attn_every_n_layers=2, layer_group_size=2,
    kv_channels=16, make_ngram_vocab_size_divisible_by=8, rescale_every=0, layers_block_type=None, num_image_with_embedding=None, vocab_size_draft=VOCAB, shared_head_dim=16, num_global_layers=1,
    cross_attention_hidden_size=32, adapter_reduction_factor=2, head_dim_global=16, num_key_value_groups=1, mm_tokens_per_image=4, vision_soft_tokens_per_image=4, image_seq_length=4, hash_seed=1,
)
HIDDEN = ("hidden_size", "n_embd", "d_model", "emb_dim", "n_embed")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers", "num_decoder_layers", "num_encoder_layers", "num_blocks", "depth")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads", "decoder_attention_heads", "encoder_attention_heads", "num_decoder_attention_heads",
         "num_encoder_attention_heads", "swa_num_attention_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "swa_num_key_value_heads", "kv_n_heads")
HEAD_DIM = ("head_dim", "swa_head_dim", "dim_head", "d_head", "attention_head_dim", "global_head_dim")

ACTS = ["silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2", "quick_gelu", "gelu_fast", "tanh", "mish", "leaky_relu", "sigmoid", "relu6", "gelu_10", "laplace", "linear", "gelu_python", "swish"]
USUAL = ACTS[:7]
ACT_KEYS = ("hidden_act", "hidden_activation", "activation_function", "activation")
FLAGS = """attention_bias mlp_bias use_bias use_qkv_bias qkv_bias bias enable_bias attention_out_bias no_bias tie_word_embeddings qk_layernorm use_qk_norm use_parallel_residual
use_post_norm multi_query new_decoder_architecture parallel_attn scale_attn_by_inverse_layer_idx scale_attn_weights scale_embedding
do_layer_norm_before layer_norm_elementwise_affine apply_residual_connection_post_layernorm norm_bias decoder_bias use_sliding_window rope_interleave reorder_and_upcast_attn
slow_but_exact alibi norm_topk_prob lm_head_bias attention_softmax_in_fp32 scale_attention_softmax_in_fp32 use_cache""".split()
CHOICES = dict(
    query_pre_attn_scalar=[16, 64, 9], final_logit_softcapping=[None, 5.0, 30.0], attn_logit_softcapping=[None, 5.0, 50.0], embedding_multiplier=[1.0, 6.0], logits_scaling=[1.0, 4.0],
    residual_multiplier=[1.0, 0.4], attention_multiplier=[0.25, 0.4, 0.1], logit_scale=[0.0625, 0.5, 1.0], clip_qkv=[None, 1.5], sliding_window=[8, 5], partial_rotary_factor=[0.5, 0.25],
    scale_emb=[1, 12], scale_depth=[1.4, 0.7], dim_model_base=[16, 64], no_rope_layer_interval=[2, 3], sliding_window_pattern=[2, 3], num_ln_in_parallel_attn=[None, 1, 2],
    rotary_dim=[8, 4], lambda_std_dev=[0.1], max_window_layers=[0, 1], expansion_ratio=[1, 2], word_embed_proj_dim=[None, 32],
)
EPS_KEYS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "norm_epsilon")


def fields_of(cls):
    return {field.name: field for field in dataclasses.fields(cls)}


def sizes(cls, model_type, random, depth=2):
    """Small values for every size key that the class has."""
    fields = fields_of(cls)
    hidden = random.choice([32, 64, 64, 48])
    heads = random.choice([4, 4, 2])
    values = {key: value for key, value in (IDS | SMALL).items() if key in fields}
    for names, value in ((HIDDEN, hidden), (LAYERS, depth), (HEADS, heads), (HEAD_DIM, hidden // heads)):
        values |= {key: value for key in names if key in fields}
    values |= {key: random.choice([1, 2, heads]) for key in KV_HEADS if key in fields}
    if "kv_lora_rank" in fields:  # latent attention: every head has its own key
        values |= {key: heads for key in KV_HEADS if key in fields}
    for key, sub in getattr(cls, "sub_configs_defaults", {}).items():
        try:
            sub_class = type(sub.default_config)
            values[key] = sizes(sub_class, sub.model_type, random, depth) | {"model_type": sub.model_type}
        except Exception:
            continue
    if cls.model_type == "dbrx":
        values |= {"attn_config": {"kv_n_heads": 2}, "ffn_config": {"moe_num_experts": 4, "moe_top_k": 2, "ffn_hidden_size": 32}}
    if "attention_types" in fields:
        values["attention_types"] = [[[random.choice(["global", "local"]) for _ in range(depth)], 1]]
    return values


def rope(kind, random, head_dim, theta=None, partial=1.0):
    """RoPE parameters whose scaling matters for prompts of up to 48 tokens."""
    parameters = {"rope_type": kind, "rope_theta": theta or random.choice([10000.0, 500.0, 500000.0])}
    pairs = int(head_dim * partial) // 2
    if kind == "linear":
        parameters["factor"] = random.choice([2.0, 4.0])
    elif kind == "dynamic":
        parameters["factor"] = 2.0
    elif kind == "yarn":
        parameters |= {"factor": 4.0, "original_max_position_embeddings": random.choice([16, 32])}
        parameters |= random.choice([{}, {}, {"attention_factor": 1.3}, {"beta_fast": 16.0, "beta_slow": 2.0}, {"mscale": 1.0, "mscale_all_dim": 0.7}, {"truncate": False}])
    elif kind == "llama3":
        parameters |= {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": random.choice([16, 32])}
    elif kind == "longrope":
        parameters |= {"short_factor": [1.0 + 0.1 * i for i in range(pairs)], "long_factor": [2.0 + 0.7 * i for i in range(pairs)],
                       "original_max_position_embeddings": random.choice([16, 64]), **random.choice([{}, {"factor": 4.0}, {"attention_factor": 1.2}])}
    return parameters


KINDS = ["default", "linear", "dynamic", "yarn", "longrope", "llama3"]


def head_dim_of(values):
    hidden = next((values[key] for key in HIDDEN if key in values), 64)
    heads = next((values[key] for key in HEADS if key in values), 4)
    return values.get("head_dim") or hidden // heads


def rope_for(cls, values, random, kind, partial=None):
    """`rope_parameters` of one kind, nested by layer type where the class wants it so."""
    head_dim = values.get("qk_rope_head_dim") or head_dim_of(values)
    try:
        shape = cls(**{key: value for key, value in values.items() if not key.startswith("_")}).rope_parameters or {}
    except Exception:
        shape = {}
    nested = [key for key, value in shape.items() if isinstance(value, dict)]
    if nested:
        return {key: rope(kind if index == 0 else "default", random, head_dim, theta=random.choice([100000.0, 1000.0])) for index, key in enumerate(nested)}
    if cls.model_type == "cohere_compass_text":
        return {key: rope("default", random, head_dim) for key in ("full_attention", "sliding_attention")}
    return rope(kind, random, head_dim, partial=partial or 1.0) | ({"partial_rotary_factor": partial} if partial else {})


def random_variant(cls, model_type, random, index):
    """The sizes with options switched at random. Variant 0 keeps the class defaults but for its sizes."""
    fields = fields_of(cls)
    depth = 3 if random.random() < 0.2 or "layer_types" in fields or "no_rope_layers" in fields else 2
    values = sizes(cls, model_type, random, depth)
    if depth == 3:
        values |= {key: 32 for key in HIDDEN if key in values}
        values |= {key: 32 // head_count for key in HEAD_DIM if key in values for head_count in [next(values[k] for k in HEADS if k in values)]}
    if "head_dim" in values:
        choice = random.choice(["keep", "other", "null"])
        if choice == "other":
            values["head_dim"] = random.choice([16, 24])
        elif choice == "null" and fields["head_dim"].default is None:
            values["head_dim"] = None
    if cls.model_type == "cohere_compass_text":  # the class has no RoPE of its own
        values["rope_parameters"] = rope_for(cls, values, random, "default")
    if index == 0:
        return values
    for key in FLAGS:
        if key in fields and random.random() < 0.5:
            values[key] = not fields[key].default if isinstance(fields[key].default, bool) else random.random() < 0.5
    for key, choices in CHOICES.items():
        if key in fields and random.random() < 0.6:
            values[key] = random.choice(choices)
    for key in EPS_KEYS:
        if key in fields and random.random() < 0.5:
            values[key] = random.choice([1e-6, 1e-3, 3e-2])
    for key in ACT_KEYS:
        if key in fields and random.random() < 0.6:
            values[key] = random.choice(USUAL if random.random() < 0.8 else ACTS)
    if "layer_types" in fields and "sliding_window" in fields and random.random() < 0.5:
        values["layer_types"] = random.choice([["sliding_attention", "full_attention", "sliding_attention"], ["full_attention"] * 3, ["sliding_attention"] * 3])
    if "no_rope_layers" in fields and random.random() < 0.5:
        values["no_rope_layers"] = random.choice([[1, 0, 1], [0, 1, 1], [0, 0, 0], [1, 1, 1]])
    if "rope_parameters" in fields:
        kind = random.choice(KINDS)
        values["rope_parameters"] = rope_for(cls, values, random, kind, random.choice([None, None, None, 0.5]))
        if cls.model_type == "ministral3":
            values["rope_parameters"] = {"original_max_position_embeddings": 16} | values["rope_parameters"] | {"llama_4_scaling_beta": 0.2}
        values["_layout"] = random.choice(["v5", "v4", "v4-type"])
    values["_sparse"] = random.random() < 0.3
    values["_prompt"] = random.randint(24, 48)
    return values


def count_of(model_type):
    return 5 if model_type in DENSE else 4
