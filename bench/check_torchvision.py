#!/usr/bin/env python3
"""Compares the results of the exported models with PyTorch's. Runs the models of export_torchvision.py in Reed, on the host and on the simulated accelerator.

    check_torchvision.py --folder MODELS --build BUILDDIR [--models faster,mask,...] [--sizes 480x640,...,quiet] [--devices host,sim] [--json FILE] [--markdown FILE]

equality.py defines the comparison and its bars. Eager PyTorch in float32, onnxruntime and OpenVINO are the peers that set the bars; a peer that fails on a picture sets
none there. The results of the peers and of float64 are computed once and kept in FOLDER/results until the model is exported again.

Needs the packages of export_torchvision.py, and onnxruntime. Exit status 1: Reed fails somewhere.
"""
import argparse
import datetime
import json
import sys
import time
import warnings

import numpy as np

import engines
import equality
import models as M

PEERS = ("eager", "onnxruntime", "openvino")
SIZES = {"detector": "480x640,640x427,375x501,224x900,quiet", "tokens": "1x1,2x17,3x128,1x77,4x33", "image": "48x64,64x43,37x51,1x1,120x90"}


def sizes_of(name):
    return SIZES["detector" if name in M.DETECTORS else "image" if name.startswith("subpixel") else "tokens"].split(",")


def reed_rows(name, device, sizes, reference, arguments):
    """Reed's figures per size. Each size runs twice, because a shape seen before runs by other code than a new shape; if the results differ, the worse figures count."""
    try:
        engine = engines.Reed(arguments.folder, name, arguments.threads, arguments.build, device)
    except Exception as e:
        return [{"size": size, "error": str(e)} for size in sizes]
    rows = []
    for size in sizes:
        row = {"size": size}
        try:
            arrays, truth = reference.inputs(size), reference.outputs("float64", size)
            start = time.monotonic()
            first = engine(arrays)
            row["first_s"], start = round(time.monotonic() - start, 3), time.monotonic()
            again = engine(arrays)
            row["again_s"] = round(time.monotonic() - start, 3)
            doubts = reference.doubts(size)
            row.update(equality.compare(name, truth, again, doubts))
            if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(first, again)):
                figures = equality.compare(name, truth, first, doubts)
                row.update({k: max(v, row.get(k, v)) for k, v in figures.items()}, repeats=False)
        except Exception as e:
            row["error"] = str(e)
        rows.append(row)
    engine.close()
    return rows


def peer_rows(name, peer, sizes, reference):
    rows = []
    for size in sizes:
        try:
            rows.append({"size": size, **equality.compare(name, reference.outputs("float64", size), reference.outputs(peer, size), reference.doubts(size))})
        except RuntimeError as e:
            rows.append({"size": size, "error": str(e)})
    return rows


def check(name, arguments):
    """One model: rows of figures per engine and size."""
    sizes = arguments.sizes.split(",") if arguments.sizes else sizes_of(name)
    reference = equality.Reference(arguments.folder, name, arguments.threads)
    # one engine after the other, so that each engine is opened once
    for which in ("float64", *PEERS):
        for size in sizes:
            try:
                reference.outputs(which, size)
            except RuntimeError:  # peer_rows reports the failure
                if which not in PEERS:
                    raise
    reference.close()
    rows = [{"engine": peer, **row} for peer in PEERS for row in peer_rows(name, peer, sizes, reference)]
    for device in arguments.devices.split(","):
        rows += [{"engine": "reed " + device, **row} for row in reed_rows(name, device, sizes, reference, arguments)]
    for row in rows:
        if row["engine"] not in PEERS:
            peers = [p for p in rows if p["size"] == row["size"] and p["engine"] in PEERS and "error" not in p]
            row["missed"] = [row["error"]] if "error" in row else equality.verdict(row, peers)
    return {"model": name, "rows": rows}


def table(result):
    """The rows as a Markdown table."""
    rows = result["rows"]
    columns = ["size", "engine"] + [c for c in ("detections", "of", *equality.COUNTS, *equality.TOLD, *equality.FLOORS) if any(c in r for r in rows)]
    text = lambda v: "" if v is None else f"{v:.2e}" if isinstance(v, float) else str(v)
    lines = ["| " + " | ".join(columns + ["verdict"]) + " |", "|---" * (len(columns) + 1) + "|"]
    order = list(dict.fromkeys(r["size"] for r in rows))
    for row in sorted(rows, key=lambda r: order.index(r["size"])):
        mark = row.get("error") or ("" if "missed" not in row else "; ".join(row["missed"]) or "pass")
        lines.append("| " + " | ".join([text(row.get(c)) for c in columns] + [mark.splitlines()[0] if mark else ""]) + " |")
    return "\n".join(lines)


def summary(models):
    """A table over all models for the documentation: one row for each picture; a cell has the figures of the peers / of Reed; "-": failed or not compared.
    Empty columns are left out."""
    columns, lines = [c for c in (*equality.COUNTS, *equality.TOLD, *equality.FLOORS) if any(r.get(c) is not None for m in models for r in m["rows"])], []
    text = lambda v: "-" if v is None else f"{v:.1e}".replace("e-0", "e-") if isinstance(v, float) else str(v)
    for model in models:
        for size in dict.fromkeys(r["size"] for r in model["rows"]):
            by = {r["engine"]: r for r in model["rows"] if r["size"] == size}
            reeds = [r for e, r in by.items() if e not in PEERS]
            cells = []
            for c in columns:
                values = [by[p].get(c) for p in PEERS] + list(dict.fromkeys(r.get(c) for r in reeds))  # host and sim, if they differ
                cells.append("" if all(v is None for v in values) else " / ".join(map(text, values)))
            found = next((f"{r['detections']} of {r['of']}" for r in reeds if "of" in r), "")
            missed = sorted({m.splitlines()[0] for r in reeds for m in r["missed"]})
            lines.append("| " + " | ".join([model["model"], size, found, *cells, "; ".join(missed) or "pass"]) + " |")
    heads = ["model", "input", "found"] + [c.replace("_", " ") for c in columns] + ["Reed"]
    return "\n".join(["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", *lines]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--models", default=",".join([*M.DETECTORS, *M.OTHERS]))
    parser.add_argument("--sizes", help="HEIGHTxWIDTH or quiet; of tokens and sequences BATCHxLENGTH")
    parser.add_argument("--devices", default="host,sim")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    parser.add_argument("--markdown", help="a table of all models")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with open("/proc/cpuinfo") as lines:
        cpu = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    report = {"cpu": cpu, "date": str(datetime.date.today()), "models": []}
    for name in arguments.models.split(","):
        report["models"].append(check(name, arguments))
        print(f"\n{name}\n{table(report['models'][-1])}", flush=True)
        if arguments.json:
            with open(arguments.json, "w") as f:
                json.dump(report, f, indent=1, default=float)
    if arguments.markdown:
        with open(arguments.markdown, "w") as f:
            for kind in (M.DETECTORS, M.OTHERS):
                f.write(summary([m for m in report["models"] if m["model"] in kind]) + "\n")
    sys.exit(any(row.get("missed") for model in report["models"] for row in model["rows"]))


if __name__ == "__main__":
    main()
