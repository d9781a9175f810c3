"""Sections lead to the exercises that practise them, and the script of the reading marks is published."""

import re

from sphinx_project import build

META = "{.exercise-meta}\nDifficulty 1 of 5 · [Section](sec-b)\n\n"
ONE = "```{exercise-start} Title N\n:label: ex-N\n```\n" + META + "Task.\n```{exercise-end}\n```\n\n"
PAGE = "# Page\n\n(sec-a)=\n## A\n\nText.\n\n(sec-b)=\n## B\n\nText of B.\n\n### Below\n\nMore.\n\n## Your turn\n\n"
SETTINGS = {"myst_enable_extensions": ["attrs_block"], "numfig": True}


def test_a_section_ends_with_its_exercises(tmp_path):
    pages = {"index": PAGE + ONE.replace("N", "1") + ONE.replace("N", "2")}
    site = build(tmp_path, pages, ["sphinx_exercise", "reading"], **SETTINGS)
    assert site.warnings == ""
    lines = re.findall(r'<p class="practise">.*?</p>', site.html(), re.S)
    assert len(lines) == 1
    assert re.findall(r'href="#([\w-]+)">([^<]*)<', lines[0]) == [
        ("ex-1", "Exercise 1 (Title 1)"),
        ("ex-2", "Exercise 2 (Title 2)"),
    ]
    text = site.html()
    assert text.index("Text of B.") < text.index(lines[0]) < text.index("Below"), "before its subsections"


def test_a_page_without_exercises_has_no_such_line(tmp_path):
    site = build(tmp_path, {"index": PAGE}, ["sphinx_exercise", "reading"], **SETTINGS)
    assert "practise" not in site.html()


def test_the_script_is_published(tmp_path):
    site = build(tmp_path, {"index": PAGE}, ["reading"], **SETTINGS)
    assert re.search(r'<script defer="defer" src="_static/reading\.js', site.html())
    assert "tiny-gpt:read" in (site.outdir / "_static" / "reading.js").read_text()
