"""check.py: an exercise is judged by its properties, and an empty one is "not written yet"."""

from tiny_gpt.check import exercise

DOUBLES = {"doubles 2": lambda f: f(2) == 4, "doubles -1": lambda f: f(-1) == -2}


def test_right_work_passes():
    report = exercise(lambda x: 2 * x, DOUBLES)
    assert report.passed
    assert "all 2 of 2" in str(report)


def test_a_failing_property_is_named_and_the_others_stand():
    report = exercise(lambda x: x * x, DOUBLES)
    assert not report.passed
    assert report.held == ["doubles 2"]
    assert report.failed == ["doubles -1"]
    assert "1 of 2" in str(report)


def test_an_error_in_the_readers_code_is_quoted():
    def broken(x):
        return x / 0

    report = exercise(broken, DOUBLES)
    assert not report.passed
    assert "ZeroDivisionError" in str(report)


def test_what_is_not_written_is_said_in_plain_words():
    def nothing(x): ...

    def ellipsis(x):
        return ...

    def refused(x):
        raise NotImplementedError

    for unwritten in (nothing, ellipsis, refused):
        report = exercise(unwritten, {"rows": lambda f: f(2).sum() == 1, **DOUBLES})
        assert not report.passed
        assert not report.written
        assert "not written yet" in str(report)
        assert "Error" not in str(report)


def test_returning_none_once_is_a_failure_and_not_unwritten():
    report = exercise(lambda x: 4 if x == 2 else None, DOUBLES)
    assert report.written
    assert report.failed == ["doubles -1"]


def test_a_class_can_be_judged():
    class Adder:
        def __init__(self, n):
            self.n = n

        def __call__(self, x):
            return self.n + x

    assert exercise(Adder, {"adds": lambda cls: cls(2)(3) == 5}).passed
