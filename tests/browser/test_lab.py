"""Widgets in JupyterLab, with a kernel: traits travel both ways, and a key in one is no shortcut of the notebook."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

CELLS = [
    "from tiny_gpt.widgets import ScalingExplorer\nw = ScalingExplorer(d_k=64)\nw",
    "print('python sees', w.d_k, f'{w.bits():.2f}')",
    "w.d_k, w.scaling = 16, 'width'\nprint('set', f'{w.bits():.2f}')",
    "from tiny_gpt import weights\nfrom tiny_gpt.widgets import Playground\n"
    "model, tokenizer, _ = weights.load('shakespeare-cpu')\np = Playground(model, tokenizer, length=40)\np",
    "print('written', p.text == Playground(model, tokenizer, length=40, seed=p.seed).text, p.seed)",
    "p.prompt, p.text, p.at = 'To be', ' or', 6\nprint('set')",
]
ALL = """\
from IPython.display import display
from tiny_gpt.widgets import *

why = "Because of all of it that was said and shown in the chapter."
questions = [numeric("How many?", 4, explanation=why), choice("Which?", {"a": True, "b": "No."}, explanation=why)]
questions.append(order("In order", ["one", "two", "three"], explanation=why))
profile = {"pre-norm": {2: {name: [1, 2] for name in ("gradient", "attention", "ffn", "stream")}}}
sampling = SamplingExplorer([{"text": "x", "logits": [0.0, 1.0]}], "ab")
display(ScalingExplorer(), MaskExplorer(), ShapeWalk(), Clinic(), LossCurve(30, 100), ResidualStream(profile), sampling)
display(Quiz(questions, key="q"), Playground())
"""
# What lets a cell come and go, moves to another, or changes its kind, in the notebook's command mode.
KEYS = ["ArrowDown", "ArrowRight", "b", "m", "d", "d"]


@pytest.fixture
def lab(tmp_path, request):
    """The address of a JupyterLab, or the program that is asked for, whose folder holds one notebook."""
    cells = [nbformat.v4.new_code_cell(source) for source in [*CELLS, ALL]]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), tmp_path / "widget.ipynb")
    home = tmp_path / "home"
    environment = {**os.environ, "HOME": str(home), "JUPYTER_CONFIG_DIR": str(home), "JUPYTER_DATA_DIR": str(home)}
    command = [
        sys.executable, "-m", getattr(request, "param", "jupyterlab"),
        "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0",
        "--IdentityProvider.token=", "--ServerApp.password=", "--LabApp.news_url=None", "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={tmp_path}", "--LabApp.extension_manager=readonly", "--LabApp.check_for_updates_class="
        "jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    log = (tmp_path / "log").open("w+")
    server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=tmp_path)
    address = None
    for _ in range(600):
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", Path(log.name).read_text())
        if found:
            address = found[0]
            break
        assert server.poll() is None, Path(log.name).read_text()
        time.sleep(0.1)
    yield address
    server.terminate()
    server.wait(20)


def run(page, number: int):
    """Run a cell as a reader does: what is asked of a kernel that is still starting is lost, so ask again."""
    cell = page.locator(".jp-Cell").nth(number)
    for half_second in range(240):
        prompt = cell.locator(".jp-InputPrompt").inner_text()  # [*] while it runs, then its number
        if re.fullmatch(r"\[\d+\]:", prompt):
            return cell.locator(".jp-OutputArea-output")
        if half_second % 20 == 0 and prompt == "[ ]:":
            cell.locator(".jp-InputArea-editor").click()
            page.keyboard.press("Shift+Enter")
        page.wait_for_timeout(500)
    raise AssertionError("The kernel did not take the cell within two minutes.")


def opened(browser, lab, path="lab/tree"):
    """The notebook, in a page."""
    page = browser.new_context(viewport={"width": 1280, "height": 1000}).new_page()
    page.goto(f"{lab}{path}/widget.ipynb", timeout=120_000)
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=120_000)
    return page


def test_a_trait_travels_both_ways(lab, browser):
    page = opened(browser, lab)
    run(page, 0)
    widget = page.locator(".tgw-scaling")
    widget.wait_for(timeout=120_000)
    assert "D = 64, 6 keys" in widget.locator(".tgw-says").inner_text()

    slider = widget.get_by_role("slider", name="Width D")
    slider.focus()
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('.tgw-says').innerText.includes('D = 1024')")
    shown = re.search(r"Times 1/√D: (\S+) of", widget.locator(".tgw-says").inner_text())[1]
    output = run(page, 1)
    output.wait_for()
    assert output.inner_text().split() == ["python", "sees", "1024", shown]

    output = run(page, 2)
    page.wait_for_function("document.querySelector('.tgw-says').innerText.includes('D = 16,')")
    output.wait_for()
    shown = re.search(r"Times 1/D: (\S+) of", widget.locator(".tgw-says").inner_text())[1]
    assert output.inner_text().split() == ["set", shown]
    assert widget.get_by_role("radio", name="÷ D", exact=True).is_checked()


def test_a_live_model_writes_in_the_notebook(lab, browser):
    page = opened(browser, lab)
    run(page, 3)
    widget = page.locator(".tgw-playground")
    widget.wait_for(timeout=120_000)
    widget.scroll_into_view_if_needed()
    page.locator(".tgw-playground[data-model=live]").wait_for(timeout=120_000)  # its weights have come from Python
    before = widget.locator(".tgw-page").inner_text()
    widget.get_by_role("button", name="Another").click()
    page.wait_for_function("(old) => document.querySelector('.tgw-page').innerText !== old", arg=before)
    page.wait_for_function(
        "[...document.querySelectorAll('.tgw-buttons button')].at(-1).getAttribute('aria-disabled') === 'true'"
    )
    output = run(page, 4)
    output.wait_for()
    assert output.inner_text().split() == ["written", "True", "12"]
    run(page, 5).wait_for()
    page.wait_for_function("document.querySelector('.tgw-page').innerText === 'To be or'")
    assert "“o” has probability" in widget.locator(".tgw-panel .tgw-says").inner_text()


@pytest.mark.parametrize(
    ("lab", "path"), [("jupyterlab", "lab/tree"), ("notebook", "notebooks")], indirect=["lab"], ids=["lab", "notebook"]
)
def test_a_key_in_a_widget_does_nothing_to_the_notebook(lab, browser, path):
    """Each control of each widget has the focus once, and every key is pressed that is a shortcut of the notebook."""
    page = opened(browser, lab, path)
    last = len(CELLS)
    run(page, last)
    page.locator(".tgq").wait_for(timeout=120_000)
    page.locator(".jp-Cell").nth(last).locator(".jp-OutputArea-output .tgw").nth(5).wait_for()
    notebook = """() => [...document.querySelectorAll(".jp-Notebook .jp-Cell")].map((cell) =>
        ["jp-mod-active", "jp-CodeCell", "jp-MarkdownCell"].map((name) => cell.classList.contains(name)))"""
    controls = page.locator(
        ":is(.tgw) :is(button, input, select, textarea, [tabindex='0']):visible:not([tabindex='-1'])"
    )
    assert controls.count() > 40
    page.keyboard.press("Escape")  # the notebook's command mode, in which a letter is a shortcut
    controls.first.focus()
    before = page.evaluate(notebook)
    for i in range(controls.count()):
        control = controls.nth(i)
        for key in KEYS:
            control.focus()
            page.keyboard.press(key)
        assert page.evaluate(notebook) == before, control.evaluate("e => e.outerHTML")
    slider = page.locator(".tgw-scaling").last.get_by_role("slider", name="Width D")
    slider.focus()
    was = slider.input_value()
    page.keyboard.press("ArrowLeft")
    assert slider.input_value() != was
