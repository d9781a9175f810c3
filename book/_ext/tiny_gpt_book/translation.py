"""Marks code as not to be translated: a reader whose browser translates pages must find the names that the book means.

Sphinx gives code a class that says so, which not every translator knows; the attribute is the standard. In what a
widget makes in the page, its own script sets it.
"""

import re

CODE = re.compile(r"<(code|pre|kbd|samp)\b(?![^>]*\btranslate=)")


def mark(app, pagename, templatename, context, doctree):
    if "body" in context:
        context["body"] = CODE.sub(r'<\1 translate="no"', context["body"])


def connect(app, on):
    on("html-page-context", mark)
