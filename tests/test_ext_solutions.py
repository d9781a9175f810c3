"""The book without its solutions: none in any file, whatever was built into the folder before."""

from sphinx_project import NOTEBOOK, build

EXERCISE = (
    NOTEBOOK
    + """
# Page

```{exercise-start} A question
:label: ex-question
```
What is it?
```{exercise-end}
```

```{solution-start} ex-question
```
The answer is twelvish.

```{code-cell} python
print("twelvish" + "ly")
```
```{solution-end}
```

The end. {ref}`ex-question`

```{toctree}
next
```
"""
)


PARTS = ["sphinx_exercise", "sphinx_design", "solutions", "site_address", "site_files", "notebooks"]


def published(site) -> dict[str, bytes]:
    return {str(path.relative_to(site.outdir)): path.read_bytes() for path in site.outdir.rglob("*") if path.is_file()}


def test_a_folder_holds_a_book_of_one_kind(tmp_path, monkeypatch):
    monkeypatch.delenv("SOLUTIONS", raising=False)

    def make(choice):
        monkeypatch.setenv("SOLUTIONS", choice)
        site = build(tmp_path, {"index": EXERCISE, "next": "# Next"}, PARTS, html_theme="sphinx_book_theme")
        assert site.warnings == ""
        return published(site)

    (tmp_path / "_build").mkdir()
    (tmp_path / "_build" / "tiny-gpt.pdf").write_bytes(b"%PDF The answer is twelvish.")
    full = make("on")
    holding = {name for name, content in full.items() if b"twelvish" in content}
    assert {"index.html", "_sources/index.md", "tiny-gpt.pdf"} <= holding, "the test begins from a full book"
    without = make("off")
    assert [name for name, content in without.items() if b"twelvish" in content] == []
    assert b"What is it?" in without["index.html"]
    assert b"The end." in without["index.html"]
    assert b".pdf" not in without["index.html"]
    assert (tmp_path / "_build" / "solutions").read_text() == "off"
    again = make("")  # as if nothing had been said
    assert {name for name, content in again.items() if b"twelvish" in content} == holding
    assert (tmp_path / "_build" / "solutions").read_text() == "on"


def test_another_word_is_told_and_leaves_them_out(tmp_path, monkeypatch):
    monkeypatch.setenv("SOLUTIONS", "no")
    site = build(tmp_path, {"index": EXERCISE}, ["sphinx_exercise", "solutions"])
    assert "say on or off" in site.warnings
    assert "twelvish" not in site.html()
