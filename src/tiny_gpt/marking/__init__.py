"""Marking: the checker over a folder of submissions, each in a sandbox where it can harm neither the rest nor you."""

from . import sandbox
from .marks import Mark, mark, report_page, table
from .submissions import Submission, submissions

__all__ = ["Mark", "Submission", "mark", "report_page", "sandbox", "submissions", "table"]
