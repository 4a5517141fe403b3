"""Progress and error lines of the scripts."""

import argparse
import logging

import pytest

from pisoft import progress
from pisoft.errors import BenchmarkError, did_you_mean
from pisoft.workflow.commandline import run


def test_a_log_file_gets_plain_lines_with_rate_and_time_left(monkeypatch, caplog):
    clock = iter(range(0, 1000, 6))  # each reading of the clock is 6 seconds later
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    caplog.set_level(logging.INFO)
    items = [["a", "b"], ["c", "d"], ["e", "f"]]
    assert list(progress.progress(items, 6, "evaluating")) == items
    assert caplog.messages == [
        "evaluating: 4 of 6 samples, 0.33 samples/s, 6 s left",
        "evaluating: 6 of 6 samples, 0.33 samples/s, 0 s left",
    ]


def exit_of(error, monkeypatch, capsys):
    def main(arguments):
        if error:
            raise error

    monkeypatch.setattr("sys.argv", ["script"])
    with pytest.raises(SystemExit) as end:
        run(main, argparse.ArgumentParser())
    return end.value.code, capsys.readouterr().err


def test_a_benchmark_error_gives_one_line_and_success_none(monkeypatch, capsys):
    line = "error: a.yaml: key: bad\n"
    assert exit_of(BenchmarkError("a.yaml: key: bad"), monkeypatch, capsys) == (1, line)
    assert exit_of(None, monkeypatch, capsys)[0] == 0


def test_a_defect_ends_with_a_line_naming_it(monkeypatch, capsys):
    code, printed = exit_of(KeyError("x"), monkeypatch, capsys)
    assert (code, printed.splitlines()[-1]) == (1, "error: unexpected KeyError: 'x'")


@pytest.mark.parametrize("kind", [BenchmarkError, ConnectionError])
def test_passwords_in_addresses_are_never_logged(kind, monkeypatch, capsys, caplog):
    address = "https://user:se@cret@hub.example/owner/name"
    code, printed = exit_of(kind(f"no answer of {address}"), monkeypatch, capsys)
    logging.getLogger("httpx").warning("GET %s", address)
    shown = printed + caplog.text
    assert code == 1
    assert "no answer of https://***@hub.example/owner/name" in printed
    assert "GET https://***@hub.example/owner/name" in shown
    assert "cret" not in shown


def test_the_nearest_match_is_named():
    assert did_you_mean("salency", ["saliency", "random"]) == (
        "; did you mean 'saliency'? allowed: random, saliency"
    )
    assert did_you_mean("zzz", ["saliency"]) == "; allowed: saliency"
    assert did_you_mean("zzz", []) == "; allowed: none"
