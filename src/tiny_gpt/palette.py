"""One meaning, one colour: the table that figures (Python) and pages and widgets (CSS) are both made from.

The hues are Okabe and Ito's (2008), which stay apart for colour-blind readers; the second of each pair is the same
meaning on a dark ground, lightened until text in it reaches a contrast of 4.5:1.
"""

# meaning: (on white, on the dark theme's ground)
COLORS = {
    "q": ("#0072B2", "#56A8DC"),  # queries
    "k": ("#D55E00", "#F0893E"),  # keys
    "v": ("#009E73", "#2FC49A"),  # values
    "attention": ("#CC79A7", "#DE9CC1"),  # the attention branch
    "ffn": ("#E69F00", "#F2B93B"),  # the feed-forward branch
    "stream": ("#56B4E9", "#7CC7F0"),  # the residual stream
    "ink": ("#1F2328", "#E6E6E6"),  # text and axes
    "train": ("#1F2328", "#E6E6E6"),  # training loss, solid: a loss has no hue, for each hue is a tensor's
    "valid": ("#1F2328", "#E6E6E6"),  # validation loss, dashed
    "baseline": ("#767676", "#A0A0A0"),  # something to compare with, dotted
    "masked": ("#9A9A9A", "#8A8A8A"),  # hatching of cells that the mask removed
    "ground": ("#FEFEFE", "#15181C"),  # the page: a sign on something filled with ink (plain white stays white)
    "grid": ("#D9D9D9", "#3A3F46"),
}

P_MAP = "cividis"  # probabilities and weights, always 0 to 1
S_MAP = "RdBu_r"  # scores, always symmetric about 0


def css() -> str:
    """The table as CSS custom properties, ``--tg-NAME``, for both themes."""
    rows = [[f"  --tg-{name}: {pair[i]};" for name, pair in COLORS.items()] for i in (0, 1)]
    return ":root {\n" + "\n".join(rows[0]) + '\n}\nhtml[data-theme="dark"] {\n' + "\n".join(rows[1]) + "\n}\n"
