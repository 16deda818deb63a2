"""What all models share: callbacks, the certificate in notebooks, and a picture."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from selection._signals import sparse_low_rank
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from weakprox import SparseLowRank, SparseLowRankCV, Status
from weakprox.estimators._callbacks import SUPPORTED

M = sparse_low_rank()[1]
new = pytest.mark.skipif(not SUPPORTED, reason="scikit-learn before 1.9 has no callbacks")


class Recorder:
    """Counts what it hears of; ends the run after `most` looks."""

    def __init__(self, most=None):
        self.most, self.heard, self.values = most, [], []

    def setup(self, estimator, context):
        self.heard.append("setup")

    def teardown(self, estimator, context):
        self.heard.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, metadata=None):
        self.heard.append(f"end {context.task_name}")
        if context.task_name == "look":
            self.values.append(metadata["value"])
        return self.most is not None and len(self.values) >= self.most


@new
def test_callbacks_hear_of_every_look():
    recorder = Recorder()
    model = SparseLowRank(0.3, 15.0).set_callbacks(recorder).fit(M)
    assert recorder.heard[:2] == ["setup", "begin fit"]
    assert recorder.heard[-2:] == ["end fit", "teardown"]
    assert recorder.heard.count("end look") == len(model.result_.trace)
    np.testing.assert_allclose(recorder.values, model.result_.trace["value"])


@new
def test_a_callback_can_end_a_fit():
    model = SparseLowRank(0.3, 15.0, tol=1e-9).set_callbacks(Recorder(most=2)).fit(M)
    assert model.result_.status is Status.CALLBACK
    assert np.isfinite(model.matrix_).all()


@new
def test_callbacks_are_torn_down_after_errors():
    recorder = Recorder()
    with pytest.raises(ValueError, match="lam"):
        SparseLowRank(lam=-1.0).set_callbacks(recorder).fit(M)
    assert recorder.heard[-1] == "teardown"


class Propagated(Recorder):
    """The same, handed on by pipelines, as scikit-learn's own progress bar is."""

    max_propagation_depth = None


@new
def test_pipelines_hand_callbacks_on():
    recorder = Propagated()
    pipe = make_pipeline(StandardScaler(), SparseLowRank(0.1, 15.0)).set_callbacks(recorder)
    model = pipe.fit(M)[-1]
    assert recorder.heard.count("setup") == recorder.heard.count("teardown") == 1
    assert recorder.heard.count("end look") == len(model.result_.trace)
    assert not hasattr(model, "_skl_callbacks")


def test_without_callbacks_nothing_is_said(capsys):
    SparseLowRank(0.3, 15.0).fit(M)
    assert capsys.readouterr() == ("", "")


def test_grid_search_works():
    search = GridSearchCV(
        SparseLowRank(tau=15.0), {"lam": [0.1, 0.4]}, cv=[(np.arange(40), np.arange(40))]
    )
    assert search.fit(M).best_params_["lam"] in (0.1, 0.4)


@pytest.mark.parametrize("name", ["plain", "<script>alert(1)</script>"])
def test_notebooks_show_the_certificate(name):
    frame = pd.DataFrame(M, columns=[f"{name} {k}" for k in range(M.shape[1])])
    model = SparseLowRank(0.3, 15.0)
    before = model._repr_mimebundle_()["text/html"]
    assert "weakprox-certificate" not in before
    model.fit(frame)
    for shown in (model._repr_mimebundle_()["text/html"], model._repr_html_()):
        assert "The optimum lies between" in shown
        assert "<script>alert" not in shown
        assert shown.count("weakprox-certificate") == 1
    with sklearn.config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_models_draw_themselves():
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    model = SparseLowRankCV(n_lams=3, n_taus=3, cv=2).fit(M)
    display = model.plot()
    assert "optimum" in display.ax_.get_title()
    plt.close("all")


def test_an_unfitted_model_has_no_certificate():
    with pytest.raises(ValueError, match="not fitted"):
        _ = SparseLowRank().certificate_
