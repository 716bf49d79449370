"""Greedy decoding of the tests' decoder by onnxruntime: the tokens of decoder_tokens.txt. Not run by the tests.

    make_models FOLDER && decode_onnxruntime.py FOLDER/decoder.onnx 200 3 14 15 9 2 6 >decoder_tokens.txt
"""
import sys

import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])
n_caches = len(session.get_inputs()) - 1
pasts = [np.zeros((1, 2, 0, 16), np.float32)] * n_caches
ids, tokens, margin = [int(t) for t in sys.argv[3:]], [], np.inf
for _ in range(int(sys.argv[2])):
    logits, *pasts = session.run(None, {'ids': np.array([ids], np.int64), **{f'p{i}': p for i, p in enumerate(pasts)}})
    last = np.sort(logits[0, -1])
    margin = min(margin, last[-1] - last[-2])
    ids = [int(logits[0, -1].argmax())]
    tokens += ids
print(*tokens)
print(f'{len(set(tokens))} tokens of their own, least distance of the first two {margin:.3g}', file=sys.stderr)
