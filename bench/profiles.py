"""The file of a CUDA device's option profile=FILE (device/cuda/profile.c)."""
import collections
import os

Row = collections.namedtuple("Row", "kernel launches us")


def read(*paths):
    """The rows of all files that are there, one for each kernel, the slowest first."""
    launches, times = collections.Counter(), collections.Counter()
    for path in filter(os.path.exists, paths):
        with open(path) as f:
            for line in f:
                kernel, n, us = line.split("\t")
                launches[kernel] += int(n)
                times[kernel] += float(us)
    return [Row(kernel, launches[kernel], us) for kernel, us in times.most_common()]
