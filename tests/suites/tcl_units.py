"""Redis's own suite, one unit at a time against a server that is already there."""

import os
import re
import signal
import subprocess

import servers

UNIT_SECONDS = 900
# The suite gives up when no test ended for so long, and says which one was under way.
STUCK_SECONDS = 90
# How often a unit is started anew without the test that got stuck.
STUCK_TESTS = 4
TAGS = (
    "-slow -large-memory -needs:debug -needs:pfdebug -needs:repl -needs:save -needs:config-maxmemory -scripting -acl -modules"
)
FLAGS = ["--durable", "--no-latency", "--singledb", "--ignore-encoding", "--ignore-digest", "--dont-clean"]
QUICK = (
    "unit/protocol unit/keyspace unit/type/string unit/type/incr unit/type/list unit/type/set unit/type/zset unit/type/hash "
    "unit/type/stream-cgroups unit/sort unit/expire unit/multi unit/pubsub unit/introspection-2 unit/bitfield"
).split()
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
OK = re.compile(r"^\[ok\]: (.*) \(\d+ ms\)$")
FAILED = re.compile(r"^\[err\]: (.*)$")
SKIPPED = re.compile(r"^\[(?:ignore|skip)\]: ")
UNDER_WAY = re.compile(r"=> \(IN PROGRESS\) (.*)$")
IN_FILE = re.compile(r" in tests/\S+\.tcl$")


class Suite:
    def __init__(self, fetched):
        self.directory = fetched / "tcl"

    def units(self, quick):
        listed = subprocess.run(
            ["tclsh", "tests/test_helper.tcl", "--list-tests"],
            cwd=self.directory, check=True, capture_output=True, text=True,
        ).stdout.split()
        return [unit for unit in listed if not quick or unit in QUICK]

    def run(self, unit, launch):
        """Runs a unit; a test that gets stuck fails, and the unit is run again without it, on a server that knows nothing of
        the first run. A server that dies is a failure of the unit."""
        stuck = {}
        for _ in range(STUCK_TESTS):
            with launch() as server:
                lines, ended = self.start(unit, server, stuck)
                died = None if server.alive() else server.log()
            outcome, under_way = read(unit, lines)
            if under_way is None or under_way in stuck or died is not None:
                break
            stuck[under_way] = "no answer within the time limit"
        outcome.skipped -= len(stuck) if under_way not in stuck else 0
        for name, message in stuck.items():
            outcome.fail(f"{unit}: {name}", message)
        if not ended:
            outcome.fail(f"{unit}: the unit took too long", "\n".join(lines[-8:]))
        if died is not None:
            outcome.fail(f"{unit}: the server died", died)
        return outcome

    def start(self, unit, server, without):
        """Runs the suite once; hands back its lines and whether it came to an end by itself."""
        command = [
            "tclsh", "tests/test_helper.tcl", "--host", "127.0.0.1", "--port", str(server.port), *FLAGS,
            "--tags", TAGS, "--timeout", str(STUCK_SECONDS), "--baseport", str(servers.free_port() % 20000 + 10000),
            "--single", unit,
        ]
        for name in without:
            command += ["--skiptest", name]
        # A session of its own: the suite starts helpers that have to end with it.
        process = subprocess.Popen(
            command, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=UNIT_SECONDS)
            ended = True
        except subprocess.TimeoutExpired:
            ended = False
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        if not ended:
            output, _ = process.communicate()
        text = COLOUR.sub("", output.decode("utf-8", errors="replace"))
        return text.splitlines(), ended


def read(unit, lines):
    """What the suite's lines say: the outcome, and the test under way when it gave up."""
    outcome = servers.Outcome()
    under_way = None
    gave_up = False
    for index, line in enumerate(lines):
        if "The following tests failed" in line:
            break
        if match := OK.match(line):
            outcome.passed.append(f"{unit}: {match[1]}")
        elif SKIPPED.match(line):
            outcome.skipped += 1
        elif match := FAILED.match(line):
            outcome.fail(f"{unit}: {title(match[1])}", message_below(lines, index))
        elif line.startswith("[exception]: "):
            outcome.fail(f"{unit}: the unit ended early", "\n".join(lines[index : index + 12]))
        elif line.startswith("[TIMEOUT]"):
            gave_up = True
        elif match := UNDER_WAY.search(line):
            under_way = match[1]
    if gave_up and under_way is None:
        outcome.fail(f"{unit}: stuck between two tests", "\n".join(lines[-12:]))
    return outcome, under_way


def title(words):
    """The test's name; an error outside of any test has none."""
    return IN_FILE.sub("", words) if IN_FILE.search(words) else "outside of a test"


def message_below(lines, index):
    below = [lines[index]]
    for line in lines[index + 1 : index + 14]:
        if line.startswith("["):
            break
        below.append(line)
    return "\n".join(below)
