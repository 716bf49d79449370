"""Single nodes (nodes.py) on a device beside the host.

usage: device_nodes.py --build build [--seeds 0:1000] [--only top_k,pad] [--device 'cuda-emulated?late=1&poison=1&seed=3&order=7'] [--counts device]

Each seed makes one node. Results that are moved, compared or decided must have the host's bits, computed ones must be within a tolerance of the largest element; a call that fails must fail on both. Exit
status 1: a node differs."""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import nodes  # noqa: E402
import reed  # noqa: E402

TOLERANCE = {"f32": 2e-5, "f64": 1e-9, "f16": 2e-3, "bf16": 1.6e-2}  # of the largest element


def run(library, module, arrays, device):
    """Results of two runs, or the failure's status."""
    session = None
    try:
        session = reed.Session(library, module, device)
        first = [a.copy() for a in session.run(arrays)]
        again = [a.copy() for a in session.run(arrays)]
        if any(a.tobytes() != b.tobytes() for a, b in zip(first, again)): return "the second run differs"
        return first
    except reed.Error as error: return error
    finally:
        if session: session.close()


def differs(got, want, dtype, exact):
    if got.shape != want.shape or got.dtype != want.dtype: return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if got.dtype.kind != "f": bad = got != want
    elif exact: bad = ~((got == want) | (np.isnan(got) & np.isnan(want)))
    else:
        finite = np.isfinite(want)
        bad = (finite != np.isfinite(got)) | (~finite & ~((got == want) | (np.isnan(got) & np.isnan(want))))
        both = finite & np.isfinite(got)
        scale = max(1., float(np.abs(want[finite].astype(np.float64)).max(initial=0)))
        bad |= both & (np.abs(np.where(both, got, 0).astype(np.float64) - np.where(both, want, 0)) > TOLERANCE[dtype] * scale)
    if not bad.any(): return None
    at = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return f"{int(bad.sum())} of {bad.size} elements, first at {[int(i) for i in at]}: {got[at]!r}, not {want[at]!r}"


def check(library, seed, options):
    g = nodes.Node(seed)
    text = nodes.make(g, seed, options.only)
    try: modules = [library.compile(g.model.SerializeToString(), target=target, counts=options.counts if target else "host") for target in (None, "cuda")]
    except reed.Error as error: return "" if "not supported" in str(error) else f"{text}: {error}"
    want, got = run(library, modules[0], g.arrays, "host"), run(library, modules[1], g.arrays, options.device)
    if isinstance(want, reed.Error) or isinstance(got, (reed.Error, str)):
        same = isinstance(want, reed.Error) and isinstance(got, reed.Error) and want.status == got.status
        return "" if same else f"{text}: {got if isinstance(got, (reed.Error, str)) else 'no failure'}; the host: {want if isinstance(want, reed.Error) else 'no failure'}"
    for i, (a, b) in enumerate(zip(got, want)):
        wrong = differs(a, b, g.dtypes[i], g.exact)
        if wrong: return f"{text}: output {i}: {wrong}"
    return None


def parser_of_seeds():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--seeds", default="0:1000")
    parser.add_argument("--device", default="cuda-emulated?late=1&poison=1&seed=3&order=7")
    parser.add_argument("--only", type=lambda text: text.split(","))
    return parser


def check_seeds(options, check_one):
    """Prints what check_one(library, seed, options) says of each seed (None: passed, "": skipped) and their numbers. True: one failed."""
    library = reed.Library(options.build)
    first, last = (int(n) for n in options.seeds.split(":"))
    passed = failed = skipped = 0
    for seed in range(first, last):
        wrong = check_one(library, seed, options)
        passed, skipped = passed + (wrong is None), skipped + (wrong == "")
        if wrong:
            failed += 1
            print(wrong, flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


def main():
    parser = parser_of_seeds()
    parser.add_argument("--counts", choices=("host", "device"), default="host")
    return check_seeds(parser.parse_args(), check)


if __name__ == "__main__": sys.exit(main())
