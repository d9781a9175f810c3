"""The quiz: its front end judges as Python does, and wrong questions are refused with a sentence."""

import itertools
import json
import math
import random
import subprocess
import sys

import pytest

pytest.importorskip("anywidget")
from tiny_gpt.widgets import Quiz, choice, choices, numeric, order

WHY = "Because."
NATS = numeric(
    "The loss of a uniform guess?", math.log(65), tolerance=0.005, units="nats", explanation=WHY, mistakes={1 / 65: "p"}
)
COUNT = numeric("How many?", 10_646_784, explanation=WHY)
SHARE = numeric("Which share?", 61.25, tolerance=0.5, units="per cent", explanation=WHY)
ONE = choice("Which factor?", {"`1/D`": "Too small.", "1/√D": True, "1": "Too large."}, explanation=WHY)
MANY = choices("What holds?", {"a": True, "b": "Not b.", "c": True, "d": "Not d."}, explanation=WHY)
FOUR = order(
    "The four lines?",
    ["scores", "mask", "softmax", "sum"],
    reasons={(1, 2): "The mask comes before the softmax."},
    explanation=WHY,
)
QUESTIONS = [NATS, COUNT, SHARE, ONE, MANY, FOUR]


def random_formula(rng, depth=3) -> tuple[str, str]:
    """A formula as a reader writes it, and the same in Python."""
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([(t, t) for t in ("2", "0.5", "65", "1e-2", "3.", "384")] + [("π", "pi"), ("e", "e")])
    a, pa = random_formula(rng, depth - 1)
    if rng.random() < 0.4:
        name = rng.choice(["ln", "log2", "sqrt", "log10"])
        return f"{name} ({a})", f"{'log' if name == 'ln' else name}({pa})"
    b, pb = random_formula(rng, depth - 1)
    sign, python = rng.choice([("+", "+"), ("-", "-"), ("−", "-"), ("×", "*"), ("*", "*"), ("/", "/"), ("·", "*")])
    if rng.random() < 0.5:
        return f"({a}) {sign} {b}", f"({pa}) {python} {pb}"
    return f"-{a}{sign}{b}", f"-{pa}{python}{pb}"


# what a random formula does not reach
WRITTEN = [
    ("ln 65", math.log(65)),
    ("ln65", math.log(65)),
    ("LN(65)", math.log(65)),
    ("log(65)", math.log(65)),
    ("log2 8", 3),
    ("log₂ 8", 3),
    ("√64/2", 4),
    ("2^3^2", 512),
    ("2**-1", 0.5),
    ("-2^2", -4),
    ("12·6·384²", 12 * 6 * 384**2),
    ("124 439 808", 124439808),
    ("1_000", 1000),
    ("exp(-ln 65)", 1 / 65),
    (".5", 0.5),
    ("+3", 3),
]


def formulas() -> list[tuple[str, float]]:
    rng, found = random.Random(5), []
    while len(found) < 200:
        text, python = random_formula(rng)
        try:
            value = eval(python, {"__builtins__": {}}, vars(math))
        except (ValueError, ZeroDivisionError, OverflowError):
            continue
        if len(text) <= 200 and abs(value) < 1e12:
            found.append((text, value))
    return [*found, *WRITTEN]


UNREADABLE = [
    "",
    " ",
    "abc",
    "1 2",
    "(1",
    "1)",
    "2 +",
    "ln",
    "1,5",
    "alert(1)",
    "constructor",
    "__proto__",
    "1..2",
    "🤖",
]
UNREADABLE += ["<script>", "1;2", "(" * 5000, "1" * 201, "e2e", "2 3^"]


def verdicts():
    def case(question, given, verdict, says=None):
        return {"question": question, "given": given, "verdict": verdict, "says": says}

    return [
        case(NATS, "4.174", "right"),
        case(NATS, "4,174", "right"),
        case(NATS, "ln(65) nats", "right"),
        case(NATS, "4.1791", "right"),
        case(NATS, "4.18", "wrong", "exactly"),
        case(NATS, "log2(65)", "wrong", "bits"),
        case(NATS, "-4.174", "wrong", "sign"),
        case(NATS, "1/65", "wrong", "p"),
        case(NATS, "100", "wrong", "too large"),
        case(NATS, "1", "wrong", "too small"),
        case(NATS, "", "none", "Enter"),
        case(NATS, "four", "none", "cannot be read"),
        case(NATS, "1/0", "none", "cannot be read"),
        case(NATS, "9" * 10_000, "none", "too long"),
        case(COUNT, "10,646,784", "right"),
        case(COUNT, "10 646 784", "right"),
        case(COUNT, "10646785", "wrong", "too large"),
        case(SHARE, "61.4 per cent", "right"),
        case(SHARE, "0.6125", "wrong", "share"),
        case(ONE, None, "none", "Choose"),
        case(ONE, 0, "wrong", "Too small."),
        case(ONE, 1, "right"),
        case(MANY, [], "none", "Choose"),
        case(MANY, [0], "wrong", "one more holds"),
        case(MANY, [0, 1, 2], "wrong", "Not b."),
        case(FOUR, [0, 2, 1, 3], "wrong", "before the softmax"),
        case(FOUR, [3, 0, 1, 2], "wrong", "Another line comes first"),
        case(FOUR, [0, 1, 3, 2], "wrong", "first 2 lines"),
    ]


def kept():
    ids = {question["kind"]: question["id"] for question in QUESTIONS[3:]} | {"numeric": NATS["id"]}
    lie = {ids["numeric"]: {"given": "1", "right": True, "shown": False}}
    odd = {
        ids["numeric"]: {"given": 5, "right": True},
        ids["choice"]: {"given": 7, "right": True, "shown": False},
        ids["choices"]: {"given": [0, 0], "right": True, "shown": False},
        ids["order"]: {"given": [0, 1, 2], "right": True, "shown": True},
        "another": {"given": 1},
    }
    good = {ids["choices"]: {"given": [2, 0], "right": True, "shown": False}}
    return [
        {"text": "{}", "answers": {}},
        {"text": "not JSON <script>", "answers": {}},
        {"text": "null", "answers": {}},
        {"text": "[1]", "answers": {}},
        {"text": json.dumps(lie), "answers": {ids["numeric"]: {"given": "1", "right": False, "shown": False}}},
        {"text": json.dumps(odd), "answers": {ids["order"]: {"given": None, "right": False, "shown": True}}},
        {"text": json.dumps(good), "answers": good},
    ]


def test_front_end_judges_as_python_does(node_test):
    entry = {"given": 1, "right": True, "shown": False}
    node_test(
        "quiz",
        "quiz",
        {
            "questions": QUESTIONS,
            "formulas": formulas(),
            "unreadable": UNREADABLE,
            "readings": [
                ["4,174", "", [4174, 4.174]],
                ["1,234,567.5", "", [1234567.5]],
                ["4,5", "", [4.5]],
                ["3 NATS", "nats", [3]],
                ["3 bits", "nats", []],
                ["", "nats", []],
                ["nats", "nats", []],
            ],
            "verdicts": verdicts(),
            "order": FOUR,
            "orders": [[list(p), list(p) == [0, 1, 2, 3]] for p in itertools.permutations(range(4))],
            "choices": MANY,
            "sets": [
                [list(s), set(s) == {0, 2}] for r in range(5) for s in itertools.combinations(range(4), r)
            ],
            "kept": kept(),
            "shapes": [
                ["numeric", "1", True], ["numeric", "1" * 201, False], ["numeric", 1, False], ["numeric", None, False],
                ["choice", 2, True], ["choice", 3, False], ["choice", -1, False], ["choice", "1", False],
                ["choices", [], True], ["choices", [3, 0], True], ["choices", [0.5], False], ["choices", {}, False],
                ["order", [3, 2, 1, 0], True], ["order", [0, 1, 2], False], ["order", [0, 0, 1, 2], False],
            ],
            "scores": [
                {"answers": {}, "says": "0 of 6 right"},
                {"answers": {ONE["id"]: entry, "another": entry}, "says": "1 of 6 right"},
                {
                    "answers": {ONE["id"]: entry, MANY["id"]: {**entry, "shown": True}},
                    "says": "1 of 6 right, 1 shown",
                },
            ],
        },
    )  # fmt: skip


def test_what_is_shown_lies_within_the_tolerance():
    for value, tolerance in [(4.17439, 0.005), (0.02, 0.0001), (124.4, 0.5), (1e-4, 1e-6), (-3.7, 0.1), (0.0, 0.1)]:
        question = numeric("?", value, tolerance=tolerance, explanation=WHY)
        assert abs(float(question["display"]) - value) <= tolerance / 10
    assert COUNT["display"] == "10,646,784"


def test_a_whole_number_is_asked_exactly_and_another_to_a_hundredth():
    assert COUNT["tolerance"] == 0
    assert math.isclose(numeric("?", 2.5, explanation=WHY)["tolerance"], 0.025)


@pytest.mark.parametrize("lines", [["a", "b"], ["a", "b", "c"], list("abcdefgh")])
def test_lines_start_in_another_order_always_the_same(lines):
    starts = [order("?", lines, explanation=WHY)["start"] for _ in range(3)]
    assert starts[0] != sorted(starts[0])
    assert sorted(starts[0]) == list(range(len(lines)))
    assert starts[0] == starts[1] == starts[2]


REFUSED = {
    "finite": lambda: numeric("?", math.nan, explanation=WHY),
    "tolerance must be 0 or more, got -1": lambda: numeric("?", 1.0, tolerance=-1.0, explanation=WHY),
    "the mistake 1.1 lies within 0.5": lambda: numeric("?", 1.0, tolerance=0.5, mistakes={1.1: "x"}, explanation=WHY),
    "the prompt must be a text": lambda: numeric("  ", 1.0, explanation=WHY),
    "the explanation must be a text": lambda: numeric("?", 1.0, explanation=""),
    "backtick": lambda: numeric("`a?", 1.0, explanation=WHY),
    "two options or more, got 1": lambda: choice("?", {"a": True}, explanation=WHY),
    "one right option, got 2": lambda: choice("?", {"a": True, "b": True}, explanation=WHY),
    "one right option, got 0": lambda: choice("?", {"a": "no", "b": "no"}, explanation=WHY),
    "why it is wrong, not False": lambda: choice("?", {"a": True, "b": False}, explanation=WHY),
    "at least one option": lambda: choices("?", {"a": "no", "b": "no"}, explanation=WHY),
    "two lines or more": lambda: order("?", ["a"], explanation=WHY),
    "all different": lambda: order("?", ["a", "b", "a"], explanation=WHY),
    "from 0 to 1": lambda: order("?", ["a", "b"], reasons={(1, 0): "x"}, explanation=WHY),
    "at least one question": lambda: Quiz([]),
    "same question twice": lambda: Quiz([NATS, NATS]),
    "not a question": lambda: Quiz([{"kind": "numeric"}]),
}


@pytest.mark.parametrize("says", REFUSED)
def test_wrong_questions_are_refused(says):
    with pytest.raises(ValueError, match=says):
        REFUSED[says]()


def test_quiz_in_python():
    quiz = Quiz(QUESTIONS, key="test")
    assert quiz.score == (0, 6)
    quiz.answers = {ONE["id"]: {"given": 1, "right": True, "shown": False}}
    assert quiz.score == (1, 6)
    with pytest.raises(ValueError, match="at least one"):
        quiz.questions = []
    quiz.questions = [ONE]
    assert quiz.score == (1, 1)
    assert quiz._still.count("tgq-question") == 1


def test_still_picture_is_text_and_no_markup():
    hostile = "<script>alert(1)</script> & `<b>`"
    quiz = Quiz([
        numeric(hostile, 1.0, units="<i>", explanation=hostile),
        choice(hostile, {hostile: True, "b<": "no"}, explanation=hostile),
        order(hostile, [hostile, "b"], explanation=hostile),
    ])  # fmt: skip
    for tag in ("<script", "<b>", "<i>"):
        assert tag not in quiz._still
    assert "<code>&lt;b&gt;</code>" in quiz._still
    assert " id=" not in quiz._still


def test_the_package_does_not_import_anywidget():
    code = "import sys, tiny_gpt, tiny_gpt.train; print([m for m in ('anywidget', 'ipywidgets') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
