"""`weakprox estimate --checkpoint --resume`: killed, resumed, refused, damaged."""

import json
from pathlib import Path

import numpy as np
import pytest

RUN = ("estimate", "m.npy", "--lam", 1, "--tau", 100, "--solver", "hcgm", "--tol", 1e-7)
KEPT = (*RUN, "--checkpoint", "run.safetensors", "--checkpoint-every", 0)


def test_a_run_in_two_parts_ends_at_the_same_bits(folder, weakprox):
    weakprox(*RUN, "--max-svds", 300, "-o", "whole.npy", "--quiet")
    part = weakprox(*KEPT, "--max-svds", 150, "--json")
    assert json.loads(part.stdout)["counts"]["svds"] == 150
    for _ in range(2):  # the same command line again and again
        rest = weakprox(*KEPT, "--resume", "--max-svds", 300, "-o", "rest.npy", "--json")
        assert (rest.exit_code, json.loads(rest.stdout)["counts"]["svds"]) == (3, 300)
        np.testing.assert_array_equal(np.load("whole.npy"), np.load("rest.npy"))


def test_resume_begins_where_there_is_nothing_yet(folder, weakprox):
    done = weakprox(*KEPT, "--resume", "--max-svds", 100)
    assert done.exit_code == 3
    assert Path("run.safetensors").is_file()


def test_what_is_refused(folder, weakprox, refused):
    weakprox(*KEPT, "--max-svds", 100)
    refused(*KEPT, says=("run.safetensors", "already exists"))
    refused(*KEPT, "--resume", "--seed", 1, says=("--resume", "another seed"))
    refused(*KEPT[:3], 2, *KEPT[4:], "--resume", says="another problem")
    refused(*RUN, "--resume", says="--resume: got True")
    refused(*RUN, "--checkpoint", "m.npy", says="one of its own")
    refused(*RUN, "--checkpoint", "x.npy", "-o", "x.npy", says="one of its own")
    refused(*RUN, "--checkpoint", "nowhere/run", says="does not exist")
    refused(*RUN, "--checkpoint", "a", "--checkpoint-every", -1, says="--checkpoint-every")


@pytest.mark.filterwarnings("default")
def test_a_damaged_file_is_one_line_of_warning(folder, weakprox):
    whole = weakprox(*RUN, "--max-svds", 300, "--json")
    weakprox(*KEPT, "--max-svds", 200)
    Path("run.safetensors").write_bytes(b"nothing")
    done = weakprox(*KEPT, "--resume", "--max-svds", 300, "--json")
    assert json.loads(done.stdout)["value"] == json.loads(whole.stdout)["value"]
    assert done.stderr.startswith("weakprox: ")
    assert "run.safetensors.previous" in done.stderr
    assert done.stderr.count("\n") == 1
    for name in ("run.safetensors", "run.safetensors.previous"):
        Path(name).write_bytes(b"nothing")
    bad = weakprox(*KEPT, "--resume")
    assert (bad.exit_code, bad.stderr.count("\n")) == (2, 1)
