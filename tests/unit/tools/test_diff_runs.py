"""tools/diff_runs.py finds exactly the differences between two runs."""

import shutil
import subprocess
import sys

import matplotlib.image
import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def runs(tmp_path):
    """Two equal runs with a file of each kind."""
    left, right = tmp_path / "left", tmp_path / "right"
    for part in ("data/summary", "tables", "figures"):
        (left / part).mkdir(parents=True)
    frame = pd.DataFrame({"method": ["a", "b"], "value": [0.5, np.nan], "draws": [[1.0], [2.0]]})
    frame.to_parquet(left / "data/summary/x.parquet")
    frame.drop(columns="draws").to_csv(left / "tables/x.csv")
    (left / "tables/x.tex").write_text("a & 0.50 [.4, .6]")
    (left / "tables/x.html").write_text("<style>p {top: 1}</style><p>p = 0.012 for a</p>")
    matplotlib.image.imsave(left / "figures/x.png", np.zeros((3, 3)))
    shutil.copytree(left, right)
    return left, right


def differences(root, runs, *options):
    command = [sys.executable, root / "tools/diff_runs.py", *runs, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_equal_runs_have_no_difference(root, runs):
    assert differences(root, runs) == (0, ["5 files compared, 0 differ; 0 unpaired"])


def test_changed_numbers_words_pixels_and_missing_files_are_listed(root, runs):
    _, right = runs
    frame = pd.read_parquet(right / "data/summary/x.parquet")
    frame.loc[0, "value"] += 0.25
    frame.to_parquet(right / "data/summary/x.parquet")
    (right / "tables/x.csv").unlink()
    (right / "tables/x.tex").write_text("b & 0.50 [.4, .6]")
    (right / "tables/x.html").write_text("<style>p {top: 2}</style><p>p = 0.512 for a</p>")
    image = np.zeros((3, 3))
    image[1, 1] = 1
    matplotlib.image.imsave(right / "figures/x.png", image)
    code, lines = differences(root, runs)
    assert code == 1
    assert lines[0].endswith("left: tables/x.csv")
    assert lines[1].startswith("data/summary/x.parquet: 1 differ, at most by 0.25; value, row 0:")
    assert lines[2].startswith("figures/x.png: 1 differ")
    assert lines[3] == "tables/x.html: 1 differ, at most by 0.5; '0.012' and '0.512'"
    assert lines[4] == "tables/x.tex: 1 differ, at most by 0; 'a' and 'b'"
    assert lines[5] == "4 files compared, 4 differ; 1 unpaired"


def test_numbers_within_the_tolerance_are_equal(root, runs):
    _, right = runs
    (right / "tables/x.tex").write_text("a & 0.51 [.4, .6]")
    assert differences(root, runs, "--tolerance", "0.02")[0] == 0
    assert differences(root, runs, "--tolerance", "0.002")[0] == 1
