"""The rules of CONTRIBUTING.md that a page's source must keep: anatomy, one definition of each name, glued numbers."""

import ast
import json
import re
from pathlib import Path

import pytest
import yaml

from tiny_gpt import baselines, data, figures, heads, model, numpy_head, sampling, train

ROOT = Path(__file__).parent.parent
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "book").glob("*.md"))}
CHAPTERS = {name: text for name, text in PAGES.items() if re.match(r"\d\d_", name)}

# Which page derives which of the package's names; CONTRIBUTING.md shows the same table.
DERIVED = {
    "01_text_to_batches": {"CharTokenizer", "split", "get_batch"},
    "02_scores_and_scaling": {"softmax", "entropy"},
    "03_causal_mask": {"causal_head"},
    "04_attention_head": {"Head"},
    "05_many_heads": {"MultiHeadAttention", "causal_attention", "CausalSelfAttention"},
    "06_feed_forward": {"FeedForward", "FFN"},
    "07_block": {"Block"},
    "08_tiny_gpt": {"GPTConfig", "TinyGPT"},
    "09_generation": {"next_token_probs", "KVCache"},
}
DERIVED = {page: names for page, names in DERIVED.items() if page in CHAPTERS}


def cells(text):
    """(options, code) of each code cell of a page."""
    found = []
    for body in re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", text, re.M | re.S):
        if body.startswith("---\n"):
            head, code = body[4:].split("\n---\n", 1)
            options = yaml.safe_load(head)
        else:
            lines = body.splitlines()
            count = next((i for i, line in enumerate(lines) if not line.startswith(":")), len(lines))
            options = {}
            for line in lines[:count]:
                key, value = line[1:].split(":", 1)
                options[key] = yaml.safe_load(value)
            code = "\n".join(lines[count:])
        found.append((options, code))
    return found


def tags(options):
    return set(options.get("tags") or ())


def prose(text):
    """A page without its front matter, code, maths and inline code."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    text = re.sub(r"^```\{code-cell\}.*?^```$", "", text, flags=re.M | re.S)
    return re.sub(r"\$\$.*?\$\$|\$[^$\n]*\$|`[^`\n]*`", "", text, flags=re.S)


def exported():
    """Every public name that is defined in a module which chapters derive from."""
    names = {}
    for module in (baselines, data, heads, model, numpy_head, figures, sampling, train):
        for name, value in vars(module).items():
            if not name.startswith("_") and getattr(value, "__module__", "").startswith(module.__name__):
                names.setdefault(name, []).append(module.__name__)
    return names


def defined(text):
    """Names that a page's cells define at the top level, as functions or classes."""
    found = set()
    for _, code in cells(text):
        tree = ast.parse("\n".join(line for line in code.splitlines() if not line.startswith(("%", "!"))))
        found |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return found


def test_there_are_pages_and_cells():
    assert len(CHAPTERS) >= 2
    assert all(len(cells(text)) > 5 for text in CHAPTERS.values())


def test_the_contents_list_every_page_and_no_other():
    listed = re.findall(r"book/(\w+)", (ROOT / "_toc.yml").read_text())
    assert sorted(listed) == sorted(PAGES)
    chapters = [name for name in listed if name in CHAPTERS]
    assert chapters == sorted(chapters)


def test_each_exported_name_is_derived_on_at_most_one_page():
    names = set(exported())
    for page, text in PAGES.items():
        stolen = (defined(text) & names) - DERIVED.get(page, set())
        assert not stolen, f"{page} defines {stolen}, which the package exports: import it"
    for page, wanted in DERIVED.items():
        assert wanted <= defined(PAGES[page]), f"{page} does not derive {wanted - defined(PAGES[page])}"


@pytest.mark.parametrize("page", DERIVED)
def test_what_is_derived_is_compared_with_the_packages(page):
    code = "\n".join(code for _, code in cells(PAGES[page]))
    for name in DERIVED[page]:
        modules = "|".join(module.rsplit(".", 1)[1] for module in exported()[name])
        assert re.search(rf"\b(tiny_gpt|{modules})\.{name}\b", code), f"{page} does not compare {name}"


def test_contributing_shows_the_table_of_names():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    rows = dict(re.findall(r"^\| (\d\d) \| (.*) \|$", text, re.M))
    for page, names in DERIVED.items():
        assert set(re.findall(r"`(\w+)`", rows[page[:2]])) == names


@pytest.mark.parametrize("page", CHAPTERS)
def test_a_chapter_has_the_anatomy(page):
    text = CHAPTERS[page]
    order = [
        r"\A---\n.*?name: python3\n---",
        r"^\(ch-[\w-]+\)=\n# ",
        r"^:::\{admonition\} Audience and objectives\n:class: objectives\n- \*\*Before:\*\*.*\n- \*\*Afterwards\*\*",
        r"^## Takeaways$",
        r"^## Sources$",
    ]
    places = [re.search(pattern, text, re.M | re.S) for pattern in order]
    assert all(places), order[[bool(p) for p in places].index(False)]
    starts = [place.start() for place in places]
    assert starts == sorted(starts)
    assert "hide-cell" in tags(cells(text)[0][0])
    assert "use_book_style()" in cells(text)[0][1]


def exercises(text):
    return re.findall(r"```\{exercise-start\} ([^\n]+)\n:label: ([\w-]+)\n```\n(.*?)```\{exercise-end\}", text, re.S)


META = (
    r"^\{\.exercise-meta\}\nDifficulty [1-5] of 5 · Importance [1-5] of 5 · \d+ minutes · \[Section\]\((sec-[\w-]+)\)$"
)


@pytest.mark.parametrize("page", CHAPTERS)
def test_exercises_have_marks_hint_and_solution(page):
    text = CHAPTERS[page]
    found = exercises(text)
    assert len(found) >= 2
    assert len(found) == text.count("{exercise-start}")
    for _, label, body in found:
        assert label.startswith(f"ex-{page[:2]}-"), label
        meta = re.search(META, body, re.M)
        assert meta, f"{label}: no line of difficulty, importance and minutes"
        assert f"({meta[1]})=" in text, f"{label} points to no section of its page"
        assert "```{dropdown} Hint" in body, label
        assert f"```{{solution-start}} {label}\n:class: dropdown\n```" in text, label


@pytest.mark.parametrize("page", PAGES)
def test_cells_are_short(page):
    for options, code in cells(PAGES[page]):
        if "remove-cell" in tags(options) or "hide-cell" in tags(options):
            continue
        lines = [line for line in code.splitlines() if line.strip() and not line.strip().startswith("#")]
        # what is folded, and a check's table of properties, is looked up rather than read
        limit = 20 if "hide-input" in tags(options) or "exercise(" in code else 16
        assert len(lines) <= limit, f"{page}: {len(lines)} lines\n{code}"


@pytest.mark.parametrize("page", PAGES)
def test_randomness_is_explicit(page):
    for _, code in cells(PAGES[page]):
        assert not re.search(r"torch\.manual_seed|np\.random\.(?!default_rng|Generator)|random\.seed", code), code


@pytest.mark.parametrize("page", PAGES)
def test_figures_have_name_caption_and_alternative(page):
    named = []
    for options, code in cells(PAGES[page]):
        if not re.search(r"^(live = display\()?figures\.(?!use_book_style)\w+\(", code, re.M):
            continue
        figure = options.get("mystnb", {}).get("figure", {})
        assert figure.get("name", "").startswith("fig-"), code
        assert len(figure.get("caption", "")) > 30, code
        assert len(options["mystnb"].get("image", {}).get("alt", "")) > 30, code
        named.append(figure["name"])
    assert len(named) == len(set(named))


@pytest.mark.parametrize("page", PAGES)
def test_glue_stands_in_cells_of_its_own_and_is_used(page):
    text = PAGES[page]
    glued = set()
    for options, code in cells(text):
        if "glue(" in code or "myst_nb" in code:
            assert "remove-cell" in tags(options), code
            assert code.lstrip().startswith("from myst_nb import glue"), code
            glued |= set(re.findall(r'glue\(f?"([^"]+)"', code))
    used = set(re.findall(r"\{glue:\w*\}`([\w]+)", text))
    patterns = [re.sub(r"\\\{.*?\\\}", r"\\w+", re.escape(name)) for name in glued]
    for name in used:
        assert any(re.fullmatch(pattern, name) for pattern in patterns), f"{name} is used and not glued"
    for name, pattern in zip(glued, patterns, strict=True):
        assert any(re.fullmatch(pattern, other) for other in used), f"{name} is glued and not used"


def decimals(text):
    """Numbers with at least three significant digits and a decimal point, as they stand in prose."""
    return set(re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", text))


@pytest.mark.parametrize("page", PAGES)
def test_prose_does_not_repeat_what_a_cell_has_printed_by_format(page):
    """A literal with three decimals in prose looks computed: it has to be glued, or stand in a cell's code as well."""
    text = PAGES[page]
    code = "\n".join(code for _, code in cells(text))
    loose = {n for n in decimals(prose(text)) if len(n.split(".")[1]) >= 3 and n not in code}
    known = {"4.174"}  # ln 65, which lesson two states
    assert not loose - known, f"{page}: {loose - known} stand in prose and in no cell"


CLAIMS = {  # fewest assertions and glued values that a page's outline promises
    "01_text_to_batches": 20, "02_scores_and_scaling": 30, "03_causal_mask": 25, "04_attention_head": 20,
    "05_many_heads": 20, "06_feed_forward": 20, "07_block": 25, "08_tiny_gpt": 30, "09_generation": 20,
    "10_faster": 15, "11_debugging": 25, "13_train_it": 20,
}  # fmt: skip


@pytest.mark.parametrize("page", CHAPTERS)
def test_a_page_keeps_its_claims(page):
    code = "\n".join(code for _, code in cells(CHAPTERS[page]))
    assert page in CLAIMS, f"{page} is new: say in CLAIMS how many assertions and glued values it makes at least"
    claims = len(re.findall(r"^\s*assert ", code, re.M)) + len(re.findall(r"\bglue\(", code))
    assert claims >= CLAIMS[page], f"{page} makes {claims} claims"


def test_a_readers_file_does_not_go_by_the_packages_name():
    """Beside nanoGPT the lesson asks for that name; anywhere else such a file hides the package from Python."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = {page for page, text in PAGES.items() if re.search(r"(?<![\w/])tiny_gpt\.py", text)}
    assert found <= {"drop_in", "intro"}  # intro says what the lesson asks for
    named = [line for line in readme.splitlines() if "`tiny_gpt.py`" in line]
    assert [line.count("anything but `tiny_gpt.py`") for line in named] == [1]


def test_the_last_chapter_draws_the_curve_that_was_measured():
    record = json.loads((ROOT / "tests" / "data" / "nanogpt_cpu_run.json").read_text())
    code = "\n".join(code for _, code in cells(PAGES["13_train_it"]))
    drawn = ast.literal_eval(re.search(r"nanogpt_valid = (\{.*?\})", code, re.S)[1])
    assert drawn == {int(step): loss for step, loss in record["val_loss"].items()}
    sizes, plan = train.PRESETS["cpu"]
    measured = record["config"]
    assert all(measured[key] == value for key, value in sizes.items())
    assert (measured["batch_size"], measured["max_iters"], measured["beta2"]) == (
        plan.batch_size, plan.max_steps, plan.beta2,
    )  # fmt: skip


def test_the_drop_in_page_quotes_what_was_measured():
    code = "\n".join(code for _, code in cells(PAGES["drop_in"]))
    values = {
        node.targets[0].id: node.value
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    data = ROOT / "tests" / "data"
    run = json.loads((data / "nanogpt_cpu_run.json").read_text())
    assert ast.literal_eval(values["nanogpt_valid"]) == {int(step): loss for step, loss in run["val_loss"].items()}
    published = ast.literal_eval(values["published"])
    assert published["cpu"] == run["published"]["cpu_configuration_val_loss"]
    assert published["gpu"] == run["published"]["gpu_configuration_best_val_loss"]
    same = json.loads((data / "nanogpt_same_seed_losses.json").read_text())
    first = ast.literal_eval(values["nanogpt_first"])
    assert first == same["loss"][: len(first)]
