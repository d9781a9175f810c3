"""How long a build of the book takes: cold, with nothing from before, and warm, once more with nothing changed.

Seconds of CPU time, the notebooks' own processes included, and by the clock. A cold build takes minutes, so
`make bench` shows what `make bench BOOK=1` last measured.
"""

import datetime
import json
import os
import resource
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
RECORD = Path(__file__).with_suffix(".json")


def build(command: str, folder: str) -> dict[str, float]:
    """Build into the folder by the Makefile's command; seconds of CPU time and by the clock."""
    used, clock = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(f"{command} --path-output {folder} .", shell=True, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    clock, now = time.perf_counter() - clock, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"cpu": now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime, "clock": clock}


def measure() -> None:
    """Build twice, outside of the site that is there, and write the record."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        builds = {name: build(os.environ["JB"], folder) for name in ("cold", "warm")}
    record = {"date": str(datetime.date.today()), "cores": os.cpu_count(), "load": round(load, 1), **builds}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")


def table() -> list[str]:
    """The record as a table in Markdown."""
    if not RECORD.exists():
        return ["Not measured yet."]
    record = json.loads(RECORD.read_text())
    lines = ["| build | CPU time, s | by the clock, s |", "|:--|--:|--:|"]
    for name in ("cold", "warm"):
        lines.append(f"| {name} | {record[name]['cpu']:.0f} | {record[name]['clock']:.0f} |")
    return [f"Measured on {record['date']}, {record['cores']} cores, load {record['load']}.", "", *lines]


if __name__ == "__main__":
    measure()
