"""One small matrix in which two sparse patterns stand above the noise."""

import numpy as np
import pytest
from typer.testing import CliRunner

from weakprox.cli import app


@pytest.fixture(scope="module", autouse=True)
def _short(short_searches):
    pass


@pytest.fixture(scope="session")
def matrix():
    rng = np.random.default_rng(3)
    left = rng.integers(1, 10, (24, 2)) * (rng.random((24, 2)) < 0.3)
    right = rng.integers(1, 10, (18, 2)) * (rng.random((18, 2)) < 0.3)
    return left @ right.T + rng.standard_normal((24, 18))


@pytest.fixture(scope="session")
def symmetric(matrix):
    return (matrix @ matrix.T) / 10


@pytest.fixture
def folder(tmp_path, monkeypatch, matrix, symmetric):
    """A working directory with m.npy and sym.npy."""
    monkeypatch.chdir(tmp_path)
    np.save("m.npy", matrix)
    np.save("sym.npy", symmetric)
    return tmp_path


@pytest.fixture
def weakprox():
    """Run a command line; returns the result with exit_code, stdout and stderr."""

    def run(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    return run


@pytest.fixture
def refused(weakprox, folder):
    """A command line that is answered by one line, code 2 and no new file."""

    def check(*words, says=()):
        before = sorted(folder.iterdir())
        done = weakprox(*words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("weakprox: ")
        assert done.stderr.count("\n") == 1
        for text in [says] if isinstance(says, str) else says:
            assert text in done.stderr
        assert sorted(folder.iterdir()) == before

    return check
