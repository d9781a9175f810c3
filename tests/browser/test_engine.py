"""The engine in a Web Worker that a page opened from a file starts from a blob: it streams, stops and looks inside."""

import base64
import json

import pytest
import torch

from tiny_gpt import weights
from tiny_gpt.widgets.engine import engine_client

PROMPT = "ROMEO:\nBut soft"


@pytest.fixture
def page(watch, tmp_path):
    """A page with ``engine`` (started), ``file()`` (the model's bytes), and no complaints at its end."""
    data = base64.b64encode((weights.FOLDER / "shakespeare-cpu.safetensors").read_bytes()).decode()
    (tmp_path / "page.html").write_text(
        f"""<!doctype html><meta charset="utf-8"><title>Engine</title><script>
        const source = {json.dumps(engine_client()).replace("<", chr(92) + "u003c")};
        const url = URL.createObjectURL(new Blob([source], {{ type: "text/javascript" }}));
        const file = () => Uint8Array.from(atob("{data}"), (c) => c.charCodeAt(0)).buffer;
        let engine;
        window.ready = import(url).then((module) => void (engine = module.startEngine()));
        </script>""",
        encoding="utf-8",
    )
    watched = watch("file://")
    watched.open((tmp_path / "page.html").as_uri())
    watched.page.evaluate("window.ready")
    yield watched.page
    watched.page.evaluate("engine.close()")
    assert watched.complaints == []


def test_it_writes_what_the_model_writes_and_the_page_goes_on(page):
    model, tokenizer, provenance = weights.load("shakespeare-cpu")
    found = page.evaluate(
        """async (prompt) => {
          const loaded = await engine.load(file());
          const calls = [];
          let ticks = 0;
          const clock = setInterval(() => (ticks += 1), 1);
          const settings = { maxNewTokens: 64, temperature: 0, topK: null, seed: 1, top: 3 };
          const { stopped } = await engine.generate(prompt, settings, (tokens) => calls.push(tokens));
          clearInterval(clock);
          return { loaded, calls, stopped, ticks };
        }""",
        PROMPT,
    )
    assert found["loaded"]["kernel"] == "WebAssembly SIMD"
    assert found["loaded"]["provenance"] == provenance
    idx = model.generate(tokenizer.encode(PROMPT)[None], 64, temperature=0)
    tokens = [token for call in found["calls"] for token in call]
    assert PROMPT + "".join(token["character"] for token in tokens) == tokenizer.decode(idx[0])
    assert all(len(token["likeliest"]) == 3 for token in tokens)
    assert len(found["calls"][0]) == 1, "the first token does not wait for others"
    assert len(found["calls"]) > 2
    assert found["ticks"] > 2
    assert found["stopped"] is False


def test_it_stops_and_a_wrong_file_leaves_the_model(page):
    found = page.evaluate(
        """async (prompt) => {
          await engine.load(file());
          const settings = { maxNewTokens: 100000, temperature: 1, topK: 10, seed: 1 };
          let count = 0;
          const { stopped } = await engine.generate(prompt, settings, (tokens) => {
            count += tokens.length;
            engine.stop();
          });
          const told = await engine.load(new ArrayBuffer(20)).catch((error) => error.message);
          return { stopped, count, told, inside: await engine.inspect(prompt) };
        }""",
        PROMPT,
    )
    assert found["stopped"] is True
    assert 0 < found["count"] < 5000
    assert "not a safetensors file" in found["told"]
    model, tokenizer, _ = weights.load("shakespeare-cpu")
    ids = tokenizer.encode(PROMPT)[None]
    numbers = {name: torch.tensor(found["inside"][name]) for name in ("attention", "readings")}
    with torch.no_grad():
        assert torch.allclose(numbers["attention"], model.attention_weights(ids).flatten(), atol=1e-4)
        assert torch.allclose(numbers["readings"][-ids.numel() * 65 :], model(ids)[0].flatten(), atol=1e-4)
