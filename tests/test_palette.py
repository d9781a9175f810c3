"""palette.py: text colours reach the contrast they promise, and the CSS holds what Python holds."""

import re

import pytest

from tiny_gpt.palette import COLORS, css

GROUNDS = ("#FFFFFF", "#14181E")


def luminance(color):
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_known_pairs():
    assert contrast("#FFFFFF", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#FFFFFF") == pytest.approx(4.48, abs=0.01)  # WCAG's well-known near miss


@pytest.mark.parametrize("name", [n for n in COLORS if n not in ("grid", "masked", "ground")])
def test_dark_colours_can_carry_text(name):
    assert contrast(COLORS[name][1], GROUNDS[1]) >= 4.5


def test_ink_can_carry_text_in_both():
    assert all(contrast(color, ground) >= 7 for color, ground in zip(COLORS["ink"], GROUNDS, strict=True))


def test_css_is_made_from_the_table():
    light, dark = css().split('html[data-theme="dark"]')
    for text, column in ((light, 0), (dark, 1)):
        found = dict(re.findall(r"--tg-(\w+): (#\w{6});", text))
        assert found == {name: pair[column] for name, pair in COLORS.items()}
