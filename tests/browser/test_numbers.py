"""The built pages: a number that a cell computed is glued wherever it stands in prose, and never typed beside it."""

import html
import re

import pytest
from test_pages import PAGES, ROOT, prose

BOOK = ROOT / "_build" / "html" / "book"

# typed all the same, and rightly: Shannon's own figure beside ours, and the initialisation's 0.02, which is a setting
GIVEN = {"01_text_to_batches": {"3.32"}, "02_scores_and_scaling": {"0.02"}}
DECIMAL = re.compile(r"(?<![\w.])\d+\.\d{2,}(?![\w.])")


def glued(page: str) -> set[str]:
    """Numbers with two decimals and more that a built page took from its cells."""
    text = (BOOK / f"{page}.html").read_text(encoding="utf-8")
    pasted = re.findall(r'<span class="pasted-text">(.*?)</span>', text, re.S)
    return {number for part in pasted for number in DECIMAL.findall(html.unescape(part))}


@pytest.mark.parametrize("page", PAGES)
def test_no_number_in_prose_repeats_one_that_was_computed(page):
    if not BOOK.exists():
        pytest.fail("there is no built book: run make book first")
    typed = set(DECIMAL.findall(prose(re.sub(r"\{glue:text\}`[^`]*`", "", PAGES[page]))))
    both = (typed & glued(page)) - GIVEN.get(page, set())
    assert not both, f"{page}: {sorted(both)} are typed in prose, and a cell computes them: glue them"


def test_the_built_pages_do_hold_glued_numbers():
    assert sum(len(glued(page)) for page in PAGES) > 50
