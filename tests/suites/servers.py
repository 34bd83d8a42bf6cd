"""Servers under test, and what became of a unit's tests."""

import contextlib
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
START_SECONDS = 20
STOP_SECONDS = 10
LOG_BYTES = 4000


class Outcome:
    """The tests of one unit: how often each passed, the message of each that failed, how many were skipped."""

    def __init__(self):
        self.passed = []
        self.failed = {}
        self.skipped = 0
        self.seconds = 0.0

    def fail(self, name, message):
        """Notes a failure; a name that fails again gets a number, so that each counts."""
        unique, number = name, 1
        while unique in self.failed:
            number += 1
            unique = f"{name} [again {number}]"
        self.failed[unique] = message

    @staticmethod
    def sum(outcomes):
        total = Outcome()
        for outcome in outcomes:
            total.passed += outcome.passed
            for name, message in outcome.failed.items():
                total.fail(name, message)
            total.skipped += outcome.skipped
            total.seconds += outcome.seconds
        return total


def free_port():
    """A port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(kind, port, threads, binary, directory):
    if kind == "redis":
        return [
            shutil.which("redis-server") or "redis-server",
            "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
            "--enable-debug-command", "yes", "--dir", directory,
        ]
    kevy = binary or str(REPOSITORY / "target" / "debug" / "kevy")
    return [
        kevy, "--port", str(port), "--bind", "127.0.0.1", "--threads", str(threads), "--no-aof",
        "--dir", directory,
    ]


class Server:
    """A running server: its port, its process and its log."""

    def __init__(self, process, port, log_path):
        self.process = process
        self.port = port
        self.log_path = log_path

    def alive(self):
        return self.process.poll() is None

    def log(self):
        return pathlib.Path(self.log_path).read_text(encoding="utf-8", errors="replace")[-LOG_BYTES:]

    def wait_for_pong(self):
        """Waits until the server answers; False when it ended instead."""
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up and self.alive():
            with contextlib.suppress(OSError):
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    connection.sendall(b"PING\r\n")
                    if connection.recv(16).startswith(b"+PONG"):
                        return True
            time.sleep(0.02)
        return False

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def start(kind, threads, binary, tries=5):
    """Starts a server on a free port in an empty directory, and always ends it."""
    with tempfile.TemporaryDirectory(prefix="kevy-suite-") as directory:
        for _ in range(tries):
            port = free_port()
            log_path = f"{directory}/server.log"
            with open(log_path, "wb") as log:
                process = subprocess.Popen(
                    command(kind, port, threads, binary, directory), stdout=log, stderr=log, cwd=directory
                )
            server = Server(process, port, log_path)
            try:
                if server.wait_for_pong():
                    yield server
                    return
                words = server.log()
            finally:
                server.stop()
        raise SystemExit(f"the server did not start: {words}")


