"""Tiny language models with random weights, as torch's exporters write them: decoders with a growing cache, BERT and Whisper's encoder.

usage: language.py FOLDER [NAME ...] [--layers 1] [--exporter dynamo] [--opset 0] [--attention sdpa] [--inputs mask positions cross]
                                        writes FOLDER/NAME.onnx; needs torch, transformers and onnxscript

exporter: dynamo (torch.export) or trace (TorchScript); opset 0: the exporter's own choice; attention: transformers' implementation, sdpa or eager.

A decoder's inputs are ids i64[batch, tokens], then (T5, Whisper, BART, Marian, Pegasus, Blenderbot) the encoder's states, then for each layer a cache of keys and one of values, f32[batch, heads,
past, size]; its outputs are the logits and the grown caches. Further inputs, after the ids: `mask` i64[batch, past + tokens], 0 at padding; `positions` i64[batch, tokens]. `cross`: the
encoder's keys and values of each layer, f32[batch, heads, states, size], which replace its states in decoders that have an encoder."""
import argparse
import os
import sys
import warnings

import torch
import transformers
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache

WIDTH, HEADS, WORDS, STATES, BATCH, TOKENS, PAST = 16, 2, 40, 12, 2, 3, 5
ARGUMENTS = {"mask": "attention_mask", "positions": "position_ids"}  # of transformers, by input
FURTHER = (*ARGUMENTS, "cross")
DYNAMIC, LENGTH = torch.export.Dim.DYNAMIC, torch.export.Dim("past", max=48)  # of all caches; tables of places end
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WIDE = {"hidden_size": WIDTH, "intermediate_size": 32, "num_attention_heads": HEADS, "vocab_size": WORDS, "max_position_embeddings": 64, **SPECIAL}
BART = {"d_model": WIDTH, "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": WORDS, "encoder_layers": 1,
        "decoder_start_token_id": 1, **SPECIAL}
WHISPER = {**BART, "num_mel_bins": 8, "max_source_positions": STATES, "max_target_positions": 64}

# name: class, configuration, its arguments, the argument that is the number of layers, heads of the cache
CAUSAL = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**WIDE, "num_key_value_heads": 1}, "num_hidden_layers", 1),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**WIDE, "num_key_value_heads": 1, "head_dim": 8}, "num_hidden_layers", 1),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**WIDE, "num_key_value_heads": 1, "head_dim": 8, "sliding_window": 4}, "num_hidden_layers", 1),
    "gemma3": ("Gemma3ForCausalLM", "Gemma3TextConfig", {**WIDE, "num_key_value_heads": 1, "head_dim": 8, "sliding_window": 4,
                                                         "layer_types": ("sliding_attention", "full_attention")}, "num_hidden_layers", 1),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**WIDE, "num_key_value_heads": 1, "sliding_window": 4}, "num_hidden_layers", 1),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {**WIDE, "num_key_value_heads": 1}, "num_hidden_layers", 1),
    "stablelm": ("StableLmForCausalLM", "StableLmConfig", {**WIDE, "num_key_value_heads": HEADS}, "num_hidden_layers", HEADS),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", {**WIDE, "num_key_value_heads": 1}, "num_hidden_layers", 1),
    "phi": ("PhiForCausalLM", "PhiConfig", {**WIDE, "num_key_value_heads": HEADS, "partial_rotary_factor": 0.5}, "num_hidden_layers", HEADS),
    "olmo2": ("Olmo2ForCausalLM", "Olmo2Config", {**WIDE, "num_key_value_heads": 1}, "num_hidden_layers", 1),
    "granite": ("GraniteForCausalLM", "GraniteConfig", {**WIDE, "num_key_value_heads": 1, "attention_multiplier": 0.3, "residual_multiplier": 0.5}, "num_hidden_layers", 1),
    "smollm3": ("SmolLM3ForCausalLM", "SmolLM3Config", {**WIDE, "num_key_value_heads": 1, "no_rope_layer_interval": 2}, "num_hidden_layers", 1),
    "phi3_window": ("Phi3ForCausalLM", "Phi3Config", {**WIDE, "num_key_value_heads": 1, "sliding_window": 4}, "num_hidden_layers", 1),
    "starcoder2": ("Starcoder2ForCausalLM", "Starcoder2Config", {**WIDE, "num_key_value_heads": 1, "sliding_window": 4}, "num_hidden_layers", 1),
    "cohere2": ("Cohere2ForCausalLM", "Cohere2Config", {**WIDE, "num_key_value_heads": 1, "sliding_window": 4}, "num_hidden_layers", 1),
    "glm": ("GlmForCausalLM", "GlmConfig", {**WIDE, "num_key_value_heads": 1, "head_dim": 8}, "num_hidden_layers", 1),
    "persimmon": ("PersimmonForCausalLM", "PersimmonConfig", WIDE, "num_hidden_layers", HEADS),
    "gpt_oss": ("GptOssForCausalLM", "GptOssConfig", {**WIDE, "num_key_value_heads": 1, "head_dim": 8, "sliding_window": 4, "num_local_experts": 2, "num_experts_per_tok": 1}, "num_hidden_layers", 1),
    "exaone4": ("Exaone4ForCausalLM", "Exaone4Config", {**WIDE, "num_key_value_heads": 1, "sliding_window": 4, "sliding_window_pattern": 2}, "num_hidden_layers", 1),
    "olmo3": ("Olmo3ForCausalLM", "Olmo3Config", {**WIDE, "num_key_value_heads": 1, "sliding_window": 4}, "num_hidden_layers", 1),
    "nemotron": ("NemotronForCausalLM", "NemotronConfig", {**WIDE, "num_key_value_heads": 1}, "num_hidden_layers", 1),
    "nanochat": ("NanoChatForCausalLM", "NanoChatConfig", {**WIDE, "num_key_value_heads": 1}, "num_hidden_layers", 1),
    "doge": ("DogeForCausalLM", "DogeConfig", {**WIDE, "num_key_value_heads": 1}, "num_hidden_layers", 1),
    "biogpt": ("BioGptForCausalLM", "BioGptConfig", WIDE, "num_hidden_layers", HEADS),
    "modernbert_decoder": ("ModernBertDecoderForCausalLM", "ModernBertDecoderConfig", {**WIDE, "local_attention": 8, "global_attn_every_n_layers": 2, "cls_token_id": 1, "sep_token_id": 2},
                           "num_hidden_layers", HEADS),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", "GPTBigCodeConfig", {"n_embd": WIDTH, "n_head": HEADS, "vocab_size": WORDS, "n_positions": 64, "multi_query": True, **SPECIAL}, "n_layer", 1),
    "cohere": ("CohereForCausalLM", "CohereConfig", {**WIDE, "num_key_value_heads": 1}, "num_hidden_layers", 1),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", WIDE, "num_hidden_layers", HEADS),
    "opt": ("OPTForCausalLM", "OPTConfig", {**WIDE, "ffn_dim": 32, "word_embed_proj_dim": WIDTH}, "num_hidden_layers", HEADS),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", {"n_embd": WIDTH, "n_head": HEADS, "vocab_size": WORDS, "n_positions": 64, **SPECIAL}, "n_layer", HEADS),
    "gptj": ("GPTJForCausalLM", "GPTJConfig", {"n_embd": WIDTH, "n_head": HEADS, "rotary_dim": 4, "vocab_size": WORDS, "n_positions": 64, **SPECIAL}, "n_layer", HEADS),
    "gpt_neo": ("GPTNeoForCausalLM", "GPTNeoConfig", {"hidden_size": WIDTH, "num_heads": HEADS, "window_size": 4, "vocab_size": WORDS, "max_position_embeddings": 64, **SPECIAL},
                "num_layers", HEADS),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"hidden_size": WIDTH, "n_head": HEADS, "vocab_size": WORDS, **SPECIAL}, "n_layer", HEADS),
    "falcon": ("FalconForCausalLM", "FalconConfig", {**WIDE, "new_decoder_architecture": False, "multi_query": True, "alibi": False}, "num_hidden_layers", 1),
    "falcon_alibi": ("FalconForCausalLM", "FalconConfig", {**WIDE, "new_decoder_architecture": False, "multi_query": False, "alibi": True}, "num_hidden_layers", HEADS),
    "mpt": ("MptForCausalLM", "MptConfig", {"d_model": WIDTH, "n_heads": HEADS, "vocab_size": WORDS, "max_seq_len": 64, **SPECIAL}, "n_layers", HEADS),
    "codegen": ("CodeGenForCausalLM", "CodeGenConfig", {"n_embd": 2 * WIDTH, "n_head": 2 * HEADS, "rotary_dim": 4, "vocab_size": WORDS, "n_positions": 64, **SPECIAL}, "n_layer", 2 * HEADS),
    "xglm": ("XGLMForCausalLM", "XGLMConfig", {"d_model": WIDTH, "attention_heads": HEADS, "ffn_dim": 32, "vocab_size": WORDS, "max_position_embeddings": 64, **SPECIAL}, "num_layers", HEADS),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", {**WIDE, "num_key_value_heads": 1, "num_local_experts": 4, "num_experts_per_tok": 2}, "num_hidden_layers", 1),
    "qwen2_moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", {**WIDE, "num_key_value_heads": 1, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8,
                                                            "shared_expert_intermediate_size": 16, "decoder_sparse_step": 1}, "num_hidden_layers", 1),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {**WIDE, "num_key_value_heads": 1, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8},
                  "num_hidden_layers", 1),
    "falcon_groups": ("FalconForCausalLM", "FalconConfig", {**WIDE, "new_decoder_architecture": True, "num_kv_heads": 1, "alibi": False}, "num_hidden_layers", 1),
}
# and the parts: the decoder, and the projection to logits
AFTER_ENCODER = {
    "t5": ("T5ForConditionalGeneration", "T5Config", {"d_model": WIDTH, "d_kv": WIDTH // HEADS, "d_ff": 32, "num_layers": 1, "num_heads": HEADS, "vocab_size": WORDS,
                                                      "decoder_start_token_id": 0, **SPECIAL}, "num_decoder_layers", lambda m: m.decoder, lambda m: m.lm_head),
    "whisper_decoder": ("WhisperForConditionalGeneration", "WhisperConfig", WHISPER, "decoder_layers", lambda m: m.model.decoder, lambda m: m.proj_out),
    "bart": ("BartForConditionalGeneration", "BartConfig", {**BART, "max_position_embeddings": 64}, "decoder_layers", lambda m: m.model.decoder, lambda m: m.lm_head),
    "pegasus": ("PegasusForConditionalGeneration", "PegasusConfig", {**BART, "max_position_embeddings": 64}, "decoder_layers", lambda m: m.model.decoder, lambda m: m.lm_head),
    "blenderbot": ("BlenderbotForConditionalGeneration", "BlenderbotConfig", {**BART, "max_position_embeddings": 64}, "decoder_layers", lambda m: m.model.decoder, lambda m: m.lm_head),
    "marian": ("MarianMTModel", "MarianConfig", {**BART, "max_position_embeddings": 64}, "decoder_layers", lambda m: m.model.decoder, lambda m: m.lm_head),
}


class Call(nn.Module):
    """A function of a model as a module, which the exporters want."""

    def __init__(self, model, function):
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *inputs): return self.function(self.model, *inputs)


def is_past(name): return name[0] == "p" and name[1:].isdigit()


def grown(cache): return [part for layer in cache.layers for part in (layer.keys, layer.values)]


def cache_of(parts):
    cache = DynamicCache()
    for layer in range(len(parts) // 2): cache.update(parts[2 * layer], parts[2 * layer + 1], layer)
    return cache


def causal(further):
    def run(model, ids, *parts):
        given = dict(zip([ARGUMENTS[f] for f in further], parts))
        out = model(input_ids=ids, past_key_values=cache_of(parts[len(further):]), use_cache=True, **given)
        return out.logits, *grown(out.past_key_values)
    return run


def after_encoder(further, layers, decoder, head):
    """layers: those whose cross caches are given; 0: the states are."""
    def run(model, ids, *parts):
        given, parts = dict(zip([ARGUMENTS[f] for f in further], parts)), parts[len(further):]
        cross, states = (cache_of(parts[:2 * layers]), torch.zeros(BATCH, STATES, WIDTH)) if layers else (DynamicCache(), parts[0])
        cache = EncoderDecoderCache(cache_of(parts[2 * layers or 1:]), cross)
        out = decoder(model)(input_ids=ids, encoder_hidden_states=states, past_key_values=cache, use_cache=True, **given)
        return head(model)(out.last_hidden_state), *grown(out.past_key_values.self_attention_cache)
    return run


def whisper(attention):
    config = transformers.WhisperConfig(**WHISPER, decoder_layers=1, attn_implementation=attention)
    return transformers.WhisperForConditionalGeneration(config), lambda m, sound: m.model.encoder(sound).last_hidden_state


def bert(attention):
    model = transformers.BertModel(transformers.BertConfig(**WIDE, num_hidden_layers=1, attn_implementation=attention), add_pooling_layer=False)
    return model, lambda m, ids, mask: m(input_ids=ids, attention_mask=mask).last_hidden_state


def further_inputs(name, wanted, layers):
    """The names of those of the wanted inputs that the model has, the inputs, their names and their dynamic axes."""
    takes = [f for f in FURTHER if f in wanted and (f != "positions" or name not in WITHOUT_POSITIONS) and (f != "cross" or name in AFTER_ENCODER)]
    inputs, names, axes = [], [], []
    for f in takes:
        if f == "mask": inputs, names, axes = inputs + [torch.ones(BATCH, PAST + TOKENS, dtype=torch.long)], names + [f], axes + [(0, 1)]
        if f == "positions": inputs, names, axes = inputs + [torch.arange(PAST, PAST + TOKENS).repeat(BATCH, 1)], names + [f], axes + [(0, 1)]
    if "cross" in takes:
        inputs += [torch.zeros(BATCH, HEADS, STATES, WIDTH // HEADS) for _ in range(2 * layers)]
        names, axes = names + [f"cross{i}" for i in range(2 * layers)], axes + [(0, 2)] * (2 * layers)
    elif name in AFTER_ENCODER: inputs, names, axes = inputs + [torch.zeros(BATCH, STATES, WIDTH)], names + ["states"], axes + [(0, 1)]
    return takes, inputs, names, axes


def model_of(name, layers, attention, wanted):
    """The model, its function, inputs, their names and their dynamic axes."""
    ids = torch.zeros(BATCH, TOKENS, dtype=torch.long)
    if name == "bert": return *bert(attention), [ids, torch.ones_like(ids)], ["ids", "mask"], [(0, 1), (0, 1)]
    if name == "whisper_encoder": return *whisper(attention), [torch.zeros(BATCH, 8, 2 * STATES)], ["sound"], [(0,)]
    kind, config, arguments, n_layers, *rest = (CAUSAL.get(name) or AFTER_ENCODER[name])
    arguments = {**arguments, n_layers: layers}
    if "layer_types" in arguments: arguments["layer_types"] = [arguments["layer_types"][i % 2] for i in range(layers)]
    if name == "gpt_neo": arguments["attention_types"] = [[[("global", "local")[i % 2]], 1] for i in range(layers)]
    model = getattr(transformers, kind)(getattr(transformers, config)(**arguments, attn_implementation=attention))
    n = 2 * layers
    caches = [torch.zeros(BATCH, rest[0] if name in CAUSAL else HEADS, PAST, WIDTH // HEADS) for _ in range(n)]
    takes, inputs, names, axes = further_inputs(name, wanted, layers)
    function = causal(takes) if name in CAUSAL else after_encoder([t for t in takes if t in ARGUMENTS], layers if "cross" in takes else 0, *rest)
    return model, function, [ids, *inputs, *caches], ["ids", *names, *[f"p{i}" for i in range(n)]], [(0, 1), *axes, *[(0, 2)] * n]


WITHOUT_POSITIONS = ("bloom", "falcon_alibi", "mpt", *AFTER_ENCODER)
ONLY_EAGER = ("gemma2", "bloom", "mpt", "gpt_neo")  # transformers has no other implementation of them
NAMES = (*CAUSAL, *AFTER_ENCODER, "bert", "whisper_encoder")


def export(name, path, layers=1, exporter="dynamo", opset=0, attention="sdpa", wanted=(), dims="own"):
    torch.manual_seed(0)
    if name in ONLY_EAGER or (name == "t5" and exporter == "dynamo"): attention = "eager"  # torch 2.15 cannot export the fused one with T5's views
    model, function, inputs, names, axes = model_of(name, layers, attention, wanted)
    with torch.no_grad():  # positions and norms have weights of 0 and 1 otherwise
        for parameter in model.parameters(): parameter.add_(0.05 * torch.randn_like(parameter))
    call, which = Call(model.eval(), function).eval(), {"opset_version": opset} if opset else {}
    if exporter == "dynamo":
        torch.onnx.export(call, tuple(inputs), dynamo=True, dynamic_shapes=(tuple({a: LENGTH if is_past(n) and a else DYNAMIC for a in dims} for n, dims in zip(names, axes)),), input_names=names, verbose=False, **which).save(path)
        return
    spelled = {n: {a: f"{n}_{a}" if a else "batch" for a in own} for n, own in zip(names, axes)}
    if dims == "shared":
        for n, a in (("ids", "tokens"), ("positions", "tokens"), ("mask", "past + tokens")):
            if n in spelled: spelled[n][1] = a
    for n in names:
        if is_past(n): spelled[n][2] = "past"
        if n.startswith("cross"): spelled[n][2] = "states"
    torch.onnx.export(call, tuple(inputs), path, dynamo=False, input_names=names, dynamic_axes=spelled, **which)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--exporter", choices=("dynamo", "trace"), default="dynamo")
    parser.add_argument("--opset", type=int, default=0)
    parser.add_argument("--attention", choices=("sdpa", "eager"), default="sdpa")
    parser.add_argument("--dims", choices=("own", "shared"), default="own", help="names of dims of the exporter trace: of each input, or of all inputs as optimum has them")
    parser.add_argument("--inputs", nargs="*", choices=FURTHER, default=())
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    os.makedirs(options.folder, exist_ok=True)
    failed = False
    for name in options.names or NAMES:
        try:
            export(name, os.path.join(options.folder, name + ".onnx"), options.layers, options.exporter, options.opset, options.attention, options.inputs, options.dims)
            print("exported", name, flush=True)
        except Exception as error:  # the exporter's own limits
            print(f"{name}: {type(error).__name__}: {str(error).strip().splitlines()[0][:200]}", flush=True)
            failed = True
    sys.exit(failed)


if __name__ == "__main__": main()
