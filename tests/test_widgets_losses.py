"""LossCurve: it follows a run of train(), keeps the reader's place, and reads between the points of another curve."""

import numpy as np
import pytest

from tiny_gpt import GPTConfig
from tiny_gpt.data import CharTokenizer
from tiny_gpt.train import History, TrainConfig, train
from tiny_gpt.widgets import LossCurve


def history(evaluations):
    h = History()
    for i in range(evaluations):
        h.eval_step.append(10 * i)
        h.train_loss.append(4.0 - i)
        h.valid_loss.append(4.1 - i)
        h.seconds.append(2.0 * i)
        h.samples.append((10 * i, f"sample {i}"))
    h.lr = [0.1 * (s + 1) for s in range(10 * evaluations)]
    return h


def test_what_it_takes_from_a_history():
    w = LossCurve(30, 100, reference={"other": {0: 4, 30: 1.5}}, ladder={"table": 2})
    assert "not begun" in w.describe()
    w.update(history(4))
    assert w.eval_step == [0, 10, 20, 30]
    assert w.train_loss == [4, 3, 2, 1]
    assert w.lr == pytest.approx([0.1, 1.0, 2.0, 3.0])  # of updates 0, 9, 19 and 29, the last before each evaluation
    assert w.rate == pytest.approx([0, 500, 500, 500])  # 100 tokens a step, 10 steps in 2 seconds
    assert w.samples[-1] == [30, "sample 3"]
    assert w.reference == {"other": [[0, 4.0], [30, 1.5]]}
    assert "After 30 of 30 updates" in w.describe()


def test_it_follows_the_run_until_the_reader_looks_back():
    w = LossCurve(30, 100)
    seen = []
    for count in (1, 2, 3):
        w.update(history(count))
        seen.append(w.at)
    assert seen == [0, 1, 2]
    w.at = 1
    w.update(history(4))
    assert w.at == 1


def test_in_a_real_run():
    text = "to be or not to be, that is the question " * 20
    tokenizer = CharTokenizer(text)
    ids = tokenizer.encode(text)
    plan = TrainConfig(max_steps=4, batch_size=2, eval_every=2, eval_batches=1, warmup_steps=1, sample_every=2)
    w = LossCurve(4, 2 * 8)
    lengths = []
    config = GPTConfig(vocab_size=tokenizer.vocab_size, block_size=8, n_layer=1, n_head=1, n_embd=8)
    done = train(
        config, ids, ids, plan, tokenizer=tokenizer, progress=False,
        on_eval=lambda h: (w.update(h), lengths.append(len(w.eval_step))),
    )  # fmt: skip
    assert lengths == [1, 2, 3]
    assert w.valid_loss == done.valid_loss
    assert w.eval_step == [0, 2, 4]
    assert w._still.count("<svg") == 1


def test_javascript_agrees(same_in_js):
    curve = [[0, 4.0], [250, 2.5], [500, 2.25], [1000, 2.0]]
    xs, ys = np.transpose(curve)
    calls = [("between", [curve, x], float(np.interp(x, xs, ys))) for x in (0, 10, 250, 300, 999, 1000)]
    calls += [("between", [curve, x], None) for x in (-1, 1001)]
    samples = [[10, "a"], [20, "b"]]
    calls += [
        ("sampleAt", [samples, s], best)
        for s, best in ((5, None), (10, samples[0]), (19, samples[0]), (99, samples[1]))
    ]
    same_in_js("losses", calls)
