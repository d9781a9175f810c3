"""The static host in a real browser, over http and from file://: views, events, binary traits, errors."""

import re

import pytest
from sphinx_project import NOTEBOOK, build

PAGE = (
    NOTEBOOK
    + r'''
# Page

```{code-cell} python
import anywidget, traitlets

class Counter(anywidget.AnyWidget):
    _esm = """
    function render({ model, el }) {
      const button = document.createElement("button");
      const show = () => { button.textContent = `${model.get("name")}: ${model.get("count")}`; };
      button.className = "counter";
      button.addEventListener("click", () => {
        model.set("count", model.get("count") + 1);
        model.save_changes();
        model.send({ kind: "clicked" });  // a quiet nothing
      });
      model.on("change:count change:name", show);
      show();
      el.append(button);
    }
    export default () => ({ render });  // a factory, which anywidget allows as well
    """
    _css = ".counter { border-left: 7px solid red }"
    name = traitlets.Unicode("a").tag(sync=True)
    count = traitlets.Int(1).tag(sync=True)

class Bytes(anywidget.AnyWidget):
    _esm = """
    export default {
      initialize({ model }) { model.set("ready", true); },
      render({ model, el }) {
        const data = model.get("data");
        el.textContent = `${data instanceof DataView} ${data.getUint8(2)} ${model.get("ready")} ${model.get("text")}`;
        el.className += " bytes";
      },
    };
    """
    data = traitlets.Bytes(b"\x00\x01\xff").tag(sync=True)
    ready = traitlets.Bool(False).tag(sync=True)
    text = traitlets.Unicode("</script><b>&amp; 字").tag(sync=True)

class Broken(anywidget.AnyWidget):
    _esm = "export default { render() { throw new Error('no <b>luck</b>'); } };"

counter = Counter()
counter
```

```{code-cell} python
counter
```

```{code-cell} python
Counter(name="b", count=10)
```

```{code-cell} python
Bytes()
```
'''
)
BROKEN = PAGE + "\n```{code-cell} python\nBroken()\n```\n\nThe page goes on.\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("host")
    site = build(folder, {"index": PAGE, "broken": BROKEN}, ["sphinx_anywidget"])
    assert site.warnings == ""
    return site.outdir


@pytest.fixture(params=["http", "file"])
def opened(request, site, serve, watch):
    """A function that opens a page of the site, in either way."""

    def open_page(name):
        base = serve(site) if request.param == "http" else site.as_uri()
        watched = watch(base)
        watched.open(f"{base}/{name}.html")
        return watched

    return open_page


def test_widgets_start_and_views_of_one_model_follow_each_other(opened):
    watched = opened("index")
    page = watched.page
    page.wait_for_function("document.querySelectorAll('.static-widget[data-state=ready]').length === 4")
    counters = page.locator("button.counter")
    assert counters.all_inner_texts() == ["a: 1", "a: 1", "b: 10"]
    counters.nth(1).click()
    assert counters.all_inner_texts() == ["a: 2", "a: 2", "b: 10"]
    counters.nth(2).focus()
    page.keyboard.press("Enter")
    assert counters.all_inner_texts() == ["a: 2", "a: 2", "b: 11"]
    assert counters.first.evaluate("b => getComputedStyle(b).borderLeftWidth") == "7px", "the class's own CSS"
    assert watched.complaints == []


def test_binary_traits_initialize_and_text_as_text(opened):
    watched = opened("index")
    watched.page.wait_for_selector(".bytes")
    assert watched.page.locator(".bytes").inner_text() == "true 255 true </script><b>&amp; 字"
    assert watched.complaints == []


def test_a_widget_that_fails_says_so_and_harms_no_other(opened):
    watched = opened("broken")
    box = watched.page.locator("[data-state=error] .widget-error[role=alert]")
    box.wait_for()
    assert "could not start: no <b>luck</b>." in box.inner_text()
    assert watched.page.locator("[data-state=ready]").count() == 4
    assert watched.page.get_by_text("The page goes on.").is_visible()
    assert len(watched.complaints) == 1
    assert "no <b>luck</b>" in watched.complaints[0], "the developer sees the error too"


def test_a_missing_module_says_so(site, serve, watch, tmp_path):
    import shutil

    copy = tmp_path / "site"
    shutil.copytree(site, copy)
    for path in (copy / "_static" / "widgets").glob("*.js"):
        if path.name != "host.js":
            path.unlink()
    base = serve(copy)
    page = watch(base).open(f"{base}/index.html")
    page.wait_for_selector(".widget-error")
    assert "its script is missing" in page.locator(".widget-error").first.inner_text()


@pytest.mark.parametrize("late", ["host", "[0-9a-f]{16}"])
def test_the_host_and_the_modules_may_come_in_any_order(late, site, serve, watch):
    base = serve(site)
    watched = watch(base)
    held = []
    watched.page.route(re.compile(rf"/_static/widgets/{late}\.js"), lambda route: held.append(route))
    watched.page.goto(f"{base}/index.html", wait_until="commit")
    watched.page.wait_for_function("document.readyState === 'interactive'")
    watched.page.wait_for_timeout(200)  # for what is not held
    assert watched.page.locator("[data-state=ready]").count() == 0
    for route in held:
        route.continue_()
    watched.page.wait_for_function("document.querySelectorAll('.static-widget[data-state=ready]').length === 4")
    assert len(held) >= 1
    assert watched.complaints == []


def test_model_keeps_ipywidgets_rules(opened):
    page = opened("index").page
    page.wait_for_function("document.querySelectorAll('.static-widget[data-state=ready]').length === 4")
    told = page.evaluate(
        """() => {
          const { model } = [...window.staticModels.values()][0];
          const told = [];
          const one = () => told.push("count"), all = () => told.push("any");
          model.on("change:count", one); model.on("change", all);
          model.set("count", 5); model.set("count", 5);           // the same value again: nothing to tell
          model.set({ count: 6, name: "z" });                     // several at once: each, then one "change"
          model.off("change:count", one); model.set("count", 7);
          model.off("change", all); model.set("count", 8);
          return [told, model.get("count"), model.send({}), model.save_changes()];
        }"""
    )
    assert told[0] == ["count", "any", "count", "any", "any"]
    assert told[1] == 8


def test_without_javascript_there_is_a_sentence(site, serve, watch):
    base = serve(site)
    page = watch(base, java_script_enabled=False).page
    page.goto(f"{base}/index.html")
    sentences = page.locator(".static-widget noscript")
    assert sentences.count() == 4
    assert sentences.first.is_visible()
    assert "needs JavaScript" in sentences.first.text_content()
