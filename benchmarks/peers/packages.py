"""Packages a user could take instead: copt, pyproximal, and CVXPY with SCS."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable

import numpy as np
from instances import E1, E2, E3, Instance
from projections import soft

with contextlib.suppress(ImportError):  # off the clock; a missing one fails where it is used
    import copt
    from copt.constraint import TraceBall
with contextlib.suppress(ImportError):
    import pyproximal
    from pyproximal.optimization.primal import ADMM
with contextlib.suppress(ImportError):
    import cvxpy as cp

See = Callable[..., None]


def copt_splitting(one: E1, see: See, step: float, count: list[int]) -> None:
    """copt.minimize_three_split: l1 norm, then its trace ball; fixed step, from soft(M).

    The natural step, 1, is Dykstra's method and far slower; copt's line search starts
    there. So the step is tuned.
    """
    b, ball = one.M.ravel(), TraceBall(one.tau, one.shape)

    def quadratic(x: np.ndarray, return_gradient: bool = True) -> object:
        gap = x - b
        value = 0.5 * float(gap @ gap)
        return (value, gap) if return_gradient else value

    def projected(x: np.ndarray, s: float) -> np.ndarray:
        count[0] += 1
        return ball.prox(x, s)

    copt.minimize_three_split(
        quadratic,
        soft(b, one.lam),
        prox_1=lambda x, s: soft(x, one.lam * s),
        prox_2=projected,
        step_size=step,
        line_search=False,
        tol=0.0,
        max_iter=10**7,
        callback=lambda seen: see(seen["z"].reshape(one.shape)),
    )


def pyproximal_admm(one: E1, see: See, step: float, count: list[int]) -> None:
    """ADMM of pyproximal with its NuclearBall, and a user's prox for quadratic + l1."""
    b, lam = one.M.ravel(), one.lam

    class Data(pyproximal.ProxOperator):
        def __init__(self) -> None:
            super().__init__(None, False)

        def __call__(self, x: np.ndarray) -> float:
            return 0.5 * float(np.sum((x - b) ** 2)) + lam * float(np.abs(x).sum())

        def prox(self, x: np.ndarray, tau: float) -> np.ndarray:
            return soft((x + tau * b) / (1 + tau), lam * tau / (1 + tau))

    ball = pyproximal.NuclearBall(one.shape, one.tau, maxiter=200, xtol=1e-12)
    plain = ball.prox

    def counted(x: np.ndarray, tau: float) -> np.ndarray:
        count[0] += 1
        return plain(x, tau)

    ball.prox = counted
    start = soft(b, lam)
    ADMM(
        Data(),
        ball,
        x0=start,
        z0=start.copy(),
        tau=step,
        niter=10**7,
        callbackz=True,
        callback=lambda x, z: see(z.reshape(one.shape)),
    )


def cvxpy_scs(one: Instance, see: See, tol: float, seconds: float, compress: bool) -> None:
    """CVXPY with SCS as a user writes it; one answer, at the end.

    `compress` (E3 only) replaces the data by the R of their QR decomposition first.
    """
    X = cp.Variable(one.shape)
    if isinstance(one, E1):
        f = 0.5 * cp.sum_squares(X - one.M) + one.lam * cp.norm1(X)
    elif isinstance(one, E2):
        flat = one.A.reshape(one.b.size, -1)
        pieces = flat @ cp.vec(X, order="C") - one.b
        f = 0.5 * cp.sum_squares(X - one.M) + cp.max(pieces)
    else:
        f = _elastic_net(one, X, compress)
    problem = cp.Problem(cp.Minimize(f), [cp.normNuc(X) <= one.tau])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": the verifier will see
        problem.solve(
            solver="SCS", eps_abs=tol, eps_rel=tol, time_limit_secs=seconds, max_iters=10**7
        )
    if X.value is not None:
        see(np.asarray(X.value))


def _elastic_net(one: E3, X: object, compress: bool) -> object:
    n = one.b.size
    A, b = one.A.reshape(n, -1), one.b
    if compress:
        Q, A = np.linalg.qr(A)
        b = Q.T @ b
    fit = cp.sum_squares(A @ cp.vec(X, order="C") - b) / (2 * n)
    return fit + one.lam1 * cp.norm1(X) + one.lam2 * cp.sum_squares(X)
