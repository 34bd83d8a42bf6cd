"""Suites that run under pytest: a file or a folder of tests is one unit."""

import os
import subprocess
import tempfile
import xml.etree.ElementTree

import servers

UNIT_SECONDS = 1800
TEST_SECONDS = 60


class Suite:
    """What the suites have in common; `left_out` says what of the names of files is not wanted."""

    folder = ""
    tests = ""
    options = ()

    def __init__(self, fetched):
        self.directory = fetched / self.folder
        self.python = str(fetched / "venv" / "bin" / "python")

    def units(self, quick):
        tests = self.directory / self.tests
        found = sorted(str(path.relative_to(self.directory)) for path in tests.rglob("test_*.py"))
        return [unit for unit in found if self.concerns(unit, quick)]

    def concerns(self, unit, quick):
        return not any(word in unit for word in self.left_out)

    def run(self, unit, launch):
        """Runs a unit; a server that dies is a failure of it."""
        with launch() as server:
            outcome = self.start(unit, server)
            if not server.alive():
                outcome.fail(f"{unit}: the server died", server.log())
        return outcome

    def start(self, unit, server):
        with tempfile.TemporaryDirectory(prefix="kevy-suite-report-") as directory:
            report = f"{directory}/report.xml"
            # Native tracebacks: pytest's own parse the whole file for each failure, which takes longer than the tests.
            command = [
                self.python, "-m", "pytest", "-q", "--tb=native", "-p", "no:cacheprovider", "--timeout", str(TEST_SECONDS),
                f"--junitxml={report}", *self.options, *self.address(server), unit,
            ]
            environment = {**os.environ, "SUITE_PORT": str(server.port), "PYTHONDONTWRITEBYTECODE": "1"}
            words = run_for(command, self.directory, environment)
            return read(unit, report, words)

    def address(self, server):
        return []


class RedisPy(Suite):
    folder = "redis"
    tests = "tests"
    options = ("-m", "not redismod and not onlycluster and not replica and not ssl and not cp_integration")
    # Of modules, clusters, sentinels, TLS, several databases and of redis-py's own parts: no server takes part.
    left_out = (
        "bloom", "cluster", "credentials", "entraid", "json", "maint_notifications", "multidb", "search", "sentinel",
        "ssl", "timeseries", "vsets", "himport", "backoff", "retry", "event", "exceptions", "helpers", "crc",
        "data_structure", "background", "driver_info", "usage_counter", "opentelemetry", "observability", "auth",
        "scenario", "cwe", "test_http", "max_connections", "test_connection_pool", "legacy", "defaults", "policies", "parser", "multiprocessing", "utils", "otel", "metrics",
    )

    def address(self, server):
        return ["--redis-url", f"redis://127.0.0.1:{server.port}/0", "--redis-mod-url", "redis://127.0.0.1:1"]

    def concerns(self, unit, quick):
        wanted = self.QUICK if quick else (unit,)
        return super().concerns(unit, quick) and unit in wanted

    QUICK = ("tests/test_commands.py", "tests/test_lock.py", "tests/test_pipeline.py", "tests/test_pubsub.py")


class FakeRedis(Suite):
    folder = "fakeredis"
    # Only the tests of the real server: the imitation is not what is judged here.
    options = ("-m", "real")
    # Starting pytest takes longer than most files of this suite, so they run together. Every test begins with FLUSHALL.
    UNITS = ("test/test_async", "test/test_mixins")

    def units(self, quick):
        return list(self.UNITS)


def run_for(command, directory, environment):
    """Runs pytest for at most the time of a unit; hands back its last words."""
    try:
        done = subprocess.run(
            command, cwd=directory, env=environment, timeout=UNIT_SECONDS, capture_output=True, text=True,
            errors="replace", stdin=subprocess.DEVNULL, check=False,
        )
    except subprocess.TimeoutExpired:
        return "the unit took too long"
    return (done.stdout + done.stderr)[-900:]


def read(unit, report, words):
    """What pytest's report says of each test."""
    outcome = servers.Outcome()
    try:
        cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    except (OSError, xml.etree.ElementTree.ParseError):
        outcome.fail(f"{unit}: no report", words)
        return outcome
    for case in cases:
        full = f"{case.get('classname', '')}.{case.get('name', '')}"
        faults = [child for child in case if child.tag in ("failure", "error")]
        if faults:
            text = (faults[0].get("message") or "") + "\n" + "\n".join((faults[0].text or "").splitlines()[-6:])
            outcome.fail(full, text)
        elif any(child.tag == "skipped" for child in case):
            outcome.skipped += 1
        else:
            outcome.passed.append(full)
    return outcome
