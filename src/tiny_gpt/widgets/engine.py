"""The engine that runs a model in the page, as text: what the worker runs, and what a widget starts it with."""

import json
import re

from .base import read

# In a worker there is nobody to import from, so the worker listens in its own last lines. A message waits while code
# runs: `pause` lets it in, without the 4 ms that a browser makes of setTimeout(0).
LISTEN = """
const { port1, port2 } = new MessageChannel();
const pause = () => new Promise((resolve) => { port1.onmessage = resolve; port2.postMessage(null); });
const answer = engineServer((message, moved = []) => self.postMessage(message, moved), pause);
self.onmessage = ({ data }) => answer(data);
"""


def engine_worker() -> str:
    """The worker's script for a blob, complete. A page opened from a file may start no module: it exports nothing."""
    source = "\n".join([*map(read, ("base.mjs", "engine.mjs", "engine_worker.mjs")), LISTEN])
    return re.sub(r"^export ", "", source, flags=re.MULTILINE)


def engine_client() -> str:
    """What stands before the front end of a widget that runs a model: it then has ``startEngine()``."""
    return f"const ENGINE_WORKER = {json.dumps(engine_worker())};\n{read('engine_client.mjs')}"
