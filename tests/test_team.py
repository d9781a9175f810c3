"""team.py: two processes over Gloo make the run that one makes, rest when told to, and go on where they were."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tiny_gpt import team as module
from tiny_gpt.team import Team
from tiny_gpt.train import History, load_checkpoint

from test_train import SHORT, SIZES, TOKENIZER, run, same, weights  # isort: skip

pytestmark = pytest.mark.slow

PLAIN = replace(SIZES, dropout=0.0, bias=False)  # the bias of a key has no gradient but rounding
PAIR = replace(SHORT, accumulate=2, optimizer="muon", schedule="linear")

# Everything that two processes are asked, in one launch: starting them takes the time.
SCRIPT = """
    import json, sys
    sys.path.insert(0, {tests!r})
    from dataclasses import replace
    import torch
    from test_team import PAIR, PLAIN
    from test_train import SIZES, Stop, run, stop_at
    from tiny_gpt.team import Team

    torch.set_num_threads(1)
    team, found = Team.here(), {{}}
    history = run(PAIR, PLAIN, out={out!r} + "/whole")
    found["loss"], found["valid"] = history.loss, history.valid_loss
    # With dropout, to its end; and the same with a stop on the way, of which only the second process was told.
    whole = run(PAIR, SIZES)
    import tiny_gpt.train.loop as training

    class Told(training.Interrupts):
        def __enter__(self):
            self.asked = team.rank == 1
            return self

        def __exit__(self, *error):
            pass

    before, training.Interrupts = training.Interrupts, Told
    stopped = run(PAIR, SIZES, out={out!r} + "/stopped")
    training.Interrupts = before
    resumed = run(PAIR, SIZES, out={out!r} + "/stopped", resume=True)
    found["stopped"] = [stopped.interrupted, len(stopped.loss)]
    found["resumed"] = resumed == replace(whole, seconds=resumed.seconds)
    found["mask"] = float(torch.nn.functional.dropout(torch.ones(9)).sum())
    with open({out!r} + f"/{{team.rank}}.json", "w") as file:
        json.dump(found, file)
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    out = tmp_path_factory.mktemp("pair")
    script = out / "script.py"
    script.write_text(textwrap.dedent(SCRIPT.format(tests=str(Path(__file__).parent), out=str(out))))
    source = str(Path(module.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in (source, os.environ.get("PYTHONPATH")) if p)}
    env |= {"OMP_NUM_THREADS": "1"}
    if sys.platform == "linux":
        env["GLOO_SOCKET_IFNAME"] = "lo"  # whatever a machine calls itself, it can reach this
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
    done = subprocess.run(launch, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    return out, [json.loads((out / f"{rank}.json").read_text()) for rank in (0, 1)], done.stderr


def test_two_processes_make_the_run_of_one(pair):
    out, found, _ = pair
    alone = run(PAIR, PLAIN)
    for theirs in found:
        assert theirs["loss"] == pytest.approx(alone.loss, abs=1e-5)
        assert theirs["valid"] == pytest.approx(alone.valid_loss, abs=1e-5)
    assert found[0]["loss"] == found[1]["loss"]
    model, _, meta = load_checkpoint(out / "whole" / "last.pt")
    assert meta["step"] == PAIR.max_steps
    assert History.load(out / "whole" / "history.jsonl").loss == found[0]["loss"]
    for name, tensor in alone.model.state_dict().items():
        assert torch.allclose(model.state_dict()[name], tensor, atol=1e-4), name


def test_one_that_is_told_to_stop_stops_both_and_they_go_on_exactly(pair):
    _, found, err = pair
    for theirs in found:
        assert theirs["stopped"] == [True, 1]
        assert theirs["resumed"] is True
    assert err.count("Interrupted after 1 of 12 steps") == 1  # one of them speaks


def test_the_shares_are_all_rows_once():
    x, y = torch.arange(24).view(12, 2), torch.arange(12)
    shares = [Team(rank, 3).share(x, y) for rank in range(3)]
    assert torch.equal(torch.cat([a for a, _ in shares]), x)
    assert torch.equal(torch.cat([b for _, b in shares]), y)
    assert [len(a) for a, _ in shares] == [4, 4, 4]
    assert torch.equal(Team().share(x)[0], x)


def test_a_batch_that_cannot_be_shared(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ValueError, match="batch_size=4 cannot be shared by 3 processes: take a multiple"):
        run()


def test_each_process_has_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "2")
    team = Team(5, 8)
    assert team.own_device(torch.device("cuda")) == torch.device("cuda:2")
    assert team.own_device(torch.device("cuda:1")) == torch.device("cuda:1")
    assert team.own_device(torch.device("cpu")) == torch.device("cpu")
    assert Team().own_device(torch.device("cuda")) == torch.device("cuda")


def test_a_run_of_one_goes_on_in_one(tmp_path):
    history = run(out=tmp_path, tokenizer=TOKENIZER)
    again = run(out=tmp_path, tokenizer=TOKENIZER, resume=True)
    assert again == history
    assert same(weights(again.model), weights(history.model))
