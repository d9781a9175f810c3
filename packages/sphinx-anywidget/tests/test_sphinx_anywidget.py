"""Each anywidget becomes a <div> with its state; its module is written once; nothing of the usual machinery is left."""

import base64
import json
import re
import sys

import pytest

WIDGETS = """
# Page

```{code-cell} python
import anywidget, traitlets

class Counter(anywidget.AnyWidget):
    _esm = "export default {{ render({{ model, el }}) {{ el.textContent = model.get('{trait}') + '</script>'; }} }};"
    _css = ".counter {{ color: red }}"
    {trait} = traitlets.{kind}({value!r}).tag(sync=True)

Counter()
```

```{code-cell} python
Counter({trait}={other!r})
```
"""


def page(trait="count", kind="Int", value=1, other=2) -> str:
    text = WIDGETS
    for name, content in {"trait": trait, "kind": kind, "value!r": repr(value), "other!r": repr(other)}.items():
        text = text.replace("{" + name + "}", content)
    return text.replace("{{ ", "{ ").replace(" }}", " }").replace("{{", "{").replace("}}", "}")


def specs(html: str) -> list[dict]:
    found = re.findall(
        r'<div class="static-widget"[^>]*><script type="application/json">(.*?)</script>', html, flags=re.S
    )
    return [json.loads(text) for text in found]


@pytest.fixture(scope="module")
def site(build, tmp_path_factory):
    folder = tmp_path_factory.mktemp("widgets")
    plain = "# Plain\n\nNo widget here.\n"
    return build(folder, {"index": page(), "plain": plain})


def test_no_warnings(site):
    assert site.warnings == ""


def test_two_views_with_their_own_state_and_one_module(site):
    first, second = specs(site.html())
    assert first["state"] == {"count": 1}
    assert second["state"] == {"count": 2}
    assert first["id"] != second["id"]
    assert first["esm"] == second["esm"]
    modules = [p.name for p in (site.outdir / "_static" / "widgets").iterdir()]
    assert sorted(modules) == sorted([f"{first['esm']}.js", f"{first['esm']}.css", "host.js"])


def test_scripts_only_where_they_are_needed_and_nothing_waits_for_them_nor_they_for_anything(site):
    scripts = re.findall(r'<script async="async" src="_static/widgets/([^"?]+)', site.html())
    assert scripts == [f"{specs(site.html())[0]['esm']}.js", "host.js"]
    assert "widgets/" not in site.html("plain")


def test_nothing_of_the_usual_machinery_is_left(site):
    for trace in ("require", "html-manager", "unpkg", "cdn", "widget-state+json", "widget-view+json"):
        assert trace not in site.html()


def test_state_cannot_end_its_script(build, tmp_path):
    text = "</script><script>alert(1)</script><!--"
    site = build(tmp_path, {"index": page("text", "Unicode", text, text)})
    assert [spec["state"]["text"] for spec in specs(site.html())] == [text, text]
    assert "alert(1)</script>" not in site.html().replace("\\u003c/script>", "")


def test_binary_traits_are_carried(build, tmp_path):
    site = build(tmp_path, {"index": page("data", "Bytes", b"\x00\x01\xff", b"")})
    buffer = specs(site.html())[0]["buffers"][0]
    assert buffer["path"] == ["data"]
    assert base64.b64decode(buffer["data"]) == b"\x00\x01\xff"


def test_incremental_build_keeps_the_widgets_of_unchanged_pages(build, tmp_path):
    first = build(tmp_path, {"index": page(), "plain": "# Plain\n"})
    before = specs(first.html())
    second = build(tmp_path, {"plain": "# Another title\n"})
    assert second.updated == {"plain"}
    assert specs(second.html()) == before
    # a page written again without being read again
    (tmp_path / "_build" / "html" / "index.html").unlink()
    third = build(tmp_path, {})
    assert third.updated == set()
    assert specs(third.html()) == before
    assert "widgets/host.js" in third.html()


def test_parallel_build_is_the_same(build, tmp_path, site):
    pages = {"index": page(), "plain": "# Plain\n\nNo widget here.\n"} | {f"p{i}": f"# {i}\n" for i in range(6)}
    parallel = build(tmp_path, pages, parallel=2)
    assert [s["state"] for s in specs(parallel.html())] == [s["state"] for s in specs(site.html())]
    assert "widgets/host.js" in parallel.html()
    assert "widgets/" not in parallel.html("plain")


def test_a_widget_that_needs_a_kernel_is_a_warning(build, tmp_path):
    cell = "\n```{code-cell} python\nimport ipywidgets\nipywidgets.IntSlider()\n```\n"
    site = build(tmp_path, {"index": "# Page\n" + cell})
    assert re.search(
        r"index\.md:\d+: WARNING: a widget that does nothing without a kernel.*IntSliderModel", site.warnings
    )


CLASS = """
import anywidget, traitlets

class Dial(anywidget.AnyWidget):
    _esm = "export default { render({ el }) { el.textContent = 'FRONT' } }"
    _css = ".dial { color: red }"
    _still = traitlets.Unicode("<i>a picture</i>").tag(sync=True)
"""
SHOWN = """
# Page

```{code-cell} python
import sys
sys.path.insert(0, "FOLDER")
from pathlib import Path
from dials import Dial
with Path("FOLDER/ran.txt").open("a") as file:
    file.write("x")
Dial()
```
"""


def test_a_changed_front_end_is_shown_without_executing_the_page(build, tmp_path, monkeypatch):
    pages = {"index": SHOWN.replace("FOLDER", str(tmp_path)), "plain": "# Plain\n"}
    monkeypatch.syspath_prepend(tmp_path)

    def make(front, pages, current=("dials",)):
        (tmp_path / "dials.py").write_text(CLASS.replace("FRONT", front))
        sys.modules.pop("dials", None)
        site = build(tmp_path, pages, anywidget_current=list(current))
        assert site.warnings == ""
        module = site.outdir / "_static" / "widgets" / f"{specs(site.html())[0]['esm']}.js"
        return site, module.read_text()

    assert "first front" in make("the first front", pages)[1]
    assert make("the first front", {})[0].updated == set()
    site, module = make("the second", {})
    assert "the second" in module
    assert site.updated == {"index"}
    assert (tmp_path / "ran.txt").read_text() == "x"
    # without the setting, the page shows the front end that its outputs carry
    assert "first front" in make("the third", {}, current=())[1]


def test_an_extension_may_change_what_stands_there_until_the_widget_starts(build, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "dials.py").write_text(CLASS)
    (tmp_path / "framing.py").write_text(
        "def frame(app, html, prefix):\n    return f'<p id={prefix}>{html}</p>'\n"
        "def setup(app):\n    app.connect('anywidget-still', frame)\n"
    )
    pages = {"index": SHOWN.replace("FOLDER", str(tmp_path))}
    site = build(tmp_path, pages, extensions=["myst_nb", "sphinx_anywidget", "framing"])
    assert re.search(r"<p id=w[0-9a-f]{8}-><i>a picture</i></p>", site.html())
