"""How the benchmarks measure: time in pairs, peak memory, and the exponent of a growth.

Time is the CPU time of this process, in one thread: what the clock shows on a machine that has nothing else to do, and
what other programs change least. Two things are compared by running them in turn, many times, and by the median of
the ratios.
"""

import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

from torch.profiler import ProfilerActivity, profile


def timed(f: Callable[[], object]) -> float:
    """Seconds of CPU time that a call takes."""
    start = time.process_time()
    f()
    return time.process_time() - start


def pair(a: Callable[[], object], b: Callable[[], object], rounds: int) -> tuple[float, float, float]:
    """Median seconds of a and of b, and the median of a's time over b's in the same round."""
    a(), b()  # what is made once is made now
    times = [(timed(a), timed(b)) for _ in range(rounds)]
    first, second = zip(*times, strict=True)
    return statistics.median(first), statistics.median(second), statistics.median(x / y for x, y in times)


def peak_bytes(f: Callable[[], object]) -> int:
    """The most bytes that PyTorch held for tensors at any one moment of a call, beyond those it held before.

    Every allocation and release is counted by torch.profiler; what a matrix library keeps for itself is not seen.
    """
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        f()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(trace))
        events = json.loads(trace.read_bytes())["traceEvents"]
    changes = sorted((event["ts"], event["args"]["Bytes"]) for event in events if event["name"] == "[memory]")
    return max(accumulate((size for _, size in changes), initial=0))


def exponent(xs: Sequence[float], ys: Sequence[float]) -> float:
    """p of the power law y = a·x^p that fits best: the slope of the straight line through the logarithms."""
    return statistics.linear_regression([math.log(x) for x in xs], [math.log(y) for y in ys]).slope
