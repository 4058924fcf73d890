"""Variants written by hand for the dense families of the sweep: each option of the class at least once.

`WRITTEN[type]` lists functions of (config class, random) that return a name and a variant, see `sweep_variants.py`.
"""

from sweep_variants import HEADS, HIDDEN, fields_of, sizes

WRITTEN = {}
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16)
SLIDE_FULL = ["sliding_attention", "full_attention", "sliding_attention"]
FULL_SLIDE = ["full_attention", "sliding_attention", "full_attention"]
ALL_SLIDE, ALL_FULL = ["sliding_attention"] * 3, ["full_attention"] * 3


def longrope(pairs, original=16, **more):
    return {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0 + 0.2 * i for i in range(pairs)],
            "long_factor": [1.5 + 0.9 * i for i in range(pairs)], "original_max_position_embeddings": original, **more}


def nested(full, sliding):
    return {"full_attention": full, "sliding_attention": sliding}


def plain(theta=10000.0, **more):
    return {"rope_type": "default", "rope_theta": theta, **more}


def linear(factor=4.0, **more):
    return {"rope_type": "linear", "rope_theta": 10000.0, "factor": factor, **more}


def add(types, what, **keys):
    """One variant for each of the types: fixed sizes (hidden 64, 4 heads, 2 layers; hidden 32 with 3 layers) under `keys`.

    A key that the class does not have is left out, unless it goes by `extra`.
    """
    extra = keys.pop("extra", {})

    def variant(cls, random):
        fields = fields_of(cls)
        deep = any(len(value) == 3 for key, value in keys.items() if key in ("layer_types", "no_rope_layers", "layer_rope_theta")) or keys.get("layers") == 3
        base = sizes(cls, "", random, 3 if deep else 2)
        hidden = keys.get("hidden", 32 if deep else 64)
        heads = keys.get("heads", 4)
        base |= {key: hidden for key in HIDDEN if key in base} | {key: heads for key in HEADS if key in base}
        if "head_dim" in fields and "qk_rope_head_dim" not in fields:
            base["head_dim"] = hidden // heads
        kv = keys.get("kv", 2) if "kv_lora_rank" not in fields else heads
        if cls.model_type == "diffllama":
            kv = max(kv, 2)
        base |= {key: kv for key in ("num_key_value_heads", "num_kv_heads") if key in base}
        base |= {key: value for key, value in keys.items() if key in fields or key.startswith("_")}
        if cls.model_type == "cohere_compass_text":
            base.setdefault("rope_parameters", nested(plain(500.0), plain(50.0)))
        return what, base | extra | {"_prompt": keys.get("_prompt", 40)}

    for model_type in types.split():
        WRITTEN.setdefault(model_type, []).append(variant)


ROPED = "llama mistral qwen2 qwen3 olmo olmo2 cohere granite smollm3 helium exaone ernie4_5 hunyuan_v1_dense hyperclovax arcee seed_oss starcoder2 nemotron glm glm4 phi stablelm persimmon apertus nanochat jais2 bitnet"
LLAMAS = "llama exaone hyperclovax arcee seed_oss internlm3 iquestcoder hunyuan_v1_dense nemotron helium glm glm4 mistral qwen3 ernie4_5 ministral diffllama cwm jais2"
add(ROPED, "llama3_v4", rope_parameters=LLAMA3, _layout="v4")
add(ROPED, "yarn", rope_parameters=YARN)
add("llama mistral qwen2 qwen3 olmo2 granite", "yarn_mscale", rope_parameters=YARN | dict(mscale=1.0, mscale_all_dim=0.5, beta_fast=8.0, beta_slow=0.5))
add("llama qwen2 mistral", "yarn_untruncated", rope_parameters=YARN | dict(truncate=False, attention_factor=1.4), _layout="v4")
add("llama qwen3 arcee", "linear_type", rope_parameters=linear(), _layout="v4-type")
add("llama qwen2 stablelm persimmon hunyuan_v1_dense", "dynamic", rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=3.0), _layout="v4-type")
add("llama", "longrope_long", rope_parameters=longrope(8))
add("llama", "longrope_short", rope_parameters=longrope(8, 64, factor=8.0))
add("llama mistral qwen2", "original_on_top", _set=dict(original_max_position_embeddings=16, rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0)))
add("llama qwen2 mistral gemma", "theta_v4", rope_parameters=plain(333.0), _layout="v4")
add("llama qwen2", "sparse", _sparse=True, rope_parameters=plain())
add("llama mistral", "no_rope_keys", _absent=("rope_parameters", "hidden_act", "rms_norm_eps", "head_dim", "attention_bias", "mlp_bias"))
add(LLAMAS, "head_dim_24", head_dim=24, kv=1)
add("llama mistral exaone hyperclovax arcee", "head_dim_null", head_dim=None, _absent=("head_dim",))
add("llama exaone hyperclovax arcee hunyuan_v1_dense jais2 helium nemotron cwm iquestcoder", "biases", attention_bias=True, mlp_bias=True, use_bias=True)
add("internlm3", "biases", attention_bias=True, mlp_bias=True, head_dim=24)
add("internlm3", "bias_aliases", extra=dict(qkv_bias=True, bias=True))
add("iquestcoder internlm3", "head_dim_16", head_dim=16, kv=1)
add("llama gpt2 gpt_neox mistral qwen2", "bf16", _dtype="bfloat16")
add("llama gpt2 bloom opt falcon gpt_neo gptj codegen mpt qwen2 gpt_bigcode", "no_prefix", _prefix=False)
add("llama mistral qwen2 gpt2 gpt_neox phi opt falcon gemma bloom olmo stablelm", "tied", tie_word_embeddings=True)
add("gpt2 opt falcon gemma bloom mpt gpt_neo gpt_bigcode cohere cohere2 smollm3 ernie4_5 biogpt xglm openai-gpt ctrl starcoder2 gemma2 gemma3_text vaultgemma gpt_neox_japanese granite_swa modernbert-decoder minicpm3 youtu cohere_compass_text", "untied", tie_word_embeddings=False)

# windows
add("mistral starcoder2 ministral3", "window", sliding_window=8)
add("mistral ministral starcoder2", "window_null", sliding_window=None)
add("ministral olmo3 gemma2 vaultgemma cohere2 exaone4 cwm granite_swa", "slide_full", sliding_window=8, layer_types=SLIDE_FULL)
add("ministral olmo3 gemma2 vaultgemma cohere2 exaone4 cwm granite_swa", "full_slide", sliding_window=5, layer_types=FULL_SLIDE)
add("olmo3 cohere2 exaone4 gemma2", "all_full", sliding_window=8, layer_types=ALL_FULL)
add("olmo3 cohere2 exaone4 gemma2 gemma3_text ministral", "default_layers", layers=4, hidden=32, sliding_window=8, _absent=("layer_types",))
add("cohere2 gemma3_text exaone4", "pattern", layers=3, sliding_window=8, _absent=("layer_types",), _set={"sliding_window_pattern": 2}, extra=dict(num_hidden_layers=3))
add("exaone4", "window_null", sliding_window=None, layer_types=ALL_FULL)
add("cohere2", "window_null", sliding_window=None, layer_types=ALL_FULL)
add("qwen2 qwen3", "window_from_1", use_sliding_window=True, sliding_window=8, max_window_layers=1, layers=3, _layout="v4", rope_parameters=plain())
add("qwen2 qwen3", "window_off", use_sliding_window=False, sliding_window=8, max_window_layers=0)
add("qwen2 qwen3", "layer_types", use_sliding_window=True, sliding_window=8, layer_types=SLIDE_FULL)
add("smollm3", "window", use_sliding_window=True, sliding_window=8, no_rope_layers=[1, 0, 0])
add("smollm3", "interval", no_rope_layer_interval=2, layers=3, _absent=("no_rope_layers", "layer_types"))
add("smollm3", "layer_types", use_sliding_window=True, sliding_window=8, layer_types=SLIDE_FULL, no_rope_layers=[1, 1, 0])
add("smollm3", "window_unused", use_sliding_window=False, sliding_window=8, layer_types=ALL_FULL, no_rope_layers=[0, 1, 1])
add("gemma3_text", "thetas", rope_parameters=nested(plain(1e6), plain(300.0)), layer_types=SLIDE_FULL, sliding_window=8)
add("gemma3_text", "linear_full", rope_parameters=nested(linear(8.0), plain(500.0)), layer_types=FULL_SLIDE, sliding_window=8)
add("gemma3_text", "v4", layer_types=SLIDE_FULL, sliding_window=8, _absent=("rope_parameters",), _set=dict(rope_theta=5000.0, rope_local_base_freq=200.0, rope_scaling=dict(rope_type="linear", factor=8.0)))
add("gemma3_text", "flat_rope", layer_types=SLIDE_FULL, sliding_window=8, _set=dict(rope_parameters=plain(200.0)))
add("gemma3_text", "softcaps", layer_types=FULL_SLIDE, sliding_window=8, final_logit_softcapping=3.0, attn_logit_softcapping=2.0, query_pre_attn_scalar=9, attention_bias=True)
add("olmo3", "nested", rope_parameters=nested(YARN, plain(300.0)), layer_types=SLIDE_FULL, sliding_window=8)
add("olmo3", "v4", layer_types=SLIDE_FULL, sliding_window=8, _absent=("rope_parameters",), _set=dict(rope_theta=300.0, rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)))
add("olmo3", "flat_rope", layer_types=FULL_SLIDE, sliding_window=8, _set=dict(rope_parameters=plain(200.0)))
add("modernbert-decoder", "biases", attention_bias=True, mlp_bias=True, norm_bias=True, decoder_bias=False, classifier_bias=True, classifier_activation="silu", local_attention=12, layer_types=SLIDE_FULL)
add("modernbert-decoder", "v4", local_attention=16, layers=3, hidden=32, _absent=("rope_parameters", "layer_types"), _set=dict(global_rope_theta=500.0, local_rope_theta=50.0, global_attn_every_n_layers=2), extra=dict(num_hidden_layers=3))
add("modernbert-decoder", "gelu_tanh", hidden_activation="gelu_pytorch_tanh", rope_parameters=nested(plain(900.0), plain(90.0)), layer_types=FULL_SLIDE)
add("granite_swa", "layer_thetas", layer_types=SLIDE_FULL, sliding_window=8, layer_rope_theta=[100.0, 0, 10000.0], embedding_multiplier=5.0, attention_multiplier=0.2, residual_multiplier=0.3, logits_scaling=6.0)
add("cwm", "default_rope", rope_parameters=plain(100.0), layer_types=FULL_SLIDE, sliding_window=8, head_dim=16)

# scalars, caps, norms
add("gemma2 vaultgemma", "scalar", query_pre_attn_scalar=9, attn_logit_softcapping=None, final_logit_softcapping=None, sliding_window=8)
add("gemma2 vaultgemma", "caps", query_pre_attn_scalar=16, attn_logit_softcapping=2.0, final_logit_softcapping=3.0, attention_bias=True, hidden_activation="gelu")
add("gemma2 vaultgemma gemma3_text", "head_dim", head_dim=24, kv=1, query_pre_attn_scalar=24)
add("gemma", "gelu", hidden_act="gelu", head_dim=24)
add("gemma", "silu_bias", hidden_act="silu", attention_bias=True, head_dim=16, kv=1)
add("granite hyperclovax", "multipliers", embedding_multiplier=5.0, attention_multiplier=0.2, residual_multiplier=0.3, logits_scaling=6.0, attention_bias=True, mlp_bias=True)
add("hyperclovax", "no_post_norm", use_post_norm=False, attention_multiplier=None)
add("cohere", "qk_norm", use_qk_norm=True, logit_scale=0.5, attention_bias=True)
add("cohere cohere2", "eps", layer_norm_eps=0.05, logit_scale=2.0, kv=1)
add("cohere_compass_text", "windows", layer_types=SLIDE_FULL, sliding_window=8, logit_scale=0.25)
add("cohere_compass_text", "full_without_rope", layer_types=SLIDE_FULL, sliding_window=8, rope_parameters=nested(None, plain(300.0)))
add("olmo", "clip", clip_qkv=1.0, attention_bias=True)
add("olmo2 olmo3 exaone4 apertus qwen3 arcee llama glm4 helium", "eps", rms_norm_eps=0.1)
add("nanochat", "softcap", final_logit_softcapping=2.0, attention_bias=True, kv=1)
add("nanochat", "no_softcap", final_logit_softcapping=None, hidden_act="gelu")
add("seed_oss", "out_bias", attention_bias=False, attention_out_bias=True, mlp_bias=True, head_dim=24)
add("seed_oss", "qkv_bias", attention_bias=True, attention_out_bias=False, kv=1)
add("stablelm", "qk_norm_parallel", qk_layernorm=True, use_parallel_residual=True, use_qkv_bias=True)
add("stablelm", "qk_norm", qk_layernorm=True, kv=1, rope_parameters=plain(partial_rotary_factor=0.5))
add("stablelm phi persimmon", "partial_v4", rope_parameters=plain(partial_rotary_factor=0.5), _layout="v4", use_parallel_residual=True)
add("phi persimmon", "qk_norm", qk_layernorm=True, hidden_act="gelu")
add("phi", "qk_norm_off_kv1", qk_layernorm=False, kv=1, rope_parameters=plain(partial_rotary_factor=0.25))
add("persimmon", "no_qk_norm", qk_layernorm=False)
add("nemotron", "partial", rope_parameters=plain(partial_rotary_factor=0.25), head_dim=16, norm_eps=0.02)
add("nemotron", "v4", rope_parameters=plain(500.0, partial_rotary_factor=0.5), _layout="v4", head_dim=24, kv=1)
add("glm glm4", "whole", rope_parameters=plain(partial_rotary_factor=1.0), attention_bias=False)
add("glm glm4", "v4", rope_parameters=plain(500.0, partial_rotary_factor=0.5), _layout="v4")
add("phi3", "longrope", rope_parameters=longrope(8), original_max_position_embeddings=16)
add("phi3", "longrope_short", rope_parameters=longrope(8, 64), original_max_position_embeddings=64)
add("phi3", "su_partial", rope_parameters=longrope(4, partial_rotary_factor=0.5), original_max_position_embeddings=16, _layout="v4-type", kv=1)
add("phi3", "partial", rope_parameters=plain(partial_rotary_factor=0.5), sliding_window=8)
add("phi3", "attention_factor", rope_parameters=longrope(8, attention_factor=1.5, factor=2.0), original_max_position_embeddings=16)
add("starcoder2", "no_bias", use_bias=False, hidden_act="gelu", norm_epsilon=0.01, kv=1)
add("ernie4_5", "bias", use_bias=True, head_dim=16)
add("hunyuan_v1_dense", "alpha", rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=1.0, alpha=100.0), head_dim=16)
add("hunyuan_v1_dense", "alpha_v4", rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=1.0, alpha=50.0, beta_fast=32, beta_slow=1, mscale=1.0, mscale_all_dim=1.0), head_dim=16, _layout="v4-type")
add("apertus apertus1p5_text", "silu", hidden_act="silu", rope_parameters=plain())
add("apertus apertus1p5_text", "default_rope", attention_bias=True, _absent=("rope_parameters",))
add("apertus1p5_text", "pruned_head", output_vocab_size=96)
add("ministral3", "scale", rope_parameters=YARN | dict(llama_4_scaling_beta=0.5), head_dim=24)
add("ministral3", "default_scale", rope_parameters=plain(llama_4_scaling_beta=0.3, original_max_position_embeddings=10), kv=1)
add("exaone", "v4_names", _absent=("num_hidden_layers", "rms_norm_eps", "hidden_act"), _set=dict(num_layers=2, layer_norm_epsilon=0.02, activation_function="silu"))
add("exaone", "class_names", _original=False)
add("diffllama", "wide", heads=2, kv=2, head_dim=24, layers=3, attention_bias=True)
add("diffllama", "kv2", kv=2)
add("bitnet", "bias", attention_bias=True, kv=1, hidden_act="relu2")
add("minicpm3", "scales", scale_emb=6, scale_depth=0.9, dim_model_base=16, v_head_dim=24)
add("minicpm3 youtu", "no_q_lora", q_lora_rank=None, attention_bias=True)
add("minicpm3 youtu", "yarn", rope_parameters=YARN | dict(mscale=1.0, mscale_all_dim=0.8))
add("minicpm3", "longrope", rope_parameters=longrope(4))
add("youtu", "halves", rope_interleave=False, kv=4)

# the older families
GPTS = "gpt2 gpt-sw3"
add(GPTS, "inverse_layer", scale_attn_by_inverse_layer_idx=True, layers=3, n_layer=3)
add(GPTS, "unscaled", scale_attn_weights=False, n_inner=96)
add(GPTS, "upcast", reorder_and_upcast_attn=True, scale_attn_by_inverse_layer_idx=True, activation_function="relu")
add(GPTS, "n_inner_null", n_inner=None, activation_function="gelu", layer_norm_epsilon=0.02, hidden=32)
add("gpt2", "cross_attention", add_cross_attention=True)
add("gpt_neo", "global_local", attention_types=[[["global", "local"], 1]], window_size=8)
add("gpt_neo", "local", attention_types=[[["local"], 2]], window_size=5, intermediate_size=None, hidden=32)
add("gpt_neo", "globals", attention_types=[[["global"], 1], [["local"], 1]], window_size=16, activation_function="relu", layer_norm_epsilon=0.02)
add("gptj codegen", "rotary_8", rotary_dim=8, activation_function="gelu", n_inner=None, hidden=64)
add("gptj codegen", "rotary_16", rotary_dim=16, tie_word_embeddings=False)
add("gptj codegen", "tied", rotary_dim=4, tie_word_embeddings=True)
add("gpt_neox", "sequential", use_parallel_residual=False, attention_bias=False, rope_parameters=plain(partial_rotary_factor=0.5))
add("gpt_neox gpt_neox_japanese", "rotary_pct", _absent=("rope_parameters",), _set=dict(rotary_pct=0.5, rotary_emb_base=500))
add("gpt_neox gpt_neox_japanese", "linear", rope_parameters=linear(partial_rotary_factor=1.0), hidden_act="gelu_new")
add("gpt_neox", "default_pct", _absent=("rope_parameters",))
add("gpt_neox_japanese", "multiple_2", intermediate_multiple_size=2, layers=3, num_hidden_layers=3, hidden=32)
add("gpt_bigcode", "multi_head", multi_query=False)
add("gpt_bigcode", "unscaled", multi_query=True, scale_attn_weights=False, n_inner=None, hidden=32)
add("gpt_bigcode", "softmax_flags", attention_softmax_in_fp32=False, scale_attention_softmax_in_fp32=False, activation_function="relu")
add("opt", "post_norm", do_layer_norm_before=False)
add("opt", "projected", word_embed_proj_dim=32, do_layer_norm_before=False)
add("opt", "projected_pre", word_embed_proj_dim=32, enable_bias=False, _remove_final_layer_norm=True)
add("opt", "bare_norms", layer_norm_elementwise_affine=False, activation_function="gelu")
add("bloom", "post_layernorm", apply_residual_connection_post_layernorm=True, heads=2)
add("bloom", "exact_tp", slow_but_exact=True, pretraining_tp=2, layer_norm_epsilon=0.02)
add("bloom", "three_heads", heads=3, hidden=48)
add("bloom", "embed_name", _absent=("hidden_size", "n_layer", "n_head"), _set=dict(n_embed=64, num_hidden_layers=2, num_attention_heads=4))
add("mpt", "plain", attn_config=dict(clip_qkv=None))
add("mpt", "clip", attn_config=dict(clip_qkv=1.0, softmax_scale=0.4))
add("mpt", "three_heads", heads=3, n_heads=3, hidden=48)
add("mpt", "ignored", expansion_ratio=2, learned_pos_emb=False, no_bias=False, norm_type="layernorm", logit_scale=0.5, attn_config=dict(alibi=False, alibi_bias_max=4, qk_ln=True, attn_type="multiquery_attention"))
add("mpt", "eps", layer_norm_epsilon=0.05, logit_scale="inv_sqrt_d_model")
add("falcon", "old_multi_query", multi_query=True, parallel_attn=True, bias=True)
add("falcon", "sequential", multi_query=False, parallel_attn=False, bias=True, kv=4)
add("falcon", "multi_head_parallel", multi_query=False, parallel_attn=True, kv=4)
add("falcon", "sequential_mq", multi_query=True, parallel_attn=False)
add("falcon", "new", new_decoder_architecture=True, multi_query=True, kv=2)
add("falcon", "new_one_norm", new_decoder_architecture=True, num_ln_in_parallel_attn=1, kv=1, bias=True)
add("falcon", "new_multi_head", new_decoder_architecture=True, kv=4, activation="relu", ffn_hidden_size=96)
add("falcon", "alibi", alibi=True, multi_query=False, parallel_attn=False, bias=True, kv=4)
add("falcon", "alibi_mq", alibi=True, multi_query=True, parallel_attn=True)
add("falcon", "n_embed", _absent=("hidden_size",), _set=dict(n_embed=64))
add("falcon", "linear", rope_parameters=linear(), _layout="v4")
add("biogpt", "unscaled", scale_embedding=False, hidden_act="relu", layer_norm_eps=0.01)
add("biogpt", "tanh", hidden_act="gelu_pytorch_tanh", heads=2)
add("xglm", "unscaled", scale_embedding=False, activation_function="relu")
add("xglm", "pad_5", pad_token_id=5)
add("xglm", "pad_1", pad_token_id=1)
add("openai-gpt", "silu", afn="silu", layer_norm_epsilon=0.02)
add("openai-gpt", "relu", afn="relu", heads=2)
add("ctrl", "eps", layer_norm_epsilon=0.01, dff=96, heads=2)
add("jais2", "no_bias", attention_bias=False, mlp_bias=False, hidden_act="relu2", layer_norm_eps=0.02)

# every activation once, in a gated MLP and in a plain one
for name in ("gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python", "gelu_python_tanh", "gelu_accurate", "quick_gelu", "gelu_10", "relu", "relu2", "relu6", "leaky_relu",
             "sigmoid", "silu", "swish", "tanh", "mish", "laplace", "linear"):
    add("llama", f"act_{name}", hidden_act=name, layers=2, hidden=32)
for name in ("gelu_fast", "quick_gelu", "relu2", "mish", "tanh", "swish", "leaky_relu"):
    add("gpt2", f"act_{name}", activation_function=name, hidden=32)
    add("gpt_neox", f"act_{name}", hidden_act=name, hidden=32)
# sizes that few checkpoints have
add("llama qwen3 gemma2 olmo2 glm4 cohere phi gpt_neox", "one_layer", hidden=32, extra=dict(num_hidden_layers=1))
add("llama mistral qwen2 granite cohere stablelm starcoder2 nemotron", "all_kv", kv=4)
add("llama gpt2 bloom gpt_neox gptj opt mpt falcon", "one_head", heads=1, kv=1, hidden=32, extra=dict())
add("bloom mpt falcon", "six_heads", heads=6, hidden=48, kv=2, alibi=False)
add("gpt_neo gpt_bigcode biogpt openai-gpt persimmon", "three_heads", heads=3, hidden=48)
