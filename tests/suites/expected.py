"""The failures that are known, each with its reason.

A file consists of sections. A line `## REASON` starts one; the lines below it name tests, one each; `#` starts a comment. A section whose
reason starts with `sometimes:` lists tests that may fail or pass (they depend on timing).
"""

import re

SOMETIMES = "sometimes:"
AGAIN = re.compile(r" \[again \d+\]$")


class Expectations:
    """Names of tests that fail always, or sometimes."""

    def __init__(self):
        self.always = {}
        self.sometimes = {}

    def surprises(self, outcomes):
        """What did not do as listed: a failure that is not, and a listed one that passed."""
        lines = []
        for outcome in outcomes:
            for name, message in outcome.failed.items():
                if plain(name) not in self.always and plain(name) not in self.sometimes:
                    lines.append(f"UNEXPECTED FAILURE {name}\n    " + "\n    ".join(message.splitlines()[:8]))
            failed = {plain(name) for name in outcome.failed}
            for name in sorted(set(outcome.passed) - failed):
                if name in self.always:
                    lines.append(f"PASSES NOW, take it off the list: {name}")
        return lines


def plain(name):
    """The name without the number that tells failures of one name apart."""
    return AGAIN.sub("", name)


def read(*paths):
    """Reads the files that exist."""
    known = Expectations()
    for path in paths:
        if path.exists():
            read_file(path, known)
    return known


def read_file(path, known):
    section = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("## "):
            reason = line[3:]
            section = known.sometimes if reason.startswith(SOMETIMES) else known.always
        elif line and not line.startswith("#"):
            if section is None:
                raise SystemExit(f"{path.name}:{number}: a test without a reason")
            section[line] = reason
