"""The clinic's patients: small models, really trained, most with one bug of the catalogue; and what tests find in them.

``make`` (``make clinic``) trains them all from their seeds and writes ``trained/clinic.json``, from which the book's
widget deals. A record holds what one sees in life (losses, gradient norms, a sample) and the outcomes of the tests
that a reader may order.
"""

from .examination import TESTS
from .patients import HEALTHY, PATIENTS, Patient, Record
from .records import FILE, examine, load, make
from .training import SIZES, STEPS

__all__ = ["FILE", "HEALTHY", "PATIENTS", "SIZES", "STEPS", "TESTS", "Patient", "Record", "examine", "load", "make"]
