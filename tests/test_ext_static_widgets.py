"""Each anywidget becomes a <div> with its state; its module is written once; nothing of the usual machinery is left."""

import json
import re

import pytest
from sphinx_project import NOTEBOOK, build

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
    return NOTEBOOK + text.replace("{{ ", "{ ").replace(" }}", " }").replace("{{", "{").replace("}}", "}")


def specs(html: str) -> list[dict]:
    found = re.findall(
        r'<div class="static-widget"[^>]*><script type="application/json">(.*?)</script>', html, flags=re.S
    )
    return [json.loads(text) for text in found]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("widgets")
    plain = "# Plain\n\nNo widget here.\n"
    return build(folder, {"index": page(), "plain": plain}, ["static_widgets"])


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


def test_state_cannot_end_its_script(tmp_path):
    text = "</script><script>alert(1)</script><!--"
    site = build(tmp_path, {"index": page("text", "Unicode", text, text)}, ["static_widgets"])
    assert [spec["state"]["text"] for spec in specs(site.html())] == [text, text]
    assert "alert(1)</script>" not in site.html().replace("\\u003c/script>", "")


def test_binary_traits_are_carried(tmp_path):
    import base64

    site = build(tmp_path, {"index": page("data", "Bytes", b"\x00\x01\xff", b"")}, ["static_widgets"])
    buffer = specs(site.html())[0]["buffers"][0]
    assert buffer["path"] == ["data"]
    assert base64.b64decode(buffer["data"]) == b"\x00\x01\xff"


def test_incremental_build_keeps_the_widgets_of_unchanged_pages(tmp_path):
    first = build(tmp_path, {"index": page(), "plain": "# Plain\n"}, ["static_widgets"])
    before = specs(first.html())
    second = build(tmp_path, {"plain": "# Another title\n"}, ["static_widgets"])
    assert second.updated == {"plain"}
    assert specs(second.html()) == before
    # a page written again without being read again
    (tmp_path / "_build" / "html" / "index.html").unlink()
    third = build(tmp_path, {}, ["static_widgets"])
    assert third.updated == set()
    assert specs(third.html()) == before
    assert "widgets/host.js" in third.html()


def test_parallel_build_is_the_same(tmp_path, site):
    pages = {"index": page(), "plain": "# Plain\n\nNo widget here.\n"} | {f"p{i}": f"# {i}\n" for i in range(6)}
    parallel = build(tmp_path, pages, ["static_widgets"], parallel=2)
    assert [s["state"] for s in specs(parallel.html())] == [s["state"] for s in specs(site.html())]
    assert "widgets/host.js" in parallel.html()
    assert "widgets/" not in parallel.html("plain")


def test_a_widget_that_needs_a_kernel_is_a_warning(tmp_path):
    cell = "\n```{code-cell} python\nimport ipywidgets\nipywidgets.IntSlider()\n```\n"
    site = build(tmp_path, {"index": NOTEBOOK + "# Page\n" + cell}, ["static_widgets"])
    assert re.search(
        r"index\.md:\d+: WARNING: a widget that does nothing without a kernel.*IntSliderModel", site.warnings
    )
