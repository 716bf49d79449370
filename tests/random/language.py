"""Tiny language models with random weights, as torch's exporter writes them: Llama, GPT-2, BLOOM, T5's and Whisper's decoders with a growing cache, BERT and Whisper's encoder.

usage: language.py FOLDER [NAME ...]     writes FOLDER/NAME.onnx; needs torch, transformers and onnxscript

A decoder's inputs are ids i64[batch, tokens], then (T5, Whisper) the encoder's states, then a cache of keys and one of values, f32[batch, heads, past, size]; its outputs are
the logits and the two grown caches."""
import os
import sys
import warnings

import torch
import transformers
from torch import nn
from transformers import DynamicCache, EncoderDecoderCache

WIDTH, HEADS, WORDS, STATES = 16, 2, 40, 12
DYNAMIC = torch.export.Dim.DYNAMIC
IDS, CACHE = torch.zeros(2, 3, dtype=torch.long), {0: DYNAMIC, 2: DYNAMIC}


class Call(nn.Module):
    """A function of a model as a module, which the exporter wants."""

    def __init__(self, model, function):
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *inputs): return self.function(self.model, *inputs)


def caches(heads): return [torch.zeros(2, heads, 5, WIDTH // HEADS) for _ in range(2)]


def causal(model, ids, keys, values):
    cache = DynamicCache()
    cache.update(keys, values, 0)
    out = model(input_ids=ids, past_key_values=cache, use_cache=True)
    layer = out.past_key_values.layers[0]
    return out.logits, layer.keys, layer.values


def after_encoder(decoder, head):
    def run(model, ids, states, keys, values):
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        cache.self_attention_cache.update(keys, values, 0)
        out = decoder(model)(input_ids=ids, encoder_hidden_states=states, past_key_values=cache, use_cache=True)
        layer = out.past_key_values.self_attention_cache.layers[0]
        return head(model)(out.last_hidden_state), layer.keys, layer.values
    return run


def llama():
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=1, num_attention_heads=HEADS, num_key_value_heads=1,
                                                                   vocab_size=WORDS, max_position_embeddings=64))
    return model, causal, (IDS, *caches(1)), ({0: DYNAMIC, 1: DYNAMIC}, CACHE, CACHE)


def gpt2():
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=WIDTH, n_layer=1, n_head=HEADS, vocab_size=WORDS, n_positions=64, bos_token_id=1, eos_token_id=2))
    return model, causal, (IDS, *caches(HEADS)), ({0: DYNAMIC, 1: DYNAMIC}, CACHE, CACHE)


def bloom():
    model = transformers.BloomForCausalLM(transformers.BloomConfig(hidden_size=WIDTH, n_layer=1, n_head=HEADS, vocab_size=WORDS))
    return model, causal, (IDS, *caches(HEADS)), ({0: DYNAMIC, 1: DYNAMIC}, CACHE, CACHE)


def t5():
    # attention as sums and products: torch 2.15 cannot export the fused one with T5's views
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(d_model=WIDTH, d_kv=WIDTH // HEADS, d_ff=32, num_layers=1, num_decoder_layers=1, num_heads=HEADS,
                                                                          vocab_size=WORDS, decoder_start_token_id=0, attn_implementation="eager"))
    run = after_encoder(lambda m: m.decoder, lambda m: m.lm_head)
    return model, run, (IDS, torch.zeros(2, STATES, WIDTH), *caches(HEADS)), ({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}, CACHE, CACHE)


def whisper():
    return transformers.WhisperForConditionalGeneration(transformers.WhisperConfig(
        d_model=WIDTH, encoder_layers=1, decoder_layers=1, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=32, decoder_ffn_dim=32, vocab_size=WORDS,
        num_mel_bins=8, max_source_positions=STATES, max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1))


def whisper_encoder():
    return whisper(), lambda m, sound: m.model.encoder(sound).last_hidden_state, (torch.zeros(2, 8, 2 * STATES),), ({0: DYNAMIC},)


def whisper_decoder():
    run = after_encoder(lambda m: m.model.decoder, lambda m: m.proj_out)
    return whisper(), run, (IDS, torch.zeros(2, STATES, WIDTH), *caches(HEADS)), ({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}, CACHE, CACHE)


def bert():
    model = transformers.BertModel(transformers.BertConfig(hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=HEADS, intermediate_size=32, vocab_size=WORDS,
                                                           max_position_embeddings=32), add_pooling_layer=False)
    run = lambda m, ids, mask: m(input_ids=ids, attention_mask=mask).last_hidden_state
    return model, run, (IDS, torch.ones_like(IDS)), ({0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC})


MODELS = {f.__name__: f for f in (llama, gpt2, bloom, t5, bert, whisper_encoder, whisper_decoder)}


def main(folder, *names):
    warnings.filterwarnings("ignore")
    os.makedirs(folder, exist_ok=True)
    for name in names or MODELS:
        torch.manual_seed(0)
        model, function, inputs, dims = MODELS[name]()
        with torch.no_grad():  # positions and norms have weights of 0 and 1 otherwise
            for parameter in model.parameters(): parameter.add_(0.05 * torch.randn_like(parameter))
        torch.onnx.export(Call(model.eval(), function).eval(), inputs, dynamo=True, dynamic_shapes=(dims,), verbose=False).save(os.path.join(folder, name + ".onnx"))
        print("exported", name, flush=True)


if __name__ == "__main__": main(*sys.argv[1:])
