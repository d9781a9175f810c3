"""Quiz: numbers, choices and orders that are judged where they are answered; what is wrong is told by its cause.

``numeric``, ``choice``, ``choices`` and ``order`` make questions, ``Quiz`` shows them. In the texts, what stands
between backticks is set as code.
"""

import hashlib
import html
import math
import numbers
import random
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import anywidget
import traitlets

from .base import front_end, style

Question = dict[str, Any]


def numeric(
    prompt: str,
    answer: SupportsFloat,
    *,
    explanation: str,
    tolerance: float | None = None,
    units: str = "",
    mistakes: Mapping[float, str] | None = None,
) -> Question:
    """A question whose answer is a number, or a formula that gives it.

    ``tolerance`` is absolute; without one a whole number must be met exactly and another to 1 %. ``mistakes`` maps a
    wrong value to the sentence that names its cause. Confusing nats with bits, shares with per cent, and the sign are
    recognised without being listed.
    """
    value = float(answer)
    if not math.isfinite(value):
        raise ValueError(f"the answer must be a finite number, got {answer!r}: {prompt}")
    whole = isinstance(answer, numbers.Integral)
    if tolerance is None:
        tolerance = 0.0 if whole else 0.01 * abs(value)
    if not 0 <= tolerance < math.inf:
        raise ValueError(f"the tolerance must be 0 or more, got {tolerance}: {prompt}")
    causes = {float(wrong): says for wrong, says in (mistakes or {}).items()}
    for wrong in causes:
        if not math.isfinite(wrong) or abs(wrong - value) <= tolerance:
            raise ValueError(f"the mistake {wrong:g} lies within {tolerance:g} of the answer {value:g}: {prompt}")
    for wrong, says in _usual_mistakes(value, units).items():
        if abs(wrong - value) > tolerance:
            causes.setdefault(wrong, says)
    listed = [
        {"value": wrong, "tolerance": max(tolerance, 0.002 * abs(wrong)), "says": _text(says, "a mistake")}
        for wrong, says in causes.items()
    ]
    shown = f"{int(value):,}" if whole else f"{value:.{_decimals(value, tolerance)}f}"
    within = f"to within {tolerance:.1g}" if tolerance else "exactly"
    return _question(
        "numeric",
        prompt,
        explanation,
        answer=value,
        tolerance=float(tolerance),
        units=units,
        mistakes=listed,
        display=f"{shown} {units}".strip(),
        hint=f"{units}, {within}" if units else within,
    )


def _usual_mistakes(value: float, units: str) -> dict[float, str]:
    causes = {-value: "The size is right, the sign is not."}
    if units == "nats":
        causes[value / math.log(2)] = "That is in bits, with log2: you want nats, with the natural logarithm."
    if units == "bits":
        causes[value * math.log(2)] = "That is in nats, with the natural logarithm: you want bits, with log2."
    if units in ("%", "per cent"):
        causes[value / 100] = "That is the share. It is asked for in per cent."
    return causes


def _decimals(value: float, tolerance: float) -> int:
    """Enough places to show the answer to a tenth of its tolerance."""
    step = tolerance or 0.001 * abs(value) or 1.0
    return min(12, max(0, math.ceil(-math.log10(step / 5) - 1e-9)))


def choice(prompt: str, options: Mapping[str, bool | str], *, explanation: str) -> Question:
    """One of several: ``options`` maps each text to True, for the right one, or to the reason why it is not."""
    question = _question("choice", prompt, explanation, options=_options(prompt, options))
    right = sum(option["right"] for option in question["options"])
    if right != 1:
        raise ValueError(f"a single choice has one right option, got {right}: {prompt}")
    return question


def choices(prompt: str, options: Mapping[str, bool | str], *, explanation: str) -> Question:
    """All that hold: ``options`` maps each text to True, or to the reason why it does not hold."""
    question = _question("choices", prompt, explanation, options=_options(prompt, options))
    if not any(option["right"] for option in question["options"]):
        raise ValueError(f"at least one option must be right: {prompt}")
    return question


def _options(prompt: str, options: Mapping[str, bool | str]) -> list[Question]:
    if len(options) < 2:
        raise ValueError(f"a choice needs two options or more, got {len(options)}: {prompt}")
    listed = []
    for text, right in options.items():
        if right is False:
            raise ValueError(f"the option {text!r} needs a sentence that says why it is wrong, not False: {prompt}")
        says = "" if right is True else _text(right, f"the reason against {text!r}")
        listed.append({"text": _text(text, "an option"), "right": right is True, "says": says})
    return listed


def order(
    prompt: str, lines: Sequence[str], *, explanation: str, reasons: Mapping[tuple[int, int], str] | None = None
) -> Question:
    """Lines to bring into their order. ``lines`` are in the right one and shown in another, always the same.

    ``reasons`` maps a pair of places (from 0), the earlier first, to the sentence for a reader who has them reversed.
    """
    lines = [_text(line, "a line") for line in lines]
    if len(set(lines)) < max(2, len(lines)):
        raise ValueError(f"an order needs two lines or more, all different, got {len(lines)}: {prompt}")
    causes = []
    for (first, then), says in (reasons or {}).items():
        if not 0 <= first < then < len(lines):
            raise ValueError(
                f"a reason needs two places in their order, from 0 to {len(lines) - 1}, got {(first, then)}: {prompt}"
            )
        causes.append({"first": first, "then": then, "says": _text(says, "a reason")})
    start = list(range(len(lines)))
    shuffle = random.Random(prompt)
    while start == sorted(start):
        shuffle.shuffle(start)
    return _question("order", prompt, explanation, lines=lines, start=start, reasons=causes)


def _question(kind: str, prompt: str, explanation: str, **rest: object) -> Question:
    prompt, explanation = _text(prompt, "the prompt"), _text(explanation, "the explanation")
    name = hashlib.sha256(f"{kind}\0{prompt}".encode()).hexdigest()[:10]  # what is kept belongs to this very question
    return {"kind": kind, "id": name, "prompt": prompt, "explanation": explanation, **rest}


def _text(value: str, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{what} must be a text, got {value!r}")
    if value.count("`") % 2:
        raise ValueError(f"a backtick without its partner in {what}: {value!r}")
    return value


class Quiz(anywidget.AnyWidget):
    """Questions that the reader answers in the page.

    ``answers`` maps a question's id to ``{"given": ..., "right": bool, "shown": bool}``; it is live both ways, and
    ``{}`` clears it. ``key`` is the name under which the browser keeps the answers; without one it forgets them.
    """

    _esm = front_end("quiz")
    _css = style("quiz")
    questions = traitlets.List(traitlets.Dict()).tag(sync=True)
    key = traitlets.Unicode().tag(sync=True)
    answers = traitlets.Dict().tag(sync=True)
    _still = traitlets.Unicode().tag(sync=True)  # what the static site shows until the widget starts, or without it

    def __init__(self, questions: Sequence[Question], key: str = "", **traits: Any):
        super().__init__(questions=list(questions), key=key, **traits)

    @traitlets.validate("questions")
    def _check_questions(self, proposal: traitlets.Bunch) -> list[Question]:
        questions: list[Question] = proposal["value"]
        if not questions:
            raise ValueError("a quiz needs at least one question: numeric(), choice(), choices() or order()")
        for question in questions:
            if not {"kind", "id", "prompt", "explanation"} <= set(question):
                raise ValueError(f"not a question, which numeric() and its like make: {question!r:.80}")
        ids = [question["id"] for question in questions]
        for question in questions:
            if ids.count(question["id"]) > 1:
                raise ValueError(f"the same question twice in one quiz: {question['prompt']}")
        return questions

    @traitlets.observe("questions")
    def _draw_still(self, change: traitlets.Bunch) -> None:
        self._still = still(change["new"])

    @property
    def score(self) -> tuple[int, int]:
        """How many questions were answered right before the answer was shown, and how many there are."""
        found = [self.answers.get(question["id"], {}) for question in self.questions]
        return sum(bool(a.get("right")) and not a.get("shown") for a in found), len(self.questions)


def still(questions: Sequence[Question]) -> str:
    """The questions as HTML without a script, in boxes of the sizes that quiz.mjs gives them, answers folded below."""
    boxes = "".join(
        f'<div class="tgq-question"><p class="tgq-prompt">{_inline(q["prompt"])}</p>{_STILL[q["kind"]](q)}'
        '<div class="tgq-actions"><button disabled>Check</button><button disabled>Show the answer</button></div>'
        '<p class="tgq-status"></p></div>'
        for q in questions
    )
    footer = '<div class="tgq-footer"><span>&nbsp;</span><button disabled>Clear my answers</button></div>'
    plain = "".join(f"<li>{_answer(q)} {_inline(q['explanation'])}</li>" for q in questions)
    without = (
        '<noscript><div class="tgw tgq-plain"><p>With JavaScript you can answer here and learn what is wrong.</p>'
        f"<details><summary>The answers</summary><ol>{plain}</ol></details></div></noscript>"
    )
    return f'<div class="tgw tgq tgq-still">{boxes}{footer}</div>{without}'


def _inline(text: str) -> str:
    parts = html.escape(text).split("`")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def _still_number(q: Question) -> str:
    units = html.escape(q["hint"])
    return f'<div class="tgq-number"><input type="text" disabled><span class="tgq-units">{units}</span></div>'


def _still_options(q: Question) -> str:
    kind = "checkbox" if q["kind"] == "choices" else "radio"
    rows = (f'<label><input type="{kind}" disabled><span>{_inline(o["text"])}</span></label>' for o in q["options"])
    return f'<div class="tgq-options">{"".join(rows)}</div>'


def _still_lines(q: Question) -> str:
    buttons = "<button disabled>↑</button><button disabled>↓</button>"
    rows = (f"<li><code>{html.escape(q['lines'][i])}</code>{buttons}</li>" for i in q["start"])
    return f'<ol class="tgq-lines">{"".join(rows)}</ol>'


_STILL = {"numeric": _still_number, "choice": _still_options, "choices": _still_options, "order": _still_lines}


def _answer(q: Question) -> str:
    if q["kind"] == "numeric":
        return html.escape(q["display"]) + "."
    if q["kind"] == "order":
        return "".join(f"<br><code>{html.escape(line)}</code>" for line in q["lines"]) + "<br>"
    return "".join(f"“{_inline(o['text'])}” " for o in q["options"] if o["right"])
