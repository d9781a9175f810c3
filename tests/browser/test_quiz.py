"""The quiz in a browser: each kind right and wrong, by mouse and by keyboard, hostile input, and what is kept."""

import pytest
from sphinx_project import NOTEBOOK, build

PAGE = (
    NOTEBOOK
    + """
# Page

```{code-cell} python
from tiny_gpt.widgets import Quiz, choice, choices, numeric, order

n = numeric("A number?", 4.17439, tolerance=0.005, units="nats", explanation="ln 65 `code`.")
c = choice("Which one?", {"wrong": "Not that.", "right": True, "<b>bad</b>": "No."}, explanation="The one.")
m = choices("Which ones?", {"a": True, "b": "Not b.", "c": True}, explanation="Two.")
o = order("Which order?", ["x = 1", "y = 2", "z = 3"], reasons={(0, 1): "x first."}, explanation="Up.")
Quiz([n, c, m, o], key="page")
```

```{code-cell} python
hostile = "<script>window.hacked = 1</script>" + "🤖" * 40 + "שלום" + "w" * 400
Quiz([numeric(hostile, 1.0, explanation=hostile), choice(hostile, {hostile: True, "b": hostile}, explanation="x")])
```

The page goes on.
"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    site = build(tmp_path_factory.mktemp("quiz"), {"index": PAGE}, ["sphinx_anywidget"])
    assert site.warnings == ""
    return site.outdir


@pytest.fixture(params=["http", "file"])
def watched(request, site, serve, watch):
    base = serve(site) if request.param == "http" else site.as_uri()
    watched = watch(base)
    watched.address = f"{base}/index.html"
    start(watched)
    yield watched
    assert watched.complaints == []


def start(watched):
    watched.open(watched.address)
    watched.page.wait_for_function("document.querySelectorAll('.static-widget[data-state=ready]').length === 2")


class Question:
    """One question of the first quiz: where a reader looks and what a reader does."""

    def __init__(self, page, prompt):
        self.page = page
        self.form = page.locator("form.tgq-question").filter(has_text=prompt).first

    def check(self, by):
        button = self.form.get_by_role("button", name="Check")
        if by == "mouse":
            button.click()
        else:
            button.focus()
            self.page.keyboard.press("Enter")

    @property
    def says(self):
        return self.form.get_by_role("status").inner_text()

    @property
    def state(self):
        return self.form.get_attribute("data-state") or ""

    @property
    def explained(self):
        return self.form.locator(".tgq-explanation").is_visible()


def answer_number(question, text, by):
    field = question.form.get_by_role("textbox")
    if by == "mouse":
        field.fill(text)
        question.check(by)
    else:
        field.focus()
        question.page.keyboard.press("Control+A")
        question.page.keyboard.type(text)
        question.page.keyboard.press("Enter")


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_number(watched, by):
    question = Question(watched.page, "A number?")
    field = question.form.get_by_role("textbox", name="A number? nats, to within 0.005")
    for text, part in [
        ("6.022", "in bits"), ("4", "too small"), ("four", "cannot be read"), ("", "Enter a number"),
    ]:  # fmt: skip
        answer_number(question, text or " ", by)
        assert part in question.says
        assert question.state == ("" if part in ("cannot be read", "Enter a number") else "wrong")
        assert field.get_attribute("aria-invalid") == str(question.state == "wrong").lower()
        assert not question.explained
    answer_number(question, "ln(65)", by)
    assert question.says.strip() == "Right."
    assert question.state == "right"
    assert question.explained
    assert "4.174 nats" in question.form.locator(".tgq-explanation").inner_text()
    assert watched.page.locator(".tgq-score").first.inner_text() == "1 of 4 right"


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_choice(watched, by):
    page, question = watched.page, Question(watched.page, "Which one?")
    question.check(by)
    assert "Choose one" in question.says
    wrong, right = (question.form.get_by_role("radio", name=name, exact=True) for name in ("wrong", "right"))
    if by == "mouse":
        question.form.get_by_text("wrong", exact=True).click()
    else:
        wrong.focus()
        page.keyboard.press("Space")
    question.check(by)
    assert question.says == "Not yet. Not that."
    assert question.state == "wrong"
    if by == "mouse":
        right.click()
    else:
        wrong.focus()
        page.keyboard.press("ArrowDown")
    assert question.says == ""  # what was said was about another answer
    question.check(by)
    assert question.state == "right"
    assert question.form.get_by_role("radiogroup", name="Which one?").count() == 1


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_choices(watched, by):
    page, question = watched.page, Question(watched.page, "Which ones?")

    def press(name):
        box = question.form.get_by_role("checkbox", name=name, exact=True)
        if by == "mouse":
            box.click()
        else:
            box.focus()
            page.keyboard.press("Space")

    for name, part in [("a", "one more holds"), ("b", "Not b.")]:
        press(name)
        question.check(by)
        assert part in question.says
        assert question.state == "wrong"
    press("b")
    press("c")
    question.check(by)
    assert question.state == "right"


def lines(question):
    return question.form.locator(".tgq-lines code").all_inner_texts()


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_order(watched, by):
    page, question = watched.page, Question(watched.page, "Which order?")
    wanted = ["x = 1", "y = 2", "z = 3"]
    assert sorted(lines(question)) == wanted != lines(question)
    question.check(by)
    assert question.state == "wrong"
    for place, line in enumerate(wanted):
        while lines(question).index(line) > place:
            button = question.form.get_by_role("button", name=f"Move up: {line}")
            before = lines(question).index(line)
            if by == "mouse":
                button.click()
            else:
                button.focus()
                page.keyboard.press("ArrowUp" if place else "Enter")
            assert lines(question).index(line) == before - 1
            assert button.evaluate("b => b === document.activeElement"), "the focus stays with the line"
            assert question.says == f"Now line {before} of 3."
    top = question.form.get_by_role("button", name="Move up: x = 1")
    assert top.get_attribute("aria-disabled") == "true"
    top.click(force=True)
    assert lines(question) == wanted
    question.check(by)
    assert question.state == "right"


def test_showing_the_answer_is_counted_as_shown(watched):
    question = Question(watched.page, "A number?")
    button = question.form.locator(".tgq-reveal")
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    assert question.explained
    assert button.get_attribute("aria-expanded") == "true"
    assert question.form.locator("code").inner_text() == "code"
    answer_number(question, "4.174", "mouse")
    assert question.state == "shown"
    assert "Right." in question.says
    assert watched.page.locator(".tgq-score").first.inner_text() == "0 of 4 right, 1 shown"
    button.click()
    assert not question.explained


def test_a_reload_keeps_the_answers_and_clearing_forgets_them(watched):
    page = watched.page
    answer_number(Question(page, "A number?"), "4.174", "mouse")
    page.get_by_role("radio", name="wrong", exact=True).click()
    Question(page, "Which one?").check("mouse")
    order = Question(page, "Which order?")
    order.form.locator("button[aria-disabled=false]").first.click()
    order.check("mouse")
    moved = lines(order)
    start(watched)
    number, one, order = (Question(page, prompt) for prompt in ("A number?", "Which one?", "Which order?"))
    assert number.form.get_by_role("textbox").input_value() == "4.174"
    assert (number.state, number.explained) == ("right", False)
    assert (one.state, one.says) == ("wrong", "Not yet. Not that.")
    assert lines(order) == moved
    assert page.locator(".tgq-score").first.inner_text() == "1 of 4 right"
    page.get_by_role("button", name="Clear my answers").first.click()
    for again in (False, True):
        if again:
            start(watched)
        assert number.form.get_by_role("textbox").input_value() == ""
        assert page.locator("input:checked").count() == 0
        assert (number.state, one.state, order.state) == ("", "", "")
        assert page.locator(".tgq-score").first.inner_text() == "0 of 4 right"
    assert page.evaluate("localStorage.length") == 0


@pytest.mark.parametrize("kept", ["not JSON", "null", '{"a": 1}', "[]", '"<script>"'])
def test_what_is_kept_is_not_trusted(watched, kept):
    watched.page.evaluate("kept => localStorage.setItem('tiny-gpt:quiz:page', kept)", kept)
    start(watched)
    assert watched.page.locator(".tgq-score").first.inner_text() == "0 of 4 right"


def test_works_where_nothing_can_be_kept(watched):
    watched.page.add_init_script(
        """for (const name of ["getItem", "setItem", "removeItem"]) {
          const own = Storage.prototype[name];  // Sphinx's own scripts do not guard themselves: let them
          Storage.prototype[name] = function (key, ...rest) {
            if (key.startsWith("tiny-gpt")) throw new DOMException("full", "QuotaExceededError");
            return own.call(this, key, ...rest);
          };
        }"""
    )
    start(watched)
    question = Question(watched.page, "A number?")
    answer_number(question, "4.174", "mouse")
    assert question.state == "right"


@pytest.mark.parametrize(
    "text", ["<script>window.hacked = 1</script>", "9" * 10_000, "🤖🤖", "שלום", "", "1/0", "((((("]
)
def test_hostile_input_is_text(watched, text):
    question = Question(watched.page, "A number?")
    question.form.get_by_role("textbox").evaluate("(field, text) => { field.value = text; }", text)
    question.check("mouse")
    assert question.state == ""
    assert question.says
    assert watched.page.evaluate("window.hacked") is None
    start(watched)
    assert Question(watched.page, "A number?").form.get_by_role("textbox").input_value() == ""


def test_hostile_questions_are_text(watched):
    page = watched.page
    assert page.evaluate("window.hacked") is None
    assert page.locator(".static-widget script").count() == 0
    assert page.locator(".static-widget b").count() == 0
    second = page.locator(".static-widget").nth(1)
    assert "<script>window.hacked" in second.locator(".tgq-prompt").first.inner_text()
    page.set_viewport_size({"width": 390, "height": 800})
    assert second.evaluate("e => e.scrollWidth <= e.clientWidth + 1")


def test_two_quizzes_without_a_key_keep_nothing(watched):
    second = watched.page.locator(".static-widget").nth(1)
    second.get_by_role("radio").first.click()
    second.get_by_role("button", name="Check").nth(1).click()
    assert "1 of 2 right" in second.inner_text()
    assert watched.page.evaluate("localStorage.length") == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_moves_when_it_starts(site, serve, watch, width):
    base = serve(site)
    before = watch(base, java_script_enabled=False, viewport={"width": width, "height": 900}).page
    before.goto(f"{base}/index.html")
    box = ".static-widget .tgq"
    still = [before.locator(box).nth(i).bounding_box()["height"] for i in (0, 1)]
    after = watch(base, viewport={"width": width, "height": 900})
    after.address = f"{base}/index.html"
    start(after)
    alive = [after.page.locator(box).nth(i).bounding_box()["height"] for i in (0, 1)]
    assert alive == pytest.approx(still, abs=1)


def test_targets_are_large_and_focus_is_seen(watched):
    page = watched.page
    sizes = page.evaluate(
        "[...document.querySelectorAll('.tgq button, .tgq label, .tgq [type=text]')]"
        ".map(e => e.getBoundingClientRect()).map(r => Math.min(r.width, r.height))"
    )
    assert min(sizes) >= 24
    seen = 0
    for _ in range(40):
        page.keyboard.press("Tab")
        style = page.evaluate(
            "document.activeElement.closest('.tgq') && getComputedStyle(document.activeElement).outlineStyle"
        )
        assert style in (None, "solid")
        seen += style == "solid"
    assert seen >= 15


def test_without_javascript_the_questions_and_answers_can_be_read(site, serve, watch):
    base = serve(site)
    page = watch(base, java_script_enabled=False).page
    page.goto(f"{base}/index.html")
    first = page.locator(".static-widget").first
    for text in ("A number?", "nats, to within 0.005", "right", "z = 3"):
        assert first.get_by_text(text, exact=True).first.is_visible()
    assert first.get_by_role("button").count() == 0, "nothing that looks as if it could be pressed"
    first.locator("noscript summary").click()
    assert "4.174 nats" in first.locator("noscript details").inner_text()


# -- on the book's own page -------------------------------------------------------------------------------------------

RIGHT = """() => [...window.staticModels.values()].map(({ model }) => model.get("questions")).flat().map((q) =>
  ({ prompt: q.prompt, kind: q.kind, answer: q.answer, lines: q.lines, mistakes: q.mistakes,
     right: (q.options ?? []).flatMap((o, i) => o.right ? [i] : []), n: (q.options ?? []).length }))"""


def give(form, question):
    """Answer a question as its own data say is right."""
    if question["kind"] == "numeric":
        form.get_by_role("textbox").fill(repr(question["answer"]))
    elif question["kind"] == "order":
        for place, line in enumerate(question["lines"]):
            while form.locator(".tgq-lines code").all_text_contents().index(line) > place:
                form.locator("li").filter(has=form.page.get_by_text(line, exact=True)).locator("button").first.click()
    else:
        for i in question["right"]:
            form.locator("input").nth(i).check()


@pytest.mark.parametrize("base", ["http", "file"])
def test_every_question_of_the_self_test_can_be_answered(base, book, book_url, watch):
    base = book_url if base == "http" else book.as_uri()
    watched = watch(base)
    page = watched.open(f"{base}/book/selftest.html")
    page.wait_for_function("!document.querySelector('.static-widget:not([data-state=ready])')")
    questions = page.evaluate(RIGHT)
    forms = page.locator("form.tgq-question")
    assert forms.count() == len(questions) >= 18
    assert {q["kind"] for q in questions} == {"numeric", "choice", "choices", "order"}
    for i, question in enumerate(questions):
        form, check = forms.nth(i), forms.nth(i).get_by_role("button", name="Check")
        for mistake in question["mistakes"] or ():
            form.get_by_role("textbox").fill(repr(mistake["value"]))
            check.click()
            said = form.get_by_role("status").inner_text()
            assert said == f"Not yet. {mistake['says']}", (question["prompt"], mistake)
        for wrong in set(range(question["n"])) - set(question["right"]):
            form.locator("input").nth(wrong).check()
            check.click()
            assert form.get_attribute("data-state") == "wrong"
            if question["kind"] == "choices":
                form.locator("input").nth(wrong).uncheck()
        give(form, question)
        check.click()
        assert form.get_attribute("data-state") == "right", question["prompt"]
    scores = page.locator(".tgq-score").all_inner_texts()
    assert all(text.split()[0] == text.split()[2] for text in scores)
    assert watched.complaints == []
